"""`trainforensics report`: saved results rendered again, without a new analysis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainforensics.cli import inputs, options
from trainforensics.cli.output import Form, Format
from trainforensics.errors import UsageError

if TYPE_CHECKING:
    from trainforensics.model import Index, RunResult


ResultPath = Annotated[
    Path, typer.Argument(metavar="RESULT", help="A result.json or an --out folder.", show_default=False)
]


def report(
    result: ResultPath,
    form: Form = Format.MARKDOWN,
    write: options.Write = None,
    color: options.ColorWhen = options.Color.AUTO,
) -> None:
    """Render a saved result again, without a new analysis."""
    targets = options.formats_to_write(write, [Format.MARKDOWN, Format.JSON])
    index, results, folder = inputs.saved_results(result)
    for name, path in targets:
        rendered = _rendered(Format(name), index, results, folder)
        try:
            path.write_text(rendered, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--write {name}={path}: cannot be written ({error.strerror})") from None
    if form is not Format.TABLE:
        if not targets:
            print(_rendered(form, index, results, folder), end="")
        return
    from trainforensics.report import terminal  # noqa: PLC0415

    terminal.show(index, results, no_color=options.no_color(color))


def _rendered(form: Format, index: Index, results: tuple[RunResult, ...], folder: Path) -> str:
    from trainforensics.report import json, markdown, narrative  # noqa: PLC0415

    single = results[0] if not index.store else None
    if form is Format.JSON:
        return (json.dump_run(single) if single else json.dump_index(index)).decode()
    if single is None:
        return markdown.render_index(index, results)
    return markdown.render_run(single, narrative.figures_beside(single, folder))
