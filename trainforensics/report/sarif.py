"""SARIF 2.1.0, for code-scanning views: a rule a kind, a result a root incident."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from trainforensics import __version__
from trainforensics.kinds import KINDS, Severity
from trainforensics.model import Incident, RunResult
from trainforensics.report import narrative
from trainforensics.report.junit import details
from trainforensics.report.text import capital, label, one_line

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Mapping[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}


def render(results: Sequence[RunResult]) -> str:
    """All runs as one SARIF run; the log file that holds the incident's series is its location."""
    found = [(result, page.root) for result in results for page in narrative.pages(result)]
    kinds = sorted({root.kind for _, root in found if root.kind in KINDS})
    driver = {"name": "trainforensics", "version": __version__, "rules": [_rule(kind) for kind in kinds]}
    run = {"tool": {"driver": driver}, "results": [_result(result, root) for result, root in found]}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(kind: str) -> dict[str, Any]:
    known = KINDS[kind]
    return {
        "id": known.code,
        "name": kind,
        "shortDescription": {"text": capital(label(kind))},
        "defaultConfiguration": {"level": LEVELS[known.severity]},
    }


def _result(result: RunResult, incident: Incident) -> dict[str, Any]:
    sources = [series.source for series in result.series if series.name == incident.series]
    place = "/".join([result.run, *sources[:1]])
    return {
        "ruleId": incident.code,
        "level": LEVELS[incident.severity],
        "message": {"text": one_line("; ".join([incident.summary, *details(incident)]))},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(one_line(place))}}}],
        "partialFingerprints": {"incident/v1": f"{one_line(result.run)}:{incident.id}"},
        "properties": {"run": one_line(result.run), "onset_step": incident.onset_step},
    }
