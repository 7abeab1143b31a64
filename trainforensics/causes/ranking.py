"""All hypotheses weighed for each incident and turned into probabilities."""

from __future__ import annotations

import math
from dataclasses import replace

from trainforensics.causes.case import PACE_KINDS, Case
from trainforensics.causes.hypotheses import by_cause
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight
from trainforensics.model import Cause, Incident
from trainforensics.signals import Signals

UNKNOWN = "unknown"
UNKNOWN_PRIOR = 0.1  # what no hypothesis covers, for kinds with several thinkable causes
SHOWN = 6
LEAST = 0.02  # less likely causes are not listed


def rank(incidents: tuple[Incident, ...], signals: Signals) -> tuple[Incident, ...]:
    """The incidents with `causes`, likeliest first; their confidences and what is not listed sum to 1."""
    return tuple(replace(i, causes=_causes(Case(i, signals, incidents))) for i in incidents)


def _causes(case: Case) -> tuple[Cause, ...]:
    thinkable = {cause: module for cause, module in by_cause().items() if case.kind in module.PRIORS}
    priors = {cause: float(module.PRIORS[case.kind]) for cause, module in thinkable.items()}
    weights: dict[str, Weight] = {cause: module.weigh(case) for cause, module in thinkable.items()}
    known = sum(priors.values())
    priors[UNKNOWN] = max(UNKNOWN_PRIOR, 1.0 - known) if known < 0.5 else UNKNOWN_PRIOR
    weights[UNKNOWN] = _unknown(case, weights)
    odds = {cause: priors[cause] * math.exp(_balance(weight)) for cause, weight in weights.items()}
    total = sum(odds.values())
    ranked = sorted(((odds[cause] / total, cause, weight) for cause, weight in weights.items()), key=lambda r: -r[0])
    return tuple(_cause(*entry) for i, entry in enumerate(ranked[:SHOWN]) if i == 0 or entry[0] >= LEAST)


def _balance(weight: Weight) -> float:
    return sum(reason.points for reason in weight.reasons)


def _unknown(case: Case, weights: dict[str, Weight]) -> Weight:
    """What remains. It gains where what is logged speaks for no hypothesis, on balance, and loses where it does."""
    best = max(map(_balance, weights.values()), default=0.0)
    test = PACE_TEST if case.kind in PACE_KINDS else TEST
    if best < HINT:
        return Weight((Reason(HINT, "no logged signal speaks for any particular cause"),), test)
    if best >= CLEAR:
        return Weight((Reason(-HINT, "a logged signal speaks for a particular cause"),), test)
    return Weight((), test)


PACE_TEST = "log the seconds a step spends on data, computation, communication and saving, for every rank"
TEST = "log gradient norm, learning rate, loss scale and batch ids at every step, and replay from the last checkpoint"


def _cause(confidence: float, cause: str, weight: Weight) -> Cause:
    ordered = sorted(weight.reasons, key=lambda r: -abs(r.points))
    return Cause(
        cause,
        round(confidence, 4),
        tuple(r.text for r in ordered if r.points > 0),
        tuple(r.text for r in ordered if r.points < 0),
        weight.test,
    )
