"""Simulated logs of known noise: how often healthy ones raise alarms, and how large an event must be to be named."""
