"""`trainforensics diff`: where two runs part, and what differs between them."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainforensics.cli import inputs, options


class Form(StrEnum):
    """How the comparison is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


RunA = Annotated[
    Path,
    typer.Argument(
        parser=options.path,
        metavar="RUN_A",
        help="Logs of one run, its result.json or --out folder.",
        show_default=False,
    ),
]
RunB = Annotated[
    Path, typer.Argument(parser=options.path, metavar="RUN_B", help="The run to hold against it.", show_default=False)
]


def diff(
    run_a: RunA,
    run_b: RunB,
    form: Annotated[Form, typer.Option("--format", help="What to print on stdout.")] = Form.TABLE,
    out: options.Out = None,
    map_: options.Map = None,
    config: options.ConfigFile = None,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
    color: options.ColorWhen = options.Color.AUTO,
) -> None:
    """Name the first step at which two runs part beyond their noise, and what differs in configuration and data."""
    settings = options.settings_from(config, out=out, map=map_)
    from trainforensics.compare import compare  # noqa: PLC0415  (heavy; only once there is work)
    from trainforensics.report import difference as report  # noqa: PLC0415
    from trainforensics.signals.load import load  # noqa: PLC0415

    with (
        options.progress_bar(show=not (quiet or no_progress)) as progress,
        inputs.two_stored_runs(run_a, run_b, settings, progress) as (a, b),
    ):
        found = compare(load(a, settings), load(b, settings), a.batches(), b.batches())
    found = replace(found, a=str(run_a), b=str(run_b))
    match form:
        case Form.JSON:
            print(report.as_json(found), end="")
        case Form.MARKDOWN:
            print(report.as_markdown(found), end="")
        case Form.TABLE:
            from trainforensics.report import terminal  # noqa: PLC0415

            terminal.show_difference(found, no_color=options.no_color(color))
