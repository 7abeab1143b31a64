"""Why it happened: hypotheses weighed for and against, by what is known of the incident."""

from trainforensics.causes.ranking import rank

__all__ = ["rank"]
