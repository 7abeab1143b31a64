"""What the configuration says of the learning-rate schedule: its shape, whether it comes once, where it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainforensics.signals.run import Signals
from trainforensics.signals.task import planned_steps, stated

ANY = re.compile(r".")
DECAY = re.compile(r"cosine|linear|polynomial")
PLATEAU = re.compile(r"plateau")
_CYCLES = re.compile(r"restart|cycl", re.IGNORECASE)
_SCHEDULE_KEY = re.compile(r"(lr_)?sched|decay_style")
_CYCLE_KEY = re.compile(r"(^|lr_|sched\w*_|cosine_|anneal\w*_)(restart|cycl)\w*(?<!momentum)$|(^|_)t_?(0|mult)$")
_STEPPED = re.compile(r"^(multi)?_?step(_?lr)?$")
_SIZE, _MILESTONES, _FACTOR = re.compile(r"step_?size$"), re.compile(r"milestones$"), re.compile(r"^(lr_)?gamma$")
_INTERVAL, _BATCHES = re.compile(r"(lr|sched)\w*interval$"), re.compile(r"step|iter|batch|update")
_WARMUP = re.compile(r"^(lr_|num_)?warmup_(step|iter)(s|ations)$")
_NO_CUT = 0.9  # a factor near one is a slow exponential decay
_DECAY_ENDS = ("lr_decay_iters", "lr_decay_steps")  # where a decay may end before the run does


def declared(signals: Signals, shape: re.Pattern[str]) -> str | None:
    """The schedule that the configuration names, if it is of this shape."""
    return next(
        (str(v) for k, v in signals.config.items() if _SCHEDULE_KEY.search(k.lower()) and shape.search(str(v).lower())),
        None,
    )


def single_decay(signals: Signals) -> bool:
    """Whether no cycles are declared; half a cycle is the way down, and one is as good as none."""
    cycles = signals.config.get("num_cycles")
    if declared(signals, _CYCLES) is not None or (isinstance(cycles, int | float) and cycles > 0.5):
        return False
    return not any(_CYCLE_KEY.search(key) and _repeats(value) for key, value in stated(signals))


def _repeats(value: Any) -> bool:
    return value is True or isinstance(value, list | tuple) or (isinstance(value, int | float) and value > 1)


def decay_end(signals: Signals) -> int | None:
    """The step at which the decay is to end: its own length, else that of the run; None where neither is stated."""
    return next(iter(planned_steps(signals, *_DECAY_ENDS)), None)


@dataclass(frozen=True, slots=True)
class StepDecay:
    """A declared decay by cuts: its name, the factor of each, and when the first is due, in steps or in epochs."""

    name: str
    factor: float
    due: int
    by_epoch: bool


def step_decay(signals: Signals) -> StepDecay | None:
    """The declared decay by cuts; None where there is none, or its factor or first cut is not stated."""
    name = declared(signals, re.compile(r"step"))
    factor = next(_numbers(signals, _FACTOR), None)
    due = next(_numbers(signals, _SIZE), None) or next(_numbers(signals, _MILESTONES), None)
    if name is None or not _STEPPED.search(name.lower()) or factor is None or due is None:
        return None
    if not 0 < factor < _NO_CUT or due < 1:
        return None
    interval = next((str(value).lower() for key, value in stated(signals) if _INTERVAL.search(key)), "epoch")
    return StepDecay(name, factor, int(due), _BATCHES.match(interval) is None)


def _numbers(signals: Signals, key: re.Pattern[str]) -> Iterator[float]:
    for name, value in stated(signals):
        first = value[0] if isinstance(value, list | tuple) and value else value
        if key.search(name) and isinstance(first, int | float) and not isinstance(first, bool):
            yield float(first)


def warmup_steps(signals: Signals) -> int | None:
    """The declared steps of the warm-up; None where they are not stated."""
    return next((v for k, v in stated(signals) if _WARMUP.search(k) and isinstance(v, int) and v > 1), None)
