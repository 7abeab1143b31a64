"""Names of a log whose meaning is not known, where the verdict suffers from it: what to do about them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence

from trainforensics import roles
from trainforensics.model import RunResult
from trainforensics.report.text import one_line

MAX_NAMES = 6
ADVICE = "say what they mean with --map NAME=ROLE, as in --map NAME=train_loss (`trainforensics explain roles`)"


def unrecognised(result: RunResult) -> tuple[str, ...]:
    """Names without a role, fullest first, of a run that is undecided or has no known training loss; else nothing.

    A name that --map sets to "none" is known to mean nothing.
    """
    if result.verdict != "undecided" and any(series.role == "train_loss" and series.n for series in result.series):
        return ()
    settled = result.options.get("map", {})
    unknown = [series for series in result.series if series.role is None and series.n and series.name not in settled]
    ordered = sorted(unknown, key=lambda series: -series.n)
    return tuple(dict.fromkeys(series.name for series in ordered))


def hint(names: Sequence[str]) -> str:
    """One line on the names that are not recognised, "" where there is none."""
    if not names:
        return ""
    shown = ", ".join(one_line(name) for name in names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"not recognised: {shown}{more}; {ADVICE}"


def hints(results: Iterable[RunResult]) -> list[str]:
    """The hints of some runs, one for all runs that log the same names."""
    by_names: dict[tuple[str, ...], list[str]] = {}
    for result in results:
        if names := unrecognised(result):
            by_names.setdefault(names, []).append(result.run)
    return [
        f"{one_line(runs[0])}{f' and {len(runs) - 1} more' if len(runs) > 1 else ''}: {hint(names)}"
        for names, runs in by_names.items()
    ]


def unmatched(mapped: Mapping[str, str], names: Collection[str]) -> list[str]:
    """A line on each name of --map that no run logs, with those that come near or exist."""
    unknown = [key for key in mapped if not any(roles.is_named(key, name) for name in names)]
    return [f"--map {one_line(key)}={mapped[key]} changes nothing: {_no_such(key, names)}" for key in unknown]


def _no_such(key: str, names: Collection[str]) -> str:
    near = difflib.get_close_matches(key, names, n=3)
    if near:
        return f"no series is named so; did you mean {', '.join(map(one_line, near))}?"
    known = sorted(names)
    more = f" and {len(known) - MAX_NAMES} more" if len(known) > MAX_NAMES else ""
    return f"no series is named so; there are {', '.join(map(one_line, known[:MAX_NAMES]))}{more}"
