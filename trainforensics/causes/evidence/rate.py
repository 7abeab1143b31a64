"""The learning rate at the onset."""

from __future__ import annotations

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason


def rate_jump(case: Case, points: float) -> list[Reason]:
    """A jump of the learning rate at the onset, or (half the points) a late rise up to it."""
    rate = facts.rate.around(case)
    if rate is not None and rate.jump == 1.0 and rate.ramp > 1.0:
        return reason(
            points / 2, f"the learning rate rose {rate.ramp:.3g}-fold from {rate.ramp_from} to {rate.now:.3g}"
        )
    if rate is None or rate.jump == 1.0:
        return []
    return reason(points, f"the learning rate jumped {rate.jump:.3g}-fold at {rate.jump_step}, to {rate.now:.3g}")


def rate_level(case: Case, high: float = 0.0, low: float = 0.0) -> list[Reason]:
    """Where the learning rate stands against the highest so far; one that never changed says nothing."""
    rate = facts.rate.around(case)
    if rate is None or rate.constant or rate.peak <= 0 or rate.jump > 1.0 or facts.timing.early(case):
        return []
    if rate.share >= 0.9:
        return reason(high, f"the learning rate is {rate.now:.3g}, {rate.share:.0%} of its highest so far")
    if rate.share <= 0.2:
        return reason(low, f"the learning rate is down to {rate.now:.3g}, {rate.share:.0%} of its highest")
    return []


def no_rate(case: Case, points: float) -> list[Reason]:
    """A rate of exactly 0, for kinds that an update would have to make."""
    if not facts.rate.is_zero(case) or case.kind in ("lr-anomaly", "plateau"):
        return []
    return reason(points, "the learning rate is 0 here, so no update can have done it")


def declared_rate(case: Case, points: float) -> list[Reason]:
    """A rate that is still a small part of the declared one, so hardly too high."""
    rates = facts.rate.far_below_declared(case)
    if rates is None:
        return []
    now, declared = rates
    return reason(
        points, f"the learning rate is only {now:.3g} here, {now / declared:.0%} of the declared {declared:.3g}"
    )


def skipped(case: Case, points: float) -> list[Reason]:
    """Updates skipped for overflow from the onset on, which leave a schedule that begins at 0 there."""
    if case.kind != "lr-anomaly" or not facts.rate.is_zero(case):
        return []
    other = case.beside("scale-decay", "skipped-steps", "grad-nan")
    if other is None or (other.onset_step or 0) < case.onset - case.cadence:
        return []
    return reason(points, f"{other.kind} from {other.onset_step} on: skipped updates leave the schedule at its start")
