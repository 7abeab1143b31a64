"""A number left the range of its type: fp16, a softmax, log 0, a division by 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import data
from trainforensics.causes.evidence.loss import growth, violence
from trainforensics.causes.evidence.precision import precision, scale
from trainforensics.causes.evidence.rate import rate_jump, skipped
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, HINT, PROOF, STRONG, Reason, Weight

CAUSE = "numeric-overflow"
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.07,
    "lr-anomaly": 0.05,
    "gradual-rise": 0.06,
    "divergence": 0.1,
    "nan-onset": 0.38,
    "transient-nan": 0.25,
    "grad-nan": 0.4,
    "loss-zero": 0.22,
    "scale-decay": 0.33,
    "skipped-steps": 0.35,
    "underflow": 0.45,
    "eval-invalid": 0.15,
    "gradient-explosion": 0.05,
    "resume-discontinuity": 0.03,
    "plateau": 0.04,
    "vanishing-gradient": 0.06,
    "attention-collapse": 0.05,
    "activation-outlier": 0.2,
}
ABSURD = 1e30  # half precision ends at 6.6e4, single precision at 3.4e38; no loss of a model comes near


def attention(case: Case) -> list[Reason]:
    """Attention logits or activations that grew before the onset."""
    for role in ("attention_logit_max", "activation_max", "activation_norm"):
        move = case.movement(role)
        if move is not None and (move.lead >= 3 or move.widths > 5):
            return [Reason(HINT, f"{role} was at {move.at:.3g} at the onset, against {move.before:.3g} before")]
    return []


def infinite(case: Case) -> list[Reason]:
    """A first bad value that is infinite: a number grew too large; NaN may come from anywhere."""
    curve = case.curve(case.incident.role) if case.incident.role else None
    at = curve.at(case.onset) if curve is not None else -1
    if curve is None or at < 0 or not np.isinf(curve.value[at]):
        return []
    text = (
        f"the first bad value is {curve.value[at]:+.0f}, not NaN: a number out of range, a logarithm of 0 or a division"
    )
    return [Reason(CLEAR, text)]


def absurd(case: Case) -> list[Reason]:
    """A finite value that no loss has: sums of log 0 in single precision, or its largest number, come out so."""
    curve = case.curve("train_loss") if case.kind in ("instant-burst", "divergence") else None
    at = curve.at(case.incident.peak_step or case.onset) if curve is not None else -1
    if curve is None or at < 0 or not ABSURD < abs(curve.value[at]) < np.inf:
        return []
    return [Reason(PROOF, f"{curve.value[at]:.2g} is no loss: a logarithm of 0, or a number at the end of its range")]


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    nan = case.kind in (
        "nan-onset",
        "grad-nan",
        "transient-nan",
        "loss-zero",
        "scale-decay",
        "skipped-steps",
        "underflow",
        "vanishing-gradient",
    )
    reasons = [
        *precision(case, half=CLEAR if nan else HINT, wide=-CLEAR if nan else -HINT),
        *scale(case, HINT),
        *data(case, proven=-CLEAR),
        *rate_jump(case, -CLEAR),
        *rooted(case, HINT, "scale-decay", "grad-nan"),
        *attention(case),
        *violence(case, HINT),
        *absurd(case),
        *skipped(case, STRONG),
    ]
    follows, kept = facts.recovery.turns_nan(case), facts.precision.of_run(case)
    if follows is not None:
        text = f"{follows.kind} follows at {follows.onset_step}"
        reasons.append(Reason(STRONG if kept == "fp16" else CLEAR, text))
    if case.kind == "loss-zero" and facts.gradient.zero_share(case) > 0.5:
        reasons.append(Reason(-CLEAR, "gradient norms are 0, not NaN"))
    elif nan and case.kind != "scale-decay" and kept not in ("fp32", "bf16"):
        reasons += growth(case, climbed=-HINT, sudden=HINT)
    if nan:
        reasons += infinite(case)
    return Weight(reasons, _test(case))


def _test(case: Case) -> str:
    """A wider type, or, where the run has it already, the operation that left its domain."""
    where = f"repeat the steps before {case.onset}"
    if facts.precision.of_run(case) in ("fp32", "bf16"):
        found = "a logarithm, root or division out of its domain, or an exponential of a large number"
        return f"{where} and stop at the first operation whose result is not finite: {found} confirms it"
    return f"{where} in bf16 or fp32 with the same batches: no incident confirms it"
