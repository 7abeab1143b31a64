"""What whole fixture runs are judged to be, in the few facts that a change should not move unnoticed.

`python tests/golden_results.py` writes tests/golden/ again; read the difference before committing it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from trainforensics.config import Settings
from trainforensics.engine import analyze
from trainforensics.model import RunResult

FIXTURES = Path(__file__).parent.parent / "fixtures" / "runs"
GOLDEN = Path(__file__).parent / "golden"
RUNS = ("gpt-01", "gpt-04", "mlp-01", "hf-01", "mlp-03", "gpt-10")


def judged(run: str) -> dict[str, Any]:
    """Analyse a fixture run and keep the facts."""
    with tempfile.TemporaryDirectory() as out:
        (result,) = analyze([FIXTURES / run], Settings(out=Path(out), plots=False, jobs=1)).runs
    return facts(result)


def facts(result: RunResult) -> dict[str, Any]:
    """Verdict, incidents with onset, severity, chain, first cause and first suspect, safe checkpoint, errors."""
    return {
        "verdict": result.verdict,
        "axis": result.axis.unit,
        "errored": [error.detector for error in result.errored],
        "incidents": [
            {
                "id": i.id,
                "kind": i.kind,
                "severity": i.severity,
                "caused_by": i.caused_by,
                "occurrences": list(i.occurrences),
                "recovery": i.recovery,
                "cause": i.causes[0].cause if i.causes else None,
                "suspect": f"{s[0].type} {s[0].id}" if (s := i.blame.suspects if i.blame else ()) else None,
                "checkpoint": i.safe_checkpoint.step if i.safe_checkpoint else None,
            }
            for i in result.incidents
        ],
    }


if __name__ == "__main__":
    for name in RUNS:
        (GOLDEN / f"{name}.json").write_text(json.dumps(judged(name), indent=1) + "\n")
