from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainforensics import config, registry
from trainforensics.config import Settings
from trainforensics.errors import UsageError


def test_defaults(tmp_path: Path) -> None:
    assert config.load({}, folder=tmp_path) == Settings()


def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.trainforensics]\nout = "project"\njobs = 1\n')
    assert config.load({}, folder=tmp_path).out == Path("project")
    (tmp_path / "trainforensics.toml").write_text('out = "own"\njobs = 2\nfail-on = "low"\n')
    assert config.load({}, folder=tmp_path).out == Path("own")
    monkeypatch.setenv("TRAINFORENSICS_OUT", "environment")
    monkeypatch.setenv("TRAINFORENSICS_MAP", "a=train_loss,b=val_loss")
    loaded = config.load({}, folder=tmp_path)
    assert (loaded.out, loaded.jobs, loaded.fail_on) == (Path("environment"), 2, "low")
    assert loaded.map == {"a": "train_loss", "b": "val_loss"}
    assert config.load({"out": Path("line"), "jobs": None}, folder=tmp_path).out == Path("line")


def test_map_is_merged_name_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trainforensics.toml").write_text('[map]\na = "train_loss"\nb = "val_loss"\nc = "grad_norm"\n')
    monkeypatch.setenv("TRAINFORENSICS_MAP", "b=reward,d=none")
    loaded = config.load({"map": ["c=step,e=epoch"]}, folder=tmp_path)
    assert loaded.map == {"a": "train_loss", "b": "reward", "c": "step", "d": "none", "e": "epoch"}
    assert [*loaded.map][:2] == ["c", "e"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a,b=train_loss"], {"a,b": "train_loss"}),
        (["loss (top 1, k=5)=val_loss"], {"loss (top 1, k=5)": "val_loss"}),
        ("a,b=train_loss,c=step", {"a,b": "train_loss", "c": "step"}),
        (["a=train_loss, b=none", "c=d=epoch"], {"a": "train_loss", "b": "none", "c=d": "epoch"}),
        ({"a,b": "train_loss"}, {"a,b": "train_loss"}),
    ],
)
def test_a_name_to_map_may_hold_commas_and_equal_signs(tmp_path: Path, given: Any, expected: dict[str, str]) -> None:
    assert config.load({"map": given}, folder=tmp_path).map == expected


@pytest.mark.parametrize("given", ["=train_loss", "a=", "a=train_loss,b", "a=5"])
def test_what_is_no_pair_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(UsageError, match="NAME=ROLE"):
        config.load({"map": [given]}, folder=tmp_path)


def test_every_default_is_a_threshold_that_may_be_given(tmp_path: Path) -> None:
    metas = [module.META for module in registry.detectors().modules]
    params = {meta.kind.name: {param.name: param.default for param in meta.params} for meta in metas if meta.params}
    assert config.load({"params": params}, folder=tmp_path).params == params


def test_a_file_given_stands_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trainforensics.toml").write_text("jobs = 2\n")
    (tmp_path / "other.toml").write_text("plots = false\n\n[params.instant-burst]\nmin_height = 7\n")
    loaded = config.load({}, tmp_path / "other.toml", tmp_path)
    assert loaded == Settings(plots=False, params={"instant-burst": {"min_height": 7.0}})
    monkeypatch.setenv("TRAINFORENSICS_CONFIG", str(tmp_path / "other.toml"))
    assert config.load({}, folder=tmp_path) == loaded


def test_kinds_by_name_code_and_family(tmp_path: Path) -> None:
    loaded = config.load({"select": ["nan-onset,LOS101", "gradients"], "ignore": "clip-saturation"}, folder=tmp_path)
    assert loaded.select == ("nan-onset", "instant-burst", "gradients")
    assert loaded.wants("instant-burst", "loss")
    assert not loaded.wants("divergence", "loss")
    assert loaded.wants("gradient-explosion", "gradients")
    assert not loaded.wants("clip-saturation", "gradients")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour = true", "unknown setting 'colour'"),
        ("jobs = -1", "jobs = -1"),
        ('jobs = "many"', "jobs = 'many'"),
        ("plots = 3", "needs true or false"),
        ('fail-on = "dreadful"', "needs one of low, medium, high, critical"),
        ('select = ["spikes"]', "no kind, code or family 'spikes'"),
        ('map = ["loss"]', "'loss' is not NAME=ROLE"),
        ("out = 3", "needs a folder name"),
        ("params = 3", "needs a table per kind"),
        ("[params.spikes]\nz = 1", "no kind 'spikes'"),
        ("[params.platau]\nz = 1", "no kind 'platau'; did you mean 'plateau'?"),
        ("[params]\nplateau = 1", "needs a table of parameters"),
        ("[params.resume-discontinuity]\npair = 6", "no parameter 'pair'; did you mean 'pairs'?"),
        ("[params.resume-discontinuity]\nquux = 6", "no parameter 'quux'; known are z, unsure, size"),
        ("[params.suspect-shard]\nz = 6", "suspect-shard has no parameter 'z'; it has none"),
        ("[params.instant-burst]\nmin_height = nan", "instant-burst.min_height = nan is no threshold"),
        ("[params.instant-burst]\nmin_height = inf", "instant-burst.min_height = inf is no threshold"),
        ("[params.instant-burst]\nmin_height = -6.0", "instant-burst.min_height = -6.0 is no threshold"),
        ("[params.instant-burst]\nmin_height = true", "instant-burst.min_height = True is no threshold"),
        ('[params.instant-burst]\nmin_height = "6"', "instant-burst.min_height = '6' is no threshold"),
        ("jobs = 1.5", "needs a whole number of processes"),
        ("job = 1", "unknown setting 'job'; did you mean 'jobs'?"),
        ('ignore = ["platau"]', "did you mean 'plateau'?"),
        ('select = ["nan"]', "did you mean 'nan-onset'?"),
        ("out = ", "not valid TOML"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "trainforensics.toml").write_text(text)
    with pytest.raises(UsageError, match=r"trainforensics\.toml") as refused:
        config.load({}, folder=tmp_path)
    assert says in str(refused.value)


@pytest.mark.parametrize("given", [{"select": ["spikes"]}, {"map": ["loss"]}, {"jobs": -2}])
def test_the_command_line_is_checked_too(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the command line"):
        config.load(given, folder=tmp_path)


def test_an_unknown_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFORENSICS_COLOUR", "1")
    with pytest.raises(UsageError, match="TRAINFORENSICS_COLOUR"):
        config.load({}, folder=tmp_path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the configuration"):
        config.load({}, tmp_path / "nowhere.toml", tmp_path)
