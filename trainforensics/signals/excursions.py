"""Where a series climbs out of its own noise: bursts, rises and lasting jumps, found on a pyramid of time scales.

At every scale (medians of 1, 2, 4 ... points) a point is an excursion when it stands above the level on both of its
sides, and a jump lies where the level behind stands above the level before. Standing above the higher of the two levels
sets aside what is no incident: steep descents, epoch stairs, learning-rate drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainforensics.model import Recovery
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.noise import chance_height
from trainforensics.signals.trend import WINDOW, Level, level, log_space, sides

MIN_POINTS = 12
MIN_HEIGHT = 6.0  # noise widths; a normal series of 200,000 points stays below 5
SETTLED = 8  # points from an onset on before "it does not come back" may be said
MIN_VISIBLE = 2.0  # a rise of less than this many widths of the point-to-point noise is left alone
WANDER_BLOCKS = 64  # scales with at least so many blocks say how far the series wanders slowly
MIN_JUMP = 6.0  # the same for the difference of two levels, in standard errors
SHARP = 2  # blocks: a jump that climbs within so few is measured on a finer scale
FEW_POINTS = 3  # a rise within this many logged points is sudden


@dataclass(frozen=True, slots=True)
class Excursion:
    """One climb out of the noise. Indices refer to the finite points of the curve; values are as logged.

    `onset`: first point outside the noise; `peak`: highest point; `end`: first point back inside, or the last point;
    `knee`: where the steepest half of the climb begins, when that half takes less than a fifth of it, else the onset;
    `rise`: points from onset to half of the height; `height` above the level before, `sigma` the noise there (both in
    the space of judgement, see `log_space`), `before` and `after` the levels as logged; `returned`: it came back
    below half of its height.
    """

    shape: Literal["burst", "rise"]
    onset: int
    knee: int
    peak: int
    end: int
    rise: int
    height: float
    sigma: float
    before: float
    after: float
    recovery: Recovery
    returned: bool
    scale: int

    @property
    def z(self) -> float:
        """Height in noise widths."""
        return self.height / self.sigma if self.sigma > 0 else np.inf


def excursions(curve: Curve) -> tuple[Excursion, ...]:
    """Every excursion of a curve's finite points, by onset; empty for fewer than 12 points."""
    values = curve.value[curve.finite]
    if len(values) < MIN_POINTS or values.max() == values.min():
        return ()
    logged = log_space(values)
    space = np.log(values) if logged else values
    finest = level(space)
    found: list[Excursion] = []
    scales = _scales(len(space))
    coarse = {scale: space if scale == 1 else _block_medians(space, scale) for scale in scales}
    levels = {scale: finest if scale == 1 else level(coarse[scale]) for scale in scales}
    wander = max(
        (float(np.median(levels[s].sigma)) for s in scales if s >= 8 and len(coarse[s]) >= WANDER_BLOCKS), default=0.0
    )
    for scale in scales:
        for start, stop in _bursts(coarse[scale], levels[scale]):
            _keep(found, _measured(values, space, finest, (start, stop), scale, found))
    for scale in reversed(scales):
        for at in _jumps(coarse[scale], levels[scale].sigma, finest.persistence(scale)):
            jump = _measured(values, space, finest, (at, at + WINDOW), scale, found)
            if jump is not None and (scale == 1 or jump.rise > SHARP * scale):
                _keep(found, jump)
    return tuple(sorted((e for e in found if e.height >= MIN_HEIGHT * wander), key=lambda e: e.onset))


def _keep(found: list[Excursion], excursion: Excursion | None) -> None:
    if excursion is not None and not any(e.onset <= excursion.onset <= e.end for e in found):
        found.append(excursion)


def _measured(
    values: Floats, space: Floats, finest: Level, blocks: tuple[int, int], scale: int, found: list[Excursion]
) -> Excursion | None:
    start, stop = blocks[0] * scale, blocks[1] * scale
    limit = _limit(start, stop, scale, found, len(space))
    return _measure(values, space, finest, (start, stop, limit), scale) if limit else None


def _limit(start: int, stop: int, scale: int, found: list[Excursion], n: int) -> int:
    """How far a candidate may look: to the next excursion known already; 0 where it is that excursion seen again."""
    for known in found:
        if start < known.end + scale and stop > known.onset - scale and start > known.onset - 4 * scale:
            return 0
    return min((known.onset for known in found if known.onset >= stop), default=n)


def _scales(n: int) -> list[int]:
    """1, 2, 4 ... while at least 20 blocks remain: four levels of five."""
    scales = [1]
    while n // (2 * scales[-1]) >= 20:
        scales.append(2 * scales[-1])
    return scales


def _block_medians(values: Floats, size: int) -> Floats:
    whole = len(values) - len(values) % size
    return np.median(values[:whole].reshape(-1, size), axis=1)


def _bursts(values: Floats, levels: Level) -> list[tuple[int, int]]:
    """Stretches [start, stop) of points above both of their sides, highest first."""
    z = np.nan_to_num((values - np.fmax(levels.left, levels.right)) / levels.sigma, nan=0.0)
    z[np.isnan(levels.left)] = 0.0
    return _stretches(z, chance_height(_peaks(z), MIN_HEIGHT))


def _jumps(values: Floats, sigma: Floats, persistence: float) -> list[int]:
    """Points at which the level behind stands above the level before, highest first."""
    window = min(WINDOW, len(values) // 4)
    left, right = sides(values, window)
    error = sigma[1:] * persistence * 1.2533 * np.sqrt(2 / window)
    jump = np.append(0.0, np.nan_to_num((right[:-1] - left[1:]) / error, nan=0.0))
    return [start + int(np.argmax(jump[start:stop])) for start, stop in _stretches(jump, MIN_JUMP)]


def _peaks(z: Floats) -> Floats:
    """Heights with every stretch above 3 reduced to its highest point."""
    high = np.flatnonzero(z > 3)
    if not len(high):
        return z
    groups = np.split(high, np.flatnonzero(np.diff(high) > 3) + 1)
    return np.append(z[z <= 3], [z[group].max() for group in groups])


def _stretches(z: Floats, bar: float) -> list[tuple[int, int]]:
    """Runs of values above half of `bar` that hold one above it, gaps of up to two points closed; highest first."""
    at = np.flatnonzero(z > bar / 2)
    if not len(at):
        return []
    groups = np.split(at, np.flatnonzero(np.diff(at) > 3) + 1)
    kept = [(int(g[0]), int(g[-1]) + 1) for g in groups if z[g].max() >= bar]
    return sorted(kept, key=lambda g: -z[g[0] : g[1]].max())


def _measure(values: Floats, space: Floats, finest: Level, place: tuple[int, int, int], scale: int) -> Excursion | None:
    """Onset, peak, end and recovery of a candidate at `place` = (start, stop, how far to look)."""
    start, stop, limit = place
    smooth = _moving_median(space[:limit], scale)
    before, base = _base(space[:start], scale, float(finest.sigma[max(start - 1, 0)]))
    if base < 0:
        return None
    noise = float(finest.sigma[base]) * min(1.0, finest.persistence(1) / np.sqrt(scale))
    top = start + int(np.argmax(smooth[start:stop]))
    highest = np.maximum.accumulate(smooth[top:])
    steady = smooth[top:] if scale > 1 else _moving_median(smooth[top:], 5)
    below = np.flatnonzero(steady - before < 0.5 * (highest - before))
    returned = len(below) > 0
    turn = top + int(below[0]) if returned else limit
    peak = top + int(np.argmax(smooth[top:turn])) if turn > top else top
    height = float(smooth[peak] - before)
    if height < max(MIN_HEIGHT * noise, MIN_VISIBLE * float(finest.sigma[base])):
        return None
    outside = smooth[: peak + 1] > before + (3 if scale == 1 else 2) * noise
    inside = np.flatnonzero(~outside)
    onset = int(inside[-1]) + 1 if len(inside) else 0
    climbed = np.flatnonzero(smooth[onset : peak + 1] >= before + 0.5 * height)
    rise = int(climbed[0]) if len(climbed) else 0
    calm = np.flatnonzero(_moving_median(space[peak:limit], 5) <= before + 2 * noise)
    end = peak + int(calm[0]) if len(calm) else limit - 1
    after = float(np.median(space[end : end + WINDOW * scale])) if end < limit else float(space[limit - 1])
    recovery = _recovery(returned, bool(len(calm)), space[onset:limit], height)
    undo = np.exp if values is not space else (lambda x: x)
    shape: Literal["burst", "rise"] = "burst" if rise <= FEW_POINTS else "rise"
    return Excursion(
        shape,
        onset,
        onset + _knee(smooth[onset : peak + 1], before, height),
        peak,
        end,
        rise,
        height,
        float(finest.sigma[base]),
        float(undo(before)),
        float(undo(after)),
        recovery,
        returned,
        scale,
    )


def _base(space: Floats, scale: int, sigma: float) -> tuple[float, int]:
    """Level and index from which a climb that ends `space` set out: the lowest smoothed point before it, looking back
    until the series stood clearly higher; index -1 where nothing precedes."""
    width = 4 * scale + 1
    if len(space) < 3:
        return np.nan, -1
    back = _moving_median(space, width)[::-1]
    lowest = np.minimum.accumulate(back)
    higher = np.flatnonzero(back > lowest + 4 * sigma / np.sqrt(width))
    reach = int(higher[0]) if len(higher) and higher[0] > 0 else len(back)
    at = int(np.argmin(back[:reach]))
    return float(back[at]), len(space) - 1 - at


def _knee(climb: Floats, before: float, height: float) -> int:
    """Index at which the shortest stretch that gains half of the height begins; 0 for an even climb."""
    if len(climb) < 10:
        return 0
    gained = np.maximum.accumulate(climb) - before
    reach = np.searchsorted(gained, gained + height / 2)
    length = np.where(reach < len(gained), reach - np.arange(len(gained)), len(gained))
    at = int(np.argmin(length))
    return at if length[at] < len(climb) / 5 else 0


def _recovery(returned: bool, calm: bool, since: Floats, height: float) -> Recovery:
    """What became of it; `since` holds the points from the onset on."""
    if calm:
        return "recovered"
    if returned:
        return "partial"
    if len(since) < SETTLED:
        return "ongoing"
    third = len(since) // 3
    late, middle = np.median(since[-third:]), np.median(since[third:-third])
    return "diverging" if late > middle + 0.1 * height else "unrecovered"


def _moving_median(values: Floats, width: int) -> Floats:
    """Centred running median; the ends use what there is. For long windows, of every (width // 8)-th position."""
    n = len(values)
    if width <= 1 or n <= 2:
        return values
    half = width // 2
    padded = np.pad(values, (half, width - 1 - half), mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    stride = max(1, width // 8)
    if stride == 1:
        return np.median(windows, axis=1)
    at = np.arange(0, n, stride)
    return np.interp(np.arange(n), at, np.median(windows[::stride], axis=1))
