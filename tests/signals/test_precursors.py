import numpy as np
import pytest
from curves import SIGMA, burst, healthy, ramp
from factories import make_curve, make_signals

from trainforensics.signals.precursors import companions, precursors, reading


def grad_norm(n: int = 600, seed: int = 9) -> np.ndarray:
    return 1 + 0.1 * np.random.default_rng(seed).normal(size=n)


def test_a_creeping_gradient_norm_leads() -> None:
    signals = make_signals({"train_loss": ramp(healthy(), 400, 3.0), "grad_norm": ramp(grad_norm(), 300, 3.0)})
    (lead,) = precursors(signals, 420)
    assert lead.signal == "grad_norm"
    assert 60 <= lead.lead <= 120


def test_a_gradient_norm_that_jumps_with_the_loss_is_no_precursor() -> None:
    signals = make_signals({"train_loss": burst(healthy(), 300, 5.0), "grad_norm": burst(grad_norm(), 300, 8.0)})
    assert precursors(signals, 301) == ()


def test_a_gradient_burst_long_over_is_no_precursor() -> None:
    signals = make_signals({"train_loss": burst(healthy(), 400, 5.0), "grad_norm": burst(grad_norm(), 200, 8.0)})
    assert precursors(signals, 401) == ()


def test_reading_compares_with_the_level_before() -> None:
    seen = reading(make_curve(burst(grad_norm(), 300, 8.0), "grad_norm"), 301)
    assert seen is not None
    assert seen.expected == pytest.approx(1.0, abs=0.1)
    assert seen.value > 8
    assert seen.z > 40


def test_reading_needs_a_history() -> None:
    assert reading(make_curve([1.0, 2.0, 3.0], "grad_norm"), 2) is None


def test_companions_say_what_moved_and_what_did_not() -> None:
    signals = make_signals(
        {
            "train_loss": burst(healthy(), 300, 5.0),
            "grad_norm": burst(grad_norm(), 300, 8.0),
            "learning_rate": np.full(600, 1e-3),
        }
    )
    rows = {row.signal: row.text for row in companions(signals, 301)}
    assert rows["learning_rate"] == "as before"
    assert "times" in rows["grad_norm"]
    assert SIGMA < 1


def test_a_rate_that_moves_all_the_time_is_not_as_before() -> None:
    rate = 0.05 * (1 + (np.arange(600) / 100) ** 3)
    norm = 1 + 0.5 * np.random.default_rng(0).normal(0, 1, 600)
    norm[301] = 1.8
    rows = {row.signal: row.text for row in companions(make_signals({"learning_rate": rate, "grad_norm": norm}), 301)}
    assert rows["learning_rate"] == "on its course, from 1.01 at 269"
    assert rows["grad_norm"] == "within its noise"


def test_what_is_set_is_read_against_the_value_before() -> None:
    step = np.arange(600)
    rate = 1e-3 * (1 + np.cos(np.pi * step / 600)) / 2
    jumped = np.where(step >= 300, 3 * rate, rate)
    for value, text in ((rate, "on its course, from 0.000583 at 269"), (jumped, "2.98 times the level before")):
        (row,) = companions(make_signals({"learning_rate": value}), 301)
        assert row.text == text
        assert (row.step, row.expected) == (301, rate[299])


def test_a_drift_that_goes_on_is_no_precursor() -> None:
    drifting = grad_norm() * np.linspace(1.0, 2.2, 600)
    assert precursors(make_signals({"grad_norm": drifting}), 450) == ()


@pytest.mark.parametrize(("height", "seen"), [(0.15, False), (1.0, True)])
def test_a_precursor_stands_out_of_single_points_right_before(height: float, seen: bool) -> None:
    risen = grad_norm() + np.where(np.arange(600) >= 400, height, 0.0)
    found = precursors(make_signals({"grad_norm": risen}), 450)
    assert bool(found) is seen
    if seen:
        assert found[0].text.startswith("grad_norm left its level of 1")
        assert found[0].text.endswith("right before")


def test_a_policy_is_read_beside_its_loss() -> None:
    noise = np.random.default_rng(0).normal(0, 1e-3, 600)
    kl = 0.02 + noise + np.where(np.arange(600) >= 300, 0.4, 0.0)
    rows = {row.signal: row.text for row in companions(make_signals({"kl": kl, "entropy": 0.9 + noise}), 301)}
    assert "times the level before" in rows["kl"]
    assert rows["entropy"] in {"as before", "within its noise"}
