"""instant-burst, gradual-rise and divergence share one kernel; here each must report its share and only that."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from curves import SIGMA, Floats, burst, healthy, hump, ramp, step
from factories import make_curve, make_signals
from scipy.signal import lfilter

from trainforensics.detectors.loss import divergence, gradual_rise, instant_burst
from trainforensics.model import Clear, Event, Fired, NotApplicable

KINDS = (instant_burst, gradual_rise, divergence)


def fired(values: Floats) -> dict[str, Fired]:
    signals = make_signals({"train_loss": values})
    answers = {}
    for module in KINDS:
        outcome = module.detect(signals, {p.name: p.default for p in module.META.params})
        if isinstance(outcome, Fired):
            answers[module.META.kind.name] = outcome
    return answers


def climb_and_blow_up() -> Floats:
    values = ramp(healthy(1000), 500, 6 * SIGMA)
    values[800:] += np.minimum(np.arange(200) / 10, 1) * 4
    return values


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (healthy(), set()),
        (healthy(noise="heavy"), set()),
        (burst(healthy(), 300, 3.0), {"instant-burst"}),
        (hump(healthy(), 300, 80, 1.0), {"gradual-rise"}),
        (step(healthy(), 300, 2.0), {"divergence"}),
        (climb_and_blow_up(), {"gradual-rise", "divergence"}),
    ],
)
def test_each_shape_has_its_kind(values: Floats, kinds: set[str]) -> None:
    assert set(fired(values)) == kinds


def test_recurring_bursts_are_one_finding_with_every_onset() -> None:
    values = healthy(900)
    for at in (200, 400, 600, 800):
        values = burst(values, at, 3.0)
    (finding,) = fired(values)["instant-burst"].findings
    assert finding.occurrences == (201, 401, 601, 801)
    assert "4 bursts" in finding.summary


def test_every_burst_has_a_row_and_what_is_quoted_is_furthest_out() -> None:
    values = burst(burst(healthy(900), 200, 3.0), 600, 6.0)
    (finding,) = fired(values)["instant-burst"].findings
    rows = {row.step: row.value for row in finding.evidence}
    assert rows[201] == pytest.approx(values[200])
    assert rows[601] == pytest.approx(values[600])
    assert "furthest out of its noise: train_loss jumped from a level of 1.6" in finding.summary
    assert f"to {values[600]:.4g} at step 601" in finding.summary


def test_a_burst_is_told_with_the_step_of_each_of_its_numbers() -> None:
    values = healthy(900)
    (at_once,) = fired(burst(values, 200, 3.0))["instant-burst"].findings
    assert f"to {burst(values, 200, 3.0)[200]:.4g} at step 201, " in at_once.summary
    values[400:404] += (2.0, 2.5, 3.0, 1.0)
    (later,) = fired(values)["instant-burst"].findings
    assert (later.onset_step, later.peak_step) == (401, 403)
    assert f"at step 401, to {values[402]:.4g} at 403, " in later.summary


def test_a_climb_is_told_in_levels_and_with_validation() -> None:
    values = ramp(healthy(1000), 500, 2.0)
    val = make_curve([1.7, 1.62, 1.61, 2.4, 3.1], "val_loss", step=[100, 300, 500, 800, 1000], series_id=1)
    signals = make_signals({"train_loss": values, "val_loss": val})
    params = {p.name: p.default for p in divergence.META.params}
    outcome = divergence.detect(signals, params)
    assert isinstance(outcome, Fired)
    (finding,) = outcome.findings
    assert f"stands at {np.median(values[-16:]):.4g}; it never came back" in finding.summary
    row = next(row for row in finding.evidence if row.signal == "val_loss")
    assert (row.step, row.value, row.expected) == (1000, 3.1, 1.61)


@pytest.mark.parametrize("seed", range(4))
def test_bursts_in_squared_errors_that_span_decades(seed: int) -> None:
    """In log space such noise has its tail below; twenty bursts a hundred times the level stand out all the same."""
    rng = np.random.default_rng(seed)
    values = 0.05 * np.exp(-np.arange(1200) / 900) * rng.normal(size=1200) ** 2 + 1e-5
    at = 40 + 55 * np.arange(21) + rng.integers(0, 20, 21)
    values[at] = 30 * rng.uniform(0.7, 1.5, 21)
    (finding,) = fired(values)["instant-burst"].findings
    assert all(np.abs(at + 1 - onset).min() <= 1 for onset in finding.occurrences)
    assert len(finding.occurrences) >= 18


def test_a_second_climb_after_a_first_that_came_back_in_part_is_told_too() -> None:
    values = hump(healthy(1200), 400, 120, 2.0)
    values[560:] += 0.5
    values = burst(values, 1000, 2.0, decay=60)
    answers = fired(values)
    assert answers["gradual-rise"].findings[0].recovery == "partial"
    assert abs(answers["instant-burst"].findings[0].onset_step - 1001) <= 1


def test_a_rise_by_half_a_percent_is_no_divergence() -> None:
    """A bound that has next to no noise, as a term of it gains weight."""
    values = 1140 + 60 * np.exp(-np.arange(800) / 80) + 0.4 * np.random.default_rng(0).standard_normal(800)
    values[600:] += 0.03 * np.arange(200)
    assert "divergence" not in fired(values)
    assert "divergence" in fired(values - 1130)


def test_divergence_after_a_climb_begins_at_the_knee() -> None:
    answers = fired(climb_and_blow_up())
    (rise,), (blow_up,) = answers["gradual-rise"].findings, answers["divergence"].findings
    assert rise.onset_step is not None
    assert rise.onset_step < 700
    assert blow_up.onset_step is not None
    assert 780 <= blow_up.onset_step <= 813


def test_a_burst_in_the_last_points_is_no_divergence_yet() -> None:
    values = healthy()
    values[-3:] += 3.0
    answers = fired(values)
    assert set(answers) == {"instant-burst"}
    assert answers["instant-burst"].findings[0].recovery == "ongoing"


def test_confidence_grows_with_height() -> None:
    low = fired(burst(healthy(), 300, 1.3))["instant-burst"].findings[0].confidence
    high = fired(burst(healthy(), 300, 9.0))["instant-burst"].findings[0].confidence
    assert 0.7 < low < high <= 1


@pytest.mark.parametrize("module", KINDS)
def test_too_short_or_absent_is_said(module: ModuleType) -> None:
    assert isinstance(module.detect(make_signals({}), {}), NotApplicable)
    assert isinstance(module.detect(make_signals({"train_loss": [3.0, 2.0]}), {}), NotApplicable)


@pytest.mark.parametrize("module", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_healthy_controls_are_clear(module: ModuleType, seed: int) -> None:
    params = {p.name: p.default for p in module.META.params}
    stairs = healthy(1000, seed) - 0.5 * (np.arange(1000) // 300)
    for values in (stairs, healthy(1000, seed, "skewed"), healthy(60, seed)):
        assert isinstance(module.detect(make_signals({"train_loss": values}), params), Clear)


@pytest.mark.parametrize("value", [-1e34, 3.4e38])
def test_an_absurd_value_of_either_sign_is_a_burst(value: float) -> None:
    for noise in ("normal", "heavy", "skewed"):
        values = healthy(600, 1, noise)
        values[250] = value
        answers = fired(values)
        assert set(answers) == {"instant-burst"}
        assert answers["instant-burst"].findings[0].occurrences == (251,)
        assert len(answers["instant-burst"].findings[0].summary) < 150


@pytest.mark.parametrize(("level", "named"), [(3.48, False), (3.62, True)])
def test_a_step_beyond_which_validation_is_better_is_no_divergence(level: float, named: bool) -> None:
    rng = np.random.default_rng(5)
    loss = np.r_[np.full(280, 3.47), np.full(20, 3.65)] + 0.008 * rng.standard_normal(300)
    held = np.r_[np.full(280, 3.54), np.full(20, level)] + 0.005 * rng.standard_normal(300)
    params = {p.name: p.default for p in divergence.META.params}
    found = divergence.detect(make_signals({"train_loss": loss, "val_loss": held}), params)
    assert isinstance(found, Fired) is named


@pytest.mark.parametrize("seed", range(6))
def test_a_burst_that_dies_away_slowly_need_not_be_as_high(seed: int) -> None:
    noise = lfilter([1], [1, -0.3], 0.05 * np.random.default_rng(seed).standard_normal(1500))
    after = np.clip(np.arange(1500) - 900, 0, None)
    values = 3 + 2 * np.exp(-np.arange(1500) / 500) + noise + 0.4 * np.exp(-after / 60) * (np.arange(1500) >= 900)
    (found,) = fired(values)["instant-burst"].findings
    assert abs((found.onset_step or 0) - 901) <= 3


def test_in_a_game_only_what_towers_over_all_else_is_told() -> None:
    rng = np.random.default_rng(3)
    game = 12 + 8 * np.sin(np.arange(70) / 2) + 2 * rng.random(70)
    params = {p.name: p.default for p in instant_burst.META.params}

    def judged(values: Floats) -> object:
        return instant_burst.detect(make_signals([make_curve(values, "train_loss", name="loss_G")]), params)

    assert isinstance(judged(game), NotApplicable)
    game[40] = 90.0
    outcome = judged(game)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 41


@pytest.mark.parametrize(("shared", "told"), [(True, Fired), (False, NotApplicable)])
def test_in_a_game_two_losses_that_tower_in_one_row_are_told(shared: bool, told: type) -> None:
    rng = np.random.default_rng(3)
    params = {p.name: p.default for p in instant_burst.META.params}
    generator, other = 3 + 0.3 * rng.standard_normal(130), 0.15 + 0.03 * rng.standard_normal(130)
    generator[84] = 6.5
    other[84 if shared else 60] = 0.4
    curves = [make_curve(generator, "train_loss", name="loss_G"), make_curve(other, None, name="d_loss", series_id=2)]
    assert isinstance(instant_burst.detect(make_signals(curves), params), told)


@pytest.mark.parametrize("part", ["part of it", "same batch"])
def test_in_a_game_a_part_of_a_loss_that_towers_with_it_is_no_other_side(part: str) -> None:
    rng = np.random.default_rng(3)
    params = {p.name: p.default for p in instant_burst.META.params}
    drawn = 8 * np.exp(0.3 * rng.standard_normal(300))
    drawn[184] = 1.4 * np.delete(drawn, 184).max()
    other = drawn * np.exp(0.1 * rng.standard_normal(300)) if part == "same batch" else drawn - rng.random(300)
    curves = [make_curve(drawn, "train_loss", name="loss_G"), make_curve(other, None, name="loss_G_l1", series_id=2)]
    assert isinstance(instant_burst.detect(make_signals(curves), params), NotApplicable)


def test_bursts_beside_a_reward_are_remarks_unless_the_gradient_bursts_with_them() -> None:
    values, norm = burst(healthy(900), 400, 3.0), 1 + 0.1 * np.random.default_rng(0).standard_normal(900)
    params = {p.name: p.default for p in instant_burst.META.params}
    told = []
    for high in (norm, np.where(np.arange(900) == 400, 60.0, norm)):
        signals = make_signals({"train_loss": values, "reward": np.linspace(0, 1, 900), "grad_norm": high})
        outcome = instant_burst.detect(signals, params)
        assert isinstance(outcome, Fired)
        told.append(outcome.findings[0].severity)
    assert told == ["low", None]


@pytest.mark.parametrize(("said", "told"), [("Your loss is probably exploding.", 1), ("CUDA out of memory", 0)])
def test_a_rise_in_which_the_trainer_gives_up_is_a_divergence(said: str, told: int) -> None:
    values = healthy(400)
    values[-4:] += (1.0, 2.0, 3.0, 4.0)
    signals = replace(make_signals({"train_loss": values}), events=(Event("error", 400, text=said),))
    outcome = divergence.detect(signals, {p.name: p.default for p in divergence.META.params})
    assert len(outcome.findings if isinstance(outcome, Fired) else ()) == told


@pytest.mark.parametrize(("height", "together", "told"), [(16.0, True, True), (1.5, True, False), (16.0, False, False)])
def test_in_a_game_the_other_losses_tower_where_the_judged_one_does_not(
    height: float, together: bool, told: bool
) -> None:
    rng = np.random.default_rng(5)
    rows = {name: 0.3 + 0.4 * rng.random(30) for name in ("D_A", "G_A", "D_B", "G_B", "cycle_B")}
    rows["G_B"][12] = height
    rows["cycle_B"][12 if together else 20] = 0.4 * height
    curves = [make_curve(values, None, name=name, series_id=i) for i, (name, values) in enumerate(rows.items(), 1)]
    signals = make_signals([make_curve(2 + rng.random(30), "train_loss", name="cycle_A"), *curves])
    outcome = instant_burst.detect(signals, {p.name: p.default for p in instant_burst.META.params})
    assert isinstance(outcome, Fired) == told


@pytest.mark.parametrize(("left", "climbs", "told"), [(1e-4, 6.0, True), (0.5, 6.0, False), (1e-4, 1.0, False)])
def test_a_game_that_the_discriminator_has_won(left: float, climbs: float, told: bool) -> None:
    rng, n = np.random.default_rng(6), 160
    judge = 0.7 * np.exp(np.log(left) * np.minimum(np.arange(n) / 20, 1)) * np.exp(0.2 * rng.standard_normal(n))
    maker = 5 * (1 + (climbs - 1) * np.clip((np.arange(n) - 60) / 40, 0, 1)) * np.exp(0.1 * rng.standard_normal(n))
    curves = [make_curve(maker, "train_loss", name="g_loss"), make_curve(judge, None, name="d_loss", series_id=1)]
    outcome = divergence.detect(make_signals(curves), {p.name: p.default for p in divergence.META.params})
    assert isinstance(outcome, Fired) == told
