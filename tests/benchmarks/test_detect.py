from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks.detect.__main__ import by_rivals, by_rules, ours, report
from benchmarks.detect.corpus import cases
from benchmarks.detect.tables import calibration


def corpus(folder: Path) -> Path:
    """A run with a burst at step 400 and a healthy one."""
    truth = []
    for name, height in (("a", 3.0), ("b", 0.0)):
        values = 2 + np.random.default_rng(len(name)).normal(0, 0.05, 600)
        values[400] += height
        log = folder / "runs" / name / "metrics.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text("".join(json.dumps({"step": i, "loss": v}) + "\n" for i, v in enumerate(values.tolist())))
        incidents = [{"kind": "instant-burst", "onset": 400, "onset_tol": 1}] if height else []
        truth.append({"run": name, "format": "jsonl", "incidents": incidents, "healthy": not height})
    (folder / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in truth))
    return folder


def test_the_whole_report(tmp_path: Path) -> None:
    found = cases(tmp_path / "out", corpus(tmp_path / "corpus"))
    assert [case.points for case in found] == [600, 600]
    own = ours(found)
    assert own.runs[0].hits == {"instant-burst": 1}
    assert own.runs[1].silent
    assert {rule.name: rule.runs[0].hits.total() for rule in by_rules(found)}["OLMo-core"] == 1
    scores, missing = by_rivals(found, tmp_path / "nothing", tmp_path / "converted")
    assert (scores, len(missing)) == ([], 5)
    text = report(found, scores, missing, "cost")
    assert "2 trained runs, 1 of them healthy, 1,200 logged steps." in text
    assert "| instant-burst | 1 | 1 | 0 | 0 | 1.00 | 1.00 | 1.00 [1.00, 1.00] | 0 / 0 |" in text


def test_calibration_counts() -> None:
    text = calibration([(0.96, True), (0.99, False), (1.0, True), (0.5, True)])
    assert "| 0.95–1 | 3 | 0.98 | 0.67 [0.21, 0.94] |" in text
    assert "| 0–0.7 | 1 |" in text
