"""What a command prints on stdout: the incidents of every run as a table, or a result in another format."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainforensics.kinds import Severity
from trainforensics.model import Blame, Incident, Index, RunDifference, RunResult, Verdict
from trainforensics.report import difference, narrative, text
from trainforensics.report.json import dump_blame
from trainforensics.report.render import render
from trainforensics.report.text import one_line

WIDTH_OF_A_PIPE = 240  # where stdout is no terminal there is no edge to wrap at
COLUMNS = {  # name -> least width: what lets the longest common words stand unbroken
    "run": 8, "verdict": 9, "step": 8, "incident": 16, "severity": 8, "sure": 4, "likely cause": 16, "suspect": 10,
}  # fmt: skip
SPARE = 3  # columns by which rich may make a table with least widths too wide for the terminal, and cut it
NARROW = 130  # columns of a terminal below which cause and suspect stand under the incident
LEFT_OUT_WHEN_NARROW = ("likely cause", "suspect")
MAX_QUIET_RUNS = 20  # stable runs listed one by one
MAX_BATCHES = 20
MAX_NAMES = 8  # of suspects against whom the same speaks
VERDICT_STYLE: dict[Verdict, str] = {
    "failed": "bold red",
    "unstable": "yellow",
    "undecided": "magenta",
    "stable": "green",
}
SEVERITY_STYLE: dict[Severity, str] = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "dim"}


def show(
    index: Index | None,
    results: Sequence[RunResult],
    form: str = "table",
    *,
    no_color: bool | None = None,
    folder: Path | None = None,
) -> None:
    """Print results on stdout: "table" (of a single run its headline, too), or one of the formats of `render`.

    `index`, `results` and `folder` are meant as there.

    `no_color`: True, False (force colour) or None (as stdout allows).
    """
    if form == "table":
        console = _console(no_color)
        _print(incident_table(results, console.width), console)
        if len(results) == 1 and results[0].alarms:
            print(f"{text.plain(narrative.headline(results[0]))}\n")
    else:
        print(render(form, index, results, folder), end="")


def where_report(index: Index, out: Path) -> str:
    """The line that says where to read on: the overview, or the report of the only run."""
    report = Path(index.runs[0].result).with_name("report.md") if len(index.runs) == 1 else Path("report.md")
    return f"Report: {out / report}"


def incident_table(results: Sequence[RunResult], width: int = WIDTH_OF_A_PIPE) -> Table:
    """A row for each root alarm, most urgent run first; one row for a run without any. `width`: of the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=narrative.tally(results), title_justify="left")
    table.title_style, table.padding = "", (0, 2, 0, 0)
    narrow = width < NARROW
    for name, least in COLUMNS.items():
        if narrow and name in LEFT_OUT_WHEN_NARROW:
            continue
        table.add_column(name, overflow="fold", min_width=least, justify="right" if name == "sure" else "left")
    quiet = 0
    for result in narrative.by_urgency(results):
        found = narrative.alarms(result)
        if not found and result.verdict == "stable" and not result.failure:
            quiet += 1
            if quiet > MAX_QUIET_RUNS:
                continue
        _add_run(table, result, found, narrow)
    if quiet > MAX_QUIET_RUNS:
        table.add_row(f"and {quiet - MAX_QUIET_RUNS} more", Text("stable", VERDICT_STYLE["stable"]))
    return table


def blame_lines(blame: Blame, known: Iterable[str] = ()) -> Iterable[str]:
    """A blame answer for a terminal: the window, what an analysis knows of it, the suspects, the batches."""
    if blame.window is not None:
        basis = f" ({blame.basis})" if blame.basis else ""
        yield f"{text.stretch('step', *blame.window)}{basis}"
    yield from map(one_line, known)
    if blame.note:
        yield one_line(blame.note)
    for suspect, *more in narrative.alike(blame.suspects):
        why = f": {one_line(suspect.why)}" if suspect.why else ""
        p = "" if suspect.p_value is None else f", p = {text.odds(suspect.p_value)}"
        names = text.listing((one_line(other.id) for other in (suspect, *more)), MAX_NAMES)
        each = " each" if more else ""
        yield f"  {suspect.type} {names} ({suspect.confidence:.2f}{each}{p}){why}"
    for row in blame.batches[:MAX_BATCHES]:
        filled = (f"{name}={_value(value)}" for name, value in row.items() if value not in (None, "", []))
        yield f"  batch: {' '.join(filled)}"
    if len(blame.batches) > MAX_BATCHES:
        yield f"  and {text.plural(len(blame.batches) - MAX_BATCHES, 'batch', 'batches')} more"


def blame_document(blame: Blame) -> str:
    """A blame answer as JSON: what stands in an incident of result.json."""
    return dump_blame(blame).decode()


def show_difference(found: RunDifference, *, no_color: bool | None = None) -> None:
    """Print a comparison of two runs on stdout; `no_color` as for `show`."""
    print(f"A: {one_line(found.a)}\nB: {one_line(found.b)}\n\n{difference.headline(found)}")
    for remark in difference.remarks(found):
        print(text.capital(one_line(remark)))
    console = _console(no_color)
    _print(_plain_table(difference.SERIES_COLUMNS, difference.series_rows(found)), console)
    for line in difference.left_out(found):
        print(line)
    if found.config:
        _print(_plain_table(difference.CONFIG_COLUMNS, difference.config_rows(found.config)), console)
    print(f"Data: {one_line(difference.data_text(found.data))}")


def _plain_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.padding = (0, 2, 0, 0)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _console(no_color: bool | None) -> Console:
    console = Console(no_color=no_color, force_terminal=True if no_color is False else None, highlight=False)
    if not sys.stdout.isatty():
        console.width = WIDTH_OF_A_PIPE
    return console


def _print(table: Table, console: Console) -> None:
    with console.capture() as capture:
        console.print(table, width=console.width - SPARE)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _add_run(table: Table, result: RunResult, found: Sequence[narrative.Page], narrow: bool) -> None:
    name, verdict = one_line(result.run), Text(result.verdict, VERDICT_STYLE[result.verdict])
    crashed = narrative.crash(result)
    if not found:
        said = _gap(result) if result.verdict == "undecided" else crashed or "-"
        table.add_row(Text(name), verdict, "-", Text(said))
    for place, page in enumerate(found):
        root = page.root
        why = (_cause(root), _suspect(root))
        under = "".join(f"\n{line}" for line in why if line != "-") if narrow else ""
        table.add_row(
            Text(name) if not place else "", verdict if not place else "", text.when(root), Text(_what(page) + under),
            Text(root.severity, SEVERITY_STYLE[root.severity]), f"{root.confidence:.2f}",
            *(() if narrow else map(Text, why)),
        )  # fmt: skip
    if crashed and (found or result.verdict == "undecided"):
        table.add_row("", "", text.number(narrative.extent(result)[1]), Text(crashed))


def _what(page: narrative.Page) -> str:
    place = text.where(page.root.scope)
    return narrative.chain(page) + (f" ({one_line(place)})" if place else "")


def _cause(root: Incident) -> str:
    return f"{root.causes[0].cause} ({root.causes[0].confidence:.2f})" if root.causes else "-"


def _suspect(root: Incident) -> str:
    suspect = narrative.top_suspect(root)
    return f"{suspect.type} {one_line(suspect.id)} ({suspect.confidence:.2f})" if suspect else "-"


def _gap(result: RunResult) -> str:
    """Why a run is undecided."""
    if result.errored:
        return one_line(f"the analysis failed ({result.errored[0].detector}: {result.errored[0].message})")
    return one_line(result.not_judged[0].reason) if result.not_judged else "no usable loss"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return text.listing(map(str, value), 3)
    return text.number(value) if isinstance(value, float) else one_line(str(value))
