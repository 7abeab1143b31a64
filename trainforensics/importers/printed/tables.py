"""Tables in console text, row by row or one metric a line, rewritten as lines of `name=value`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainforensics.importers.printed.items import STEP_TRUST
from trainforensics.importers.printed.tokens import NUMBER

_METRIC = re.compile(rf"\|\s+([^|\s](?:[^|]*[^|\s])?)\s*\|\s+({NUMBER})\s*\|$")  # "|    ep_rew_mean      | 1.86     |"
_HEADING = re.compile(r"\|\s+([\w-]+/)\s*\|\s*\|$")  # "| rollout/            |          |"
_RULER = re.compile(r"[\s|+:=-]*-{2}[\s|+:=-]*$")
_NUMERIC = re.compile(rf"(?:{NUMBER}|\d+\s*/\s*\d+|\d+:\d\d(?::\d\d)?|-+|None)(?:%|[kKMGT]i?B?|s|ms)?:?$")
_WIDE = re.compile(r"\s{2,}|\t+")
_STEPS = frozenset(STEP_TRUST) - {"s", "it"} | {"epoch", "epochs"}
_SIGNS = {"#": "step", "E": "epoch"}  # a header's short names of counts
_FEWEST, _MOST = 2, 200


@dataclass(slots=True)
class Tables:
    """The table that the text is in."""

    _header: list[str] = field(default_factory=list)
    _metrics: dict[str, str] = field(default_factory=dict)
    _heading: str = ""

    @property
    def has_header(self) -> bool:
        """Whether rows may follow."""
        return bool(self._header)

    def line_of(self, line: str) -> str | None:
        """A finished row in other words; an empty text while a table goes on; None for what is no table."""
        bars = line.startswith("|") and line.rstrip().endswith("|")
        if bars and (found := _METRIC.match(line.rstrip())):
            self._metrics[f"{self._heading}{found[1]}"] = found[2]
            return ""
        if bars and (found := _HEADING.match(line.rstrip())):
            self._heading = found[1]
            return ""
        if self._metrics:
            row, self._metrics, self._heading = self._metrics, {}, ""
            return _said(list(row), list(row.values()))
        if _RULER.match(line):
            return "" if self._header else None
        cells = _cells(line, len(self._header))
        if len(cells) == len(self._header) >= _FEWEST and all(_NUMERIC.match(cell) for cell in cells):
            return _said(self._header, [cell.rstrip(":") for cell in cells])
        if _FEWEST <= len(cells) <= _MOST and _is_header(cells):
            self._header = [_SIGNS.get(cell, cell) for cell in cells]
            return ""
        return None


def _cells(line: str, wanted: int) -> list[str]:
    if "|" in line:
        return [cell.strip() for cell in line.strip().strip("|").split("|")]
    cells = [cell for cell in _WIDE.split(line.strip()) if cell]
    return line.split() if len(cells) != wanted and len(line.split()) in {wanted, len(cells)} else cells


def _is_header(cells: Sequence[str]) -> bool:
    """Names without numbers, the first or second of which counts steps or epochs."""
    if any(_NUMERIC.match(cell) or len(cell) > 40 for cell in cells) or not all(cells):
        return False
    return any(cell.lower() in _STEPS or cell in _SIGNS for cell in cells[:2])


def _said(names: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True) if value.strip("-"))
