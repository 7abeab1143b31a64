"""What to do, filled with this run's numbers."""

from trainforensics.remedies.prescription import prescribe

__all__ = ["prescribe"]
