"""The numbers of a record with their names: `key: value`, `key=value`, `key value`, `value unit`, `{'key': value}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainforensics.importers.printed.text.tokens import COUNT_SUFFIXES, TOKEN
from trainforensics.importers.printed.text.vocabulary import SPLITS, STEP_TRUST

_SEPARATOR = re.compile(
    r"[|,;\t{}]|\s{2,}|\s-+\s|\s[-=]+>\s|\s[·:]\s|(?i:done|finished|completed?|ended)[.:!]\s"
    r"|\.(?=(?i:iter(?:ation)?|step|epoch|episode)$)|[)\]](?=\s*[A-Za-z'\"])|(?<=\w)%(?=\s)|/(?=[a-z_]+=$)|(?:^|(?<=\s))\*+\s"
)
_SYMBOLS = re.compile(r"^\W+")
_RIGHT = " \t\"'`:=[(~"
_VERB = re.compile(r"\s+(?:is|was|are|of|->|=>)$")
_PREPOSITION = re.compile(r"(?:in|at|on|over|after|for|with)$", re.IGNORECASE)
_COUNT_BEHIND = re.compile(r"\s?(epoch|(?:step|iter(?:ation)?|batch|minibatch)(?:s|es)?)\b(?!\s?[=/])", re.IGNORECASE)
_UNIT_BEFORE = re.compile(r"\s\w+/\w+\s*[\t|,;]\s*$")  # "850 samples/sec \t 12": the words belong to the 850
_CALL = re.compile(r"(?:.*\s)?(\w+)\((\w+)$")  # "Top1 is Accuracy(correct: 5, count: 9)"
_GROUP = re.compile(r"(\w+)\[(\w+)$")  # "tot_loss[loss=0.5, ctc_loss=0.25]"
# What follows was measured on this: "[valid] loss=0.5", "| Validation | Loss: 0.5", "validation: loss=0.5".
_SECTION = re.compile(
    r"\[(\w+)\]|\|\s*(\w+)\s*(?=\|)|(?<![\w-])(\w+)(?: set| results?)?\s{0,3}:\s*$"
    r"|(?<![\w-])(\w+)(?: \w+)?\s[-=]+>\s|(?<![\w-])(\w+)\s{2,}"
    # alone between marks: "epoch 1, val, loss=0.5", "epoch 1 val - loss 0.5", "phase=val loss=0.5", "'split': 'val'"
    r"|(?:^|[,;|()\[\]<>*\t:=]|\s-+\s)\s*['\"]?(?:(?:phase|split|mode|stage)\s+)?(\w+)['\"]?"
    r"(?: (?i:summary|results?|set|metrics|stats))?\s*(?=$|[,;|()\[\]<>*\t]|-+(?:\s|$))"
)
_PART = re.compile(r"(?:[A-Z]{2,5} )?(\w+)(?: set| results?)?\s?: +(?=[^\W\d])")  # "validation: loss 0.5"
_LETTER = re.compile(r"[^\W\d]")
# "after 85 steps with total reward: 30", "step 5/50 completed (loss: 2.5)", "step 5 is completed and loss is 2.5"
_COUNTED_BEFORE = re.compile(
    r"^(?:(?:time)?steps? with |(?:is |was )?(?:completed|finished|done)(?: and | ?\())(?=.)", re.IGNORECASE
)
_LONGEST_NAME = 72
_ATTACHED_UNIT = re.compile(r"[A-Za-zµ%/]+(?=[\s,|;)\]}]|$)(?!=)")
# "max_memory: 58.34 GB grad_norm: 1.5": the unit of the number before, behind a blank
_UNIT_APART = re.compile(r"\s(?:[KMGT]i?B|bytes)(?=\s+[A-Za-z_][\w/]*$)")
_IN_CALL = re.compile(r"(?<=\w)\((?:[^()]*,[^()]*|1e-?\d+)\)$")  # "mAP(0.50, 11point) = 18.62%", "lr(1e-3): 0.5"
_RATE_BEHIND = re.compile(r"\s*[A-Za-z]+/s(?:ec(?:ond)?)?\b")  # "loss = 4.90 (9194.0 examples/sec; 0.014 sec/batch)"
_RATE_BETWEEN = re.compile(r"\s?\w+/s(?:ec)?\s+")  # "12.5 samples/sec 250.5 tokens/sec": each behind its number
_UNIT_BEHIND = re.compile(r"%?\s*([A-Za-z][\w/%]*(?: [A-Za-z/][\w/]*){0,2})(?=\s*(?:[|,;\t]|$))")
# "reward (last 10): 2.5", "lr(1e-3): 0.5", "mAP(0.50, 11point) = 0.5"
_IN_NAME = re.compile(r"\w \([A-Za-z][A-Za-z ]*$|(?<!step)(?<!iter)(?<!epoch)(?<!batch)(?<=\w)\($", re.IGNORECASE)
_NAME_CLOSES = re.compile(r"(?:,[^():=]*)?\)\s?[:=]")
_NORM = re.compile(r"(?:(?<=\s)|^)\|{1,2}\w+\|{1,2}$")  # "|g|=0.5"
_OTHER_UNIT = re.compile(r"\s?(?:nats?|bits?)(?:/\w+)?\s?=\s?")  # "0.5 nats = 0.72 bits"
_IN_LIST = re.compile(r"[\s,()\[]*$")


Kind = Literal["step", "epoch", "inner", "rank", "piece", "value", "average"]


@dataclass(slots=True)
class Item:
    """A number in the line: its span, and the name that the words around it give.

    `said`: by ":" or "="; `apart`: a separator stands before the name; `share`: it reads "7/100"; `held_out`: what
    stands before says so of it and those behind it. `kind` is decided later; an item that is `skipped` means nothing.
    """

    start: int
    end: int
    name: str = ""
    name_start: int = 0
    said: bool = False
    apart: bool = True
    share: bool = False
    held_out: bool = False
    skipped: bool = False
    kind: Kind = "value"


def find_items(line: str, start: int, end: int) -> list[Item] | int:
    """The numbers between two places, or the place at which a second record begins."""
    items: list[Item] = []
    listed, group, index, at = "", "", 0, start
    held_out, passed = False, ""
    counted: set[str] = set()
    for token in TOKEN.finditer(line, start, end):
        gap = line[at : token.start()]
        if _IN_NAME.search(gap) and _NAME_CLOSES.match(line, token.end()):
            continue
        at = token.end()
        if token.lastgroup == "time" and len(items) > 1 and "date" not in gap:
            return _prefix_start(line, token.start())
        if token.lastgroup in {"time", "duration"}:
            passed += gap
            continue
        item = _item(token)
        items.append(item)
        if listed and "," in gap and _IN_LIST.match(gap):
            index += 1
            item.name, item.said = f"{listed}/{index}", True
            continue
        rate = _RATE_BETWEEN.fullmatch(gap) and _RATE_BEHIND.match(line, item.end, end)
        if rate and len(items) > 1:
            item.name, item.said, item.name_start = rate[0].strip(), True, item.start
            continue
        if len(items) > 1 and _OTHER_UNIT.fullmatch(gap):
            item.said = item.skipped = True
            continue
        _name_item(item, gap, token.start() - len(gap), first=len(items) == 1)
        opened = item.said and gap.rstrip().endswith(("[", "(")) and item.name
        listed, index = item.name if opened else "", 0
        bracketed = len(items) > 1 and not item.name and not item.share and gap.rstrip().endswith("(")
        if bracketed and not _RATE_BEHIND.match(line, item.end, end):
            _behind(items[-2], item, line, at)
            continue
        _name_by_words_behind(item, line, end, token["range"] is not None)
        if _begins_anew(item, items, line, gap):
            return item.start
        before = item.name_start - token.start()
        held_out = item.held_out = _section(passed + (gap[:before] if -len(gap) <= before < 0 else gap), held_out)
        passed = ""
        group = _in_group(item, gap, group)
        item.skipped = token["range"] is not None and item.name.lower() not in STEP_TRUST
        item.said |= gap.endswith("[") and line[item.end : item.end + 1] == "]"
        key = item.name.lower()
        if key in STEP_TRUST and (item.said or key != "s") and (item.share or line[item.start : item.end].isdigit()):
            if key in counted:
                return item.name_start
            counted.add(key)
    return items


def _item(token: re.Match[str]) -> Item:
    """The number of a token, without what is wrapped around it."""
    inner = "inner" if token["wrap"] else "last" if token["range"] else 0
    item = Item(*token.span(inner), share=token["share"] is not None)
    if token["unit"] and token["unit"] not in COUNT_SUFFIXES:
        item.end = token.start("unit")
    return item


def _name_by_words_behind(item: Item, line: str, end: int, ranged: bool) -> None:
    """Name a number without a name before it by its unit: "12 tokens/s", "in 3 epoch", "1epoch"."""
    ranged &= item.name.lower() not in STEP_TRUST  # "Batch [0-20]" has its name before it
    if item.share or (item.name and not (ranged or _PREPOSITION.match(item.name))):
        return
    if (found := _COUNT_BEHIND.match(line, item.end, end)) is not None:
        item.name, item.said, item.apart = found[1], True, True
        return
    found = _UNIT_BEHIND.match(line, item.end, end)
    item.name = found[1] if found and found[1] != "MB" else ""  # megabytes; "mb" counts minibatches


def _begins_anew(item: Item, items: Sequence[Item], line: str, gap: str) -> bool:
    """Whether an unnamed "2/300" repeats the one that the line begins with: bars that follow without a break."""
    first = items[0]
    if len(items) < 3 or not (item.share and first.share) or item.name or first.name or gap.endswith(("[", "(")):
        return False
    return line[first.start : first.end].rpartition("/")[2] == line[item.start : item.end].rpartition("/")[2]


def _section(before: str, held_out: bool) -> bool:
    """Whether what stands before a name says that the numbers from here on were measured on held-out data."""
    for found in _SECTION.finditer(before):
        held_out = SPLITS.get(found[found.lastindex or 0].lower(), held_out)
    return held_out


def _in_group(item: Item, gap: str, group: str) -> str:
    """Give an item the name of the brackets it stands in, "total[loss=0.5, ...]", and return that name."""
    found = _GROUP.match(item.name)
    if found is None:
        group = "" if "]" in gap else group
        item.name = f"{group}{item.name}" if item.name else ""
        return group
    group = "" if found[1] == found[2] else f"{found[1]}/"
    item.name = f"{group}{found[2]}"
    return group


def _prefix_start(line: str, time: int) -> int:
    """Where the prefix that holds the time at a place begins."""
    bracket = line.rfind("[", 0, time)
    return bracket if bracket >= 0 and not line[bracket + 1 : time].strip() else time


def _behind(first: Item, second: Item, line: str, end: int) -> None:
    """A number in brackets behind another: its average, "0.5 (0.6)", or only another way to say it, "47GiB(59%)"."""
    between = line[first.end : second.start].strip(" (")
    plain = not between and second.end == end and line[end : end + 1] == ")" and line[second.start] != "+"
    second.said, second.held_out = True, first.held_out
    if plain and not first.share and first.name:
        second.name, second.kind = first.name, "average"
    else:
        second.skipped = True


def _name_item(item: Item, gap: str, at: int, *, first: bool) -> None:
    """Give an item the name that the text before it holds, and say how it stands there."""
    if not first and _UNIT_BEFORE.match(gap):
        return
    stripped = gap.rstrip(_RIGHT)
    mark = gap[len(stripped) :]
    item.said = ":" in mark or "=" in mark
    unit = None if first else _ATTACHED_UNIT.match(stripped) or _UNIT_APART.match(stripped)
    stripped = _IN_CALL.sub("", stripped)
    begin = unit.end() if unit else 0
    item.apart = first
    for separator in _SEPARATOR.finditer(stripped, begin):
        begin, item.apart = separator.end(), True
    if (norm := _NORM.search(stripped)) is not None:
        begin, item.said, item.apart = norm.start(), True, True
        item.name, item.name_start = norm[0], at + begin
        return
    text = stripped[begin:]
    if "=" in text or (item.said and ":" in _SYMBOLS.sub("", text) and not mark.endswith((" ", "[", "("))):
        begin += max(text.rfind(" "), text.rfind("=")) + 1
        text = stripped[begin:]
    shorter = _SYMBOLS.sub("", text)
    part = _PART.match(shorter)
    if part and part[1].lower() in SPLITS and shorter.split()[-1].lower() not in STEP_TRUST:
        shorter, item.apart = shorter[part.end() :], True
    item.apart |= text[: len(text) - len(shorter)].strip() != ""
    item.name_start = at + begin + len(text) - len(shorter)
    plain = _VERB.sub("", shorter)
    item.said |= plain != shorter
    name = " ".join(_COUNTED_BEFORE.sub("", plain).replace(": ", "/").split())
    if (call := _CALL.match(name)) is not None:
        name = f"{call[1]}/{call[2]}" if call[2].lower() in SPLITS else call[2]
    if len(name) <= _LONGEST_NAME and _LETTER.search(name):
        item.name = name
