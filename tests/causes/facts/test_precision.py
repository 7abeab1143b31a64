from __future__ import annotations

import numpy as np
import pytest
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.facts import precision
from trainforensics.signals.scale import loss_scale

N = 400


def case(config: dict[str, object] | None = None, **roles: np.ndarray) -> Case:
    signals = make_signals({"train_loss": np.full(N, 2.5), **roles}, step=np.arange(N), config=config)
    return Case(make_incident(onset=300), signals, ())


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"fp16": True, "bf16": False}, "fp16"),
        ({"training": {"bf16": "true"}}, "bf16"),
        ({"trainer": {"precision": "16-mixed"}}, "fp16"),
        ({"precision": "bf16-mixed"}, "bf16"),
        ({"model.torch_dtype": "float16"}, "fp16"),
        ({"dtype": "torch.bfloat16"}, "bf16"),
        ({"precision": "32-true"}, "fp32"),
        ({"lr": 16}, ""),
    ],
)
def test_precision_as_configured(config: dict[str, object], name: str) -> None:
    assert precision.of_run(case(config)) == name


def test_a_moving_scale_means_half_precision() -> None:
    scale = np.full(N, 65536.0)
    scale[200:] = 32768.0
    assert precision.of_run(case(loss_scale=scale)) == "fp16"
    assert precision.of_run(case(loss_scale=np.ones(N))) == ""


def test_a_scale_that_only_falls() -> None:
    scale = 65536.0 / 2.0 ** np.clip((np.arange(N) - 250) // 10, 0, 5)
    falls = precision.scale_falls(case(loss_scale=scale))
    assert falls is not None
    assert falls[0] == 5
    saw = np.where(np.arange(N) // 20 % 2 == 0, 65536.0, 32768.0)
    assert precision.scale_falls(case(loss_scale=saw)) is None


def test_the_halvings_of_a_decay_are_those_that_its_detector_counts() -> None:
    scale = 65536.0 / 2.0 ** np.clip((np.arange(N) - 250) // 10, 0, 8)
    scale[:150] *= 2  # one back-off long before
    signals = case(loss_scale=scale).signals
    found = precision.scale_falls(Case(make_incident("scale-decay", 260, end_step=340), signals, ()))
    decay = loss_scale(signals)
    assert decay is not None
    assert decay.decay is not None
    assert found == (8, 65536.0, 256.0) == (decay.decay.halvings, decay.decay.start, decay.decay.low)
