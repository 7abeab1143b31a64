"""Post-hoc forensics for training runs."""

__version__ = "0.1.0"
