"""JSON whose values are written as no JSON allows: nan, None, -nan(ind), +1.5, nothing at all."""

from __future__ import annotations

import json
import re

from trainforensics.importers.base import NULL
from trainforensics.importers.literals import literal

_WORD = r'[^",:{}\[\]\x00-\x1f\ufffd]*+'  # damage is no word
# A text, or what stands between a colon, comma or bracket and the comma or bracket after it.
_PLACES = re.compile(rf'"(?:[^"\\\n]|\\.)*+"?|(?<=[:,\[])(\s*+)({_WORD})(?=\s*+[,\]}}])')
_JSON = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|null|true|false|NaN|-?Infinity")


def repaired(text: str) -> str:
    """The text with such values as JSON: literals as Python's parser takes them, nothing and any other word quoted."""
    return _PLACES.sub(_as_json, text)


def _as_json(found: re.Match[str]) -> str:
    blank, value = found.groups()
    if blank is None:
        return found[0]
    if not value:
        return f'{blank}""' if found.string[found.start() - 1] == ":" else blank
    word = value.rstrip()
    if _JSON.fullmatch(word):
        return found[0]
    if word.lower() in {"true", "false"}:
        return blank + word.lower()
    read = literal(word)
    if read is None:
        return blank + json.dumps(word)
    number, state = read
    return blank + ("null" if state == NULL else json.dumps(number))
