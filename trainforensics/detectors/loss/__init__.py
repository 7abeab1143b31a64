"""Detectors of the loss family."""
