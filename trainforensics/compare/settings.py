"""What differs between the configurations of two runs, what decides learning first."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from trainforensics.blame.described import flat
from trainforensics.model import ConfigDifference, Weight

_WORD = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
# Each pattern is looked for at the beginning of a word.
_LOGGING = re.compile(r"_(log|sav(e|ing)|report|print|verbose|wandb|tensorboard)")
_LEARNING = re.compile(
    r"_(lr|learn|schedul|warm|decay|anneal|seed|optim|beta|momentum|eps|clip|grad|norm|batch|micro|accum|world|parallel"
    r"|precision|dtype|fp\d|bf16|tf32|amp|scal|determin|compile|steps?|iter|epoch|tokens?|drop|smooth|init|resume|pretrain"
    r"|data|corpus|shard|shuffl|sampler|seq|context|block|vocab|model|arch|hidden|emb|ffn|intermediate|head|layer|dim|size"
    r"|width|depth|weight|loss|reward|kl|param)"
)
_FIRST = re.compile(r"_(lr|learn|batch|seed|optim|precision|dtype|data)")  # what most often sets runs apart
_PLACES = re.compile(
    r"_(path|dir|folder|file|root|name|id|group|project|run|job|host|user|entity|url|time|date|version|commit|branch|pid"
    r"|port|executable|python|platform|os|tags?|notes?|workers)"
)
# What a training or its logger wrote down about itself, not what it was told to do.
_OUTCOME = re.compile(
    r"(summary|wandb)\..*|(.*\.)?(epoch|global_step|best_.*|total_flos|log_history|is_.*_process_zero)", re.IGNORECASE
)
LAST_DIGITS = 1e-12  # relative; what rounding leaves of a number computed in another order
_ORDER: tuple[Weight, ...] = ("learning", "other", "incidental")


def compare_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[ConfigDifference, ...]:
    """Keys with different values, flattened; those that decide learning first, names of places and people last.

    Empty where one of the runs states no configuration at all.
    """
    if not a or not b:
        return ()
    left, right = _leaves(a), _leaves(b)
    found = [
        ConfigDifference(key, left.get(key), right.get(key), _missing(key, left, right), weight_of(key))
        for key in dict.fromkeys([*left, *right])
        if key not in left or key not in right or not _same(left[key], right[key])
    ]
    return tuple(sorted(found, key=lambda d: (_ORDER.index(d.weight), _FIRST.search(_words(d.key)) is None, d.key)))


def weight_of(key: str) -> Weight:
    """Whether a setting can change what is learnt, by its name."""
    words = _words(key)
    if _OUTCOME.fullmatch(key) or _LOGGING.search(words):
        return "incidental"
    if _LEARNING.search(words):
        return "learning"
    return "incidental" if _PLACES.search(words) else "other"


def _words(key: str) -> str:
    """The last part of a key with an underscore before each word: "optimizer.maxLR" -> "_max_lr"."""
    return "".join(f"_{word.lower()}" for word in _WORD.findall(re.split(r"[./]", key)[-1]))


def _leaves(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flat(config) if not isinstance(value, Mapping) or not value}


def _missing(key: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Any:
    return "a" if key not in a else "b" if key not in b else None


def _same(a: Any, b: Any) -> bool:
    """Equal, or the same number written in two ways ("3e-4", 0.0003) or computed in two (0.30000000000000004)."""
    if a == b:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, bool) or isinstance(b, bool) or (isinstance(a, int) and isinstance(b, int)):
        return False
    try:
        return math.isclose(float(a), float(b), rel_tol=LAST_DIGITS)
    except (TypeError, ValueError, OverflowError):
        return False
