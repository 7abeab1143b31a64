"""The labelled corpus holds together: each run has its folder, its truth and what the truth says lies there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trainforensics.kinds import KINDS

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "fixtures" / "runs"
TRUTH: list[dict[str, Any]] = [
    json.loads(line) for line in (ROOT / "fixtures" / "truth.jsonl").read_text().splitlines()
]
INCIDENTS = [(row, incident) for row in TRUTH for incident in row["incidents"]]
LOGS = {
    "tensorboard": "**/events.out.tfevents.*",
    "wandb": "**/*.wandb",
    "jsonl": "metrics.jsonl",
    "hf": "trainer_state.json",
    "lightning": "**/metrics.csv",
    "keras": "training.log",
    "csv": "progress.csv",
}


def test_truth_and_folders_name_the_same_runs() -> None:
    names = [row["run"] for row in TRUTH]
    assert len(names) == len(set(names))
    assert set(names) == {path.name for path in RUNS.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("row", TRUTH, ids=lambda row: row["run"])
def test_run_holds_what_its_truth_says(row: dict[str, Any]) -> None:
    folder = RUNS / row["run"]
    pattern = next(pattern for start, pattern in LOGS.items() if row["format"].startswith(start))
    logs = list(folder.glob(pattern))
    assert logs
    assert all(path.stat().st_size > 200 for path in logs)
    assert any(folder.glob("batches.*")) == ("+manifest" in row["format"])
    assert row["trained"] in (True, False)
    assert row["healthy"] == (not row["incidents"])
    assert row["notes"]


@pytest.mark.parametrize(("row", "incident"), INCIDENTS, ids=lambda value: value.get("run", value.get("kind")))
def test_incident_is_well_formed(row: dict[str, Any], incident: dict[str, Any]) -> None:
    assert {incident["kind"], *incident["named_by"], *row["also_acceptable"], *row["must_not"]} <= set(KINDS)
    assert incident["kind"] not in row["must_not"]
    assert incident["cause_ok"]
    assert incident["onset_tol"] >= 0
    if incident["end"] is not None:
        assert incident["end"] >= incident["onset"]
    if (incident["culprit"] or {}).keys() & {"shard", "doc"}:
        assert "+manifest" in row["format"]


def test_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "fixtures").rglob("*") if path.is_file()) < 12_000_000


def test_the_nearest_checkpoint_fails_again_and_the_clean_one_trains_through() -> None:
    outcome = json.loads((ROOT / "fixtures" / "checkpoint_experiment" / "outcome.json").read_text())
    nearest, clean = outcome["resume-nearest"], outcome["resume-clean"]
    assert clean["resumed_from"] < nearest["resumed_from"]
    assert not nearest["trained_through"]
    assert clean["trained_through"]


def test_corpus_is_broad() -> None:
    runs_of = Counter(kind for row in TRUTH for kind in {incident["kind"] for incident in row["incidents"]})
    assert set(runs_of) >= {
        "instant-burst", "gradual-rise", "divergence", "bad-start", "loss-zero", "suspicious-low-loss", "plateau",
        "oscillation", "nan-onset", "transient-nan", "grad-nan", "scale-decay", "skipped-steps", "underflow",
        "gradient-explosion", "vanishing-gradient", "clip-saturation", "update-ratio", "val-divergence", "val-jump",
        "double-descent", "eval-invalid", "eval-regression", "resume-discontinuity",
    }  # fmt: skip
    assert min(runs_of[kind] for kind in ("instant-burst", "gradual-rise", "divergence", "nan-onset", "plateau")) >= 2
    healthy = [row for row in TRUTH if row["healthy"]]
    assert len(healthy) >= 20
    assert {row["format"].split("+")[0].split("(")[0] for row in healthy} >= {
        "tensorboard", "wandb-offline", "jsonl", "hf-trainer_state.json",
    }  # fmt: skip


@pytest.mark.torch
def test_recipes_say_the_same_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT))
    from fixtures.train.recipes import RECIPES  # noqa: PLC0415 - needs PyTorch

    assert [recipe.name for recipe in RECIPES] == [row["run"] for row in TRUTH]
    for recipe, row in zip(RECIPES, TRUTH, strict=True):
        said = recipe.truth([])
        keys = ("format", "also_acceptable", "must_not", "healthy", "notes")
        assert {key: said[key] for key in keys} == {key: row[key] for key in keys}
