"""Whole curves that a program prints at once: `train_loss = [2.5, 2.25, ...]`, `{'loss': [...], 'val_loss': [...]}`."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from trainforensics import roles
from trainforensics.importers.printed.text.numbers import numbers
from trainforensics.importers.printed.text.tokens import NUMBER
from trainforensics.importers.printed.text.vocabulary import RESULT_ROLES

_VALUES = rf"\[\s*({NUMBER}(?:[,\s]+{NUMBER})*)\s*\]"
_ALONE = re.compile(rf"\W*([A-Za-z][\w ]*?)\W*\s*[:=]\s*{_VALUES}\s*")
_MEMBER = re.compile(rf"['\"]([\w/ .-]+)['\"]:\s*{_VALUES}")
_BETWEEN = re.compile(r"[,\s]+")
_FEWEST = 8  # points of a curve: fewer numbers may be of classes, of devices or of layers


def histories_of(line: str) -> dict[str, NDArray[np.float64]]:
    """The curves of a line under their names, all of the same length; none unless one is of a known result."""
    if line.count(",") + line.count(" ") < _FEWEST or "[" not in line or line.rstrip()[-1:] not in {"]", "}"}:
        return {}
    alone = _ALONE.fullmatch(line)
    said = [(alone[1], alone[2])] if alone else _MEMBER.findall(line)
    curves = {name: numbers(_BETWEEN.split(values))[0] for name, values in said}
    known = any(roles.resolve(name).role in RESULT_ROLES for name in curves)
    lengths = {len(curve) for curve in curves.values()}
    return curves if known and len(lengths) == 1 and min(lengths) >= _FEWEST else {}
