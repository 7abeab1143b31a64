"""The reward stopped telling good from bad, or is being gamed."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight

CAUSE = "reward-signal"
PRIORS: Mapping[str, float] = {
    "rl-collapse": 0.25,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    reasons = []
    move = case.movement("reward_std")
    if move is not None and move.at < 0.2 * move.before:
        reasons.append(Reason(CLEAR, f"the reward's spread fell from {move.before:.3g} to {move.at:.3g}"))
    kl = case.movement("kl")
    if kl is not None and kl.lead >= 3:
        reasons.append(Reason(-HINT, f"KL moved first, at {kl.lead_step}"))
    return Weight(prior, tuple(reasons), "read samples with the highest reward before and after the onset")
