"""What a command prints on stdout and writes with --write."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainforensics.cli import options
from trainforensics.errors import UsageError

if TYPE_CHECKING:
    from trainforensics.kinds import Severity
    from trainforensics.model import Index, RunResult


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"
    POSTMORTEM = "postmortem"


Form = Annotated[Format, typer.Option("--format", help="What to print on stdout.")]


def targets(write: Sequence[str] | None) -> list[tuple[str, Path]]:
    """The files that --write asks for. Raises UsageError for what it does not understand."""
    return options.formats_to_write(write, [form for form in Format if form is not Format.TABLE])


def write_files(
    files: Sequence[tuple[str, Path]],
    index: Index | None,
    results: Sequence[RunResult],
    folder: Path | None = None,
    fail_on: Severity = "medium",
) -> None:
    """Write results to the files of `targets`. Raises UsageError for one that cannot be written."""
    from trainforensics.report.render import render  # noqa: PLC0415

    for form, path in files:
        try:
            path.write_text(render(form, index, results, folder, fail_on), encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UsageError(f"--write {form}={path}: cannot be written ({error.strerror})") from None
