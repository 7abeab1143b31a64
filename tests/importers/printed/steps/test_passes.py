"""Steps that start again under an epoch's heading, evaluations with counts of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import Points, Source
from trainforensics.importers.printed.reader import Reader

Series = dict[str, list[tuple[int, float]]]


def read_text(tmp_path: Path, text: str) -> Read:
    """What the importer makes of a text."""
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8", newline="")
    return read(console, path)


def assert_series(result: Read, expected: Series) -> None:
    """Series hold these steps and numbers."""
    for name, pairs in expected.items():
        series = result.series[name]
        assert list(zip(series.number_steps, series.numbers.tolist(), strict=True)) == pairs, name


def epochs(heading: str, rows: str, end: str = "") -> str:
    """Two epochs of three rows, with the heading before and the end behind them."""
    return "".join(
        heading.format(e=e)
        + "".join(rows.format(s=100 * s, g=300 * e + 100 * s, loss=4.5 - e - s / 4, e=e) for s in range(3))
        + end.format(e=e, loss=2.5 - e / 2)
        for e in range(2)
    )


ROWS = [(0, 4.5), (100, 4.25), (200, 4.0), (300, 3.5), (400, 3.25), (500, 3.0)]
ENDS = [(200, 2.5), (500, 2.0)]
LOGS: dict[str, tuple[str, Series]] = {
    "steps start again under the heading of an epoch": (
        epochs("Epoch {e}\n-------\n", "step {s} loss {loss} lr 0.1\n"),
        {"loss": ROWS},
    ),
    "steps start again behind the end of an epoch": (
        epochs("", "step {s} loss {loss} lr 0.1\n", "Epoch {e} done, val loss {loss}\n"),
        {"loss": ROWS, "val loss": ENDS},
    ),
    "steps go on from epoch to epoch": (epochs("Epoch {e}\n", "step {g} loss {loss} lr 0.1\n"), {"loss": ROWS}),
    "steps go back to an epoch that was cut off": (
        epochs("Epoch {e}\n", "step {s} loss {loss}\n") + "Epoch 1\nstep 0 loss 3.5\nstep 100 loss 3.25\n",
        {"loss": [*ROWS, (300, 3.5), (400, 3.25)]},
    ),
    "an iteration out of so many that is the same in every epoch": (
        "".join(f"epoch: {e}/3, iter: 50/92, total_loss: {4.5 - e}, lr: 0.1\n" for e in (1, 2, 3)),
        {"total_loss": [(50, 3.5), (142, 2.5), (234, 1.5)]},
    ),
    "the end of an epoch says how many steps it had": (
        "".join(
            f"\titers: 100, epoch: {e} | loss: {4.5 - e}\n\tspeed: 0.0512s/iter; left time: 70.1s\n"
            f"\titers: 200, epoch: {e} | loss: {4.5 - e}\n\tspeed: 0.0512s/iter; left time: 60.1s\n"
            f"Epoch: {e}, Steps: 266 | Train Loss: {3.5 - e} Vali Loss: {2.5 - e / 2}\n"
            for e in (1, 2, 3)
        ),
        {"loss": [(100, 3.5), (200, 3.5), (366, 2.5), (466, 2.5), (632, 1.5), (732, 1.5)],
         "Vali Loss": [(200, 2.0), (466, 1.5), (732, 1.0)]},
    ),
    "an evaluation counts its batches in the training's words": (
        "".join(
            f"Epoch: [{e}]  [0/9]  eta: 0:03:48  loss: {4.5 - e} ({4.5 - e})  lr: 0.1\n"
            f"Epoch: [{e}]  [8/9]  eta: 0:00:17  loss: {4.25 - e} ({4.5 - e})  lr: 0.1\n"
            f"Epoch: [{e}]  [0/2]  eta: 0:00:03  loss: {3.5 - e} ({3.5 - e})  lr: 0.1\n"
            f"Epoch: [{e}]  [1/2]  eta: 0:00:03  loss: {3.25 - e} ({3.5 - e})  lr: 0.1\n"
            for e in (1, 2)
        ),
        {"loss (current)": [(0, 3.5), (8, 3.25), (9, 2.5), (17, 2.25)],
         "val/loss (current)": [(8, 2.25), (17, 1.25)]},
    ),
    "an evaluation counts its batches anew, and its mean follows": (
        epochs("", "epoch:{e}   train step:{s:<4d} loss: {loss} lr: 0.1\n",
               "valid step:10 loss: 9.5\nvalid step:20 loss: 9.25\nEND valid top1: 0.5 loss: {loss}\n"),
        {"loss": [(0, 4.5), (100, 4.25), (200, 4.0), (300, 3.5), (400, 3.25), (500, 3.0)],
         "END valid top1": [(200, 0.5), (500, 0.5)]},
    ),
    "an evaluation that is printed late keeps its step": (
        "step 10 loss 4.5\nstep 20 loss 4.25\nstep 30 loss 4.0\nvalid step 20 loss 3.5\nstep 40 loss 3.75\n"
        "step 50 loss 3.5\nvalid step 40 loss 3.25\n",
        {"loss": [(10, 4.5), (20, 4.25), (30, 4.0), (40, 3.75), (50, 3.5)], "val/loss": [(20, 3.5), (40, 3.25)]},
    ),
    "several rows of an epoch are rows": (
        epochs("\nEpoch: {e}\n", "loc_loss: 0.5 | cls_loss: 1.5 | train_loss: {loss}\n" ),
        {"train_loss": [(1, 4.5), (2, 4.25), (3, 4.0), (4, 3.5), (5, 3.25), (6, 3.0)]},
    ),
    "results under the heading of an evaluation": (
        epochs("\n > EPOCH: {e}/9\n", "\n   --> STEP: {s}/300 -- GLOBAL_STEP: {g}\n     | > loss: {loss}  (4.5)\n",
               "\n > EVALUATION \n\n --> EVAL PERFORMANCE\n     | > avg_loss: {loss} (-0.0123)\n     | > Top1: 50%\n"),
        {"loss (current)": ROWS, "val/avg_loss": ENDS, "val/Top1": [(200, 50.0), (500, 50.0)]},
    ),
    "results under a heading with its epoch": (
        epochs("", "Epoch[{e}] Iteration[{s}/300] Loss: {loss}, Base Lr: 3.5e-05\n",
               "Validation Results - Epoch: {e}\nmAP: {loss}%\nCMC curve, Rank-1  :92.5%\n"),
        {"Loss": ROWS, "val/mAP": ENDS},
    ),
    "what the training prints ends an evaluation": (
        "loss: 4.5\nloss: 4.25\nEvaluating...\nloss: 4.0\n",
        {"loss": [(1, 4.5), (2, 4.25), (3, 4.0)]},
    ),
    "a part of the data in brackets": (
        epochs("", "", "[train] Epoch: {e}/100 Loss: {loss} Acc: 0.5\n[val] Epoch: {e}/100 Loss: {loss} Acc: 0.25\n"),
        {"Loss": [(0, 2.5), (1, 2.0)], "val/Loss": [(0, 2.5), (1, 2.0)], "val/Acc": [(0, 0.25), (1, 0.25)]},
    ),
    "two sets of held-out data": (
        epochs("", "epoch {e} - iter {s}/300 - loss {loss}\n",
               "DEV  : loss {loss} - acc 0.5\nTEST : loss 7.5 - acc 1\n"),
        {"val/loss": ENDS, "test/loss": [(200, 7.5), (500, 7.5)]},
    ),
    "what was measured stands before the parts": (
        epochs("=== EPOCH {e}/20 ===\n", "", "loss train: {loss}  eval: 0.75\nacc train: 0.5  eval: 0.25\n"),
        {"loss train": [(0, 2.5), (1, 2.0)], "eval loss": [(0, 0.75), (1, 0.75)], "eval acc": [(0, 0.25), (1, 0.25)]},
    ),
    "a name that is repeated behind a held-out one": (
        epochs("", "", "epoch {e} train_loss {loss} acc 0.5 | val_loss 3.5 acc 0.25\n"),
        {"acc": [(0, 0.5), (1, 0.5)], "val/acc": [(0, 0.25), (1, 0.25)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_steps_of_passes(name: str, tmp_path: Path) -> None:
    text, expected = LOGS[name]
    assert_series(read_text(tmp_path, text), expected)


def test_a_bar_that_goes_on_under_a_heading_is_the_trainings() -> None:
    lines = [f" 10%|## | {i}/20 [00:01<00:09, 3.0it/s, loss={1 + i / 16:.4f}]" for i in range(1, 21)]
    lines.insert(15, "val")
    reader = Reader(Source(Path("train.log"), "train.log"))
    found = [*reader.block("\n".join(lines), 1), *reader.end()]
    steps = [part.step.tolist() for part in found if isinstance(part, Points)]
    assert steps == 2 * [list(range(1, 21))]


def test_a_trainers_dictionary_under_a_heading_and_a_bar_is_read_once(tmp_path: Path) -> None:
    """Put under the heading again and again it would never end."""
    bar = "  8%|####      | {n}/2515 [46:16<9:01:34, 14.04s/it]***** Running Evaluation *****"
    rows = [f"{{'loss': {3.5 - 0.01 * i:.4f}, 'learning_rate': 1e-05, 'epoch': {0.004 * i:.2f}}}" for i in range(1, 41)]
    result = "{{'eval_loss': {loss}, 'eval_runtime': 38.6124, 'eval_samples_per_second': 42.059, 'epoch': {epoch}}}"
    told = ["  Num examples = 1624", "  Batch size = 8"]
    text = "\n".join([
        *rows[:20], bar.format(n=200), *told, result.format(loss=0.7646, epoch=0.08),
        *rows[20:], bar.format(n=400), *told, result.format(loss=0.5908, epoch=0.16),
    ])  # fmt: skip
    assert read_text(tmp_path, text + "\n").series["eval_loss"].numbers.tolist() == [0.7646, 0.5908]


def test_what_is_said_of_the_weights_in_brackets_names_their_evaluation(tmp_path: Path) -> None:
    rows = "".join(f"step:{s}/505 train_loss:{3.4 - s / 5000:.4f} time:{s / 4:.1f}s\n" for s in range(460, 506, 5))
    ends = "Final (pre-EMA): val_loss=3.3117 val_bpb=1.2823\nFinal (post-EMA): val_loss=4.1097 val_bpb=1.5913\n"
    expected: Series = {"Final_pre-EMA/val_loss": [(505, 3.3117)], "Final_post-EMA/val_loss": [(505, 4.1097)]}
    assert_series(read_text(tmp_path, rows + ends), expected)


def test_a_host_before_the_time_leaves_the_epoch_to_the_record(tmp_path: Path) -> None:
    """As ESPnet writes: batches count anew in every epoch."""
    lead = "[tts01] 2026-09-30 22:03:{t:02d},626 (trainer:762) INFO: "
    row = lead + "{e}epoch:train:{a}-{b}batch: iter_time=1.6e-04, loss={v}\n"
    at = [(e, n) for e in (1, 2) for n in range(3)]
    text = "".join(row.format(t=20 * e + n, e=e, a=20 * n + 1, b=20 * n + 20, v=3 - e / 2 - n / 10) for e, n in at)
    steps = read_text(tmp_path, text).series["loss"].number_steps
    assert steps == sorted(set(steps))
