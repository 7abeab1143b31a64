"""Detectors of the data family."""
