"""What a command prints on stdout."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


Form = Annotated[Format, typer.Option("--format", help="What to print on stdout.")]
