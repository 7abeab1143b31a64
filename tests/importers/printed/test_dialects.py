"""Console text over several lines: epochs, tables, blocks, progress bars, two engines, settings, tracebacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import Points, Source, read_head
from trainforensics.model import Axis


def read_text(tmp_path: Path, text: str, name: str = "train.log") -> Read:
    """What the importer makes of a text."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read(console, path)


def points(result: Read, name: str) -> list[tuple[int, float]]:
    """(step, number) of a series."""
    gathered = result.series[name]
    return list(zip(gathered.number_steps, gathered.numbers.tolist(), strict=True))


def assert_points(result: Read, name: str, expected: list[tuple[int, float]]) -> None:
    """A series holds these steps and, within rounding, these numbers."""
    gathered = result.series[name]
    assert gathered.number_steps == [step for step, _ in expected], name
    assert gathered.numbers.tolist() == pytest.approx([value for _, value in expected], nan_ok=True), name


BAR = "{}%|██        | {}/{} [00:10<00:10,  5.00it/s{}]"

# Text, axis, some of its series.
LOGS: dict[str, tuple[str, Axis, dict[str, list[tuple[int, float]]]]] = {
    "bars of both passes in Chinese": (
        "".join(
            f"Epoch {i}/30 [训练]: 100%|████| 125/125 [02:15<00:00, loss={2.5 - i}]\n"
            f"Epoch {i}/30 [验证]: 100%|████| 32/32 [00:28<00:00, loss={3.5 - i}]\n"
            f"🎉 新的最佳模型！Dice Score: 0.75\n"
            for i in (1, 2)
        ),
        Axis("epoch x 125 + iteration", "step"),
        {"loss": [(125, 1.5), (250, 0.5)], "val/loss": [(125, 2.5), (250, 1.5)]},
    ),
    "bars that number their epoch": (
        "".join(
            f"(train: {i} ): 100%|████| 40/40 [00:36<00:00,  1.10it/s, train_loss={2.5 - i}]\n"
            f"(valid: {i} ): 100%|████| 10/10 [00:08<00:00,  1.13it/s, train_loss={3.5 - i}]\n"
            for i in (1, 2)
        ),
        Axis("epoch x 40 + iteration", "step"),
        {"train_loss": [(40, 1.5), (80, 0.5)], "val/train_loss": [(40, 2.5), (80, 1.5)]},
    ),
    "full bars of passes that no epoch is said of": (
        "".join(
            f"loss={2.5 - i}: 100%|████| 469/469 [00:21<00:00, 22.06it/s]\n"
            f"Test set: Average loss: {3.5 - i}, accuracy: 0.5\n"
            for i in (1, 2)
        ),
        Axis("progress bar", "step"),
        {"loss": [(469, 1.5), (938, 0.5)], "val/Average loss": [(469, 2.5), (938, 1.5)]},
    ),
    "a description with wide blanks": (
        "Epochs 0/4. Running Loss:    0.5: 100%|███| 191/191 [08:12<00:00, 2.58s/it]\n"
        "Epochs 1/4. Running Loss:    0.25: 100%|███| 191/191 [08:12<00:00, 2.58s/it]\n",
        Axis("epoch x 191 + iteration", "step"),
        {"Running Loss": [(191, 0.5), (382, 0.25)]},
    ),
    "the split before wide blanks": (
        "Epoch 1 train    loss: 1.5 | F1: 0.25\nEpoch 1 val      loss: 2.5 | F1: 0.5\n"
        "Epoch 2 train    loss: 0.5 | F1: 0.75\nEpoch 2 val      loss: 1.5 | F1: 1.0\n",
        Axis("epoch", "epoch"),
        {"loss": [(1, 1.5), (2, 0.5)], "val/loss": [(1, 2.5), (2, 1.5)], "val/F1": [(1, 0.5), (2, 1.0)]},
    ),
    "the training's loss in the line of an evaluation": (
        "[STEP 300] loss=1.5\n[EVAL]  epoch 1 complete - train_loss=1.25 | val_loss=2.5\n"
        "[STEP 600] loss=1.0\n[EVAL]  epoch 2 complete - train_loss=0.75 | val_loss=2.0\n",
        Axis("STEP", "step"),
        {"train_loss": [(300, 1.25), (600, 0.75)], "val_loss": [(300, 2.5), (600, 2.0)]},
    ),
    "evaluations that say how many steps they took": (
        "".join(
            f"Epoch {i} |   Training | Steps: 10 | Loss: {2.5 - i}\n"
            f"Epoch {i} |   Training | Steps: 20 | Loss: {2.25 - i}\n"
            f"Epoch {i} | Validation | Steps: 3 | Loss: {3.5 - i}\n"
            for i in (0, 1)
        ),
        Axis("Steps", "step"),
        {"Loss": [(10, 2.5), (20, 2.25), (30, 1.5), (40, 1.25)], "val/Loss": [(20, 3.5), (40, 2.5)]},
    ),
    "epochs in brackets behind their batches": (
        "".join(
            f"Batch [100] Train-accuracy=0.{i}\nBatch [200] Train-accuracy=0.{i}5\n[{i}] Train-accuracy=0.{i}25\n"
            for i in (1, 2)
        ),
        Axis("Batch", "step"),
        {
            "Train-accuracy": [(100, 0.1), (200, 0.15), (300, 0.2), (400, 0.25)],
            "epoch/Train-accuracy": [(200, 0.125), (400, 0.225)],
        },
    ),
    "a full bar drawn again behind what a callback says": (
        "Epoch 1/50\n48/48 ━━━━━━━━━━ 0s 25ms/step - loss: 0.5\nEpoch 1: val_loss did not improve from 0.25\n"
        "48/48 ━━━━━━━━━━ 140s 29ms/step - loss: 0.25 - val_loss: 0.75\n",
        Axis("epoch", "epoch"),
        {"loss": [(1, 0.25)], "val_loss": [(1, 0.75)]},
    ),
    "splits before a hyphen in Russian": (
        "Эпоха 1/10\n------\nОбучение   - Потери: 1.5 Точность: 0.25\nВалидация  - Потери: 2.5 Точность: 0.125\n"
        "Эпоха 2/10\n------\nОбучение   - Потери: 0.5 Точность: 0.5\nВалидация  - Потери: 1.5 Точность: 0.25\n",
        Axis("epoch", "epoch"),
        {"loss": [(1, 1.5), (2, 0.5)], "val/loss": [(1, 2.5), (2, 1.5)], "val/accuracy": [(1, 0.125), (2, 0.25)]},
    ),
    "an arrow behind what was measured": (
        "Epoch 7 Train Loss: 1.5\nEpoch 7 Dev Losses -> qa: 0.5, all: 0.75\n"
        "Epoch 8 Train Loss: 1.25\nEpoch 8 Dev Losses -> qa: 0.25, all: 0.5\n",
        Axis("epoch", "epoch"),
        {"Train Loss": [(7, 1.5), (8, 1.25)], "val/qa": [(7, 0.5), (8, 0.25)], "val/all": [(7, 0.75), (8, 0.5)]},
    ),
    "a global step that begins again": (
        "Epoch 0 Global_step 100\tTrain_loss: 1.5\nEpoch 0 Global_step 200\tTrain_loss: 1.25\n"
        "Epoch 0 Global_step 300\tTrain_loss: 1.0\tEval_loss: 2.5\n"
        "Epoch 1 Global_step 100\tTrain_loss: 0.75\nEpoch 1 Global_step 200\tTrain_loss: 0.5\n"
        "Epoch 1 Global_step 300\tTrain_loss: 0.25\tEval_loss: 2.0\n",
        Axis("Global_step", "step"),
        {
            "Train_loss": [(100, 1.5), (200, 1.25), (300, 1.0), (400, 0.75), (500, 0.5), (600, 0.25)],
            "Eval_loss": [(300, 2.5), (600, 2.0)],
        },
    ),
    "Darknet's scores of a batch": (
        "Region Avg IOU: 0.5, Class: 0.25, Obj: 0.125, No Obj: 0.5, Avg Recall: 0.75,  count: 23\n"
        "621: 14.5, 15.5 avg, 0.001 rate, 1.5 seconds, 39744 images\n"
        "Region Avg IOU: 0.625, Class: 0.25, Obj: 0.125, No Obj: 0.5, Avg Recall: 0.75,  count: 23\n"
        "622: 14.25, 15.25 avg, 0.001 rate, 1.5 seconds, 39808 images\n",
        Axis("iteration", "step"),
        {"loss (current)": [(621, 14.5), (622, 14.25)], "Avg Recall": [(0, 0.75), (621, 0.75)]},
    ),
    "losses and scores that nothing counts": (
        "[D loss: 0.5, acc: 0.75] [A loss: 1.5]\n[D loss: 0.25, acc: 0.5] [A loss: 1.25]\n",
        Axis("row", "row"),
        {"D loss": [(1, 0.5), (2, 0.25)], "A loss": [(1, 1.5), (2, 1.25)]},
    ),
    "Detectron2's table": (
        "[06/11 13:51:26 d2.utils.events]:  eta: 1:14:41  iter: 39  total_loss: 1.5  lr: 2.5e-05\n"
        "[06/11 13:51:41 d2.evaluation.coco_evaluation]: Evaluation results for bbox: \n"
        "|   AP   |  AP50  |  AP75  |\n|:------:|:------:|:------:|\n| 60.5 | 88.5 | 66.5 |\n",
        Axis("iter", "step"),
        {"total_loss": [(39, 1.5)], "val/bbox/AP": [(39, 60.5)], "val/bbox/AP50": [(39, 88.5)]},
    ),
    "MetricLogger": (
        "Epoch: [0]  [  0/900]  eta: 0:06:18  lr: 0.1  loss: 1.5 (1.75)  max mem: 15024\n"
        "Epoch: [0]  [450/900]  eta: 0:06:13  lr: 0.1  loss: 1.25 (1.5)  max mem: 15024\n"
        "Test:  [  0/100]  eta: 0:00:10  loss: 2.0 (2.0)\n"
        "Test:  [ 99/100]  eta: 0:00:00  loss: 1.0 (1.5)\n"
        "Averaged stats: lr: 0.1  loss: 1.0 (1.4)\n"
        "Epoch: [1]  [  0/900]  eta: 1 day, 0:06:18  lr: 0.1  loss: nan (nan)  max mem: 15024\n",
        Axis("epoch x 900 + iteration", "step"),
        {
            "loss (current)": [(0, 1.5), (450, 1.25), (900, np.nan)],
            "loss (average)": [(0, 1.75), (450, 1.5), (900, np.nan)],
            "val/loss (average)": [(450, 1.5)],
        },
    ),
    "torchvision example": (
        "Epoch: [0][100/1250]\tTime 0.311(0.312)\tLoss 2.5(2.25)\tAcc@1   0.00 (  0.5)\n"
        "Epoch: [1][0/1250]\tTime 0.311(0.312)\tLoss 2.25(2.25)\tAcc@1   1.00 (  0.5)\n"
        " *   Acc@1 30.0 Acc@5 60.0\n",
        Axis("epoch x 1250 + iteration", "step"),
        {"Loss (current)": [(100, 2.5), (1250, 2.25)], "val/Acc@5": [(1250, 60.0)]},
    ),
    "timm": (
        "Train: 0 [   0/1251 (  0%)]  Loss: 7.0 (6.5)  Time: 1.2s,  800.10/s  (1.2s,  800.10/s)  LR: 1.0e-06\n"
        "Train: 1 [ 100/1251 (  8%)]  Loss: 6.0 (6.5)  Time: 1.2s,  900.10/s  (1.2s,  800.10/s)  LR: 1.0e-06\n",
        Axis("epoch x 1251 + iteration", "step"),
        {"Loss (current)": [(0, 7.0), (1351, 6.0)]},
    ),
    "mmdetection": (
        "2021-03-01 10:00:00,123 - mmdet - INFO - Epoch [1][50/100]\tlr: 1.0e-03, eta: 1 day, 2:30:10, loss: 1.5\n"
        "2021-03-01 10:01:00,123 - mmdet - INFO - Epoch [2][50/100]\tlr: 1.0e-03, eta: 1 day, 2:30:10, loss: 1.25\n",
        Axis("epoch x 100 + iteration", "step"),
        {"loss": [(50, 1.5), (150, 1.25)]},
    ),
    "steps that begin anew with every epoch": (
        "Epoch [1/5], Step [100/600], Loss: 2.5\nEpoch [1/5], Step [600/600], Loss: 2.0\n"
        "Epoch [2/5], Step [100/600], Loss: 1.5\n",
        Axis("Step", "step"),
        {"Loss": [(100, 2.5), (600, 2.0), (700, 1.5)]},
    ),
    "steps that go on": (
        "Epoch 1/5 | Step 100/900 | loss=2.5\nEpoch 2/5 | Step 200/900 | loss=2.0\n",
        Axis("Step", "step"),
        {"loss": [(100, 2.5), (200, 2.0)]},
    ),
    "brackets alone": (
        "[1,  2000] loss: 2.5\n[1,  4000] loss: 2.0\n[2,  2000] loss: 1.5\n",
        Axis("iteration", "step"),
        {"loss": [(2000, 2.5), (4000, 2.0), (6000, 1.5)]},
    ),
    "fairseq's lines at the end of an epoch": (
        "| epoch 001:     50 / 1000 loss=12.5, num_updates=50\n| epoch 001 | loss 12.25 | num_updates 1000\n"
        "| epoch 001 | valid on 'valid' subset | loss 10.5 | num_updates 1000\n",
        Axis("num_updates", "step"),
        {"loss": [(50, 12.5)], "epoch/loss": [(1000, 12.25)], "val/loss": [(1000, 10.5)]},
    ),
    "MindSpore": (
        "....epoch: 1 step: 100, loss is 5.5\nTrain epoch time: 66471.205 ms, per step time: 664.712 ms\n"
        "epoch: 2 step: 100, loss is 4.5\n",
        Axis("step", "step"),
        {"loss": [(100, 5.5), (200, 4.5)]},
    ),
    "a held-out bar": (
        "epoch 1: 100%|██████████| 153/153 [00:03<00:00, 44.53it/s, loss=0.75, metrics={'acc': 0.5}]\n"
        "valid: 100%|██████████| 39/39 [00:00<00:00, 116.60it/s, loss=0.5, metrics={'acc': 0.25}]\n",
        Axis("epoch x 153 + iteration", "step"),
        {"loss": [(153, 0.75)], "acc": [(153, 0.5)], "val/loss": [(153, 0.5)], "val/acc": [(153, 0.25)]},
    ),
    "numbers before a bar": (
        "\rEpoch 1 loss: 0.5:  45%|████▌     | 450/1000 [00:30<00:37, 14.9it/s]"
        "\rEpoch 2 loss: 0.25:  46%|████▌     | 460/1000 [00:30<00:37, 14.9it/s]\n",
        Axis("epoch x 1000 + iteration", "step"),
        {"loss": [(450, 0.5), (1460, 0.25)]},
    ),
    "a bar that rounds its step": (
        "\rEpoch 0:   0%|     | 190/301501 [59:30<1572:41:13, 18.79s/it, reduced_train_loss=7.5, global_step=189.0]"
        "\rEpoch 0:   0%|     | 1235/301501 [59:30<1572:41:13, 18.79s/it, reduced_train_loss=7.25, "
        "global_step=1.23e+3]\n",
        Axis("global_step", "step"),
        {"reduced_train_loss": [(189, 7.5), (1234, 7.25)]},
    ),
    "XGBoost": (
        "[0]\ttrain-rmse:0.5\teval-rmse:0.75\n[1]\ttrain-rmse:0.25\teval-rmse:0.5\n",
        Axis("iteration", "step"),
        {"train-rmse": [(0, 0.5), (1, 0.25)], "eval-rmse": [(0, 0.75), (1, 0.5)]},
    ),
    "Keras": (
        "Epoch 1/2\n\r  1/938 [....] - ETA: 5:00 - loss: 2.5\x08\x08\x08\r"
        "938/938 [====] - 3s 3ms/step - loss: 0.5 - val_loss: 0.75\n"
        "Epoch 2/2\n938/938 ━━━━━━━━━━ 3s 3ms/step - loss: 0.25 - val_loss: 0.5\n",
        Axis("epoch", "epoch"),
        {"loss": [(1, 0.5), (2, 0.25)], "val_loss": [(1, 0.75), (2, 0.5)]},
    ),
    "Keras without bars": (
        "Epoch 1/2\n3083s - loss: 1.5 - val_loss: 0.5\nEpoch 2/2\n3083s - loss: 1.25 - val_loss: 0.25\n",
        Axis("epoch", "epoch"),
        {"loss": [(1, 1.5), (2, 1.25)], "val_loss": [(1, 0.5), (2, 0.25)]},
    ),
    "halves of an epoch": (
        "Epoch 1/50\nTRAINING   -- Loss: 1.5  |  Accuracy: 81.5%\nVALIDATION -- Loss: 2.5  |  Accuracy: 80.5%\n"
        "Epoch 2/50\nTRAINING   -- Loss: 1.25  |  Accuracy: 82.5%\n",
        Axis("epoch", "epoch"),
        {"Loss": [(1, 1.5), (2, 1.25)], "val/Loss": [(1, 2.5)], "val/Accuracy": [(1, 80.5)]},
    ),
    "a table": (
        "| Epoch | Train Loss | Val Acc (%) |\n-----------------------------\n| 1     | 1.5        | 57.5        |\n"
        "| 2     | 1.25       | 60.5        |\n",
        Axis("epoch", "epoch"),
        {"Train Loss": [(1, 1.5), (2, 1.25)], "Val Acc (%)": [(1, 57.5), (2, 60.5)]},
    ),
    "a table set apart by blanks": (
        "epoch     train_loss  valid_loss  time\n0         2.5         2.25        00:12\n"
        "1         2.0         2.0         00:12\n",
        Axis("epoch", "epoch"),
        {"train_loss": [(0, 2.5), (1, 2.0)], "valid_loss": [(0, 2.25), (1, 2.0)]},
    ),
    "a metric a line": (
        "-----------------------------\n| rollout/            |        |\n|    ep_rew_mean      | 1.5    |\n"
        "| time/               |        |\n|    iterations       | 2      |\n|    total_timesteps  | 4096   |\n"
        "-----------------------------\n",
        Axis("time/total_timesteps", "step"),
        {"rollout/ep_rew_mean": [(4096, 1.5)], "time/iterations": [(4096, 2.0)]},
    ),
    "blocks under a step": (
        "2024-05-01 10:00:00.123\thost:0\tolmo.train:335\tINFO\t[step=10/100]\n    train/CrossEntropyLoss=11.25\n"
        "    throughput/total_tokens=41,943,040\n[step=20/100]\n    train/CrossEntropyLoss=10.5\n",
        Axis("step", "step"),
        {"train/CrossEntropyLoss": [(10, 11.25), (20, 10.5)], "throughput/total_tokens": [(10, 41943040.0)]},
    ),
    "numbers behind a bar": (
        "\r".join(["", BAR.format(1, 4, 400, ", avr_loss=0.5"), BAR.format(1, 4, 400, ", avr_loss=0.25"),
                   BAR.format(2, 8, 400, ", avr_loss=0.125")]) + "\n",
        Axis("progress bar", "step"),
        {"avr_loss": [(4, 0.25), (8, 0.125)]},
    ),
    "a bar for each epoch": (
        "\rEpoch 0:  " + BAR.format(50, 50, 100, ", v_num=0, train_loss=0.5")
        + "\rValidation:  " + BAR.format(50, 1, 2, "")
        + "\rEpoch 1:  " + BAR.format(50, 50, 100, ", v_num=0, train_loss=0.25") + "\n",
        Axis("epoch x 100 + iteration", "step"),
        {"train_loss": [(50, 0.5), (150, 0.25)]},
    ),
    "epochs in a row of a bar": (
        "      Epoch    GPU_mem   box_loss\n\r      1/3      2.1G      1.5: " + BAR.format(50, 4, 8, "")
        + "\r      1/3      2.1G      1.25: " + BAR.format(100, 8, 8, "")
        + "\n\r      2/3      2.1G      1.0: " + BAR.format(100, 8, 8, "") + "\n",
        Axis("epoch", "epoch"),
        {"box_loss": [(1, 1.25), (2, 1.0)]},
    ),
    "rows alone": (
        "{'loss': 0.5, 'epoch': 0.01}\n{'loss': 0.25, 'epoch': 0.01}\n{'eval_loss': 0.75, 'epoch': 0.01}\n",
        Axis("row", "row"),
        {"loss": [(1, 0.5), (2, 0.25)], "eval_loss": [(2, 0.75)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_steps(name: str, tmp_path: Path) -> None:
    text, axis, expected = LOGS[name]
    result = read_text(tmp_path, text)
    assert result.axis == axis
    for tag, values in expected.items():
        assert_points(result, tag, values)


def test_rows_count_by_the_logging_interval_beside_the_log(tmp_path: Path) -> None:
    (tmp_path / "training_args.json").write_text('{"logging_steps": 5}')
    result = read_text(tmp_path, "{'loss': 0.5, 'epoch': 0.01}\n{'loss': 0.25, 'epoch': 0.02}\n")
    assert points(result, "loss") == [(5, 0.5), (10, 0.25)]
    assert result.axis == Axis("row x 5", "step")


def test_two_engines_that_log_the_same_names(tmp_path: Path) -> None:
    line = "[2023-04-18 08:48:36,035] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped=0, lr=[{}], mom=[0.9]\n"
    result = read_text(tmp_path, "".join(line.format(s, r) for s in (10, 20, 30) for r in (0.5 / s, 0.25 / s)))
    assert_points(result, "lr", [(10, 0.05), (20, 0.025), (30, 0.5 / 30)])
    assert_points(result, "lr #2", [(10, 0.025), (20, 0.0125), (30, 0.25 / 30)])


def test_a_learning_rate_that_restarts_is_no_restart(tmp_path: Path) -> None:
    text = "step 1 loss 2.5\nSnapshot 1 saved to model_1.h5, restarting learning rate at 0.04\nstep 2 loss 2.25\n"
    assert "restart" not in {event.kind for event in read_text(tmp_path, text).events}


def test_a_restart_stands_before_the_first_step_after_it(tmp_path: Path) -> None:
    text = "step 100 loss 2.5\nstep 200 loss 2.25\nresuming training from the last checkpoint\nstep 110 loss 2.5\n"
    text += "Loaded checkpoint (epoch 1 @ 81275 updates)\n"
    events = read_text(tmp_path, text).events
    assert [(e.kind, e.step, e.line) for e in events] == [("restart", 109, 3), ("checkpoint-loaded", 81275, 5)]


def test_checkpoints_are_said_once(tmp_path: Path) -> None:
    text = "step 500 loss 2.5\n" + "".join(
        f"[rank{r}]: Saving model checkpoint to out/checkpoint-500\n" for r in range(4)
    )
    events = read_text(tmp_path, text).events
    assert [(e.kind, e.step) for e in events] == [("checkpoint-saved", 500)]


def test_the_loss_leaves_the_record(tmp_path: Path) -> None:
    line = " iteration {:8}/ 8000 | learning rate: 1.0E-04 | {}loss scale: 1.0 | number of nan iterations:   0 |\n"
    text = line.format(1, "lm loss: 2.5E+00 | ") + line.format(2, "lm loss: 2.5E+00 | ") + line.format(3, "") * 2
    result = read_text(tmp_path, text)
    assert points(result, "lm loss") == [(1, 2.5), (2, 2.5)]
    assert [step for step, _ in points(result, "loss scale")] == [1, 2, 3, 3]
    assert [(e.kind, e.step) for e in result.events] == [("missing-loss", 3)]
    assert result.config == {"max_steps": 8000}


def test_tracebacks_of_ranks_that_interrupt_each_other(tmp_path: Path) -> None:
    text = """step 7 loss 2.5
[rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 402, in <module>
[rank1]: Traceback (most recent call last):
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
[rank1]:   File "train.py", line 402, in <module>
[rank1]: RuntimeError: shape mismatch
"""
    events = read_text(tmp_path, text).events
    assert [(e.kind, e.rank, e.step, e.line) for e in events] == [("oom", 3, 7, 2), ("traceback", 1, 7, 4)]
    assert events[1].text == "RuntimeError: shape mismatch"


def test_settings(tmp_path: Path) -> None:
    text = """batch_size = 12
  fp16 ............................................ True
Namespace(lr=0.1, name='x y', resume=None)
cmd = main.py --learning_rate 9.65e-6 --weight_decay 0. --zero_stage 2
***** Running training *****
  Num examples = 16,000
  Total optimization steps = 850
world_size:1 grad_accum_steps:8
n_layer = 2 | n_embd = 64 | tied = True
lr = 0.5, loss = 3, seed = 4
step 5 loss 3
"""
    config = read_text(tmp_path, text).config
    assert config["batch_size"] == 12 and config["fp16"] is True and config["lr"] == 0.1 and config["name"] == "x y"
    assert config["learning_rate"] == 9.65e-6 and config["zero_stage"] == 2 and config["max_steps"] == 850
    assert config["n_layer"] == 2 and config["tied"] is True and "seed" not in config
    assert config["num_examples"] == 16000 and config["grad_accum_steps"] == 8 and config["resume"] is None


def test_what_is_no_record(tmp_path: Path) -> None:
    text = """number of parameters: 123.59M
Step 100: loss improved from 2.3 to 2.1
train_batch_tokens:524288 iterations:20000 warmup_steps:20
Epoch 0, global step 100: 'val_loss' reached 0.5 (best 0.5)
{'lr': 0.0001, 'betas': [0.8, 0.999]}
***** train metrics *****
  train_loss               =     0.4321
wandb:       train/loss 0.123
def f(step): return step + 1
    "lr": 0.0001,
"""
    assert not read_text(tmp_path, text).series


def test_text_with_events_alone_is_claimed_weakly(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("2025-11-13 03:05:22 checkpoint saved step=3000\n2025-11-13 03:05:23 job preempted\n")
    assert 0 < console.sniff(read_head(path)) < 0.3
    events = read(console, path).events
    assert [(e.kind, e.step) for e in events] == [("checkpoint-saved", 3000), ("preemption", 3000)]
    assert events[0].wall_time == 1763003122.0


def test_records_behind_a_long_program_are_found(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(
        '"""A program."""\n' + "x = f(1)  # step\n" * 20_000 + "step:1/9 train_loss:2.5\nstep:2/9 train_loss:2.25\n"
    )
    assert console.sniff(read_head(path)) == 0.5
    assert points(read(console, path), "train_loss") == [(1, 2.5), (2, 2.25)]


def test_a_line_without_end(tmp_path: Path) -> None:
    record = " iteration {:8}/ 9000 | lm loss: {:.6E} | grad norm: 1.0 |"
    result = read_text(tmp_path, "".join(record.format(step, 1 / step) for step in range(1, 2001)))
    assert_points(result, "lm loss", [(step, float(f"{1 / step:.6E}")) for step in range(1, 2001)])


def test_order_within_a_series_of_several_shapes(tmp_path: Path) -> None:
    text = "".join(f"step: {s} loss: {s}.5" + (" lr: 0.1\n" if s % 3 else "\n") for s in range(1, 50))
    gathered = read_text(tmp_path, text).series["loss"]
    assert gathered.step.tolist() == list(range(1, 50))
    assert (np.diff(gathered.seq) > 0).all()


_FRAGMENTS = st.sampled_from(
    ["step", "loss", ":", "=", " ", "|", "1", "nan", "3.5", "{", "'", "}", "[", "]", "(", ")", "%|", "/", "\r", "\n",
     "Epoch", "iter", "2025-01-01 00:00:00", "rank0", ",", "-", "\x1b[31m", "Traceback (most recent call last):",
     "it/s", "OVERFLOW!", "\x08", "é", "checkpoint", "50%|█  | 1/2 [00:01<00:01, 1.0it/s, loss=2]", "\x00"]
)  # fmt: skip


@given(st.lists(_FRAGMENTS, max_size=60).map("".join))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_never_raises(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.log"
    path.write_bytes(text.encode() + b"\xff")
    console.sniff(read_head(path))
    for record in console.read(Source(path, path.name)):
        if isinstance(record, Points):
            assert len(record.step) == len(record.value) == len(record.seq)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30), st.integers(1, 12))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_cut_into_lines_of_any_rank_keeps_every_number(tmp_path: Path, steps: list[int], ranks: int) -> None:
    path = tmp_path / "ranks.log"
    path.write_text("".join(f"[rank{i % ranks}]: step: {s} loss: {s / 7}\n" for i, s in enumerate(steps)))
    found = [p for p in console.read(Source(path, path.name)) if isinstance(p, Points)]
    assert sorted(s for p in found for s in p.step.tolist()) == sorted(steps)
    assert sorted(v for p in found for v in p.value.tolist()) == pytest.approx(sorted(s / 7 for s in steps))


def test_rows_that_came_through_syslog(tmp_path: Path) -> None:
    lines = [
        f"Feb {9 + i // 4:2d} 22:14:{10 + i} gpu07 train[2214]: iter={10 * i} loss={1 / (i + 1):.4f}" for i in range(8)
    ]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = read(console, path)
    assert set(result.series) == {"loss"}
    assert result.series["loss"].number_steps == list(range(0, 80, 10))


def test_rates_in_brackets_behind_the_loss(tmp_path: Path) -> None:
    row = "2020-06-11 10:30:0{0}.279246: step {0}, loss = 4.5 (91{0}.0 examples/sec; 0.6 sec/batch)\n"
    result = read_text(tmp_path, "".join(row.format(i) for i in range(6)))
    assert result.series["examples/sec"].numbers.tolist() == [910.0 + i for i in range(6)]
    assert result.series["loss"].numbers.tolist() == [4.5] * 6


def test_settings_with_epochs_are_no_record(tmp_path: Path) -> None:
    text = "[TRAIN] Epochs=100 | Workers=2 | Learning_rate=0.01\n"
    text += "".join(f"[TRAIN] Epoch {i}/100 | loss={5.5 - i}\n" for i in (1, 2, 3))
    result = read_text(tmp_path, text)
    assert points(result, "loss") == [(1, 4.5), (2, 3.5), (3, 2.5)]
    assert "Learning_rate" not in result.series


def test_what_is_best_so_far_is_no_row(tmp_path: Path) -> None:
    text = "".join(
        f"Epoch {i}/5 | train loss: {5.5 - i} | val accuracy: 0.5\nNew best model saved! Epoch: {i}, "
        "val accuracy: 0.75\n"
        for i in (1, 2, 3)
    )
    assert points(read_text(tmp_path, text), "val accuracy") == [(1, 0.5), (2, 0.5), (3, 0.5)]


def test_a_date_in_a_path_is_no_step(tmp_path: Path) -> None:
    text = "step 5 loss 0.5\nSaved best model to checkpoints/20241101_002913/best.pt\nstep 6 loss 0.25\n"
    assert [(event.kind, event.step) for event in read_text(tmp_path, text).events] == [("checkpoint-saved", 5)]


@pytest.mark.parametrize(
    "line",
    [
        "Epoch {}, {}, loss: {}",
        "(epoch {}) ({}) loss={}",
        "Epoch {} {} - loss: {}",
        "Epoch {} - {} - loss: {}",
        "Epoch: {}, phase: {}, loss: {}",
        "epoch={} split={} loss={}",
        "Epoch {}\t{}\tloss {}",
        "[Epoch {} {}] loss: {}",
        "Epoch {} * {} * loss {}",
        "epoch {} | mode {} | loss {}",
        "{{'epoch': {}, 'split': '{}', 'loss': {}}}",
    ],
)
def test_a_split_alone_between_marks_is_of_what_follows(line: str, tmp_path: Path) -> None:
    text = "".join(line.format(i, "train", 5.5 - i) + "\n" + line.format(i, "Val", 9.5 - i) + "\n" for i in (1, 2, 3))
    result = read_text(tmp_path, text)
    assert_points(result, "loss", [(1, 4.5), (2, 3.5), (3, 2.5)])
    assert_points(result, "val/loss", [(1, 8.5), (2, 7.5), (3, 6.5)])


@pytest.mark.parametrize("said", ["eval=False", "validation: True", "no validation", "tested often"])
def test_what_is_said_of_an_evaluation_is_no_split(said: str, tmp_path: Path) -> None:
    text = "".join(f"epoch {i}, {said}, loss: {5.5 - i}\n" for i in (1, 2, 3))
    assert points(read_text(tmp_path, text), "loss") == [(1, 4.5), (2, 3.5), (3, 2.5)]


def test_a_checkpoint_that_was_not_saved_is_no_save(tmp_path: Path) -> None:
    text = "step 5 loss 2.0\nWARNING: checkpoint not saved, continuing\nstep 6 loss 1.9\nnot saving model weights\n"
    assert "checkpoint-saved" not in [event.kind for event in read_text(tmp_path, text).events]


def test_a_checkpoint_that_is_staged_is_no_save_until_it_is_committed(tmp_path: Path) -> None:
    text = (
        "step 190 loss 2.0\nckpt: staged step_000200 to host memory, 1 in queue\nstep 200 loss 1.9\n"
        "ckpt-writer: committed step_000200 (47 KiB)\nckpt: staged step_000400 to host memory, 1 in queue\n"
    )
    assert [(e.kind, e.step) for e in read_text(tmp_path, text).events] == [("checkpoint-saved", 200)]


def test_a_checkpoint_loaded_before_the_first_step_may_be_of_another_run(tmp_path: Path) -> None:
    text = "loading checkpoint from base/checkpoint-700\nstep 1 loss 2.0\nstep 2 loss 1.9\n"
    assert [(e.kind, e.step) for e in read_text(tmp_path, text).events] == [("checkpoint-loaded", 0)]


def test_files_numbered_one_after_another_are_of_the_steps_done(tmp_path: Path) -> None:
    text = "".join(f"step {n}000 loss 2.5\nC {' ' * 20} saved model_checkpoint_0000{n}.checkpoint\n" for n in (1, 2, 3))
    events = read_text(tmp_path, text).events
    assert [(e.kind, e.step) for e in events] == [("checkpoint-saved", n * 1000) for n in (1, 2, 3)]


def test_a_bar_that_leaps_to_where_an_earlier_run_had_been_leaves_rows_at_their_distance(tmp_path: Path) -> None:
    def rows(first: int, count: int) -> str:
        told = (f"{{'loss': {3 - i / 100}, 'epoch': {(first + 10 * i) / 1000:.2f}}}\n" for i in range(count))
        return "".join(told) + f" 10%|#| {first + 10 * (count - 1)}/1000 [00:30<04:30, 3.14s/it]\n"

    bar = "  0%|          | 0/1000 [00:00<?, ?it/s]\n"
    text = bar + "".join(rows(first, 5) for first in range(10, 310, 50)) + "Loading checkpoint out/checkpoint-250\n"
    loss = read_text(tmp_path, text + bar + rows(260, 5) + rows(310, 5)).series["loss"]
    assert loss.step.tolist() == [*range(10, 310, 10), *range(260, 360, 10)]
