"""Whether a line is a record: it says where the run stands or is a dictionary, and holds a known metric."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from trainforensics import roles
from trainforensics.importers.printed.records.bare import NAME_AND_NUMBER
from trainforensics.importers.printed.records.items import Item
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.tokens import TIME, words_of
from trainforensics.importers.printed.text.vocabulary import (
    LOSS,
    MEASURED,
    METRIC,
    PLURAL_COUNTS,
    RESULT_ROLES,
    SPLITS,
    TRAIN,
    is_score,
)

_OF_BATCHES = "Avg IOU: "  # of Darknet, which prints the scores of every batch that it trains on
_LEAD = frozenset(SPLITS) | {"loss", "set", "metrics", "results", "phase", "performance", "cur", "current", "metric"}
_CLOCK = frozenset({"time", "date"})
_TIMES = re.compile(TIME)
_ASIDE = re.compile(r"(.*) \([^)]*$")  # "a better model was found (reward: 2.5)"
_QUOTED = re.compile(r"\s*[\"']\w+[\"']\s*:")  # a line of a document: `"score": 0.5`
_IDENTIFIER = re.compile(r"[a-z]+(?:_[a-z]+)+")  # "train_loss 0.5" needs no mark between
_HELD_OUT_RESULT = re.compile(r"(?:val|valid|validation|eval|evaluation|test|dev) \w+", re.IGNORECASE)
_SHORT_SPLITS = ("tr", "trn", "va", "vl", "te", "tst")
_WEIGHED = frozenset({"step_time", "dataloader_time", "comm_time", "tokens_per_sec", "gpu_memory", "host_memory"})
_NEVER_ALONE = frozenset({"s", "batch", "batches", "ba", "mb", "minibatch", *PLURAL_COUNTS})
# Names of settings that no trainer logs as it goes on.
_ARGUMENTS = frozenset({
    "seed", "warmup_ratio", "warmup_steps", "logging_steps", "save_total_limit", "model_max_length", "max_grad_norm",
    "lora_r", "lora_alpha", "lora_dropout", "num_workers", "num_epochs", "max_epochs", "hidden_dim", "num_layers",
    "n_layer", "n_head", "n_embd", "vocab_size", "per_device_train_batch_size", "gradient_accumulation_steps",
    "num_train_epochs", "patience", "block_size",
})  # fmt: skip
_SEVERAL_ARGUMENTS = 2
_TAIL, _MOST_ITEMS = 12, 24  # of a record that does not say its step


def is_record(
    shape: Shape, line: str, items: Sequence[Item], span: tuple[int, int], under_header: bool, counted: bool
) -> bool:
    """Whether what was found is a record: it says where the run stands or is a dictionary, and holds a known metric."""
    found = {roles.resolve(name).role for name in shape.names} - {None}
    if shape.dictionary:
        return _is_printed_record(shape, found, counted)
    kept = [item for item in items if not item.skipped] or [items[0]]
    lead = set(re.findall(r"\w+", _TIMES.sub("", line[span[0] : items[0].name_start]).lower()))
    lead = {word for word in lead if not (under_header and is_score(word))}  # "Training Acc: a=0.5, b=0.25"
    tail = words_of(line[items[-1].end : span[1]])
    if not shape.values:
        return shape.counted and not lead - _CLOCK and len(tail) <= 9
    if not lead - _LEAD:
        shape.validation |= any(SPLITS.get(word) for word in lead)
    if shape.counted or shape.bar:
        return _holds_metric(shape, line, kept, found) or _is_row(line, kept)
    end = line[span[0] : span[1]].rstrip()[-1:]
    code = end in {";", "{"} or (end == "," and len(items) == 1) or _QUOTED.match(line, span[0])
    if code or lead - _LEAD or len(tail) > _TAIL or len(items) > _MOST_ITEMS:
        return False
    first = kept[0]
    aside = _ASIDE.match(first.name)
    if aside and not _LEAD.issuperset(aside[1].lower().split()):
        return False
    starred = line[span[0] : first.name_start].strip(" \t") == "*"
    if starred and any(map(is_score, shape.names)):
        shape.validation = True
        return True
    result = counted and not tail and all(item.apart and _HELD_OUT_RESULT.fullmatch(item.name) for item in kept)
    of_training = any(SPLITS.get(word) is False for word in lead)  # "train: loss 2.5 | acc 0.5"
    if not (first.said or first.held_out or of_training or starred or result or _IDENTIFIER.fullmatch(first.name)):
        return False
    folder, slash, _ = first.name.partition("/")
    shape.validation |= bool(slash) and any(SPLITS.get(word) for word in folder.lower().split())
    return _tells_enough(shape, line, kept, found, under_header, counted)


def _is_printed_record(shape: Shape, found: Collection[str | None], counted: bool) -> bool:
    """Whether a printed dictionary is a record: it holds a result, and not several arguments of the program and more of
    them than results."""
    scores = (shape.counted or counted) and any(map(is_score, shape.names))
    shape.validation |= scores and RESULT_ROLES.isdisjoint(found) and not any(map(TRAIN.search, shape.names))
    results = sum(roles.resolve(name).role in RESULT_ROLES or is_score(name) for name in shape.names)
    arguments = len(shape.names & _ARGUMENTS)
    told = scores or not RESULT_ROLES.isdisjoint(found)
    return told and (arguments < _SEVERAL_ARGUMENTS or arguments <= results)


def _holds_metric(shape: Shape, line: str, kept: Sequence[Item], found: Collection[str | None]) -> bool:
    """Whether a line that counts says how the training goes. Counts that many texts hold need a result beside them."""
    values = [item for item in kept if item.kind == "value"]
    if kept[0].share and not kept[0].name and not shape.bar:
        said = any(item.said for item in values)
        return not RESULT_ROLES.isdisjoint(found) and (said or roles.resolve(values[0].name).role in RESULT_ROLES)
    within = any(item.kind == "epoch" and item.name.lower() not in PLURAL_COUNTS for item in kept)
    if shape.step_name.lower() in PLURAL_COUNTS and not (shape.total or within):
        paths = any(item.said and "/" in item.name and METRIC.search(item.name) for item in values)
        return paths or not RESULT_ROLES.isdisjoint(found)
    return bool(found) or any(
        (item.said and _measures(shape, item))
        or (item.apart and shape.validation and is_score(item.name))
        or _of_split(line, item)
        for item in values
    )


def _measures(shape: Shape, item: Item) -> bool:
    """Whether a name says that something was measured; in an evaluation's line every name does."""
    return shape.validation or METRIC.search(item.name) is not None or is_score(item.name)


def _of_split(line: str, item: Item) -> bool:
    """Whether a number with decimals is said to be of a part of the data and nothing else: "step 5 train: 2.5"."""
    set_apart = (item.said or item.apart) and "." in line[item.start : item.end] and not MEASURED.match(line, item.end)
    return set_apart and item.name.lower() in {*SPLITS, *_SHORT_SPLITS}


def _is_row(line: str, kept: Sequence[Item]) -> bool:
    """Whether a line is nothing but its step and names with decimals, set apart: "iter  5  pre  8.25  post  7.5"."""
    step, *values = kept
    return (
        step.kind == "step"
        and len(values) > 1
        and all(item.apart and " " not in item.name and "." in line[item.start : item.end] for item in values)
    )


def is_count_and_values(shape: Shape, line: str, items: Sequence[Item], start: int, end: int) -> bool:
    """Whether a line is its count and names with numbers, of which one at least has decimals and tells no time or size.

    Its names say nothing; lines that follow must. The count leads, unless all numbers are said: "Loss=0.5 | Steps=5".
    """
    kept = [item for item in items if not item.skipped]
    values = [item for item in kept if item.kind == "value"]
    said = all(item.said for item in values)
    if not kept:
        return False
    if shape.dictionary or NAME_AND_NUMBER.match(line, start):
        return any(METRIC.search(item.name) and not line[item.start : item.end].isdigit() for item in values)
    leads = kept[0].kind in {"step", "epoch"} or (kept[0].kind == "inner" and said)
    if not shape.counted or not (leads or all(item.said for item in kept)):
        return False
    if shape.step_name.lower() in _NEVER_ALONE and not said:
        return False
    if (
        any(" " in item.name and not (item.said and item.apart) for item in values)
        or len(words_of(line[items[-1].end : end])) > 2
    ):
        return False
    return any(
        not line[item.start : item.end].isdigit()
        and not MEASURED.match(line, item.end)
        and roles.resolve(item.name).role not in _WEIGHED
        for item in values
    )


def _tells_enough(
    shape: Shape, line: str, kept: Sequence[Item], found: Collection[str | None], under_header: bool, counted: bool
) -> bool:
    """Whether a line that does not count is a record nevertheless."""
    first, said = kept[0], all(item.said for item in kept if item.kind == "value")
    if under_header and said:
        return True
    if not RESULT_ROLES.isdisjoint(found):
        return roles.resolve(first.name).role in RESULT_ROLES or said
    if any(map(is_score, shape.names)):
        trained = not counted and LOSS.search(first.name)  # a log that counts nothing: "[D loss: 0.5, acc: 0.75]"
        scores = [name for name in shape.names if is_score(name)]
        said = first.name.lower().startswith("train") or all(map(TRAIN.match, scores))
        shape.validation = not (said or trained or _OF_BATCHES in line)
        return True
    alone = found in ({"tokens_per_sec"}, {"learning_rate"}) or first.name == "epoch time"
    return counted and said and (shape.timed or (bool(found) and (len(shape.values) >= 2 or alone)))
