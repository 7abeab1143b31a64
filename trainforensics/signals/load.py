"""From a stored run to what detectors judge: roles resolved, process lives joined, repeated logs set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainforensics import roles
from trainforensics.config import Settings
from trainforensics.model import ReadWarning, Series, SeriesSummary
from trainforensics.signals import checkpoints
from trainforensics.signals.blanks import with_blanks, without_unmade
from trainforensics.signals.curve import Curve
from trainforensics.signals.mixture import shares
from trainforensics.signals.parts import sum_of_parts
from trainforensics.signals.recurrences import shard_codes
from trainforensics.signals.run import Signals
from trainforensics.store.agreement import Agreement, agreement
from trainforensics.store.reader import StoredPoints, StoredRun, StoredSeries

_SAME = 0.8  # share of common steps that must agree for two sources to have logged the same metric


@dataclass(frozen=True, slots=True)
class Judged:
    """The view for detectors, and what result.json says about the series."""

    signals: Signals
    series: tuple[SeriesSummary, ...]
    warnings: tuple[ReadWarning, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    """One metric of one chain of sources: the stored series that continue each other, as one curve."""

    curve: Curve
    members: tuple[int, ...]


def load(run: StoredRun, settings: Settings) -> Signals:
    """The view of a stored run that detectors get."""
    return judge_series(run, settings).signals


def judge_series(run: StoredRun, settings: Settings) -> Judged:
    """Resolve roles, join lives and find twins. Reads all points of the run."""
    sizes: Counter[str] = Counter()
    for series in run.series:
        sizes[series.series.name] += series.n
    matches = roles.resolve_all(sizes, settings.map, sizes)
    stored = [_resolved(series, matches[series.series.name]) for series in run.series]
    points, blank = with_blanks(stored, *run.points_and_blanks())
    points, unmade = without_unmade(stored, points)
    streams = _streams(stored, points)
    judged, twins, warnings = _set_twins_aside(streams)
    by_role: dict[str, list[Curve]] = {}
    for curve in judged:
        if curve.series.role is not None:
            by_role.setdefault(curve.series.role, []).append(curve)
    by_role["shard"] = _shards(run, by_role.get("train_loss", [])) or by_role.get("shard", [])
    by_role["sampling_ratio"] = [*by_role.get("sampling_ratio", []), *_mixture(run, by_role.get("train_loss", []))]
    for role in ("train_loss", "val_loss"):
        by_role[role] = [*by_role.get(role, []), *sum_of_parts(by_role.get(role, []))]
    sources = run.sources
    longest = max(judged, key=len, default=None)
    logged = longest.step if longest is not None else np.empty(0, np.int64)
    signals = Signals(
        run=run.name,
        axis=run.axis,
        by_role={role: tuple(sorted(curves, key=len, reverse=True)) for role, curves in by_role.items() if curves},
        unmapped=tuple(curve for curve in judged if curve.series.role is None),
        events=run.events,
        checkpoints=checkpoints.known(run.checkpoints, run.events, logged),
        config=run.config,
        warnings=tuple(w for source in sources for w in source.warnings),
        sampled=next((w.message for source in sources for w in source.warnings if w.kind == "sampled"), ""),
    )
    return Judged(signals, tuple(_summary(series, twins) for series in stored), (*blank, *unmade, *warnings))


def _shards(run: StoredRun, losses: list[Curve]) -> list[Curve]:
    """The shard at each step of the longest loss, by the batch manifest."""
    batches = run.batches() if losses else None
    codes = shard_codes(batches, max(losses, key=len)) if batches is not None else None
    return [codes] if codes is not None else []


def _mixture(run: StoredRun, losses: list[Curve]) -> list[Curve]:
    """The shares of the sources that the batch manifest names, at the steps of the longest loss."""
    batches = run.batches() if losses else None
    return shares(batches, max(losses, key=len)) if batches is not None else []


def _resolved(stored: StoredSeries, match: roles.RoleMatch) -> StoredSeries:
    series = replace(
        stored.series,
        role=match.role,
        rank=stored.series.rank if stored.series.rank is not None else match.rank,
        layer=match.layer,
        expert=match.expert,
        domain=match.domain,
    )
    return replace(stored, series=series)


def _summary(stored: StoredSeries, twins: Mapping[int, str]) -> SeriesSummary:
    series = stored.series
    return SeriesSummary(
        name=series.name,
        role=series.role,
        source=series.source,
        rank=series.rank,
        n=stored.n,
        n_nonfinite=stored.n_nonfinite,
        first_step=stored.first_step,
        last_step=stored.last_step,
        twin_of=twins.get(series.id),
    )


# --- lives -------------------------------------------------------------------------------------------------------


def _streams(stored: Sequence[StoredSeries], points: Mapping[int, StoredPoints]) -> list[_Stream]:
    groups: dict[tuple[int, str, int | None], list[StoredSeries]] = {}
    for series in stored:
        if series.series.id in points:
            groups.setdefault((series.stream, series.series.name, series.series.rank), []).append(series)
    return [_stream(group, points) for group in groups.values()]


def _stream(group: Sequence[StoredSeries], points: Mapping[int, StoredPoints]) -> _Stream:
    ordered = sorted(group, key=lambda s: s.part)
    pieces = [points[s.series.id] for s in ordered]
    step = np.concatenate([piece.step for piece in pieces])
    value = np.concatenate([piece.value for piece in pieces])
    time = np.concatenate([piece.time for piece in pieces])
    segment = np.concatenate([piece.segment for piece in pieces])
    naive = any(s.series.naive_time for s in ordered)
    raw = Curve(replace(ordered[0].series, naive_time=naive), step, value, time, segment)
    return _Stream(join_lives(raw), tuple(s.series.id for s in ordered))


def join_lives(raw: Curve) -> Curve:
    """Order the points by life and step, and set aside what a later life logged again.

    A life supersedes every point of earlier lives at or after its own first step: that part of the history was undone.
    """
    if not len(raw):
        return raw
    order = np.lexsort((raw.step, raw.segment))
    if np.any(np.diff(order) < 0):
        raw = raw.take(order)
    if raw.segment[0] == raw.segment[-1]:
        return raw
    starts = np.flatnonzero(np.diff(raw.segment, prepend=raw.segment[0] - 1))
    first_steps = raw.step[starts]
    later = np.minimum.accumulate(first_steps[::-1])[::-1]
    limit = np.append(later[1:], np.iinfo(np.int64).max)
    life = np.cumsum(np.isin(np.arange(len(raw)), starts)) - 1
    keep = raw.step < limit[life]
    return raw if keep.all() else replace(raw.take(keep), superseded=raw.take(~keep))


# --- the same metric twice ---------------------------------------------------------------------------------------


def _set_twins_aside(streams: Sequence[_Stream]) -> tuple[list[Curve], dict[int, str], list[ReadWarning]]:
    """Judge a metric that several sources logged once: the fullest curve speaks, the others cross-check it."""
    groups: dict[object, list[_Stream]] = {}
    for stream in streams:
        groups.setdefault(_metric(stream.curve.series), []).append(stream)
    judged: list[Curve] = []
    twins: dict[int, str] = {}
    warnings: list[ReadWarning] = []
    for group in groups.values():
        heads: list[_Stream] = []
        for stream in sorted(group, key=lambda s: -len(s.curve)):
            shifts = ((head, _shift(head, stream)) for head in heads)
            head, shift = next(((head, shift) for head, shift in shifts if shift is not None), (None, 0))
            if head is None:
                heads.append(stream)
                continue
            moved = replace(stream.curve, step=stream.curve.step + shift)
            heads[heads.index(head)] = replace(head, curve=_extended(head.curve, moved))
            spokesman = f"{head.curve.name} ({head.curve.series.source})"
            twins |= dict.fromkeys(stream.members, spokesman)
            if shift:
                message = f"{stream.curve.name} is {spokesman} with steps {'lower' if shift > 0 else 'higher'} by 1"
                warnings.append(ReadWarning("cross-check", stream.curve.series.source, message))
        warnings += _disagreements(heads)
        judged += [head.curve for head in heads]
    return judged, twins, warnings


def _metric(series: Series) -> object:
    """What two series must share to be the same metric: the role and its place, or the name where there is no role."""
    place = (series.rank, series.layer, series.expert, series.domain)
    return (series.role or series.name, *place)


def _shift(a: _Stream, b: _Stream) -> int | None:
    """By how much the steps of b must be raised for it to be the metric a of another source; None where it is not."""
    if a.curve.series.source == b.curve.series.source:
        return None
    found = _agreement(a.curve, b.curve)
    return found.shift if found.common > 1 and found.share >= _SAME else None


def _agreement(a: Curve, b: Curve) -> Agreement:
    return agreement((a.step, a.value), (b.step, b.value))


def _extended(curve: Curve, twin: Curve) -> Curve:
    """The curve with the points that its twin has before or after it."""
    extra = twin.take((twin.step < curve.step[0]) | (twin.step > curve.step[-1]))
    if not len(extra):
        return curve
    whole = Curve(
        replace(curve.series, naive_time=curve.series.naive_time or twin.series.naive_time),
        np.concatenate([curve.step, extra.step]),
        np.concatenate([curve.value, extra.value]),
        np.concatenate([curve.time, extra.time]),
        np.concatenate([curve.segment, extra.segment]),
    )
    return replace(whole.take(np.argsort(whole.step, kind="stable")), superseded=curve.superseded)


def _disagreements(heads: Sequence[_Stream]) -> Iterable[ReadWarning]:
    first = heads[0].curve
    for other in heads[1:]:
        if other.curve.name != first.name or other.curve.series.source == first.series.source:
            continue
        found = _agreement(first, other.curve)
        if found.common > 1:
            message = (
                f"{first.name} agrees with {first.series.source} on {found.share:.0%} of the common steps; "
                f"both are judged as separate series"
            )
            yield ReadWarning("cross-check", other.curve.series.source, message)
