"""MLflow's file store: a file for each metric with lines of `milliseconds value step`, one for each parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trainforensics.importers.base import Config, Head, Points, Record, Source, open_binary
from trainforensics.model import ReadWarning

FORMAT = "mlflow"

_LINE = re.compile(rb"(-?\d{10,16}) (-?(?:[\d.]+(?:e[+-]?\d+)?|nan|inf(?:inity)?)) (-?\d+)\s*", re.IGNORECASE)
_LONGEST_VALUE = 8192  # bytes; MLflow itself cuts parameters at 6,000 characters
_CHUNK = 65536  # lines


def in_store(path: Path) -> str | None:
    """`metrics` or `params` where a file lies in that folder of a run of the store, at any depth; else None."""
    for folder in path.parents:
        if is_part(folder):
            return folder.name
    return None


def is_part(folder: Path) -> bool:
    """Whether a folder holds the metrics or the parameters of a run of the store."""
    beside = folder.parent
    if folder.name not in ("metrics", "params"):
        return False
    return (beside / "meta.yaml").is_file() or ((beside / "metrics").is_dir() and (beside / "params").is_dir())


def sniff(head: Head) -> float:
    """Lines of the store's form, or a short file among the parameters of a run."""
    kind = in_store(head.path)
    if kind == "params":
        return 0.9 if head.size <= _LONGEST_VALUE else 0.0
    lines = head.data.splitlines()[:20]
    whole = lines if len(head.data) == head.size or len(lines) < 20 else lines[:-1]
    if not whole or not all(_LINE.fullmatch(line) for line in whole):
        return 0.0
    return 0.95 if kind == "metrics" else 0.0


def read(source: Source) -> Iterator[Record]:
    """The points of one metric with their wall times, or one parameter."""
    kind = in_store(source.path)
    if kind == "params":
        with open_binary(source.path) as stream:
            yield Config({source.path.name: stream.read(_LONGEST_VALUE).decode("utf-8", "replace").strip()})
        return
    name = source.path.name  # folders above it are the label's matter
    rows: list[tuple[int, float, int, int]] = []
    bad = 0
    with open_binary(source.path) as stream:
        for number, line in enumerate(stream):
            found = _LINE.fullmatch(line)
            if found is None:
                bad += bool(line.strip())
                continue
            rows.append((int(found[1]) * 1000, float(found[2]), int(found[3]), number))
            if len(rows) == _CHUNK:
                yield _points(name, rows)
                rows = []
    if rows:
        yield _points(name, rows)
    if bad:
        yield ReadWarning("bad-line", source.label, f"{bad} lines are not `milliseconds value step`; skipped")


def _points(name: str, rows: list[tuple[int, float, int, int]]) -> Points:
    time, value, step, seq = zip(*rows, strict=True)
    return Points(
        name,
        np.array(step, dtype=np.int64),
        np.array(value, dtype=np.float64),
        np.array(seq, dtype=np.int64),
        np.array(time, dtype=np.int64),
    )
