"""All hypotheses weighed for each incident and turned into probabilities."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace

from trainforensics.causes.case import PACE_KINDS, Case
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight
from trainforensics.model import Cause, Incident
from trainforensics.signals import Signals

HYPOTHESES = (
    "attention", "bad_batch", "bad_shard", "batch_norm", "batch_size", "capacity", "comm_race", "data_shift",
    "dataloader", "environment", "eval_change", "frozen_graph", "hardware", "incomplete_checkpoint", "initialisation",
    "labels", "learning_rate", "logging_artefact", "loss_scaling", "memory_leak", "network", "normalisation",
    "numeric_overflow", "optimizer_state", "overfitting", "rank_desync", "reward_signal", "router", "schedule",
    "storage", "warmup",
)  # fmt: skip
UNKNOWN = "unknown"
UNKNOWN_PRIOR = 0.1  # what no hypothesis covers, for kinds with several thinkable causes
SHOWN = 6
LEAST = 0.02  # less likely causes are not listed


def rank(incidents: tuple[Incident, ...], signals: Signals) -> tuple[Incident, ...]:
    """The incidents with `causes`, likeliest first; their confidences and what is not listed sum to 1."""
    return tuple(replace(i, causes=_causes(Case(i, signals, incidents))) for i in incidents)


def _causes(case: Case) -> tuple[Cause, ...]:
    weights = {}
    for name in HYPOTHESES:
        module = importlib.import_module(f"trainforensics.causes.{name}")
        weight: Weight | None = module.weigh(case)
        if weight is not None:
            weights[str(module.CAUSE)] = weight
    weights[UNKNOWN] = _unknown(case, weights)
    odds = {cause: w.prior * math.exp(sum(r.points for r in w.reasons)) for cause, w in weights.items()}
    total = sum(odds.values())
    ranked = sorted(((odds[cause] / total, cause, weight) for cause, weight in weights.items()), key=lambda r: -r[0])
    return tuple(_cause(*entry) for i, entry in enumerate(ranked[:SHOWN]) if i == 0 or entry[0] >= LEAST)


def _unknown(case: Case, weights: dict[str, Weight]) -> Weight:
    """What remains. It gains where what is logged speaks for no hypothesis, on balance, and loses where it does."""
    best = max((sum(r.points for r in w.reasons) for w in weights.values()), default=0.0)
    known = sum(w.prior for w in weights.values())
    prior = max(UNKNOWN_PRIOR, 1.0 - known) if known < 0.5 else UNKNOWN_PRIOR
    test = PACE_TEST if case.kind in PACE_KINDS else TEST
    if best < HINT:
        return Weight(prior, (Reason(HINT, "no logged signal speaks for any particular cause"),), test)
    if best >= CLEAR:
        return Weight(prior, (Reason(-HINT, "a logged signal speaks for a particular cause"),), test)
    return Weight(prior, (), test)


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
