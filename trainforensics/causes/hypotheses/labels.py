"""Labels are masked, shifted, out of range or leaked."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.timing import start
from trainforensics.causes.evidence.witnesses import said
from trainforensics.causes.weight import CLEAR, HINT, PROOF, Reason, Weight

CAUSE = "labels"
PRIORS: Mapping[str, float] = {
    "loss-zero": 0.42,
    "bad-start": 0.2,
    "suspicious-low-loss": 0.4,
    "eval-invalid": 0.28,
    "transient-nan": 0.05,
    "nan-onset": 0.03,
    "grad-nan": 0.02,
    "val-divergence": 0.04,
    "double-descent": 0.15,
    "instant-burst": 0.02,
    "eval-regression": 0.03,
    "plateau": 0.03,
}
BROKEN = frozenset({"nan-onset", "divergence", "loss-zero"})


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = said(
        case, r"all labels.*(mask|ignored|-100)|label.*out of (range|bounds)|no (valid )?(labels|targets)", PROOF
    )
    if case.kind == "loss-zero":
        reasons += start(case, early=CLEAR, late=-HINT)
        if facts.gradient.zero_share(case) > 0.5 and not facts.loss.climbed_before(case):
            text = "loss and gradient norm are exactly 0 together and nothing jumped before: no label counts any more"
            reasons.append(Reason(CLEAR, text))
    sound = not any(other.kind in BROKEN for other in case.incidents)  # else the evaluation tells of broken weights
    if case.kind == "eval-invalid" and sound and facts.evaluation.not_finite(case):
        reasons.append(Reason(CLEAR, "the evaluation is no number, as without a label that counts or out of range"))
    return Weight(
        reasons,
        "count unmasked labels in the first batches and check their range; overfit a single batch",
    )
