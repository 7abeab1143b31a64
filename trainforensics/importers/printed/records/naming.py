"""Names of a record's numbers beyond the words before them: counts without a name, parts of the data, sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from trainforensics import roles
from trainforensics.importers.printed.records.items import Item, find_items
from trainforensics.importers.printed.text.vocabulary import (
    BEFORE_STEP,
    EPISODES,
    EPOCHS,
    MEASURED,
    RESULT_ROLES,
    SPLITS,
    STEP_TRUST,
    TRAIN,
    is_count,
    is_score,
)
from trainforensics.importers.rows.axes import says_validation

_SYMBOLS_OF_COUNT = frozenset({"t", "i"})
_OPENED = frozenset({"[", "(", "[ (", "[("})
RANK_OF_SEVERAL = "rank of"  # "(0/4)": a rank if the same step comes from several
_RATE = re.compile(r"0?\.\d+(?:e-\d+)?|\d(?:\.\d+)?e-\d+")
_SPLIT_BEHIND = re.compile(r"(.+)[ /](\w+)")
_LABEL = re.compile(r"([A-Za-z][\w@-]*)\s?:\s+[\[({]?$")
_SHORT = re.compile(r"([tv])[-_]?(l|loss|acc)", re.IGNORECASE)
_TIMED = re.compile(r"\s?(?:[mµn]?s|secs?|seconds?|minutes?|mins|hours?|h)\b(?!\s*[:=])")
_PHASE = re.compile(r"(?:phase|split|mode|stage) (?=(\w+)(?: |$))", re.IGNORECASE)
_SPLIT_LEAD = re.compile(r"(\w+) (?=\S*/)")  # "Train loss/train/total"
_TAGGED = re.compile(r"\w+[_\d]\w*")
# Of weights made from those that were trained: "diagnostic pre-quantization post-ema val_loss:2.3".
_OF_MADE = re.compile(
    r"(?:[\w-]+ )*(?:[^\W_]+[-_])*(?:ema|swa|quant(?:i[sz]ed|i[sz]ation)?|averaged|merged|pruned|ttt)"
    r"(?:[-_][^\W_]+)*(?: [\w-]+)*",
    re.IGNORECASE,
)
_INFERENCE = re.compile(r"(?:infer(?:ence)?|eval(?:uation)?|validation|test)(?:[ _]time)?", re.IGNORECASE)
_BEST = re.compile(r"(?:val/)?(?:[Bb]est|BEST)(?![a-z])")
_BARE_AVERAGES = frozenset({"avg", "avg.", "average", "mean"})
_CLUSTERED = frozenset({"nmi", "ari"})
_LOGGER = re.compile(r"[a-z_][\w.]*(?<!ing)(?<!ed)")
_OF_LOSSES = re.compile(r"\s*(loss|losses)\b\W*", re.IGNORECASE)
_AFTER = re.compile(r"(.+?) (?:after|at|for|in|of|on|@) (?:the )?((?:global )?\w+)")  # "Cost after iteration 5: 0.5"
_TITLED = re.compile(r"(?:[\w.-]+[ /]\[?){1,3}(\w+)")  # "gd step 5", "main: opt iter 5", "cgan: [iter 5"


def name_items(line: str, items: Sequence[Item], start: int, header: str, *, trust: bool, counted_result: bool) -> None:
    """Name the numbers of a record that begins at a place. `counted_result`: a count stands before a result's value."""
    if counted_result:
        _name_count_of_result(line, items)
    if trust or "[" in items[0].name:
        _uncover_count(line, items[0])
    _name_glued(line, items)
    _name_counts(line, items, start, header)
    _share_lead(items)
    _name_total(line, items)
    _name_short(items)
    _name_times(line, items)
    _part_splits(line, items)
    _carry_splits(items)
    _part_evaluations(items)
    _leave_best(items)
    _name_returns(items)


def counts_before(line: str, start: int, end: int) -> list[Item]:
    """The numbers before a dictionary where one of them counts: "step 5: {'loss': 2.5}"."""
    items = find_items(line, start, end)
    return items if isinstance(items, list) and any(is_count(item.name) for item in items) else []


def end_sentences(items: Sequence[Item]) -> None:
    """In a line that counts, a name begins with its sentence: "[Iteration 5] ... 377 records/second. Loss is 2.5"."""
    _, stop, name = items[0].name.rpartition(". ") if items else ("", "", "")
    if stop and is_count(name):
        items[0].name = name  # "Walker. Step: 500. Mean Reward: 2.5."
    if not any(is_count(item.name) for item in items[:2]):
        return
    for item in items:
        _, stop, name = item.name.rpartition(". ")
        if stop and item.said and name[:1].isupper():
            item.name = name


def drop_logger(first: Item) -> None:
    """Behind the level the logger's name may stand without any mark: "INFO trainer step 5"."""
    logger, _, name = first.name.partition(" ")
    if _LOGGER.fullmatch(logger) and logger not in BEFORE_STEP and is_count(name):
        first.name_start += len(first.name) - len(name)
        first.name = name


def name_members(line: str, start: int, end: int, items: Sequence[Item]) -> None:
    """What stands before a dictionary of losses is said of its members: "Losses {'ner': 2.5}"."""
    if (found := _OF_LOSSES.fullmatch(line, start, end)) is not None:
        for item in items:
            item.name = f"{found[1]}/{item.name}" if item.name else ""


def _name_glued(line: str, items: Sequence[Item]) -> None:
    """In brackets right behind the epoch stands the iteration: "epoch 1[7000]"."""
    for first, second in pairwise(items[:2]):
        glued = (line[first.end : second.start], line[second.end : second.end + 1]) == ("[", "]")
        if glued and first.name.lower() in EPOCHS and not (first.said or second.name or second.share):
            second.name, second.said = "iteration", True


def _uncover_count(line: str, first: Item) -> None:
    """Before what counts may stand who counts: "gd step 5", "main: opt iter 5"."""
    found = _TITLED.fullmatch(first.name)
    if found and (found[1].lower() in STEP_TRUST or found[1].lower() in EPOCHS):
        first.name = found[1]
        first.name_start = line.rfind(first.name, 0, first.start)


def _name_count_of_result(line: str, items: Sequence[Item]) -> None:
    """Name the numbers of "Train loss 5 0.25", "5: 0.25" and "0.25, 5"."""
    count, result = items[:2]
    if line[result.start : result.end].isdigit():
        count, result = result, count
    counts = is_count(count.name)
    result.name, result.said = "loss" if counts else count.name or "loss", True
    if not counts:
        count.name, count.said, count.name_start = "iteration", True, count.start


def _name_counts(line: str, items: Sequence[Item], start: int, header: str) -> None:
    """Name the numbers at the beginning: "[100] loss: ...", "[1,  2000] loss: ...", "10 | loss 2.5", "(0/4) step 5"."""
    first, second = items[0], items[1] if len(items) > 1 else items[0]
    between = line[first.end : second.start].strip()
    after = _AFTER.fullmatch(first.name)
    if after and between in {":", "=", "is"} and second.name in {"", "is"} and is_count(after[2]):
        second.name, second.said, first.name = after[1], True, after[2]
    if first.name in _SYMBOLS_OF_COUNT and first.said and not any(is_count(item.name) for item in items):
        first.name = "iteration"  # "t=5 L=0.5"
    if first.name or second.kind == "average":
        return
    before = line[start : first.start].strip()
    if first.share:
        _name_share(line, items, before, between)
    elif before in _OPENED and line[first.end :].lstrip()[:1] in {"]", ")"}:
        _name_bracketed(first, second, between)
    elif before == "[" and between == "," and not second.name and line[second.end : second.end + 1] == "]":
        alone = header and len(items) == 2 and _RATE.fullmatch(line, second.start, second.end)
        first.name, second.name = ("step", "learning_rate") if alone else ("epoch", "iteration")  # alone: a list
    elif not before:
        _name_bare(line, items, between)


def _name_share(line: str, items: Sequence[Item], before: str, behind: str) -> None:
    """Name the numbers where the first is a share: "[0/25][50/500]", "[0/25][5000]", "(0/4) step 5"."""
    first, second = items[0], items[1] if len(items) > 1 else items[0]
    counts = second.share or line[second.end : second.end + 1] == "]"
    if counts and not second.name and (before, behind) == ("[", "]["):
        first.name = "epoch"
        second.name = "" if second.share else "iteration"
    elif before == "(" and behind[:1] == ")" and any(item.name.lower() in STEP_TRUST for item in items[1:3]):
        first.name = RANK_OF_SEVERAL


def _name_bracketed(first: Item, second: Item, behind: str) -> None:
    """Name a number alone in brackets: "[0][50/500]", "[100] loss: 0.5"."""
    if second.share and behind in {"][", "] ["}:
        first.name = "epoch"
    else:
        first.name, first.said = "iteration", True


def _name_bare(line: str, items: Sequence[Item], behind: str) -> None:
    """Name a number that leads: "100 | loss 0.5", "100 nll=0.5", "100 [D loss: 0.5]", "100 loss 0.5", "100: loss"."""
    first, second = items[0], items[1] if len(items) > 1 else items[0]
    bare = second.said and behind.startswith(second.name) and line[first.end : first.end + 1] == " "
    alone = len(items) == 2 and behind == second.name and not line[second.end :].strip()
    if (behind[:1] in {"|", "["} or bare or alone) and _is_result(second.name):
        first.name, first.said = "iteration", True
    elif line[first.end : first.end + 1] in {":", "\t"} and len(items) > 1:
        first.name, first.said = "iteration", True
        if not second.name and items[2:] and items[2].name.startswith("avg"):  # its mean behind it: what is minimised
            second.name, second.said = "loss", True
            items[2].name, items[2].kind = "loss", "average"


def _is_result(name: str) -> bool:
    return roles.resolve(name).role in RESULT_ROLES or "loss" in name.lower().split()


def _is_measured(name: str) -> bool:
    return _is_result(name) or is_score(name)


def _share_lead(items: Sequence[Item]) -> None:
    """A word before the first name belongs to all of them: "final_int8_roundtrip val_loss:2.2 val_bpb:1.3"."""
    lead, _, name = items[0].name.rpartition(" ")
    own = _TAGGED.fullmatch(lead) or (says_validation(name) and _OF_MADE.fullmatch(lead))
    if not own or any(" " in item.name for item in items[1:]):
        return
    for item in (item for item in items if item.name):
        item.name = f"{lead}/{name if item is items[0] else item.name}"


def _name_total(line: str, items: Sequence[Item]) -> None:
    """Beside losses a bare total is theirs, "mse=0.25 total=7.25"; whole numbers count, and units tell times."""
    totals = [item for item in items if item.name.lower() == "total" and "." in line[item.start : item.end]]
    totals = [item for item in totals if not MEASURED.match(line, item.end)]
    found = [roles.resolve(item.name) for item in items if item.name]
    losses = [match for match in found if match.role == "train_loss"]
    if len(totals) == 1 and losses and all(match.weak for match in losses):
        totals[0].name = "total loss"


def _name_short(items: Sequence[Item]) -> None:
    """Beside each other "L" or "TL" and "VL", "T-Loss" and "V-Loss", are the losses."""
    names = {item.name.lower().replace("_", "-") for item in items}
    if names.isdisjoint({"vl", "v-loss"}) or names.isdisjoint({"l", "tl", "loss", "t-loss"}):
        return
    for item in items:
        if (found := _SHORT.fullmatch(item.name)) is not None:
            measured = "loss" if found[2].lower() == "l" else found[2]
            item.name = f"{'val' if found[1].lower() == 'v' else 'train'} {measured}"


def _name_times(line: str, items: Sequence[Item]) -> None:
    """A cost with a unit of time is how long something took: "Cost: 715.7 sec"."""
    for item in items:
        if _TIMED.match(line, item.end) and roles.resolve(item.name).role == "train_loss":
            item.name = f"{item.name} time"


def _part_splits(line: str, items: Sequence[Item]) -> None:
    """Tell numbers of held-out data from others of the same line; a split before a path says nothing new."""
    _name_by_split(line, items)
    names = [item.name for item in items]
    for item in items:
        if (found := _PHASE.match(item.name)) and found[1].lower() in SPLITS:
            item.name = item.name[found.end() :]
        found = _SPLIT_LEAD.match(item.name)
        if found and found[1].lower() in SPLITS:
            item.held_out |= SPLITS[found[1].lower()]
            item.name = item.name[found.end() :]
        own = says_validation(item.name) or (TRAIN.match(item.name) and any(map(says_validation, names)))
        if item.held_out and item.name and not is_count(item.name) and not own:
            item.name = f"val/{item.name}"


def _name_by_split(line: str, items: Sequence[Item]) -> None:
    """What a split measured is said of the one before it, "loss train: 0.5  eval: 0.75", or before both, "loss:
    train=0.5, eval=0.75".
    """
    measured = ""
    for item in items:
        label = _LABEL.search(line, 0, item.name_start) if item.said and item.name.lower() in SPLITS else None
        if label is not None and _is_measured(label[1]):
            measured = label[1]
        if (found := _SPLIT_BEHIND.fullmatch(item.name)) and found[2].lower() in SPLITS:
            measured = found[1]
        elif measured and item.name.lower() in SPLITS:
            item.name = f"{item.name} {measured}"
        else:
            measured = ""


def _carry_splits(items: Sequence[Item]) -> None:
    """What follows an evaluation's number, and repeats a name, is of it too: "loss 0.5 acc 0.8 val_loss 0.75 acc 0.7".

    In a line that holds nothing else every result is: "END valid top1: 0.5 top5: 0.75 loss: 2.5".
    """
    values = [item for item in items if item.name and not is_count(item.name)]
    lead = values[0].name.lower() if values else ""
    own = "/" not in lead and says_validation(lead) and not any(TRAIN.search(item.name) for item in values)
    own = own and not any(re.search(rf"[\W_]{re.escape(item.name.lower())}$", lead) for item in values[1:])
    seen: set[str] = set()
    held_out, carried = False, ""
    for item in values:
        name = item.name
        if item.kind == "average":
            item.name = carried or name
            continue
        carried = ""
        if says_validation(name) or TRAIN.search(name):
            held_out = not TRAIN.search(name)
        elif held_out and (name in seen or (own and (roles.resolve(name).role in RESULT_ROLES or is_score(name)))):
            item.held_out, item.name = True, (carried := f"val/{name}")
        seen.add(name)


def _leave_best(items: Sequence[Item]) -> None:
    """The best so far, beside what it is the best of, belongs to a row before: "Avg: 2.5 BestAvg: 3.5"."""
    names = [item.name.lower() for item in items if not _BEST.match(item.name)]
    for item in items:
        if (found := _BEST.match(item.name)) is not None:
            of = item.name[found.end() :].lower().strip("_ /")
            item.skipped |= any(name.endswith(of) if of else says_validation(name) for name in names)


def _name_returns(items: Sequence[Item]) -> None:
    """A bare average or score in a line that counts episodes is of their returns: "Episode 100   Avg: -250.5"."""
    known = any(roles.resolve(item.name).role == "reward" for item in items)
    if known or not any(item.name.lower() in EPISODES for item in items):
        return
    for item in items:
        if item.name.lower() in _BARE_AVERAGES:
            item.name = f"{item.name} reward"
        elif item.name.lower() == "score":
            item.name = f"Episode {item.name}"


def _part_evaluations(items: Sequence[Item]) -> None:
    """Where a line says how long inference took, or compares clusters with labels, its accuracy is an evaluation's."""
    if not any(_INFERENCE.fullmatch(item.name) or item.name.lower() in _CLUSTERED for item in items):
        return
    for item in items:
        role = roles.resolve(item.name).role if item.name else "none"
        if role is None and is_score(item.name) and not TRAIN.search(item.name):
            item.held_out, item.name = True, f"val/{item.name}"
