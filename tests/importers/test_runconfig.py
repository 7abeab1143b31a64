from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from reading import read, sniff

from trainforensics.importers import runconfig
from trainforensics.importers.jsonlogs import jsonlines

DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 4,
    "fp16": {"enabled": True, "initial_scale_power": 16, "hysteresis": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}},
}


LAUNCH = """#!/bin/bash
# python old.py --seed 1 --learning_rate 1 --lr_scheduler none
accelerate launch train.py --fp16 --learning_rate=5e-6 \\
  --lr_scheduler=cosine --max_train_steps=1000 --seed 7 --output_dir=$OUT
"""

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("config.yaml", "model:\n  layers: 2\noptim:\n  lr: 0.35\n", {"model.layers": 2, "optim.lr": 0.35}),
    ("config.yaml", "learning_rate:\n  value: 0.0004\n  desc: null\n", {"learning_rate": 0.0004}),
    ("hparams.yaml", "lr: 0.1\nnet: !!python/object:x.Net\n  width: 3\n", {"lr": 0.1, "net.width": 3}),
    ("training_args.json", '{"logging_steps": 10, "bf16": true}', {"logging_steps": 10, "bf16": True}),
    ("train_config.toml", "[training]\nsteps = 10\n[optimizer]\nlr = 1e-3\n", {"training.steps": 10}),
    ("ds_config_zero2.json", json.dumps(DEEPSPEED), {"fp16.initial_scale_power": 16}),
    ("ds_config_zero2.json", json.dumps(DEEPSPEED), {"optimizer.params.betas": [0.9, 0.95]}),
    (
        "run.sh",
        LAUNCH,
        {"lr_scheduler": "cosine", "max_train_steps": 1000, "seed": 7, "fp16": None, "output_dir": None},
    ),
    ("curriculum.json", '[{"from_step": 0, "mix": {"a": 1}}]', {"curriculum": [{"from_step": 0, "mix": {"a": 1}}]}),
]


@pytest.mark.parametrize(("name", "text", "wanted"), CASES)
def test_what_a_configuration_says(tmp_path: Path, name: str, text: str, wanted: dict[str, Any]) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert sniff(runconfig, path) >= 0.5 > sniff(jsonlines, path)
    config = read(runconfig, path).config
    assert {key: config.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokenizer_config.json", '{"model_max_length": 5, "lr": 1}'),
        ("package.json", '{"name": "x", "version": "1"}'),
        ("metrics.json", '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.9}\n'),
        ("notes.yaml", "- a\n- b\n"),
        ("config.yaml", "a: [1, 2\n"),
    ],
)
def test_other_files_are_not_claimed(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert sniff(runconfig, path) == 0.0


def test_an_unreadable_configuration_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"lr": ')
    assert [w.kind for w in read(runconfig, path).warnings] == ["damaged-file"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in itertools.pairwise("abcdefgh")
)
MERGED = "a: &a {k: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n" for before, name in itertools.pairwise("abcdefgh")
)


@pytest.mark.parametrize("text", [BOMB, MERGED, "lr: &a [*a]\n", f"a: &a {'x' * 2000}\nb: [{'*a, ' * 100}]\n"])
def test_aliases_that_write_out_to_very_much_are_not_followed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    found = read(runconfig, path)
    assert not found.config
    assert "aliases" in found.warnings[0].message


def test_ordinary_aliases_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("base: &base {lr: 0.1, wd: 0.2}\nhead:\n  <<: *base\n  lr: 0.5\ntail: *base\n")
    assert read(runconfig, path).config == {
        "base.lr": 0.1, "base.wd": 0.2, "head.lr": 0.5, "head.wd": 0.2, "tail.lr": 0.1, "tail.wd": 0.2
    }  # fmt: skip


@pytest.mark.parametrize("name", ["config.json", "config.yaml", "args.json"])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 990 + "1" + "}" * 990])
def test_a_configuration_beside_a_log_that_is_nested_too_deeply_costs_no_metrics(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    log = tmp_path / "m.jsonl"
    log.write_text("".join(f'{{"loss": {3 - i / 10}}}\n' for i in range(10)))
    found = read(jsonlines, log)
    assert not found.warnings
    assert found.series["loss"].number_steps == list(range(1, 11))


def test_scripts_that_run_or_stand_beside_several_commands_tell_nothing(tmp_path: Path) -> None:
    command = "python train.py --learning_rate 1e-4 --seed 7 --max_steps 100\n"
    (tmp_path / "two.sh").write_text(2 * command)
    assert sniff(runconfig, tmp_path / "two.sh") == 0.0
    (tmp_path / "one.sh").write_text(command)
    assert sniff(runconfig, tmp_path / "one.sh") == 0.0
    (tmp_path / "two.sh").unlink()
    assert sniff(runconfig, tmp_path / "one.sh") >= 0.5
