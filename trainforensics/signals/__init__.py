"""Numeric kernels and the view of a run that detectors get."""

from trainforensics.signals.curve import Curve, Matrix
from trainforensics.signals.run import Signals

__all__ = ["Curve", "Matrix", "Signals"]
