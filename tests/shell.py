"""Runs the command line in process, as a shell would see it."""

from __future__ import annotations

from typing import Protocol


class Run(Protocol):
    """Run `trainforensics ARGS...`: exit code, stdout, stderr."""

    def __call__(self, *args: object) -> tuple[int, str, str]: ...
