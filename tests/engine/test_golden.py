"""Whole runs, from logs to verdict, against what they were judged to be before."""

from __future__ import annotations

import json

import pytest
from golden_results import GOLDEN, RUNS, judged


@pytest.mark.parametrize("run", RUNS)
def test_a_whole_run_is_judged_as_before(run: str) -> None:
    assert judged(run) == json.loads((GOLDEN / f"{run}.json").read_text())
