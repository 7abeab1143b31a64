from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.movement import movement
from trainforensics.model import Event, Precursor
from trainforensics.signals.scale import loss_scale

N = 400


def noise(level: float, spread: float = 0.05, seed: int = 0, n: int = N) -> np.ndarray:
    return level * (1 + spread * np.random.default_rng(seed).standard_normal(n))


def case(onset: int = 300, config: dict[str, object] | None = None, **roles: np.ndarray) -> Case:
    incident = make_incident(onset=onset)
    signals = make_signals({"train_loss": noise(2.5), **roles}, step=np.arange(N), config=config)
    return Case(incident, signals, (incident,))


def test_a_jump_in_the_same_point() -> None:
    norm = noise(1.0, seed=1)
    norm[300] = 8
    assert case(grad_norm=norm).gradient_order == "same"


def test_a_climb_before() -> None:
    norm = noise(1.0, seed=1)
    norm[280:] *= np.exp(np.linspace(0, 2, N - 280))
    assert case(grad_norm=norm).gradient_order == "led"


def test_a_precursor_named_by_detection_counts_as_a_climb() -> None:
    incident = make_incident(onset=300, precursors=(Precursor("grad_norm", 270, 30, ""),))
    sparse = make_curve([1.0, 1.5, 3.0], "grad_norm", step=[250, 270, 290])
    signals = make_signals({"train_loss": make_curve(noise(2.5)), "grad_norm": sparse})
    assert Case(incident, signals, ()).gradient_order == "led"


def test_a_norm_that_stays_quiet() -> None:
    assert case(grad_norm=noise(1.0, seed=1)).gradient_order == "quiet"


def test_no_norm_is_unknown() -> None:
    assert case().gradient_order is None


def test_a_falling_loss_is_no_movement() -> None:
    falling = make_curve(5 * np.exp(-np.arange(N) / 100) + 0.01 * np.random.default_rng(0).standard_normal(N))
    move = movement(falling, 300)
    assert move is not None
    assert move.widths < 5


def test_a_jump_of_the_rate() -> None:
    rate = np.full(N, 1e-3)
    rate[300] = 6e-2
    found = case(learning_rate=rate).rate
    assert found is not None
    assert found.jump == pytest.approx(60)


def test_warm_up_is_no_jump() -> None:
    rate = np.minimum(np.arange(1, N + 1) / 100, 1.0) * 1e-3
    for onset in (2, 5, 50):
        found = case(onset=onset, learning_rate=rate).rate
        assert found is not None
        assert found.jump == 1.0
        assert found.warming


def test_a_restart_near_the_onset() -> None:
    signals = make_signals({"train_loss": noise(2.5)}, step=np.arange(N), events=[Event("restart", 298)])
    assert Case(make_incident(onset=300), signals, ()).restart == 298
    assert Case(make_incident(onset=200), signals, ()).restart is None


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
    assert case(config=config).precision == name


def test_a_moving_scale_means_half_precision() -> None:
    scale = np.full(N, 65536.0)
    scale[200:] = 32768.0
    assert case(loss_scale=scale).precision == "fp16"
    assert case(loss_scale=np.ones(N)).precision == ""


def test_a_scale_that_only_falls() -> None:
    scale = 65536.0 / 2.0 ** np.clip((np.arange(N) - 250) // 10, 0, 5)
    falls = case(loss_scale=scale).scale_falls
    assert falls is not None
    assert falls[0] == 5
    saw = np.where(np.arange(N) // 20 % 2 == 0, 65536.0, 32768.0)
    assert case(loss_scale=saw).scale_falls is None


def test_the_halvings_of_a_decay_are_those_that_its_detector_counts() -> None:
    scale = 65536.0 / 2.0 ** np.clip((np.arange(N) - 250) // 10, 0, 8)
    scale[:150] *= 2  # one back-off long before
    signals = make_signals({"train_loss": noise(2.5), "loss_scale": scale}, step=np.arange(N))
    found = Case(make_incident("scale-decay", 260, end_step=340), signals, ()).scale_falls
    decay = loss_scale(signals)
    assert decay is not None
    assert decay.decay is not None
    assert found == (8, 65536.0, 256.0) == (decay.decay.halvings, decay.decay.start, decay.decay.low)


def test_the_incident_s_own_life_is_looked_at() -> None:
    """A spike that a rollback replaced lies in the superseded points."""
    norm = noise(1.0, seed=1)
    old = make_curve(np.r_[noise(1.0, seed=2, n=50), noise(9.0, seed=2, n=50)], "grad_norm", step=np.arange(250, 350))
    segment = (np.arange(N) >= 250).astype(int)
    curve = make_curve(norm, "grad_norm", step=np.arange(N), segment=segment, superseded=old)
    incident = make_incident(onset=300, segment=0)
    found = Case(incident, make_signals([make_curve(noise(2.5), step=np.arange(N)), curve]), (incident,))
    assert found.gradient_order == "same"
    later = Case(make_incident(onset=300, segment=1), found.signals, ())
    assert later.gradient_order == "quiet"


def test_a_rate_that_runs_away_is_no_warm_up() -> None:
    step = np.arange(1, N + 1)
    away = case(onset=200, learning_rate=0.05 * (1 + (step / 60.0) ** 3)).rate
    assert away is not None
    assert not away.warming
    assert away.ramp > 10
    for shape in (step / 400, np.sin(step / 400 * np.pi / 2), (1 - np.cos(step / 400 * np.pi)) / 2):
        warm = case(onset=399, learning_rate=1e-3 * shape[:N]).rate
        assert warm is not None
        assert warm.ramp == 1.0
