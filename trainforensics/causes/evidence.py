"""Evidence that several hypotheses share: the fact said once, with the points each of them gives it."""

from __future__ import annotations

import math

import numpy as np

from trainforensics.causes.case import Case
from trainforensics.causes.movement import CREPT_POINTS, MOVED
from trainforensics.causes.weight import Reason
from trainforensics.model import Evidence

EIGHT = 8  # points before the onset without which calm cannot be told
CALM_POINTS = 50  # logged points before the onset that a rate which is too high would hardly have let pass
VIOLENT = 30.0
JOINED = 4.0  # standard errors of a join below which two lives go on as one
FAST_POINTS, SLOW_POINTS = 3, 8  # logged points from onset to return
LED = {"rl-collapse": "the reward"}  # what a precursor leads, where it is not the loss
SUDDEN = frozenset({"instant-burst", "divergence", "gradient-explosion"})


def gradient(case: Case, led: float = 0.0, same: float = 0.0, quiet: float = 0.0) -> list[Reason]:
    """Whether the gradient norm moved before the loss, in the same logged point, or not at all."""
    move, order = case.gradient, case.gradient_order
    if order == "led":
        return reason(led, _led(case))
    if move is None or order is None or not math.isfinite(move.at):
        return []
    if order == "same":
        before, at = case.levels("grad_norm", move)
        calm = "" if case.gradient_precursor else ", quiet before"
        return reason(same, f"the gradient norm jumped in the same logged point, from {before:.3g} to {at:.3g}{calm}")
    before, at = case.levels("grad_norm", move)
    return reason(quiet, f"the gradient norm stayed normal ({at:.3g}, usual {before:.3g})")


def lone_jump(case: Case, points: float) -> list[Reason]:
    """A gradient norm that left a quiet level in one logged point alone, under a rate that had trained calmly.

    One batch does that; what its update harmed may take long to be learnt again, but is in the end. A rate that is too
    high would have shown in the points before.
    """
    rate = case.rate
    if case.kind not in SUDDEN or case.lone_jump is None or case.recovered_in is None or case.period is not None:
        return []
    if rate is None or rate.jump > 1.0 or rate.ramp > 1.0 or rate.warming or case.points_before < CALM_POINTS:
        return []
    before, here, after = case.lone_jump
    return reason(
        points,
        f"the gradient norm stood out in one logged point alone ({here:.3g}, usual {before:.3g}, {after:.3g} in the "
        f"next), under a learning rate of {rate.now:.3g} that did not jump",
    )


def _led(case: Case) -> str:
    """When the gradient norm moved, and how long before the incident or what its precursor names."""
    named, move = case.gradient_precursor, case.gradient
    if named is not None:
        step, lead = named.step, named.lead
    else:
        step = move.lead_step if move is not None else case.onset
        lead = case.onset - step
    return f"the gradient norm left its noise at {step}, {lead} steps before {LED.get(case.kind, 'the loss')}"


def rate_jump(case: Case, points: float) -> list[Reason]:
    """A jump of the learning rate at the onset, or (half the points) a late rise up to it."""
    rate = case.rate
    if rate is not None and rate.jump == 1.0 and rate.ramp > 1.0:
        return reason(
            points / 2, f"the learning rate rose {rate.ramp:.3g}-fold from {rate.ramp_from} to {rate.now:.3g}"
        )
    if rate is None or rate.jump == 1.0:
        return []
    return reason(points, f"the learning rate jumped {rate.jump:.3g}-fold at {rate.jump_step}, to {rate.now:.3g}")


def no_rate(case: Case, points: float) -> list[Reason]:
    """A rate of exactly 0, for kinds that an update would have to make."""
    if not case.no_rate or case.kind in ("lr-anomaly", "plateau"):
        return []
    return reason(points, "the learning rate is 0 here, so no update can have done it")


def rate_level(case: Case, high: float = 0.0, low: float = 0.0) -> list[Reason]:
    """Where the learning rate stands against the highest so far; one that never changed says nothing."""
    rate = case.rate
    if rate is None or rate.constant or rate.peak <= 0 or rate.jump > 1.0 or case.early:
        return []
    if rate.share >= 0.9:
        return reason(high, f"the learning rate is {rate.now:.3g}, {rate.share:.0%} of its highest so far")
    if rate.share <= 0.2:
        return reason(low, f"the learning rate is down to {rate.now:.3g}, {rate.share:.0%} of its highest")
    return []


def recovery(case: Case, fast: float = 0.0, slow: float = 0.0) -> list[Reason]:
    """A bad batch leaves the weights nearly as they were; a violent update must be learnt away again."""
    if case.kind not in SUDDEN or case.turns_nan is not None or case.rescaled is not None:
        return []
    points, what = case.recovered_in, "the gradient norm" if case.incident.role == "grad_norm" else "the loss"
    tells = case.incident.role == "train_loss" and case.validated is None  # an evaluation knows better than a return
    if points is not None and points <= FAST_POINTS:
        steps = max(1, points) * case.cadence
        within = f"{steps} steps" if steps > 1 else "one step"
        unharmed = ", so the weights took no harm" if tells and case.quickly_back else ""
        return reason(fast, f"{what} was back within {within}{unharmed}")
    if points is not None and points >= SLOW_POINTS:
        harmed = ": the weights were harmed" if tells and not case.quickly_back else ""
        return reason(slow, f"{what} took {points * case.cadence} steps to come back{harmed}")
    if case.incident.recovery in ("partial", "unrecovered", "diverging"):
        return reason(slow, f"{what} did not come back ({case.incident.recovery})")
    if case.incident.recovery == "ongoing" and case.points_after >= FAST_POINTS:
        return reason(slow, f"{what} had not come back after {case.points_after} logged points, where the log ends")
    return []


def rescaled(case: Case, points: float) -> list[Reason]:
    """A gradient norm that is the same as before but for a factor, with a loss that takes no notice."""
    if case.rescaled is None:
        return []
    before, after = case.rescaled
    return reason(
        points,
        f"the gradient norm went from {before:.3g} to {after:.3g} in one logged point and has kept that level and its "
        "spread, with the loss unmoved: a factor on it, as of a sum in place of a mean",
    )


def data(case: Case, proven: float = 0.0, nothing: float = 0.0) -> list[Reason]:
    """What the manifest says: a suspect more likely guilty than not, or nothing in common over three events or more."""
    suspect = case.suspect("shard", "doc")
    if suspect is not None and suspect.confidence >= 0.25:
        share = 1.0 if suspect.confidence >= 0.5 else 0.5
        return reason(
            share * proven, f"{suspect.type} {suspect.id}: {suspect.why} (confidence {suspect.confidence:.2f})"
        )
    if case.manifest_quiet:
        return reason(nothing, f"the batches of {case.recurs} events have no shard or document in common beyond chance")
    return []


def documents(case: Case, few: float = 0.0, many: float = 0.0) -> list[Reason]:
    """With a convicted shard: whether one of its documents recurs by itself, or ever different ones do the harm."""
    shard, doc = case.suspect("shard"), case.suspect("doc")
    if shard is None or shard.confidence < 0.5:
        return []
    if doc is not None and doc.confidence >= 0.5:
        return reason(few, f"doc {doc.id} recurs by itself, {doc.why}: single documents, not the whole shard")
    if case.incident.blame is None or not any(batch.get("doc") for batch in case.incident.blame.batches):
        return []
    return reason(many, f"no document recurs beyond chance: different ones of shard {shard.id} do it")


def restart(case: Case, near: float = 0.0, absent: float = 0.0) -> list[Reason]:
    """A restart at the onset or shortly before."""
    if case.restart is not None:
        return reason(near, f"the run was restarted at {case.restart}, {case.onset - case.restart} steps before")
    return reason(absent, "the run was not restarted here") if absent else []


def joins(case: Case, role: str, higher: float = 0.0, lower: float = 0.0, smooth: float = 0.0) -> list[Reason]:
    """How a series joins across a restart: clearly higher, clearly lower, or smoothly."""
    found, told = case.join(role), case.told(role)
    if found is None:
        return []
    broken = case.incident.kind == "resume-discontinuity" and told is not None  # it holds breaks only
    told = told or Evidence(role, None, found.after, found.before, "")
    numbers = f"from {told.expected:.4g} to {told.value:.4g}"
    if not broken and abs(found.z) < JOINED:
        return reason(smooth, f"{role} joins smoothly across the restart ({numbers})")
    way, points = ("up", higher) if (told.value or 0.0) > (told.expected or 0.0) else ("down", lower)
    return reason(points, f"{role} went {way} across the restart, {numbers}")


def counts_anew(case: Case, points: float) -> list[Reason]:
    """A restart that repeats steps with the weights of later ones."""
    if case.counts_anew is None:
        return []
    there, here, end = case.counts_anew
    return reason(
        points,
        f"the repeated steps stand at {here:.4g}, where the old life ended ({end:.4g}), not where it stood at the same "
        f"steps ({there:.4g}): the weights are the later ones, only the counter went back",
    )


def thrown_back(case: Case, far: float = 0.0, little: float = 0.0) -> list[Reason]:
    """How much of what had been learnt a restart lost."""
    share = case.way_back
    if share is None or share <= 0:
        return []
    text = f"the training loss went {share:.0%} of the way back to the first losses of the run"
    return reason(far, text) if share >= 0.5 else reason(little, text) if share < 0.2 else []


def start(case: Case, early: float = 0.0, late: float = 0.0) -> list[Reason]:
    """Whether the incident lies in the first logged points."""
    if case.incident.onset_step is None or case.loss is None:
        return []
    if case.early:
        points = case.points_before
        when = f"{points} logged points after the start" if points else "with the first logged point"
        return reason(early, f"it begins {when}")
    return reason(late, f"{case.points_before} logged points went well before it")


def no_gradient(case: Case, points: float) -> list[Reason]:
    """A norm over all parameters that not even the last layer adds to."""
    if case.kind != "vanishing-gradient" or case.no_gradient is None:
        return []
    norm, loss = case.no_gradient
    return reason(
        points,
        f"the norm over all parameters is {norm:.2g} with a loss of {loss:.4g}: even the last layer gets nothing, "
        "which no initial weights bring about",
    )


def precision(case: Case, half: float = 0.0, wide: float = 0.0) -> list[Reason]:
    """The numeric precision of the run."""
    name = case.precision
    if name in ("fp16", "fp8"):
        how = "a dynamic loss scale is logged" if case.scale_moves else "the configuration says so"
        limit = " (largest number 65,504)" if name == "fp16" else ""
        return reason(half, f"the run computes in {name}{limit}: {how}")
    if name in ("bf16", "fp32"):
        return reason(wide, f"the run computes in {name}, whose range does not overflow easily")
    return []


def scale(case: Case, points: float) -> list[Reason]:
    """A loss scale that only falls."""
    falls = case.scale_falls
    if falls is None:
        return []
    count, before, after = falls
    told = case.told("loss_scale") if case.kind == "scale-decay" else None
    if told is not None:
        return reason(points, f"the loss scale fell from {told.expected:g} to {told.value:g} without growing")
    return reason(points, f"the loss scale fell {count} times without growing, from {before:g} to {after:g}")


def lone_rank(case: Case, points: float) -> list[Reason]:
    """One rank that moved first and alone."""
    rank = case.lone_rank
    return [] if rank is None else reason(points, f"rank {rank.id} moved first: {rank.why}")


def lone_gap(case: Case, at_once: float = 0.0, grew: float = 0.0) -> list[Reason]:
    """Other data sets a rank apart at once; weights that no longer agree drift apart step by step."""
    if case.lone_gap is None:
        return []
    rank, first, later, usual = case.lone_gap
    if abs(later) < 3 * usual:
        return []
    text = (
        f"the loss of rank {rank} was {first:.3g} from the middle rank's in its first three points (usual {usual:.2g})"
    )
    if first / later >= 0.7:
        return reason(at_once, f"{text} and {later:.3g} later: it left at once")
    return reason(grew, f"{text} and {later:.3g} later: it drifts away") if first / later <= 0.6 else []


def declared_rate(case: Case, points: float) -> list[Reason]:
    """A rate that is still a small part of the declared one, so hardly too high."""
    if case.tiny_rate is None:
        return []
    now, declared = case.tiny_rate
    return reason(
        points, f"the learning rate is only {now:.3g} here, {now / declared:.0%} of the declared {declared:.3g}"
    )


def longer_step(case: Case, role: str, points: float) -> list[Reason]:
    """A part of the step that takes up half or more of what the step takes longer."""
    step, part = case.movement("step_time"), case.movement(role)
    if step is None or part is None or step.at <= step.before or part.widths < MOVED:
        return []
    more, of_it = step.at - step.before, part.at - part.before
    if not 0.5 * more <= of_it <= 1.5 * more:
        return []
    return reason(points, f"{role} takes {of_it:.3g} of the {more:.3g} by which a step takes longer")


def longer_samples(case: Case, points: float) -> list[Reason]:
    """Sequences that grew with it."""
    for role in ("seq_len", "seq_len_max"):
        move = case.movement(role)
        if move is not None and move.widths > MOVED and move.at > 1.1 * move.before:
            return reason(points, f"{role} grew from {move.before:.4g} to {move.at:.4g}")
    return []


def drifted(case: Case, points: float) -> list[Reason]:
    """A policy that left its reference before the reward fell."""
    move = case.movement("kl")
    if move is None or move.lead < CREPT_POINTS:
        return []
    return reason(points, f"KL left its noise at {move.lead_step}, before the onset")


def growth(case: Case, climbed: float = 0.0, sudden: float = 0.0) -> list[Reason]:
    """Whether loss or gradient norm grew towards the onset; a calm loss alone says half of what both say."""
    if case.climbed_before:
        return reason(climbed, "loss or gradient norm were already climbing out of their noise before it")
    if case.loss is not None and case.points_before >= EIGHT:
        norm = case.curve("grad_norm")
        if norm is None or np.sum(norm.finite & (norm.step < case.onset)) < EIGHT:
            return reason(sudden / 2, "the loss did not announce it")
        return reason(sudden, "neither loss nor gradient norm announced it")
    return []


def violence(case: Case, points: float) -> list[Reason]:
    """A loss above that of an untrained model, or a gradient norm thirty times the usual: more than odd samples do."""
    found = []
    if case.beyond_start is not None:
        peak, first = case.beyond_start
        found += reason(
            points, f"the loss went to {peak:.4g} within three points, above the {first:.4g} of the untrained model"
        )
    before, at = case.levels("grad_norm", case.gradient) if case.gradient is not None else (0.0, 0.0)
    if before > 0 and VIOLENT <= at / before < float("inf"):
        found += reason(points, f"the gradient norm rose {at / before:.0f}-fold, to {at:.3g}")
    return found


def lasting(case: Case, points: float) -> list[Reason]:
    """A series that stays where it jumped to: no batch does that."""
    return reason(points, f"{case.incident.series} stays away for at least 20 logged points") if case.lasting else []


def skipped(case: Case, points: float) -> list[Reason]:
    """Updates skipped for overflow from the same point on, which leave a schedule where it was."""
    other = case.beside("scale-decay", "skipped-steps", "grad-nan")
    if other is None or (other.onset_step or 0) < case.onset - case.cadence:
        return []
    return reason(points, f"{other.kind} from {other.onset_step} on: skipped updates leave the schedule at its start")


def said(case: Case, pattern: str, points: float) -> list[Reason]:
    """A line of the log's own text."""
    line = case.said(pattern)
    return reason(points, f'the log says: "{line}"') if line else []


def rooted(case: Case, points: float, *kinds: str) -> list[Reason]:
    """An incident of one of these kinds that this one follows from, or that begins no later."""
    other = case.root if case.root is not None and case.root.kind in kinds else case.beside(*kinds)
    return [] if other is None else reason(points, f"{other.kind} at {other.onset_step}: {other.summary.rstrip('.')}")


def recurs(case: Case, points: float) -> list[Reason]:
    """Three occurrences or more."""
    return reason(points, f"it happened {case.recurs} times") if case.recurs >= 3 else []


def in_siblings(case: Case, points: float) -> list[Reason]:
    """The same steps stand out in a run of other weights that met the same batches."""
    twin = case.incident.scope.sibling
    if twin is None or case.kind != "instant-burst":
        return []
    return reason(points, f"{twin.rsplit('/', 1)[-1]}, fed in the same order, shows it at the same steps")


def periodic(case: Case, points: float) -> list[Reason]:
    """Occurrences that come like clockwork. Two equal gaps are half of what three or more say.

    `Case.period` lets gaps differ by a twentieth either way, so each gap after the first agrees by chance one time in
    ten: two gaps mislead in 10 % of the cases, three in 1 %.
    """
    if case.period is None:
        return []
    share = min(1.0, (case.recurs - 2) / 2)
    return reason(share * points, f"it comes back every {case.period} steps, {case.recurs} times")


def reason(points: float, text: str) -> list[Reason]:
    """The fact, or nothing where it gives a hypothesis no points."""
    return [Reason(points, text)] if points else []
