"""The loss swings with a large amplitude that grew during the run, and learning stops.

What it detects:
    A training loss whose swings became at least three times as wide as they had been, and wide against all that was
    learnt, from some point to the end, while its level no longer falls. Or a validation loss that swings by a factor of
    three between evaluations, back to where it began or with every fourth evaluation, while the training loss goes
    smoothly. Or either of them rings: three or more smooth rises and falls of one period, a tenth of all that was
    learnt and more, under a momentum of 0.99 and more, or fading from a rise by a factor of two.

Why it matters:
    The step size exceeds what the curvature bears (or batches come in an order the loss follows): the run hovers over
    the valley instead of descending into it.

Evidence:
    Width of the swings (10th to 90th percentile) before and after, level before and after, learning rate.

False positives:
    A loss that stands above its old level with all its swings has diverged, or has another term in it. Noise that
    widens while the loss still falls, as with smaller batches or harder data. Adversarial losses that swing from the
    start: the swings must have grown. Swings in step with the learning rate or the epochs. A part that joins the loss
    there, as a discriminator does.

Example:
    `from step 170 loss swings by 0.31 (0.04 before) and no longer falls`

Parameters:
    growth: factor of the width. share: width against the fall since the start.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats
from trainforensics.signals.evaluations import level_up_to, validation_curves
from trainforensics.signals.jumps import swings
from trainforensics.signals.noise import medians
from trainforensics.signals.parts import part_adds
from trainforensics.signals.precursors import companions
from trainforensics.signals.ringing import rings
from trainforensics.signals.structure import announced
from trainforensics.signals.task import rewarded
from trainforensics.signals.trend import level

NAMED = 4  # highs of a loss that rings
CHUNKS = 24
MIN_CHUNK = 8
QUIET, WILD = 3, 5  # chunks that must lie before and after
NORMAL_WIDTH = 2.56  # 10th to 90th percentile of a normal distribution, in standard deviations
BEYOND = 4.0  # standard deviations: once in 30,000 points

META = Meta(
    kind=KINDS["oscillation"],
    needs=("train_loss|val_loss",),
    uses=("*",),
    params=(
        Param("growth", 3.0, "the width of eight points' swings varies by a factor of two by chance"),
        Param("share", 0.1, "swings below a tenth of all that was learnt do not decide a run"),
        Param("swing", 3.0, "factor between good and bad evaluations; a small set repeats within a tenth"),
        Param(
            "as_bad",
            0.15,
            "share of the later of 24 evaluations and more that are no better than the first ones",
        ),
        Param("smooth", 0.3, "moves of the training loss against those of validation, in proportion"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Split the run where the width of its swings grew most."""
    loss = signals.curve("train_loss")
    loss = loss.only_finite() if loss is not None else None
    if (ringing := _ringing(signals, loss)) is not None:
        return Fired((ringing,))
    if loss is not None and not rewarded(signals) and (unsteady := _validation(signals, loss, params)) is not None:
        return Fired((unsteady,))
    if loss is None or len(loss) < (QUIET + WILD) * MIN_CHUNK:
        return NotApplicable("too few points of training loss", "the training loss at least every 1 % of the run")
    if rewarded(signals):
        return NotApplicable("a reward is what this run maximises, its loss need not fall", "")
    size = max(MIN_CHUNK, len(loss) // CHUNKS)
    chunks = loss.value[: len(loss) - len(loss) % size].reshape(-1, size)
    heights, width = medians(chunks), _widths(chunks)
    split = _split(heights, width, params["growth"])
    if split is None:
        return Clear()
    before, after = float(np.median(width[max(0, split - QUIET) : split])), float(np.median(width[split:]))
    learnt = float(heights[0] - heights[:split].min())
    if after < params["share"] * max(learnt, before) or _stands_above(chunks, split, before):
        return Clear()
    first, last = int(loss.step[(split - 1) * size]), int(loss.step[min((split + 2) * size, len(loss) - 1)])
    if part_adds(signals, loss, (first, last), after) or announced(signals, first, last):
        return Clear()
    return Fired((_finding(signals, loss, _onset(loss, split * size, size, before), before, after),))


def _ringing(signals: Signals, loss: Curve | None) -> Finding | None:
    """The loss of training, else of validation, that overshoots its minimum time and again."""
    for curve in (*((loss,) if loss is not None else ()), *validation_curves(signals)[:1]):
        if (found := rings(signals, curve)) is None:
            continue
        step, at, low, high = curve.step, found.turns[0] + 1, found.level[::2], found.level[1::2]
        onset, period, after = int(step[at]), found.period * curve.cadence, curve.value[found.turns[-1] :]
        course = f"up to {', '.join(f'{v:.3g}' for v in high[:NAMED])} from {low[0]:.3g}"
        rows = zip(step[list(found.turns[1::2])].tolist(), high.tolist(), low.tolist(), strict=True)
        return Finding(
            kind="oscillation",
            series=curve.name,
            role=curve.series.role,
            onset_step=onset,
            onset_interval=(int(step[at - 1]), onset),
            peak_step=int(step[found.turns[1 + 2 * int(high.argmax())]]),
            end_step=int(step[found.turns[-1]]),
            recovery="recovered" if after.min() < low[0] else "unrecovered",
            confidence=0.7,
            summary=f"{curve.name} rings {len(high)} times from step {onset} on, every {period:.4g} steps: {course}",
            evidence=tuple(Evidence(curve.name, *row, "level of a high, and of the low before it") for row in rows),
        )
    return None


def _validation(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """Validation that swings back to where it began while training goes smoothly."""
    for curve in validation_curves(signals)[:1]:
        found = swings(curve, params["swing"], params["as_bad"])
        level = level_up_to(loss, curve.step)
        level = level[np.isfinite(level) & (level > 0)]
        if found is None or len(level) < len(curve) // 2:
            continue
        moves = [float(np.median(np.abs(np.diff(np.log(values))))) for values in (level, curve.value)]
        if moves[0] > params["smooth"] * moves[1]:
            continue
        first, low, high = found
        onset = int(curve.step[first])
        text = f"{curve.name} swings between {low:.3g} and {high:.3g} from evaluation to evaluation"
        return Finding(
            kind="oscillation",
            series=curve.name,
            role="val_loss",
            onset_step=onset,
            onset_interval=(int(curve.step[max(first - 1, 0)]), onset),
            recovery="unrecovered",
            confidence=0.7,
            summary=f"{text}, again and again, while training goes smoothly",
            evidence=(
                Evidence(curve.name, int(curve.step[-1]), high, low, "90th against 10th percentile of the later half"),
                Evidence(loss.name, None, moves[0], moves[1], "usual move between evaluations, against validation's"),
            ),
        )
    return None


def _widths(chunks: Floats) -> Floats:
    """Distance of the 10th and 90th percentile in each chunk, a straight trend within it removed."""
    half = chunks.shape[1] // 2
    x = np.arange(chunks.shape[1]) - (chunks.shape[1] - 1) / 2
    slope = (medians(chunks[:, -half:]) - medians(chunks[:, :half])) / (chunks.shape[1] - half)
    low, high = np.quantile(chunks - slope[:, None] * x, [0.1, 0.9], axis=1)
    return np.asarray(high - low)


def _split(heights: Floats, width: Floats, growth: float) -> int | None:
    """First chunk from which on swings are `growth` times as wide as before and the level falls no more."""
    for at in range(QUIET, len(width) - WILD + 1):
        before = np.median(width[at - QUIET : at])
        wide = width[at:] > growth * before
        falling = np.median(heights[-WILD:]) < heights[at - 1] - 0.5 * np.median(width[at:])
        if before > 0 and wide.mean() >= 0.8 and wide[:2].any() and not falling:
            return at
    return None


def _stands_above(chunks: Floats, split: int, before: float) -> bool:
    """Whether the loss soon never swings back to where it was: it left its level, or another term was added to it."""
    bar = float(np.median(chunks[max(0, split - QUIET) : split])) + 2 * before
    return any(float(np.quantile(chunks[at:], 0.02)) > bar for at in range(split + 2, min(split + WILD, len(chunks))))


def _onset(loss: Curve, start: int, size: int, before: float) -> int:
    """Index of the first of three swings within a chunk that the noise of before does not explain, from one chunk ahead
    of `start` on."""
    first = max(0, start - size)
    sides = level(loss.value)
    middle = np.fmax(sides.left, sides.right)
    beyond = np.flatnonzero(loss.value[first:] - middle[first:] > BEYOND * before / NORMAL_WIDTH)
    recurring = np.flatnonzero(beyond[2:] - beyond[:-2] <= size) if len(beyond) > 2 else beyond[:0]
    return first + int(beyond[recurring[0]]) if len(recurring) else start


def _finding(signals: Signals, loss: Curve, at: int, before: float, after: float) -> Finding:
    onset = int(loss.step[at])
    row = Evidence(loss.name, onset, after, before, "width of the swings, 10th to 90th percentile")
    return Finding(
        kind="oscillation",
        series=loss.name,
        role="train_loss",
        onset_step=onset,
        onset_interval=(int(loss.step[max(at - 1, 0)]), onset),
        confidence=round(min(0.95, 0.6 + 0.1 * after / max(before, 1e-300) / 3), 3),
        summary=f"from step {onset} {loss.name} swings by {after:.3g} ({before:.3g} before) and no longer falls",
        recovery="unrecovered",
        evidence=(row, *companions(signals, onset)),
    )
