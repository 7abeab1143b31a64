"""What the configuration says of the learning-rate schedule: its shape, whether it comes once, where it ends."""

from __future__ import annotations

import re

from trainforensics.signals.run import Signals
from trainforensics.signals.task import planned_steps

DECAY = re.compile(r"cosine|linear|polynomial")
PLATEAU = re.compile(r"plateau")
_CYCLES = re.compile(r"restart|cycl", re.IGNORECASE)
_SCHEDULE_KEY = re.compile(r"(lr_)?sched|decay_style")
_DECAY_ENDS = ("lr_decay_iters", "lr_decay_steps")  # where a decay may end before the run does


def declared(signals: Signals, shape: re.Pattern[str]) -> str | None:
    """The schedule that the configuration names, if it is of this shape."""
    return next(
        (str(v) for k, v in signals.config.items() if _SCHEDULE_KEY.search(k.lower()) and shape.search(str(v).lower())),
        None,
    )


def single_decay(signals: Signals) -> bool:
    """Whether no cycles are declared; half a cycle is the way down."""
    cycles = signals.config.get("num_cycles")
    return declared(signals, _CYCLES) is None and not (isinstance(cycles, int | float) and cycles > 0.5)


def decay_end(signals: Signals) -> int | None:
    """The step at which the decay is to end: its own length, else that of the run; None where neither is stated."""
    return next(iter(planned_steps(signals, *_DECAY_ENDS)), None)
