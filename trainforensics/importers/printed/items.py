"""The numbers of a record with their names: `key: value`, `key=value`, `key value`, `value unit`, `{'key': value}`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from trainforensics.importers.printed.tokens import COUNT_SUFFIXES, TOKEN

# Names that count steps, in the order of trust.
_STEPS = (
    ("global_step", "globalstep", "global_steps", "global_iter", "global_iteration", "global_step/max_steps",
     "total_timesteps", "num_timesteps", "timesteps_total"),
    ("step", "steps", "train_step", "training_step", "current_step", "optimizer_step", "update_step", "step_num", "s"),
    ("iteration", "iter", "iterations", "iters", "it", "itr", "iter_num"),
    ("num_updates", "n_updates", "updates", "update", "num_update"),
    ("batch", "ba", "batches", "minibatch", "mb"),
    ("timesteps", "timestep"),
)  # fmt: skip
STEP_TRUST = {name: trust for trust, names in enumerate(_STEPS) for name in names}

_SEPARATOR = re.compile(
    r"[|,;\t{}]|\s{2,}|\s-+\s|\s·\s|[)\]](?=\s*[A-Za-z'\"])|(?<=\w)%(?=\s)|/(?=[a-z_]+=$)|(?:^|(?<=\s))\*+\s"
)
_SYMBOLS = re.compile(r"^\W+")
_RIGHT = " \t\"'`:=[(~"
_VERB = re.compile(r"\s+(?:is|was|are|of|->|=>)$")
_LETTER = re.compile(r"[^\W\d]")
_LONGEST_NAME = 72
_ATTACHED_UNIT = re.compile(r"[A-Za-zµ%/]+(?=[\s,|;)\]}]|$)(?!=)")
_UNIT_BEHIND = re.compile(r"%?\s*([A-Za-z][\w/%]*(?: [\w/]+){0,2})\s*(?=[|,;]|$)")
_IN_LIST = re.compile(r"[\s,()\[]*$")

Kind = Literal["step", "epoch", "inner", "rank", "value", "average"]


@dataclass(slots=True)
class Item:
    """A number in the line: its span, and the name that the words around it give.

    `said`: by ":" or "="; `apart`: a separator stands before the name; `share`: it reads "7/100". `kind` is decided
    later; an item that is `skipped` means nothing.
    """

    start: int
    end: int
    name: str = ""
    name_start: int = 0
    said: bool = False
    apart: bool = True
    share: bool = False
    skipped: bool = False
    kind: Kind = "value"


def find_items(line: str, start: int, end: int) -> list[Item] | int:
    """The numbers between two places, or the place at which a second record begins."""
    items: list[Item] = []
    listed, index, at = "", 0, start
    counted: set[str] = set()
    for token in TOKEN.finditer(line, start, end):
        gap = line[at : token.start()]
        at = token.end()
        if token.lastgroup == "time" and len(items) > 1 and "date" not in gap:
            return _prefix_start(line, token.start())
        if token.lastgroup in {"time", "duration"}:
            continue
        item = Item(*(token.span("inner") if token["wrap"] else token.span()), share=token["share"] is not None)
        if token["unit"] and token["unit"] not in COUNT_SUFFIXES:
            item.end = token.start("unit")
        items.append(item)
        if listed and "," in gap and _IN_LIST.match(gap):
            index += 1
            item.name, item.said = f"{listed}/{index}", True
            continue
        _name_item(item, gap, token.start() - len(gap), first=len(items) == 1)
        opened = item.said and gap.rstrip().endswith(("[", "(")) and item.name
        listed, index = item.name if opened else "", 0
        if len(items) > 1 and not item.name and gap.rstrip().endswith("("):
            _behind(items[-2], item, line, at)
            continue
        if not item.name and not item.share:
            found = _UNIT_BEHIND.match(line, item.end, end)
            item.name = found[1] if found else ""
        key = item.name.lower()
        if key in STEP_TRUST and (item.said or key != "s") and (item.share or line[item.start : item.end].isdigit()):
            if key in counted:
                return item.name_start
            counted.add(key)
    return items


def _prefix_start(line: str, time: int) -> int:
    """Where the prefix that holds the time at a place begins."""
    bracket = line.rfind("[", 0, time)
    return bracket if bracket >= 0 and not line[bracket + 1 : time].strip() else time


def _behind(first: Item, second: Item, line: str, end: int) -> None:
    """A number in brackets behind another: its average, "0.5 (0.6)", or only another way to say it, "47GiB(59%)"."""
    between = line[first.end : second.start].strip(" (")
    plain = not between and second.end == end and line[end : end + 1] == ")" and line[second.start] != "+"
    second.said = True
    if plain and not first.share and first.name:
        second.name, second.kind = first.name, "average"
    else:
        second.skipped = True


def _name_item(item: Item, gap: str, at: int, *, first: bool) -> None:
    """Give an item the name that the text before it holds, and say how it stands there."""
    stripped = gap.rstrip(_RIGHT)
    mark = gap[len(stripped) :]
    item.said = ":" in mark or "=" in mark
    unit = None if first else _ATTACHED_UNIT.match(stripped)
    begin = unit.end() if unit else 0
    item.apart = first
    for separator in _SEPARATOR.finditer(stripped, begin):
        begin, item.apart = separator.end(), True
    text = stripped[begin:]
    if "=" in text or (item.said and ":" in text and not mark.endswith((" ", "[", "("))):
        begin += max(text.rfind(" "), text.rfind("=")) + 1
        text = stripped[begin:]
    shorter = _SYMBOLS.sub("", text)
    item.apart |= text[: len(text) - len(shorter)].strip() != ""
    item.name_start = at + begin + len(text) - len(shorter)
    plain = _VERB.sub("", shorter)
    item.said |= plain != shorter
    name = " ".join(plain.replace(": ", "/").split())
    if len(name) <= _LONGEST_NAME and _LETTER.search(name):
        item.name = name
