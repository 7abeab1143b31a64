"""Detectors of the monitoring family."""
