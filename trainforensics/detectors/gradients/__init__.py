"""Detectors of the gradients family."""
