"""The numeric precision of the run, and its loss scale."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainforensics.blame.described import flat, leaf
from trainforensics.causes.case import Case, once
from trainforensics.signals.scale import loss_scale


@once
def of_run(case: Case) -> str:
    """fp16, bf16, fp8 or fp32 as the configuration says; fp16 also where a loss scale changes; empty if unknown."""
    return configured(case.signals.config) or ("fp16" if scale_moves(case) else "")


def configured(config: Mapping[str, Any]) -> str:
    """The precision that configuration keys name, the narrowest where several are set."""
    found = set()
    for key, value in flat(config):
        name = leaf(key)
        text = str(value).lower()
        if name in ("fp16", "bf16", "fp8", "float16", "bfloat16") and text in ("true", "1"):
            found.add(name.replace("bfloat", "bf").replace("float", "fp"))
        elif re.search(r"precision|dtype|amp|autocast", name):
            for kind, words in (
                ("bf16", r"bf16|bfloat16"),
                ("fp8", r"fp8|float8"),
                ("fp16", r"(?<!b)fp16|(?<!b)float16|\b16(-mixed)?\b|half|\bo[12]\b"),
                ("fp32", r"fp32|float32|\b32(-true)?\b|full"),
            ):
                if re.search(words, text):
                    found.add(kind)
                    break
    return next((name for name in ("fp8", "fp16", "bf16", "fp32") if name in found), "")


def scale_moves(case: Case) -> bool:
    """Whether a loss scale is logged and ever changes: dynamic scaling, so half precision."""
    curve = case.signals.curve("loss_scale")
    values = curve.only_finite().value if curve is not None else np.empty(0)
    return len(values) > 1 and float(values.max()) > float(values.min())


@once
def scale_falls(case: Case) -> tuple[int, float, float] | None:
    """Halvings of the loss scale without a growth between, until the incident ends, and the scale before and after.

    None if fewer than two. Of a decay those that belong to it: an earlier back-off that had not grown back is none.
    """
    decay = found.decay if case.kind == "scale-decay" and (found := loss_scale(case.signals)) is not None else None
    if decay is not None:
        return (round(decay.halvings), decay.start, decay.low) if decay.halvings >= 2 else None
    curve = case.signals.curve("loss_scale")
    if curve is None:
        return None
    until = max(case.onset + 5 * case.cadence, case.incident.end_step or 0)
    value = curve.only_finite().take(curve.only_finite().step <= until).value
    change = np.diff(value)
    grown = np.flatnonzero(change > 0)
    since = value[int(grown[-1]) + 1 :] if len(grown) else value
    falls = int(np.sum(np.diff(since) < 0)) if len(since) > 1 else 0
    return (falls, float(since[0]), float(since[-1])) if falls >= 2 else None


def scale_floor(case: Case) -> float | None:
    """The scale the run ends on, where it is 1 or less and not always was the same."""
    curve = case.signals.curve("loss_scale")
    if curve is None or not scale_moves(case):
        return None
    last = float(curve.only_finite().value[-1])
    return last if last <= 1 else None


@once
def scale_across(case: Case) -> tuple[float, float] | None:
    """The loss scale on the two sides of the onset; None where one of them is not logged."""
    curve = case.signals.curve("loss_scale")
    at = curve.at(case.onset - 1) if curve is not None else -1
    if curve is None or at < 0 or at + 1 >= len(curve):
        return None
    return float(curve.value[at]), float(curve.value[at + 1])


def scale_lost(case: Case) -> bool:
    """Whether the loss scale differs fourfold or more between the two sides of the onset."""
    before, after = scale_across(case) or (0.0, 0.0)
    return before > 0 and after > 0 and max(before / after, after / before) >= 4
