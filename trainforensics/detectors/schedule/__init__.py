"""Detectors of the schedule family."""
