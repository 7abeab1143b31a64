"""The regular expression that reads further lines of a kind: numbers become groups, the width of blanks is free."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainforensics.importers.printed.records.items import Item
from trainforensics.importers.printed.text.data import NAMED_DATA, VALUE
from trainforensics.importers.printed.text.prefix import Prefix
from trainforensics.importers.printed.text.tokens import IN_WORDS, MISSING, NUMBER, TIME, TOKEN

# Looser than a number, for speed: whatever else matches is found out when it is converted.
_CHARACTERS = r"-+\d.#eEnaNAiIfFtTyYokKMGBQSD"
_NUMBER = {True: rf"([{_CHARACTERS},]+(?:\(s?[in]\w+\))?)", False: rf"([{_CHARACTERS}]+)"}
# The same where a blank or a mark of no number follows, so that what it took is never taken otherwise: with many
# numbers a line that fails at its end would else be tried in every way to part its digits.
_WHOLE = {True: rf"([{_CHARACTERS},]++(?:\(s?[in]\w+\))?)", False: rf"([{_CHARACTERS}]++)"}
_GOES_ON = {True: re.compile(rf"\s*[{_CHARACTERS},(]"), False: re.compile(rf"\s*[{_CHARACTERS}]")}
_FREE = rf"\d+\s*+(?:/|of\b)\s*+\d+[\w%/]*|{NUMBER}[\w%/]*|None"
_FREE_GOES_ON = re.compile(r"\s*[\w%/.,(]")
_COLUMN = re.compile(r"\s+[-+]?\.?\d")  # another number behind blanks
_MISSING = re.compile(MISSING)
# What may stand in a number's place: nothing or a word, at the end of the line a word.
_WORD = r"[^\s\d,;|=:]{0,20}"
_SHARE = r"(\d+)(?:\s*/\s*|\s+of\s+)(\d+)"
_BLANKS_OR_DIGITS = re.compile(r"(\d+(?:[.,:]\d+)*|\s+)")
_ANY = {"time": f"(?>{TIME})", "duration": rf"(?:{IN_WORDS}|(?:\d+ days?,? )?[\d:.]+(?:[dhms](?: ?[\d.]+[hms])*)?)"}


def expression(
    line: str, prefix: Prefix, items: Sequence[Item], start: int, end: int, *, whole: bool
) -> re.Pattern[str]:
    """The line up to `end` with a group for the prefix' time and rank, and for each item that is not skipped.

    The digits of the prefix, which ends at `start`, are free too. `whole`: nothing may follow.
    """
    slots = [(item.start, item.end, _slot(line, item)) for item in items if not item.skipped]
    if prefix.time:
        slots.append((*prefix.time, f"({TIME})"))
    if prefix.rank:
        slots.append((*prefix.rank, r"(\d+)"))
    parts: list[str] = []
    at = 0
    for begin, stop, slot in sorted([*slots, (start, start, "")]):
        text = line[at:begin]
        parts += [_in_prefix(text) if begin <= start else _in_record(text, behind=bool(parts and parts[-1])), slot]
        at = stop
    tail = _in_record(line[at:end], behind=bool(parts[-1]), before=False)
    return re.compile("".join([*parts, tail, r"\s*$" if whole else ""]))


def with_words(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """An expression that also takes words for numbers: "step 5 loss diverged"."""
    loose = pattern.pattern
    for number in (*_NUMBER.values(), *_WHOLE.values()):
        loose = loose.replace(number, f"({number[1:-1]}(?=[\\s,;|)\\]}}]|$)|{_WORD})")
    end = rf"{_WORD})\s*$"
    return re.compile(f"{loose.removesuffix(end)}{end.replace('{0,', '{1,')}" if loose.endswith(end) else loose)


def _slot(line: str, item: Item) -> str:
    commas = _may_hold_commas(line, item)
    ends = _COLUMN.match(line, item.end) or not _GOES_ON[commas].match(line, item.end)
    number = (_WHOLE if ends else _NUMBER)[commas]
    missing = _MISSING.fullmatch(line, item.start, item.end)
    return _SHARE if item.share else f"({MISSING}|{number[1:-1]})" if missing else number


def _may_hold_commas(line: str, item: Item) -> bool:
    """Whether a comma may be part of a number: none follows it, or it holds one."""
    return line[item.end : item.end + 1] != "," or "," in line[item.start : item.end]


def _in_prefix(text: str) -> str:
    return "".join(
        r"\s*+" if piece.isspace() else r"[\d.,:]+" if piece[:1].isdigit() else re.escape(piece)
        for piece in _BLANKS_OR_DIGITS.split(text)
    )


def _in_record(text: str, *, behind: bool, before: bool = True) -> str:
    """Digits that belong to a name ("top5") stay; numbers that stand alone are free.

    `behind`, `before`: a number stands before the text, and behind it.
    """
    if (named := NAMED_DATA.search(text)) is not None:
        begin, end = named.span("value")
        first = _in_record(text[:begin], behind=behind)
        return f"{first}(?:\\[[^\\]]*\\]|{VALUE}){_in_record(text[end:], behind=False, before=before)}"
    parts, at = [], 0
    for token in TOKEN.finditer(text):
        free = _ANY.get(token.lastgroup or "")
        if free is None:
            ends = _COLUMN.match(text, token.end()) or not _FREE_GOES_ON.match(text, token.end())
            free = f"(?>{_FREE})" if ends else f"(?:{_FREE})"
        parts += [_literal(text[at : token.start()], apart=behind or at > 0), free]
        at = token.end()
    return "".join([*parts, _literal(text[at:], apart=before and (behind or at > 0))])


def _literal(text: str, *, apart: bool) -> str:
    """Text between numbers; `apart`: nothing but its blanks tells them apart."""
    return r"\s++" if apart and text.isspace() else r"\s*+".join(re.escape(piece) for piece in re.split(r"\s+", text))
