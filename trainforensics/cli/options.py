"""Options that commands share, and what they have in common: settings, notes to the user, progress.

Light at import: everything heavy is loaded by the functions that need it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trainforensics.config import Settings
    from trainforensics.engine import Progress


class Color(StrEnum):
    """When to colour what is printed."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def path(text: str) -> Path:
    """A path of the command line; the empty one, as an unset variable leaves it, is not taken for the current folder.

    Raises ValueError, which the parser turns into a usage error.
    """
    if not text:
        raise ValueError("a path is empty; give . for the current folder")
    return Path(text)


Paths = Annotated[
    list[Path],
    typer.Argument(parser=path, metavar="PATH", help="Logs: folders to search, or files.", show_default=False),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", parser=path, metavar="DIR", help="Where results go (trainforensics-out/).", show_default=False
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select", metavar="KINDS", help="Only these kinds, codes or families (comma-separated).", show_default=False
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="KINDS", help="Not these kinds, codes or families.", show_default=False),
]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=ROLE", help="Read the series NAME as ROLE (repeatable).", show_default=False),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        parser=path,
        metavar="FILE",
        help="Configuration instead of trainforensics.toml.",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", help="Processes; 0 chooses by the amount of work.", show_default=False),
]
NoPlots = Annotated[bool, typer.Option("--no-plots", help="Draw no figures.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Show no progress bar.")]
ColorWhen = Annotated[Color, typer.Option("--color", help="Colour the output (NO_COLOR is honoured).")]
Write = Annotated[
    list[str] | None,
    typer.Option(
        "--write",
        metavar="FMT=PATH",
        help="Also write the result in a format to a file (repeatable).",
        show_default=False,
    ),
]


def settings_from(config: Path | None, **given: Any) -> Settings:
    """Settings of one call; None and empty lists mean not given on the command line."""
    from trainforensics import config as settings  # noqa: PLC0415

    return settings.load({key: value for key, value in given.items() if value is not None and value != []}, config)


def note(text: str, *, quiet: bool = False) -> None:
    """A remark on stderr; results alone go to stdout."""
    if not quiet:
        print(text, file=sys.stderr)


def notes(texts: Iterable[str], *, quiet: bool = False) -> None:
    """Several remarks."""
    for text in texts:
        note(text, quiet=quiet)


def no_color(color: Color) -> bool | None:
    """What rich's Console takes as `no_color`: True, False, or None to decide by the terminal."""
    if color is Color.AUTO:
        return True if os.environ.get("NO_COLOR") else None
    return color is Color.NEVER


def formats_to_write(write: Sequence[str] | None, known: Sequence[str]) -> list[tuple[str, Path]]:
    """`FMT=PATH` pairs of --write. Raises UsageError for a malformed pair or an unknown format."""
    from trainforensics.errors import UsageError  # noqa: PLC0415

    pairs = []
    for item in write or ():
        name, equals, path = item.partition("=")
        if not equals or not path or name not in known:
            raise UsageError(f"--write {item}: needs FMT=PATH with FMT one of {', '.join(known)}")
        pairs.append((name, Path(path)))
    return pairs


@contextmanager
def progress_bar(*, show: bool) -> Iterator[Progress | None]:
    """A progress bar on stderr while the block runs; None where stderr is no terminal or it is not wanted."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description:40.40}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def update(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield update
