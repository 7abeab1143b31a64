"""A restart after which the run does not go on from where it stopped.

What it detects:
    At every restart (a new process life, a resume message, a lone long pause): whether loss, gradient norm, other
    norms, learning rate and loss scale join what the old life logged. Which of them do not, is said.

Why it matters:
    Weights come back from a checkpoint; optimiser state, schedule, scaler, random state and data position often do not.
    The run pays with a bump, repeated data, or a level that it never regains.

Evidence:
    Levels before and after, against the same difference taken at every other place of the old life nearby, at several
    widths; pairs of values at steps that both lives logged; the learning rate against its own extrapolation; the loss
    scale; steps that were repeated.

False positives:
    A clean resume, overlapping or not, changes nothing beyond the run's own unrest. A pause without any message needs
    more clarity. Values of the old life that lie in the event it was rolled back for are not compared. A fork
    declared in the configuration is no fault.

Example:
    Resumed at step 600 from an older checkpoint: loss 2.08 before, 2.55 after, while learning rate and step go on.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, Outcome, Recovery
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats
from trainforensics.signals.evaluations import usable
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.restarts import (
    Join,
    Restart,
    bump,
    join,
    noise_ratio,
    repeated_points,
    restarts,
    scale_step,
    schedule_step,
)

LEVELS = ("train_loss", "grad_norm", "update_norm", "param_norm", "activation_norm")
META = Meta(
    kind=KINDS["resume-discontinuity"],
    needs=("train_loss|grad_norm|learning_rate",),
    uses=(*LEVELS, "learning_rate", "loss_scale", "batch_size", "world_size", "tokens_per_sec"),
    params=(
        Param("z", 6.0, "change of level in units of the old life's own changes"),
        Param("unsure", 1.2, "times that, where nothing but one of a few long pauses speaks for a restart"),
        Param("size", 1.0, "change of level against the point-to-point noise; less is not worth a page"),
        Param("pairs", 6.0, "steps that both lives logged, fewer say little"),
        Param("pairs_z", 4.0, "their median difference in standard errors where both lives saw the same batches"),
        Param("bump", 6.0, "height of a bump of a few points in units of the old life's own"),
        Param("noise", 2.0, "factor of point-to-point noise across the restart"),
    ),
)


@dataclass(frozen=True, slots=True)
class _Break:
    """One series that does not join: what is said about it, how clear it is (in units of `z`), and its join."""

    role: str
    evidence: Evidence
    clarity: float
    join: Join | None = None


def detect(signals: Signals, params: Params) -> Outcome:
    """Judge every restart on its own."""
    found = restarts(signals)
    if not found:
        return Clear()
    forks = _fork_steps(signals)
    findings = [
        finding
        for restart in found
        if not any(restart.before <= fork <= restart.step for fork in forks)
        and (finding := _judge(signals, restart, params)) is not None
    ]
    return Fired(tuple(findings)) if findings else Clear()


def _fork_steps(signals: Signals) -> tuple[float, ...]:
    """Steps at which the configuration says that this run was forked on purpose."""
    values = (str(value) for key, value in signals.config.items() if "fork_from" in key and value)
    return tuple(float(m[1]) for value in values if (m := re.search(r"_step[=: ]+(\d+)", value)))


def _judge(signals: Signals, restart: Restart, params: Params) -> Finding | None:
    need = params["z"] * (1.0 if restart.sure else params["unsure"])
    breaks = [b for b in _breaks(signals, restart, params) if b.clarity >= need]
    return _finding(signals, restart, breaks) if breaks else None


def _breaks(signals: Signals, restart: Restart, params: Params) -> Iterator[_Break]:
    for role in LEVELS:
        curve = signals.curve(role)
        if curve is not None:
            yield from _level_break(role, curve, usable(curve), restart, params)
    for role, what, kernel in (
        ("learning_rate", "learning rate", schedule_step),
        ("loss_scale", "loss scale", scale_step),
    ):
        curve = signals.curve(role)
        step = kernel(curve, restart) if curve is not None else None
        if curve is not None and step is not None:
            text = f"{what} {step[1]:.3g} where the old life leads to {step[0]:.3g}"
            yield _Break(role, Evidence(curve.name, restart.step, step[1], step[0], text), 2 * params["z"])


def _space(role: str, value: Floats) -> Floats:
    """Norms are judged by their logarithm where positive: their noise is a factor."""
    return np.log(value) if role != "train_loss" and len(value) and value.min() > 0 else value


def _level_break(role: str, curve: Curve, points: Curve, restart: Restart, params: Params) -> Iterator[_Break]:
    """What changes at the border; `points` are the usable ones of the curve."""
    value = points.derive("space", lambda: _space(role, points.value))
    border = int(np.searchsorted(points.step, restart.step))
    found = join(value, border)
    if found is not None and (abs(found.z) < params["z"] or abs(found.change) < params["size"] * found.noise):
        found = None
    text = ""
    if found is not None:
        text = f"medians of {found.width} points a side, {abs(found.z):.0f} times the usual change of the old life"
    if found is None and (found := _pairs(role, curve, points.value[:border], restart, params)) is not None:
        text = f"medians of the {found.width} steps that both lives logged"
    if found is None and (found := bump(value, border)) is not None:
        text = f"second highest of {found.width} points, {found.z:.0f} times as far up as the old life strays"
        found = found if found.z >= params["bump"] else None
    if found is not None:
        back = np.exp if value is not points.value else float
        before, after = float(back(found.before)), float(back(found.after))
        row = Evidence(curve.name, restart.step, after, before, f"{role} {before:.4g} -> {after:.4g}, {text}")
        yield _Break(role, row, max(abs(found.z), params["z"]), found)
    elif role == "train_loss" and max(ratio := noise_ratio(value, border), 1 / ratio) >= params["noise"]:
        text = f"point-to-point noise of the loss changes by a factor {ratio:.2g}"
        yield _Break(role, Evidence(curve.name, restart.step, None, None, text), params["z"])


def _pairs(role: str, curve: Curve, past: Floats, restart: Restart, params: Params) -> Join | None:
    """The difference between values that both lives logged at the same steps, if it is no chance.

    Where both lives saw the same batches, their differences scatter far less than the curve itself, and a clean resume
    leaves none; else the difference must be as large as a level change without pairs. Nothing is compared where the
    old life had left its own course, which may be what it was rolled back for.
    """
    _, old, new = repeated_points(curve, restart)
    if len(old) < params["pairs"]:
        return None
    positive = min(old.min(), new.min()) > 0
    old, new = (_space(role, old), _space(role, new)) if positive else (old, new)
    past = _space(role, past) if positive else past
    difference = new - old
    middle = float(np.median(difference))
    noise = robust_sigma(np.diff(past[-50:])) / math.sqrt(2)
    spread = max(robust_sigma(difference), 1e-2 * noise, 1e-12)
    z = middle / (1.2533 * spread / math.sqrt(len(difference)))
    same_batches = spread < noise / 2
    need, size = ("pairs_z", 5e-3 * abs(float(np.median(old)))) if same_batches else ("z", params["size"] * noise)
    one_sided = float(np.mean(difference * middle > 0)) >= 0.9
    if abs(z) < params[need] or abs(middle) < size or not one_sided:
        return None
    course = join(np.append(past, old), len(past))
    if course is not None and abs(course.z) >= params["pairs_z"] and abs(course.change) >= abs(middle) / 2:
        return None
    return Join(float(np.median(old)), float(np.median(new)), middle, z, len(difference), max(noise, 1e-12))


def _finding(signals: Signals, restart: Restart, breaks: list[_Break]) -> Finding:
    loss = next((b for b in breaks if b.role == "train_loss"), None)
    main = loss or max(breaks, key=lambda b: b.clarity)
    recovery, end = _recovery(signals, restart, loss)
    rose = loss is not None and loss.join is not None and loss.join.change > 0
    evidence = [*(b.evidence for b in breaks), *_context(signals, restart)]
    clarity = max(b.clarity for b in breaks)
    confidence = min(0.95, 0.6 + 0.02 * clarity + 0.05 * len(breaks)) * (1.0 if restart.sure else 0.75)
    repeated = f", {restart.repeated} steps logged again" if restart.repeated else ""
    return Finding(
        kind="resume-discontinuity",
        series=main.evidence.signal,
        role=main.role,
        onset_step=restart.step,
        onset_interval=(restart.before, restart.step),
        occurrences=(restart.step,),
        segment=restart.segment,
        peak_step=restart.step,
        end_step=end,
        recovery=recovery,
        severity="high" if rose and recovery == "unrecovered" else "medium",
        confidence=round(confidence, 2),
        summary=f"the restart at step {restart.step} ({restart.how[0]}{repeated}) does not join: "
        + "; ".join(b.evidence.text for b in breaks),
        evidence=tuple(evidence),
    )


def _context(signals: Signals, restart: Restart) -> Iterator[Evidence]:
    """What the log says about the restart, and what else changed across it."""
    yield Evidence("restart", restart.step, None, None, f"known by: {'; '.join(restart.how)}")
    if restart.pause is not None:
        yield Evidence("wall time", restart.step, restart.pause, None, f"{restart.pause:.0f} s since the point before")
    if restart.repeated:
        text = f"steps {restart.step}-{restart.reached} were logged by both lives"
        yield Evidence("steps", restart.step, float(restart.repeated), 0.0, text)
    for role in ("batch_size", "world_size", "tokens_per_sec"):
        curve = signals.curve(role)
        points = usable(curve) if curve is not None else None
        at = int(np.searchsorted(points.step, restart.step)) if points is not None else 0
        if points is None or not 0 < at < len(points):
            continue
        found = join(points.value, at)
        if found is not None and abs(found.z) >= 6:
            text = f"{role} changed as well, {found.before:.4g} -> {found.after:.4g}"
            yield Evidence(points.name, restart.step, found.after, found.before, text)


def _recovery(signals: Signals, restart: Restart, loss: _Break | None) -> tuple[Recovery | None, int | None]:
    """Whether and when the loss was back at its level before the restart; a fifth of the change may remain.

    Where less remained later, it came back when what remained was within the noise.
    """
    curve = signals.curve("train_loss")
    if loss is None or loss.join is None or curve is None:
        return None, None
    found, points = loss.join, usable(curve)
    value = (points.value - found.before) / found.change
    border = int(np.searchsorted(points.step, restart.step))
    width = min(found.width, 12)
    after = value[border:]
    if len(after) < 3 * width:
        return "ongoing", None
    levels = medians(np.lib.stride_tricks.sliding_window_view(after, width))
    back = np.flatnonzero(levels <= 0.2)
    if len(back):
        quiet = np.flatnonzero(levels <= min(0.2, found.noise / abs(found.change)))
        return "recovered", int(points.step[border + (quiet if len(quiet) else back)[0]])
    return ("partial" if float(np.median(after[-2 * width :])) < 0.5 else "unrecovered"), None
