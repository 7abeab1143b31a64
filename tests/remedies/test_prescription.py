from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given, settings
from hypothesis import strategies as st
from incidents_factory import make_incident

from trainforensics.causes.hypotheses import by_cause
from trainforensics.kinds import KINDS
from trainforensics.model import Blame, Cause, Checkpoint, Incident, Suspect
from trainforensics.remedies import prescribe
from trainforensics.signals import Signals

N = 1000


def run(config: dict[str, Any] | None = None, checkpoints: tuple[int, ...] = (200, 400, 600), **roles: Any) -> Signals:
    roles = {"train_loss": np.full(N, 2.0), **roles}
    saved = [Checkpoint(step, "folder") for step in checkpoints]
    return make_signals(roles, step=np.arange(N), checkpoints=saved, config=config)


def treat(incident: Incident, signals: Signals, *others: Incident) -> Incident:
    return prescribe((incident, *others), signals)[0]


def actions(incident: Incident, signals: Signals, *others: Incident) -> str:
    return "\n".join(f"{r.action} | {r.why} | {r.confirm}" for r in treat(incident, signals, *others).remediation)


def because(cause: str, confidence: float = 0.8) -> tuple[Cause, ...]:
    return (Cause(cause, confidence),)


def test_a_nan_goes_back_to_the_clean_checkpoint_first() -> None:
    found = treat(make_incident("nan-onset", 700, recovery="unrecovered"), run())
    assert found.safe_checkpoint is not None
    assert found.safe_checkpoint.step == 600
    assert found.remediation[0].action == "Roll back to checkpoint 600"


def test_a_nan_caused_by_the_root_is_treated_at_the_root() -> None:
    root = make_incident("scale-decay", 500, role="loss_scale")
    effect = make_incident("nan-onset", 700, caused_by=root.id)
    done = prescribe((root, effect), run())
    assert done[0].remediation[0].action == "Roll back to checkpoint 400"
    assert done[1].remediation == ()


def test_a_recovered_burst_is_not_rolled_back() -> None:
    burst = make_incident(onset=700, recovery="recovered", causes=because("bad-batch"))
    assert "Roll back" not in actions(burst, run())
    for recovery, back in (("recovered", False), ("unrecovered", True), ("partial", True)):
        chosen = treat(replace(burst, recovery=recovery), run()).safe_checkpoint
        assert chosen is not None
        assert (chosen.step, chosen.go_back) == (600, back)


def test_a_convicted_shard_is_skipped_a_possible_one_inspected() -> None:
    def with_suspect(confidence: float) -> Incident:
        blame = Blame((699, 700), "logged", (Suspect("shard", "17", confidence, 1e-5, (100, 700), "fed 2 of 2"),))
        return make_incident(onset=700, blame=blame, causes=because("bad-shard"))

    assert "Skip shard 17 (0.90)" in actions(with_suspect(0.9), run())
    assert "Inspect shard 17 (0.30)" in actions(with_suspect(0.3), run())


def test_without_suspects_the_window_is_named() -> None:
    incident = make_incident(onset=700, blame=Blame((690, 700), None), causes=because("bad-batch"))
    assert "steps 690-700" in actions(incident, run())


def test_the_rate_is_this_run_s_and_halved() -> None:
    rate = np.full(N, 6e-4)
    text = actions(make_incident("gradual-rise", 700, causes=because("learning-rate")), run(learning_rate=rate))
    assert "from 0.0006 to 0.0003" in text


def test_a_rate_from_the_configuration_serves_as_well() -> None:
    text = actions(make_incident("divergence", 700, causes=because("learning-rate")), run({"optim": {"lr": 1e-2}}))
    assert "from 0.01 to 0.005" in text


def test_an_unlikely_rate_is_left_alone() -> None:
    assert "learning rate" not in actions(make_incident(onset=700, causes=because("learning-rate", 0.05)), run())


def test_warm_up_in_steps_and_as_a_share() -> None:
    rate = np.minimum(np.arange(1, N + 1) / 5, 1.0) * 1e-3
    text = actions(make_incident("divergence", 30, causes=because("warmup")), run(learning_rate=rate))
    assert "from 4 to 20 steps (2.0% of 999)" in text


def test_clipping_at_the_healthy_norms_of_this_run() -> None:
    norm = np.linspace(0.5, 1.5, N)
    norm[700:720] = 90.0
    incident = make_incident(onset=700, end_step=720, causes=because("bad-batch"))
    text = actions(incident, run({"max_grad_norm": 5.0}, grad_norm=norm))
    healthy = np.quantile(np.r_[norm[100:700], norm[721:]], 0.95)
    assert f"Clip gradients by norm at {healthy:.3g} (now 5)" in text
    assert "not a diagnosis" in text


@pytest.mark.parametrize(("onset", "text"), [(2, "norm at 1.0 |"), (500, "norm at 2 |")])
def test_the_norms_of_a_run_that_never_came_back_are_not_healthy(onset: int, text: str) -> None:
    norm = np.where(np.arange(N) < onset, 2.0, 1e90)
    incident = make_incident("divergence", onset, recovery="unrecovered", causes=because("learning-rate"))
    assert f"Clip gradients by {text}" in actions(incident, run(grad_norm=norm))


def test_a_threshold_that_is_tight_already_stays() -> None:
    norm = np.full(N, 1.0)
    assert "Clip" not in actions(make_incident(onset=700), run({"max_grad_norm": 1.0}, grad_norm=norm))


def test_overflow_asks_for_bf16_and_names_the_scale() -> None:
    scale = np.where(np.arange(N) < 500, 65536.0, 1.0)
    incident = make_incident("scale-decay", 500, role="loss_scale", causes=because("numeric-overflow"))
    text = actions(incident, run(loss_scale=scale))
    assert "bf16" in text
    assert "highest 65536, last 1" in text


def test_beta2_of_this_run() -> None:
    incident = make_incident("gradual-rise", 700, causes=because("optimizer-state"))
    assert "from 0.999 to 0.95" in actions(incident, run({"optimizer.adam_beta2": 0.999}))


def test_over_fitting_names_the_best_evaluation_and_early_stopping() -> None:
    step = np.arange(0, N, 50)
    val = 2 + ((step - 300) / 500) ** 2
    signals = run({"weight_decay": 0.01}, val_loss=make_curve_at(step, val))
    found = treat(make_incident("val-divergence", 350, role="val_loss"), signals)
    text = "\n".join(f"{r.action} | {r.why}" for r in found.remediation)
    assert "Use checkpoint 200, the nearest to step 300" in text
    assert "would have stopped at 450" in text
    assert "weight decay (now 0.01)" in text
    assert found.safe_checkpoint is not None
    assert found.safe_checkpoint.step == 200


@pytest.mark.parametrize(("kept", "asked"), [((N - 1,), "train again"), ((), "Use the checkpoint nearest to step 300")])
def test_over_fitted_weights_are_not_recommended(kept: tuple[int, ...], asked: str) -> None:
    step = np.arange(0, N, 50)
    signals = run(val_loss=make_curve_at(step, 2 + ((step - 300) / 500) ** 2))
    signals = replace(signals, checkpoints=tuple(Checkpoint(c, "folder") for c in kept))
    found = treat(make_incident("val-divergence", 350, role="val_loss"), signals)
    assert asked in found.remediation[0].action
    assert "300" in found.remediation[0].action


@pytest.mark.parametrize(("config", "advised"), [({"fp16": True}, True), ({"precision": "fp32"}, False)])
def test_a_run_in_fp32_is_not_told_to_use_it(config: dict[str, Any], advised: bool) -> None:
    text = actions(make_incident("nan-onset", 700, causes=because("numeric-overflow")), run(config))
    assert ("Train in bf16" in text) == advised
    assert "numeric-overflow" in text


def test_what_training_does_meanwhile_is_said_only_where_it_is_seen() -> None:
    step = np.arange(0, N, 50)
    val = make_curve_at(step, 2 + ((step - 300) / 500) ** 2)
    incident = make_incident("val-divergence", 350, role="val_loss")
    falling = run(val_loss=val, train_loss=np.linspace(3, 1, N))
    assert "while the training loss goes on falling" in actions(incident, falling)
    assert "falling" not in actions(incident, run(val_loss=val))
    alone = make_signals({"val_loss": val})
    assert "no training loss is logged" in actions(incident, alone)
    odd = replace(alone, unmapped=(make_curve(np.linspace(1, 2, N), "train_loss"),))
    assert "no training loss is recognised" in actions(incident, odd)


def make_curve_at(step: np.ndarray, value: np.ndarray) -> Any:
    return make_curve(value, "val_loss", step=step)


def test_the_likely_causes_are_treated_in_their_order() -> None:
    norm = np.full(N, 1.0)
    blame = Blame((699, 700), "logged", (Suspect("doc", "13", 0.9, 1e-5, (700,), "fed 2 of 2"),))
    causes = tuple(
        Cause(c, 0.2) for c in ("bad-batch", "optimizer-state", "learning-rate", "numeric-overflow", "labels")
    )
    incident = make_incident("nan-onset", 700, recovery="unrecovered", blame=blame, causes=causes)
    found = treat(incident, run({"beta2": 0.999}, grad_norm=norm, learning_rate=np.full(N, 1e-3))).remediation
    starts = [
        "Roll back",
        "Skip doc",
        "Lower beta2",
        "Halve",
        "Train in bf16",
        "Count the unmasked",
        "Clip",
        "If it recurs",
    ]
    assert [next(i for i, s in enumerate(starts) if r.action.startswith(s)) for r in found] == list(range(len(starts)))


@pytest.mark.parametrize("cause", sorted(by_cause()))
def test_every_cause_that_leads_has_a_remedy(cause: str) -> None:
    incident = make_incident("hang", 700, causes=because(cause), blame=Blame((690, 700), None))
    assert treat(incident, run()).remediation


def test_a_lost_scaler_state_is_to_be_saved() -> None:
    scale = np.where(np.arange(N) < 700, 1024.0, 65536.0)
    incident = make_incident("resume-discontinuity", 700, causes=because("loss-scaling", 0.96))
    text = actions(incident, run(loss_scale=scale))
    assert "Save the gradient scaler's state" in text
    assert "1024 before the restart and 65536 after it" in text
    assert "bf16" not in text


def test_only_what_is_logged_can_confirm() -> None:
    slow = make_incident("gradual-rise", 700, causes=because("learning-rate"))
    assert "the loss stays on its course" in actions(slow, run())
    assert "the gradient norm stays on its course" in actions(slow, run(grad_norm=np.full(N, 1.0)))
    experts = make_incident("expert-collapse", 700, role="expert_load", series="load/max")
    assert "entropy" not in actions(experts, run(expert_load=np.full(N, 0.5)))
    assert "the router's entropy comes back" in actions(experts, run(router_entropy=np.full(N, 0.5)))


def test_a_slow_loader_is_profiled_and_a_plateau_tries_both_ways() -> None:
    assert "Profile the loading" in actions(make_incident("throughput-drop", 700, causes=because("dataloader")), run())
    assert "sampler restores" in actions(
        make_incident("resume-discontinuity", 700, causes=because("dataloader")), run()
    )
    text = actions(make_incident("plateau", 700, causes=because("learning-rate")), run({"lr": 0.01}))
    assert "three times and at a third of 0.01" in text
    assert "Halve" not in text


def test_a_collapsed_policy_is_watched_by_its_reward() -> None:
    collapsed = make_incident("rl-collapse", 700, role="kl", series="kl", causes=because("learning-rate"))
    assert "the reward stays on its course" in actions(collapsed, run(reward=np.ones(N), grad_norm=np.ones(N)))


def test_nothing_lies_before_the_first_row() -> None:
    signals = run(checkpoints=())
    assert "Roll back" not in actions(make_incident("divergence", 0, recovery="unrecovered"), signals)
    assert "Roll back" in actions(make_incident("divergence", 700, recovery="unrecovered"), signals)


def test_low_findings_get_no_prescription() -> None:
    incident = replace(make_incident(onset=700), severity="low")
    assert treat(incident, run()).remediation == ()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.one_of(st.none(), st.integers(0, N + 100)), st.booleans())
def test_every_remedy_says_why_and_what_would_confirm_it(kind: str, onset: int | None, recovered: bool) -> None:
    causes = tuple(Cause(c, 0.2) for c in ("learning-rate", "warmup", "labels", "optimizer-state", "loss-scaling"))
    incident = make_incident(kind, onset, recovery="recovered" if recovered else "diverging", causes=causes)
    signals = run({"lr": 0.1}, grad_norm=np.full(N, 1.0), loss_scale=np.full(N, 8.0), val_loss=np.full(N, 2.0))
    assert all(r.action and r.why and r.confirm for r in treat(incident, signals).remediation)


@pytest.mark.parametrize("values", [[], [1.0], [np.nan] * 30])
def test_hardly_any_data_is_no_error(values: list[float]) -> None:
    signals = make_signals(
        dict.fromkeys(("train_loss", "grad_norm", "learning_rate", "val_loss", "loss_scale"), values)
    )
    causes = tuple(Cause(c, 0.2) for c in ("learning-rate", "warmup", "loss-scaling"))
    for kind in KINDS:
        treat(make_incident(kind, 20, causes=causes, recovery="diverging"), signals)
