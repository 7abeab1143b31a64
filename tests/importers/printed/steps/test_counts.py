"""Console text whose counts stand otherwise than usual: glued, per piece, the same in every epoch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import Points, Rank, Source
from trainforensics.model import Axis

Series = dict[str, list[tuple[int, float]]]

_BOX = (
    "{rule}\n                     Learning iteration {i}/900                     \n\n"
    "               Value function loss: {v}\n                 Mean total reward: 2.5\n" + "-" * 80 + "\n"
    "                   Total timesteps: {t}\n                    Iteration time: 1.5s\n\n"
)
_TABLE = (
    "********** Iteration {i} ************\n{said}\n--------------------\n| EVAfter   | 0.5   |\n"
    "| EpRewMean | {r} |\n| KL        | {k} |\n--------------------\n"
)
# Text, axis, some of its series.
LOGS: dict[str, tuple[str, Axis, Series]] = {
    "an iteration glued to its epoch": (
        "epoch 0[0], loss: 5.5, lr: 0.0001\nepoch 0[500], loss: 4.5, lr: 0.0001\n"
        "epoch 1[1000], loss: nan, lr: 0.0001\n",
        Axis("iteration", "step"),
        {"loss": [(0, 5.5), (500, 4.5), (1000, np.nan)]},
    ),
    "steps counted anew with every piece of the data": (
        "now time: 21:5. Step 20 of piece 0 of epoch 1, loss 7.5\n"
        "now time: 21:6. Step 40 of piece 0 of epoch 1, loss 6.5\n"
        "now time: 21:31. Step 20 of piece 1 of epoch 1, loss 7.25\n"
        "now time: 1:3. Step 40 of piece 1 of epoch 1, loss 6.25\n"
        "now time: 2:31. Step 20 of piece 0 of epoch 2, loss 5.25\n",
        Axis("step", "step"),
        {"loss": [(20, 7.5), (40, 6.5), (60, 7.25), (80, 6.25), (100, 5.25)]},
    ),
    "how many steps an epoch had": (
        "Epoch 4 |   Training | Elapsed Time: 2:39:06 | Steps: 6275 | Loss: 5.5\n"
        "Epoch 4 | Validation | Elapsed Time: 0:15:09 | Steps: 784 | Loss: 4.5 | Dataset: dev.csv\n"
        "Epoch 5 |   Training | Elapsed Time: 2:42:21 | Steps: 6275 | Loss: 5.25\n"
        "Epoch 5 | Validation | Elapsed Time: 0:15:13 | Steps: 784 | Loss: 4.25 | Dataset: dev.csv\n",
        Axis("epoch", "epoch"),
        {"Loss": [(4, 5.5), (5, 5.25)], "val/Loss": [(4, 4.5), (5, 4.25)]},
    ),
    "episodes beside the epoch": (
        "INFO step:200 smpl:2K ep:2 epch:0.05 loss:4.5 grdn:117.25 lr:1.0e-05\n"
        "INFO step:400 smpl:3K ep:5 epch:0.11 loss:3.5 grdn:86.5 lr:1.0e-05\n"
        "INFO step:600 smpl:5K ep:8 epch:0.16 loss:2.5 grdn:71.5 lr:1.0e-05\n"
        "INFO step:800 smpl:6K ep:10 epch:0.21 loss:1.5 grdn:56.5 lr:1.0e-05\n"
        "INFO step:1K smpl:8K ep:13 epch:0.27 loss:1.25 grdn:48.5 lr:1.0e-05\n"
        "INFO step:1K smpl:10K ep:16 epch:0.32 loss:1.125 grdn:41.5 lr:1.0e-05\n",
        Axis("step", "step"),
        {"loss": [(200, 4.5), (400, 3.5), (600, 2.5), (800, 1.5), (1000, 1.25), (1200, 1.125)],
         "ep": [(200, 2), (400, 5), (600, 8), (800, 10), (1000, 13), (1200, 16)]},
    ),
    "one metric a line behind a step in brackets": (
        "2020-10-29 03:12:50,857 (train:500) INFO: (Steps: 100) train/spectral_convergence_loss = 0.25.\n"
        "2020-10-29 03:12:50,857 (train:500) INFO: (Steps: 100) train/generator_loss = 0.75.\n"
        "2020-10-29 03:13:00,765 (train:500) INFO: (Steps: 200) train/spectral_convergence_loss = 0.125.\n"
        "2020-10-29 03:13:00,765 (train:500) INFO: (Steps: 200) train/generator_loss = 0.5.\n",
        Axis("Steps", "step"),
        {"train/generator_loss": [(100, 0.75), (200, 0.5)],
         "train/spectral_convergence_loss": [(100, 0.25), (200, 0.125)]},
    ),
    "a count before a name and a number": (
        "[May 23, 07:02:22] 74020 \t\t avg_loss 0.0625\n[May 23, 07:02:33] 74040 \t\t avg_loss 0.03125\n",
        Axis("iteration", "step"),
        {"avg_loss": [(74020, 0.0625), (74040, 0.03125)]},
    ),
    "a year of two digits": (
        "19-07-14 02:13:41.291 - INFO: <epoch:  9, iter:  40,000, lr:(4.000e-04,)> l_pix: 1.25e+04 \n"
        "19-07-14 02:17:13.382 - INFO: <epoch: 10, iter:  40,200, lr:(4.000e-04,)> l_pix: 1.125e+04 \n",
        Axis("iter", "step"),
        {"l_pix": [(40000, 12500.0), (40200, 11250.0)], "lr": [(40000, 4e-4), (40200, 4e-4)]},
    ),
    "words glued to a number": (
        "0:\tlearn 0.6355974416passed: 17.3 sec\ttotal: 3m 30s\tremaining: 4h 1m 53s\n"
        "1:\tlearn 0.5855715797\ttest 0.75\tbestTest 0.5\tpassed: 17 sec\ttotal: 3m 47s\tremaining: 2h 8m 49s\n"
        "2:\tlearn nanpassed: 17.4 sec\ttotal: 4m 4s\tremaining: 1h 31m 6s\n",
        Axis("iteration", "step"),
        {"learn": [(0, 0.6355974416), (1, 0.5855715797), (2, np.nan)]},
    ),
    "a dictionary among pairs": (
        "step=1 loss=2.5 grad_norm={'0_default': 1.5, '1_fp32': 0.0} tokens=64 acc=0.5\n"
        "step=2 loss=2.25 grad_norm={'0_default': 1.25, '1_fp32': nan} tokens=64 acc=0.75\n",
        Axis("step", "step"),
        {"loss": [(1, 2.5), (2, 2.25)], "grad_norm/0_default": [(1, 1.5), (2, 1.25)], "acc": [(1, 0.5), (2, 0.75)]},
    ),
    "long dashes between logger and text": (
        "2020-10-10 08:33:17,550 \u2014 agent.vpg \u2014 INFO \u2014 Epoch: 0\n"
        "2020-10-10 08:33:17,813 \u2014 agent.vpg \u2014 INFO \u2014 Average Episode Return: 23.5    \n"
        "2020-10-10 08:33:24,962 \u2014 agent.vpg \u2014 INFO \u2014 Epoch: 1\n"
        "2020-10-10 08:33:24,175 \u2014 agent.vpg \u2014 INFO \u2014 Average Episode Return: 30.5    \n",
        Axis("epoch", "epoch"),
        {"Average Episode Return": [(0, 23.5), (1, 30.5)]},
    ),
    "a ruler inside a box": (
        "".join(_BOX.format(rule="#" * 80, i=i, v=i / 4, t=98304 * i) for i in (40, 41)),
        Axis("Learning iteration", "step"),
        {"Value function loss": [(40, 10.0), (41, 10.25)], "Total timesteps": [(40, 3932160), (41, 4030464)],
         "Iteration time": [(40, 1.5), (41, 1.5)]},
    ),
    "a remark between the iteration and its table": (
        _TABLE.format(i=3, said="kl just right!", r="-8.5 ", k="0.25  ")
        + _TABLE.format(i=4, said="kl too low", r="nan  ", k="nan") + "end\n",
        Axis("Iteration", "step"),
        {"EpRewMean": [(3, -8.5), (4, np.nan)], "KL": [(3, 0.25), (4, np.nan)]},
    ),
    "held-out results under a short name, set in columns": (
        "epoch 1 - iter 0/24 - loss 2.5\nepoch 1 - iter 24/24 - loss 2.25\nEPOCH 1 done: loss 2.375 - lr 0.1000\n"
        "DEV  : loss 2.125 - f-score 0.4391 - acc 0.25\n",
        Axis("iter", "step"),
        {"loss": [(0, 2.5), (24, 2.25)], "val/loss": [(24, 2.125)], "val/f-score": [(24, 0.4391)]},
    ),
    "a total beside its parts": (
        "step 100, policy=6.5 mse=0.25 reg=0.375 total=7.25 (4548.29 pos/s)\n"
        "step 200, policy=5.5 mse=0.125 reg=0.375 total=6.25 (4548.29 pos/s)\n",
        Axis("step", "step"),
        {"total loss": [(100, 7.25), (200, 6.25)], "mse": [(100, 0.25), (200, 0.125)]},
    ),
    "scores of clusters": (
        "Iter 0: acc = 0.75, nmi = 0.5, ari = 0.25  ; loss= 0.5\n"
        "Iter 140: acc = 0.875, nmi = 0.625, ari = 0.5  ; loss= 0.25\n",
        Axis("Iter", "step"),
        {"val/acc": [(0, 0.75), (140, 0.875)], "nmi": [(0, 0.5), (140, 0.625)], "loss": [(0, 0.5), (140, 0.25)]},
    ),
    "the size of a batch among what is planned": (
        "  Weights size     : 4.5 MB\n  Batch=256 RAM    : ~6.3 MB (data)\n"
        "probe, 12 epochs, sgd lr=0.5 cosine, batch 64\n"
        + "".join(f"epoch={i}/12 train_loss={9 - i}.5 lr=0.25\n" for i in range(1, 5)),
        Axis("epoch", "epoch"),
        {"train_loss": [(1, 8.5), (2, 7.5), (3, 6.5), (4, 5.5)], "lr": [(i, 0.25) for i in range(1, 5)]},
    ),
    "a lone step before rows of epochs": (
        "step 300: loss 9.5\n" + "".join(f"epoch {i}: loss {9 - i}.5\nval loss: {9 - i}.75\n" for i in range(1, 5)),
        Axis("epoch", "epoch"),
        {"loss": [(0, 9.5), (1, 8.5), (2, 7.5), (3, 6.5), (4, 5.5)],
         "val loss": [(1, 8.75), (2, 7.75), (3, 6.75), (4, 5.75)]},
    ),
    "steps within the epoch of a heading": (
        "".join(
            f"[Epoch {e}] Training ====\n"
            + "".join(f"Epoch Step:  {s:4} | Accumulation Step: {s // 10} | Loss:   {e}.5\n" for s in (1, 41, 81))
            + f"[Epoch {e}] Validation ====\n(tensor(2.25), <__main__.TrainState object at 0x7f0EDF>)\n"
            for e in (0, 1)
        ),
        Axis("Epoch Step", "step"),
        {"Loss": [(1, 0.5), (41, 0.5), (81, 0.5), (82, 1.5), (122, 1.5), (162, 1.5)],
         "val/loss": [(81, 2.25), (162, 2.25)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_counts_are_understood(name: str, tmp_path: Path) -> None:
    text, axis, expected = LOGS[name]
    result = _read(tmp_path, text)
    assert result.axis == axis
    for series, points in expected.items():
        gathered = result.series[series]
        assert gathered.number_steps == [step for step, _ in points], series
        assert gathered.numbers.tolist() == pytest.approx([value for _, value in points], nan_ok=True), series


def test_a_best_row_printed_once_more_is_no_new_point(tmp_path: Path) -> None:
    rows = [f"[{i}]\ttraining's binary_logloss: 0.{i}5\tvalid_1's binary_logloss: 0.{i}6\n" for i in range(1, 5)]
    result = _read(tmp_path, "".join([*rows, "Early stopping, best iteration is:\n", rows[1]]))
    assert result.series["training's binary_logloss"].number_steps == [1, 2, 3, 4]


def test_a_count_that_rises_within_epochs_stays_the_step(tmp_path: Path) -> None:
    text = "".join(f"Epoch {i // 2} | Steps: {100 * (i % 2 + 1)} | Loss: {5 - i / 8}\n" for i in range(6))
    result = _read(tmp_path, text)
    assert result.series["Loss"].number_steps == [100, 200, 300, 400, 500, 600]


def _read(tmp_path: Path, text: str) -> Read:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    return read(console, path)


def test_a_setting_is_no_epoch_and_iterations_are_finer_than_the_first_epoch(tmp_path: Path) -> None:
    text = "batch =  256\ntolerance =  0.5\nepoch =  20\nprint_freq =  100\nlearning_rate =  0.5\n"
    for i in range(3):
        text += f"Epoch {i}\tAcc: 0.{9 - i}\tnmi: 0.{8 - i}\n"
        text += "".join(f"Iteration: {100 * (2 * i + j)}\tLoss: {8 - i}.5\n" for j in range(2))
    result = _read(tmp_path, text)
    assert result.axis == Axis("Iteration", "step")
    assert set(result.series) == {"val/Acc", "nmi", "Loss"}
    assert result.series["val/Acc"].number_steps == [0, 100, 300]
    assert result.series["Loss"].number_steps == [0, 100, 200, 300, 400, 500]


DIALECTS = {
    "CatBoost": ("{i}:\tlearn: 0.5\ttest: 0.25\tbest: 0.25 ({i})\ttotal: 17.2ms\tremaining: 17s\n",
                 {"learn": 0.5, "test/learn": 0.25}),
    "ML-Agents": ("[INFO] Walker. Step: {i}. Time Elapsed: 60.1 s. Mean Reward: 0.5. Std of Reward: 0.25. Training.\n",
                  {"Mean Reward": 0.5, "Std of Reward": 0.25}),
    "Gaussian splatting": ("[ITER {i}] Evaluating test: L1 0.25 PSNR 27.5 [01/01 10:00:00]\n",
                           {"test/l1_loss": 0.25, "test/psnr": 27.5}),
    "LightGBM": ("[{i}]\tvalid_set's l2: 0.5\n", {"valid_set's l2": 0.5}),
    "BasicSR": ("[epoch:  1, iter: {i}, lr:(2.0e-04,)] l_pix: 0.5\n\t # psnr: 27.5\tBest: 28.0000 @ 5000 iter\n",
                {"l_pix": 0.5, "val/psnr": 27.5}),
    "a table of two columns without bars": (
        "------------------  ------\ntrainer/QF1 Loss        0.5\neval/Average Returns  -20.5\n"
        "Epoch                  {i}\n------------------  ------\n", {"trainer/QF1 Loss": 0.5}),
    "a table of two columns, each behind a time": (
        "2017-01-01 10:00:00 | [trpo] -------------  ---\n2017-01-01 10:00:00 | [trpo] Iteration      {i}\n"
        "2017-01-01 10:00:00 | [trpo] AverageReturn  2.5\n2017-01-01 10:00:00 | [trpo] -------------  ---\n",
        {"AverageReturn": 2.5}),
    "nnU-Net": ("2023-01-01 10:00:00.123456: Epoch {i}\n2023-01-01 10:00:00.123456: train_loss -0.5\n"
                "2023-01-01 10:00:00.123456: Pseudo dice [0.5, 0.25]\n", {"train_loss": -0.5, "Pseudo dice": 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects(name: str, tmp_path: Path) -> None:
    line, expected = DIALECTS[name]
    result = _read(tmp_path, "".join(line.format(i=i) for i in (1, 2, 3)))
    for series, value in expected.items():
        assert result.series[series].number_steps == [1, 2, 3], series
        assert result.series[series].numbers.tolist() == [value] * 3, series
    assert "total loss" not in result.series


def test_iterations_that_go_on_over_epochs_are_those_of_the_run(tmp_path: Path) -> None:
    text = "".join(
        f"Epoch {1 + i // 10}/3, Steps:  1%|##   | {100 * i}/3000 [00:10<00:10,  5.00it/s, step_loss={3 - i / 20}]\n"
        for i in range(1, 30)
    )
    series = _read(tmp_path, text).series["step_loss"]
    assert series.number_steps == [100 * i for i in range(1, 30)]


def test_a_rate_on_a_line_of_its_own_belongs_to_the_step_before(tmp_path: Path) -> None:
    text = "".join(
        f"INFO:tensorflow:loss = {9 - i / 4}, step = {100 * i}\nINFO:tensorflow:global_step/sec: {19 + i / 8}\n"
        for i in range(12)
    )
    rate = _read(tmp_path, text).series["global_step/sec"]
    assert rate.number_steps == [100 * i for i in range(12)]


def test_a_tracebacks_last_words_at_a_checkpoint(tmp_path: Path) -> None:
    rows = "".join(f"step {i} loss {3 - i / 40}\n" for i in range(40))
    trace = (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "callbacks/model_checkpoint.py", line 402, in _save_checkpoint\n'
        "[rank0]: CheckpointingException: Invalid sharding pattern for exp_avg\n"
    )
    events = _read(tmp_path, rows + trace).events
    assert [(event.kind, event.step) for event in events if "sharding" in event.text] == [("checkpoint-failed", 39)]


def test_what_a_save_says_of_its_loss_is_no_row_of_the_log(tmp_path: Path) -> None:
    text = "".join(
        f"epoch {500 * i} | loss {3 - i / 10}\nCheckpoint saved to best.pt (epoch {500 * i - 13}, loss {2 - i / 10})\n"
        for i in range(1, 12)
    )
    assert _read(tmp_path, text).series["loss"].number_steps == [500 * i for i in range(1, 12)]


def test_a_titles_settings_are_no_record(tmp_path: Path) -> None:
    text = "BASELINE (dims = 256, beta = 1, batch = 32)\n" + "".join(f"epoch {i} loss {3 - i / 9}\n" for i in range(9))
    assert _read(tmp_path, text).series["loss"].number_steps == list(range(9))


def test_a_bar_in_words_behind_a_loggers_prefix(tmp_path: Path) -> None:
    text = "".join(
        f"2026-07-24T02:{10 + i}:26 - 0 - tqdm_loggable - tqdm_logging.py:145 - INFO :: Progress on:train "
        f"{10 * i}it/980it rate:9.4s/it remaining:57:55 elapsed:1:46:22 postfix:loss={3 - i / 40}\n"
        for i in range(1, 30)
    )
    assert _read(tmp_path, text).series["loss"].number_steps == [10 * i for i in range(1, 30)]


def test_results_in_brackets_are_no_title(tmp_path: Path) -> None:
    text = "".join(f"Epoch {i} (loss = {3 - i / 8}, acc = {i / 16})\n" for i in range(9))
    assert _read(tmp_path, text).series["loss"].numbers.tolist() == [3 - i / 8 for i in range(9)]


def test_a_second_count_at_another_pace_is_of_the_step_reached(tmp_path: Path) -> None:
    """Episodes and timesteps in turn: one log has one axis."""
    text = "".join(
        f"[Episode {i}] Avg delay: {9 - 0.1 * i:.3f} s | Avg energy: {400 - i:.1f} J\n"
        f" Scenario A Algo b Exp c updates {i}/1000 episodes, total num timesteps {300 * i + 300}/300000, FPS 38.\n"
        f"  average reward: {-200 + i:.2f}\n"
        for i in range(0, 60, 5)
    )
    found = _read(tmp_path, text)
    assert found.axis == Axis("Episode", "step")
    assert set(found.series) == {"Avg delay", "Avg energy", "updates", "FPS", "average reward"}
    assert {tuple(series.step.tolist()) for series in found.series.values()} == {tuple(range(0, 60, 5))}


@pytest.mark.parametrize("other", ["iter", "update"])
def test_a_second_name_of_the_same_count_keeps_its_own_steps(tmp_path: Path, other: str) -> None:
    row = "step {} loss {:.3f}\n{} {} val loss {:.3f}\n"
    text = "".join(row.format(i, 3 - i / 100, other, i + 5, 3 - i / 200) for i in range(10, 100, 10))
    found = _read(tmp_path, text)
    assert found.series["loss"].step.tolist() == list(range(10, 100, 10))
    assert found.series["val loss"].step.tolist() == list(range(15, 105, 10))


def test_timers_are_of_the_step_before_and_the_last_of_it_count(tmp_path: Path) -> None:
    lead = "[2021-12-07 22:05:44,589] [INFO] [logging.py:69:log_dist] [Rank 2]"
    told = "rank=2 time (ms) | forward: {f} | backward_inner: {b} | step: 17.5"
    micro = "time (ms) | fwd_microstep: {f} | bwd_inner_microstep: {b}"
    text = "".join(
        f"{lead} step={step}, skipped=0, lr=[6e-05], mom=[[0.9, 0.999]]\n"
        f"[2021-12-07 22:05:44,589] [INFO] [timer.py:181:stop] 0/{step}, SamplesPerSec={step + 0.5}\n"
        f"{lead} {told.format(f=step + 1.5, b=step + 2.5)}\n"
        f"{lead} {micro.format(f=0.5, b=1.5)}\n{lead} {micro.format(f=2.5, b=3.5)}\n"
        for step in (10, 20)
    )
    result = _read(tmp_path, text)
    expected = {
        "SamplesPerSec": [10.5, 20.5],
        "timers/forward": [11.5, 21.5],
        "timers/backward_inner": [12.5, 22.5],
        "timers/step": [17.5, 17.5],
        "timers/fwd_microstep": [2.5, 2.5],
    }
    for name, values in expected.items():
        assert result.series[name].number_steps == [10, 20]
        assert result.series[name].numbers.tolist() == values


@pytest.mark.parametrize("line", ["learning rate {was} -> {now}", "INFO: lr: {was} --> {now}"])
def test_what_is_set_anew_has_its_new_value(line: str, tmp_path: Path) -> None:
    rates = [2e-4, 1e-4, 0.0, -1e-4, -2e-4]
    text = "".join(
        f"(epoch: {epoch}, iters: 100, time: 0.058) G_L1: {30 - epoch}.5\n{line.format(was=was, now=now)}\n"
        for epoch, (was, now) in enumerate(pairwise(rates), 1)
    )
    (rate,) = (found for name, found in _read(tmp_path, text).series.items() if name in {"learning rate", "lr"})
    assert rate.numbers.tolist() == rates[1:]


def test_what_became_better_is_no_value_of_a_series(tmp_path: Path) -> None:
    text = "".join(f"epoch {n}: loss 0.{9 - n}\nval_loss 0.{9 - n} --> 0.{8 - n}\n" for n in range(1, 6))
    assert set(_read(tmp_path, text).series) == {"loss"}


def _resumed(epochs: int, again: int) -> str:
    row = "INFO: epoch: [{epoch}/8], global_step: {step}, lr: 0.5, loss: {loss}\n"
    before = [(epoch, 30 * n) for n, epoch in enumerate(np.repeat(np.arange(1, epochs + 1), 3).tolist(), 1)]
    after = [(epochs + 1, again + 30 * n) for n in range(1, 4)]
    rows = [row.format(epoch=epoch, step=step, loss=epoch + 0.5) for epoch, step in (*before, *after)]
    return "".join([*rows[: len(before)], "INFO: resume from ./latest\n", *rows[len(before) :], "INFO: saved model\n"])


def test_a_count_that_was_not_restored_is_counted_on_and_told(tmp_path: Path) -> None:
    result = _read(tmp_path, _resumed(5, 0))
    assert result.series["loss"].number_steps == list(range(30, 541, 30))
    told = {event.kind: event.step for event in result.events}
    assert told == {"restart": 450, "counter-restart": 480, "checkpoint-saved": 540}


@pytest.mark.parametrize(("epochs", "again"), [(5, 450), (2, 0)])
def test_a_count_that_goes_on_or_has_not_shown_that_it_does_is_not_lost(
    epochs: int, again: int, tmp_path: Path
) -> None:
    assert "counter-restart" not in {event.kind for event in _read(tmp_path, _resumed(epochs, again)).events}


def test_the_one_rank_of_a_text_is_told_apart_from_its_series(tmp_path: Path) -> None:
    text = "".join(f"[Rank 3] step={n}, lr=[6e-05]\nstep {n} rank 3 loss 2.5\n" for n in (1, 2, 3))
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    found = list(console.read(Source(path, "train.log")))
    assert [record.rank for record in found if isinstance(record, Rank)] == [3]
    assert {record.rank for record in found if isinstance(record, Points)} == {None}


def test_what_one_rank_prints_for_all_is_of_no_rank(tmp_path: Path) -> None:
    text = "".join(
        f"[rank7]: step {n} | loss 2.5\n" + "".join(f"[rank{r}]: step {n} | step_time 0.5\n" for r in range(8))
        for n in (1, 2, 3)
    )
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    found = {(r.name, r.rank) for r in console.read(Source(path, "train.log")) if isinstance(r, Points)}
    assert found == {("loss", None), *(("step_time", rank) for rank in range(8))}


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("node{rank}: step={step} loss=2.5\n", {0, 1}),
        ("worker-{rank}: [2024-05-01 10:00:00,123] [INFO] [Rank {big}] step={step}, loss=2.5\n", {0, 8}),
        ("2024-05-01T10:00:00 - {rank} - levanter.tracker - metrics.py:10 - INFO :: Step {step}: loss=2.5\n", {0, 1}),
    ],
)  # fmt: skip
def test_hosts_and_processes_before_the_line_are_ranks(line: str, ranks: set[int], tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(line.format(rank=r, big=8 * r, step=n) for n in (1, 2, 3) for r in (0, 1)), "utf-8")
    found = [record for record in console.read(Source(path, "train.log")) if isinstance(record, Points)]
    assert {(record.name, record.rank) for record in found} == {("loss", rank) for rank in ranks}
    assert all(record.step.tolist() == [1, 2, 3] for record in found)


def test_a_harness_prints_its_tasks_between_the_rows(tmp_path: Path) -> None:
    table = (
        "|  Tasks  |Version|     Filter     |n-shot|  Metric   |   |Value |   |Stderr|\n"
        "|---------|------:|----------------|-----:|-----------|---|-----:|---|-----:|\n"
        "|gsm8k    |      3|flexible-extract|     5|exact_match|↑  |0.2{n}|±  |0.0044|\n"
        "|         |       |strict-match    |     5|exact_match|↑  |0.1{n}|±  |0.0046|\n"
        "| - arc_easy|    1|none            |     0|acc        |↑  |0.4{n}|±  |0.0102|\n\n"
    )
    text = "".join(f"step {10 * n} | loss {9 - n}.5\n" + (table.format(n=n) if n % 2 else "") for n in range(1, 5))
    result = _read(tmp_path, text)
    found = {name: (series.number_steps, series.numbers.tolist()) for name, series in result.series.items()}
    assert found.pop("loss")[0] == [10, 20, 30, 40]
    assert found == {
        "val/gsm8k/exact_match_flexible_extract": ([10, 30], [0.21, 0.23]),
        "val/gsm8k/exact_match_strict_match": ([10, 30], [0.11, 0.13]),
        "val/arc_easy/acc": ([10, 30], [0.41, 0.43]),
    }


def test_a_range_of_batches_ends_where_the_row_is(tmp_path: Path) -> None:
    text = "".join(
        f"INFO:root:Epoch[{e}] Batch [{b}-{b + 20}]\tSpeed: 1212.12 samples/sec\taccuracy=0.5\n"
        for e in range(2)
        for b in (0, 20, 40)
    )
    assert _read(tmp_path, text).series["accuracy"].number_steps == [20, 40, 60, 80, 100, 120]


def test_an_evaluations_heading_ends_the_trainings_also_before_the_first_row(tmp_path: Path) -> None:
    text = (
        "***** Running training *****\n***** Evaluating perplexity, Epoch 0/2 *****\nppl: 47.5\n"
        "step: 10, loss: 3.5\nstep: 20, loss: 3.25\n"
    )
    assert set(_read(tmp_path, text).series) == {"val/ppl", "loss"}
