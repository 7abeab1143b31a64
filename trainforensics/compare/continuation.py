"""Runs that go on where another one of their folder stood: the border is judged as a restart within one run.

Trainers give every start a folder of its own (`version_1`, `resume_from_1000`), so that a resume which does not join
shows in neither run alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from trainforensics.compare.lineage import is_continued
from trainforensics.compare.settings import compare_settings
from trainforensics.detectors.base import Params
from trainforensics.detectors.generalisation import val_jump
from trainforensics.detectors.resume import resume_discontinuity
from trainforensics.model import Evidence, Finding, Fired, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.load import join_lives

FEWEST_BEFORE, FEWEST_SINCE = 8, 3  # points of the loss in the run that is continued, and in the one that goes on
FEWEST_EVALUATIONS = 3  # of the run that is continued
OTHERWISE = 0.05  # of a validation loss, by which the same weights do not differ from one evaluation to the next
MOST_SETTINGS = 3  # that are told
NEAR = 3  # evaluations after the border to which a change of validation belongs


def broken_borders(neighbours: Sequence[tuple[str, str]], runs: Mapping[str, Signals]) -> Iterator[tuple[str, Finding]]:
    """Runs that do not join the one they continue. A run that several others start from is a fork, not a resume.

    Of several runs that one may continue, joining any is enough.
    """
    ordered = [_in_order(runs[a], runs[b]) for a, b in neighbours]
    pairs = [pair for pair in ordered if _continues(*pair)]
    starts = Counter(earlier.run for earlier, _ in pairs)
    judged: dict[str, list[Finding | None]] = {}
    for earlier, later in pairs:
        judged.setdefault(later.run, []).append(_judge(earlier, later) if starts[earlier.run] == 1 else None)
    for run, (first, *others) in judged.items():
        if first is not None and None not in others:
            yield run, first
    for a, b in neighbours:
        for earlier, later in ((runs[a], runs[b]), (runs[b], runs[a])):
            if (anew := _counted_anew(earlier, later)) is not None:
                yield later.run, anew


def _in_order(a: Signals, b: Signals) -> tuple[Signals, Signals]:
    first = [int(curve.step[0]) if curve is not None and len(curve) else 0 for curve in map(_loss, (a, b))]
    return (a, b) if first[0] <= first[1] else (b, a)


def _loss(run: Signals) -> Curve | None:
    return run.curve("train_loss")


def _continues(earlier: Signals, later: Signals) -> bool:
    """Whether a run goes on from the other, and not from its beginning."""
    old, new = _loss(earlier), _loss(later)
    if old is None or new is None or len(new) < FEWEST_SINCE or len(old) < FEWEST_BEFORE:
        return False
    return int(old.step[FEWEST_BEFORE - 1]) < int(new.step[0]) and is_continued(earlier, later, old, new)


def _counted_anew(earlier: Signals, later: Signals) -> Finding | None:
    """Steps that begin again where another run's epochs go on: a resumed run whose step count was not restored."""
    old, new, loss = earlier.curve("epoch"), later.curve("epoch"), _loss(later)
    if old is None or new is None or loss is None or min(len(old), len(new)) < FEWEST_SINCE:
        return None
    begun, ended, on = float(old.value[0]), float(old.value[-1]), float(new.value[0])
    again = int(new.step[0]) <= int(old.step[min(FEWEST_BEFORE, len(old)) - 1])
    if not (again and ended - begun >= 1 and ended <= on <= ended + 1):
        return None
    step, name = int(loss.step[0]), earlier.run.rsplit("/", 1)[-1]
    text = f"epoch {on:.4g} goes on where {name} ended at {ended:.4g}, while steps begin again at {step}"
    return Finding(
        kind="import-integrity",
        series=new.name,
        role="epoch",
        onset_step=step,
        onset_interval=(step, step),
        confidence=0.7,
        severity="medium",
        scope=Scope(sibling=earlier.run),
        summary=f"{text}: the two runs are one, and their points cannot be put in one order by step",
        evidence=(Evidence(new.name, step, on, ended, text),),
    )


def _judge(earlier: Signals, later: Signals) -> Finding | None:
    """What the detectors of restarts and of validation say of the border."""
    loss = _loss(later)
    if loss is None:
        return None
    border, both = int(loss.step[0]), joined(earlier, later)
    evaluations = both.curve("val_loss")
    reach = NEAR * (evaluations.cadence if evaluations is not None else loss.cadence)
    for detector in (resume_discontinuity, val_jump):
        params: Params = {p.name: p.default for p in detector.META.params}
        outcome = detector.detect(both, params)
        for finding in outcome.findings if isinstance(outcome, Fired) else ():
            if border <= (finding.onset_step or 0) <= border + reach:
                name = earlier.run.rsplit("/", 1)[-1]
                summary = f"the run goes on from step {border} of {name}: {finding.summary}"
                evidence = (*finding.evidence, *_set_otherwise(earlier, later, border))
                return replace(finding, scope=Scope(sibling=earlier.run), segment=0, summary=summary, evidence=evidence)
    return _measured_again(earlier, later)


def _set_otherwise(earlier: Signals, later: Signals, border: int) -> Iterator[Evidence]:
    """The settings that can change what is learnt in which the run differs from the one it goes on from."""
    name = earlier.run.rsplit("/", 1)[-1]
    differing = [d for d in compare_settings(earlier.config, later.config) if d.weight == "learning"]
    for found in differing[:MOST_SETTINGS]:
        if found.missing is None:
            yield Evidence("configuration", border, None, None, f"{found.key} was {found.a} in {name} and is {found.b}")


def _measured_again(earlier: Signals, later: Signals) -> Finding | None:
    """An evaluation that the new run makes of the weights it was given, where the old one had evaluated them."""
    before, since = earlier.curve("val_loss"), later.curve("val_loss")
    if before is None or since is None or len(before := before.only_finite()) < FEWEST_EVALUATIONS or not len(since):
        return None
    step, again = int(since.step[0]), float(since.value[0])
    same = np.flatnonzero(before.step == step)
    if not len(same) or not np.isfinite(again):
        return None
    told = float(before.value[same[0]])
    usual = float(np.abs(np.diff(before.value[-2 * FEWEST_EVALUATIONS :])).max())
    if abs(again - told) <= max(OTHERWISE * abs(told), 2 * usual):
        return None
    name = earlier.run.rsplit("/", 1)[-1]
    text = f"{since.name} is {again:.4g} at step {step}, where {name} had measured {told:.4g}"
    return Finding(
        kind="val-jump",
        series=since.name,
        role="val_loss",
        onset_step=step,
        onset_interval=(step, step),
        peak_step=step,
        confidence=0.7,
        scope=Scope(sibling=earlier.run),
        summary=f"{text}: the same weights, measured otherwise",
        evidence=(Evidence(since.name, step, again, told, text),),
        segment=0,
    )


def joined(earlier: Signals, later: Signals) -> Signals:
    """Two runs as one, the later as a process life that supersedes what the earlier one had logged beyond its start."""
    lives = 1 + max((int(c.segment.max()) for c in earlier.every_curve() if len(c)), default=0)
    old = {_key(curve): curve for curve in earlier.every_curve()}
    by_role: dict[str, list[Curve]] = {}
    for curve in later.every_curve():
        role, before = curve.series.role, old.get(_key(curve))
        if role is not None and before is not None:
            by_role.setdefault(role, []).append(_one_after_the_other(before, curve, lives))
    return Signals(
        later.run, later.axis, {role: tuple(curves) for role, curves in by_role.items()}, config=later.config
    )


def _key(curve: Curve) -> tuple[object, ...]:
    series = curve.series
    return (series.name, series.rank, series.layer, series.expert, series.domain)


def _one_after_the_other(before: Curve, since: Curve, lives: int) -> Curve:
    whole = Curve(
        since.series,
        np.concatenate([before.step, since.step]),
        np.concatenate([before.value, since.value]),
        np.concatenate([before.time, since.time]),
        np.concatenate([before.segment, since.segment + lives]),
    )
    return join_lives(whole)
