"""`trainforensics analyze`: the main job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from trainforensics.cli import options, output
from trainforensics.cli.output import Form, Format
from trainforensics.errors import EXIT_OK, EXIT_UNDECIDED

if TYPE_CHECKING:
    from trainforensics.engine import Result


def analyze(
    paths: options.Paths,
    out: options.Out = None,
    select: options.Select = None,
    ignore: options.Ignore = None,
    map_: options.Map = None,
    config: options.ConfigFile = None,
    jobs: options.Jobs = None,
    no_plots: options.NoPlots = False,
    form: Form = Format.TABLE,
    write: options.Write = None,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
    color: options.ColorWhen = options.Color.AUTO,
) -> None:
    """Find runs, judge them, explain what happened, and write reports."""
    settings = options.settings_from(
        config, out=out, select=select, ignore=ignore, map=map_, jobs=jobs, plots=False if no_plots else None
    )
    targets = output.targets(write)
    from trainforensics import engine  # noqa: PLC0415  (heavy; only once there is work)

    with options.progress_bar(show=not (quiet or no_progress)) as progress:
        result = engine.analyze(paths, settings, progress)
    options.notes(result.notes, quiet=quiet)
    output.write_files(targets, *result.asked)
    if not quiet:
        _print(result, form, color)
    raise typer.Exit(EXIT_UNDECIDED if result.undecided else EXIT_OK)


def _print(result: Result, form: Format, color: options.Color) -> None:
    from trainforensics.report import terminal  # noqa: PLC0415

    terminal.show(*result.asked, form, no_color=options.no_color(color))
    where = terminal.where_report(result.index, result.out)
    if form is Format.TABLE:
        print(where)
    else:
        options.note(where)
