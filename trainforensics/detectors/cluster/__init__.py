"""Detectors of the cluster family."""
