"""What detectors found becomes incidents: merged, chained to their root, graded."""

from trainforensics.incidents.build import build
from trainforensics.incidents.units import in_units

__all__ = ["build", "in_units"]
