"""Which series of A is which of B, and how much each has to say about learning."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable

from trainforensics.model import Series
from trainforensics.signals import Curve, Signals

# What feeds a step is compared as data, not as a series.
PROVENANCE = frozenset({"shard", "doc_ids", "source", "domain", "language"})
# Set by a schedule or a count, not measured: without noise.
SCHEDULED = frozenset(
    {"learning_rate", "weight_decay", "momentum", "beta2", "batch_size", "world_size", "gradient_accumulation"}
    | {"epoch", "tokens_seen", "loss_scale", "sampling_ratio"}
)
COUNTS = frozenset({"epoch", "tokens_seen", "loss_scale"})  # of SCHEDULED, what follows from the run
LOSSES = ("train_loss", "val_loss", "val_metric", "reward", "grad_norm")
MACHINE = frozenset(
    {"tokens_per_sec", "step_time", "mfu", "gpu_util", "gpu_memory", "host_memory", "gpu_temperature", "gpu_clock"}
    | {"ecc_errors", "dataloader_time", "comm_time", "barrier_wait"}
)
_CLOCK = re.compile(
    r"(^|[/_. ])(time|timestamp|runtime|elapsed|eta|seconds|duration|second|ms)($|[/_. ])", re.IGNORECASE
)

LEADING, MEASURED, SETTING, UNMAPPED, OF_THE_MACHINE = range(5)


def importance(series: Series) -> int:
    """What a series' parting says: LEADING (losses, gradient norm) first, OF_THE_MACHINE (speed, memory) last."""
    if series.role in LOSSES:
        return LEADING
    if series.role in MACHINE or (series.role is None and _CLOCK.search(series.name)):
        return OF_THE_MACHINE
    if series.role in SCHEDULED:
        return SETTING
    return UNMAPPED if series.role is None else MEASURED


def pairs(a: Signals, b: Signals) -> tuple[list[tuple[Curve, Curve]], tuple[str, ...], tuple[str, ...]]:
    """Curves of the same series, the most telling first; names that only A, and that only B has.

    The same name and place (rank, layer, expert, domain) first; what is left over by role and place, where one curve
    each is left.
    """
    left, right = _by(a.every_curve(), _named), _by(b.every_curve(), _named)
    found = [(left.pop(key)[0], right.pop(key)[0]) for key in list(left) if key in right]
    more, others = _by(_flat(left), _placed), _by(_flat(right), _placed)
    alike = [k for k in more if k in others and len(more[k]) == len(others[k]) == 1 and more[k][0].series.role]
    found += [(more.pop(key)[0], others.pop(key)[0]) for key in alike]
    found.sort(key=lambda pair: (importance(pair[0].series), _rank_of_role(pair[0].series), -len(pair[0])))
    return found, _names(more), _names(others)


def _by(curves: Iterable[Curve], key: Callable[[Series], Hashable]) -> dict[Hashable, list[Curve]]:
    groups: dict[Hashable, list[Curve]] = {}
    for curve in curves:
        if len(curve) and curve.series.role not in PROVENANCE:
            groups.setdefault(key(curve.series), []).append(curve)
    return groups


def _named(series: Series) -> Hashable:
    return (series.name, series.rank, series.layer, series.expert, series.domain)


def _placed(series: Series) -> Hashable:
    return (series.role or series.name, series.rank, series.layer, series.expert, series.domain)


def _flat(groups: dict[Hashable, list[Curve]]) -> list[Curve]:
    return [curve for group in groups.values() for curve in group]


def _rank_of_role(series: Series) -> int:
    return LOSSES.index(series.role) if series.role in LOSSES else len(LOSSES)


def _names(groups: dict[Hashable, list[Curve]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(curve.name for curve in _flat(groups)))
