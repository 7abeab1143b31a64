"""Detectors of the resume family."""
