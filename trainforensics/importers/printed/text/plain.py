"""Console text before it is understood: colours, carriage returns, glued lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_ANSI = re.compile(r"\x1b(?:\[[\d;?]*[A-Za-z]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\)|[()][A-Z0-9])")
_NUMBERED = re.compile(r"\b(epoch|iteration|iter|step|episode|batch|update) #(\d)", re.IGNORECASE)  # "Epoch #3"
# "Epoch #  3" and "Iter-100;" at the beginning
_LED_BY = re.compile(
    r"^(\s*(?:epoch|iter|iteration|step|episode))(?: # +|-)(\d+)(?=[;:,|\s])", re.IGNORECASE | re.MULTILINE
)
_NUMBER_OF = re.compile(  # "Epoch no. = 3", "iteration number: 5"
    r"\b(epoch|iteration|iter|step|episode|batch|update) (?:no\.?|num(?:ber)?\.?|nr\.?)(?=\s?[:=]?\s?\d)", re.IGNORECASE
)
_DASHED = re.compile(r"(?<=, )([A-Za-z]\w*) - (?=\d)")  # "1.50it/s, dice_loss - 0.5, iou_score - 0.5]"
_ORDINAL = re.compile(
    r"(?<=\d)(?:st|nd|rd|th)(?= (?:step|epoch|iter|batch|round|episode))", re.IGNORECASE
)  # "5th step"
_R_PRINT = re.compile(r'^\[1\] "(.*)"$', re.MULTILINE)
_ROUND = re.compile(r"^\[(\d+)\]:(?=\s+\w+'s \w+:)", re.MULTILINE)  # LightGBM: "[5]:  valid's l2:0.5"
_DOTTED = re.compile(r"\b(epoch|step)\.{2,} (?=\(?\d)", re.IGNORECASE)  # "Epoch... (3/20 | Loss: 0.5)"
_BOTH = re.compile(r"\bepoch/(iter(?:ation)?|step|batch): (\d+)/(\d+)")  # "epoch/iter: 15/3999"
_UNDRAWN = re.compile(r"(?<=\d%) +(?=\d+/\d+ \[\d+:\d\d)")  # a bar of which only its numbers are shown
_GLUED_RANK = re.compile(r"(?<=[^\n\r])(?=\[rank\d+\]:)")
_DEVICE = re.compile(r", device='\w+(?::\d+)?'(?=[,)])")  # "tensor(2.5, device='cuda:0')"
# What must stand in the text for an expression to be tried, the expression, and the text instead.
_SAID_OTHERWISE = (
    ("% ", _UNDRAWN, "|| "),
    ("th ", _ORDINAL, ""),
    ('[1] "', _R_PRINT, r"\1"),
    ("'s ", _ROUND, r"[\1] "),
    (".. ", _DOTTED, r"\1 "),
    ("epoch/", _BOTH, r"epoch \2, \1 \3"),
    (", device='", _DEVICE, ""),
    (" #", _NUMBERED, r"\1  \2"),
)
_MESSAGE_KEYS = ('"log":', '"message":', '"msg":')
_MESSAGE = re.compile(r'^\{(?:[^{}]*,\s*)?"(?:log|message|msg)"\s*:\s*"((?:[^"\\]|\\.)+)"[^{}]*\}[ \r]*$', re.MULTILINE)
_WRAPPED_TIME = re.compile(r'"(?:time|timestamp|asctime|@timestamp)"\s*:\s*"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^"]*)"')
_BREAKS = re.compile(r"\r+|\x08+")
_RECORD_BEGINS = re.compile(
    r"(?<=\S)(?=\{'|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|\s+iteration\s+\d+\s*/|\bsteps?[:=]\s*\d"
    r"|\b(?:Epoch|Episode|iter)[: ]+\[?\d|\s+\d+/\d+ \[)"
)
LONG = 16_384
_LEAD = re.compile(r"[^\W\d][^\d]*(?=\d)")
_MANY = 8  # records of a line


def plain(text: str) -> str:
    """Text without colour codes; the lines of ranks that were written into one are parted by carriage returns."""
    if text.startswith("{") and any(key in text for key in _MESSAGE_KEYS):
        text = _MESSAGE.sub(_unwrapped, text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\u2014" in text:
        text = text.replace(" \u2014 ", " - ")
    if " \u2192 " in text:
        text = text.replace(" \u2192 ", " -> ")
    if "it/s, " in text and " - " in text:
        text = _DASHED.sub(r"\1=", text)
    for mark, pattern, said in _SAID_OTHERWISE:
        if mark in text:
            text = pattern.sub(said, text)
    if " # " in text or any(word in text for word in ("ter-", "poch-", "tep-", "sode-")):
        text = _LED_BY.sub(r"\1 \2", text)
    if any(word in text for word in (" no", " No", " num", " Num", " nr", " NO", " NUM")):
        text = _NUMBER_OF.sub(r"\1", text)
    return _GLUED_RANK.sub("\r", text) if "[rank" in text else text


def _unwrapped(found: re.Match[str]) -> str:
    """The text that a line of Docker's or of a structured log wraps, behind its time."""
    try:
        said = str(json.loads(f'"{found[1]}"')).rstrip("\r\n").replace("\n", " ")
    except ValueError:
        return found[0]
    time = _WRAPPED_TIME.search(found[0])
    return f"{time[1]} {said}" if time and not said.startswith(("\r", time[1][:10])) else said


def pieces(line: str) -> Sequence[str]:
    """The parts of a line between carriage returns and backspaces; the records of a line of great length."""
    parts = _BREAKS.split(line) if "\r" in line or "\x08" in line else (line,)
    if len(line) <= LONG:
        return parts
    return [piece for part in parts for piece in (_RECORD_BEGINS.split(part) if len(part) > LONG else (part,))]


def records_of(line: str, second: int) -> Sequence[str]:
    """The records of a line in which the second begins at a place; many that begin alike are parted at once."""
    lead = _LEAD.match(line)
    first, rest = line[:second], line[second:]
    if lead is None or not rest.startswith(lead[0]) or rest.count(lead[0]) < _MANY:
        return first, rest
    return first, *re.split(rf"(?<=\s)(?={re.escape(lead[0])}\d)", rest)
