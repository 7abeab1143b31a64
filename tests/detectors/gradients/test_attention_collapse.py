from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import attention_collapse
from trainforensics.model import Clear, Fired
from trainforensics.signals import Curve

PARAMS = {p.name: p.default for p in attention_collapse.META.params}
RNG = np.random.default_rng(10)
N = 600
STALLED = 2.2 + 2 * np.exp(-np.arange(N) / 40) + 0.03 * RNG.standard_normal(N)
LEARNING = 2 + 2 * np.exp(-np.arange(N) / 200) + 0.01 * RNG.standard_normal(N)


def entropy(*level: np.ndarray) -> list[Curve]:
    return [
        make_curve(
            v * np.exp(0.02 * RNG.standard_normal(N)), "attention_entropy", name=f"e{i}", layer=f"l{i}", series_id=i
        )
        for i, v in enumerate(level)
    ]


def collapsing(at: int) -> np.ndarray:
    return 3 * np.exp(-np.maximum(0, np.arange(N) - at) / 25)


def test_entropy_that_heads_to_zero() -> None:
    curves = [*entropy(collapsing(320), collapsing(300)), make_curve(STALLED, series_id=9)]
    outcome = attention_collapse.detect(make_signals(curves), PARAMS)
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert abs((found.onset_step or 0) - 301) <= 15
    assert found.scope.layer == "l1"
    assert len(found.evidence) == 2


def test_specialising_heads_are_quiet() -> None:
    settling = 1.3 + 2.5 * np.exp(-np.arange(N) / 150)
    curves = [*entropy(settling, settling), make_curve(STALLED, series_id=9)]
    assert isinstance(attention_collapse.detect(make_signals(curves), PARAMS), Clear)


def test_sharp_attention_of_a_model_that_learns_is_quiet() -> None:
    curves = [*entropy(collapsing(200)), make_curve(LEARNING, series_id=9)]
    assert isinstance(attention_collapse.detect(make_signals(curves), PARAMS), Clear)


def test_logits_where_entropy_is_not_logged() -> None:
    curves = [make_curve(20 / collapsing(300), "attention_logit_max"), make_curve(STALLED, series_id=9)]
    assert isinstance(attention_collapse.detect(make_signals(curves), PARAMS), Fired)
