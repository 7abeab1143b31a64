"""A result in any of the formats that are text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainforensics.kinds import Severity
from trainforensics.model import Index, RunResult
from trainforensics.report import github, junit, markdown, narrative, sarif
from trainforensics.report.json import dump_index, dump_run


def render(
    form: str,
    index: Index | None,
    results: Sequence[RunResult],
    folder: Path | None = None,
    fail_on: Severity = "medium",
) -> str:
    """A result as "markdown", "json", "junit", "github", "sarif" or "postmortem".

    `index`: None where one result stands alone. `folder`: where the figures of a single run's report lie.
    `fail_on`: the lowest severity that JUnit calls a failure.
    """
    renderers: Mapping[str, Callable[[], str]] = {
        "markdown": lambda: _markdown(index, results, folder),
        "json": lambda: _json(index, results),
        "junit": lambda: junit.render(results, fail_on),
        "github": lambda: github.render(results),
        "sarif": lambda: sarif.render(results),
        "postmortem": lambda: "\n".join(markdown.render_postmortem(result) for result in results),
    }
    return renderers[form]()


def _markdown(index: Index | None, results: Sequence[RunResult], folder: Path | None) -> str:
    if index is not None:
        return markdown.render_index(index, results)
    reports = (
        markdown.render_run(result, narrative.figures_beside(result, folder) if folder else {}) for result in results
    )
    return "\n".join(reports)


def _json(index: Index | None, results: Sequence[RunResult]) -> str:
    """One run as saved; the index with every run's whole result in place of its bare entry."""
    if index is None:
        return "".join(dump_run(result).decode() for result in results)
    document = json.loads(dump_index(index))
    runs = {result.run: json.loads(dump_run(result)) for result in results}
    document["runs"] = [entry | runs.get(entry["run"], {}) for entry in document["runs"]]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
