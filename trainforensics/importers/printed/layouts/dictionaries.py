"""Dictionaries that are printed over several lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from trainforensics.importers.printed.records.ahead import Ahead

_BEGINS = re.compile(r"\{['\"][\w/ .@-]+['\"]:\s[^{}]*,\s*$")
_MEMBER = re.compile(r"(\s*['\"][\w/ .@-]+['\"]:)\s['\"]?(?:[-+]?[\d.]|nan|inf|NaN|Inf)")  # alone on a line
_LONGEST = 100  # lines


@dataclass(slots=True)
class Dictionaries:
    """Gathers the lines of the one that is open; `at`: the number of the first line of the last."""

    at: int = -1
    _open: list[str] = field(default_factory=list)
    _members: set[str] = field(default_factory=set)  # first lines of those that come again, to the colon

    @property
    def open(self) -> bool:
        """Whether one has begun and is not closed yet."""
        return bool(self._open)

    def holds(self, line: str, number: int, lines: Ahead) -> bool:
        """Whether a line belongs to one."""
        return bool(self._open) or ("{" in line and self._begins(line, number, lines))

    def gather(self, line: str, number: int) -> str:
        """Add a line; the whole in one line once it is closed, else nothing."""
        self.at = self.at if self._open else number
        self._open.append(line.strip() if self._open else line)
        if len(self._open) > _LONGEST:
            self._open = []
        if "}" not in line:
            return ""
        whole, self._open = " ".join(self._open), []
        return whole.replace("{ ", "{", 1)

    def _begins(self, line: str, number: int, lines: Ahead) -> bool:
        """One member a line is a row only where others follow: else it holds settings."""
        if line.strip() == "{":
            found = _MEMBER.match(lines.after(number))
            if found is not None and lines.begin_so(found[1], number) > 1:
                self._members.add(found[1])
            return found is not None and found[1] in self._members
        return _BEGINS.search(line) is not None
