from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from incidents_factory import make_incident

from trainforensics.blame import skip
from trainforensics.model import Blame, Suspect

RECIPES = Path(__file__).parents[2] / "docs" / "skip-lists.md"


def content() -> dict[str, Any]:
    suspects = (
        Suspect("doc", "13", 0.9, 1e-6, (100,), "fed 3 of 3 events"),
        Suspect("shard", "2", 0.3, 0.02, (100,), "may be"),
        Suspect("doc", "14", 0.1, None, (100,), "one of 4"),
    )
    rows = ({"step": 100, "rank": 0, "shard": "2", "doc": ["13"]}, {"step": 100, "rank": 1, "shard": "5", "doc": ["7"]})
    blame = Blame((99, 100), "logged", suspects, rows)
    return skip("run", [make_incident(blame=blame), make_incident(onset=200)])


def test_the_likely_are_skipped_the_possible_set_aside_the_rest_left_out() -> None:
    entries = {(e["type"], e["id"]): e["action"] for e in content()["entries"]}
    assert entries == {("doc", "13"): "skip", ("shard", "2"): "quarantine"}


def test_batches_are_those_that_hold_something_to_skip() -> None:
    assert [row["rank"] for row in content()["batches"]] == [0]


def test_several_incidents_of_one_suspect_are_one_entry() -> None:
    blame = Blame((99, 100), "logged", (Suspect("shard", "2", 0.8),))
    (entry,) = skip("run", [make_incident(blame=blame), make_incident(onset=300, blame=blame)])["entries"]
    assert len(entry["incidents"]) == 2


@pytest.mark.torch
def test_a_pytorch_loader_honours_the_documented_recipe(tmp_path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    file = tmp_path / "skip.json"
    file.write_text(json.dumps(content()))
    recipe: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", RECIPES.read_text(), re.DOTALL):
        exec(block, recipe)  # the recipe as a reader would paste it
    names = recipe["to_skip"](file)
    assert names["doc"] == {"13"}
    dataset = list(range(20))
    sampler = recipe["SkippingSampler"](data.SequentialSampler(dataset), names)
    loader = data.DataLoader(dataset, batch_size=4, sampler=sampler)
    seen = [int(i) for batch in loader for i in batch]
    assert seen == [i for i in range(20) if i != 13]
    assert len(loader) == 5
