"""What single trainers say of the training in words of their own, where others print a record."""

from __future__ import annotations

import re

from trainforensics.importers.printed.text.numbers import count_of

# As it stops, instead of the row that would have held the loss: TensorFlow's hook, Keras, DETR.
_DIVERGED = re.compile(
    r"Model diverged with loss = NaN|Batch \d+: Invalid loss, terminating training|\bLoss is nan, stopping training"
)
_REPEATED = re.compile(r"best iteration is:\s*$", re.IGNORECASE)  # and LightGBM prints its row once more
_CONTINUED = re.compile(r"Continuing training from global step (\d+)")


def says_diverged(line: str) -> bool:
    """Whether a line says that the loss is NaN and the training stops."""
    return "loss" in line.lower() and _DIVERGED.search(line) is not None


def announces_repeat(line: str) -> bool:
    """Whether the record under a line was printed before."""
    return _REPEATED.search(line) is not None


def continued_at(line: str) -> int | None:
    """The step at which a line says that the training goes on; None without."""
    found = _CONTINUED.search(line)
    return count_of(found[1]) if found else None
