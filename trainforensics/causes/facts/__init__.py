"""What is known of a case, a room a subject: plain functions of the case, None where the log does not tell."""

from trainforensics.causes.facts import (
    data,
    evaluation,
    gradient,
    loss,
    policy,
    precision,
    ranks,
    rate,
    recovery,
    restarts,
    timing,
    updates,
)

__all__ = [
    "data",
    "evaluation",
    "gradient",
    "loss",
    "policy",
    "precision",
    "ranks",
    "rate",
    "recovery",
    "restarts",
    "timing",
    "updates",
]
