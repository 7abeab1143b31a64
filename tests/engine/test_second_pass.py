from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logs import rows, write_jsonl

from trainforensics import engine
from trainforensics.config import Settings
from trainforensics.engine import second_pass


@pytest.fixture
def out(tmp_path: Path) -> Settings:
    return Settings(out=tmp_path / "out", plots=False)


def logged(seed: int, factor: float = 1.0) -> list[dict[str, Any]]:
    lines = [dict(row) for row in rows(range(0, 600, 5), seed=seed)]
    for row in lines:
        if row["step"] % 200 == 95:  # too few evaluations for the run alone to show that its loss is scaled
            row["eval_loss"] = row["loss"]
        row["loss"] *= factor
    return lines


def test_a_scaled_sibling_is_told_in_its_own_result_and_in_the_index(tmp_path: Path, out: Settings) -> None:
    write_jsonl(tmp_path / "runs/one/metrics.jsonl", logged(1))
    write_jsonl(tmp_path / "runs/four/metrics.jsonl", logged(2, 4.0))
    result = engine.analyze([tmp_path / "runs"], out)
    (finding,) = result.index.cross_run
    assert finding.finding.startswith(
        "scale-mismatch of runs/four: loss is 4 times that of one on all 120 common steps"
    )
    assert (finding.runs, finding.steps) == (("runs/four", "runs/one"), (0,))
    document = json.loads((out.out / "runs/four/result.json").read_text())
    told = [i for i in document["incidents"] if i["scope"].get("sibling")]
    assert [(i["kind"], i["scope"]["sibling"], i["onset_step"]) for i in told] == [("scale-mismatch", "runs/one", 0)]
    assert told[0]["causes"][0]["cause"] == "logging-artefact"
    assert told[0]["remediation"]
    assert document["verdict"] == "unstable"
    assert {run.run: run.verdict for run in result.index.runs} == {"runs/four": "unstable", "runs/one": "stable"}
    assert told[0]["summary"].capitalize() in (out.out / "runs/four/report.md").read_text()


def test_healthy_siblings_raise_nothing(tmp_path: Path, out: Settings) -> None:
    for seed in (1, 2):
        write_jsonl(tmp_path / f"runs/{seed}/metrics.jsonl", logged(seed))
    result = engine.analyze([tmp_path / "runs"], out)
    assert not result.index.cross_run
    assert [run.verdict for run in result.runs] == ["stable", "stable"]


def test_a_kind_that_is_not_wanted_is_not_added(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "runs/one/metrics.jsonl", logged(1))
    write_jsonl(tmp_path / "runs/four/metrics.jsonl", logged(1, 4.0))
    settings = Settings(out=tmp_path / "out", plots=False, ignore=("scale-mismatch",))
    assert not engine.analyze([tmp_path / "runs"], settings).index.cross_run


def test_a_failure_is_an_error_of_the_runs_and_leaves_their_verdicts(
    tmp_path: Path, out: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(second_pass, "departures", fail)
    for seed in (1, 2):
        write_jsonl(tmp_path / f"runs/{seed}/metrics.jsonl", logged(seed))
    for run in engine.analyze([tmp_path / "runs"], out).runs:
        assert run.verdict == "stable"
        assert [(e.detector, e.message) for e in run.errored] == [("siblings", "ValueError: broken")]
        assert json.loads((out.out / run.run / "result.json").read_text())["errored"]


def test_batches_that_stand_out_in_two_runs_of_one_order_are_bad_batches(tmp_path: Path, out: Settings) -> None:
    rng = np.random.default_rng(1)
    batch = 0.05 * rng.standard_t(3, 1_500)
    batch[[400, 431, 900]] = 1.0, 1.3, 1.1
    for name in ("one", "two"):
        loss = 3 + 2 * np.exp(-np.arange(1_500) / 200) + batch + 0.01 * rng.normal(size=1_500)
        write_jsonl(tmp_path / f"runs/{name}/log.jsonl", [{"step": i, "loss": v} for i, v in enumerate(loss.tolist())])
    result = engine.analyze([tmp_path / "runs"], out)
    for run in result.runs:
        (burst,) = run.incidents
        assert burst.kind == "instant-burst"
        assert {400, 431, 900} <= set(burst.occurrences)
        assert burst.causes[0].cause == "bad-batch"
    assert {400, 431, 900} <= set(result.index.cross_run[0].steps)
