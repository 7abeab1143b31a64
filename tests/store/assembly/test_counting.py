from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from logs import imported

from trainforensics.model import Axis


def losses(n: int, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [round(float(v), 4) for v in 2 + 3 * np.exp(-np.arange(n) / 20) + 0.05 * rng.normal(size=n)]


def write(folder: Path, printed: list[float], state: list[float], every: int = 10) -> None:
    """What a Hugging Face trainer prints, without steps, and the state that it saves."""
    folder.mkdir(parents=True)
    lines = [f"{{'loss': {v}, 'learning_rate': 0.0001, 'epoch': {i / 100:.2f}}}" for i, v in enumerate(printed)]
    (folder / "train.log").write_text("\n".join(lines) + "\nTraceback (most recent call last):\nRuntimeError: lost\n")
    history = [{"loss": v, "epoch": i / 100, "step": every * (i + 1)} for i, v in enumerate(state)]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history, "global_step": every * len(state)}))


@pytest.mark.parametrize(
    ("printed", "state", "last"),
    [
        (losses(60), losses(60), 600),
        (losses(60), losses(60)[:40], 600),  # the state was saved before the end
        (losses(60)[25:], losses(60)[:40], 600),  # what was printed begins at a restart
    ],
)
def test_rows_take_the_steps_of_the_same_losses(
    printed: list[float], state: list[float], last: int, tmp_path: Path
) -> None:
    write(tmp_path / "run", printed, state)
    (run,) = imported(tmp_path / "store", tmp_path / "run").values()
    assert run.axis.unit == "step"
    ends = {s.series.source: s.last_step for s in run.series if s.series.name == "loss"}
    assert ends == {"train.log": last, "trainer_state.json": 10 * len(state)}
    assert {event.step for event in run.events if "lost" in event.text} == {last}


def test_other_losses_keep_their_rows(tmp_path: Path) -> None:
    write(tmp_path / "run", losses(60), losses(60, seed=1))
    runs = imported(tmp_path / "store", tmp_path / "run").values()
    assert Axis("row", "row") in {run.axis for run in runs}


@pytest.mark.parametrize(
    ("first", "begins", "ends"), [(0, 0, [99, 199, 299]), (1, 1, [99, 199, 299]), (1, 3, [99, 199, 299])]
)
def test_means_over_epochs_stand_where_the_console_ends_them(
    first: int, begins: int, ends: list[int], tmp_path: Path
) -> None:
    """A console that was started again knows the later epochs alone."""
    folder = tmp_path / "run"
    folder.mkdir()
    told = range(begins, first + 3)
    lines = [
        f"Epoch: [{e}]  [{i:4d}/100]  lr: 0.001  loss: {3 / (1 + e) - i / 500:.4f}"
        for e in told
        for i in range(0, 100, 20)
    ]
    (folder / "nohup.out").write_text("\n".join(lines) + "\n")
    rows = [{"train_loss": 3 / (1 + e), "test_acc1": 10.0 * e, "epoch": e} for e in range(first, first + 3)]
    (folder / "log.txt").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (run,) = imported(tmp_path / "store", folder).values()
    assert run.axis.unit == "step"
    at = {s.series.name: (s.first_step, s.last_step) for s in run.series}
    assert at["train_loss"] == (ends[0], ends[-1])


def test_rows_of_two_launches_take_their_steps_from_the_epochs(tmp_path: Path) -> None:
    """A run that crashed at row 50 and went on from row 40: the state that it leaves holds the second launch alone."""
    state, lost = losses(80), losses(50, seed=2)[40:]
    folder = tmp_path / "run"
    folder.mkdir()
    printed = [*enumerate(state[:40]), *enumerate(lost, 40), *enumerate(state[40:], 40)]
    lines = [f"{{'loss': '{v}', 'epoch': '{(i + 1) / 25:.4g}'}}" for i, v in printed]
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    for name, saved in (("checkpoint-600", state[:60]), ("", state)):
        history = [{"loss": v, "epoch": (i + 1) / 25, "step": 10 * (i + 1)} for i, v in enumerate(saved)]
        text = json.dumps({"log_history": history, "global_step": 10 * len(saved)})
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "trainer_state.json").write_text(text)
    (run,) = imported(tmp_path / "store", folder).values()
    assert run.axis.unit == "step"
    assert [life.first_step for life in run.segments] == [10, 410]
    assert max(s.last_step for s in run.series) == 800


@pytest.mark.parametrize("broken", ["epoch", "digits"])
def test_launches_whose_epochs_or_losses_tell_nothing_keep_their_rows(broken: str, tmp_path: Path) -> None:
    """Epochs of the state that are no numbers; losses of another run that agree because hardly a digit is printed."""
    state, printed = losses(80), losses(80, seed=2 if broken == "digits" else 0)
    coarse = 1 if broken == "digits" else 4
    rows = [*enumerate(printed[:50]), *enumerate(printed[40:], 40)]
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [f"{{'loss': {round(v, coarse)}, 'epoch': {(i + 1) / 25:.4g}}}" for i, v in rows]
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    epochs = [float("nan") if broken == "epoch" else (i + 1) / 25 for i in range(80)]
    history = [{"loss": v, "epoch": epochs[i], "step": 10 * (i + 1)} for i, v in enumerate(state)]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history, "global_step": 800}))
    runs = imported(tmp_path / "store", folder).values()
    assert Axis("row", "row") in {run.axis for run in runs}
    assert min(s.first_step for run in runs for s in run.series if s.first_step is not None) >= 0
