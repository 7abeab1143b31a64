"""Series that climb little by little and fall back at once, again and again: a pace that follows sorted data."""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.stretches import stretches

ALIKE = 0.4  # of the highest tooth of a saw that each must climb
UNEVEN = 0.15  # of a tooth by which their lengths may differ
CLIMBED = 0.2  # of its fall that a tooth climbs between its outer thirds; a flat course does not


def is_saw(value: Floats) -> bool:
    """Whether a series climbs little by little and falls back at once, again and again at even distances: epochs that
    begin with short samples and end with long ones. The first and last tooth may be cut."""
    falls = _falls(value)
    if not len(falls):
        return False
    lengths = np.diff([0, *falls, len(value)])
    tooth = float(np.median(lengths[1:-1])) if len(falls) > 1 else float(lengths[0])
    even = bool(np.all(np.abs(lengths[1:-1] - tooth) <= UNEVEN * tooth + 2))
    if not even or lengths[0] > (1 + UNEVEN) * tooth or lengths[-1] > (1 + UNEVEN) * tooth:
        return False
    parts = np.split(value, falls)
    last = parts.pop() if lengths[-1] < (1 - UNEVEN) * tooth else parts[-1]
    whole = [part for part in parts if len(part) >= max(9, tooth / 2)]
    thirds = [[float(np.median(third)) for third in np.array_split(part, 3)] for part in whole]
    climbs = [end - start for start, _, end in thirds]
    fallen = float(np.median([np.ptp(value[max(0, at - 9) : at + 9]) for at in falls]))
    if not climbs or min(climbs) <= max(ALIKE * max(climbs), CLIMBED * fallen):
        return False
    gradual = all(middle - start > 0.1 * (end - start) for start, middle, end in thirds)
    if len(last) < tooth / 6:
        return gradual and len(whole) > 1
    goes_on = abs(float(np.median(last)) - float(np.median(whole[-1][: len(last)]))) < ALIKE * max(climbs)
    return gradual and goes_on and (len(whole) > 1 or len(last) >= tooth / 3)


def _falls(value: Floats) -> Ints:
    """Indices at which a series falls at once by half of its range or more and far out of its noise, in order."""
    n = len(value)
    width = max(3, min(9, n // 40))
    levels = medians(np.lib.stride_tricks.sliding_window_view(value, width))
    change = levels[width:] - levels[:-width]
    low, high = np.quantile(value, (0.05, 0.95))
    bar = -max(0.5 * float(high - low), 6 * robust_sigma(np.diff(value)) / np.sqrt(width))
    first, last = stretches(change < bar)
    return np.array([a + width + int(np.argmin(change[a : b + 1])) for a, b in zip(first, last, strict=True)], np.int64)
