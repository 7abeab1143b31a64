"""What the numbers of a record are: which one is the step, the epoch, the rank, and which are values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainforensics.importers.printed.records.items import Item
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.prefix import Prefix
from trainforensics.importers.printed.text.tokens import words_of
from trainforensics.importers.printed.text.vocabulary import BEFORE_STEP, EPISODES, EPOCHS, SPLITS, STEP_TRUST, trust_of
from trainforensics.importers.rows.axes import says_validation

_EPOCHS_AND_EPISODES = frozenset({"epch", "epoch"})  # beside these "ep" counts episodes
# What of an epoch is done: "Process 100/3161 ..., epoch 0".
_OF_DATA = frozenset({"process", "processed", "processing", "progress"})
_ITERATORS = frozenset({"i", "j", "b", "n"})  # out of a total
_RANKS = frozenset({"rank", "global_rank", "dp_rank", "worker", "rank_of"})
_IGNORED = frozenset({"eta", "elapsed", "remaining", "pid", "port", "device", "gpu", "node", "version", "v_num"})
_HELD_OUT_NAMES = frozenset({"tel"})  # llm.c's test loss
_WHOLE = re.compile(r"-?\d+(?:\.0*)?(?:e\+\d+)?|\d+(?:\.\d+)?[kKM]|\d\.\d+e\+\d+|\d{1,3}(?:,\d{3})+")
_MODE = re.compile(r"\((\w+)\)$")
_AVERAGE = re.compile(r"(?:.*[/ ])?(?:avg|average)_", re.IGNORECASE)  # what stands beside one is its change (Coqui)
_OF_PERCENT = re.compile(r"\s*%\)?\s*\($")  # "45% (4500/10000)" says how many that are
_MOST_WORDS = 8
_NO_TRUST = len(STEP_TRUST)


def classify(shape: Shape, line: str, items: Sequence[Item], start: int, order: int) -> None:
    """Decide which item is the step, the epoch, the rank. `order`: -1 prefers the step trusted least."""
    step: Item | None = None
    trust = _NO_TRUST
    episodes = any(item.name.lower() in _EPOCHS_AND_EPISODES for item in items)
    seen: set[str] = set()
    for i, item in enumerate(items):
        before, after = items[i - 1] if i else None, items[i + 1] if i + 1 < len(items) else None
        if item.skipped or item.kind == "average" or (episodes and item.name == "ep"):
            continue
        if item.share and not item.name and not _counts_iterations(line, item, before, start, bar=shape.bar):
            item.skipped = True
            continue
        part = _part(item, after, line, shape.dictionary and item.start > start)
        if part.kind == "step" and step is not None:
            shape.rival = True
            within = order > 0 and step is items[0] and _lasted(items[: i + 1])
            if within or order * part.trust >= order * trust:
                item.skipped = True
                continue
            step.skipped = True
        if part.kind == "step":
            step, trust = item, part.trust
        item.kind = part.kind
        shape.validation |= part.held_out
        if part.kind == "value":
            if item.share and trust_of(last := item.name.lower().rpartition(" ")[2]) is not None:
                item.name = last  # "Scenario A Algo B updates 5/1000"
            item.skipped = part.ignored or item.name in seen
            seen.add(item.name)
    values = [item for item in items if item.kind in {"value", "average"} and not item.skipped]
    shape.validation |= bool(_HELD_OUT_NAMES & seen)
    shape.validation |= bool(values) and all(item.held_out or says_validation(item.name) for item in values)
    shape.step_name = "" if step is None else step.name


def _counts_iterations(line: str, item: Item, before: Item | None, start: int, *, bar: bool) -> bool:
    """Whether an unnamed "7/100" counts: in a bar, at the beginning, in brackets, or right behind the epoch."""
    if before is not None and _OF_PERCENT.fullmatch(line, before.end, item.start):
        return False
    if bar or (before is None and not words_of(line[start : item.start])):
        return True
    return line[: item.start].rstrip().endswith(("[", "(")) or (before is not None and before.kind == "epoch")


def _lasted(items: Sequence[Item]) -> bool:
    """Whether the last of some numbers says how long an episode was: "Episode 100  Avg: -250.5 | Steps: 20000"."""
    episode, *between, _ = items
    return episode.name.lower() in EPISODES and any(known.kind == "value" and known.name for known in between)


def take_back_step(shape: Shape, items: Sequence[Item]) -> None:
    """What else counts in a line under a header is a number like the others, if it is alone."""
    kept = [item for item in items if not item.skipped]
    if len(kept) == 1 and not kept[0].share:
        kept[0].kind, shape.step_name = "value", ""


@dataclass(frozen=True, slots=True)
class _Part:
    kind: Literal["step", "epoch", "inner", "rank", "piece", "value"]
    trust: int = _NO_TRUST
    held_out: bool = False
    ignored: bool = False


def _part(item: Item, after: Item | None, line: str, dictionary: bool) -> _Part:
    """What one item is. `after`: the item behind it, which may count iterations."""
    mode = _MODE.search(item.name)
    folder, _, last = _MODE.sub("", item.name).strip().lower().replace("-", "_").rpartition("/")
    words = last.split() or [""]
    joined = "_".join(words)
    head = {*words[:-1], *folder.split("/")} - {""}
    proper = head <= BEFORE_STEP
    held_out = proper and any(SPLITS.get(word) for word in (*head, mode[1].lower() if mode else ""))
    names = (f"{folder}/{last}", joined, words[-1])
    trust = min((found for name in names if (found := trust_of(name)) is not None), default=_NO_TRUST)
    whole = item.share or joined == "kimg" or _WHOLE.fullmatch(line, item.start, item.end) is not None
    counted = after is not None and after.share and not after.name
    split = last in SPLITS
    if item.share and (
        not item.name
        or joined in _OF_DATA
        or joined in _ITERATORS
        or (held_out and trust < _NO_TRUST)
        or (split and not counted)
    ):
        return _Part("inner", held_out=held_out or SPLITS.get(last, False))
    if whole and not dictionary and proper and (words[-1] in EPOCHS or (split and counted)):
        return _Part("epoch", held_out=held_out or SPLITS.get(last, False))
    named = proper or trust == 0 or (joined in STEP_TRUST and not folder)
    if whole and trust < _NO_TRUST and named and (item.said or joined != "s"):
        return _Part("step", trust, held_out)
    if whole and joined == "piece":
        return _Part("piece")
    if whole and joined in _RANKS and line[item.start] != "-":
        return _Part("rank")
    source = joined.endswith(".py") and item.said  # "train.py:40", behind a record
    ignored = not item.name or (joined in _IGNORED and not folder) or len(words) > _MOST_WORDS or source
    return _Part("value", ignored=ignored)


def number_groups(shape: Shape, items: Sequence[Item], prefix: Prefix) -> None:
    """Give each kept item its group, two for a share; the time and the rank of the prefix come before."""
    spans = sorted(span for span in (prefix.time, prefix.rank) if span)
    shape.time = spans.index(prefix.time) + 1 if prefix.time else 0
    shape.rank = spans.index(prefix.rank) + 1 if prefix.rank else 0
    group, values = len(spans) + 1, []
    averaged = {item.name for item in items if item.kind == "average"}
    for item in (item for item in items if not item.skipped):
        match item.kind:
            case "step":
                shape.step = group
                shape.total = group + 1 if item.share else shape.total
            case "epoch":
                shape.epoch, shape.epoch_name = shape.epoch or group, shape.epoch_name or item.name
            case "inner":
                shape.inner = shape.inner or group
                shape.total = shape.total or group + 1
            case "piece":
                shape.piece = group
            case "rank":
                shape.rank, shape.of_several = group, item.share
            case "average" if not _AVERAGE.match(item.name):
                values.append((group, f"{item.name} (average)"))
            case "value":
                current = item.name in averaged and not _AVERAGE.match(item.name)
                values.append((group, f"{item.name} (current)" if current else item.name))
        group += 2 if item.share else 1
    shape.values = tuple(values)
