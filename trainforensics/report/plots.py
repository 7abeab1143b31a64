"""The figures of a report: the run's timeline, and each incident close up. Colours are the Okabe-Ito palette.

Figures are made without the pyplot state machine, whose import alone costs most of a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from trainforensics.kinds import Severity
from trainforensics.model import Incident, RunResult
from trainforensics.report import panel
from trainforensics.report.narrative import TIMELINE, Page, alarms, figure_paths, heading
from trainforensics.report.text import capital, number
from trainforensics.signals import Curve, Signals
from trainforensics.signals.pace import WALL_TIME, clock_durations

__all__ = ["close_up_of", "draw", "figure_paths", "timeline"]

DPI, WIDTH, PANEL_HEIGHT = 110, 9.0, 1.35
ALARM: Mapping[Severity, str] = {"critical": "#D55E00", "high": "#D55E00", "medium": "#E69F00", "low": "#999999"}
RESTART, CHECKPOINT, SAFE, OTHER = "#777777", "#0072B2", "#009E73", "#5A5A5A"
ROLES = (
    ("train_loss", "loss", "#0072B2", "auto"),
    ("val_loss", "validation loss", "#56B4E9", "auto"),
    ("grad_norm", "gradient norm", "#009E73", "auto"),
    ("learning_rate", "learning rate", "#CC79A7", "linear"),
    ("loss_scale", "loss scale", "#000000", "log2"),
)
MAX_PANELS = 6
CONTEXT_POINTS = 40  # logged points shown on either side of an incident, at least
MAX_KEYS = 8


@dataclass(frozen=True, slots=True)
class Lane:
    """A panel to draw: the curve, its axis label, colour and scale."""

    curve: Curve
    label: str
    colour: str
    scale: str = "auto"
    focus: int | None = None  # step from which on its values set the limits


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
    """The main signals of the whole run on one step axis; None where nothing was logged."""
    lanes = _main_lanes(signals) or [
        Lane(curve, curve.name, OTHER) for curve in signals.every_curve()[:3] if len(curve)
    ]
    if not lanes:
        return None
    found = alarms(result)
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
    shown = [lane for lane in shown if len(lane.curve)]
    if not shown:
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


def _any_lanes(signals: Signals) -> list[Lane]:
    return [Lane(curve, curve.name, OTHER) for curve in signals.every_curve() if len(curve)][:3]


def _incident_lanes(page: Page, signals: Signals) -> list[Lane]:
    """The incident's own series first, then the main signals, then whatever else moved before it."""
    main = _main_lanes(signals)
    by_name = {curve.name: curve for curve in signals.every_curve()}
    if page.root.series == WALL_TIME and (clock := clock_durations(signals)) is not None:
        by_name[WALL_TIME] = clock
    lanes = [_lane(by_name[page.root.series], main)] if page.root.series in by_name else []
    lanes += main
    moved = [sign.signal for sign in page.root.precursors] + [item.signal for item in page.root.evidence]
    for name in moved:
        curve = by_name.get(name) or signals.curve(name)
        if curve is not None:
            lanes.append(_lane(curve, main))
    unique = {lane.curve.name: lane for lane in reversed(lanes) if len(lane.curve)}
    return [lane for lane in lanes if unique.pop(lane.curve.name, None)][:MAX_PANELS]


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
        if root.end_step is None and root.recovery in ("unrecovered", "diverging", "ongoing"):
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
    """A figure with one drawn panel a lane on a shared step axis, title above, room for the legend below."""
    height = PANEL_HEIGHT * len(lanes) + 1.4
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    figure.subplots_adjust(left=0.095, right=0.985, top=1 - 0.55 / height, bottom=0.85 / height, hspace=0.16)
    axes = [figure.add_subplot(len(lanes), 1, 1)]
    axes += [figure.add_subplot(len(lanes), 1, place, sharex=axes[0]) for place in range(2, len(lanes) + 1)]
    figure.text(
        0.095, 1 - 0.2 / height, _shortened(title), fontsize=10, fontweight="bold", va="center", parse_math=False
    )
    for lane, axis in zip(lanes, axes, strict=True):
        panel.draw(axis, lane.curve, lane.colour, _shortened(lane.label, 22), scale=lane.scale, focus=lane.focus)
        axis.xaxis.set_visible(axis is axes[-1])  # ticks cost more to draw than all the rest
    axes[-1].set_xlabel(capital(result.axis.unit), fontsize=8)
    axes[-1].xaxis.set_label_coords(0.5, -0.2)
    axes[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
    return figure, axes


def _shortened(text: str, limit: int = 105) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _padded(first: int, last: int) -> tuple[float, float]:
    margin = 0.015 * (last - first) or 1.0
    return first - margin, last + margin


def _mark_incident(axes: Sequence[Axes], page: Page, last: int) -> None:
    """A line at every onset, a tint to the end."""
    root, colour = page.root, ALARM[page.root.severity]
    if root.onset_step is None:
        return
    runs_on = root.recovery in ("unrecovered", "diverging", "ongoing")
    end = root.end_step if root.end_step is not None else last if runs_on else root.onset_step
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
    moments.append((root.recovery or "end", root.end_step, SAFE if root.recovery == "recovered" else colour, "--"))
    moments += [(effect.kind, effect.onset_step, "#CC79A7", "-.") for effect in page.effects]
    moments += [(f"{sign.signal} moved", sign.step, "#56B4E9", "-.") for sign in root.precursors]
    lines: dict[int, tuple[list[str], str, LineStyle]] = {}
    left, right = axes[0].get_xlim()
    for name, step, tint, style in moments:
        if step is None or not left <= step <= right:
            continue
        names = lines.setdefault(step, ([], tint, style))[0]
        if name not in names:
            names.append(name)
    keys: list[Key] = []
    for step, (names, tint, style) in list(lines.items())[:MAX_KEYS]:
        for axis in axes:
            axis.axvline(step, color=tint, linestyle=style, linewidth=1.0, zorder=1)
        text = _shortened(f"{' and '.join(names)} {number(step)}", 40)
        keys.append((text, Line2D([], [], color=tint, linestyle=style)))
    return keys


def _mark_lives(axes: Sequence[Axes], result: RunResult) -> list[Key]:
    """Dashed lines where a process life begins after the first."""
    left, right = axes[0].get_xlim()
    starts = [life.first_step for life in result.segments[1:] if left <= life.first_step <= right]
    for axis in axes:
        for start in starts:
            axis.axvline(start, color=RESTART, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    return [("restart", Line2D([], [], color=RESTART, linestyle=(0, (5, 3))))] if starts else []


def _mark_checkpoints(axis: Axes, result: RunResult, pages: Sequence[Page]) -> list[Key]:
    """Triangles on the step axis; a star for the checkpoint to go back to."""
    left, right = axis.get_xlim()
    chosen = {page.root.safe_checkpoint.step for page in pages if page.root.safe_checkpoint}
    saved = [point.step for point in result.checkpoints]
    styles = (("checkpoint", [s for s in saved if s not in chosen], "^", CHECKPOINT, 4.5),
              ("checkpoint to go back to", [s for s in chosen if s is not None], "*", SAFE, 10.0))  # fmt: skip
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


def _legend(figure: Figure, keys: Sequence[Key]) -> None:
    if keys:
        names, handles = zip(*keys, strict=True)
        figure.legend(
            handles, names, loc="lower left", bbox_to_anchor=(0.085, 0.0), ncols=4, fontsize=7.5, frameon=False,
            handlelength=1.8, columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
