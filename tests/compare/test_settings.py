from __future__ import annotations

import pytest

from trainforensics.compare.settings import compare_settings, weight_of


def test_only_differences_are_listed_what_decides_learning_first() -> None:
    a = {"out_dir": "x", "optimizer": {"lr": 3e-4, "betas": [0.9, 0.95]}, "n_layer": 4, "flavour": "mint"}
    b = {"out_dir": "y", "optimizer": {"lr": 1e-3, "betas": [0.9, 0.95]}, "n_layer": 6, "flavour": "plain"}
    found = compare_settings(a, b)
    assert [(d.key, d.a, d.b, d.weight) for d in found] == [
        ("optimizer.lr", 3e-4, 1e-3, "learning"),
        ("n_layer", 4, 6, "learning"),
        ("flavour", "mint", "plain", "other"),
        ("out_dir", "x", "y", "incidental"),
    ]


def test_a_key_that_one_run_lacks_is_no_none() -> None:
    found = compare_settings({"seed": None, "clip": 1.0}, {"seed": None})
    assert [(d.key, d.a, d.b, d.missing) for d in found] == [("clip", 1.0, None, "b")]


def test_one_number_written_in_two_ways_is_the_same() -> None:
    assert compare_settings({"lr": "3e-4", "steps": 100}, {"lr": 0.0003, "steps": 100.0}) == ()
    assert len(compare_settings({"fp16": True}, {"fp16": 2})) == 1


def test_without_a_configuration_there_is_nothing_to_compare() -> None:
    assert compare_settings({}, {"lr": 1e-3}) == ()


@pytest.mark.parametrize(
    ("key", "weight"),
    [
        ("learning_rate", "learning"),
        ("trainer.maxSteps", "learning"),
        ("data_path", "learning"),
        ("run_name", "incidental"),
        ("log_steps", "incidental"),
        ("summary.train_loss", "incidental"),
        ("global_step", "incidental"),
        ("comment", "other"),
    ],
)
def test_weights(key: str, weight: str) -> None:
    assert weight_of(key) == weight


def test_a_number_that_differs_in_the_digits_of_rounding_alone_is_no_difference() -> None:
    assert compare_settings({"lr": 0.1 + 0.2, "betas": [0.9, 0.1 * 3]}, {"lr": 0.3, "betas": [0.9, 0.3]}) == ()
    assert len(compare_settings({"seed": 10**15, "lr": 0.3}, {"seed": 10**15 + 1, "lr": 0.30001})) == 2
