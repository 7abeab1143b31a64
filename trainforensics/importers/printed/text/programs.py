"""The program itself, which some trainers print before their log."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PROGRAM = ("import ", "from ", '"""', "#!")
_IMPORT = re.compile(r"(?:import [\w.]+(?: as \w+)?|from [\w.]+ import [\w*, (]+)\s*$")
_RULER = re.compile(r"[=\-*#]{20,}\s*$")
_CODE = re.compile(r"[{}\"']|\w\(|^\s|#")


@dataclass(slots=True)
class Listing:
    """Whether the text is the program itself, which some trainers print before their log; a ruler or a record ends it.

    Behind records, as where several runs write one file, only two imports in a row begin another.
    """

    inside: bool = False
    _over: bool = False  # records have begun
    _imported: bool = False  # by the line before

    def holds(self, line: str) -> bool:
        """Whether a line belongs to a program."""
        if self.inside:
            self.inside = _RULER.match(line) is None
            return True
        imports = _IMPORT.match(line) is not None
        self.inside = imports and self._imported if self._over else line.startswith(_PROGRAM)
        self._imported = imports
        return self.inside

    def end(self) -> None:
        """A record was read."""
        self._over, self.inside, self._imported = True, False, False

    def may_end_with(self, line: str) -> bool:
        """Whether a line inside a program does not look like code, so that it may be the first record behind it."""
        return self.inside and _CODE.search(line) is None
