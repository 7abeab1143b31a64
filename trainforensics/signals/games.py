"""The losses of a game: each side's turns are the other's, so that a high value alone says nothing."""

from __future__ import annotations

import re

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.excursions import MIN_POINTS
from trainforensics.signals.measure import FIRST_POINTS, Excursion
from trainforensics.signals.noise import median, robust_sigma
from trainforensics.signals.rows import loss_like
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import lasting_start
from trainforensics.signals.trend import WINDOW

GIANT, TOWERS = 3.0, 1.15  # times every other value of a game; two of its losses at once, which seldom happens
TOGETHER = 0.5  # correlation of two losses of which one holds the other, or both tell of the same batch
_SIDE = re.compile(
    r"(?:loss[-_ /])?(?:d|g|cycle|cyc|idt|gan|disc|gen)(?:[-_](?:a|b|x|y|gan|l1|real|fake|adv))?", re.IGNORECASE
)
FEWEST_SIDES = 4  # losses beside one, as two generators and two discriminators have
_JUDGE = re.compile(r"(?:^|[^a-z])(?:d|disc|discriminator)(?:[^a-z]|$)", re.IGNORECASE)
_MAKER = re.compile(r"(?:^|[^a-z])(?:g|gen|generator)(?:[^a-z]|$)", re.IGNORECASE)
NEVER_WRONG = 0.01  # of its first loss, that a discriminator has left: public games that went on keep 0.02 and more
CLIMBING, LOST = 1.5, 3.0  # times its early level, that of a generator from where on and in the end
START = 10  # part of a game in which its sides have not found each other


def towering(signals: Signals, curve: Curve) -> Excursion | None:
    """A value, after the start, to whose level those behind it come back and which is no turn of a game: several times
    all but its neighbours; or clearly above them where another loss of the game is at its own height as well."""
    value, n = curve.value, len(curve)
    top = int(np.argmax(value[n // START :])) + n // START if n else 0
    if n < MIN_POINTS or not FIRST_POINTS <= top < n - FIRST_POINTS:
        return None
    giant = value[top] > GIANT * float(_others(value, top, 0).max()) > 0
    if not giant and not (_towers(value, top, n // START) and _shared(signals, curve, top)):
        return None
    return _alone(value, top)


def towering_sides(signals: Signals, curve: Curve) -> tuple[Curve, Excursion] | None:
    """The highest value of the other losses of a game that are logged in the rows of this one, where it is several
    times all others and another of them towers at the same row."""
    sides = [c.only_finite() for c in signals.unmapped if _SIDE.fullmatch(c.name) and c.series.rank is None]
    rows = [side for side in sides if np.array_equal(side.step, curve.step)]
    n = len(curve)
    if len(rows) < FEWEST_SIDES or n < MIN_POINTS:
        return None
    for side in rows:
        top = int(np.argmax(side.value))
        giant = side.value[top] > GIANT * float(np.delete(side.value, top).max())
        others = (other.value for other in rows if other is not side)
        shared = any(_towers(v, top, 0) and not _moves_with(side.value, v) for v in others)
        if giant and shared and FIRST_POINTS <= top < n - FIRST_POINTS:
            return side, _alone(side.value, top)
    return None


def _alone(value: Floats, top: int) -> Excursion:
    """A value that stands alone, between the levels on both sides."""
    before, after = median(value[:top][-WINDOW:]), median(value[top + 1 :][:WINDOW])
    sigma = robust_sigma(_others(value, top, 0))
    return Excursion.plain(
        value, top, top, before=before, after=after, sigma=sigma, recovery="recovered", half=top, end=top
    )


def _others(value: Floats, top: int, start: int) -> Floats:
    """All values from `start` on but those around `top`."""
    return np.delete(value, slice(top - FIRST_POINTS, top + FIRST_POINTS + 1))[start:]


def _towers(value: Floats, top: int, start: int) -> bool:
    """Whether a value is clearly the highest after the start, and half as much again as is usual."""
    others = _others(value, top, start)
    return bool(value[top] > TOWERS * float(others.max()) > 0 and value[top] > 1.5 * float(np.median(others)))


def _shared(signals: Signals, curve: Curve, top: int) -> bool:
    """Whether another loss, logged in the same rows, towers at the same one though it does not move with this one
    otherwise, as a part of it does: what one side loses the other has won."""
    losses = (c.only_finite() for c in loss_like(signals) if c.series != curve.series and c.series.rank is None)
    rows = (c.value for c in losses if np.array_equal(c.step, curve.step))
    return any(_towers(value, top, len(value) // START) and not _moves_with(curve.value, value) for value in rows)


def _moves_with(one: Floats, other: Floats) -> bool:
    """Whether two series rise and fall together from point to point, by the ranks of their moves."""
    ranks = np.argsort(np.argsort(np.diff(np.stack([one, other]))))
    return bool(np.asarray(np.corrcoef(ranks))[0, 1] > TOGETHER)


def decided(signals: Signals) -> tuple[Curve, Excursion] | None:
    """The loss of a generator that climbs for good once its discriminator is never wrong any more, whose own loss is
    down to a hundredth: the game is lost, and little gradient is left to learn from."""
    sides = [c.only_finite() for c in loss_like(signals) if c.series.rank is None]
    judges = [c for c in sides if _JUDGE.search(c.name) and len(c) >= MIN_POINTS and c.value.min() >= 0]
    if not any(0 < float(np.median(c.value[len(c) // 2 :])) < NEVER_WRONG * float(c.value[0]) for c in judges):
        return None
    for maker in (c for c in sides if _MAKER.search(c.name) and len(c) >= MIN_POINTS):
        value, part = maker.value, len(maker) // 8
        early, late = median(value[:part]), median(value[-part:])
        first = lasting_start(value > CLIMBING * early)
        if early > 0 and late > LOST * early and first is not None and first >= FIRST_POINTS:
            sigma = robust_sigma(np.diff(value[:first])) / np.sqrt(2)
            last = len(value) - 1
            return maker, Excursion.plain(
                value, first, last, before=early, after=late, sigma=sigma, recovery="diverging", shape="rise", rise=last
            )
    return None
