"""What detectors found becomes incidents: merged, chained, graded."""
