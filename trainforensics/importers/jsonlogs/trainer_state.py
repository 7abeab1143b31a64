"""Hugging Face `trainer_state.json`: `log_history` as rows, the rest as configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainforensics.importers.base import Config, Head, Record, Source, open_binary
from trainforensics.importers.jsonlogs.document import flat_config, loads
from trainforensics.importers.jsonlogs.rows import add_rows
from trainforensics.importers.rows.reader import RowReader
from trainforensics.model import ReadWarning

FORMAT = "hf-trainer_state"

_HISTORY = re.compile(rb'"log_history"\s*:\s*\[')
# The last row of a finished run: means over the whole run, no points of its curves.
_SUMMARY_KEYS = frozenset(
    {"train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos"}
)


def sniff(head: Head) -> float:
    """A JSON object with a `log_history`, or with the other keys that the trainer always writes before it."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not data.startswith(b"{"):
        return 0.0
    if _HISTORY.search(data):
        return 0.97
    return 0.9 if head.name == "trainer_state.json" and b'"best_metric"' in data else 0.0


def read(source: Source) -> Iterator[Record]:
    """The rows of the history in their own order, and what the state says about the run."""
    with open_binary(source.path) as stream:
        text = stream.read().decode("utf-8-sig", "replace")
    try:
        state = loads(text)
    except (ValueError, RecursionError) as error:
        rows = _salvage(text)
        state = {"log_history": rows}
        where = f"byte {getattr(error, 'pos', 0)}"
        kept = f"{len(rows)} whole row(s) kept, the last of step {rows[-1]['step']}" if rows else "no row is whole"
        yield ReadWarning("damaged-file", where, f"the file is cut off or damaged; {kept}; the rest is lost")
    history = [row for row in state.pop("log_history", None) or [] if isinstance(row, Mapping)]
    yield Config(_config(state, history))
    reader = RowReader(source)
    rows = [_without_summary(row) for row in history]
    yield from add_rows(reader, rows, range(1, len(rows) + 1))
    yield from reader.finish()


def _without_summary(row: Mapping[str, Any]) -> dict[str, Any]:
    if "train_runtime" not in row:
        return dict(row)
    return {key: value for key, value in row.items() if key not in _SUMMARY_KEYS}


def _config(state: Mapping[str, Any], history: list[Mapping[str, Any]]) -> dict[str, Any]:
    known = {key: value for key, value in state.items() if value is not None and not isinstance(value, list)}
    summary: Mapping[str, Any] = next((row for row in reversed(history) if "train_runtime" in row), {})
    return flat_config(known) | {f"summary.{key}": value for key, value in summary.items() if key in _SUMMARY_KEYS}


def _salvage(text: str) -> list[dict[str, Any]]:
    """The complete rows of a damaged history, before and after the damage."""
    found = re.search(r'"log_history"\s*:\s*\[', text)
    rows: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    at = text.find("{", found.end() if found else 1)
    while at >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            if isinstance(value, dict) and "step" in value:
                rows.append(value)
        at = text.find("{", at)
    return rows
