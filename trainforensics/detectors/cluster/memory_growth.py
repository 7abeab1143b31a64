"""Memory climbs without bound.

What it detects:
    GPU or host memory whose floor rises steadily from some step to the end of the process life, in every part of it and
    not ever slower. Over a handful of points, as of one an epoch, each must bring a like share of a growth by half and
    more.

Why it matters:
    It ends in an out-of-memory error, usually at night. A slope today is a step number at which the run will die.

Evidence:
    Level before, level now, growth per 1,000 steps, and the step at which a known limit is reached.

False positives:
    Allocator and cache warm-up rises ever slower and then stays; saw-teeth of garbage collection keep their floor;
    jumps to a new level (a longer batch, a resize) do not go on rising. Growth that follows batch size or sequence
    length is set aside.

Example:
    From step 360 on rss_mb climbs by 1.5 GB per 1,000 steps, from 571 to 1373; 8192 is reached at step 5400.

Parameters:
    device_share: growth against the level before, for GPU memory.
    host_share: the same for host memory, in which pages of read files are counted.
"""

from __future__ import annotations

import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Signals
from trainforensics.signals.memory import FEWEST_POINTS, Growth, growth
from trainforensics.signals.stretches import at_steps

META = Meta(
    kind=KINDS["memory-growth"],
    needs=("gpu_memory|host_memory",),
    uses=("gpu_memory", "host_memory", "batch_size", "seq_len", "seq_len_max"),
    params=(
        Param("device_share", 0.05, "fragmentation moves device memory by a few percent"),
        Param("host_share", 0.2, "the resident set holds mapped files and loader caches that fill slowly"),
    ),
)
_LIMIT = re.compile(
    r"(gpu|cuda|vram|device|host|ram|total)?_?mem(ory)?_?(limit|total|capacity|size)|vram(_total)?$", re.I
)
_PERCENT = re.compile(r"percent|pct|%|util", re.I)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report the series that grew most of each sort of memory."""
    curves = [(r, c) for r in ("gpu_memory", "host_memory") for c in signals.curves(r)]
    if all(len(curve) < FEWEST_POINTS for _, curve in curves):
        return NotApplicable("too few points of memory", "device and host memory every few steps")
    found = []
    for role, share in (("gpu_memory", params["device_share"]), ("host_memory", params["host_share"])):
        grown = [g for r, c in curves if r == role and (g := growth(c)) is not None]
        grown = [g for g in grown if g.now > (1 + share) * g.before and not _follows_data(signals, g)]
        if grown:
            found.append(_finding(signals, max(grown, key=lambda g: g.now / g.before), len(grown)))
    return Fired(tuple(found)) if found else Clear()


def _follows_data(signals: Signals, grown: Growth) -> bool:
    """Whether the size of a batch grew with it."""
    first, last = int(grown.curve.step[grown.onset]), int(grown.curve.step[-1])
    for role in ("batch_size", "seq_len", "seq_len_max"):
        curve = signals.curve(role)
        if curve is None:
            continue
        size = at_steps(curve, grown.curve.step)
        known = np.isfinite(size)
        early, late = known & (grown.curve.step <= first), known & (grown.curve.step >= last - (last - first) // 4)
        if early.any() and late.any() and np.median(size[late]) > 1.1 * np.median(size[early]):
            return True
    return False


def _finding(signals: Signals, grown: Growth, series: int) -> Finding:
    curve, onset = grown.curve, int(grown.curve.step[grown.onset])
    unit, pace = ("epoch", grown.per_step) if signals.axis.unit == "epoch" else ("1,000 steps", 1000 * grown.per_step)
    text = (
        f"From step {onset} on {curve.name} climbs without bound, from {grown.before:.4g} to {grown.now:.4g}, by "
        f"{pace:.3g} per {unit}"
    )
    rows = [Evidence(curve.name, int(curve.step[-1]), grown.now, grown.before, "level now against before the climb")]
    limit = _limit(signals, curve.name, grown.now)
    if limit is not None:
        full = int(curve.step[grown.onset] + (limit - grown.before) / grown.per_step)
        text += f"; at that pace {limit:.4g} is reached at step {full}"
        rows.append(Evidence(curve.name, full, limit, None, "step at which the limit is reached at this pace"))
    if series > 1:
        text += f"; {series} series of memory climb"
    ratio = grown.now / grown.before
    return Finding(
        kind="memory-growth",
        series=curve.name,
        role=curve.series.role,
        onset_step=onset,
        onset_interval=(int(curve.step[max(grown.onset - 1, 0)]), onset),
        confidence=round(min(0.92, 0.6 + 0.2 * min(1.0, ratio - 1) + 0.1 * (limit is not None)), 2),
        summary=text + ".",
        segment=int(curve.segment[grown.onset]),
        recovery="unrecovered",
        scope=Scope(rank=curve.series.rank),
        evidence=tuple(rows),
    )


def _limit(signals: Signals, name: str, now: float) -> float | None:
    """A hundred for shares in percent, else a limit that the configuration states in a plausible unit."""
    if _PERCENT.search(name) and now <= 100:
        return 100.0
    for key, value in signals.config.items():
        if _LIMIT.search(str(key)) and isinstance(value, int | float) and now < value < 100 * now:
            return float(value)
    return None
