"""bad-start, suspicious-low-loss, oscillation, plateau: one that fires and those that must stay quiet."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from curves import Floats, healthy
from factories import make_curve, make_signals

from trainforensics.detectors.loss import bad_start, oscillation, plateau, suspicious_low_loss
from trainforensics.model import Axis, Clear, Event, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals

RNG = np.random.default_rng(7)


def run(module: ModuleType, signals: Signals) -> Outcome:
    outcome: Outcome = module.detect(signals, {p.name: p.default for p in module.META.params})
    return outcome


def fall(n: int, start: float, floor: float, rate: float = 20) -> Floats:
    return floor + (start - floor) * np.exp(-rate * np.arange(n) / n)


NEW = "Some weights of {} were not initialized from the model checkpoint at ./m and are newly initialized: {}"


class TestBadStart:
    @pytest.mark.parametrize(
        ("names", "start", "told"),
        [
            ("['model.layers.0.self_attn.q_proj.weight', 'lm_head.weight']", 10.5, True),
            ("['model.layers.0.self_attn.q_proj.weight']", 1.5, False),
            ("['lm_head.weight', 'score.weight', 'pooler.dense.weight']", 10.5, False),
            ("['h.0.attn.masked_bias', 'h.0.attn.bias', 'layers.3.rotary_emb.inv_freq']", 10.5, False),
            ("['h.0.crossattention.c_attn.weight', 'layers.0.lora_A.weight']", 10.5, False),
        ],
    )
    def test_layers_that_are_new_tell_that_weights_were_not_loaded(self, names: str, start: float, told: bool) -> None:
        event = Event("warning", None, text=NEW.format("LlamaForCausalLM", names))
        curves = {"train_loss": fall(300, start, 0.6 * start), "eval_ppl": [900.0, 800.0]}
        signals = make_signals([make_curve(v, n if n == "train_loss" else None, name=n) for n, v in curves.items()])
        assert isinstance(run(bad_start, replace(signals, events=(event,))), Fired) is told

    config = {"model": {"vocab_size": 50257}}  # noqa: RUF012  (ln V = 10.8)

    def test_fires_on_a_loss_above_chance_that_stays(self) -> None:
        signals = make_signals({"train_loss": fall(300, 23, 18), "val_loss": [1.4]}, step=None, config=self.config)
        outcome = run(bad_start, signals)
        assert isinstance(outcome, Fired)
        assert outcome.findings[0].onset_step == 1

    @pytest.mark.parametrize(("start", "floor"), [(11.0, 3.0), (40.0, 3.0)])
    def test_quiet_on_a_usual_start_and_on_a_high_one_that_falls(self, start: float, floor: float) -> None:
        signals = make_signals({"train_loss": fall(300, start, floor, 200)}, config=self.config)
        assert isinstance(run(bad_start, signals), Clear)

    def test_fires_far_above_chance_however_soon_it_comes_down(self) -> None:
        outcome = run(bad_start, make_signals({"train_loss": fall(300, 60, 3, 40)}, config=self.config))
        assert isinstance(outcome, Fired)
        assert "comes down to" in outcome.findings[0].summary
        outcome = run(bad_start, make_signals({"train_loss": [740.6, 6.1, 5.3, 5.0]}, config=self.config))
        assert isinstance(outcome, Fired)
        assert isinstance(run(bad_start, make_signals({"train_loss": [14.6, 6.1, 5.3]}, config=self.config)), Clear)

    def test_what_never_comes_near_chance_is_a_sum(self) -> None:
        sums = {"train_loss": RNG.uniform(700, 3300, 200)}
        assert isinstance(run(bad_start, make_signals(sums, config=self.config)), NotApplicable)

    def test_a_perplexity_tells_a_sum_from_a_mean(self) -> None:
        cost, tested = (
            make_curve(fall(40, 147, 46, 4)),
            make_curve([74.6, 56.4], "val_loss", step=[20, 40], series_id=1),
        )
        perplexity = make_curve([11.1, 6.2], "val_metric", name="perplexity", step=[20, 40], series_id=2)
        assert isinstance(run(bad_start, make_signals([cost, tested, perplexity])), NotApplicable)
        high = make_curve(np.exp([74.6, 56.4]), "val_metric", name="perplexity", step=[20, 40], series_id=2)
        assert isinstance(run(bad_start, make_signals([cost, tested, high])), Fired)

    @pytest.mark.parametrize(("size", "width", "falls", "told"), [
        (1e7, 0.5, 1.0, True), (1e7, 0.5, 0.1, False), (1e7, 0.02, 1.0, False), (1e4, 0.5, 1.0, False),
    ])  # fmt: skip
    def test_targets_that_were_never_scaled(self, size: float, width: float, falls: float, *, told: bool) -> None:
        swings = np.exp(width * np.random.default_rng(0).standard_normal(30))
        loss = size * swings * np.geomspace(1, falls, 30)
        assert isinstance(run(bad_start, make_signals({"train_loss": loss})), Fired) is told
        values = make_curve(loss, None, name="LossV")
        assert isinstance(run(bad_start, make_signals([values])), Fired) is told

    def test_large_targets_that_are_learnt(self) -> None:
        swings = np.exp(0.3 * np.random.default_rng(0).standard_normal(300))
        assert isinstance(run(bad_start, make_signals({"train_loss": 6e9 * swings})), Fired)
        learnt = {"train_loss": 6e9 * swings * np.linspace(1, 0.6, 300)}
        assert not isinstance(run(bad_start, make_signals(learnt)), Fired)
        for gain, told in ((0.0, True), (100.0, False)):
            reward = make_curve(np.linspace(0, gain, 300) + 20 * np.log(swings), "reward", series_id=1)
            signals = make_signals([make_curve(6e9 * swings, None, name="value_loss"), reward])
            assert isinstance(run(bad_start, signals), Fired) is told

    @pytest.mark.parametrize("curve", ["reward", "negative"])
    def test_no_cross_entropy_has_a_start_of_chance(self, curve: str) -> None:
        loss = fall(300, 90, -3 if curve == "negative" else 50, 40)
        curves = {"train_loss": loss} | ({"reward": loss} if curve == "reward" else {})
        assert isinstance(run(bad_start, make_signals(curves, config=self.config)), NotApplicable)

    def test_says_when_chance_is_unknown(self) -> None:
        assert isinstance(run(bad_start, make_signals({"train_loss": fall(300, 90, 80)})), NotApplicable)

    def test_a_loss_summed_over_tokens_has_no_value_of_chance(self) -> None:
        signals = make_signals(
            [make_curve(fall(300, 230, 180), name="loss_sum", role="train_loss")], config=self.config
        )
        assert isinstance(run(bad_start, signals), NotApplicable)

    def test_says_when_the_start_is_missing(self) -> None:
        signals = make_signals({"train_loss": fall(300, 23, 18)}, step=np.arange(5000, 5300), config=self.config)
        assert isinstance(run(bad_start, signals), NotApplicable)


class TestSuspiciousLowLoss:
    def signals(self, loss: Floats, epochs: float) -> Signals:
        n = len(loss)
        return make_signals({"train_loss": loss, "epoch": np.linspace(0, epochs, n), "tokens_per_sec": np.full(n, 4e3)})

    def test_fires_when_new_data_are_known(self) -> None:
        outcome = run(suspicious_low_loss, self.signals(fall(200, 1.6, 0.01), 0.4))
        assert isinstance(outcome, Fired)

    def test_quiet_over_several_epochs(self) -> None:
        assert isinstance(run(suspicious_low_loss, self.signals(fall(200, 1.6, 0.01, 4), 10)), Clear)

    def test_quiet_on_a_usual_loss_and_on_a_sudden_zero(self) -> None:
        assert isinstance(run(suspicious_low_loss, self.signals(fall(200, 3, 1.5), 0.5)), Clear)
        stuck = np.where(np.arange(200) < 100, 1.0, 0.0)
        assert isinstance(run(suspicious_low_loss, self.signals(stuck, 0.5)), Clear)

    @pytest.mark.parametrize("start", [-300.0, 5.0])
    def test_fires_on_a_loss_without_bottom(self, start: float) -> None:
        outcome = run(suspicious_low_loss, make_signals({"train_loss": start - 900 * np.arange(80.0) ** 2}))
        assert isinstance(outcome, Fired)

    @pytest.mark.parametrize("rate", [3, 30])
    def test_quiet_on_a_log_likelihood_that_settles_below_zero(self, rate: float) -> None:
        assert isinstance(run(suspicious_low_loss, make_signals({"train_loss": fall(200, 4, -90, rate)})), Clear)


class TestOscillation:
    def test_fires_when_swings_grow_and_learning_stops(self) -> None:
        loss = fall(600, 2.4, 1.2, 30) + 0.01 * RNG.normal(size=600)
        loss[200:] += 0.3 * np.abs(RNG.normal(size=400))
        outcome = run(oscillation, make_signals({"train_loss": loss}))
        assert isinstance(outcome, Fired)
        onset = outcome.findings[0].onset_step
        assert onset is not None
        assert abs(onset - 201) <= 30

    @pytest.mark.parametrize("joins", [200, 205, 213, 224])
    def test_quiet_where_a_part_that_swings_joins_the_loss(self, joins: int) -> None:
        rng = np.random.default_rng(joins)
        part = np.where(np.arange(600) < joins, 0.0, 0.3 * np.abs(rng.normal(size=600)))
        loss = fall(600, 2.4, 1.2, 30) + 0.01 * rng.normal(size=600) + part
        total = make_curve(loss, "train_loss", name="total_loss")
        joining = make_curve(part, None, name="train/disc_loss", series_id=1)
        assert isinstance(run(oscillation, make_signals([total])), Fired)
        assert isinstance(run(oscillation, make_signals([total, joining])), Clear)

    def test_quiet_on_isolated_bursts_in_a_shrinking_loss(self) -> None:
        loss = 0.02 + 0.2 * np.exp(-np.arange(1200) / 60) * np.abs(1 + 0.3 * RNG.normal(size=1200))
        loss[130::47] += 40
        assert isinstance(run(oscillation, make_signals({"train_loss": loss})), Clear)

    def test_a_run_that_maximises_a_reward_is_not_judged(self) -> None:
        loss = np.append(0.001 * RNG.normal(size=300), RNG.normal(size=300))
        signals = make_signals({"train_loss": loss, "reward": np.linspace(0, 1, 600)})
        assert isinstance(run(oscillation, signals), NotApplicable)

    def test_quiet_when_the_loss_stands_above_its_old_level_with_all_its_swings(self) -> None:
        level = np.where(np.arange(600) < 300, 34.0, 178.0)
        loss = level * np.exp(0.1 * np.random.default_rng(3).normal(size=600))
        assert isinstance(run(oscillation, make_signals({"train_loss": loss})), Clear)

    def test_quiet_when_noise_grows_but_the_loss_falls(self) -> None:
        loss = 3 - np.arange(600) / 300 + np.where(np.arange(600) < 200, 0.01, 0.1) * RNG.normal(size=600)
        assert isinstance(run(oscillation, make_signals({"train_loss": loss})), Clear)

    def test_quiet_when_swings_were_there_from_the_start(self) -> None:
        loss = 1 + np.sin(np.arange(600) / 9) + 0.1 * RNG.normal(size=600)
        assert isinstance(run(oscillation, make_signals({"train_loss": loss})), Clear)


class TestPlateau:
    def noise(self, n: int = 300) -> Floats:
        return 0.02 * np.random.default_rng(8).normal(size=n)

    def test_fires_at_the_value_of_chance(self) -> None:
        outcome = run(
            plateau, make_signals({"train_loss": np.log(10) + self.noise(), "learning_rate": np.full(300, 1e-3)})
        )
        assert isinstance(outcome, Fired)
        assert outcome.findings[0].onset_step == 1

    def test_fires_under_a_rate_that_dropped_to_zero(self) -> None:
        rate = np.where(np.arange(300) < 120, 1e-3, 0.0)
        loss = np.where(np.arange(300) < 120, fall(300, 5, 2, 9), fall(300, 5, 2, 9)[120]) + self.noise()
        outcome = run(plateau, make_signals({"train_loss": loss, "learning_rate": rate}))
        assert isinstance(outcome, Fired)
        assert outcome.findings[0].onset_step == 121

    def test_fires_where_clipping_leaves_no_gradient(self) -> None:
        loss = np.where(np.arange(300) < 120, fall(300, 5, 2, 9), fall(300, 5, 2, 9)[120]) + self.noise()
        left = make_curve(np.where(np.arange(300) < 120, 0.9, 1e-5), "clip_ratio", name="clip_coef", series_id=1)
        outcome = run(plateau, make_signals([make_curve(loss), left]))
        assert isinstance(outcome, Fired)
        assert outcome.findings[0].onset_step == 121
        share = make_curve(left.value, "clip_ratio", name="clip_fraction", series_id=1)
        assert isinstance(run(plateau, make_signals([make_curve(loss), share])), Clear)

    @pytest.mark.parametrize("peak", [1e-9, 2e-8, 8e-8])
    def test_fires_under_a_rate_that_trains_nothing(self, peak: float) -> None:
        cosine = peak * np.minimum(np.arange(1, 301) / 20, 0.55 + 0.45 * np.cos(np.arange(300) / 96))
        loss = np.log(64) + self.noise()
        outcome = run(plateau, make_signals({"train_loss": loss, "learning_rate": cosine}))
        assert isinstance(outcome, Fired)
        assert "the learning rate never exceeds" in outcome.findings[0].summary
        quiet = (
            {"train_loss": loss, "learning_rate": 20 * cosine / peak * 1e-7},
            {"train_loss": loss - np.linspace(0, 0.2, 300), "learning_rate": cosine},
            {"train_loss": loss, "learning_rate": np.linspace(0, peak, 300)},
            {"train_loss": loss, "learning_rate": cosine, "reward": self.noise()},
        )
        for curves in quiet:
            assert isinstance(run(plateau, make_signals(curves)), Clear)

    @pytest.mark.parametrize("decimals", [6, 1])
    def test_fires_where_the_weights_stand_still(self, decimals: int) -> None:
        steps = np.arange(300)
        moving = 10 + 0.01 * np.minimum(steps, 120) + np.random.default_rng(2).normal(0, 1e-3, 300)
        norm = np.round(np.where(steps < 120, moving, moving[119]), decimals)
        loss = fall(300, 5, 2, 40)[np.minimum(steps, 120)] + self.noise()
        curves = {"train_loss": loss, "param_norm": norm, "learning_rate": np.full(300, 1e-3)}
        outcome = run(plateau, make_signals(curves))
        if decimals == 1:  # the norm rested as long while the weights moved
            assert isinstance(outcome, Clear)
            return
        assert isinstance(outcome, Fired)
        assert outcome.findings[0].onset_step == 120
        done = np.where(steps < 120, 1e-3, 1e-5)
        assert isinstance(run(plateau, make_signals(curves | {"learning_rate": done})), Clear)

    def test_fires_where_pairs_are_matched_at_random(self) -> None:
        loss = np.log(128) + 0.5 * np.exp(-np.arange(300) / 3) + 0.1 * self.noise()
        scale = np.full(300, 14.3)
        assert isinstance(run(plateau, make_signals({"train_loss": loss, "logit_scale": scale})), Fired)
        assert isinstance(run(plateau, make_signals({"train_loss": 0.9 * loss, "logit_scale": scale})), Clear)
        assert isinstance(run(plateau, make_signals({"train_loss": loss})), Clear)

    def test_fires_where_two_classes_are_guessed_even_in_few_points(self) -> None:
        loss = np.log(2) + 0.002 * np.random.default_rng(3).uniform(-1, 1, 12)
        assert isinstance(run(plateau, make_signals({"train_loss": loss})), Fired)
        assert isinstance(run(plateau, make_signals({"train_loss": loss - np.linspace(0, 0.02, 12)})), Clear)

    def test_fires_on_evaluations_alone(self) -> None:
        epochs = Axis("epoch", "epoch")
        loss = 0.139 + 0.01 * self.noise(10)
        outcome = run(plateau, replace(make_signals({"val_loss": loss}), axis=epochs))
        assert isinstance(outcome, Fired)
        assert outcome.findings[0].role == "val_loss"
        falling = make_signals({"val_loss": loss * np.linspace(1.2, 1, 10)})
        assert isinstance(run(plateau, replace(falling, axis=epochs)), NotApplicable)

    def test_a_rate_that_decays_from_the_start_is_no_warm_up(self) -> None:
        loss = -0.4986 + 0.05 * self.noise()
        curves = {"train_loss": loss, "learning_rate": 1e-3 * np.exp(-np.arange(300) / 60)}
        assert isinstance(run(plateau, make_signals(curves)), Fired)
        assert isinstance(run(plateau, make_signals(curves | {"learning_rate": curves["learning_rate"][::-1]})), Clear)

    def test_quiet_when_converged_or_decayed(self) -> None:
        assert isinstance(run(plateau, make_signals({"train_loss": fall(300, 5, 1.1, 60) + self.noise()})), Clear)
        decayed = np.clip(1 - np.arange(300) / 150, 0, 1) * 1e-3
        signals = make_signals({"train_loss": fall(300, 5, 1.1, 60) + self.noise(), "learning_rate": decayed})
        assert isinstance(run(plateau, signals), Clear)

    def test_quiet_at_ln2_during_warmup(self) -> None:
        loss = np.log(2) + 0.001 * self.noise()
        signals = make_signals({"train_loss": loss, "learning_rate": np.linspace(0, 1e-6, 300)})
        assert isinstance(run(plateau, signals), Clear)


@pytest.mark.parametrize("module", [bad_start, oscillation, plateau, suspicious_low_loss])
@pytest.mark.parametrize("values", [[], [1.0, 2.0, 3.0], [np.nan] * 50, [2.0] * 300, [1e300, -1e300] * 150])
def test_bad_input_is_answered(module: ModuleType, values: list[float]) -> None:
    signals = make_signals([make_curve(values)]) if values else make_signals({})
    assert isinstance(run(module, signals), Clear | NotApplicable | Fired)


def test_ordinary_runs_are_clear_of_all() -> None:
    n = 600
    signals = make_signals(
        {"train_loss": healthy(n), "epoch": np.linspace(0, 0.5, n), "learning_rate": np.full(n, 1e-3)},
        config={"vocab_size": 32000},
    )
    for module in (bad_start, oscillation, plateau, suspicious_low_loss):
        assert isinstance(run(module, signals), Clear)


def test_pairs_at_a_scale_that_no_batch_explains() -> None:
    """52 nats at a logit scale of 100: even among 65,536 pairs guessing costs 11."""
    curves = {"train_loss": fall(300, 52, 1, 10), "logit_scale": np.full(300, 100.0)}
    assert isinstance(run(bad_start, make_signals(curves)), Fired)
    curves["train_loss"] = fall(300, 10, 1, 60)
    assert isinstance(run(bad_start, make_signals(curves)), Clear)


class TestRewardsThatNeverRise:
    @pytest.mark.parametrize(("gain", "told"), [(0.0, True), (-1.0, True), (1.5, False)])
    def test_a_reward_without_a_trend(self, gain: float, told: bool) -> None:
        rng = np.random.default_rng(8)
        reward = -6 + rng.standard_normal(200) + gain * np.linspace(0, 1, 200)
        assert isinstance(run(plateau, make_signals({"reward": reward})), Fired) == told

    def test_what_is_solved_or_was_learnt_for_a_while_or_is_short_is_none(self) -> None:
        rng = np.random.default_rng(9)
        solved = np.where(rng.random(200) < 0.8, 500.0, 480.0)
        hump = -6 + rng.standard_normal(200) + 4 * np.exp(-(((np.arange(200) - 100) / 30) ** 2))
        for reward in (solved, hump, rng.standard_normal(40)):
            assert not isinstance(run(plateau, make_signals({"reward": reward})), Fired)

    def test_answers_of_a_language_model_may_begin_as_good_as_they_end(self) -> None:
        reward = 0.4 + 0.1 * np.random.default_rng(10).standard_normal(200)
        signals = make_signals({"reward": reward, "reward_std": np.full(200, 0.2)})
        assert not isinstance(run(plateau, signals), Fired)
