"""Two runs held against each other: where they part, and what differs in configuration and data."""

from trainforensics.compare.runs import compare

__all__ = ["compare"]
