import numpy as np
import pytest
from curves import healthy
from factories import make_curve, make_signals

from trainforensics.signals.curve import Floats
from trainforensics.signals.losses import loss_events
from trainforensics.signals.running import running_mean


def means(raw: Floats, *starts: int) -> Floats:
    """The running mean of each part."""
    return np.concatenate([np.cumsum(part) / np.arange(1, len(part) + 1) for part in np.split(raw, starts)])


def starts_of(values: Floats, **roles: Floats) -> list[int]:
    curve = make_curve(values)
    mean = running_mean(make_signals([curve, *(make_curve(v, r) for r, v in roles.items())]), curve)
    return [] if mean is None else mean.starts.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_a_mean_over_all_values_so_far_is_known_by_its_moves(seed: int) -> None:
    raw = np.random.default_rng(seed).gamma(4, 0.03, 400)
    assert starts_of(means(raw)) == [0]
    assert starts_of(raw) == []
    assert starts_of(healthy(400, seed=seed)) == []
    assert starts_of(raw[:30]) == []
    assert starts_of(7 + 5 / (1 + np.arange(400) / 10) + 1e-3 * raw) == []


@pytest.mark.parametrize(("seed", "logged"), [(0, True), (1, True), (2, True), (3, True), (0, False), (1, False)])
def test_a_mean_that_begins_again_with_each_epoch(seed: int, logged: bool) -> None:
    rng = np.random.default_rng(seed)
    raw = 0.3 + 1.8 * np.exp(-np.arange(1500) / 500) + 0.2 * rng.normal(size=1500)
    roles = {"epoch": np.arange(1500) // 500 * 1.0} if logged else {}
    assert starts_of(means(raw, 500, 1000), **roles) == [0, 500, 1000]
    assert loss_events(make_signals({"train_loss": means(raw, 500, 1000), **roles})) == ()


def test_what_is_averaged_is_judged() -> None:
    raw = 0.3 + 1.8 * np.exp(-np.arange(1500) / 500) + 0.05 * np.random.default_rng(0).normal(size=1500)
    raw[900] += 2.0
    epoch = np.arange(1500) // 500 * 1.0
    signals = make_signals({"train_loss": means(raw, 500, 1000), "epoch": epoch})
    curve = signals.curve("train_loss")
    assert curve is not None
    mean = running_mean(signals, curve)
    assert mean is not None
    assert mean.behind is not None
    assert mean.behind.value == pytest.approx(raw, abs=1e-9)
    (event,) = loss_events(signals)
    assert (event.onset_step, event.excursion.recovery) == (901, "recovered")
    assert "behind its running mean" in event.curve.name


def test_rounding_that_hides_the_values_leaves_the_mean_to_be_judged() -> None:
    raw = 0.3 + 0.02 * np.random.default_rng(0).normal(size=2000)
    signals = make_signals({"train_loss": np.round(means(raw), 4)})
    curve = signals.curve("train_loss")
    assert curve is not None
    mean = running_mean(signals, curve)
    assert mean is not None
    assert mean.throughout
    assert mean.behind is None
    assert loss_events(signals) == ()


def test_noise_that_shrinks_with_the_loss_is_no_mean() -> None:
    """Where a positive loss falls like 1/k, its moves times k are steady too; the values behind would be negative."""
    k = np.arange(1, 601)
    loss = 0.1 + 5 / k * (1 + 0.3 * np.random.default_rng(1).normal(size=600)) ** 2
    assert starts_of(loss) == []


def test_a_mean_that_forgets_later_is_known_by_its_beginning() -> None:
    raw = np.random.default_rng(3).gamma(4, 0.03, 600)
    window = np.convolve(raw, np.ones(100) / 100, "valid")
    curve = make_curve(np.append(means(raw[:100]), window))
    mean = running_mean(make_signals([curve]), curve)
    assert mean is not None
    assert not mean.throughout
    assert mean.begins(20)
    assert not mean.begins(80)


def test_a_smooth_rise_is_no_mean_to_look_behind() -> None:
    """A straight line is the running mean of another one."""
    rise = 0.7 + np.linspace(0, 1, 200)
    assert starts_of(rise) == []
    (event,) = loss_events(make_signals({"train_loss": np.append(0.72 - 0.001 * np.arange(20), rise)}))
    assert event.lasting


def test_a_mean_begins_again_after_each_evaluation() -> None:
    rng = np.random.default_rng(2)
    values = 1.5 * np.exp(-np.arange(900) / 200) + 0.5 + 0.1 * rng.standard_normal(900)
    shown = np.concatenate([np.cumsum(part) / np.arange(1, 91) for part in np.split(values, 10)])
    evaluations = make_curve(np.linspace(2, 1, 10), "val_loss", step=90 * np.arange(1, 11), series_id=1)
    mean = running_mean(make_signals([make_curve(shown), evaluations]), make_curve(shown))
    assert mean is not None
    assert mean.starts.tolist() == list(range(0, 900, 90))


@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("width", [80, 150])
def test_what_is_behind_a_mean_over_the_last_values_is_judged(seed: int, width: int) -> None:
    raw = 0.11 * np.exp(0.5 * np.random.default_rng(seed).normal(size=1200))
    shown = np.array([raw[max(0, i + 1 - width) : i + 1].mean() for i in range(len(raw))])
    curve = make_curve(shown)
    mean = running_mean(make_signals([curve]), curve)
    assert mean is not None
    assert mean.behind is not None
    np.testing.assert_allclose(mean.behind.value, raw, rtol=1e-6)
    assert loss_events(make_signals({"train_loss": np.round(shown, 4)})) == ()
