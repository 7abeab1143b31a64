"""Which steps fed an incident: its occurrences, every other step with the same symptom, and how far back they reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainforensics.model import Incident
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Bools, Floats, Ints
from trainforensics.signals.noise import robust_sigma

NAN_KINDS = frozenset({"nan-onset", "transient-nan", "grad-nan", "eval-invalid"})
SCALE_KINDS = frozenset({"scale-decay", "skipped-steps", "underflow"})
BURST_KINDS = frozenset(
    {"instant-burst", "gradient-explosion", "divergence", "gradual-rise", "oscillation", "data-shift",
     "suspicious-low-loss", "loss-zero", "rank-divergence", "attention-collapse", "periodic-data-order"}
)  # fmt: skip
DATA_KINDS = NAN_KINDS | SCALE_KINDS | BURST_KINDS
OUTLIER = 6.0  # noise widths above the running median: the high-loss and high-grad-norm batches that join the events
OUTLIER_SHARE = 0.05  # a series that stands out more often than this has heavy tails, not outliers
MEMORY = 10  # steps an Adam first moment remembers, 1 / (1 - 0.9)


@dataclass(frozen=True, slots=True)
class Window:
    """Steps (after, upto] of the log's axis."""

    after: int
    upto: int


def core_window(step: int, grid: Ints, interval: tuple[int, int] | None = None) -> Window:
    """What one logged point at `step` can have seen: back to the point logged before it, or to the onset interval."""
    at = int(np.searchsorted(grid, step))
    before = int(grid[at - 1]) if at > 0 else step - (int(grid[1] - grid[0]) if len(grid) > 1 else 1)
    if interval is not None and interval[0] < step:
        before = min(before, interval[0])
    return Window(before, step)


def report_window(incident: Incident, grid: Ints, accumulation: int) -> tuple[int, int]:
    """The span that is shown: the onset's own window and the optimiser's memory before it, both ends included."""
    step = incident.onset_step or 0
    core = core_window(step, grid, incident.onset_interval)
    back = MEMORY if accumulation == 1 else max(2, MEMORY // accumulation)
    first = int(grid[0]) if len(grid) else step
    return max(min(first, step), min(core.after + 1, step - back)), step


def group_of(kind: str) -> frozenset[str]:
    """Kinds whose occurrences are pooled with this one's, because the same data makes them."""
    return next((group for group in (NAN_KINDS, SCALE_KINDS) if kind in group), BURST_KINDS)


def occurrences(incidents: Iterable[Incident]) -> Ints:
    """Every onset of some incidents, sorted."""
    steps = {step for i in incidents for step in (*i.occurrences, i.onset_step) if step is not None}
    return np.array(sorted(steps), dtype=np.int64)


def own_steps(incident: Incident, signals: Signals) -> Ints:
    """Steps at which one incident happened. A decaying scale is one long incident with an overflow at each halving."""
    steps = occurrences([incident])
    if incident.kind not in SCALE_KINDS or not len(steps):
        return steps
    first = min(steps[0], *(incident.onset_interval or (steps[0],)))
    symptoms = symptom_steps(SCALE_KINDS, signals)
    last = incident.end_step if incident.end_step is not None else np.inf
    return np.union1d(steps, symptoms[(symptoms >= first) & (symptoms <= last)])


def symptom_steps(group: frozenset[str], signals: Signals) -> Ints:
    """Steps that show the symptom of a group of kinds, whether or not a detector spoke of them."""
    if group is NAN_KINDS:
        found = [_nonfinite_onsets(c) for role in ("train_loss", "grad_norm") if (c := signals.curve(role))]
    elif group is SCALE_KINDS:
        found = [_overflows(signals)]
    else:
        found = [_outliers(c) for role in ("train_loss", "grad_norm") if (c := signals.curve(role))]
    return np.unique(np.concatenate(found)) if found else np.array([], dtype=np.int64)


def _nonfinite_onsets(curve: Curve) -> Ints:
    bad = ~curve.finite
    return curve.take(bad & ~np.concatenate([[False], bad[:-1]])).step


def _overflows(signals: Signals) -> Ints:
    """Steps whose update overflowed: told by the overflow flag, by the skip count, else by a falling loss scale."""
    for role in ("overflow", "skipped_steps"):
        curve = signals.curve(role)
        if curve is not None and np.nanmax(curve.value, initial=0.0) > 0:
            value = np.nan_to_num(curve.value)
            cumulative = bool(np.all(np.diff(value) >= 0)) and value[-1] > 1
            rising: Bools = np.diff(value, prepend=0.0) > 0 if cumulative else value > 0
            return curve.take(rising).step
    curve = signals.curve("loss_scale")
    if curve is None or len(curve) < 2:
        return np.array([], dtype=np.int64)
    falling: Bools = np.concatenate([[False], curve.value[1:] < curve.value[:-1]])
    return curve.take(falling).step


def _outliers(curve: Curve) -> Ints:
    """First steps of stretches far above the running median of the 31 points before."""
    finite = curve.only_finite()
    if len(finite) < 64:
        return np.array([], dtype=np.int64)
    residual = finite.value - running_median(finite.value)
    sigma = robust_sigma(residual[31:])
    high: Bools = residual > OUTLIER * max(sigma, 1e-12)
    high[:31] = False
    if high.mean() > OUTLIER_SHARE:
        return np.array([], dtype=np.int64)
    return finite.take(high & ~np.concatenate([[False], high[:-1]])).step


def running_median(value: Floats, width: int = 31) -> Floats:
    """Median of the `width` values before each one, shape (n,); the first `width` take the first full median."""
    windows = np.lib.stride_tricks.sliding_window_view(value, width)
    trailing = np.median(windows, axis=1)
    return np.concatenate([np.full(width, trailing[0]), trailing[:-1]])
