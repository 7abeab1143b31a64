"""How programs write values that are no ordinary numbers: NaN and infinities, and values that are missing."""

from __future__ import annotations

import math
import re

from trainforensics.importers.base import NULL, VALUE

# C's printf ("-nan", "nan(ind)"), Microsoft's before 2015 ("1.#QNAN0", "-1.#IND"), Python's "%" format ("nan%").
_NUMBER = re.compile(
    r"([-+]?)(?:nan(?:\((?:ind|snan)\))?|1\.#(?:[qs]nan|ind)0*|(inf(?:inity)?|1\.#inf0*))%?", re.IGNORECASE
)
# As JSON, Python, JavaScript, R, spreadsheets and pandas write them.
_MISSING = frozenset({"null", "none", "undefined", "na", "n/a", "#n/a", "<na>"})


def literal(word: str) -> tuple[float, int] | None:
    """Number and state of a word that stands for NaN, an infinity or a missing value; None for any other."""
    found = _NUMBER.fullmatch(word)
    if found is not None:
        return (float(f"{found[1]}inf") if found[2] else math.nan), VALUE
    return (math.nan, NULL) if word.lower() in _MISSING else None
