from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.compare.continuation import broken_borders
from trainforensics.model import Checkpoint, Event, Finding
from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats, Ints

N, EVERY = 400, 10
STEP = EVERY * np.arange(1, N + 1)


def course(seed: int = 0) -> Floats:
    return 2 + 2 * np.exp(-np.arange(N) / 120) + np.random.default_rng(seed).normal(0, 0.03, N)


def run(name: str, step: Ints, loss: Floats, epoch: Floats | None = None, val: Floats | None = None) -> Signals:
    curves = [make_curve(loss, "train_loss", step=step, name="loss")]
    if epoch is not None:
        curves.append(make_curve(epoch, "epoch", step=step, name="epoch", series_id=1))
    if val is not None:
        curves.append(make_curve(val, "val_loss", step=step[9::10], name="val_loss", series_id=2))
    signals: Signals = replace(make_signals(curves), run=name)
    return signals


def borders(*runs: Signals) -> list[tuple[str, Finding]]:
    pairs: Iterable[tuple[str, str]] = [(a.run, b.run) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    return list(broken_borders(list(pairs), {r.run: r for r in runs}))


@pytest.mark.parametrize("ends", [200, 260])
def test_a_run_that_does_not_join_the_one_it_goes_on_from(ends: int) -> None:
    first = run("x/version_0", STEP[:ends], course()[:ends])
    second = run("x/version_1", STEP[200:], course(1)[200:] + 0.8 * np.exp(-np.arange(200) / 20))
    for order in ((first, second), (second, first)):
        ((name, finding),) = borders(*order)
        assert (name, finding.kind, finding.onset_step) == ("x/version_1", "resume-discontinuity", STEP[200])
        assert "goes on from step 2010 of version_0" in finding.summary
        assert finding.scope.sibling == "x/version_0"


def test_what_was_set_otherwise_at_the_border_is_evidence() -> None:
    first = replace(run("x/version_0", STEP[:200], course()[:200]), config={"batch_size": 128, "lr": 1e-3, "name": "a"})
    later = run("x/version_1", STEP[200:], course(1)[200:] + 0.8 * np.exp(-np.arange(200) / 20))
    ((_, alike),) = borders(first, replace(later, config=dict(first.config)))
    ((_, other),) = borders(first, replace(later, config={"batch_size": 64, "lr": 1e-3, "name": "b"}))
    told = [row.text for row in other.evidence if row.signal == "configuration"]
    assert told == ["batch_size was 128 in version_0 and is 64"]
    assert len(other.evidence) == len(alike.evidence) + 1


def test_clean_ones_forks_and_strangers_are_silent() -> None:
    alarms = 0
    for seed in range(20):
        first = run("x/a", STEP[:200], course(2 * seed)[:200])
        alarms += len(borders(first, run("x/b", STEP[200:], course(2 * seed + 1)[200:])))
    assert alarms == 0
    first, apart = run("x/a", STEP[:200], course()[:200]), course(3)[200:] + 1
    assert not borders(first, run("x/b", STEP[200:], apart), run("x/c", STEP[200:], apart + 1))
    assert not borders(first, run("x/b", STEP[240:], apart[40:]))
    assert not borders(first, run("x/b", STEP[:200], apart))


def test_validation_that_is_ruined_by_the_restart() -> None:
    level = 1.5 + np.exp(-np.arange(40) / 10) + 0.01 * np.random.default_rng(5).standard_normal(40)
    level[20:] += 1.0
    first = run("x/a", STEP[:200], course()[:200], val=level[:20])
    ((_, finding),) = borders(first, run("x/b", STEP[200:], course(1)[200:], val=level[20:]))
    assert finding.kind == "val-jump"


@pytest.mark.parametrize(("on", "told"), [(10.0, True), (0.0, False), (14.0, False)])
def test_steps_that_begin_again_while_epochs_go_on(on: float, told: bool) -> None:
    epochs = np.linspace(0, 10, 200)
    first = run("x/a", STEP[:200], course()[:200], epoch=epochs)
    second = run("x/b", STEP[:200], course(1)[200:], epoch=on + epochs)
    assert [(name, f.kind) for name, f in borders(first, second)] == [("x/b", "import-integrity")] * told


def stranger(name: str = "x/b", begin: int = 120, **said: Any) -> Signals:
    """A run of another level and with noise of its own that logs late, and what it says of where it comes from."""
    level = 4 - 2 * (np.arange(N) / N)[begin:]
    late = run(name, STEP[begin:], level + np.random.default_rng(9).normal(0, 0.1, N - begin))
    return replace(late, **said)


def test_a_neighbour_that_logs_late_is_no_child() -> None:
    whole = run("x/a", STEP, course())
    assert not borders(whole, stranger())
    assert not borders(run("x/a", STEP[:200], course()[:200]), stranger())
    assert not borders(run("x/version_0", STEP, course()), stranger("x/version_1"))


@pytest.mark.parametrize(
    "child",
    [
        stranger("x/a_resumed"),
        stranger(config={"trainer": {"ckpt_path": "a/step=1200.ckpt"}}),
        stranger(events=(Event("checkpoint-loaded", text="loaded a/step_1200.pt"),)),
    ],
    ids=["name", "setting", "message"],
)
def test_what_says_that_a_run_goes_on_from_another(child: Signals) -> None:
    (found,) = borders(run("x/a", STEP, course()), child)
    assert found[0] == child.run


def test_a_checkpoint_of_the_other_and_a_later_number_say_so() -> None:
    saved = replace(run("x/a", STEP, course()), checkpoints=(Checkpoint(1200, "step_1200.pt"),))
    assert len(borders(saved, stranger())) == 1
    assert not borders(replace(saved, checkpoints=(Checkpoint(1000, "step_1000.pt"),)), stranger())
    assert len(borders(run("x/version_0", STEP[:200], course()[:200]), stranger("x/version_1"))) == 1


@pytest.mark.parametrize("unset", [{"resume": False}, {"ckpt_path": None}, {"init_from": "scratch"}])
def test_a_setting_that_is_not_set_says_nothing(unset: dict[str, Any]) -> None:
    assert not borders(run("x/a", STEP, course()), stranger(config=unset))


def test_a_loss_that_comes_back_to_the_course_of_the_other() -> None:
    bump = 0.8 * np.exp(-np.arange(280) / 10)
    assert len(borders(run("x/a", STEP, course()), run("x/b", STEP[120:], course(1)[120:] + bump))) == 1


def test_joining_one_of_several_is_enough() -> None:
    child = run("x/resumed", STEP[200:], course(1)[200:])
    assert len(borders(run("x/a", STEP[:200], course()[:200] + 1), child)) == 1
    assert not borders(run("x/a", STEP[:200], course()[:200] + 1), run("x/c", STEP[:200], course(2)[:200]), child)


@pytest.mark.parametrize(("again", "told"), [(2.4, True), (1.72, False)])
def test_an_evaluation_of_the_old_weights_that_the_new_run_makes_otherwise(again: float, told: bool) -> None:
    level = 1.7 + 0.02 * np.random.default_rng(5).standard_normal(40)
    first = run("x/version_0", STEP[:200], course()[:200], val=level[:20])
    second = run("x/version_1", STEP[199:], course(1)[199:])
    steps = np.append(STEP[199], STEP[209::10])
    evaluated = make_curve(np.append(again, level[20:]), "val_loss", step=steps, name="val_loss", series_id=2)
    since = make_curve(course(1)[200:], "train_loss", step=STEP[200:], name="loss")
    found = borders(first, replace(make_signals([since, evaluated]), run=second.run))
    assert [(f.kind, f.onset_step) for _, f in found] == ([("val-jump", STEP[199])] if told else [])
