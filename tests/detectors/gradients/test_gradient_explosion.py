from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import gradient_explosion
from trainforensics.model import Clear, Finding, Fired, NotApplicable
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in gradient_explosion.META.params}
N = 1000


def loss(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 2 + 2 * np.exp(-np.arange(N) / 100) + 0.05 * rng.standard_normal(N)


def norm(seed: int = 0, sigma: float = 0.15) -> np.ndarray:
    return np.exp(sigma * np.random.default_rng(seed + 100).standard_normal(N))


def one(signals: Signals) -> Finding:
    outcome = gradient_explosion.detect(signals, PARAMS)
    assert isinstance(outcome, Fired)
    return outcome.findings[0]


@pytest.mark.parametrize("sigma", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("factor", [16, 64])
def test_a_lasting_jump(factor: int, sigma: float) -> None:
    grown = norm(sigma=sigma)
    grown[700:] *= factor
    found = one(make_signals({"train_loss": loss(), "grad_norm": grown}))
    assert abs((found.onset_step or 0) - 701) <= (1 if sigma < 0.5 else 5)
    assert found.end_step is None
    assert found.recovery != "recovered"


def test_geometric_growth() -> None:
    grown = norm() * np.exp(np.maximum(0, np.arange(N) - 300) / 25)
    found = one(make_signals({"train_loss": loss(), "grad_norm": grown}))
    assert 280 <= (found.onset_step or 0) <= 380


def test_a_summary_tells_the_level_and_no_loss_that_is_not_logged() -> None:
    grown = norm()
    grown[700:] *= 64
    text = one(make_signals({"train_loss": loss(), "grad_norm": grown})).summary
    level = f"{np.median(grown[700:]):.3g}"
    assert "leaves 1" in text
    assert f"stays up, at a median of {level}, while the loss stays inside its noise" in text
    assert "loss" not in one(make_signals({"grad_norm": grown})).summary


def test_a_loss_that_jumps_less_than_a_burst_is_told() -> None:
    burst, jumpy = norm(), loss()
    burst[700] *= 30
    jumpy[700] = 2.24
    text = one(make_signals({"train_loss": jumpy, "grad_norm": burst})).summary
    assert f"while the loss goes from {np.median(jumpy[650:700]):.4g} to {jumpy[700]:.4g}" in text
    assert "inside its noise" not in text


def test_bursts_are_one_recurring_finding() -> None:
    grown = norm()
    grown[[400, 600, 800]] = 40
    outcome = gradient_explosion.detect(make_signals({"train_loss": loss(), "grad_norm": grown}), PARAMS)
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert found.occurrences == (401, 601, 801)


def test_a_burst_that_the_loss_shares_is_quiet() -> None:
    grown, shared = norm(), loss()
    grown[600:603] = 40
    shared[600:603] += 2
    assert isinstance(
        gradient_explosion.detect(make_signals({"train_loss": shared, "grad_norm": grown}), PARAMS), Clear
    )


TAILS = {
    "lognormal": lambda rng: np.exp(0.6 * rng.standard_normal(N)),
    "student": lambda rng: 0.3 + np.abs(rng.standard_t(2, N)),
    "pareto": lambda rng: 1 + rng.pareto(1.5, N),
}


@pytest.mark.parametrize("tail", TAILS)
def test_heavy_tails_are_quiet(tail: str) -> None:
    for seed in range(20):
        heavy = TAILS[tail](np.random.default_rng(seed))
        signals = make_signals({"train_loss": loss(seed), "grad_norm": heavy})
        assert isinstance(gradient_explosion.detect(signals, PARAMS), Clear), seed


def test_warm_up_and_slow_growth_are_quiet() -> None:
    moved = norm() * np.interp(np.arange(N), [0, 30, 100, N], [0.2, 8, 1, 4])
    assert isinstance(
        gradient_explosion.detect(make_signals({"train_loss": loss(), "grad_norm": moved}), PARAMS), Clear
    )


def test_a_restart_is_quiet() -> None:
    grown = norm()
    grown[500:] *= 8
    curves = [
        make_curve(v, r, segment=np.repeat([0, 1], 500)) for r, v in {"train_loss": loss(), "grad_norm": grown}.items()
    ]
    assert isinstance(gradient_explosion.detect(make_signals(curves), PARAMS), Clear)


def test_a_climb_into_nan_is_left_to_its_end() -> None:
    grown, ended = norm(), loss()
    grown[900:950] *= np.geomspace(2, 1e4, 50)
    grown[950:] = ended[950:] = np.nan
    assert isinstance(gradient_explosion.detect(make_signals({"train_loss": ended, "grad_norm": grown}), PARAMS), Clear)


def test_without_gradients() -> None:
    assert isinstance(gradient_explosion.detect(make_signals({"train_loss": loss()}), PARAMS), NotApplicable)


def test_gradients_that_grow_as_a_network_leaves_its_plateau_are_quiet() -> None:
    at = np.arange(N)
    learns = 0.3 + 2 / (1 + np.exp((at - 300) / 12)) + 0.05 * np.random.default_rng(3).standard_normal(N)
    grown = norm() * (1 + 11 / (1 + np.exp((290 - at) / 8)))
    quiet = gradient_explosion.detect(make_signals({"train_loss": learns, "grad_norm": grown}), PARAMS)
    assert isinstance(quiet, Clear)
    assert 260 <= (one(make_signals({"train_loss": loss(), "grad_norm": grown})).onset_step or 0) <= 310


def test_slow_growth_begins_where_it_bends() -> None:
    for seed in range(8):
        grown = norm(seed, 0.3) * 200 ** (np.maximum(0, np.arange(N) - 400) / 600)
        found = one(make_signals({"train_loss": loss(seed), "grad_norm": grown}))
        assert 350 <= (found.onset_step or 0) <= 500


def test_growth_by_ever_more_strays_begins_with_the_first_of_them() -> None:
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        grown, since = norm(seed, 0.3), np.maximum(0, np.arange(N) - 400) / 600
        stray = rng.random(N) < np.minimum(3 * since, 0.8)
        grown[stray] *= 1 + 60 * since[stray] * rng.lognormal(0, 0.4, int(stray.sum()))
        outcome = gradient_explosion.detect(make_signals({"train_loss": loss(seed), "grad_norm": grown}), PARAMS)
        found += [outcome.findings[0].onset_step or 0] if isinstance(outcome, Fired) else []
    assert len(found) >= 6
    assert all(401 <= onset <= 500 for onset in found)


def density(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A log likelihood that falls below zero for long, and the norm that grows with its sureness."""
    at = np.arange(N) / N
    fall = 3 - 8 * np.log1p(20 * at) / np.log(21)
    rng = np.random.default_rng(seed)
    return fall + 0.15 * rng.standard_normal(N), norm(seed, 0.3) * 60 ** ((3 - fall) / 8)


def test_gradients_that_grow_as_a_loss_falls_below_zero_are_quiet() -> None:
    for seed in range(8):
        learns, grown = density(seed)
        quiet = gradient_explosion.detect(make_signals({"train_loss": learns, "grad_norm": grown}), PARAMS)
        assert isinstance(quiet, Clear), seed
        jumped = norm(seed, 0.3)
        jumped[600:] *= 30
        assert one(make_signals({"train_loss": learns, "grad_norm": jumped})).onset_step == pytest.approx(601, abs=2)
        still = np.minimum(learns, -2) + np.maximum(learns + 2, 0) * 0.05
        assert one(make_signals({"train_loss": still, "grad_norm": jumped}))


@pytest.mark.parametrize(("last", "told"), [(9000.0, [9]), (900.0, [])])
def test_a_norm_far_above_all_others_of_a_short_log(last: float, told: list[int]) -> None:
    grown = np.array([15.0, 9.8, 7.6, 92.0, 29.0, 5.2, 7.8, 7.7, last])
    outcome = gradient_explosion.detect(
        make_signals({"train_loss": 1.4 + 0.1 * norm()[:9], "grad_norm": grown}), PARAMS
    )
    assert [f.onset_step for f in (outcome.findings if isinstance(outcome, Fired) else ())] == told


def test_first_norms_of_a_short_log_are_quiet() -> None:
    grown = np.array([15.0, 9000.0, 7.6, 9.0, 29.0, 5.2, 7.8, 7.7, 5.0])
    outcome = gradient_explosion.detect(
        make_signals({"train_loss": 1.4 + 0.1 * norm()[:9], "grad_norm": grown}), PARAMS
    )
    assert isinstance(outcome, Clear)


@pytest.mark.parametrize(("scale", "size", "told"), [(2e9, 0.1, True), (2e9, 500.0, False), (65536.0, 0.1, False)])
def test_norms_beyond_all_scale_from_the_start(scale: float, size: float, told: bool) -> None:
    signals = make_signals({"train_loss": size * norm(1)[:40], "grad_norm": scale * norm(2)[:40]})
    outcome = gradient_explosion.detect(signals, PARAMS)
    assert isinstance(outcome, Fired if told else Clear)
    assert not isinstance(outcome, Fired) or outcome.findings[0].onset_step == 1


@pytest.mark.parametrize(("factor", "told"), [(3.3, False), (12.0, True)])
def test_what_stays_up_is_held_against_its_level_not_against_single_points(factor: float, told: bool) -> None:
    rng, at = np.random.default_rng(3), np.arange(500)
    norm = 0.7 * np.exp(rng.normal(0, 0.6, 500).clip(-1.5, 0.9)) * np.where(at < 60, 1, factor)
    loss = 2.5 * np.exp(rng.normal(0, 0.4, 500))
    outcome = gradient_explosion.detect(make_signals({"train_loss": loss, "grad_norm": norm}), PARAMS)
    assert isinstance(outcome, Fired) == told
