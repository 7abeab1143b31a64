"""What the lines that follow tell of a line: whether its count rises, and which of its counts tells lines apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.numbers import whole_number
from trainforensics.importers.printed.text.plain import pieces
from trainforensics.importers.printed.text.wordings import other_words

TRIED = 60  # lines that are looked at
ENOUGH, ENOUGH_BARE = 3, 10  # lines whose count rises; of those that hold nothing but it and a number
_RISES, _SEVERAL = 2, 2
_APART = 1.25
_OTHER_PACE = 2.0


@dataclass(slots=True, eq=False)
class Ahead:
    """The lines of a block, of which the first has the number `first`; one block after another."""

    lines: Sequence[str] = ()
    first: int = 0

    def turn_to(self, lines: Sequence[str], first: int) -> None:
        """The next block."""
        self.lines, self.first = lines, first

    def ends_before(self, number: int) -> bool:
        """Whether fewer lines than are looked at follow the one of a number."""
        return number - self.first > len(self.lines) - TRIED

    def after(self, number: int) -> str:
        """The line behind the one of a number."""
        return next(iter(self._from(number + 1, 1)), "")

    def begin_so(self, lead: str, number: int) -> int:
        """How many lines from the one of a number on begin with a text."""
        return sum(line.startswith(lead) for line in self._from(number))

    def recurs(self, shape: Shape, number: int, enough: int = ENOUGH, *, far: bool = False) -> bool:
        """Whether lines of a shape follow the one of a number, and their count rises; `far`: to the block's end."""
        place = shape.step or shape.inner or shape.epoch
        found = self._matches(shape, number, len(self.lines) if far else TRIED)
        counts: list[int] = []
        for count in (whole_number(match[place]) for match in found):
            if counts and count <= counts[-1]:
                return False
            counts.append(count)
            if len(counts) == enough:
                return True
        return False

    def repeats(self, shape: Shape, number: int) -> bool:
        """Whether lines of a shape follow the one of a number."""
        return len(list(islice(self._matches(shape, number), ENOUGH))) == ENOUGH

    def counts_otherwise(self, shape: Shape, others: Sequence[Shape], number: int) -> bool:
        """Whether the count of a shape rises at another pace than that of the rows of other shapes between its own."""
        runs: list[tuple[bool, int]] = []  # whether of the shape, and its count, of each run of such rows
        for line in self._from(number):
            for kind in (shape, *others):
                if (found := kind.pattern.match(line)) is not None:
                    if not runs or runs[-1][0] != (kind is shape):
                        runs.append((kind is shape, whole_number(found[kind.step])))
                    break
        own, beside = ([count for of, count in runs if of is mine] for mine in (True, False))
        if min(len(own), len(beside)) < ENOUGH or any(b <= a for a, b in (*pairwise(own), *pairwise(beside))):
            return False
        paces = [(counts[-1] - counts[0]) / (len(counts) - 1) for counts in (own, beside)]
        return max(paces) >= _OTHER_PACE * min(paces)

    def several_an_epoch(self, shape: Shape, number: int) -> bool:
        """Whether others of a shape follow the line of a number before one says an epoch."""
        found = 0
        for line in self._from(number + 1):
            found += shape.pattern.match(line) is not None
            if found == _SEVERAL or "epoch" in line.lower():
                break
        return found == _SEVERAL

    def stands_still(self, shape: Shape, number: int) -> bool:
        """Whether a count is the same epoch after epoch, so that it says how many steps an epoch has."""
        found = [(match[shape.epoch], match[shape.step]) for match in self._matches(shape, number)]
        return len({epoch for epoch, _ in found}) == len(found) > 1 == len({step for _, step in found})

    def counts_epochs(self, shape: Shape, number: int) -> bool:
        """Whether the second of the numbers "0/1900" rises line by line, and the first as it begins anew."""
        place = shape.step or shape.inner
        if shape.total != place + 1:
            return False
        pairs = [(whole_number(match[place]), whole_number(match[place + 1])) for match in self._matches(shape, number)]
        rises = [one[0] == two[0] and one[1] < two[1] for one, two in pairwise(pairs)]
        return sum(rises) >= _RISES and all(
            rose or one[0] < two[0] for rose, (one, two) in zip(rises, pairwise(pairs), strict=True)
        )

    def tells_apart(self, finer: str, coarse: str, number: int) -> bool:
        """Whether lines that share one of their counts are told apart by the other, from the line of a number on."""
        one, other = (re.compile(rf"(?<!\w){re.escape(name)}[\s:=\[(#]*(\d+)") for name in (finer, coarse))
        pairs = [
            (whole_number(a[1]), whole_number(b[1]))
            for line in self._from(number)
            if (a := one.search(line)) and (b := other.search(line))
        ]
        fine = [pair[0] for pair in pairs]
        return fine == sorted(set(fine)) and len(fine) > _APART * len({pair[1] for pair in pairs})

    def _from(self, number: int, tried: int = TRIED) -> Sequence[str]:
        at = max(0, number - self.first)
        return self.lines[at : at + tried]

    def _matches(self, shape: Shape, number: int, tried: int = TRIED) -> Iterator[re.Match[str]]:
        for line in self._from(number, tried):
            for piece in pieces(line):
                if (found := shape.pattern.match(piece) or shape.pattern.match(other_words(piece))) is not None:
                    yield found
