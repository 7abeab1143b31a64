"""Batches that stand out in every run that met them.

One run can't tell a rare odd batch from the tail of its own noise. Runs whose noise agrees step by step were fed the
same batches in the same order; a point that leaves the noise in both is then the batch's doing, however heavy the tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from trainforensics.compare.together import common, shared_noise
from trainforensics.model import Evidence, Finding, Scope
from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.trend import level

FEWEST = 400  # common points: fewer tell neither a shared order nor a tail
EQUAL = 0.2  # share of points that two runs may have in common by rounding
SHARED = 0.6  # noise of the difference in that of independent runs; 1 where they share nothing
FAR, OUT = 10.0, 6.0  # noise widths in both runs: of the highest, and of every one that is listed
BEFORE = 16  # points; those of the descent at the start have no level on both sides
MOST = 0.01  # share of the points: more of them are the nature of the data
FEWEST_APART = 0.05  # spread of the distances between them; less is a clock (epochs, evaluations), not batches
MOST_TOLD = 8


@np.errstate(all="ignore")
def shared_bursts(neighbours: Iterable[tuple[str, str]], runs: Mapping[str, Signals]) -> Iterator[tuple[str, Finding]]:
    """What the training losses of two runs show at the same steps, told of either, each run once."""
    high = {name for name, run in runs.items() if _reaches_far(run)}
    told: set[str] = set()
    for pair in neighbours:
        if not high.issuperset(pair) or told.issuperset(pair):
            continue
        for found in _shared_by(*(runs[name] for name in pair)):
            if found[0] not in told:
                told.add(found[0])
                yield found


def _reaches_far(run: Signals) -> bool:
    curve = run.curve("train_loss")
    value = curve.only_finite().value if curve is not None else np.empty(0)
    return len(value) >= FEWEST and bool(_heights(value).max() >= FAR)


def _shared_by(a: Signals, b: Signals) -> tuple[tuple[str, Finding], ...]:
    step, mine, theirs = common(a.curve("train_loss"), b.curve("train_loss"))
    # what is equal to the digit may be one run logged twice
    if len(step) < FEWEST or np.mean(mine == theirs) > EQUAL or shared_noise(mine, theirs) > SHARED:
        return ()
    heights = _heights(mine), _heights(theirs)
    at = _standing_out(np.minimum(*heights), step)
    if at is None:
        return ()
    return (
        (a.run, _told(a, b, step, (mine, theirs), heights, at)),
        (b.run, _told(b, a, step, (theirs, mine), heights[::-1], at)),
    )


def _heights(values: Floats) -> Floats:
    """Height above the higher of both sides in noise widths, shape (n,); 0 where a side is missing."""
    around = level(values)
    height = (values - np.fmax(around.left, around.right)) / around.sigma
    height[:BEFORE] = 0
    return np.nan_to_num(height, nan=0.0)


def _standing_out(height: Floats, step: Ints) -> Ints | None:
    """Indices of lone points far out of both runs' noise; None where there are none, many, or a clock makes them."""
    lone = height > 2 * np.maximum(np.roll(height, 1), np.roll(height, -1))
    at = np.flatnonzero((height >= OUT) & lone)
    if not len(at) or height[at].max() < FAR or len(at) > MOST * len(height):
        return None
    gaps = np.diff(step[at])
    return None if len(gaps) > 1 and np.ptp(gaps) <= FEWEST_APART * np.median(gaps) else at


def _told(
    run: Signals, other: Signals, step: Ints, values: tuple[Floats, Floats], heights: tuple[Floats, Floats], at: Ints
) -> Finding:
    curve, name = run.curve("train_loss"), other.run.rsplit("/", 1)[-1]
    loss = curve.name if curve is not None else "the loss"
    top = int(at[np.argmax(np.minimum(*heights)[at])])
    rows = tuple(
        Evidence(
            loss,
            int(step[i]),
            float(values[0][i]),
            float(values[1][i]),
            f"{heights[0][i]:.2g} noise widths out here, {heights[1][i]:.2g} in {name} at the same step",
        )
        for i in at[:MOST_TOLD]
    )
    more = f" and {len(at) - 6} more" if len(at) > 6 else ""
    steps = ", ".join(str(s) for s in step[at[:6]]) + more
    return Finding(
        kind="instant-burst",
        series=loss,
        role="train_loss",
        onset_step=int(step[at[0]]),
        onset_interval=(int(step[at[0] - 1]), int(step[at[0]])),
        peak_step=int(step[top]),
        recovery="recovered",
        occurrences=tuple(int(s) for s in step[at]),
        confidence=0.8,
        scope=Scope(sibling=other.run),
        summary=(
            f"{loss} leaves its noise at the same steps as that of {name}, fed in the same order: {steps}; "
            f"the furthest to {values[0][top]:.4g} at step {step[top]}, {heights[0][top]:.2g} noise widths"
        ),
        evidence=rows,
    )
