"""One curve in one panel of a figure: thinned, with limits that an outlier cannot flatten and NaN shown as marks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from trainforensics.report.text import number
from trainforensics.signals import Curve
from trainforensics.signals.curve import Bools, Floats, Ints

BUCKETS = 900  # a panel is about 900 pixels wide: the minimum and maximum of each is all that can be seen
LOG_FROM = 100.0  # largest to smallest value from which a positive series is shown on a log axis
ROOM = 8.0  # widths of the central 96 % of the values that the axis may span before it is cut
FEWEST_IN_FOCUS = 4
BESIDE_FOCUS = 2  # heights of the points in focus that the others may add above and below
MARKERS_BELOW = 120
LARGEST, DECADES = 1e150, 160.0  # what an axis can show with room for its ticks: numbers end at 1.8e308
NAN_COLOUR = "#D55E00"
SUPERSEDED_COLOUR = "#999999"


@dataclass(frozen=True, slots=True)
class Limits:
    """The visible range of a panel, and whether its axis is logarithmic."""

    low: float
    high: float
    log: bool


def thin(step: Ints, value: Floats, buckets: int = BUCKETS) -> Ints:
    """Indices, ascending, that keep the first, last, smallest and largest point of every bucket of steps.

    `step` and `value` have shape (n,) and are finite. Few points are all kept.
    """
    n = len(step)
    if n <= 4 * buckets:
        return np.arange(n)
    edges = np.searchsorted(step, np.linspace(step[0], step[-1], buckets + 1)[1:-1])
    starts = np.unique(np.concatenate(([0], edges[edges < n])))
    bucket = np.repeat(np.arange(len(starts)), np.diff(starts, append=n))
    kept = [starts, np.append(starts[1:], n) - 1]
    for extreme in (np.minimum, np.maximum):
        hits = np.flatnonzero(value == extreme.reduceat(value, starts)[bucket])
        kept.append(hits[np.diff(bucket[hits], prepend=-1) > 0])
    return np.unique(np.concatenate(kept))


def limits(value: Floats, *, allow_log: bool = True, focus: Bools | None = None) -> Limits:
    """The range to show of finite values: all of it, unless that would flatten what most of the points do.

    `focus`, shape (n,), marks the points that matter: the others may add twice their height above and below.
    """
    value = np.clip(value, -LARGEST, LARGEST)
    log = bool(allow_log and value.min() > 1 / LARGEST and value.max() >= LOG_FROM * value.min())
    scaled = np.log10(value) if log else value
    low, high = float(scaled.min()), float(scaled.max())
    bottom, top = (float(q) for q in np.quantile(scaled, (0.02, 0.98)))
    width = top - bottom
    if width > 0 and high - low > ROOM * width:
        low, high = max(low, bottom - ROOM / 2 * width), min(high, top + ROOM / 2 * width)
    if focus is not None and np.count_nonzero(focus) >= FEWEST_IN_FOCUS and np.ptp(scaled[focus]) > 0:
        bottom, top = float(scaled[focus].min()), float(scaled[focus].max())
        room = BESIDE_FOCUS * (top - bottom)
        low, high = max(low, bottom - room), min(high, top + room)
    margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    low, high = low - margin, high + margin
    return Limits(10 ** max(low, -DECADES), 10 ** min(high, DECADES), log) if log else Limits(low, high, log)


def draw(axes: Axes, curve: Curve, colour: str, text: str, *, scale: str = "auto", focus: int | None = None) -> None:
    """Draw a curve; `scale`: "auto", "linear" or "log2". Steps that a later process life repeated are shown in grey.

    `focus`: the values from this step on set the limits.
    """
    finite = curve.only_finite()
    if len(finite):
        view = limits(finite.value, allow_log=scale == "auto", focus=None if focus is None else finite.step >= focus)
        if curve.superseded is not None:
            _line(axes, curve.superseded, SUPERSEDED_COLOUR, 1)
        _line(axes, curve, colour, 2)
        _set_limits(axes, finite, view, scale)
        _mark_cut(axes, finite, axes.get_ylim(), colour)
    _mark_nonfinite(axes, curve)
    axes.set_ylabel(text, fontsize=8)
    axes.yaxis.set_label_coords(-0.092, 0.5)  # clear of a tick such as 0.0001725
    axes.tick_params(labelsize=8)
    axes.yaxis.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _line(axes: Axes, curve: Curve, colour: str, layer: int) -> None:
    """The curve as a line that is broken at non-finite points and where a process life ends."""
    finite = curve.only_finite()
    kept = thin(finite.step, finite.value) if len(finite) else np.zeros(0, dtype=int)
    if not len(kept):
        return
    piece = np.cumsum(~curve.finite)[curve.finite][kept] + finite.segment[kept]
    breaks = np.flatnonzero(np.diff(piece)) + 1
    x = np.insert(finite.step[kept].astype(float), breaks, np.nan)
    y = np.insert(np.clip(finite.value[kept], -LARGEST, LARGEST), breaks, np.nan)
    dots = len(kept) < MARKERS_BELOW or len(breaks) > len(kept) / 4  # a lone point has no line to be seen by
    axes.plot(x, y, color=colour, linewidth=0.9, marker="." if dots else "", markersize=3.5, zorder=layer)


def _set_limits(axes: Axes, finite: Curve, view: Limits, scale: str) -> None:
    lowest, highest = float(finite.value.min()), float(finite.value.max())
    if scale == "log2" and 1 / LARGEST < lowest <= highest < LARGEST:
        axes.set_ylim(lowest / 2, highest * 2)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"$2^{{{round(math.log2(value))}}}$"))
        return
    axes.set_ylim(view.low, view.high)  # before the scale, which would look for limits of its own
    if view.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value))))


def _mark_cut(axes: Axes, finite: Curve, view: tuple[float, float], colour: str) -> None:
    """Arrows at the edge for values outside the panel, the farthest with its number."""
    for beyond, edge, marker, farthest in (
        (finite.value > view[1], 0.96, "^", np.argmax),
        (finite.value < view[0], 0.04, "v", np.argmin),
    ):
        if not beyond.any():
            continue
        cut = finite.take(beyond)
        across = axes.get_xaxis_transform()
        at = cut.step[thin(cut.step, cut.value, 100)]
        axes.plot(at, np.full(len(at), edge), marker, color=colour, markersize=5, transform=across, zorder=4)
        peak = int(farthest(cut.value))
        late = 4 * (cut.step[peak] - finite.step[0]) > 3 * (finite.step[-1] - finite.step[0])
        axes.annotate(
            number(float(cut.value[peak])), (float(cut.step[peak]), edge), xycoords=across,
            xytext=(-6 if late else 6, -3), textcoords="offset points", ha="right" if late else "left", fontsize=8,
            color=colour, zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        )  # fmt: skip


def _mark_nonfinite(axes: Axes, curve: Curve) -> None:
    """Crosses on the upper edge where the value is NaN or infinite."""
    bad = curve.step[~curve.finite]
    if len(bad):
        at = bad[np.unique(np.linspace(0, len(bad) - 1, min(len(bad), 60)).astype(int))]
        axes.plot(
            at, np.full(len(at), 1.0), "x", color=NAN_COLOUR, markersize=5, transform=axes.get_xaxis_transform(),
            clip_on=False, zorder=5,
        )  # fmt: skip
