"""Detectors of the numerics family."""
