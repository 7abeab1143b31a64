"""The detector protocol: what a detector declares and how its parameters are typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from trainforensics.kinds import Kind
from trainforensics.model import Outcome
from trainforensics.signals import Signals


@dataclass(frozen=True, slots=True)
class Param:
    """One threshold: its name, default, and where the number comes from."""

    name: str
    default: float
    source: str


@dataclass(frozen=True, slots=True)
class Meta:
    """A detector's declaration.

    `needs`: roles that must be logged; "a|b" means any of them. `uses`: roles it looks at where logged; "*" means every
    series. Nothing undeclared is passed in.
    """

    kind: Kind
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    params: tuple[Param, ...] = ()
    scope: Literal["run", "group"] = "run"
    phase: Literal[1, 2] = 1
    status: Literal["stable", "preview"] = "stable"


Params = Mapping[str, float]


class Detector(Protocol):
    """What every module in detectors/<family>/ offers (modules satisfy it as they are)."""

    META: Meta
    __doc__: str | None

    def detect(self, signals: Signals, params: Params) -> Outcome:
        """Judge one run. Pure: no clock, no files, no randomness."""
        ...
