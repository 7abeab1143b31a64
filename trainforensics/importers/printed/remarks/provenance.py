"""What the lines of records say of the data of their steps in words: `loss 2.5 | shard py-00017.bin`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainforensics.importers.base import Batches, Points
from trainforensics.importers.printed.text.data import NAMED_DATA
from trainforensics.importers.rows.provenance import canonical, logged_batches

FEWEST, MOST_ROWS = 8, 0.5  # rows that name their data, and their share; a saved file is named in few
_WORDS = ("shard", "file", "doc", "sample", "tar")
_SAVED = re.compile(r"\.(pt|pth|ckpt|safetensors|bin\.index|pkl|log|h5|onnx)$", re.IGNORECASE)


@dataclass(slots=True)
class Provenance:
    """The names of shards, files and documents by the number (`seq`) of the row beside which they stand. A log whose
    first rows say nothing of them is looked at no more."""

    _said: dict[str, dict[int, str]] = field(default_factory=dict)
    _over: bool = False

    def look(self, text: str, lines: Sequence[str], seqs: Sequence[int]) -> None:
        """Note what the lines of a block say of their rows; `seqs`: the number that the next row had at each line, and
        at the end."""
        if self._over or not any(word in text.lower() for word in _WORDS):
            return
        for line, seq, after in zip(lines, seqs, seqs[1:], strict=False):
            for found in NAMED_DATA.finditer(line) if after > seq else ():
                if not _SAVED.search(found["value"]):
                    self._said.setdefault(found["name"], {})[after - 1] = found["value"]
        self._over = not self._said and seqs[-1] - seqs[0] >= FEWEST

    def batches(self, points: Sequence[Points]) -> Iterator[Batches]:
        """What was said since the last call, at the steps of the rows, where most of them name their data."""
        said, self._said = self._said, {}
        if not said or not points:
            return
        seq, step = (np.concatenate([getattr(p, name) for p in points]) for name in ("seq", "step"))
        at = dict(zip(seq.tolist(), step.tolist(), strict=True))
        kept = {name: texts for name, texts in said.items() if len(texts) >= max(FEWEST, MOST_ROWS * len(at))}
        rows = sorted({row for name in canonical(kept) for row in kept[name] if row in at})
        if not rows:
            return
        import polars as pl  # noqa: PLC0415  (heavy; only for rows that name their data)

        frame = pl.DataFrame({name: [kept[name].get(row) for row in rows] for name in canonical(kept)})
        yield from logged_batches(frame, np.array([at[row] for row in rows], np.int64))
