"""What to do, filled with this run's numbers."""
