"""The run turns slower for long.

What it detects:
    Tokens or samples per second or the share of peak FLOPs fall, or the time per step rises, by a step or a slope that
    lasts, beyond the run's own noise. Where no pace is logged, the wall times of the log tell it. Loading of data that
    begins to take a fifth of each step and more. Stalls that take a third of the time of training and more, or single
    epochs that take twice as long and a seventh of it, or stretches of them half of it. A start of three points and
    more that is half as fast again as any later one. A GPU that is idle most of the run is remarked (low).

Why it matters:
    A third less throughput is a third more cost, and often the first sign of a failing node, a full disk or a starving
    data loader.

Evidence:
    Pace before and since, the height in widths of its noise, and what else moved: utilisation, communication and data
    loading time, memory, temperature, clocks.

False positives:
    Compilation and warm-up at the start, pauses for evaluation and checkpoints, single slow steps and wandering pace of
    shared machines are ordinary. Steps that hold more data take longer: batch size and sequence length are divided out
    where logged. A slower pace next to such a change is told as low. A pace that slows down over each epoch and starts
    afresh in the next follows sorted samples. A part of the loss that is logged for the first time where it begins is
    other work; so is a step that takes longer while as many tokens a second are worked through. A series that only
    ever grows is a clock or a counter, not a duration.

Example:
    From step 540 on tokens_per_sec is 16,700 instead of 46,500 (a factor of 2.8); step_time agrees.

Parameters:
    slower: factor of the time per unit of work that counts.
    clock_slower: the same by the wall clock alone, which also holds the pauses of whatever shares the machine: a
        remark (low), and an alarm only from a factor of `clock_alarm` on and for steps of `clock_seconds` or more, or
        points `clock_points` apart, by which a clock that is otherwise steady is believed for less.
    waiting: growth of the share of each step that loading of data takes.
    padded: growth of the share of padding that makes a slowdown a waste instead of other work.
    idle: median GPU utilisation in percent below which a remark is made.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.epochs import length_since
from trainforensics.signals.pace import MIN_POINTS, Pace, paces
from trainforensics.signals.slowdowns import Slowdown, slowdowns
from trainforensics.signals.stalls import stalls
from trainforensics.signals.steps import lasting_steps
from trainforensics.signals.stretches import at_steps
from trainforensics.signals.task import stated

BESIDE = ("gpu_util", "comm_time", "barrier_wait", "dataloader_time", "gpu_memory", "gpu_temperature", "gpu_clock")
META = Meta(
    kind=KINDS["throughput-drop"],
    uses=("tokens_per_sec", "step_time", "mfu", "dataloader_time", "*"),
    params=(
        Param("slower", 1.2, "a fifth; shared networks and clocks wander by a tenth"),
        Param("clock_slower", 1.8, "wall times of a healthy log on a shared machine drift by half"),
        Param("clock_alarm", 2.5, "steps of milliseconds on a busy machine slow down to half their pace and more"),
        Param("clock_seconds", 0.2, "shorter steps are at the mercy of whatever else the machine does"),
        Param("clock_points", 2.0, "seconds between points that hold many short steps; what disturbs one evens out"),
        Param("waiting", 0.2, "share of a step by which waiting for data grows; below, other things decide the pace"),
        Param("padded", 0.2, "more of the batch that is padding; sorting by length moves it by less"),
        Param("idle", 30.0, "practitioners look for a bottleneck outside the device below a third"),
    ),
)
_LENGTH = re.compile(
    r"(^|[/_. ])(lens?|lengths?|n?_?frames|n?_?tokens|n?_?points|nfe|seqlen|resolution|size|window)([-/_. ]|$)",
    re.IGNORECASE,
)
_EXTREME = re.compile(r"(^|[/_. ])(min|max)([-/_. ]|$)", re.IGNORECASE)
SELDOM = 0.1  # of the rows, at which a setting that grows in steps moves
_TRAINABLE = re.compile(r"(?<!non[-_])trainable|unfrozen", re.IGNORECASE)
_FREEZE = re.compile(r"fr(ee|o)ze.*(epoch|step|iter|until)|(epoch|step|iter).*fr(ee|o)ze")  # not of how many layers
STAGE, FEWEST_STAGE = 2.0, 2  # times the rate before, to either side, in another stage of training; rows of one
_MILLISECONDS = re.compile(r"(^|[^a-z])(ms|msec|millis|milliseconds)([^a-z]|$)")
_LOSS = re.compile(r"loss", re.IGNORECASE)
STEADY = 2.0  # times the range of all other points, in logarithms
EXPLAINING = ("batch_size", "seq_len", "world_size", "gradient_accumulation", "stage")
MIN_BEFORE = 5  # points, of which a slope that a log begins with has none before it
HELD, FEWEST_RATES = 0.5, 5  # of a slowdown in logarithms, that the rate shows if it is one; points that tell


def detect(signals: Signals, params: Params) -> Outcome:
    """Report the slowdown that the best source shows, with the others as evidence."""
    known = paces(signals)
    idle = _idle(signals, params["idle"]) or _waiting(signals, params["waiting"])
    if not known:
        if idle is not None:
            return Fired((idle,))
        return NotApplicable("neither pace nor wall times are logged", "tokens per second or seconds per step")
    for pace in known:
        bar = params["clock_slower" if pace.basis == "clock" else "slower"]
        slow = [s for s in slowdowns(pace) if s.factor >= bar and not _more_is_computed(signals, pace, s)]
        slow = [s for s in slow if not _rate_holds(known, pace, s)]
        if slow:
            found = tuple(_finding(signals, pace, s, known, params) for s in slow[:3])
            return Fired(_with_idle(found, idle, pace.curve.cadence))
    stalled = next((finding for pace in known if (finding := _stalled(signals, pace)) is not None), None)
    rest = tuple(finding for finding in (stalled, idle) if finding is not None)
    return Fired(rest) if rest else Clear()


def _with_idle(found: tuple[Finding, ...], idle: Finding | None, cadence: int) -> tuple[Finding, ...]:
    """The slowdowns with a wait for data that begins within one as its evidence, else beside them."""
    if idle is None:
        return found
    begun = idle.onset_step or 0
    for slow in found if idle.role == "dataloader_time" else ():
        first, last = (slow.onset_step or 0) - MIN_BEFORE * cadence, slow.end_step
        if first <= begun and (last is None or begun <= last):
            told = replace(slow, evidence=(*slow.evidence, *idle.evidence))
            return tuple(told if finding is slow else finding for finding in found)
    return (*found, idle)


def _stalled(signals: Signals, pace: Pace) -> Finding | None:
    """Time that is lost again and again between steps of the usual pace."""
    found = stalls(signals, pace)
    if found is None:
        return None
    first, unit = int(found.steps[0]), signals.axis.unit
    text = f"{found.lost:.0%} of the time of training is lost in {len(found.steps)} stalls"
    text += f", one every {np.median(np.diff(found.steps)):.0f} {unit}s" if len(found.steps) > 2 else ""
    times = f"{'an' if unit == 'epoch' else 'a'} {unit} takes {found.stalled / found.usual:.3g} times as long there"
    at = int(np.searchsorted(pace.logged.step, first))
    return Finding(
        kind="throughput-drop",
        series=pace.logged.name,
        role=pace.logged.series.role,
        onset_step=first,
        onset_interval=(int(pace.logged.step[at - 1]), first),
        confidence=0.7,
        summary=f"{text} from {unit} {first} on: {times}, as where data are waited for.",
        occurrences=tuple(found.steps.tolist()),
        recovery="unrecovered",
        evidence=(Evidence(pace.name, first, found.stalled, found.usual, f"{times}; {found.lost:.0%} of all time"),),
    )


def _doubtful(pace: Pace, slow: Slowdown, params: Params) -> bool:
    """Whether a slowdown by the wall clock may be the machine's: short steps, or a factor that it reaches by itself."""
    if pace.basis != "clock":
        return False
    seconds = slow.before * pace.curve.cadence
    quick = slow.before < params["clock_seconds"] and seconds < params["clock_points"]
    others = np.ones(len(pace.curve), dtype=bool)
    others[slow.onset : slow.end + 1] = False
    low, high = np.quantile(pace.curve.value[others], (0.1, 0.9))
    steady = seconds >= params["clock_points"] and high - low < np.log(slow.factor) / STEADY
    return quick or (slow.factor < params["clock_alarm"] and not steady)


def _more_is_computed(signals: Signals, pace: Pace, slow: Slowdown) -> bool:
    """Whether a part of the loss is logged for the first time where a lasting slowdown begins, or more of the model is
    trained since: that is its work."""
    before, onset = (int(pace.curve.step[at]) for at in (max(slow.onset - 1, 0), slow.onset))
    if slow.lasting and _unfrozen(signals, before, onset):
        return True
    known = signals.curve("train_loss")
    if known is None or not slow.lasting or known.step[0] >= before:
        return False
    parts = (c for c in signals.every_curve() if c.series.rank is None and _LOSS.search(c.name))
    return any(len(c) and before < c.step[0] <= onset and c.cadence == known.cadence for c in parts)


def _unfrozen(signals: Signals, before: int, onset: int) -> bool:
    """Whether more parameters are trained from a step on than before it, by the log or by a setting that counts from
    zero or one."""
    for curve in (c.only_finite() for c in signals.every_curve() if _TRAINABLE.search(c.name)):
        was, now = (at_steps(curve, np.array([at]))[0] for at in (before, onset))
        if now > was:
            return True
    frozen = (value for key, value in stated(signals) if _FREEZE.search(key) and not isinstance(value, bool))
    return any(value in {before, onset} for value in frozen if isinstance(value, int) and value > 0)


def _rate_holds(known: tuple[Pace, ...], pace: Pace, slow: Slowdown) -> bool:
    """Whether as much data as before is worked through a second while steps take longer: they hold more of it."""
    first, last = (int(pace.curve.step[at]) for at in (slow.onset, slow.end))
    for rate in known:
        if pace.basis != "duration" or rate.logged.series.role != "tokens_per_sec":
            continue
        step, value = rate.curve.step, rate.curve.value
        before, since = value[step < first][-MIN_POINTS:], value[(step >= first) & (step <= last)]
        if min(len(before), len(since)) >= FEWEST_RATES:
            return bool(np.median(since) - np.median(before) < HELD * np.log(slow.factor))
    return False


def _finding(signals: Signals, pace: Pace, slow: Slowdown, known: tuple[Pace, ...], params: Params) -> Finding:
    step = pace.curve.step
    onset, end = int(step[slow.onset]), int(step[slow.end])
    name = pace.name
    rows = (
        Evidence(name, onset, slow.since, slow.before, f"median since then; {slow.factor:.3g} times as long as before"),
        Evidence(name, onset, None, None, f"{slow.z:.3g} times as far off as this pace usually strays (in logarithms)"),
        *_beside(signals, onset, end),
    )
    agree = [p.logged.name for p in known if p is not pace and _agrees(p, onset, end)]
    padded = _padded(signals, onset, end, params["padded"])
    why = "" if padded else _explained(signals, onset, end, pace.curve.cadence) or _other_epochs(signals, pace, onset)
    how = f"drifts from {slow.before:.4g} to {slow.since:.4g}"
    if not slow.gradual:
        how = f"is {slow.since:.4g} instead of {slow.before:.4g}"
    text = f"From step {onset} on {name} {how}: work takes {slow.factor:.3g} times as long"
    text += f"; {' and '.join(agree)} agree{'s' if len(agree) == 1 else ''}" if agree else ""
    text += f", while {why} changes." if why else ": of what is computed more is padding." if padded else "."
    sure = 0.6 + 0.01 * min(slow.z, 15.0) + (0.1 if slow.factor > 1.5 else 0.0) + (0.05 if agree else 0.0)
    sure -= 0.15 if pace.basis == "clock" else 0.0
    return Finding(
        kind="throughput-drop",
        series=pace.logged.name,
        role=pace.logged.series.role,
        onset_step=onset,
        onset_interval=(int(step[max(slow.onset - 1, 0)]), onset),
        confidence=round(min(0.95, sure), 2),
        summary=text,
        severity="low" if why or _doubtful(pace, slow, params) else None,
        segment=int(pace.curve.segment[slow.onset]),
        end_step=None if slow.lasting else end,
        recovery="unrecovered" if slow.lasting else "recovered",
        evidence=rows,
    )


def _agrees(pace: Pace, onset: int, end: int) -> bool:
    step, value = pace.curve.step, pace.curve.value
    before, since = value[step < onset][-64:], value[(step >= onset) & (step <= end)]
    return bool(len(before) > 4 and len(since) > 4 and np.median(since) - np.median(before) > np.log(1.1))


def _beside(signals: Signals, onset: int, end: int) -> tuple[Evidence, ...]:
    """What else moved by more than a tenth."""
    rows = []
    for role in BESIDE:
        curve = signals.curve(role)
        if curve is None:
            continue
        finite = curve.only_finite()
        before = finite.value[finite.step < onset][-256:]
        since = finite.value[(finite.step >= onset) & (finite.step <= end)]
        if len(before) < 5 or len(since) < 5:
            continue
        was, now = float(np.median(before)), float(np.median(since))
        if abs(now - was) > 0.1 * abs(was):
            rows.append(Evidence(curve.name, onset, now, was, "median meanwhile against before"))
    return tuple(rows)


def _explained(signals: Signals, onset: int, end: int, cadence: int) -> str:
    """What the run was given to do that changed at the same time, at once or along the way."""
    lengths = [c for c in signals.unmapped if _LENGTH.search(c.name) and c.series.rank is None]
    # the extreme of a batch, which moves with every row, says nothing of the others; a limit stands
    lengths = [c for c in lengths if not _EXTREME.search(c.name) or np.mean(np.diff(c.value) != 0) <= SELDOM]
    given = (signals.curve(role) for role in EXPLAINING)
    for curve in (*(c for c in given if c is not None), *lengths):
        near = 5 * max(cadence, curve.cadence)
        before = curve.value[(curve.step < onset) & (curve.step >= onset - 20 * near) & curve.finite]
        before = before if len(before) > 1 else curve.value[curve.finite][:MIN_BEFORE]
        for first, last in ((onset, onset + near), (onset + (end - onset) // 2, end)):
            since = curve.value[(curve.step >= first) & (curve.step <= last) & curve.finite]
            if len(before) > 1 and len(since) and abs(np.median(since) / np.median(before) - 1) > 0.1:
                return curve.name
    return _other_stage(signals, onset)


def _other_stage(signals: Signals, onset: int) -> str:
    """The rate that stood still until a step and is set to another level there."""
    rate = signals.curve("learning_rate")
    rate = rate.only_finite() if rate is not None else None
    at = int(np.searchsorted(rate.step, onset)) if rate is not None else 0
    if rate is None or not FEWEST_STAGE <= at < len(rate) or rate.step[at] - onset > rate.cadence:
        return ""
    before, now = rate.value[:at][-MIN_BEFORE:], float(rate.value[at])
    leapt = max(now, before[-1]) >= STAGE * min(now, before[-1]) > 0
    return rate.name if leapt and np.ptp(before) == 0 else ""


def _other_epochs(signals: Signals, pace: Pace, onset: int) -> str:
    """That epochs hold another number of steps since, as with other batches: nothing where they do not."""
    length = length_since(signals, pace.logged, onset)
    return f"the length of an epoch (now {length} steps)" if length is not None else ""


def _padded(signals: Signals, onset: int, end: int, share: float) -> bool:
    """Whether padding grew by a share of all tokens with it: work that is slower for nothing."""
    for curve in (logged.only_finite() for logged in signals.curves("padding_fraction")):
        scale = 100.0 if len(curve) and curve.value.max() > 1 else 1.0
        before, since = curve.value[curve.step < onset], curve.value[(curve.step >= onset) & (curve.step <= end)]
        if len(before) and len(since) and np.median(since) - np.median(before[-64:]) > scale * share:
            return True
    return False


def _waiting(signals: Signals, share: float) -> Finding | None:
    """Loading of data that begins to take a share of each step, whatever else happens to the pace."""
    loading, whole = signals.curve("dataloader_time"), signals.curve("step_time")
    if loading is None or whole is None or _in_milliseconds(loading) != _in_milliseconds(whole):
        return None
    loading = loading.only_finite()
    part = loading.value / np.maximum(at_steps(whole, loading.step), 1e-12)
    if len(loading) < MIN_POINTS or not np.isfinite(part).all() or part.min() < 0 or np.median(part) > 1:
        return None
    for at in lasting_steps(part):
        before, since = float(np.median(part[:at])), float(np.median(part[at:]))
        if since - before > share and since > 2 * before:
            step = int(loading.step[at])
            text = f"{loading.name} is {since:.0%} of a step from step {step} on instead of {before:.0%}"
            return Finding(
                kind="throughput-drop",
                series=loading.name,
                role="dataloader_time",
                onset_step=step,
                onset_interval=(int(loading.step[at - 1]), step),
                confidence=0.7,
                summary=f"{text}: each step waits for its data.",
                recovery="unrecovered",
                evidence=(Evidence(loading.name, step, since, before, "share of the step's time, against before"),),
            )
    return None


def _in_milliseconds(curve: Curve) -> bool:
    """Whether a duration is in milliseconds, by its name."""
    return _MILLISECONDS.search(curve.name.lower()) is not None


def _idle(signals: Signals, percent: float) -> Finding | None:
    curve = signals.curve("gpu_util")
    curve = curve.only_finite() if curve is not None else None
    if curve is None or len(curve) < MIN_POINTS:
        return None
    share = 100.0 if curve.value.max() <= 1.0 else 1.0
    usual = share * float(np.median(curve.value))
    busy = share * float(np.quantile(curve.value, 0.75))
    if busy >= percent or usual <= 0:
        return None
    first = int(curve.step[0])
    return Finding(
        kind="throughput-drop",
        series=curve.name,
        role="gpu_util",
        onset_step=first,
        confidence=0.5,
        summary=f"The GPU is used to {usual:.0f} % (median), three quarters of the time below {busy:.0f} %.",
        severity="low",
        evidence=(Evidence(curve.name, first, usual, None, "median utilisation in percent"),),
    )
