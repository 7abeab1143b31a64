"""One or a few batches held damaged or extreme samples."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evaluation import trained, validated
from trainforensics.causes.evidence import (
    data,
    documents,
    gradient,
    growth,
    in_siblings,
    lasting,
    lone_gap,
    lone_jump,
    lone_rank,
    precision,
    rate_jump,
    recovery,
    recurs,
    restart,
    rooted,
    start,
    violence,
)
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


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    lone = lone_jump(case, CLEAR)
    reasons = [
        *data(case, proven=STRONG if case.suspect("doc") else CLEAR, nothing=-HINT),
        *documents(case, few=HINT, many=-HINT),
        *(recurs(case, -HINT) if case.suspect("doc") is None else ()),
        *lone_rank(case, CLEAR),
        *in_siblings(case, STRONG),
        *gradient(case, led=-CLEAR, same=HINT),
        *lone,
        *recovery(case, fast=HINT, slow=0.0 if lone else -CLEAR),
        *violence(case, -HINT),
        *lasting(case, -CLEAR),
        *rate_jump(case, -STRONG),
        *rooted(case, -CLEAR, "lr-anomaly", "resume-discontinuity"),
        *restart(case, near=-CLEAR),
    ]
    reasons += validated(case, harmed=-CLEAR)
    reasons += lone_gap(case, at_once=HINT, grew=-CLEAR)
    if case.kind == "val-jump":
        reasons += trained(case, moved=CLEAR)
    if case.kind in ("nan-onset", "grad-nan", "transient-nan"):
        reasons += [*growth(case, climbed=-CLEAR, sudden=HINT), *start(case, early=-HINT)]
        reasons += precision(case, half=-HINT)
    return Weight(
        prior,
        tuple(reasons),
        f"replay the batches of {window(case)} from an earlier checkpoint: an incident at the same step confirms it",
    )
