from __future__ import annotations

import numpy as np
import pytest
from factories import make_signals

from benchmarks.detect.rules import RULES, judge

BY_NAME = {rule.name: rule for rule in RULES}


def loss(n: int = 3000) -> np.ndarray:
    return 2 + np.random.default_rng(0).normal(0, 0.05, n)


@pytest.mark.parametrize("name", ["OLMo-2 spike score", "OLMo-core", "Megatron-LM", "Lightning Fabric", "NaN check"])
def test_silent_on_normal_noise(name: str) -> None:
    assert not judge(BY_NAME[name], make_signals({"train_loss": loss()}))


@pytest.mark.parametrize(
    ("name", "height", "length"),
    [
        ("OLMo-2 spike score", 0.5, 1),
        ("OLMo-core", 0.5, 1),
        ("Megatron-LM", 30, 1),
        ("Lightning Fabric", 6, 1),
        ("llm-foundry KillLossSpike", 4, 5),
        ("llm-foundry outlier", 20, 1),
    ],
)
def test_each_fires_where_it_should(name: str, height: float, length: int) -> None:
    values = loss()
    values[2000 : 2000 + length] += height
    (alarm,) = judge(BY_NAME[name], make_signals({"train_loss": values}))
    assert alarm.steps == (2000 + length,)
    values[2000 : 2000 + length] -= 0.9 * height
    assert not judge(BY_NAME[name], make_signals({"train_loss": values}))


def test_kill_loss_spike_needs_five_in_a_row() -> None:
    values = loss()
    values[2000:2004] += 4
    assert not judge(BY_NAME["llm-foundry KillLossSpike"], make_signals({"train_loss": values}))


def test_zclip_looks_at_the_grad_norm() -> None:
    norm = 1 + np.random.default_rng(0).normal(0, 0.01, 300)
    norm[200] = 5
    (alarm,) = judge(BY_NAME["ZClip"], make_signals({"grad_norm": norm}))
    assert 201 in alarm.steps


def test_not_finite() -> None:
    values = loss(100)
    values[50:] = np.nan
    (alarm,) = judge(BY_NAME["NaN check"], make_signals({"train_loss": values}))
    assert alarm.steps == (51,)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_any_input(rule: object) -> None:
    for values in ([1.0], [np.nan] * 40, [2.0] * 40, [1e300, -1e300] * 20):
        roles = ("train_loss", "grad_norm", "val_loss", "val_metric", "dead_fraction")
        judge(rule, make_signals({role: np.array(values) for role in roles}))  # type: ignore[arg-type]
