"""`trainforensics report`: saved results rendered again, without a new analysis."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainforensics.cli import inputs, options, output
from trainforensics.cli.output import Form, Format

ResultPath = Annotated[
    Path,
    typer.Argument(parser=options.path, metavar="RESULT", help="A result.json or an --out folder.", show_default=False),
]


def report(
    result: ResultPath,
    form: Form = Format.MARKDOWN,
    write: options.Write = None,
    color: options.ColorWhen = options.Color.AUTO,
) -> None:
    """Render a saved result again, without a new analysis.

    A folder gives the overview of its runs; the result of one run gives that run's report.
    """
    targets = output.targets(write)
    index, results, folder = inputs.saved_results(result)
    output.write_files(targets, index, results, folder)
    if targets and form is Format.MARKDOWN:
        return
    from trainforensics.report import terminal  # noqa: PLC0415

    terminal.show(index, results, form, no_color=options.no_color(color), folder=folder)
