"""Learns a kind of record from the first line of it: its numbers become slots, the words between them names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainforensics import roles
from trainforensics.importers.printed.records.bare import COUNTED_RESULT, NAME_AND_NUMBER
from trainforensics.importers.printed.records.expressions import expression
from trainforensics.importers.printed.records.items import Item, find_items
from trainforensics.importers.printed.records.meaning import classify, number_groups, take_back_step
from trainforensics.importers.printed.records.naming import (
    counts_before,
    drop_logger,
    end_sentences,
    name_items,
    name_members,
)
from trainforensics.importers.printed.records.prose import is_prose, is_settings, is_title, tells_of_best
from trainforensics.importers.printed.records.recognition import is_count_and_values, is_record
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.prefix import Prefix, prefix_of
from trainforensics.importers.printed.text.vocabulary import EPOCHS, LOSS, STEP_TRUST, is_global
from trainforensics.importers.rows.axes import says_validation

_HELD_OUT_PHRASES = (" valid on ", "Saving dict for ")
_SUMMARY = frozenset({"train_runtime", "train_samples_per_second"})
_TRAINED = frozenset({"train_loss", "reward"})
_SAYS_HELD_OUT = re.compile(
    r"\b(?:valid|validation|eval|evaluation|test)\b(?!_)|\[(?:val|dev|testing)\]", re.IGNORECASE
)
_OF_TEST = re.compile(r"(?<![^\W_])test(?:ing)?(?![^\W_])", re.IGNORECASE)
# What a heading with a count says behind it: "[Epoch 0] Validation ====".
_ENTITLED = re.compile(
    r"\W*(?:val|valid|validation|validating|eval|evaluation|evaluating|test|testing)\W*$", re.IGNORECASE
)
_EPOCH_MEANS = re.compile(r"(?:.*\|\s*train )?\|\s*epoch\s+\d+\s*\|")  # fairseq's line at the end of an epoch
_KERAS = re.compile(r"\s*(?:-\s)?(?:\d+/\d+\s*(?:[\[━]|-\s)|\d+m?s(?: \d+m?s/\w+)?\s+-\s)")
# What a message of a save says of the checkpoint: that of the best epoch so far, beside the log's own row of it.
_SAVED = re.compile(
    r"(?i)\b(?:saved|saving|save)\b.{0,80}\b(?:checkpoint|ckpt|model)|\b(?:checkpoint|ckpt)\w*\b.{0,20}\b(?:saved|written)\b"
)
_LEVELLED = re.compile(r"\b(?:INFO|DEBUG|WARNING|NOTICE)\W*$")
_LONGEST_RECORD = 16_384
_MOST_NUMBERS = 600


def learn(
    line: str,
    *,
    bar: bool = False,
    header: str = "",
    counted: bool = False,
    distrust: bool = False,
    trust: bool = False,
) -> Shape | int | None:
    """The shape of a line that is a record.

    A number says that a second record begins there, so that the parts are to be read one by one; None: no record.
    `bar`: the text behind a progress bar, which counts the steps; `header`: what counts in the line before that said
    the step, behind which any name may follow; `counted`: the log has said a step before; `distrust`: of several counts
    the one trusted least is the step; `trust`: what begins with a count is a record whatever its names are, as it is
    where lines like it follow and their count rises.
    """
    line = line[:_LONGEST_RECORD]
    prefix = prefix_of(line)
    if is_settings(line, prefix.end):
        return None
    brace = None if bar else _dictionary(line, prefix.end)
    start, end = brace or (prefix.end, len(line))
    items = _items(line, prefix, start, end, members=brace is not None)
    if isinstance(items, int):
        return items if brace is None else None
    if not 0 < len(items) <= _MOST_NUMBERS or tells_of_best(line, items, start):
        return None
    counted_result = trust and COUNTED_RESULT.match(line, start) is not None
    if not (bar or brace or counted_result) and is_prose(line, items):
        return None
    name_items(line, items, start, header, trust=trust, counted_result=counted_result)
    if is_title(line, items, start):
        return None
    shape = Shape(dictionary=brace is not None, validation=_says_held_out(line, start))
    _part_from_rows(line, items, start, held_out=shape.validation)
    shape.bar = not (items[0].name and items[0].share) and _KERAS.match(line, start) is not None
    classify(shape, line, items, start, -1 if distrust else 1)
    if header not in {"", "epoch"} and shape.step_name not in {"", header}:
        take_back_step(shape, items)
    number_groups(shape, items, prefix)
    shape.validation |= not shape.values and _ENTITLED.match(line[items[-1].end :]) is not None
    if not (
        (bar and shape.values)
        or is_record(shape, line, items, (start, end), bool(header), counted)
        or counted_result
        or (trust and is_count_and_values(shape, line, items, start, end))
    ):
        return None
    shape.summary = shape.dictionary and bool(shape.names & _SUMMARY)
    shape.training = not shape.validation and _of_training(shape, line, start, counted=counted, trust=trust)
    shape.held_out = shape.validation or any(map(says_validation, shape.names))
    if shape.validation and _OF_TEST.search(line, 0, _first_value(items)):
        shape.split = "test"
    shape.lead = line[start : items[0].start] if brace is None else ""
    within = shape.epoch and not is_global(shape.step_name)
    shape.stated = shape.plain = bool(shape.step and shape.values) and not (within or shape.dictionary or bar)
    shape.pattern = expression(line, prefix, items, prefix.end if brace else start, end, whole=brace is None)
    return shape if shape.pattern.match(line) else None


def _items(line: str, prefix: Prefix, start: int, end: int, *, members: bool) -> list[Item] | int:
    """The numbers of a line or, where they are `members` of a dictionary, of it and of the counts before it."""
    items = find_items(line, start, end)
    if isinstance(items, int):
        return items
    end_sentences(items)
    if members:
        name_members(line, prefix.end, start, items)
        items = [*counts_before(line, prefix.end, start), *items]
    if items and _LEVELLED.search(line, 0, start):
        drop_logger(items[0])
    return items


def _says_held_out(line: str, start: int) -> bool:
    """Whether a line whose record begins at a place is said to be of held-out data, before it or in a known phrase."""
    return any(said in line for said in _HELD_OUT_PHRASES) or _SAYS_HELD_OUT.search(line, 0, start) is not None


def _of_training(shape: Shape, line: str, start: int, *, counted: bool, trust: bool) -> bool:
    """Whether what is not of an evaluation is of the training, so that its rows are steps of it."""
    trained = any(roles.resolve(name).role in _TRAINED for name in shape.names)
    trained |= not (counted or shape.counted) and any(map(LOSS.search, shape.names))
    lone = trust and NAME_AND_NUMBER.match(line, start) is not None
    return trained or (trust and shape.dictionary) or (lone and not counted)


def _part_from_rows(line: str, items: Sequence[Item], start: int, *, held_out: bool) -> None:
    """Tell the means of an epoch, and what a saved checkpoint is said to have, from the series of the rows."""
    if _EPOCH_MEANS.match(line) and not held_out and not any(item.share and not item.name for item in items):
        _put_below("epoch", items)
    if _SAVED.search(line, start, items[0].start):
        _put_below("checkpoint", items)


def _put_below(folder: str, items: Sequence[Item]) -> None:
    """Give the names that do not count a folder, so that they are series of their own."""
    for item in items:
        if item.name and item.name.lower() not in {*STEP_TRUST, *EPOCHS}:
            item.name = f"{folder}/{item.name}"


def _first_value(items: Sequence[Item]) -> int:
    return next((item.start for item in items if item.kind == "value" and not item.skipped), items[-1].start)


def _dictionary(line: str, start: int) -> tuple[int, int] | None:
    """The span of a printed dictionary."""
    begin = line.find("{", start)
    if begin < 0 or line[begin + 1 : begin + 2] not in {"'", '"'}:
        return None
    depth = 0
    for brace in re.finditer(r"[{}]", line[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return begin, begin + brace.end()
    return None
