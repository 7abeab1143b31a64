"""How many samples, or tokens, a run had consumed at each step: as it logged them, else from its batch sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainforensics.blame.described import accumulation_steps, setting, whole
from trainforensics.blame.grid import log_grid
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Ints

MAX_STEPS = 20_000_000  # steps to lay out one by one, 320 MB
SAMPLES = frozenset(
    {"consumed_samples", "consumed_train_samples", "samples_seen", "examples_seen", "num_samples_seen",
     "train_samples_seen", "total_samples_seen"}
)  # fmt: skip
TOKENS = frozenset(
    {"consumed_tokens", "consumed_train_tokens", "tokens_seen", "n_tokens_seen", "num_tokens_seen",
     "num_input_tokens_seen", "tokens_consumed"}
)  # fmt: skip
GLOBAL_BATCH = ("global_batch_size", "global_train_batch_size")
RANK_BATCH = ("micro_batch_size", "per_device_train_batch_size", "batch_size_per_rank")
REPLICAS = ("data_parallel_size", "dp_size")
RAMP = ("rampup_batch_size", "rampup_batchsize")
SEQUENCE = ("seq_length", "sequence_length", "seq_len", "encoder_seq_length")


@dataclass(frozen=True, slots=True, eq=False)
class Consumed:
    """Step `step[i]` of the log's axis was fed what lies in [edge[i], edge[i + 1]); shapes (n,) and (n + 1,).

    `source` says what it is known from, `slack` by how many steps it may be off, `note` why.
    """

    step: Ints
    edge: Ints
    source: str
    slack: int = 0
    note: str = ""

    @property
    def total(self) -> int:
        """What was consumed by the end of the last step."""
        return int(self.edge[-1])

    def steps_of(self, position: Ints) -> Ints:
        """The step that was fed each position, which must lie in [edge[0], edge[-1])."""
        return self.step[np.searchsorted(self.edge, position, side="right") - 1]

    def span(self, after: int, upto: int) -> tuple[int, int]:
        """The positions [low, high) that fed steps (after, upto]."""
        low, high = np.searchsorted(self.step, (after, upto), side="right")
        return int(self.edge[low]), int(self.edge[high])


def consumed_samples(signals: Signals) -> Consumed | str:
    """Samples by step, or why they are not known."""
    return signals.derive("consumed-samples", lambda: _samples(signals))


def consumed_tokens(signals: Signals) -> Consumed | str:
    """Tokens by step: as logged, else samples times the configured sequence length; or why they are not known."""
    logged = _logged(signals, TOKENS, "tokens")
    if logged is not None:
        return logged
    samples, length = consumed_samples(signals), whole(setting(signals.config, SEQUENCE))
    if isinstance(samples, str):
        return samples.replace("consumed samples", "consumed tokens", 1)
    if not length:
        return "the log has no consumed tokens, the configuration no sequence length"
    return replace(samples, edge=samples.edge * length, source=f"{samples.source} of {length} tokens")


def _samples(signals: Signals) -> Consumed | str:
    if signals.axis.unit == "sample" and len(log_grid(signals)) > 1:
        return _own_axis(log_grid(signals), signals.axis.name)
    logged = _logged(signals, SAMPLES, "samples")
    return logged if logged is not None else _scheduled(signals)


def _own_axis(grid: Ints, name: str) -> Consumed:
    """The log has no other steps than the samples consumed by then."""
    start = max(0, int(grid[0] - (grid[1] - grid[0])))
    if grid[0] == 0:
        return Consumed(grid[1:], grid, f"the log's axis {name}")
    return Consumed(grid, np.append(start, grid), f"the log's axis {name}")


# --- as logged ---------------------------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    """The last part of a series' or column's name, words joined by underscores: "train/consumed samples"."""
    return re.sub(r"[^a-z0-9]+", "_", name.rsplit("/", 1)[-1].strip().lower())


def _logged(signals: Signals, names: frozenset[str], what: str) -> Consumed | str | None:
    """From the run's own counter, None where it logged none with two different values."""
    counters = [c.only_finite() for c in signals.every_curve() if plain_name(c.name) in names]
    counter = max(counters, key=lambda c: (c.series.rank in (None, 0), len(c)), default=None)
    if counter is None:
        return None
    last_of_each = np.append(np.diff(counter.step) > 0, True)
    step, count = counter.step[last_of_each], counter.value[last_of_each]
    if len(step) < 2 or count[0] == count[-1] or count[0] < 0 or count[-1] >= 2.0**53:
        return None
    falls = np.flatnonzero(np.diff(count) < 0)
    if len(falls):
        return f"the logged consumed {what} fall at step {step[falls[0] + 1]}: which data came next is not known"
    if step[-1] - step[0] > MAX_STEPS:
        return f"the log spans {step[-1] - step[0]} steps, more than {MAX_STEPS}"
    return _laid_out(step, count.astype(np.int64), _fed_at(signals, step, count), f"the logged consumed {what}")


def _fed_at(signals: Signals, step: Ints, count: np.ndarray[Any, Any]) -> bool:
    """Whether the counter stands before its own step's batch: a step with a training loss that has consumed nothing."""
    loss = signals.curve("train_loss")
    return loss is not None and count[0] == 0 and bool(np.isin(step[0], loss.step))


def _laid_out(step: Ints, count: Ints, before: bool, source: str) -> Consumed:
    """Every step between logged counts, which lie on a line where the batch is constant."""
    if before:  # the counts are those at the end of the step before
        rate = (count[-1] - count[-2]) // (step[-1] - step[-2])
        step, count = np.append(step - 1, step[-1]), np.append(count, count[-1] + rate)
    begin, held = _beginning(step, count)
    if begin < step[0]:
        step, count = np.append(begin, step), np.append(held, count)
    every = np.arange(step[0], step[-1] + 1)
    at = np.clip(np.searchsorted(step, every, side="right") - 1, 0, len(step) - 2)
    rise, run = count[at + 1] - count[at], step[at + 1] - step[at]
    edge = count[at] + rise * (every - step[at]) // run
    uneven = bool(np.any(np.diff(count) % np.diff(step)))
    note = "the batch size changes between logged points, where single steps are interpolated" if uneven else ""
    unseen = held > 0  # whether its steps count from 0 or 1 shows only where the log begins
    if unseen:
        note = "; ".join(filter(None, (note, "the log's beginning is missing, which would show what its steps count")))
    return Consumed(every[1:], edge, source, 1 if unseen else 0, note)


def _beginning(step: Ints, count: Ints) -> tuple[int, int]:
    """The step before the first logged interval, and the count then: zero where the log begins with the training."""
    first, gap = int(step[0]), int(step[1] - step[0])
    rate = (count[1] - count[0]) / gap
    start = first - gap if first - gap in (0, -1) else 0
    if start < first <= gap and count[0] <= rate * (first - start):
        return start, 0
    back = min(gap, int(count[0] // rate)) if rate else 0
    return first - back, int(count[0] - round(back * rate))


# --- from the batch size -----------------------------------------------------------------------------------------


def _scheduled(signals: Signals) -> Consumed | str:
    """From the global batch size and its ramp-up, as the configuration states them, for steps from the very first."""
    grid, config = log_grid(signals), signals.config
    logged = _logged_batch(signals)
    ramp, final = _ramp(config), global_batch(config)
    if logged is not None and not ramp:
        if logged.value.min() != logged.value.max():
            return "consumed samples are not logged, and the batch size changes: log them, or rampup_batch_size"
        final = int(logged.value[0])
    if not final:
        return "consumed samples are not known: neither they nor the global batch size are logged"
    if not len(grid) or grid[-1] > MAX_STEPS:
        return f"consumed samples are not known: the log has no steps from 1 to at most {MAX_STEPS}"
    first = 0 if grid[0] == 0 else 1
    step = np.arange(first, int(grid[-1]) + 1)
    divisor = _divisor(config)
    edge = ramped(ramp, final, divisor, len(step)) if ramp else np.arange(len(step) + 1) * (final // divisor * divisor)
    source = f"the ramp-up to a global batch of {final}" if ramp else f"a global batch of {final}"
    if first == 0:
        return Consumed(step, edge, source, 1, "steps are taken to count from 0")
    return Consumed(step, edge, source)


def global_batch(config: Mapping[str, Any]) -> int | None:
    """Samples of a step over all ranks: as stated, else rank's batch x replicas x accumulation, where all are."""
    stated = whole(setting(config, GLOBAL_BATCH))
    if stated:
        return stated
    each, replicas = whole(setting(config, RANK_BATCH)), whole(setting(config, REPLICAS))
    return each * replicas * accumulation_steps(config) if each and replicas else None


def ramped(ramp: tuple[int, int, int], final: int, divisor: int, steps: int) -> Ints:
    """Samples consumed before each of `steps` steps and after the last, shape (steps + 1,), as Megatron ramps up.

    `ramp`: first batch size, increment, samples over which it grows; `divisor`: batches are rounded down to it.
    """
    start, increment, samples = ramp
    each = samples / ((final - start) // increment)
    edge = [0]
    while len(edge) <= steps and edge[-1] <= samples:
        size = start + int(edge[-1] / each) * increment if each else final
        edge.append(edge[-1] + min(size, final) // divisor * divisor)
    rest = np.arange(1, steps + 2 - len(edge)) * (final // divisor * divisor) + edge[-1]
    return np.concatenate([np.array(edge, dtype=np.int64), rest])


def _ramp(config: Mapping[str, Any]) -> tuple[int, int, int] | None:
    said = setting(config, RAMP)
    parts = said.replace(",", " ").strip("[]() ").split() if isinstance(said, str) else said
    if not isinstance(parts, list | tuple) or len(parts) != 3:
        return None
    start, increment, samples = (whole(str(part).strip("'\"")) for part in parts)
    final = global_batch(config)
    if not start or not increment or samples is None or not final or final <= start or (final - start) % increment:
        return None
    return start, increment, samples


def _divisor(config: Mapping[str, Any]) -> int:
    """What batches are rounded down to where they need not be a multiple of the ranks' micro-batches."""
    if str(setting(config, ("decrease_batch_size_if_needed",))).lower() != "true":
        return 1
    return (whole(setting(config, RANK_BATCH)) or 1) * (whole(setting(config, REPLICAS)) or 1)


def _logged_batch(signals: Signals) -> Curve | None:
    curves = [
        c.only_finite() for c in signals.curves("batch_size") if "global" in c.name.lower() and "vs" not in c.name
    ]
    return max((c for c in curves if len(c)), key=len, default=None)
