"""One or a few batches held damaged or extreme samples."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import data, documents
from trainforensics.causes.evidence.evaluation import trained, validated
from trainforensics.causes.evidence.gradient import gradient
from trainforensics.causes.evidence.loss import growth, violence
from trainforensics.causes.evidence.precision import precision
from trainforensics.causes.evidence.ranks import lone_gap, lone_rank
from trainforensics.causes.evidence.rate import rate_jump
from trainforensics.causes.evidence.recovery import after_jump, lasting
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.evidence.timing import recurs, start
from trainforensics.causes.evidence.witnesses import in_siblings, rooted
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Weight

CAUSE = "bad-batch"
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.38,
    "gradual-rise": 0.04,
    "divergence": 0.06,
    "nan-onset": 0.14,
    "transient-nan": 0.42,
    "grad-nan": 0.25,
    "gradient-explosion": 0.2,
    "skipped-steps": 0.12,
    "scale-decay": 0.08,
    "loss-zero": 0.08,
    "rank-divergence": 0.06,
    "data-shift": 0.06,
    "suspect-shard": 0.4,
    "eval-invalid": 0.05,
    "val-jump": 0.03,
}


def window(case: Case) -> str:
    """The steps to replay, as text."""
    blame = case.incident.blame
    return f"steps {blame.window[0]}-{blame.window[1]}" if blame and blame.window else f"step {case.onset}"


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    doc = facts.data.suspect(case, "doc")
    reasons = [
        *data(case, proven=STRONG if doc else CLEAR, nothing=-HINT),
        *documents(case, few=HINT, many=-HINT),
        *(recurs(case, -HINT) if doc is None else ()),
        *lone_rank(case, CLEAR),
        *in_siblings(case, STRONG),
        *gradient(case, led=-CLEAR, same=HINT),
        *after_jump(case, alone=CLEAR, fast=HINT, slow=-CLEAR),
        *violence(case, -HINT),
        *lasting(case, -CLEAR),
        *rate_jump(case, -STRONG),
        *rooted(case, -CLEAR, "lr-anomaly", "resume-discontinuity"),
        *restart(case, near=-CLEAR),
        *validated(case, harmed=-CLEAR),
        *lone_gap(case, at_once=HINT, grew=-CLEAR),
        *trained(case, moved=CLEAR),
    ]
    if case.kind in ("nan-onset", "grad-nan", "transient-nan"):
        reasons += [*growth(case, climbed=-CLEAR, sudden=HINT), *start(case, early=-HINT)]
        reasons += precision(case, half=-HINT)
    return Weight(
        reasons,
        f"replay the batches of {window(case)} from an earlier checkpoint: an incident at the same step confirms it",
    )
