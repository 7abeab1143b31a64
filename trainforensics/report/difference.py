"""What `diff` prints: the sentence that sums up, the series by importance, configuration and data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainforensics.model import ConfigDifference, DataDifference, RunDifference, SeriesDifference
from trainforensics.report.json import dump_difference
from trainforensics.report.text import Markdown, clause, code, escape, listing, number, one_line, sentence

SERIES_SHOWN = 20
KEYS_SHOWN = 30
LONGEST_VALUE = 60
Row = tuple[str, ...]
SERIES_COLUMNS = ("series", "compared", "parts at", "noise widths", "how")
CONFIG_COLUMNS = ("setting", "A", "B")


def as_json(difference: RunDifference) -> str:
    """The comparison as it stands."""
    return dump_difference(difference).decode()


def as_markdown(difference: RunDifference) -> str:
    """The comparison as Markdown; text from logs escaped."""
    parts = [
        f"# {escape(difference.a)} (A) against {escape(difference.b)} (B)",
        f"**{clause(difference.summary)}**",
        *(sentence(text) for text in remarks(difference)),
        "## Series",
        _markdown_table(SERIES_COLUMNS, [(code(row[0]), *map(escape, row[1:])) for row in series_rows(difference)]),
        *map(escape, left_out(difference)),
        "## Configuration",
        _markdown_config(difference.config),
        "## Data",
        sentence(data_text(difference.data)),
    ]
    return "\n\n".join(parts) + "\n"


def remarks(difference: RunDifference) -> tuple[str, ...]:
    """What is to be said beside the summary."""
    return tuple(text for text in (difference.finding, *difference.notes) if text)


def series_rows(difference: RunDifference) -> list[Row]:
    """One row a series, the most telling first: those that differ, then those that do not."""
    ordered = sorted(difference.series, key=lambda s: s.relation in ("identical", "together", "unjudged"))
    return [_series_row(series) for series in ordered[:SERIES_SHOWN]]


def _series_row(series: SeriesDifference) -> Row:
    name = series.name if series.name == series.other else f"{series.name} (B: {series.other})"
    rank = "" if series.rank is None else f" rank {series.rank}"
    parting = series.parted
    size = "-" if parting is None or parting.size is None else f"{parting.size:.2g}"
    step = "-" if parting is None else number(parting.step)
    return (one_line(name + rank), number(series.common), step, size, one_line(series.text))


def left_out(difference: RunDifference) -> Iterable[str]:
    """What the table of series does not show."""
    rest = len(difference.series) - SERIES_SHOWN
    if rest > 0:
        yield f"And {number(rest)} more series (--format json has all)."
    for label, names in (("A", difference.only_a), ("B", difference.only_b)):
        if names:
            yield f"Only in {label}: {listing(map(one_line, names))}."


def config_rows(config: Sequence[ConfigDifference]) -> list[Row]:
    """One row a setting that differs."""
    return [(one_line(d.key), *_values(d)) for d in config[:KEYS_SHOWN]]


def _values(difference: ConfigDifference) -> tuple[str, str]:
    from trainforensics.compare.wording import side_by_side  # noqa: PLC0415  (heavy; a table of incidents needs none)

    a = "not set" if difference.missing == "a" else one_line(str(difference.a))
    b = "not set" if difference.missing == "b" else one_line(str(difference.b))
    return side_by_side(a, b, LONGEST_VALUE)


def data_text(data: DataDifference) -> str:
    """What is known of the data, as a sentence without its full stop."""
    note = f" ({data.note})" if data.note else ""
    if not data.compared:
        return f"not compared: {data.note}"
    if data.step is None:
        return f"the same data on all of {number(data.compared)} steps{note}"
    share = f"{number(data.differing)} of {number(data.compared)} steps differ"
    return f"{share}, the first at {number(data.step)}: {data.a} in A, {data.b} in B{note}"


def _markdown_config(config: Sequence[ConfigDifference]) -> str:
    if not config:
        return "No difference."
    rows = [(code(key), escape(a), escape(b)) for key, a, b in config_rows(config)]
    rest = len(config) - KEYS_SHOWN
    return _markdown_table(CONFIG_COLUMNS, rows) + (f"\n\nAnd {number(rest)} more settings." if rest > 0 else "")


def _markdown_table(columns: Row, rows: Iterable[Sequence[Markdown]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def headline(difference: RunDifference) -> str:
    """The summary as a sentence of plain text."""
    return f"{one_line(difference.summary)}."
