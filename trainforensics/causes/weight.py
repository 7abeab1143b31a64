"""What a hypothesis answers: what speaks for it and against it, what would settle it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Natural logarithms of odds. A hint doubles the odds, a clear sign raises them fivefold, a strong one twentyfold;
# proof leaves one in a hundred.
HINT, CLEAR, STRONG, PROOF = 0.7, 1.6, 3.0, 4.6


@dataclass(frozen=True, slots=True)
class Reason:
    """One piece of evidence: points added to the log-odds (negative: against) and the sentence with its numbers."""

    points: float
    text: str


@dataclass(frozen=True, slots=True)
class Weight:
    """A hypothesis weighed: reasons for it and against it, and the experiment that decides."""

    reasons: Sequence[Reason]
    test: str


def reason(points: float, text: str) -> list[Reason]:
    """The fact, or nothing where it gives a hypothesis no points."""
    return [Reason(points, text)] if points else []
