"""The comparison of two runs as a whole, and the sentence that sums it up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from trainforensics.blame.described import setting
from trainforensics.blame.sampler import SYNONYMS
from trainforensics.compare.data import compare_data
from trainforensics.compare.pairing import COUNTS, LEADING, MEASURED, SCHEDULED, SETTING, UNMAPPED, importance, pairs
from trainforensics.compare.series import compare_curves
from trainforensics.compare.settings import compare_settings
from trainforensics.compare.wording import ROUNDED, side_by_side
from trainforensics.errors import CannotJudgeError
from trainforensics.model import ConfigDifference, DataDifference, Parting, RunDifference, Series, SeriesDifference
from trainforensics.signals import Curve, Signals

KEYS_SHOWN, LONGEST_VALUE = 3, 40
LOSSES, SCORES = ("train_loss", "val_loss"), ("val_metric", "reward")


def compare(
    a: Signals, b: Signals, batches_a: pl.LazyFrame | None = None, batches_b: pl.LazyFrame | None = None
) -> RunDifference:
    """Hold run B against run A.

    Raises CannotJudgeError where they have no series, or no step of any series, in common.
    """
    matched, only_a, only_b = pairs(a, b)
    series = _compared(matched)
    if not series:
        raise CannotJudgeError(f"{a.run} and {b.run} have nothing in common to compare: {_nothing(a, b, len(matched))}")
    config = compare_settings(a.config, b.config)
    data = compare_data(a, b, batches_a, batches_b)
    finding = _nondeterminism(a, b, series, config, data)
    return RunDifference(
        a=a.run,
        b=b.run,
        summary="; ".join([_series_clause(series), *_data_clause(data), *_config_clause(a, b, config, series)]),
        finding=finding,
        series=tuple(series),
        only_a=only_a,
        only_b=only_b,
        config=config,
        data=data,
        notes=tuple(_notes(a, b, series)),
    )


def _compared(matched: Sequence[tuple[Curve, Curve]]) -> list[SeriesDifference]:
    """Every pair's difference; losses are no multiples of each other where the runs score differently to the end."""
    first = [compare_curves(*pair) for pair in matched]
    scores = [f.parted for f in first if f is not None and f.role in SCORES and f.relation == "parted"]
    if any(parting is not None and parting.until is None for parting in scores):
        first = [
            compare_curves(*pair, scalable=False) if found is not None and found.role in LOSSES else found
            for pair, found in zip(matched, first, strict=True)
        ]
    return [found for found in first if found is not None]


def _nothing(a: Signals, b: Signals, matched: int) -> str:
    if matched:
        return "their common series share no step"
    names = [", ".join(dict.fromkeys(curve.name for curve in run.every_curve()[:8])) for run in (a, b)]
    return f"no common series (A: {names[0]}; B: {names[1]}); name them alike with --map NAME=ROLE"


# --- what parts first --------------------------------------------------------------------------------------------


def first_to_part(series: Sequence[SeriesDifference]) -> tuple[SeriesDifference, Parting] | None:
    """The parting that counts: of learning series before settings and others, to the end before for a while, then the
    earliest."""
    for classes in ((LEADING, MEASURED), (SETTING, UNMAPPED)):
        parted = [(s, s.parted) for s in series if s.relation == "parted" and _importance(s) in classes]
        found = [(s, parting) for s, parting in parted if parting is not None]
        lasting = [(s, parting) for s, parting in found if parting.until is None]
        if found:
            return min(lasting or found, key=lambda pair: pair[1].step)
    return None


def _importance(series: SeriesDifference) -> int:
    return importance(Series(0, series.name, "", series.role))


def _series_clause(series: Sequence[SeriesDifference]) -> str:
    related = [s for s in series if s.relation in ("scaled", "offset", "shifted") and _importance(s) == LEADING]
    clauses = [f"{s.name}: {s.text}" for s in related[:2]]
    first = first_to_part(series)
    learnt = first is not None and _importance(first[0]) in (LEADING, MEASURED)
    if not clauses and not learnt:
        clauses.append(_together_clause(series))
    if first is not None:
        clauses.append(_first_clause(*first))
        loss = next((s for s in series if s.role == "train_loss" and s.relation == "parted"), None)
        if loss is not None and loss is not first[0] and loss.parted is not None:
            clauses.append(f"{loss.name} at step {loss.parted.step}")
    return "; ".join(clauses)


def _together_clause(series: Sequence[SeriesDifference]) -> str:
    learning = [s for s in series if _importance(s) in (LEADING, MEASURED)] or list(series)
    common = max(s.common for s in learning)
    if all(s.relation == "identical" for s in learning):
        rounded = any(s.text.endswith(ROUNDED) for s in learning)
        return f"equal on all of {common} common steps{ROUNDED if rounded else ''}"
    text = f"together to the end of {common} common steps"
    brief = [f"{s.name} at step {s.parted.step}" for s in learning if s.relation == "together" and s.parted]
    return text + (f", but for {', '.join(brief[:2])}" if brief else "")


def _first_clause(series: SeriesDifference, parting: Parting) -> str:
    start = parting.step == series.first_step
    where = "stands apart from the first common step on" if start else f"parts at step {parting.step}"
    width = f" (up to {parting.size:.2g} noise widths)" if parting.size is not None else ""
    back = "" if parting.until is None else f", together again from step {parting.until}"
    return f"{series.name} {where}{width}{back}"


def _data_clause(data: DataDifference) -> Iterable[str]:
    if not data.compared:
        return
    if data.step is None:
        yield f"same data on all of {data.compared} steps compared"
    else:
        yield f"first differing data at step {data.step}: {data.a} in A, {data.b} in B"


def _config_clause(
    a: Signals, b: Signals, config: Sequence[ConfigDifference], series: Sequence[SeriesDifference]
) -> Iterable[str]:
    logged = _other_settings(series)
    if logged:
        yield f"logged settings differ: {', '.join(f'{s.name} ({s.text})' for s in logged[:KEYS_SHOWN])}"
    if not a.config or not b.config:
        return
    told = [d for d in config if d.weight != "incidental"]
    if not told and not logged:
        yield "no difference in configuration that matters" if config else "same configuration"
    if not told:
        return
    shown = ", ".join(f"{d.key} ({', '.join(_said(d))})" for d in told[:KEYS_SHOWN])
    rest = len(told) - KEYS_SHOWN
    yield f"config differs in {shown}" + (f" and {rest} more" if rest > 0 else "")


def _other_settings(series: Sequence[SeriesDifference]) -> list[SeriesDifference]:
    """Schedules that differ from the first common step on, as what the runs were told to do."""
    return [
        s
        for s in series
        if s.role in SCHEDULED - COUNTS
        and (s.relation in ("scaled", "offset", "shifted") or (s.parted is not None and s.parted.step == s.first_step))
    ]


def _said(difference: ConfigDifference) -> tuple[str, str]:
    a = "not set" if difference.missing == "a" else str(difference.a)
    b = "not set" if difference.missing == "b" else str(difference.b)
    return side_by_side(a, b, LONGEST_VALUE)


# --- twins -------------------------------------------------------------------------------------------------------


def _nondeterminism(
    a: Signals,
    b: Signals,
    series: Sequence[SeriesDifference],
    config: Sequence[ConfigDifference],
    data: DataDifference,
) -> str:
    """What to say where runs of one configuration, seed and data order do not agree; empty where there is nothing."""
    if (
        not a.config
        or any(d.weight != "incidental" for d in config)
        or data.step is not None
        or _other_settings(series)
    ):
        return ""
    seeds = [setting(run.config, SYNONYMS["seed"]) for run in (a, b)]
    began_equal = any(s.equal_until is not None for s in series if _importance(s) == LEADING)
    if (seeds[0] is None or seeds[0] != seeds[1]) and not began_equal:
        return ""
    measured = [s for s in series if _importance(s) in (LEADING, MEASURED)]
    unequal = [s for s in measured if s.relation not in ("identical", "unjudged")]
    if not unequal:
        return ""
    first = min(unequal, key=_first_unequal)
    seed = f"seed {seeds[0]}" if seeds[0] is not None else "equal first values"
    known = f"the same data on {data.compared} steps" if data.compared else "no manifest that shows other data"
    twins = f"one configuration, {seed}, {known}, yet {first.name} differs from step {_first_unequal(first)} on"
    restarts = _restarts_at(a, b, _first_unequal(first))
    if restarts:
        return (
            f"{twins}: {', '.join(restarts)}, so what was restored (optimiser, random state, data position) is suspect"
        )
    return (
        f"nondeterminism: {twins}: kernels without a fixed order of summation, random state of the data loader, "
        "or hardware"
    )


def _first_unequal(series: SeriesDifference) -> int:
    return series.first_step if series.unequal_from is None else series.unequal_from


def _notes(a: Signals, b: Signals, series: Sequence[SeriesDifference]) -> Iterable[str]:
    if not (a.config or b.config):
        yield "neither run says anything about its configuration"
    for label, run, other in (("A", a, b), ("B", b, a)):
        if other.config and not run.config:
            yield f"{label} says nothing about its configuration"
        if run.sampled:
            yield f"{label}: {run.sampled}"
    first = first_to_part(series)
    if first is not None:
        yield from _restarts_at(a, b, first[1].step)


def _restarts_at(a: Signals, b: Signals, step: int) -> list[str]:
    """Which run was restarted within two logged points before a step."""
    found = []
    for label, run in (("A", a), ("B", b)):
        curve = max(run.every_curve(), key=len)
        starts = curve.step[np.flatnonzero(np.diff(curve.segment)) + 1]
        near = starts[(starts <= step) & (starts > step - 3 * curve.cadence)]
        if len(near):
            found.append(f"{label} was restarted at step {near[-1]}")
    return found
