from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given
from hypothesis import strategies as st
from incidents_factory import make_incident

from trainforensics.model import Axis, Checkpoint, Incident, Precursor, SafeCheckpoint
from trainforensics.remedies.checkpoints import (
    best_checkpoint,
    duration,
    first_sign,
    safe_checkpoint,
)
from trainforensics.signals import Signals

N = 4000
EPOCHS = Axis("epoch", "epoch")


def run(*checkpoints: int, **more: object) -> Signals:
    curve = make_curve(np.full(N, 2.0), step=np.arange(N), time=1e9 + 10.0 * np.arange(N))
    tokens = make_curve(np.arange(N) * 1e6, "tokens_seen", step=np.arange(N))
    return make_signals([curve, tokens], checkpoints=[Checkpoint(c, "folder") for c in checkpoints], **more)  # type: ignore[arg-type]


def choose(incident: Incident, signals: Signals, *others: Incident) -> SafeCheckpoint:
    found = safe_checkpoint(incident, (incident, *others), signals)
    assert found is not None
    return found


def test_the_newest_that_lies_clearly_before_and_the_nearer_one_as_riskier() -> None:
    incident = make_incident(onset=3000, precursors=(Precursor("grad_norm", 2900, 100, ""),))
    found = choose(incident, run(1000, 1500, 2000, 2500, 2800, 3000, 3500))
    assert found.step == 2500
    assert [a.step for a in found.alternatives] == [2800, 2000]
    assert "riskier" in found.alternatives[0].why
    assert "400 steps before the first sign at 2900" in found.why


def test_what_going_back_costs_is_said() -> None:
    why = choose(make_incident(onset=3000), run(1000, 2000)).why
    assert "1999 steps" in why
    assert "2e+09 tokens" in why
    assert "5 h 33 min" in why


def test_a_checkpoint_after_the_first_nan_is_never_chosen() -> None:
    nan = make_incident("grad-nan", 1900)
    incident = make_incident("divergence", 2600, precursors=(Precursor("grad_norm", 1800, 800, ""),))
    found = choose(incident, run(1500, 1950, 2500), nan)
    assert found.step == 1500
    assert all(a.step < 1900 for a in found.alternatives)


def test_none_known_says_how_to_log() -> None:
    found = choose(make_incident(onset=300), run())
    assert found.step is None
    assert "log each checkpoint" in found.why


def test_all_after_the_first_sign_means_to_start_again() -> None:
    found = choose(make_incident(onset=300), run(500, 1000))
    assert found.step is None
    assert "start again" in found.why


def test_few_points_that_stand_for_much_need_less_distance() -> None:
    epochs = replace(run(*range(1, 51)), by_role={"train_loss": (make_curve(np.full(50, 2.0)),)}, axis=EPOCHS)
    found = choose(make_incident(onset=15, onset_interval=(14, 15)), epochs)
    assert found.step == 13
    assert found.why == "1 epoch before the first sign at 14; going back loses 37 epochs (to 50)"


def test_what_was_saved_before_a_restart_is_clean_of_what_came_with_it() -> None:
    segment = (np.arange(N) > 1502).astype(int)
    curve = make_curve(np.full(N, 2.0), step=np.arange(N), segment=segment)
    signals = make_signals([curve], checkpoints=[Checkpoint(c, "folder") for c in (500, 1000, 1500, 2000)])
    found = choose(make_incident("resume-discontinuity", 1504, onset_interval=(1503, 1504)), signals)
    assert found.step == 1500
    assert "3 steps before the restart at 1503" in found.why
    assert choose(make_incident(onset=1504), signals).step == 1000


def test_where_saves_fail_the_last_good_one_is_named_and_nothing_is_lost() -> None:
    found = choose(make_incident("checkpoint-failure", 600), run(150, 300, 450))
    assert (found.step, found.alternatives) == (450, ())
    assert found.why == "the last good one before the failure at 600; a crash would fall back to it"
    none = choose(make_incident("checkpoint-failure", 600), run())
    assert (none.step, "no good one" in none.why) == (None, True)


def test_the_only_one_nearby_comes_with_a_warning() -> None:
    found = choose(make_incident(onset=305), run(300, 1300))
    assert found.step == 300
    assert "closely" in found.why


def evaluated(*checkpoints: int) -> Signals:
    """The best evaluation is at 300."""
    step = np.arange(0, 1001, 50)
    curve = make_curve(2 + ((step - 300) / 500) ** 2, "val_loss", step=step)
    return make_signals([curve], checkpoints=[Checkpoint(c, "folder") for c in checkpoints])


def test_the_best_evaluation_s_checkpoint_lies_before_the_onset() -> None:
    found = best_checkpoint(evaluated(100, 350), onset=340)
    assert found is not None
    assert (found.step, "none is saved" in found.why) == (100, False)


def test_a_checkpoint_after_the_onset_is_not_passed_off_as_clean() -> None:
    found = best_checkpoint(evaluated(500, 1000), onset=450)
    assert found is not None
    assert found.step == 500
    assert "none is saved before the onset at 450" in found.why


def test_a_checkpoint_of_the_over_fitted_end_is_of_no_use() -> None:
    found = best_checkpoint(evaluated(1000), onset=450)
    assert found is not None
    assert found.step is None
    assert "no usable checkpoint was kept: even the nearest, 1000, stands at 3.96" in found.why


def test_a_checkpoint_at_the_peak_of_a_double_descent_is_of_no_use() -> None:
    step = np.arange(0, 1001, 50)
    peaked = make_curve(3 - step / 500 + 3 * np.exp(-(((step - 400) / 100) ** 2)), "val_loss", step=step)
    signals = [make_signals([peaked], checkpoints=[Checkpoint(c, "folder")]) for c in (400, 950)]
    chosen = [best_checkpoint(run, onset=300) for run in signals]
    assert [c.step for c in chosen if c is not None] == [None, 950]


def test_without_onset_there_is_no_choice() -> None:
    assert safe_checkpoint(make_incident(onset=None), (), run(100)) is None


@given(st.lists(st.integers(0, N), max_size=12), st.integers(1, N), st.integers(0, 500))
def test_a_choice_always_lies_before_every_sign(steps: list[int], onset: int, lead: int) -> None:
    incident = make_incident(onset=onset, precursors=(Precursor("grad_norm", max(0, onset - lead), lead, ""),))
    found = choose(incident, run(*steps))
    chosen = [s for s in (found.step, *(a.step for a in found.alternatives)) if s is not None]
    sign = first_sign(incident)
    assert sign is not None
    assert all(s < sign and s in steps for s in chosen)
    assert (found.step is None) == (not any(s < sign for s in steps))


@pytest.mark.parametrize(("seconds", "text"), [(12, "12 s"), (300, "5 min"), (11_400, "3 h 10 min")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
