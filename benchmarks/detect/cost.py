"""What judging costs: processor time per million points, at growing lengths."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.page import table
from trainforensics.config import Settings
from trainforensics.discovery import discover
from trainforensics.engine.judge import judge
from trainforensics.store.reader import StoredRun, runs_of
from trainforensics.store.writer import import_candidates

LENGTHS = (2_000, 20_000, 200_000, 400_000)


def log(steps: int, seed: int = 0) -> pl.DataFrame:
    """A healthy run with four series a step and a validation every 100 steps."""
    rng = np.random.default_rng(seed)
    t = np.arange(1, steps + 1)
    loss = 2 + 6 * np.exp(-15 * t / steps) - 0.4 * t / steps + rng.normal(0, 0.1, steps)
    return pl.DataFrame(
        {
            "step": t,
            "train/loss": loss,
            "train/grad_norm": np.exp(rng.normal(-0.5, 0.3, steps)),
            "train/lr": 3e-4 * np.minimum(1, t / 100) * (0.55 + 0.45 * np.cos(np.pi * t / steps)),
            "perf/tokens_per_sec": rng.normal(50_000, 800, steps),
            "val/loss": loss + rng.normal(0.05, 0.02, steps),
        }
    ).with_columns(pl.when(pl.col("step") % 100 == 0).then("val/loss"))


@contextmanager
def stored(steps: int) -> Iterator[StoredRun]:
    """Such a run, imported."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run").mkdir()
        log(steps).write_parquet(folder / "run" / "metrics.parquet")
        import_candidates(discover([folder / "run"]).candidates, folder / "store", {})
        (run,) = runs_of(folder / "store").values()
        yield StoredRun(run)


def cost(repeat: int = 3) -> str:
    """Processor seconds of one judgement (all threads added up), the least of `repeat`; detectors and the rest."""
    rows = []
    for steps in LENGTHS:
        with stored(steps) as run:
            points = sum(source.points for source in run.sources)
            seconds = min(_once(run.folder) for _ in range(repeat))
        rows.append([f"{steps:,}", f"{points:,}", f"{seconds:.3f}", f"{seconds / points * 1e6:.2f}"])
    return table(["steps", "points", "seconds", "seconds per million points"], rows)


def _once(folder: Path) -> float:
    start = time.process_time()
    judge(StoredRun(folder), Settings())
    return time.process_time() - start
