"""Reinforcement learning collapses: KL surges, reward or entropy goes down for good.

What it detects:
    A reward that loses most of what it had gained and does not come back; a KL to the reference or the old policy that
    surges many times over and stays, or an entropy that falls to nothing, while the reward does not improve. One update
    with a KL far beyond all before at which the reward loses as much, even where it comes back. Advantages that are all
    but gone at once and for good, and a reward below its best that is the same for every sample to the end. A reward
    that falls all along the log.

Why it matters:
    The policy has left the region where its reward means something. More steps do not bring it back; an earlier
    checkpoint with a stronger leash does.

Evidence:
    Which of KL, entropy, gradient norm and reward moved first and by how many steps, and the levels before and since.

False positives:
    Losses of policy gradients are negative and mean nothing. Rewards are noisy and dip: a fall that does not last to
    the end counts only where it is twice as deep as every other, and nothing in it is near the settled level before.
    KL that grows slowly and entropy that falls while the reward rises are learning. A KL without any reward (a
    variational autoencoder's) is not judged.

Example:
    KL surges at step 160 (0.0013 to 0.4), entropy follows at step 164, reward falls from 0.42 to 0.02 from step 171 on.

Parameters:
    lost: share of the gained reward that is lost.
    kl_surge: factor of KL.
    entropy_left: share of the entropy that remains after a sudden fall. entropy_gone: after a slow one.
    wane_p, wane_z: how clearly a reward falls all along.
    follows: share of the log within which one move belongs to the other.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Precursor
from trainforensics.signals import Signals
from trainforensics.signals.policy import (
    FEWEST_STUMBLE,
    Move,
    advantages_vanish,
    all_alike,
    below_best,
    exhausted,
    lapse,
    lasting_change,
    level_change,
    reward_fall,
    rises,
    stumble,
    wanes,
)

_ANSWERS = re.compile(r"response|completion|answer|generat", re.IGNORECASE)
LEVEL, OTHERWISE = 20, 1.5  # points of a level; fold, that answers became longer or shorter

META = Meta(
    kind=KINDS["rl-collapse"],
    needs=("reward",),
    uses=("reward_std", "entropy", "kl", "*"),
    params=(
        Param("lost", 0.5, "half of what was learnt; ordinary dips lose less and come back"),
        Param("kl_surge", 10.0, "adaptive penalties hold KL within a factor of 2 of its target"),
        Param("entropy_left", 0.25, "a policy that learns keeps some of its entropy"),
        Param("entropy_gone", 0.1, "the same for a slow fall: nothing is left to explore with"),
        Param("wane_p", 1e-4, "Mann-Kendall level of a reward that falls all along; what learns nothing stays"),
        Param("wane_z", 2.0, "and standard errors; as for val-divergence where the trend is beyond doubt"),
        Param("follows", 0.2, "the reward answers to a moved policy within tens of updates"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Find the lasting moves and tell them in their order."""
    alike = all_alike(signals)
    if alike is None and all(len(curve) < FEWEST_STUMBLE for curve in signals.curves("reward")):
        return NotApplicable("too few points of reward", "reward, KL and entropy at every update")
    fall = reward_fall(signals, params["lost"])
    spent = lasting_change(signals, "entropy", params["entropy_left"])
    if spent is None and below_best(signals, "reward"):  # a policy that solved its task needs no entropy
        spent = exhausted(signals, params["entropy_gone"])
    moves = {
        "kl": lasting_change(signals, "kl", params["kl_surge"] / (2 if fall else 1)),
        "entropy": spent or (lasting_change(signals, "entropy", 2.0) if fall else None),
        "grad_norm": lasting_change(signals, "grad_norm", 3.0) if fall else None,
    }
    known = {role: move for role, move in moves.items() if move}
    if fall is not None:
        reach = params["follows"] * len(fall.curve) * fall.curve.cadence
        beside = {role: m for role, m in known.items() if abs(m.step - fall.step) <= reach}
        return Fired((_finding(signals, {**beside, "reward": fall}),))
    unpaid = {r: m for r, m in known.items() if not rises(signals, "reward", m.step)}
    moved = unpaid or _broke_away(known, params)
    if moved:
        return Fired((_finding(signals, moved, paid=not unpaid),))
    if alike is not None:
        return Fired((_without_spread(alike),))
    gone = advantages_vanish(signals)
    if gone is not None:
        return Fired((_finding(signals, {"advantages": gone}),))
    wrecked = stumble(signals, params["lost"], params["kl_surge"])
    if wrecked is not None:
        return Fired((_stumbled(*wrecked),))
    return _slowly(signals, params)


def _slowly(signals: Signals, params: Params) -> Outcome:
    """What happens to the reward alone: it is lost for a while, or falls all along."""
    lapsed = lapse(signals, params["lost"])
    if lapsed is not None:
        return Fired((_lapsed(*lapsed),))
    waning = wanes(signals, params["wane_p"], params["wane_z"])
    if waning is None:
        return Clear()
    return Fired((replace(_finding(signals, {"reward": waning}), severity="medium", confidence=0.6),))


def _broke_away(moves: dict[str, Move], params: Params) -> dict[str, Move]:
    """KL and entropy, where both break at the same time: the policy has left its reference for what the reward pays."""
    if not {"kl", "entropy"} <= moves.keys():
        return {}
    kl, entropy = moves["kl"], moves["entropy"]
    near = params["follows"] / 2 * len(kl.curve) * kl.curve.cadence
    gone = entropy.after < params["entropy_gone"] * entropy.before
    return {"kl": kl, "entropy": entropy} if gone and abs(kl.step - entropy.step) <= near else {}


def _stumbled(surge: Move, fall: Move) -> Finding:
    """One update that wrecked the policy, whether or not later ones repaired it."""
    curve, step = fall.curve, fall.step
    since, half = curve.value[fall.onset :], (fall.before + fall.after) / 2
    back = np.flatnonzero(since > half)
    text = (
        f"{curve.name} falls from {fall.before:.3g} to {fall.after:.3g} at step {step}, where {surge.curve.name} "
        f"surges from {surge.before:.3g} to {surge.after:.3g}"
    )
    return Finding(
        kind="rl-collapse",
        series=curve.name,
        role="reward",
        onset_step=step,
        onset_interval=(int(curve.step[fall.onset - 1]), step),
        confidence=0.7,
        summary=f"{text}; it {'comes back' if len(back) else 'does not come back'}.",
        severity="medium",
        peak_step=step,
        end_step=int(curve.step[fall.onset + back[0]]) if len(back) else None,
        segment=int(curve.segment[fall.onset]),
        recovery="recovered" if len(back) else "unrecovered",
        evidence=tuple(
            Evidence(m.curve.name, m.step, m.after, m.before, "against the level before") for m in (fall, surge)
        ),
    )


def _lapsed(fall: Move, back: int) -> Finding:
    """A policy that was lost for a while and learnt again."""
    curve, step, end = fall.curve, fall.step, int(fall.curve.step[back])
    text = (
        f"{curve.name} falls from {fall.before:.3g} to {fall.after:.3g} from step {step} on and is back at step {end}"
    )
    return Finding(
        kind="rl-collapse",
        series=curve.name,
        role="reward",
        onset_step=step,
        onset_interval=(int(curve.step[fall.onset - 1]), step),
        confidence=0.6,
        summary=f"{text}.",
        severity="medium",
        end_step=end,
        segment=int(curve.segment[fall.onset]),
        recovery="recovered",
        evidence=(Evidence(curve.name, step, fall.after, fall.before, "level until it is back, and before"),),
    )


def _answers(signals: Signals, step: int) -> list[Evidence]:
    """Length of the answers, and the share of them that is cut off, where a collapse made them other than before."""
    rows = []
    for curve in (*signals.curves("seq_len"), *signals.curves("clip_ratio")):
        before, late = curve.value[curve.finite & (curve.step < step)][-LEVEL:], curve.value[curve.finite][-LEVEL:]
        if not _ANSWERS.search(curve.name) or len(before) < LEVEL or curve.step[-1] <= step:
            continue
        levels = float(np.median(before)), float(np.median(late))
        if max(levels) >= OTHERWISE * min(levels):
            text = "level at the end against before"
            rows.append(Evidence(curve.name, int(curve.step[-1]), levels[1], levels[0], text))
    return rows


def _without_spread(alike: Move) -> Finding:
    curve, step = alike.curve, alike.step
    since = curve.value[alike.onset :]
    same = int(np.sum(since == alike.after))
    often = "every update" if same == len(since) else f"{same} of {len(since)} updates"
    return Finding(
        kind="rl-collapse",
        series=curve.name,
        role="reward",
        onset_step=step,
        onset_interval=(int(curve.step[max(alike.onset - 1, 0)]), step),
        confidence=0.8,
        summary=f"{curve.name} is {alike.after:.3g} for every sample at {often} from step {step} to "
        f"{int(curve.step[-1])}, with no spread at all: no advantage is left to learn from.",
        segment=int(curve.segment[alike.onset]),
        recovery="unrecovered",
        evidence=(Evidence(curve.name, step, alike.after, alike.before, f"the same at {often} since, and before"),),
    )


def _finding(signals: Signals, moves: dict[str, Move], paid: bool = False) -> Finding:
    ordered = sorted(moves.items(), key=lambda item: item[1].step)
    _, first = ordered[0]
    parts = [f"{m.curve.name} goes from {m.before:.3g} to {m.after:.3g} from step {m.step} on" for _, m in ordered]
    reward = moves.get("reward")
    outcome = "the reward rises meanwhile: it is over-optimised" if paid else "the reward does not improve"
    text = "; ".join(parts) + ("." if reward else f"; {outcome}.")
    precursors = tuple(
        Precursor(m.curve.name, m.step, reward.step - m.step, f"left its level of {m.before:.3g}, before the reward")
        for _, m in ordered
        if reward is not None and m.step < reward.step
    )
    spread = level_change(signals, "reward_std", first.step)
    rows = [Evidence(m.curve.name, m.step, m.after, m.before, "level at the end against before") for _, m in ordered]
    rows += _answers(signals, first.step)
    if spread is not None and spread[2] < 0.2 * spread[1]:
        rows.append(Evidence(spread[0].name, first.step, spread[2], spread[1], "spread of rewards: advantages vanish"))
    low = int(first.curve.step[max(first.onset - 1, 0)])
    return Finding(
        kind="rl-collapse",
        series=first.curve.name,
        role=first.curve.series.role,
        onset_step=first.step,
        onset_interval=(low, first.step),
        confidence=round(min(0.95, (0.7 if reward else 0.5) + 0.1 * (len(moves) - 1)), 2),
        summary=text,
        severity=None if reward else "medium",
        segment=int(first.curve.segment[first.onset]),
        recovery="unrecovered",
        evidence=tuple(rows),
        precursors=precursors,
    )
