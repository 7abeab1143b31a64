"""The data changed its nature: source, mix, order or length."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import longer_samples
from trainforensics.causes.evidence.evaluation import trained, validated
from trainforensics.causes.evidence.gradient import gradient
from trainforensics.causes.evidence.ranks import lone_gap
from trainforensics.causes.evidence.rate import rate_jump
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.evidence.timing import periodic
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "data-shift"
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.05,
    "gradual-rise": 0.08,
    "divergence": 0.03,
    "data-shift": 0.6,
    "val-divergence": 0.1,
    "val-jump": 0.15,
    "eval-regression": 0.1,
    "resume-discontinuity": 0.05,
    "suspicious-low-loss": 0.15,
    "plateau": 0.04,
    "periodic-data-order": 0.15,
    "gradient-explosion": 0.03,
    "double-descent": 0.03,
    "rl-collapse": 0.1,
    "oscillation": 0.03,
    "throughput-drop": 0.05,
    "memory-growth": 0.03,
    "expert-collapse": 0.05,
    "rank-divergence": 0.03,
}

TEST = "compare source, length and duplicates of the samples before and after {}"
OF_THE_LOSS = frozenset({"instant-burst", "gradual-rise", "divergence", "oscillation"})


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [*periodic(case, CLEAR), *rate_jump(case, -STRONG)]
    if case.kind in OF_THE_LOSS:
        reasons += gradient(case, led=-HINT, quiet=CLEAR)
        reasons += validated(case, harmed=-HINT, unharmed=CLEAR)
        if case.incident.recovery == "diverging":
            reasons.append(Reason(-STRONG, "the loss runs away, which another mix of data would not make it do"))
    if case.kind != "resume-discontinuity":
        reasons += restart(case, near=-HINT)
    if case.kind in ("throughput-drop", "memory-growth"):
        return Weight(longer_samples(case, STRONG), TEST.format(case.onset))
    reasons += lone_gap(case, at_once=HINT)
    if case.kind == "expert-collapse":
        reasons += rooted(case, CLEAR, "data-shift")
    reasons += trained(case, moved=-HINT)
    for role in ("seq_len", "seq_len_max", "padding_fraction", "sampling_ratio", "batch_loss"):
        move = case.movement(role)
        if move is not None and move.widths > 6:
            reasons.append(Reason(CLEAR, f"{role} moved at the onset, from {move.before:.3g} to {move.at:.3g}"))
            break
    return Weight(reasons, TEST.format(case.onset))
