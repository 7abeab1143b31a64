"""One hypothesis a file: where it is thinkable, what speaks for it and against it, what would settle it."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

HYPOTHESES = (
    "attention", "bad_batch", "bad_shard", "batch_norm", "batch_size", "capacity", "comm_race", "data_shift",
    "dataloader", "environment", "eval_change", "frozen_graph", "hardware", "incomplete_checkpoint", "initialisation",
    "labels", "learning_rate", "logging_artefact", "loss_scaling", "memory_leak", "network", "normalisation",
    "numeric_overflow", "optimizer_state", "overfitting", "rank_desync", "reward_signal", "router", "schedule",
    "storage", "warmup",
)  # fmt: skip


@cache
def by_cause() -> dict[str, ModuleType]:
    """The modules by the cause they weigh: `PRIORS` says for which kinds of incident, `weigh` how likely by a case."""
    modules = (importlib.import_module(f"{__name__}.{name}") for name in HYPOTHESES)
    return {str(module.CAUSE): module for module in modules}
