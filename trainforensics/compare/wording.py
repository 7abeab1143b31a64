"""How two runs' curves of one series differ, in words with numbers."""

from __future__ import annotations

from trainforensics.compare.pairing import SCHEDULED
from trainforensics.model import Parting, SeriesDifference

NEAR_INTEGER = 0.03
ROUNDED = ", but for rounding"  # what closes the text of curves that are equal where one is printed with fewer digits


def integer_factor(factor: float) -> int | None:
    """The whole number of at least 2 that a factor or its inverse is within 3 % of."""
    larger = max(factor, 1 / factor) if factor > 0 else 0.0
    nearest = round(larger)
    return nearest if nearest >= 2 and abs(larger / nearest - 1) <= NEAR_INTEGER else None


def side_by_side(a: str, b: str, most: int) -> tuple[str, str]:
    """Two texts, each cut to `most` characters around the first place at which they differ."""
    if len(a) <= most and len(b) <= most:
        return a, b
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(same - most // 2, 0)
    return _cut(a, start, most), _cut(b, start, most)


def _cut(text: str, start: int, most: int) -> str:
    head = "..." if start else ""
    kept = text[start:] if len(head) + len(text) - start <= most else f"{text[start : start + most - len(head) - 3]}..."
    return head + kept


def describe(difference: SeriesDifference) -> str:
    """One clause with numbers, to follow the name of the series."""
    head, main = _relation_text(difference), difference.parted
    if main is None:
        return head
    text = _parting_text(main, difference)
    others = [str(parting.step) for parting in difference.partings if parting is not main]
    if others:
        text += f"; for a while also from step {', '.join(others[:3])}{' ...' if len(others) > 3 else ''}"
    return f"{head}, but {text}" if head else text


def _relation_text(difference: SeriesDifference) -> str:
    amount = difference.amount or 0.0
    match difference.relation:
        case "identical":
            several = difference.common > 1
            return f"equal on all {difference.common} common steps" if several else "equal on the one common step"
        case "together":
            start = "" if difference.equal_until is None else f"equal up to step {difference.equal_until}, then "
            return f"{start}within noise of each other to the end (step {difference.last_step})"
        case "scaled":
            return _scale_text(amount, difference.role in SCHEDULED)
        case "offset":
            return f"A stands {abs(amount):.4g} {'above' if amount > 0 else 'below'} B"
        case "shifted":
            steps = f"{abs(int(amount))} step{'s' if abs(amount) != 1 else ''}"
            return f"A shows B's values {steps} {'later' if amount > 0 else 'earlier'}"
        case "unjudged":
            few = "1 common point is" if difference.common == 1 else f"{difference.common} common points are"
            return f"not judged: {few} too few"
        case "parted":
            main, equal = difference.parted, difference.equal_until
            known = equal is None or (main is not None and equal in main.interval)
            return "" if known else f"equal up to step {equal}"


def _scale_text(factor: float, scheduled: bool) -> str:
    whole = integer_factor(factor)
    text = f"A is {factor:.4g} times B" if factor >= 1 or factor <= 0 else f"B is {1 / factor:.4g} times A"
    if scheduled:
        return text
    return f"{text}, near {whole}: scale, not learning" if whole else f"{text} throughout"


def _parting_text(parting: Parting, difference: SeriesDifference) -> str:
    start = parting.step == difference.first_step
    text = "apart from their first common step on" if start else f"parts at step {parting.step}"
    text += f" ({_values(parting.a, parting.b)}"
    if parting.size is not None:
        text += (
            f"; up to {parting.size:.2g} noise widths" if parting.size < 100 else f"; {parting.size:.0f} noise widths"
        )
        if parting.beyond is not None and parting.beyond > parting.step:
            text += f", more than one from step {parting.beyond} on"
    text += ")"
    return text if parting.until is None else f"{text}, together again from step {parting.until}"


def _values(a: float, b: float) -> str:
    """Both values, with as many digits as tell them apart."""
    digits = next((n for n in range(4, 9) if f"{a:.{n}g}" != f"{b:.{n}g}"), 9)
    return f"A {a:.{digits}g}, B {b:.{digits}g}".replace("nan", "NaN").replace("inf", "infinity")
