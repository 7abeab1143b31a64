"""How reports write numbers, steps, durations and names, and how text from logs is kept from acting as Markdown."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable

from trainforensics.model import Cost, Incident, Scope

_WORDS = {"nan": "NaN", "lr": "LR", "rl": "RL", "val": "validation", "eval": "evaluation", "grad": "gradient"}
_CONTROL = re.compile(r"(?:\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f\u2028\u2029])+")
_WORD = re.compile(r"[a-z]+[,;:]?(?:\s|$)")  # a word, not the name of a series
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = re.compile(r"^(>|#+(?=\s|$)|[-+](?=\s)|[-=]{2,}|\d+(?=[.)]\s))")


class Markdown(str):
    """Text that is Markdown already and must not be escaped again."""

    __slots__ = ()


def one_line(text: str) -> str:
    """Text of unknown origin on one line, without control characters or lone surrogates."""
    return _CONTROL.sub(" ", text.encode("utf-8", "backslashreplace").decode("utf-8")).strip()


def escape(text: str) -> Markdown:
    """Text of unknown origin as one line that Markdown and HTML show as it is; `code spans` stay code."""
    pieces = _SPAN.split(one_line(text))
    line = "".join(code(piece) if odd % 2 else _escaped(piece) for odd, piece in enumerate(pieces))
    return Markdown(_BLOCK_START.sub(lambda m: m[0] + "\\" if m[0].isdigit() else "\\" + m[0], line))


def _escaped(piece: str) -> str:
    piece = piece.replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(lambda match: "\\" + match[0], piece)


def code(text: object) -> Markdown:
    """Text as a code span that also holds inside a table cell."""
    line = one_line(str(text)) or " "
    if "|" in line:  # a span that shows it as it is both in a table and outside does not exist
        return Markdown("<code>" + _escaped(line).replace("\\|", "&#124;") + "</code>")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if "`" in line else ""
    return Markdown(f"{ticks}{pad}{line}{pad}{ticks}")


def number(value: float | None) -> str:
    """Four significant digits; whole numbers in full, in groups of three from five digits on; "-" for none."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ") if abs(value) >= 10_000 else str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 1e7:
        return number(int(value))
    rounded = float(f"{value:.4g}")
    if not 1e-4 <= abs(rounded) < 1e7:
        return re.sub(r"e([+-])0?", lambda m: "e-" if m[1] == "-" else "e", f"{rounded:.4g}")
    return number(int(rounded)) if rounded.is_integer() else f"{rounded:.10f}".rstrip("0")


def odds(p_value: float | None) -> str:
    """A p-value: two digits are all it deserves."""
    return number(p_value) if p_value is None else number(float(f"{p_value:.2g}"))


def quantity(value: float) -> str:
    """A large count in short: 2.6 B, 410 M, 12 400."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return number(round(value))


def duration(seconds: float) -> str:
    """Seconds in the two largest units that say it: 3 h 10 min."""
    if seconds < 1:
        return f"{seconds:.2g} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    rest = round(seconds)
    parts: list[str] = []
    for name, size in units:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 step`, `12 400 steps`."""
    return f"{number(count)} {noun if count == 1 else many or noun + 's'}"


def span(first: int | None, last: int | None) -> str:
    """A range of steps; one number where both ends are the same."""
    if first is None or last is None or first == last:
        return number(first if first is not None else last)
    return f"{number(first)} - {number(last)}"


def stretch(unit: str, first: int | None, last: int | None) -> str:
    """A range with its unit: `step 12 480`, `steps 168 - 178`."""
    return f"{unit}{'' if first is not None and first == last else 's'} {span(first, last)}"


def listing(items: Iterable[str], limit: int = 6) -> str:
    """Items separated by commas, the surplus counted."""
    found = list(items)
    rest = len(found) - limit
    return ", ".join(found[:limit]) + (f" and {number(rest)} more" if rest > 0 else "")


def label(kind: str) -> str:
    """A kind in words: `nan-onset` -> "NaN onset", `val-jump` -> "validation jump"."""
    return " ".join(_WORDS.get(word, word) for word in kind.split("-"))


def capital(text: str) -> str:
    """Text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def _named(part: str, value: object) -> str:
    """`layer h.3`, and `layer_4` as it is: it says what it is."""
    return str(value) if str(value).lower().startswith(part) else f"{part} {value}"


def where(scope: Scope) -> str:
    """The part of the run an incident is confined to; empty for the whole run."""
    parts = (("rank", scope.rank), ("layer", scope.layer), ("expert", scope.expert), ("domain", scope.domain))
    named = [_named(name, value) for name, value in parts if value is not None]
    return ", ".join([*named, f"against {scope.sibling}"] if scope.sibling else named)


def when(incident: Incident) -> str:
    """The steps of an incident: onset (or every onset), and how far it reached."""
    if incident.onset_step is None:
        return "whole run"
    if len(incident.occurrences) > 1:
        return listing(map(number, incident.occurrences), 4)
    if incident.recovery in ("ongoing", "diverging", "unrecovered"):
        return f"{number(incident.onset_step)} to the end"
    if incident.end_step is None:
        return number(incident.onset_step)
    return span(incident.onset_step, incident.end_step)


def cost(incident: Incident, unit: str) -> str:
    """What an incident cost, as far as the log says; `unit`: what the run's axis counts."""
    told = price(incident.cost, unit)
    alone = len(incident.occurrences) > 1 and (incident.end_step or incident.occurrences[-1]) < incident.occurrences[-1]
    return told + (f" at {number(incident.onset_step)} alone" if alone else "") if told else "-"


def price(cost: Cost, unit: str) -> str:
    """Steps, tokens and time, those that are known."""
    parts: list[str] = []
    if cost.steps:
        parts.append(plural(cost.steps, unit))
    if cost.tokens:
        parts.append(f"{quantity(cost.tokens)} tokens")
    if cost.seconds and math.isfinite(cost.seconds):
        parts.append(duration(cost.seconds))
    return ", ".join(parts)


def unclosed(text: str) -> str:
    """Text without the full stop at its end, to be followed by other text; an ellipsis stays."""
    return text if text.endswith("...") else text.removesuffix(".")


def clause(text: str) -> Markdown:
    """Text of unknown origin, escaped and closed by a full stop, to follow a colon."""
    line = escape(text)
    return line if not line or line[-1] in ".!?" else Markdown(f"{line}.")


def sentence(text: str) -> Markdown:
    """Text of unknown origin as a sentence: escaped, closed by a full stop, a word at its start capitalised."""
    return clause(capital(text) if _WORD.match(text) else text)


def plain(line: Markdown) -> str:
    """A line of Markdown as a terminal shows it: without escapes and marks of code."""
    return "".join(piece if odd % 2 else _unescaped(piece) for odd, piece in enumerate(_SPAN.split(line)))


def _unescaped(piece: str) -> str:
    return html.unescape(re.sub(r"\\([^\w\s]|_)|</?code>", r"\1", piece))


def sentences(parts: Iterable[Markdown]) -> Markdown:
    """Parts that are Markdown already, each closed as a sentence."""
    return Markdown(" ".join(part if part[-1] in ".!?" else f"{part}." for part in parts if part))
