"""An excursion of the training loss on the step axis of the run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trainforensics.signals.curve import Curve
from trainforensics.signals.measure import Excursion


@dataclass(frozen=True, slots=True)
class LossEvent:
    """One excursion on the step axis of the run."""

    curve: Curve
    excursion: Excursion
    onset_step: int
    before_step: int
    knee_step: int
    peak_step: int
    end_step: int
    peak: float
    rolled_back: bool  # the run was restarted from before it: the judged curve no longer holds it

    @property
    def crest(self) -> float:
        """The level at the peak: that of one point, or the median of as many as the climb was judged by."""
        e, value = self.excursion, self.curve.only_finite().value
        around = value[max(0, e.peak - e.scale // 2) : e.peak + (e.scale + 1) // 2]
        return float(np.median(around)) if len(around) else self.peak

    @property
    def late(self) -> float:
        """The level at the end of the log: the median of the last 16 points that belong to the climb."""
        e = self.excursion
        return float(np.median(self.curve.only_finite().value[max(e.onset, e.end - 15) : e.end + 1]))

    @property
    def lasting(self) -> bool:
        """Never again below half of its height: a divergence."""
        return not self.excursion.returned

    @property
    def sudden(self) -> bool:
        """Within a few logged points."""
        return self.excursion.shape == "burst"


def placed(curve: Curve, found: tuple[Excursion, ...], *, rolled_back: bool = False) -> list[LossEvent]:
    """Excursions of the finite points of a curve on its step axis."""
    finite = curve.only_finite()
    ends_in_nan = not np.isfinite(curve.value[-1])
    return [_place(curve, finite, _run_away(e) if ends_in_nan else e, rolled_back) for e in found]


def _run_away(e: Excursion) -> Excursion:
    """An excursion that the log leaves unfinished because what follows is not finite never came back."""
    return replace(e, recovery="diverging") if e.recovery == "ongoing" and not e.returned else e


def _place(curve: Curve, finite: Curve, e: Excursion, rolled_back: bool) -> LossEvent:
    step = finite.step
    return LossEvent(
        curve,
        e,
        onset_step=int(step[e.onset]),
        before_step=int(step[max(e.onset - 1, 0)]),
        knee_step=int(step[e.knee]),
        peak_step=int(step[e.peak]),
        end_step=int(step[e.end]),
        peak=float(finite.value[e.peak]),
        rolled_back=rolled_back,
    )
