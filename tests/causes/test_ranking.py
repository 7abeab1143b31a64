from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given, settings
from hypothesis import strategies as st
from incidents_factory import make_incident

from trainforensics.causes import hypotheses, rank
from trainforensics.causes.hypotheses import by_cause
from trainforensics.kinds import KINDS
from trainforensics.model import Blame, Cause, Event, Evidence, Incident, Suspect
from trainforensics.signals import Signals

N, ONSET = 400, 300
CLASSES = {
    "learning-rate", "warmup", "bad-batch", "bad-shard", "numeric-overflow", "loss-scaling", "optimizer-state",
    "initialisation", "incomplete-checkpoint", "data-shift", "eval-change", "overfitting", "batch-size", "rank-desync",
    "hardware", "network", "dataloader", "labels", "frozen-graph", "reward-signal", "normalisation", "batch-norm",
    "environment", "comm-race", "capacity", "storage", "memory-leak", "router", "attention", "schedule",
    "logging-artefact",
}  # fmt: skip


def noise(level: float = 1.0, seed: int = 0, n: int = N) -> np.ndarray:
    return level * (1 + 0.05 * np.random.default_rng(seed).standard_normal(n))


def run(
    step: Any = None, events: tuple[Event, ...] = (), config: dict[str, Any] | None = None, **roles: Any
) -> Signals:
    roles = {"train_loss": noise(2.5), **roles}
    return make_signals(roles, step=np.arange(N) if step is None else step, events=events, config=config)


def causes(incident: Incident, signals: Signals, *others: Incident) -> tuple[Cause, ...]:
    return rank((incident, *others), signals)[0].causes


def top(incident: Incident, signals: Signals, *others: Incident) -> str:
    return causes(incident, signals, *others)[0].cause


def spike(series: np.ndarray, factor: float = 4, length: int = 1) -> np.ndarray:
    series = series.copy()
    series[ONSET : ONSET + length] *= factor
    return series


def burst(**fields: Any) -> Incident:
    return make_incident("instant-burst", ONSET, **({"end_step": ONSET + 1, "recovery": "recovered"} | fields))


def test_hypotheses_are_the_taxonomy_s_classes() -> None:
    assert set(by_cause()) == CLASSES
    assert all(set(module.PRIORS) <= set(KINDS) for module in by_cause().values())


def test_every_module_of_a_hypothesis_is_listed() -> None:
    files = {path.stem for path in Path(hypotheses.__file__).parent.glob("*.py")}
    assert files == {"__init__", *hypotheses.HYPOTHESES}


def test_a_burst_with_its_gradient_in_the_same_step_is_the_batch() -> None:
    signals = run(train_loss=spike(noise(2.5)), grad_norm=spike(noise(seed=1)))
    assert top(burst(), signals) == "bad-batch"


def test_gradients_that_crept_up_first_are_the_learning_rate() -> None:
    norm = noise(seed=1)
    norm[260:] *= np.exp(np.linspace(0, 3, N - 260))
    incident = make_incident("gradual-rise", ONSET, recovery="unrecovered", end_step=N - 1)
    assert top(incident, run(grad_norm=norm, learning_rate=np.full(N, 1e-3))) == "learning-rate"


def test_a_rate_that_jumped_is_the_learning_rate_whatever_the_gradient_did() -> None:
    signals = run(
        train_loss=spike(noise(2.5)), grad_norm=spike(noise(seed=1)), learning_rate=spike(np.full(N, 1e-3), 60, 3)
    )
    found = causes(burst(), signals)
    assert found[0].cause == "learning-rate"
    assert any("jumped 60-fold" in text for text in found[0].for_)


def test_a_slow_return_without_other_signals_is_not_the_batch() -> None:
    fast = {c.cause: c.confidence for c in causes(burst(), run())}
    slow = {c.cause: c.confidence for c in causes(burst(end_step=ONSET + 40), run())}
    assert slow["learning-rate"] > slow["bad-batch"]
    assert fast["bad-batch"] > fast["learning-rate"]


def test_a_loss_that_jumps_with_gradients_quiet_is_suspected_to_be_the_log() -> None:
    quiet = {c.cause: c.confidence for c in causes(burst(), run(grad_norm=noise(seed=1)))}
    same = {c.cause: c.confidence for c in causes(burst(), run(grad_norm=spike(noise(seed=1))))}
    assert quiet["logging-artefact"] > 3 * same.get("logging-artefact", 0.0)


def test_a_convicted_shard_is_the_cause() -> None:
    blame = Blame(
        (299, 300), "logged", (Suspect("shard", "17", 0.97, 1e-9, (ONSET,), "fed 5 of 5 events"),), ({"step": 300},)
    )
    found = causes(burst(blame=blame, occurrences=(100, 200, 300)), run(grad_norm=spike(noise(seed=1))))
    assert {found[0].cause, found[1].cause} == {"bad-shard", "bad-batch"}
    assert sum(c.confidence for c in found[:2]) > 0.9


def test_a_nan_in_fp16_is_an_overflow_before_anything_else() -> None:
    loss = noise(2.5)
    loss[ONSET:] = np.nan
    incident = make_incident("nan-onset", ONSET)
    assert top(incident, run(train_loss=loss, config={"fp16": True})) == "numeric-overflow"


@pytest.mark.parametrize("value", [-3e34, 3.4e38])
def test_a_loss_at_the_end_of_the_numbers_is_an_overflow(value: float) -> None:
    loss = noise(2.5)
    loss[ONSET] = value
    assert top(burst(), run(train_loss=loss)) == "numeric-overflow"


def test_a_plateau_under_a_rate_that_trains_nothing_is_the_rate() -> None:
    incident = make_incident("plateau", 0)
    found = {peak: causes(incident, run(learning_rate=np.full(N, peak))) for peak in (2e-8, 1e-3)}
    assert found[2e-8][0].cause == "learning-rate"
    assert found[2e-8][0].confidence > 0.7
    assert {c.cause: c.confidence for c in found[1e-3]}.get("learning-rate", 0.0) < 0.5


def test_a_nan_after_a_climb_is_the_learning_rate() -> None:
    loss = noise(2.5)
    loss[250:ONSET] *= np.linspace(1, 5, 50)
    loss[ONSET:] = np.nan
    incident = make_incident("nan-onset", ONSET)
    assert top(incident, run(train_loss=loss, config={"bf16": True})) == "learning-rate"


def test_one_rank_s_nan_is_its_data_or_its_hardware() -> None:
    blame = Blame((299, 300), None, (Suspect("rank", "5", 0.9, None, (ONSET,), "alone"),))
    assert top(make_incident("nan-onset", ONSET, blame=blame), run()) in ("bad-batch", "bad-shard", "hardware")


def test_a_loss_of_zero_from_the_start_is_the_labels() -> None:
    incident = make_incident("loss-zero", 0)
    assert top(incident, run(train_loss=np.zeros(N))) == "labels"


def test_a_loss_of_zero_with_zero_gradients_and_no_jump_is_the_labels() -> None:
    loss, norm = noise(2.5), noise(seed=1)
    loss[ONSET:], norm[ONSET:] = 0.0, 0.0
    assert top(make_incident("loss-zero", ONSET), run(train_loss=loss, grad_norm=norm)) == "labels"


def test_a_loss_of_zero_with_nan_gradients_is_an_overflow() -> None:
    loss, norm = noise(2.5), noise(seed=1)
    loss[ONSET:], norm[ONSET:] = 0.0, np.nan
    found = causes(make_incident("loss-zero", ONSET), run(train_loss=loss, grad_norm=norm, config={"fp16": True}))
    assert found[0].cause == "numeric-overflow"


def test_bursts_like_clockwork_are_the_loader() -> None:
    incident = burst(occurrences=tuple(range(100, N, 50)))
    assert top(incident, run(train_loss=spike(noise(2.5)))) == "dataloader"


def test_a_rise_with_gradients_quiet_throughout_is_the_data_unless_it_runs_away() -> None:
    loss = noise(2.5)
    loss[ONSET:370] *= 1.4
    incident = make_incident("gradual-rise", ONSET, recovery="recovered", peak_step=340, end_step=371)
    signals = run(train_loss=loss, grad_norm=noise(seed=1))
    assert top(incident, signals) == "data-shift"
    away = make_incident("gradual-rise", ONSET, recovery="diverging", peak_step=N - 1, end_step=N - 1)
    assert top(away, signals) != "data-shift"


def test_a_rise_that_gradients_share_is_the_learning_rate() -> None:
    loss, norm = noise(2.5), noise(seed=1)
    loss[ONSET:] *= np.linspace(1, 3, N - ONSET)
    norm[ONSET:] *= np.linspace(1, 6, N - ONSET)
    incident = make_incident("gradual-rise", ONSET, recovery="unrecovered", peak_step=N - 1, end_step=N - 1)
    assert top(incident, run(train_loss=loss, grad_norm=norm)) == "learning-rate"


def test_a_late_rise_of_the_rate_counts() -> None:
    rate = np.full(N, 1e-3)
    rate[250:] = np.geomspace(1e-3, 1e-1, N - 250)
    incident = make_incident("gradual-rise", ONSET, recovery="unrecovered", end_step=N - 1)
    found = causes(incident, run(learning_rate=rate))[0]
    assert found.cause == "learning-rate"
    assert any("from 249" in text or "from 250" in text for text in found.for_)


def test_gradients_of_exactly_zero_are_a_frozen_graph() -> None:
    incident = make_incident("vanishing-gradient", 0, role="grad_norm")
    assert top(incident, run(grad_norm=np.zeros(N))) == "frozen-graph"


def test_a_scale_that_only_falls_is_loss_scaling_or_overflow() -> None:
    scale = 65536.0 / 2.0 ** np.clip((np.arange(N) - 280) // 5, 0, 14)
    incident = make_incident("scale-decay", 285, role="loss_scale")
    assert top(incident, run(loss_scale=scale)) in ("loss-scaling", "numeric-overflow")


def test_a_scale_not_restored_explains_a_rough_resume() -> None:
    scale = np.where(np.arange(N) < ONSET, 1024.0, 65536.0)
    incident = make_incident("resume-discontinuity", ONSET)
    assert top(incident, run(loss_scale=scale, events=(Event("restart", ONSET),))) == "loss-scaling"


def test_a_bump_after_a_resume_is_the_optimiser_a_small_lasting_step_the_loader() -> None:
    bump, shift = noise(2.5), noise(2.5)
    bump[ONSET : ONSET + 40] *= 1 + np.exp(-np.arange(40) / 10)
    shift[ONSET:] *= 0.85
    norm = noise(seed=1)
    jumped = norm.copy()
    jumped[ONSET : ONSET + 40] *= 1 + 3 * np.exp(-np.arange(40) / 10)
    incident = make_incident("resume-discontinuity", ONSET)
    assert top(incident, run(train_loss=bump, grad_norm=jumped)) == "optimizer-state"
    assert top(incident, run(train_loss=shift, grad_norm=norm)) == "dataloader"


def test_a_loss_multiplied_at_a_restart_while_validation_goes_on_is_a_unit() -> None:
    factor = np.where(np.arange(N) < ONSET, 1.0, 4.0)
    val = make_curve(np.linspace(2.6, 2.4, 8), "val_loss", step=np.arange(0, N, 50))
    incident = make_incident("resume-discontinuity", ONSET, recovery="unrecovered")
    signals = run(train_loss=noise(2.5) * factor, grad_norm=noise(seed=1) * factor, val_loss=val)
    assert top(incident, signals) == "logging-artefact"


def test_validation_that_worsens_while_training_improves_is_overfitting() -> None:
    loss = 2.5 * np.exp(-np.arange(N) / 200)
    assert top(make_incident("val-divergence", 200, role="val_loss"), run(train_loss=loss)) == "overfitting"


def test_a_cause_repeats_the_numbers_of_the_evidence() -> None:
    value = np.append(noise(2.0, n=ONSET), noise(3.0, n=N - ONSET))
    row = Evidence("train_loss", ONSET, 3.25, 1.75, "")
    incident = make_incident("resume-discontinuity", ONSET, evidence=(row,))
    lives = make_signals([make_curve(value, "train_loss", segment=np.repeat([0, 1], [ONSET, N - ONSET]))])
    texts = [text for cause in causes(incident, lives) for text in (*cause.for_, *cause.against)]
    assert any("from 1.75 to 3.25" in text for text in texts)


def test_overflow_does_not_lead_in_fp32_without_evidence() -> None:
    loss = noise(2.5)
    loss[ONSET:] = np.nan
    signals = run(train_loss=loss, config={"precision": "fp32"})
    found = {cause.cause: cause for cause in causes(make_incident("nan-onset", ONSET), signals)}
    assert next(iter(found)) != "numeric-overflow"
    assert "fp32 with the same" not in "".join(cause.test for cause in found.values())
    assert "announced" not in "".join(found["numeric-overflow"].for_)


def test_a_rate_that_never_changed_is_no_evidence() -> None:
    def told(rate: np.ndarray) -> str:
        ranked = causes(make_incident("gradual-rise", ONSET), run(learning_rate=rate))
        return "".join(text for cause in ranked if cause.cause == "learning-rate" for text in cause.for_)

    assert "highest so far" not in told(np.full(N, 2e-3))
    assert "highest so far" in told(np.append(np.linspace(0, 2e-3, 20), np.full(N - 20, 2e-3)))


def test_batch_and_shard_are_told_apart_by_their_documents() -> None:
    shard = Suspect("shard", "7", 0.99, 1e-5, (ONSET,), "fed 8 of 8 events")
    doc = Suspect("doc", "402", 0.99, 1e-4, (ONSET,), "fed 5 of 8 events")

    def reasons(*suspects: Suspect) -> dict[str, Cause]:
        incident = burst(blame=Blame((ONSET - 10, ONSET), "logged", suspects, ({"step": ONSET, "doc": ["402"]},)))
        return {cause.cause: cause for cause in causes(incident, run())}

    few, many = reasons(shard, doc), reasons(shard)
    assert any("doc 402 recurs by itself" in text for text in few["bad-batch"].for_)
    assert any("doc 402 recurs by itself" in text for text in few["bad-shard"].against)
    assert any("no document recurs" in text for text in many["bad-shard"].for_)
    assert many["bad-shard"].confidence > few["bad-shard"].confidence


def test_a_slower_pace_blames_no_device_without_evidence() -> None:
    incident = make_incident("throughput-drop", ONSET, role="tokens_per_sec")
    assert top(incident, run()) == "unknown"
    hot = np.where(np.arange(N) < ONSET, 60.0, 90.0) + np.random.default_rng(0).normal(0, 0.5, N)
    assert top(incident, run(gpu_temperature=hot)) == "hardware"


def test_overfitting_is_less_sure_where_training_is_not_seen() -> None:
    incident, step = make_incident("val-divergence", 200, role="val_loss"), np.arange(N)
    falling = make_signals({"train_loss": 2.5 * np.exp(-step / 200), "val_loss": noise(2.0)}, step=step)
    unseen = make_signals({"val_loss": noise(2.0)}, step=step)
    sure, unsure = causes(incident, falling)[0], causes(incident, unseen)[0]
    assert sure.cause == unsure.cause == "overfitting"
    assert unsure.confidence < 0.6 < sure.confidence
    assert any("no training loss" in text for text in unsure.against)


def test_validation_that_jumps_alone_is_the_evaluation() -> None:
    assert top(make_incident("val-jump", ONSET, role="val_loss"), run()) == "eval-change"


def test_a_start_far_above_validation_is_a_unit() -> None:
    train, val = noise(23.0), np.full(N, 1.47)
    incident = make_incident("bad-start", 0)
    assert top(incident, run(train_loss=train, val_loss=val)) == "logging-artefact"


def test_the_log_s_own_words_count() -> None:
    warning = Event("warning", text="UserWarning: None of the inputs have requires_grad=True. Gradients will be None")
    incident = make_incident("vanishing-gradient", 0, role="grad_norm")
    found = causes(incident, run(grad_norm=np.full(N, 1e-7), events=(warning,)))
    assert found[0].cause == "frozen-graph"
    assert any("requires_grad" in text for text in found[0].for_)


def test_an_effect_of_a_wrong_schedule_says_so() -> None:
    root = make_incident("lr-anomaly", 290)
    effect = burst(caused_by=root.id)
    assert top(effect, run(), root) in ("learning-rate", "schedule")


def test_a_rate_of_zero_does_no_harm_and_may_be_an_effect() -> None:
    signals = run(learning_rate=np.zeros(N), loss_scale=np.ones(N), config={"fp16": True})
    rate, scale = make_incident("lr-anomaly", 1), make_incident("scale-decay", 1, role="loss_scale")
    ranked = rank((rate, scale), signals)
    assert all(i.causes[0].cause in ("loss-scaling", "numeric-overflow") for i in ranked)
    alone = causes(rate, run(learning_rate=np.zeros(N)))
    assert alone[0].cause == "schedule"


def test_unknown_wins_where_nothing_speaks_for_anything() -> None:
    found = causes(make_incident("suspect-shard", None), run())
    assert found
    lonely = causes(make_incident("skipped-steps", ONSET, role="skipped_steps"), run(config={"bf16": True}))
    assert "unknown" in [c.cause for c in lonely]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, N + 50), st.integers(0, 3))
def test_confidences_are_a_distribution_for_any_incident(kind: str, onset: int, seed: int) -> None:
    signals = run(grad_norm=noise(seed=seed), learning_rate=np.full(N, 1e-3), loss_scale=np.full(N, 1024.0))
    found = causes(make_incident(kind, onset), signals)
    assert found
    assert [c.confidence for c in found] == sorted((c.confidence for c in found), reverse=True)
    assert sum(c.confidence for c in found) <= 1.001
    assert len({c.cause for c in found}) == len(found)
    assert all(c.test for c in found)


@pytest.mark.parametrize("values", [[], [1.0], [np.nan] * 50, [1e300] * 50, [0.0] * 50])
def test_hardly_any_data_is_no_error(values: list[float]) -> None:
    signals = make_signals(
        dict.fromkeys(("train_loss", "grad_norm", "learning_rate", "loss_scale", "val_loss"), values)
    )
    with np.errstate(all="ignore"):
        for kind in KINDS:
            assert causes(make_incident(kind, 20), signals)


def test_a_damaged_file_is_to_be_read_from_its_writers_copy() -> None:
    step = np.delete(np.arange(N), [188, 189, 190, 250])
    row = Evidence("line 189", None, None, None, "bad-line: no JSON object")
    incident = make_incident("import-integrity", None, series="", role=None, evidence=(row,))
    found = causes(incident, run(step=step, train_loss=noise(n=len(step))))[0]
    assert found.cause == "logging-artefact"
    assert found.test.startswith("read line 189 (file under Warnings), steps 188-190, 250 missing, from the writer's")
