"""The grammar of a record: `key: value`, `key=value`, `key value`, `value unit`, `{'key': value}`, in any mixture.

A record's shape is learned from the first line of its kind: its numbers become slots, the words between them names.
Further lines of the kind are then read by one compiled expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from trainforensics import roles
from trainforensics.importers.console.tokens import COUNT_SUFFIXES, NUMBER, TIME, TOKEN, Prefix, prefix_of

# Names that count steps, in the order of trust.
_STEPS = (
    ("global_step", "globalstep", "global_steps", "global_iter", "global_iteration", "global_step/max_steps"),
    ("step", "steps", "train_step", "training_step", "current_step", "optimizer_step", "update_step", "step_num", "s"),
    ("iteration", "iter", "iterations", "iters", "it", "itr", "iter_num"),
    ("num_updates", "n_updates", "updates", "update", "num_update"),
    ("batch", "ba", "batches", "minibatch", "mb"),
    ("total_timesteps", "timesteps", "timestep", "num_timesteps"),
)  # fmt: skip
_STEP_TRUST = {name: trust for trust, names in enumerate(_STEPS) for name in names}
_EPOCHS = frozenset({"epoch", "epochs", "ep"})
_SPLITS = {"train": False, "training": False} | dict.fromkeys(
    ("test", "testing", "val", "valid", "validation", "validate", "validating", "eval", "evaluate", "evaluation",
     "evaluating"), True,
)  # fmt: skip
# What may stand before the name of a step or an epoch: "completed step: 5", "validation loss at iteration 1000".
_BEFORE_STEP = frozenset(_SPLITS) | {
    "at", "completed", "current", "for", "global", "now", "of", "on", "optimizer", "optim", "the", "loss", "results",
    "result", "metrics", "after", "end", "finished", "done", "log", "model", "beginning", "start", "starting",
}  # fmt: skip
_HELD_OUT_NAMES = frozenset({"tel"})  # llm.c's test loss
_RANKS = frozenset({"rank", "global_rank", "global rank", "dp_rank", "worker"})
_IGNORED = frozenset({"eta", "elapsed", "remaining", "pid", "port", "device", "gpu", "node", "version", "v_num"})
RESULT_ROLES = frozenset({"train_loss", "val_loss", "val_metric", "grad_norm", "reward"})
_SUMMARY = frozenset({"train_runtime", "train_samples_per_second"})

_SEPARATOR = re.compile(
    r"[|,;\t{}]|\s{2,}|\s-+\s|\s·\s|[)\]](?=\s*[A-Za-z'\"])|(?<=\w)%(?=\s)|/(?=[a-z_]+=$)|(?:^|(?<=\s))\*+\s"
)
_LEFT, _RIGHT = " \t\"'`:=[(]){}*>#-/.!~", " \t\"'`:=[(~"
_VERB = re.compile(r"\s+(?:is|was|are|of|->|=>)$")
_LONGEST_NAME, _MOST_WORDS = 72, 8
_ATTACHED_UNIT = re.compile(r"[A-Za-zµ%/]+(?=[\s,|;)\]}]|$)(?!=)")
_GLUED_LIST = re.compile(r"^[\s,()\[]*$")
_SPACE_OR_DIGITS = re.compile(r"(\d+(?:[.,:]\d+)*|\s+)")
_KERAS = re.compile(r"\s*\d+/\d+\s*(?:[\[━]|-\s)")
_LONGEST_RECORD = 16_384

SlotKind = Literal["step", "epoch", "inner", "rank", "value", "average"]


@dataclass(slots=True, eq=False)
class Shape:
    """One kind of record, and the rows of it that were read since the last flush.

    `values`: (group, series name) of the record's numbers; the other fields are groups of its expression, 0 where it
    has none. `inner` counts iterations within an epoch, `total` says out of how many. `bar`: it ends with the epoch, as
    Keras' bars do. `dictionary`: a printed dictionary, which need not name its step.
    """

    pattern: re.Pattern[str]
    values: tuple[tuple[int, str], ...]
    step: int = 0
    step_name: str = ""
    epoch: int = 0
    inner: int = 0
    total: int = 0
    time: int = 0
    rank: int = 0
    validation: bool = False
    dictionary: bool = False
    training: bool = False
    bar: bool = False
    summary: bool = False
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """The series it holds."""
        return frozenset(name for _, name in self.values)


@dataclass(slots=True)
class _Item:
    """A number in the line: its span, and the name that the words around it give. `share`: it reads "7/100"."""

    start: int
    end: int
    name: str = ""
    name_start: int = 0
    said: bool = False  # by ":" or "="
    share: bool = False
    skipped: bool = False
    kind: SlotKind = "value"


def learn(line: str, *, bar: bool = False) -> tuple[Shape, int] | int | None:
    """The shape of a line that is a record, and where in the line the record ends.

    A number says that a second record begins there, so that the parts are to be read one by one; None: no record.
    `bar`: the text behind a progress bar, which counts the steps.
    """
    line = line[:_LONGEST_RECORD]
    prefix = prefix_of(line)
    start, end = prefix.end, len(line)
    brace = line.find("{", start)
    dictionary = brace >= 0 and line[brace + 1 : brace + 2] in {"'", '"'}
    lead = ""
    if dictionary:
        close = line.find("}", brace)
        if close < 0:
            return None
        lead, start, end = line[start:brace], brace, close + 1
    items = _items(line, start, end)
    if isinstance(items, int):
        return items
    keras = _KERAS.match(line, start) is not None and bool(items) and items[0].share and not items[0].name
    words = f"{line[: prefix.end]} {lead}" if dictionary else line[: prefix.end]
    shape = _classified(line, items, words, prefix, dictionary)
    shape.dictionary, shape.bar = dictionary, keras
    shape.summary = dictionary and bool(shape.names & _SUMMARY)
    if not _is_record(shape, line, items, start, end, bar):
        return None
    shape.training = any(roles.resolve(name).role == "train_loss" for name in shape.names) and not shape.validation
    shape.pattern = _expression(line, prefix, items, start if not dictionary else prefix.end, end, whole=not dictionary)
    return (shape, end) if shape.pattern.match(line) else None


# --- items -------------------------------------------------------------------------------------------------------


def _items(line: str, start: int, end: int) -> list[_Item] | int:
    """The numbers between two places with their names, or the place at which a second record begins."""
    items: list[_Item] = []
    at, listed, counted = start, "", set[str]()
    opened = 0
    for token in TOKEN.finditer(line, start, end):
        gap = line[at : token.start()]
        group = token.lastgroup
        if group == "time":
            if len([item for item in items if not item.skipped]) > 1 and "date" not in gap:
                return _boundary(line, token.start())
            at = token.end()
            continue
        if group == "duration":
            at = token.end()
            continue
        inner = token.span("inner") if token["wrap"] else token.span()
        item = _Item(*inner, share=token["share"] is not None)
        if token["unit"] and token["unit"] not in COUNT_SUFFIXES:
            item.end = token.start("unit")
        tail = gap.rstrip()
        if listed and _GLUED_LIST.match(gap) and "," in gap:
            opened += 1
            item.name, item.said = f"{listed}/{opened}", True
        elif tail.endswith("(") and items and not _name(gap, behind=True)[0]:
            _behind(items[-1], item, line, token.end())
        else:
            item.name, offset, item.said = _name(gap, behind=bool(items))
            item.name_start = at + offset
            listed, opened = "", 0
            if item.said and tail.endswith(("[", "[(", "(")) and item.name:
                listed = item.name
            if not item.name and not item.share:
                item.name = _unit_behind(line, item.end, end)
        key = item.name.lower()
        if key == "s" and not item.said:
            item.skipped = True
        if key in _STEP_TRUST and not item.skipped:
            if key in counted:
                return item.name_start
            counted.add(key)
        items.append(item)
        at = token.end()
    return items


def _boundary(line: str, at: int) -> int:
    """Where the prefix that holds the time at a place begins."""
    bracket = line.rfind("[", 0, at)
    return bracket if bracket >= 0 and not line[bracket + 1 : at].strip() else at


def _behind(first: _Item, second: _Item, line: str, end: int) -> None:
    """A number in brackets behind another: its average, "0.5 (0.6)", or only another way to say it, "47GiB(59%)"."""
    plain = not line[first.end : second.start].strip(" (") and line[end : end + 1] == ")" and line[second.start] != "+"
    second.said = True
    if plain and not first.share and first.name and end == second.end:
        second.name, second.kind = first.name, "average"
    else:
        second.skipped = True


def _name(gap: str, behind: bool = False) -> tuple[str, int, bool]:
    """The name that the text before a number gives, its place in the text, and whether ":" or "=" says so."""
    stripped = gap.rstrip(_RIGHT)
    said = any(mark in gap[len(stripped) :] for mark in ":=")
    begin = unit.end() if behind and (unit := _ATTACHED_UNIT.match(stripped)) else 0
    for separator in _SEPARATOR.finditer(stripped, begin):
        begin = separator.end()
    text = stripped[begin:]
    if "=" in text or (said and not gap.endswith((" ", "[", "(")) and ":" in text):
        begin += max(text.rfind(" "), text.rfind("=")) + 1
        text = stripped[begin:]
    shorter = text.lstrip(_LEFT)
    begin += len(text) - len(shorter)
    plain = _VERB.sub("", shorter)
    name = " ".join(plain.replace(": ", "/").split())
    if not re.search(r"[^\W\d]", name) or len(name) > _LONGEST_NAME:
        return "", begin, said
    return name, begin, said or plain != shorter


def _unit_behind(line: str, at: int, end: int) -> str:
    """The name of a number that stands before its unit, "112216 tok/s |"."""
    found = re.compile(r"%?\s*([A-Za-z][\w/%]*(?: [\w/]+){0,2})\s*(?=[|,;]|$)").match(line, at, end)
    return found[1] if found else ""


# --- what the items mean -----------------------------------------------------------------------------------------


def _classified(line: str, items: list[_Item], lead: str, prefix: Prefix, dictionary: bool) -> Shape:
    """The shape without its expression: which item is the step, the epoch, the rank."""
    shape = Shape(re.compile(""), ())
    step: _Item | None = None
    trust = 99
    shape.validation = bool(re.search(r"\b(?:valid|validation|eval|evaluation|test)\b(?!_)", lead, re.IGNORECASE))
    seen: set[str] = set()
    for i, item in enumerate(items):
        if item.skipped:
            continue
        name = re.sub(r"\(\w+\)$", "", item.name).strip()
        mode = item.name[len(name) :].strip("()").lower()
        folder, _, last = name.lower().replace("-", "_").rpartition("/")
        words = last.split() or [""]
        head = {*words[:-1], *folder.split("/")} - {""}
        proper = head <= _BEFORE_STEP
        joined = "_".join(words)
        validation = proper and any(_SPLITS.get(word) for word in (*head, mode))
        trusted = min((_STEP_TRUST[k] for k in (f"{folder}/{last}", joined, words[-1]) if k in _STEP_TRUST), default=99)
        whole = item.share or line[item.start : item.end].removesuffix(".0").isdigit()
        after = items[i + 1] if i + 1 < len(items) else None
        counted = after is not None and after.share and not after.name  # an iteration out of how many follows
        if item.share and (not name or (validation and trusted < 99) or (last in _SPLITS and not counted)):
            item.kind, shape.validation = "inner", shape.validation or validation or _SPLITS.get(last, False)
        elif whole and not dictionary and proper and (words[-1] in _EPOCHS or (last in _SPLITS and counted)):
            item.kind, shape.validation = "epoch", shape.validation or validation or _SPLITS.get(last, False)
        elif whole and trusted < 99 and (proper or trusted == 0 or (joined in _STEP_TRUST and not folder)):
            if trusted < trust:
                if step is not None:
                    step.skipped = True
                item.kind, step, trust = "step", item, trusted
                shape.validation |= validation
            else:
                item.skipped = True
        elif last in _RANKS and whole:
            item.kind = "rank"
        else:
            ignored = not name or (last in _IGNORED and not folder) or len(words) > _MOST_WORDS
            item.skipped = ignored or (item.kind == "value" and item.name in seen)
        if item.kind == "value":
            seen.add(item.name)
    shape.validation |= bool(_HELD_OUT_NAMES & seen)
    _number_groups(shape, items, prefix)
    if step is not None:
        shape.step_name = step.name
    return shape


def _number_groups(shape: Shape, items: list[_Item], prefix: Prefix) -> None:
    """Give each kept item its group, two for a share; the time and the rank of the prefix come before."""
    spans = sorted(span for span in (prefix.time, prefix.rank) if span)
    shape.time = spans.index(prefix.time) + 1 if prefix.time else 0
    shape.rank = spans.index(prefix.rank) + 1 if prefix.rank else 0
    group, values = len(spans) + 1, list[tuple[int, str]]()
    averaged = {item.name for item in items if item.kind == "average"}
    for item in items:
        if item.skipped:
            continue
        match item.kind:
            case "step":
                shape.step = group
            case "epoch":
                shape.epoch = shape.epoch or group
            case "inner":
                shape.inner = shape.inner or group
                shape.total = shape.total or group + 1
            case "rank":
                shape.rank = group
            case "average":
                values.append((group, f"{item.name} (average)"))
            case "value":
                values.append((group, f"{item.name} (current)" if item.name in averaged else item.name))
        group += 2 if item.share else 1
    shape.values = tuple(values)


def _is_record(shape: Shape, line: str, items: list[_Item], start: int, end: int, bar: bool) -> bool:
    found = {roles.resolve(name).role for name in shape.names} - {None}
    counted = bool(shape.step or shape.inner or shape.epoch)
    if bar:
        return bool(shape.values)
    if shape.dictionary:
        return bool(found & RESULT_ROLES)
    if not shape.values:
        return counted and _bare(line, items, start, end)
    if counted:
        return bool(found)
    first = next(item for item in items if not item.skipped)
    lead = line[start : first.name_start].strip(" \t")
    tail = line[items[-1].end : end].strip(" \t)]}%|.,;")
    if lead.strip(_LEFT) or len(tail) > 12 or len(items) > 24 or not (first.said or lead == "*"):
        return False
    if not found & RESULT_ROLES and {roles.resolve(f"val/{name}").role for name in shape.names} & RESULT_ROLES:
        shape.validation = True
        return True
    return roles.resolve(first.name).role in RESULT_ROLES


def _bare(line: str, items: list[_Item], start: int, end: int) -> bool:
    """Whether a line says nothing but where the run stands: "[batch=20/4800]:", "Epoch 3/10"."""
    first = items[0]
    lead = line[start : first.name_start].strip(_LEFT)
    return not lead and len(line[items[-1].end : end].strip(_LEFT + ",")) <= 8


# --- expressions -------------------------------------------------------------------------------------------------

_SLOT = rf"({NUMBER}[kKMGBT]?|None)"
_SHARE = r"(\d+)\s*/\s*(\d+)"


def _expression(line: str, prefix: Prefix, items: list[_Item], start: int, end: int, whole: bool) -> re.Pattern[str]:
    """The line with its numbers as slots; other numbers, digits of the prefix and the width of blanks are free."""
    slots = [(item.start, item.end, _SHARE if item.share else _SLOT) for item in items if not item.skipped]
    if prefix.time:
        slots.append((*prefix.time, f"({TIME})"))
    if prefix.rank:
        slots.append((*prefix.rank, r"(\d+)"))
    slots.append((start, start, ""))
    parts, at = [], 0
    for begin, stop, slot in sorted(slots):
        parts += [_prefix_text(line[at:begin]) if begin <= start else _body_text(line[at:begin]), slot]
        at = stop
    parts.append(_body_text(line[at:end]))
    return re.compile("".join(parts) + (r"\s*$" if whole else ""))


def _prefix_text(text: str) -> str:
    return "".join(
        r"\s*" if piece.isspace() else r"[\d.,:]+" if piece[:1].isdigit() else re.escape(piece)
        for piece in _SPACE_OR_DIGITS.split(text)
    )


def _body_text(text: str) -> str:
    """Digits that are part of a name ("top5") stay; numbers that stand alone are free."""
    parts: list[str] = []
    at = 0
    for token in TOKEN.finditer(text):
        parts += [_literal(text[at : token.start()]), _any_of(token.lastgroup or "")]
        at = token.end()
    return "".join([*parts, _literal(text[at:])])


def _any_of(group: str) -> str:
    if group == "duration":
        return r"(?:\d+ days?,? )?[\d:.]+"
    return TIME if group == "time" else rf"(?:{NUMBER}[\w%/]*|None|[\d/ ]+)"


def _literal(text: str) -> str:
    return r"\s*".join(re.escape(piece) for piece in re.split(r"\s+", text))
