"""The detector protocol: what a detector declares, how its parameters are typed, and the finding of a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from trainforensics.kinds import Kind
from trainforensics.model import Evidence, Finding, Outcome
from trainforensics.signals import Curve, Signals


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


def change_at(
    kind: Kind, curve: Curve, step: int, before: int, confidence: float, summary: str, evidence: tuple[Evidence, ...]
) -> Finding:
    """The finding of a change that a curve makes at one step and had not made at `before`, the last step until then."""
    return Finding(
        kind=kind.name,
        series=curve.name,
        role=curve.series.role,
        onset_step=step,
        onset_interval=(min(before, step), step),
        occurrences=(step,),
        peak_step=step,
        confidence=confidence,
        summary=summary,
        evidence=evidence,
    )
