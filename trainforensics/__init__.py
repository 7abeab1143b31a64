"""Post-hoc forensics for training runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainforensics.engine import Result

__version__ = "0.1.0"
__all__ = ["__version__", "analyze"]


def analyze(paths: str | Path | Iterable[str | Path], **settings: Any) -> Result:
    """Judge the runs below `paths`, as `trainforensics analyze` does, and return what was found.

    `settings` are fields of `trainforensics.config.Settings` (`out`, `select`, `ignore`, `map`, `jobs`, `plots`,
    `params` ...); the rest comes from the environment and the configuration file, but `jobs` is 1 unless given here.
    Store, results and reports are written under `out` (default `trainforensics-out/`).

    Raises `trainforensics.errors.UsageError` for a wrong path or setting and `CannotJudgeError` where there is
    nothing to judge.

    Example:
        >>> result = trainforensics.analyze("runs/", out="report", plots=False)  # doctest: +SKIP
        >>> [(run.run, run.verdict, run.alarms) for run in result.runs]  # doctest: +SKIP
    """
    from trainforensics import config, engine  # noqa: PLC0415  (importing the package stays cheap)

    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    # One process unless asked for more: further ones import the caller's script again.
    return engine.analyze([Path(path) for path in given], config.load({"jobs": 1, **settings}))
