"""Sources of a folder that only repeat another one of it."""

from __future__ import annotations

from collections.abc import Sequence

from trainforensics.store.staging import Staged

_WHOLE = 0.95  # of the points of a copy that a text must have to stand for it


def echoes(staged: Sequence[Staged]) -> dict[Staged, str]:
    """Sources that repeat another of the candidate, and what they repeat.

    W&B keeps what a run printed in its log and, as a terminal would have shown it, in output.log beside it. The former
    counts, unless part of it was lost.
    """
    found: dict[Staged, str] = {}
    for inner in (log for log in staged if log.is_inner):
        folder = inner.source.path.parent
        for log in staged:
            if log.source.path in (folder / "output.log", folder / "files" / "output.log"):
                whole = inner.points >= _WHOLE * log.points
                found[log if whole else inner] = (inner if whole else log).source.label
    return found
