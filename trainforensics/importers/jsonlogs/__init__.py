"""Logs in JSON: one object a line, or whole documents."""
