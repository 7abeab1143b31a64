"""What detectors found becomes incidents: merged, chained to their root, graded."""

from trainforensics.incidents.build import build

__all__ = ["build"]
