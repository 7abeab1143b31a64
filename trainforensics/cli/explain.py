"""`trainforensics explain`: what a kind means."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trainforensics.cli import options

KindName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help='A kind, code, family or cause, or "causes", "roles"; all kinds are listed without.',
        show_default=False,
    ),
]


def explain(kind: KindName = None, color: options.ColorWhen = options.Color.AUTO) -> None:
    """Say what a kind, family or cause means: evidence, false positives, thresholds. `roles`: what --map can name."""
    from trainforensics.report import manual  # noqa: PLC0415

    text = manual.overview() if kind is None else manual.answer(kind)
    plain = options.no_color(color)
    if plain is True or (plain is None and not sys.stdout.isatty()):
        print(text, end="")
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.markdown import Markdown  # noqa: PLC0415

    Console(force_terminal=True if plain is False else None).print(Markdown(text))
