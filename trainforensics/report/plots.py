"""The figures of a report: the run's timeline, and each incident close up. Colours are the Okabe-Ito palette.

Figures are made without the pyplot state machine, whose import alone costs most of a second.
"""

from __future__ import annotations

import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from trainforensics.kinds import Severity
from trainforensics.model import Incident, RunResult
from trainforensics.report import panel
from trainforensics.report.narrative import TIMELINE, Page, alarms, figure_paths, heading, runs_on, told_effects
from trainforensics.report.text import capital, label, listing, number, one_line
from trainforensics.signals import Curve, Signals
from trainforensics.signals.pace import WALL_TIME, clock_durations

__all__ = ["close_up_of", "draw", "figure_paths", "timeline"]

DPI, WIDTH, PANEL_HEIGHT = 110, 9.0, 1.35
ALARM: Mapping[Severity, str] = {"critical": "#D55E00", "high": "#D55E00", "medium": "#E69F00", "low": "#999999"}
RESTART, CHECKPOINT, SAFE, OTHER = "#777777", "#0072B2", "#009E73", "#5A5A5A"
ROLES = (
    ("train_loss", "loss", "#0072B2", "auto"),
    ("val_loss", "validation loss", "#56B4E9", "auto"),
    ("reward", "reward", "#56B4E9", "auto"),
    ("grad_norm", "gradient norm", "#009E73", "auto"),
    ("learning_rate", "learning rate", "#CC79A7", "linear"),
    ("loss_scale", "loss scale", "#000000", "log2"),
    ("entropy", "entropy", "#000000", "auto"),
)
SETTINGS = frozenset({"learning_rate", "loss_scale"})  # of interest only where they change
MAX_PANELS = 6
CONTEXT_POINTS = 40  # logged points shown on either side of an incident, at least
MAX_KEYS = 8
FEWEST_POINTS = 3  # that a series beside the incident's own must have to be worth a panel
LINE_LENGTH, KEYS_LENGTH = 90, 112  # characters that fit the width in a title's line and in a row of keys
FOOT = 0.52  # inches under the last panel for ticks and the axis label
LEFT = 0.112  # share of the width for the axis labels
KEY_ROW = 0.17  # inches of a row of keys


@dataclass(frozen=True, slots=True)
class Lane:
    """A panel to draw: the curve, its axis label, colour and scale."""

    curve: Curve
    label: str
    colour: str
    scale: str = "auto"
    focus: int | None = None  # step from which on its values set the limits
    own: bool = False  # the incident's own series, shown whatever it looks like


Key = tuple[str, Line2D]
LineStyle = Literal["-", "--", "-.", ":"]


def draw(result: RunResult, signals: Signals, folder: Path) -> dict[str, str]:
    """Draw the run's figures under `folder`, where its report lies, in place of those of an earlier analysis.

    Returns the figures drawn, as `figure_paths` does.
    """
    drawn = {}
    paths = figure_paths(result)
    for old in (folder / "plots").glob("*.png"):
        old.unlink()
    for name, figure in _figures(result, signals, paths):
        target = folder / paths[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # of names in other scripts: boxes
            figure.savefig(target, format="png", pil_kwargs={"compress_level": 3})
        drawn[name] = paths[name]
    return drawn


def _figures(result: RunResult, signals: Signals, wanted: Mapping[str, str]) -> Iterator[tuple[str, Figure]]:
    overview = timeline(result, signals)
    if overview is not None:
        yield TIMELINE, overview
    for page in alarms(result):
        close_up = close_up_of(page, result, signals) if page.root.id in wanted else None
        if close_up is not None:
            yield page.root.id, close_up


def timeline(result: RunResult, signals: Signals) -> Figure | None:
    """The main signals of the whole run on one step axis; None where hardly anything was logged."""
    found = alarms(result)
    lanes = _timeline_lanes(found, signals)
    if max((len(lane.curve) for lane in lanes), default=0) < 2:
        return None
    figure, axes = _sheet(lanes, f"{result.run}: {', '.join(lane.label for lane in lanes)}", result)
    first = min(int(lane.curve.step[0]) for lane in lanes)
    last = max(int(lane.curve.step[-1]) for lane in lanes)
    axes[0].set_xlim(*_padded(first, last))
    for page in found:
        _mark_incident(axes, page, last)
    _number_incidents(axes[0], found)
    keys = [*_value_keys(lanes), *_mark_lives(axes, result), *_mark_checkpoints(axes[-1], result, found)]
    _legend(figure, _incident_keys(found) + keys)
    return figure


def _incident_keys(found: Sequence[Page]) -> list[Key]:
    """One key for each colour in which incidents are drawn."""
    by_colour: dict[str, list[str]] = {}
    for severity in dict.fromkeys(page.root.severity for page in found):
        by_colour.setdefault(ALARM[severity], []).append(severity)
    return [
        (f"{' or '.join(names)} incident (number as in the report)", Line2D([], [], color=colour))
        for colour, names in by_colour.items()
    ]


def close_up_of(page: Page, result: RunResult, signals: Signals) -> Figure | None:
    """One incident with its surroundings: onset, peak, end and precursors on every signal that speaks for it."""
    root = page.root
    lanes = _incident_lanes(page, signals)
    if not lanes or root.onset_step is None:
        return None
    first, last = _window(page, lanes)
    begin = min([_shown_onset(root), *(sign.step for sign in root.precursors)])
    shown = [replace(lane, curve=_between(lane.curve, first, last), focus=_focus(lane.curve, begin)) for lane in lanes]
    shown = _telling(shown)
    if max((len(lane.curve) for lane in shown), default=0) < 2:
        return None
    which = f" (here: {result.axis.unit} {number(_shown_onset(root))})" if len(root.occurrences) > 1 else ""
    figure, axes = _sheet(shown, f"{result.run}: {heading(page, result)}{which}", result)
    axes[0].set_xlim(*_padded(first, last))
    keys = [
        *_mark_moments(axes, page),
        *_value_keys(shown),
        *_mark_lives(axes, result),
        *_mark_checkpoints(axes[-1], result, [page]),
    ]
    _legend(figure, keys)
    return figure


def _focus(curve: Curve, begin: int) -> int | None:
    """Evaluations begin far from where they matter: an incident's own range sets their limits."""
    return begin if curve.series.role in ("val_loss", "val_metric") else None


def _main_lanes(signals: Signals) -> list[Lane]:
    curves = ((signals.curve(role), label, colour, scale) for role, label, colour, scale in ROLES)
    return [
        Lane(curve, label, colour, scale) for curve, label, colour, scale in curves if curve is not None and len(curve)
    ]


def _timeline_lanes(found: Sequence[Page], signals: Signals) -> list[Lane]:
    """The main signals, then the series in which incidents lie that those do not show."""
    main = _main_lanes(signals)
    lanes = main + [lane for page in found for lane in _own_lanes(page.root, signals, main)]
    if lanes:
        return _telling(_distinct(lanes))[:MAX_PANELS]
    return [Lane(curve, curve.name, OTHER) for curve in signals.every_curve() if len(curve)][:3]


def _incident_lanes(page: Page, signals: Signals) -> list[Lane]:
    """The incident's own series first, then the main signals, then whatever else moved before it."""
    main = _main_lanes(signals)
    lanes = _own_lanes(page.root, signals, main) + main
    moved = [sign.signal for sign in page.root.precursors] + [item.signal for item in page.root.evidence]
    for name in moved:
        curve = _named(name, page.root, signals) or signals.curve(name)
        if curve is not None:
            lanes.append(_lane(curve, main))
    return [lane for lane in _distinct(lanes) if len(lane.curve)][:MAX_PANELS]


def _own_lanes(root: Incident, signals: Signals, main: Sequence[Lane]) -> list[Lane]:
    """The series in which an incident lies, if it was logged: one lane or none."""
    curve = clock_durations(signals) if root.series == WALL_TIME else _named(root.series, root, signals)
    if curve is None:
        return []
    lane = replace(_lane(curve, main), own=True)
    namesakes = Counter(other.name for other in signals.every_curve())
    if root.scope.rank is not None and namesakes[curve.name] > 1:
        lane = replace(lane, label=f"{curve.name}, rank {root.scope.rank}")
    return [lane]


def _named(name: str, root: Incident, signals: Signals) -> Curve | None:
    """The curve of a name: of those that ranks share, the one of the incident's rank."""
    curves = [curve for curve in signals.every_curve() if curve.name == name and len(curve)]
    of_rank = [curve for curve in curves if curve.series.rank == root.scope.rank]
    return next(iter(of_rank or curves), None)


def _distinct(lanes: Sequence[Lane]) -> list[Lane]:
    """Every curve once, where it first comes."""
    unique: dict[tuple[int, str, int | None], Lane] = {}
    for lane in lanes:
        series = lane.curve.series
        unique.setdefault((series.id, series.name, series.rank), lane)
    return list(unique.values())


def _telling(lanes: Sequence[Lane]) -> list[Lane]:
    """Lanes that show something: not a dot or two, nor a setting that never changes. The first if none does."""
    kept = [lane for lane in lanes if _tells(lane)]
    return kept or [lane for lane in lanes if len(lane.curve)][:1]


def _tells(lane: Lane) -> bool:
    value = lane.curve.only_finite().value
    if lane.own or len(value) < len(lane.curve):
        return len(lane.curve) > 0
    constant = len(value) > 0 and value.min() == value.max()
    return len(value) >= FEWEST_POINTS and not (constant and lane.curve.series.role in SETTINGS)


def _lane(curve: Curve, main: Sequence[Lane]) -> Lane:
    styled = {lane.curve.name: lane for lane in main}
    value = curve.only_finite().value
    is_share = curve.series.role == "val_metric" and len(value) > 0 and value.min() >= 0 and value.max() <= 1
    return styled.get(curve.name) or Lane(curve, curve.name, OTHER, "linear" if is_share else "auto")


def _window(page: Page, lanes: Sequence[Lane]) -> tuple[int, int]:
    """Steps to show: onset to end with as much again around it, and every precursor; one onset of those that recur."""
    root, curve = page.root, lanes[0].curve
    start = end = _shown_onset(root)
    if len(root.occurrences) <= 1:
        moments = [step for step in (root.peak_step, root.end_step) if step is not None]
        moments += [effect.onset_step for effect in page.effects if effect.onset_step is not None]
        end = max([end, *moments])
        if root.end_step is None and runs_on(root):
            end = max(end, int(curve.step[-1]))
        start = min([start, *(sign.step for sign in root.precursors)])
    context = max(CONTEXT_POINTS * curve.cadence, (end - start) // 2)
    begin = min(int(lane.curve.step[0]) for lane in lanes)
    stop = max(int(lane.curve.step[-1]) for lane in lanes)
    return max(start - context, begin), min(end + context, stop)


def _shown_onset(root: Incident) -> int:
    """The onset shown close up: where it recurs, the last one before the peak."""
    onsets = _onsets(root)
    before = [onset for onset in onsets if root.peak_step is not None and onset <= root.peak_step]
    return before[-1] if before else onsets[0]


def _between(curve: Curve, first: int, last: int) -> Curve:
    kept = curve.take((curve.step >= first) & (curve.step <= last))
    old = curve.superseded
    return replace(kept, superseded=old.take((old.step >= first) & (old.step <= last)) if old is not None else None)


def _sheet(lanes: Sequence[Lane], title: str, result: RunResult) -> tuple[Figure, list[Axes]]:
    """A figure with one drawn panel a lane on a shared step axis and the title above; `_legend` gives it its height."""
    figure = Figure(figsize=(WIDTH, PANEL_HEIGHT * len(lanes)), dpi=DPI, facecolor="white")
    axes = [figure.add_subplot(len(lanes), 1, 1)]
    axes += [figure.add_subplot(len(lanes), 1, place, sharex=axes[0]) for place in range(2, len(lanes) + 1)]
    lines = textwrap.wrap(one_line(title), LINE_LENGTH)
    text = "\n".join(lines if len(lines) <= 2 else [lines[0], _shortened(" ".join(lines[1:]), LINE_LENGTH)])
    figure.text(LEFT, 1.0, text, fontsize=10, fontweight="bold", va="top", parse_math=False)
    for lane, axis in zip(lanes, axes, strict=True):
        panel.draw(axis, lane.curve, lane.colour, _shortened(lane.label, 22), scale=lane.scale, focus=lane.focus)
        axis.xaxis.set_visible(axis is axes[-1])  # ticks cost more to draw than all the rest
    axes[-1].set_xlabel(capital(result.axis.unit), fontsize=8)
    axes[-1].xaxis.set_label_coords(0.5, -0.2)
    axes[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
    return figure, axes


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _padded(first: int, last: int) -> tuple[float, float]:
    margin = 0.015 * (last - first) or 1.0
    return first - margin, last + margin


def _mark_incident(axes: Sequence[Axes], page: Page, last: int) -> None:
    """A line at every onset, a tint to the end."""
    root, colour = page.root, ALARM[page.root.severity]
    if root.onset_step is None:
        return
    end = last if runs_on(root) else root.onset_step if root.end_step is None else root.end_step
    for axis in axes:
        if len(_onsets(root)) == 1:
            axis.axvspan(root.onset_step, max(end, root.onset_step), color=colour, alpha=0.13, linewidth=0, zorder=0)
        for onset in _onsets(root):
            axis.axvline(onset, color=colour, linewidth=0.9, alpha=0.8, zorder=1)


def _number_incidents(axis: Axes, found: Sequence[Page]) -> None:
    """The report's number above every onset; neighbours too close to read are set on a second line, then left out."""
    left, right = axis.get_xlim()
    room = 0.02 * (right - left)
    taken = [left - room, left - room]
    labels = sorted(((onset, page) for page in found for onset in _onsets(page.root)), key=lambda label: label[0])
    for onset, page in labels:
        line = next((line for line in (0, 1) if onset - taken[line] >= room), None)
        if line is None:
            continue
        taken[line] = onset
        axis.text(
            onset, 1.04 + 0.12 * line, str(page.number), color=ALARM[page.root.severity], fontsize=8,
            fontweight="bold", ha="center", va="bottom", transform=axis.get_xaxis_transform(),
        )  # fmt: skip


def _onsets(incident: Incident) -> tuple[int, ...]:
    return incident.occurrences or (() if incident.onset_step is None else (incident.onset_step,))


def _mark_moments(axes: Sequence[Axes], page: Page) -> list[Key]:
    """Onset, peak, end, effects and precursors of one incident as lines through every panel."""
    root, colour = page.root, ALARM[page.root.severity]
    moments: list[tuple[str, int | None, str, LineStyle]] = [("onset", onset, colour, "-") for onset in _onsets(root)]
    moments.append(("peak", root.peak_step, "#000000", ":"))
    if not runs_on(root):
        ended = "partly recovered" if root.recovery == "partial" else root.recovery or "end"
        moments.append((ended, root.end_step, SAFE if root.recovery == "recovered" else colour, "--"))
    moments += [(label(effect.kind), effect.onset_step, "#CC79A7", "-.") for effect in told_effects(page)]
    moments += [(f"{sign.signal} moved", sign.step, "#56B4E9", "-.") for sign in root.precursors]
    lines: dict[int, tuple[list[str], str, LineStyle]] = {}
    left, right = axes[0].get_xlim()
    for name, step, tint, style in moments:
        if step is None or not left <= step <= right:
            continue
        names = lines.setdefault(step, ([], tint, style))[0]
        if name not in names:
            names.append(name)
    alike: dict[tuple[str, str, LineStyle], list[int]] = {}
    for step, (names, tint, style) in list(lines.items())[:MAX_KEYS]:
        for axis in axes:
            axis.axvline(step, color=tint, linestyle=style, linewidth=1.0, zorder=1)
        alike.setdefault((_shortened(" and ".join(names), 60), tint, style), []).append(step)
    return [
        (f"{names} {listing(map(number, steps), 4)}", Line2D([], [], color=tint, linestyle=style))
        for (names, tint, style), steps in alike.items()
    ]


def _mark_lives(axes: Sequence[Axes], result: RunResult) -> list[Key]:
    """Dashed lines where a process life begins after the first."""
    left, right = axes[0].get_xlim()
    starts = [life.first_step for life in result.segments[1:] if left <= life.first_step <= right]
    for axis in axes:
        for start in starts:
            axis.axvline(start, color=RESTART, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    return [("restart", Line2D([], [], color=RESTART, linestyle=(0, (5, 3))))] if starts else []


def _mark_checkpoints(axis: Axes, result: RunResult, pages: Sequence[Page]) -> list[Key]:
    """Triangles on the step axis; a star for those that the report names, as to go back to or only if needed."""
    left, right = axis.get_xlim()
    choices = [page.root.safe_checkpoint for page in pages if page.root.safe_checkpoint]
    chosen = {choice.step for choice in choices if choice.step is not None}
    back = {choice.step for choice in choices if choice.step is not None and choice.go_back}
    saved = [point.step for point in result.checkpoints]
    styles = (("checkpoint", [s for s in saved if s not in chosen], "^", CHECKPOINT, 4.5),
              ("checkpoint to go back to", sorted(back), "*", SAFE, 10.0),
              ("checkpoint named in the report", sorted(chosen - back), "*", CHECKPOINT, 10.0))  # fmt: skip
    keys = []
    for name, steps, marker, colour, size in styles:
        visible = [step for step in steps if left <= step <= right]
        if visible:
            axis.plot(
                visible, [0.0] * len(visible), marker, color=colour, markersize=size, clip_on=False, zorder=6,
                transform=axis.get_xaxis_transform(),
            )  # fmt: skip
            keys.append((name, Line2D([], [], color=colour, marker=marker, linestyle="", markersize=size)))
    return keys


def _value_keys(lanes: Sequence[Lane]) -> list[Key]:
    keys = []
    if not all(lane.curve.finite.all() for lane in lanes):
        mark = Line2D([], [], color=panel.NAN_COLOUR, marker="x", linestyle="", markersize=5)
        keys.append(("NaN or infinite", mark))
    if any(lane.curve.superseded is not None and len(lane.curve.superseded) for lane in lanes):
        keys.append(("undone by the restart", Line2D([], [], color=panel.SUPERSEDED_COLOUR)))
    return keys


def _row_length(keys: Sequence[Key], columns: int) -> int:
    """Characters of a row of keys that are laid out column by column; a mark and its gap take 6."""
    parts = np.array_split([len(name) for name, _ in keys], columns)
    return sum(6 + int(part.max()) for part in parts if len(part))


def _legend(figure: Figure, keys: Sequence[Key]) -> None:
    """The keys under the panels, in as many columns as fit the width; the figure grows to make room for them."""
    columns = next((n for n in range(4, 1, -1) if _row_length(keys, n) <= KEYS_LENGTH), 1)
    rows = -(-len(keys) // columns)
    title = KEY_ROW * figure.texts[0].get_text().count("\n")
    above, below = 0.6 + title, FOOT + KEY_ROW * rows
    height = PANEL_HEIGHT * len(figure.axes) + above + below
    figure.set_size_inches(WIDTH, height)
    figure.texts[0].set_y(1 - 0.1 / height)
    figure.subplots_adjust(left=LEFT, right=0.975, top=1 - above / height, bottom=below / height, hspace=0.16)
    if keys:
        names, handles = zip(*keys, strict=True)
        figure.legend(
            handles, names, loc="lower left", bbox_to_anchor=(LEFT - 0.01, 0.0), ncols=columns, fontsize=7.5,
            frameon=False, handlelength=1.8, columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
