"""Settings of the tool: command line > environment (TRAINFORENSICS_*) > trainforensics.toml > [tool.trainforensics]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Effective settings of one call. `params` overrides detector thresholds: kind -> parameter -> value."""

    out: Path = Path("trainforensics-out")
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    map: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 1
    plots: bool = True
    fail_on: str = "high"
    require: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def wants(self, kind: str, family: str) -> bool:
        """Whether --select/--ignore let a kind through."""
        selected = not self.select or kind in self.select or family in self.select
        return selected and kind not in self.ignore and family not in self.ignore
