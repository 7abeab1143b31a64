"""Steps asked of a run that left no manifest, but what the batches can be reconstructed from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from indexmaps import draw, write_core, write_sizes
from shell import Run

LENGTH, SEED, BATCH, STEPS = 32, 1234, 8, 120
SIZES = np.random.default_rng(4).integers(1, 200, 400).tolist()
DRAWN = draw(SIZES, range(400), BATCH * STEPS, LENGTH, SEED)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Megatron's console text: its arguments, then a line each ten steps."""
    folder = tmp_path / "run"
    folder.mkdir()
    arguments = {
        "data_parallel_size": 2, "global_batch_size": BATCH, "micro_batch_size": 2, "seed": SEED, "seq_length": LENGTH,
        "split": "100,0,0", "train_samples": BATCH * STEPS, "world_size": 2,
    }  # fmt: skip
    lines = ["------------------------ arguments ------------------------"]
    lines += [f"  {name} {'.' * (44 - len(name))} {value}" for name, value in arguments.items()]
    lines += ["-------------------- end of arguments ---------------------"]
    lines += [
        f" iteration {step:8}/{STEPS:8} | consumed samples: {step * BATCH:12} | elapsed time per iteration (ms): 101.0 "
        f"| learning rate: 1.000E-04 | global batch size: {BATCH:5} | lm loss: {2 + step % 7 * 0.01:.6E} | "
        f"loss scale: 1.0 | grad norm: 0.5 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        for step in range(10, STEPS + 1, 10)
    ]
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return folder


def asked(run: Run, target: Path, out: Path) -> dict[str, object]:
    code, stdout, stderr = run("blame", target, "--step", "60", "--format", "json", "--out", out)
    assert code == 0, stderr
    answer: dict[str, object] = json.loads(stdout)
    return answer


def documents(answer: dict[str, object]) -> set[str]:
    batches = answer["batches"]
    assert isinstance(batches, list)
    return {document for batch in batches for document in batch["doc"]}


EXPECTED = {str(document) for n in range(50 * BATCH, 60 * BATCH) for document in DRAWN.documents(n)}


def test_cached_index_maps_below_the_run_s_folder(run: Run, log: Path, tmp_path: Path) -> None:
    write_core(log / "cache" / "GPTDataset_indices", "/data/pile", DRAWN, BATCH * STEPS, LENGTH, SEED)
    answer = asked(run, log, tmp_path / "out")
    assert (answer["window"], answer["basis"]) == ([51, 60], "reconstructed")
    assert "reconstructed from the index map" in str(answer["note"])
    assert documents(answer) == EXPECTED


def test_a_saved_analysis_needs_the_maps_where_they_were(run: Run, log: Path, tmp_path: Path) -> None:
    write_core(log, "/data/pile", DRAWN, BATCH * STEPS, LENGTH, SEED)
    assert run("analyze", log, "--out", tmp_path / "out", "--no-plots")[0] == 0
    assert documents(asked(run, tmp_path / "out", tmp_path / "out")) == EXPECTED
    for path in log.glob("*.npy"):
        path.unlink()
    answer = asked(run, tmp_path / "out", tmp_path / "out")
    assert (answer["basis"], answer["suspects"], answer["batches"]) == (None, [], [])
    assert "is gone" in str(answer["note"])


def test_maps_drawn_anew_from_sizes(run: Run, log: Path, tmp_path: Path) -> None:
    write_sizes(log / "pile.idx", SIZES)
    answer = asked(run, log, tmp_path / "out")
    assert "drawn anew from pile.idx" in str(answer["note"])
    assert documents(answer) == EXPECTED


def test_maps_in_the_cache_that_the_configuration_names(run: Run, log: Path, tmp_path: Path) -> None:
    write_core(tmp_path / "shared", "/data/pile", DRAWN, BATCH * STEPS, LENGTH, SEED)
    (log / "config.json").write_text(json.dumps({"data_cache_path": str(tmp_path / "shared")}))
    assert documents(asked(run, log, tmp_path / "out")) == EXPECTED


def test_maps_of_another_run_accuse_nobody(run: Run, log: Path, tmp_path: Path) -> None:
    write_core(log, "/data/pile", draw(SIZES, range(400), 960, LENGTH, 1), 960, LENGTH, 1)
    answer = asked(run, log, tmp_path / "out")
    assert (answer["basis"], answer["batches"]) == (None, [])
    assert "seed 1, not 1234" in str(answer["note"])


def test_a_table_of_sample_ranges(run: Run, log: Path, tmp_path: Path) -> None:
    rows = ["sample_start,sample_end,shard"] + [f"{i * BATCH},{(i + 1) * BATCH},s{i + 1}" for i in range(STEPS)]
    (log / "batches.csv").write_text("\n".join(rows) + "\n")
    answer = asked(run, log, tmp_path / "out")
    assert answer["basis"] == "logged"
    assert "placed by sample_start and the logged consumed samples" in str(answer["note"])
    batches = answer["batches"]
    assert isinstance(batches, list)
    assert {batch["shard"] for batch in batches} == {f"s{step}" for step in range(51, 61)}
