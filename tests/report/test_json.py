from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import results
from hypothesis import given, settings
from hypothesis import strategies as st
from results import full_incident, save

from trainforensics.errors import UsageError
from trainforensics.model import SCHEMA, Evidence, Incident, Index, RunResult
from trainforensics.report.json import dump_index, dump_run, is_saved_result, load, load_index, load_run

RUN_KEYS = {
    "schema", "run", "verdict", "axis", "ended", "sources", "config", "options", "series", "segments", "checkpoints",
    "incidents", "not_judged", "errored",
}  # fmt: skip
INCIDENT_KEYS = {
    "id", "code", "kind", "severity", "confidence", "caused_by", "onset_step", "onset_interval", "occurrences",
    "segment", "peak_step", "end_step", "recovery", "cost", "series", "role", "scope", "summary", "evidence",
    "precursors", "causes", "blame", "safe_checkpoint", "remediation",
}  # fmt: skip


def make_run(**changes: object) -> RunResult:
    incident = full_incident(evidence=(Evidence("train_loss", 1201, math.nan, -math.inf, "not finite"),))
    return results.make_run(incident, **changes)


def test_the_document_has_the_agreed_keys() -> None:
    document = json.loads(dump_run(make_run()))
    assert next(iter(document)) == "schema"
    assert document["schema"] == SCHEMA
    assert set(document) >= RUN_KEYS
    incident = document["incidents"][0]
    assert set(incident) >= INCIDENT_KEYS
    assert set(incident["causes"][0]) == {"cause", "confidence", "for", "against", "test"}


def test_non_finite_numbers_are_strings_in_valid_json_and_come_back_as_numbers() -> None:
    data = dump_run(make_run(config={"lr": math.inf}))
    document = json.loads(data, parse_constant=pytest.fail)
    evidence = document["incidents"][0]["evidence"][0]
    assert (evidence["value"], evidence["expected"], document["config"]["lr"]) == ("NaN", "-Infinity", "Infinity")
    read = load_run(data).incidents[0].evidence[0]
    assert read.value is not None
    assert math.isnan(read.value)
    assert read.expected == -math.inf


def test_numpy_scalars_and_paths_in_free_form_values_are_written_plainly() -> None:
    run = make_run(config={"steps": np.int64(3), "lr": np.float32(0.5), "flag": np.bool_(True), "dir": Path("x")})
    assert json.loads(dump_run(run))["config"] == {"steps": 3, "lr": 0.5, "flag": True, "dir": "x"}


def test_text_that_is_not_valid_unicode_is_still_written() -> None:
    assert load_run(dump_run(make_run(config={"note": "bad \udcff byte"}))).config["note"] == r"bad \udcff byte"


runs = st.builds(
    RunResult,
    config=st.dictionaries(st.text(), st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)),
    options=st.just({}),
    schema=st.just(SCHEMA),
    incidents=st.lists(st.builds(Incident, blame=st.none()), max_size=2).map(tuple),
)


@settings(max_examples=50, deadline=None)
@given(runs)
def test_a_run_survives_the_round_trip(run: RunResult) -> None:
    data = dump_run(run)
    read = load_run(data)
    assert repr(read) == repr(run)
    assert dump_run(read) == data


@settings(max_examples=30, deadline=None)
@given(st.builds(Index, schema=st.just(SCHEMA), tool=st.dictionaries(st.text(), st.text())))
def test_an_index_survives_the_round_trip(index: Index) -> None:
    assert load_index(dump_index(index)) == index


def test_unknown_keys_of_a_newer_minor_version_are_ignored() -> None:
    document = json.loads(dump_run(make_run()))
    document["later"] = 1
    document["incidents"][0]["later"] = {"x": 1}
    assert repr(load_run(json.dumps(document).encode())) == repr(load_run(dump_run(make_run())))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "no schema"),
        (b'{"schema": "trainforensics/result/2"}', "result/2"),
        (b'{"schema": "trainforensics/result/1", "run": 3}', "invalid field"),
    ],
)
def test_a_file_that_is_no_result_is_refused_in_one_line(data: bytes, says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        load_run(data, "x/result.json")
    assert str(error.value).startswith("x/result.json: ")
    assert "\n" not in str(error.value)


def save_folder(out: Path) -> Path:
    return save(out, make_run(run="runs/a"), make_run(run="runs/b"))


@pytest.mark.parametrize("target", ["", "result.json"])
def test_load_follows_the_index(tmp_path: Path, target: str) -> None:
    index, found = load(save_folder(tmp_path) / target)
    assert index is not None
    assert [result.run for result in found] == ["runs/a", "runs/b"]


@pytest.mark.parametrize("target", ["runs/b", "runs/b/result.json"])
def test_load_takes_a_single_run(tmp_path: Path, target: str) -> None:
    index, found = load(save_folder(tmp_path) / target)
    assert index is None
    assert [result.run for result in found] == ["runs/b"]


def test_load_names_the_result_that_is_gone(tmp_path: Path) -> None:
    (save_folder(tmp_path) / "runs/b/result.json").unlink()
    with pytest.raises(UsageError, match=r"runs/b/result\.json: cannot read"):
        load(tmp_path)


@pytest.mark.parametrize("place", ["../../etc/passwd", "/etc/passwd", "a/../../b/result.json"])
def test_a_result_outside_the_folder_of_its_index_is_not_read(tmp_path: Path, place: str) -> None:
    out = save(tmp_path / "out", make_run(run="a"))
    index = json.loads((out / "result.json").read_text())
    index["runs"][0]["result"] = place
    (out / "result.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match="outside its folder"):
        load(out)


def test_logs_are_told_from_saved_results(tmp_path: Path) -> None:
    out = save_folder(tmp_path / "out")
    (tmp_path / "trainer_state.json").write_text('{"log_history": []}')
    assert is_saved_result(out)
    assert is_saved_result(out / "runs/a")
    assert is_saved_result(out / "runs/a/result.json")
    assert not is_saved_result(tmp_path)
    assert not is_saved_result(tmp_path / "trainer_state.json")
