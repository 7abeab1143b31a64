"""The dynamic loss scale did not fit: it fell without recovering, sat on its floor, or was not restored."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import data
from trainforensics.causes.evidence.precision import precision, scale
from trainforensics.causes.evidence.rate import skipped
from trainforensics.causes.weight import CLEAR, HINT, PROOF, STRONG, Reason, Weight

CAUSE = "loss-scaling"
PRIORS: Mapping[str, float] = {
    "scale-decay": 0.36,
    "skipped-steps": 0.35,
    "underflow": 0.3,
    "nan-onset": 0.03,
    "transient-nan": 0.06,
    "grad-nan": 0.05,
    "divergence": 0.03,
    "resume-discontinuity": 0.05,
    "instant-burst": 0.02,
    "lr-anomaly": 0.05,
    "vanishing-gradient": 0.06,
}


def _not_restored(case: Case) -> list[Reason]:
    """The scale on both sides of a restart."""
    scales = facts.precision.scale_across(case)
    if scales is None:
        return []
    before, after = scales
    rate = facts.rate.around(case)
    if facts.precision.scale_lost(case):
        more = [Reason(-STRONG, "nor does the learning rate join: more than the scale is lost")]
        told = Reason(PROOF, f"the loss scale was {before:g} before the restart and {after:g} after it")
        return [told, *(more if rate is not None and rate.jump > 1.0 else [])]
    return [Reason(-CLEAR, f"the loss scale joins ({before:g}, {after:g})")]


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [*scale(case, CLEAR), *precision(case, half=HINT, wide=-STRONG), *data(case, proven=-HINT)]
    floor = facts.precision.scale_floor(case)
    if floor is not None:
        reasons.append(Reason(HINT, f"the loss scale ends on its floor of {floor:g}"))
    reasons += skipped(case, STRONG)
    if case.kind == "resume-discontinuity":
        reasons += _not_restored(case)
    elif case.signals.curve("loss_scale") is None:
        small = case.kind in ("underflow", "vanishing-gradient") and facts.precision.of_run(case) == "fp16"
        text = "no loss scale is logged" + (
            ", so perhaps small gradients are not lifted into its range" if small else ""
        )
        reasons.append(Reason(HINT if small else -HINT, text))
    held = "resume with the loss scale restored" if case.kind == "resume-discontinuity" else "hold the loss scale"
    return Weight(reasons, f"{held}, or train in bf16: no skipped steps confirms it")
