"""`trainforensics blame`: which data fed a step."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainforensics.cli import inputs, options


class Form(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


RunPath = Annotated[
    Path,
    typer.Argument(
        parser=options.path,
        metavar="PATH",
        help="Logs of one run, its result.json or --out folder.",
        show_default=False,
    ),
]
Step = Annotated[int, typer.Option("--step", metavar="N", help="The step in question.", show_default=False)]
WindowSize = Annotated[
    int | None,
    typer.Option(
        "--window", min=1, metavar="K", help="Steps back from it (to the point logged before).", show_default=False
    ),
]
Rank = Annotated[int | None, typer.Option("--rank", metavar="R", help="Only this rank's batches.", show_default=False)]


def blame(
    path: RunPath,
    step: Step,
    window: WindowSize = None,
    rank: Rank = None,
    form: Annotated[Form, typer.Option("--format", help="What to print on stdout.")] = Form.TABLE,
    out: options.Out = None,
    map_: options.Map = None,
    config: options.ConfigFile = None,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Name the data that fed a step: batches, shards, documents."""
    settings = options.settings_from(config, out=out, map=map_)
    from trainforensics import blame as room  # noqa: PLC0415  (heavy; only once there is work)
    from trainforensics.report import narrative, terminal  # noqa: PLC0415
    from trainforensics.signals.load import load  # noqa: PLC0415

    with options.progress_bar(show=not (quiet or no_progress)) as progress:
        run = inputs.run_with_batches(path, settings, progress)
    answer = room.at_step(load(run, settings), run.batches(), step, window, rank)
    found = inputs.analysis_of(path, run, settings)
    known = narrative.known_at(found, *answer.window) if found is not None and answer.window is not None else []
    if form is Form.JSON:
        answer = replace(answer, note="; ".join(filter(None, (*known, answer.note))))
        print(terminal.blame_document(answer), end="")
        return
    answer = narrative.as_known(answer, found, room.FROM_THIS_STEP) if found is not None else answer
    for line in terminal.blame_lines(answer, known):
        print(line)
