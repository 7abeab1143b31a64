from __future__ import annotations

from dataclasses import replace

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.resume import import_integrity
from trainforensics.model import Event, Finding, Fired, ReadWarning
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in import_integrity.META.params}
LOSS = make_curve(np.linspace(3, 2, 100))


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = import_integrity.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


def warned(*warnings: ReadWarning) -> Signals:
    return replace(make_signals([LOSS]), warnings=warnings)


def test_damage_is_an_alarm_with_the_place_where_it_begins() -> None:
    gap = ReadWarning("corrupt", "byte 36790", "checksum does not match; between steps 3490 and 3500")
    later = ReadWarning("corrupt", "byte 99999", "checksum does not match; between steps 6010 and 6020")
    refused = ReadWarning("dropped-by-logger", "steps 200 to 248", "49 rows were refused")
    found = [*findings(warned(gap, later)), *findings(warned(refused))]
    assert [(f.severity, f.onset_step, f.end_step) for f in found] == [("medium", 3500, 6020), ("medium", 200, 248)]


def test_a_torn_line_is_a_remark_and_a_second_reader_is_nothing() -> None:
    torn = ReadWarning("torn-line", "line 241", "the last line is unfinished; it was left out")
    tail = ReadWarning("archive-tail", "byte 9000", "what follows the complete archive is no gzip; it was left out")
    assert [f.severity for f in findings(warned(tail))] == ["low"]
    claimed = ReadWarning("also-claimed", "metrics.jsonl", "console would read it too")
    assert [f.severity for f in findings(warned(torn, claimed))] == ["low"]
    assert "damage" not in findings(warned(torn))[0].summary
    assert "damage" in findings(warned(torn, tail))[0].summary
    assert not findings(warned(claimed))


def test_rows_written_again_are_a_remark_of_their_own() -> None:
    again = ReadWarning("written-again", "line 27", "78 rows of steps 26 to 37 were written again")
    (found,) = findings(warned(again))
    assert (found.severity, found.onset_step, found.end_step) == ("low", 26, 37)
    assert found.summary == "from line 27 on 78 rows of steps 26 to 37 were written again"


def test_a_count_that_was_not_restored() -> None:
    event = Event("counter-restart", 480, text="global_step begins anew", source="train.log")
    told = replace(make_signals([LOSS]), events=(event,))
    assert [(f.severity, f.onset_step, f.series) for f in findings(told)] == [("medium", 480, "train.log")]


def test_steps_below_zero() -> None:
    ill = make_curve(np.ones(100), step=np.arange(-500, 500, 10))
    placeholder = make_curve(np.ones(100), step=np.arange(-1, 99))
    assert [(f.onset_step, f.severity) for f in findings(make_signals([ill]))] == [(-500, "medium")]
    assert not findings(make_signals([placeholder]))


def test_steps_with_two_values_clash_unless_they_agree() -> None:
    step = np.repeat(np.arange(50), 2)
    agree = make_curve(np.repeat(np.linspace(3, 2, 50), 2), step=step)
    clash = make_curve(np.tile([3.0, 2.0], 50), step=step)
    assert not findings(make_signals([agree]))
    assert [f.severity for f in findings(make_signals([clash]))] == ["low"]


def two_values(gap: float, rates: tuple[float, float]) -> Signals:
    """A loss with two values at each of 50 steps a second apart, the second logged `gap` seconds after the first."""
    step = np.repeat(np.arange(50), 2)
    time = 1.8e9 + step + np.tile([0.0, gap], 50)
    loss = make_curve(np.tile([3.0, 2.0], 50), step=step, time=time)
    return make_signals([loss, make_curve(np.tile(rates, 50), "learning_rate", step=step, series_id=1)])


def test_two_jobs_in_one_file_are_told_from_ranks_and_from_a_second_try() -> None:
    jobs = [*findings(two_values(20.0, (1e-3, 1e-3))), *findings(two_values(np.nan, (1e-3, 3e-4)))]
    assert [(f.severity, f.onset_step) for f in jobs] == [("medium", 0), ("medium", 0)]
    ranks, second_try = two_values(0.01, (1e-3, 1e-3)), two_values(100.0, (1e-3, 1e-3))
    assert [f.severity for signals in (ranks, second_try) for f in findings(signals)] == ["low", "low"]


STEPS = np.arange(600)


def ending_loss(**more: Curve) -> Signals:
    """A loss that ends at step 299 beside a gradient norm and a learning rate that go on to 599."""
    rest = {role: make_curve(1 + STEPS % 7, role, step=STEPS, series_id=9) for role in ("grad_norm", "learning_rate")}
    return make_signals([make_curve(np.linspace(3, 2, 300), step=STEPS[:300]), *rest.values(), *more.values()])


def test_a_loss_that_ends_while_its_rows_go_on_is_an_alarm() -> None:
    (found,) = findings(ending_loss())
    assert (found.severity, found.onset_step, found.end_step) == ("medium", 300, 599)
    assert found.summary.startswith("train_loss ends at step 299 while its rows go on to step 599")
    component = make_curve(STEPS / 600, None, name="aux_loss", step=STEPS, series_id=5)
    assert len(findings(ending_loss(aux=component))) == 1
    inside = make_curve(np.linspace(3, 2, 300), "train_loss", name="train_loss/value", step=STEPS[300:], series_id=6)
    assert len(findings(ending_loss(inside=inside))) == 1


def test_a_loss_that_another_one_takes_over_has_not_ended() -> None:
    second = make_curve(np.linspace(2, 1, 300), None, name="stage2_loss", step=STEPS[300:], series_id=5)
    again = make_curve(np.linspace(2, 1, 300), "train_loss", name="sft/loss", step=STEPS[300:], series_id=6)
    assert not findings(ending_loss(second=second))
    assert not findings(ending_loss(again=again))


def test_rows_whose_updates_were_all_skipped_have_no_loss() -> None:
    skipped = make_curve(np.where(STEPS < 300, 0.0, 10.0), "skipped_steps", step=STEPS, series_id=5)
    assert not findings(ending_loss(skipped=skipped))


def test_rows_without_a_loss_that_are_no_rows_of_training_are_silent() -> None:
    evaluation = make_curve(np.ones(300), "val_loss", step=STEPS[300:], series_id=5)
    assert not findings(ending_loss(evaluation=evaluation))
    rate = make_curve(np.ones(600), "learning_rate", step=STEPS, series_id=2)
    sparse = make_curve(np.linspace(3, 2, 30), step=STEPS[:300:10])
    unflushed = make_curve(np.linspace(3, 2, 590), step=STEPS[:590])
    late = make_curve(np.ones(300), "learning_rate", step=STEPS[300:], series_id=2)
    for loss, mate in ((sparse, rate), (unflushed, rate), (LOSS, late)):
        assert not findings(make_signals([loss, mate]))


def with_gap(first: int, last: int, every: int = 2, **more: Curve) -> Signals:
    step = np.arange(0, 3000, every)
    step = step[(step < first) | (step >= last)]
    return make_signals([make_curve(np.linspace(3, 2, len(step)), step=step), *more.values()])


def test_rows_that_are_missing_from_an_even_log() -> None:
    (found,) = findings(with_gap(1222, 1812))
    assert (found.severity, found.onset_step, found.end_step) == ("medium", 1222, 1812)
    assert [f.severity for f in findings(with_gap(1222, 1262))] == ["low"]
    assert not findings(with_gap(1222, 1232))


def test_rows_that_others_have_or_that_no_even_log_has_are_not_missing() -> None:
    norm = make_curve(np.ones(1500), "grad_norm", step=np.arange(0, 3000, 2), series_id=5)
    assert not findings(with_gap(1222, 1812, norm=norm))
    sampled = np.sort(np.random.default_rng(1).choice(3000, 500, replace=False))
    assert not findings(make_signals([make_curve(np.ones(500), step=sampled)]))
    lives = make_curve(np.ones(200), step=np.r_[0:100, 600:700], segment=np.arange(200) // 100)
    assert not findings(make_signals([lives]))


def test_rows_that_the_logger_refused() -> None:
    text = "wandb: WARNING Step must only increase in log calls.  Step 149 < 745; dropping {'lr': 0.1}."
    signals = make_signals({"train_loss": np.linspace(3, 2, 50)}, events=[Event("warning", text=text)])
    outcome = import_integrity.detect(signals, PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].severity == "medium"


def test_rows_whose_clock_is_another_runs() -> None:
    step = np.arange(100, 3100, 100)
    clock = 200.0 * step
    assert not findings(make_signals([LOSS, make_curve(clock, None, name="train_time", step=step)]))
    clock[6:8] = 700.0 * step[6:8]
    (found,) = findings(make_signals([LOSS, make_curve(clock, None, name="train_time", step=step)]))
    assert (found.onset_step, found.end_step, found.severity) == (700, 800, "medium")
    reset = np.where(step > 500, 200.0 * (step - 500), 200.0 * step)  # set to zero once, behind a warm-up
    assert not findings(make_signals([LOSS, make_curve(reset, None, name="train_time", step=step)]))


def test_a_count_that_begins_anew_again_and_again_is_an_epochs() -> None:
    events = tuple(Event("counter-restart", at, text="iters begins anew", source="train.log") for at in (28, 280))
    assert not findings(replace(make_signals([LOSS]), events=events))
    ranks = tuple(Event("counter-restart", 28, text="iters begins anew", source=f"rank{i}.log") for i in range(2))
    assert [f.onset_step for f in findings(replace(make_signals([LOSS]), events=ranks))] == [28]


def test_a_single_row_of_another_sort_does_not_fill_a_hole() -> None:
    step = np.append(np.arange(0, 5000, 10), np.arange(7500, 10000, 10))
    times = make_curve(np.ones(len(step) + 1), None, name="_runtime", step=np.sort(np.append(step, 7490)), series_id=1)
    (found,) = findings(make_signals([make_curve(np.linspace(3, 2, len(step)), step=step), times]))
    assert (found.onset_step, found.severity) == (5000, "medium")
