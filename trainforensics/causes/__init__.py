"""Why it happened: one hypothesis a file, weighed for and against."""

from trainforensics.causes.ranking import HYPOTHESES, rank

__all__ = ["HYPOTHESES", "rank"]
