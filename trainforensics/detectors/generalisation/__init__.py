"""Detectors of the generalisation family."""
