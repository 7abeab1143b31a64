"""The settings that a command line gives: `--learning_rate 1e-4 --lr_scheduler=cosine`."""

from __future__ import annotations

import re
from typing import Any

FEWEST = 3  # flags that make a line a command
_FLAG = re.compile(r"(?:^|\s)--([A-Za-z][\w.-]*)[= ](?!--)(\"[^\"]*\"|'[^']*'|\S+)")
_CONTINUED = re.compile(r"[ \t]*\\\r?\n\s*")
_VARIABLE = re.compile(r"[$`]")  # what a shell would put in its place is not known


def flags(line: str) -> dict[str, Any]:
    """The settings of a line with three flags or more; none of any other."""
    if line.count("--") < FEWEST:
        return {}
    found = _FLAG.findall(line)
    return {name.replace("-", "_"): value(text) for name, text in found} if len(found) >= FEWEST else {}


def script(text: str) -> dict[str, Any]:
    """The settings of the one command with flags that a shell script runs; none where it runs several."""
    lines = _CONTINUED.sub(" ", text).splitlines()
    commands = [found for line in lines if not line.lstrip().startswith("#") and (found := flags(line))]
    if len(commands) != 1:
        return {}
    return {name: said for name, said in commands[0].items() if not (isinstance(said, str) and _VARIABLE.search(said))}


def value(text: str) -> Any:
    """A value as written on a command line or in a table of arguments: true, none, a number or text."""
    plain = text.strip().rstrip(",").strip("'\"")
    word = plain.lower()
    if word in {"true", "false"}:
        return word == "true"
    if word in {"none", "null", ""}:
        return None
    number = plain.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", plain) else plain
    try:
        return int(number)
    except ValueError:
        pass
    try:
        return float(number)
    except ValueError:
        return plain
