"""The reward stopped telling good from bad, or is being gamed."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.policy import drifted
from trainforensics.causes.movement import CREPT_POINTS, climb
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "reward-signal"
PRIORS: Mapping[str, float] = {
    "rl-collapse": 0.25,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = []
    move = case.movement("reward_std")
    if move is not None and move.at < 0.2 * move.before:
        reasons.append(Reason(CLEAR, f"the reward's spread fell from {move.before:.3g} to {move.at:.3g}"))
    if (paid := facts.policy.unpaid(case)) is not None:
        reasons.append(Reason(STRONG, f"at {paid:.0%} of the updates all samples earn the same: no advantage is left"))
    reasons += drifted(case, -HINT)
    reward = case.curve("reward")
    if reward is not None and climb(reward, case.onset) >= CREPT_POINTS:
        reasons.append(Reason(CLEAR, "the reward climbed out of its noise before it: it was gamed, or its scale moved"))
    return Weight(reasons, "read samples with the highest reward before and after the onset")
