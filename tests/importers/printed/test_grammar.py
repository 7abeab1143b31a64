"""Kinds of lines: where the count stands, what names a number, what belongs to held-out data, what is no record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import Points, Source, read_head

Pairs = list[tuple[int, float]]


def read_text(tmp_path: Path, text: str) -> Read:
    """What the importer makes of a text."""
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    assert console.sniff(read_head(path)) >= 0.3
    return read(console, path)


def points_of(path: Path) -> list[Points]:
    return [record for record in console.read(Source(path, path.name)) if isinstance(record, Points)]


def assert_series(result: Read, expected: dict[str, Pairs]) -> None:
    for name, points in expected.items():
        gathered = result.series[name]
        assert gathered.number_steps == [step for step, _ in points], name
        assert gathered.numbers.tolist() == pytest.approx([value for _, value in points], nan_ok=True), name


COUNTS: dict[str, tuple[str, dict[str, Pairs]]] = {
    "an epoch and an iteration out of so many in brackets": (
        "[0][50/100] loss: 2.5\n[0][100/100] loss: 2.25\n[1][50/100] loss: 2.0\n",
        {"loss": [(50, 2.5), (100, 2.25), (150, 2.0)]},
    ),
    "a share that begins the line": (
        "10/500 = 2.0%, SPS: 1.5, ELAP: 18, ETA: 3:16 - loss: 35.5\n"
        "20/500 = 4.0%, SPS: 1.5, ELAP: 22, ETA: 3:12 - loss: 28.0\n",
        {"loss": [(10, 35.5), (20, 28.0)], "SPS": [(10, 1.5), (20, 1.5)]},
    ),
    "a share that starts again with an epoch said later": (
        "1/2, train_loss: 4.0\n2/2, train_loss: 3.0\nepoch 1 average loss: 3.5\n1/2, train_loss: 2.0\n",
        {"train_loss": [(1, 4.0), (2, 3.0), (3, 2.0)], "average loss": [(2, 3.5)]},
    ),
    "an epoch in words": (
        "0/2 in 0 epoch finished at time 0:00:23.95 from start, Loss is 0.5 Acc is 0.75\n"
        "1/2 in 0 epoch finished at time 0:00:26.20 from start, Loss is 0.25 Acc is 0.5\n"
        "0/2 in 1 epoch finished at time 0:00:28.44 from start, Loss is 0.125 Acc is 0.5\n",
        {"Loss": [(0, 0.5), (1, 0.25), (2, 0.125)], "Acc": [(0, 0.75), (1, 0.5), (2, 0.5)]},
    ),
    "accuracies with a suffix in a validation line": (
        "2022-06-15 01:21:41,000 - train - INFO - Epoch [1][100/200]\tlr: 1.0e-01, loss: 2.5\n"
        "2022-06-15 01:22:41,000 - train - INFO - Epoch [1][200/200]\tlr: 1.0e-01, loss: 2.25\n"
        "2022-06-15 01:23:43,000 - train - INFO - Epoch(val) [1][25]\taccuracy_top-1: 0.5, accuracy_top-5: 0.75\n"
        "2022-06-15 01:24:41,000 - train - INFO - Epoch [2][100/200]\tlr: 1.0e-01, loss: 2.0\n"
        "2022-06-15 01:25:41,000 - train - INFO - Epoch [2][200/200]\tlr: 1.0e-01, loss: 1.75\n"
        "2022-06-15 01:26:43,000 - train - INFO - Epoch(val) [2][25]\taccuracy_top-1: 0.625, accuracy_top-5: 0.875\n",
        {"val/accuracy_top-1": [(200, 0.5), (400, 0.625)], "val/accuracy_top-5": [(200, 0.75), (400, 0.875)]},
    ),
    "a number and a colon": (
        "0:\tlearn: 0.75\ttest: 0.875\ttotal: 12ms\n1:\tlearn: 0.5\ttest: 0.75\ttotal: 24ms\n",
        {"learn": [(0, 0.75), (1, 0.5)], "test/learn": [(0, 0.875), (1, 0.75)]},
    ),
    "a loss and its mean without a name": (
        "Region 82 Avg IOU: -nan, Class: -nan, Obj: -nan, No Obj: 0.000004, .5R: -nan, .75R: -nan,  count: 0\n"
        " 7: 2.5, 2.75 avg, 0.001 rate, 3.5 seconds, 448 images\n"
        " 8: 2.25, 2.7 avg loss, 0.001 rate, 3.5 seconds, 512 images\n",
        {"loss (current)": [(7, 2.5), (8, 2.25)],
         "loss (average)": [(7, 2.75), (8, 2.7)], "rate": [(7, 0.001), (8, 0.001)]},
    ),
    "two shares in brackets": (
        "[0/2][1/2]\tLoss_D: 1.5\tLoss_G: 2.5\tD(x): 0.5\n[1/2][0/2]\tLoss_D: 1.25\tLoss_G: 2.25\tD(x): 0.5\n",
        {"Loss_D": [(1, 1.5), (2, 1.25)], "Loss_G": [(1, 2.5), (2, 2.25)]},
    ),
    "a share in round brackets behind an epoch": (
        "Epoch:[1/2](0/40) loss:2.5 lr:0.00055 epoch_Time:38.4min:\n"
        "Epoch:[2/2](20/40) loss:2.25 lr:0.0005 epoch_Time:3.4min:\n",
        {"loss": [(0, 2.5), (60, 2.25)]},
    ),
    "words before the epoch": (
        "Train: data epoch: [0]  [ 0/50]  eta: 0:05:10  lr: 0.1  loss: 3.5  max mem: 38201\n"
        "2023-06-01 10:09:30,411 [INFO] Averaged stats: lr: 0.0000  loss: 3.0701\n"
        "Train: data epoch: [1]  [25/50]  eta: 0:04:39  lr: 0.2  loss: 3.25  max mem: 38201\n",
        {"loss": [(0, 3.5), (75, 3.25)], "lr": [(0, 0.1), (75, 0.2)]},
    ),
    "a bracketed number with blanks": (
        "TP:1783, TN:171, FP:23, FN:17\n[ (0 ) Loss:  0.5, train_Acc: 0.75, valid_Loss: 0.25, valid_Acc: 0.5]\n"
        "[ (1 ) Loss:  0.25, train_Acc: 0.75, valid_Loss: 0.125, valid_Acc: 0.5]\n",
        {"Loss": [(0, 0.5), (1, 0.25)], "valid_Loss": [(0, 0.25), (1, 0.125)]},
    ),
    "iterations of an epoch in round brackets": (
        "(epoch: 1, iters: 100, time: 1.5, data: 0.25) D_A: 0.5 G_A: 0.75\n"
        "End of epoch 1 / 200 \t Time Taken: 120 sec\n"
        "(epoch: 2, iters: 50, time: 1.5, data: 0.25) D_A: 0.25 G_A: 0.5\n",
        {"D_A": [(100, 0.5), (150, 0.25)], "G_A": [(100, 0.75), (150, 0.5)]},
    ),
    "a range of batches": (
        "[host] 2023-05-18 11:00:15,123 (trainer:754) INFO: 1epoch:train:1-100batch: iter_time=0.5, loss=3.5\n"
        "[host] 2023-05-18 11:01:15,123 (trainer:754) INFO: 1epoch:train:101-200batch: iter_time=0.5, loss=3.25\n"
        "[host] 2023-05-18 11:02:15,123 (trainer:754) INFO: 2epoch:train:1-100batch: iter_time=0.5, loss=3.0\n",
        {"loss": [(100, 3.5), (200, 3.25), (300, 3.0)]},
    ),
    "episodes that carriage returns part": (
        "\rEpisode 1\tFrame 20 \tAverage100 Score: 20.0\rEpisode 2\tFrame 46 \tAverage100 Score: 23.0\n",
        {"Average100 Score": [(1, 20.0), (2, 23.0)], "Frame": [(1, 20.0), (2, 46.0)]},
    ),
    "episodes without any loss": (
        "Episode 1/500, Total Reward: 1.5, Epsilon: 0.9\nEpisode 2/500, Total Reward: 2.5, Epsilon: 0.8\n",
        {"Total Reward": [(1, 1.5), (2, 2.5)]},
    ),
    "a hash before the count": (
        "Epoch #1: test_reward: 10.5 ± 20.1, best_reward: 10.5 ± 1.2 in #1\n"
        "Epoch #2: test_reward: 11.5 ± 20.1, best_reward: 11.5\n",
        {"test_reward": [(1, 10.5), (2, 11.5)]},
    ),
    "a step of an epoch": (
        "step 0 of epoch 0: loss=2.5 lr=0.1\nstep 10 of epoch 0: loss=2.25 lr=0.1\n", {"loss": [(0, 2.5), (10, 2.25)]},
    ),
    "steps printed in thousands": (
        "".join(f"INFO 2026-06-12 10:58:46 ot_train.py:357 step:{step} smpl:32K ep:101 loss:{loss} lr:1.0e-05\n"
                for step, loss in (("600", 4.0), ("800", 3.0), ("1K", 2.0), ("1K", 1.5), ("1K", 1.25), ("2K", 1.0))),
        {"loss": [(600, 4.0), (800, 3.0), (1000, 2.0), (1200, 1.5), (1400, 1.25), (1600, 1.0)]},
    ),
    "updates and abbreviated names": (
        "[2020-05-18 11:01:15] Ep. 1 : Up. 100 : Sen. 6,400 : Cost 2.5 * 1,000 after 3,000 : Time 32.10s : gNorm 1.25\n"
        "[2020-05-18 11:01:25] [valid] Ep. 1 : Up. 100 : cross-entropy : 101.5 : new best\n"
        "[2020-05-18 11:02:15] Ep. 1 : Up. 200 : Sen. 6,400 : Cost 2.25 * 1,000 after 6,000 : Time 32.10s : "
        "gNorm 1.5\n",
        {"Cost": [(100, 2.5), (200, 2.25)], "gNorm": [(100, 1.25), (200, 1.5)], "val/cross-entropy": [(100, 101.5)]},
    ),
    "updates without any colon before a number": (
        "[2019-08-21 03:21:51] Ep. 1 : Up. 500 : Sen. 1,170 : Cost 8.5 : Time 611.20s : 53363 words/s : L.r. 5e-06\n"
        "[2019-08-21 03:31:41] Ep. 1 : Up. 1000 : Sen. 2,367 : Cost 7.5 : Time 590.66s : 51525 words/s : L.r. 1e-05\n",
        {"Cost": [(500, 8.5), (1000, 7.5)], "L.r.": [(500, 5e-6), (1000, 1e-5)]},
    ),
    "a number before bars": (
        "step 0: train loss 10.5, val loss 10.25\n0 | loss 10.0 | lr 0.0e+00 | 54055.48ms\n"
        "10 | loss 9.5 | lr 9.0e-05 | 7353.63ms\n",
        {"loss": [(0, 10.0), (10, 9.5)], "val loss": [(0, 10.25)]},
    ),
    "two counts of which one tells the lines apart": (
        "iter 0 step 0: loss 10.5, iter time: 196.40ms\niter 1 step 1: loss 10.5, iter time: 215ms (optimizer.step)\n"
        "iter 2 step 1: loss 10.5, iter time: 196.40ms\niter 3 step 2: loss 10.5, iter time: 215ms (optimizer.step)\n",
        {"loss": [(0, 10.5), (1, 10.5), (2, 10.5), (3, 10.5)]},
    ),
    "two counts of which one starts again": (
        "step 98 batch 3: loss 2.5\nstep 99 batch 4: loss 2.25\nstep 100 batch 0: loss 2.0\n",
        {"loss": [(98, 2.5), (99, 2.25), (100, 2.0)]},
    ),
    "a bare number": (
        "2 nll=+1.5\n4 nll=-0.25\n6 nll=nan\n", {"nll": [(2, 1.5), (4, -0.25), (6, np.nan)]},
    ),
    "a step before a dictionary": (
        "train in step: 100, {'loss': 2.5, 'epoch': 0.5}\ntrain in step: 200, {'loss': 2.25, 'epoch': 0.75}\n",
        {"loss": [(100, 2.5), (200, 2.25)], "epoch": [(100, 0.5), (200, 0.75)]},
    ),
    "an epoch before a dictionary": (
        "Epoch 3: {'loss': 2.5, 'acc': 0.5}\nEpoch 4: {'loss': 2.25, 'acc': 0.75}\n",
        {"loss": [(3, 2.5), (4, 2.25)], "acc": [(3, 0.5), (4, 0.75)]},
    ),
    "a symbol for the time": (
        "t=0 L=0.5 |g|=1.5 lr=0.06\nt=1 L=0.25 |g|=1.25 lr=0.06\n",
        {"L": [(0, 0.5), (1, 0.25)], "|g|": [(0, 1.5), (1, 1.25)], "lr": [(0, 0.06), (1, 0.06)]},
    ),
    "a list of step and learning rate": (
        "INFO:my-own:Train Epoch: 2 [14%]\nINFO:my-own:[200, 9.99875e-05]\nINFO:my-own:loss_disc=3.5, loss_g=3\n"
        "INFO:my-own:Train Epoch: 3 [21%]\nINFO:my-own:[400, 9.99750e-05]\nINFO:my-own:loss_disc=3.0, loss_g=3\n",
        {"loss_disc": [(200, 3.5), (400, 3.0)], "learning_rate": [(200, 9.99875e-5), (400, 9.9975e-5)]},
    ),
}  # fmt: skip

NAMES: dict[str, tuple[str, dict[str, Pairs]]] = {
    "a finished epoch": (
        "2026-02-28 17:46:56,769 - INFO - Epoch 1 finished. Train Loss: 0.5 | Val Loss: 0.25 | LR: 8.60e-05\n"
        "2026-02-28 17:47:56,769 - INFO - Epoch 2 finished. Train Loss: 0.25 | Val Loss: 0.125 | LR: 8.60e-05\n",
        {"Train Loss": [(1, 0.5), (2, 0.25)], "Val Loss": [(1, 0.25), (2, 0.125)]},
    ),
    "two words before an equals sign": (
        "INFO:Epoch 1: Train Loss=0.5, Val Loss=0.25\nINFO:Epoch 2: Train Loss=0.25, Val Loss=0.125\n",
        {"Train Loss": [(1, 0.5), (2, 0.25)], "Val Loss": [(1, 0.25), (2, 0.125)]},
    ),
    "names of a group": (
        "Epoch 1, batch 50, loss[loss=0.5, simple_loss=0.75, over 5012.00 frames. ], tot_loss[loss=0.625, "
        "simple_loss=0.875, "
        "over 1000123.40 frames. ], lr: 3.0e-03\n"
        "Epoch 1, validation: loss=0.25, simple_loss=0.5, over 944034.00 frames. \n",
        {"loss": [(50, 0.5)], "simple_loss": [(50, 0.75)], "tot_loss/loss": [(50, 0.625)], "val/loss": [(50, 0.25)]},
    ),
    "units before a tab": (
        "Epoch[1] Batch [50]\tSpeed: 850.5 samples/sec\t120.5 tokens/sec\tcross-entropy=2.5 perplexity=12.0\n"
        "Epoch[1] Batch [100]\tSpeed: 850.5 samples/sec\t120.5 tokens/sec\tcross-entropy=2.25 perplexity=9.0\n",
        {"Speed": [(50, 850.5), (100, 850.5)], "tokens/sec": [(50, 120.5), (100, 120.5)],
         "cross-entropy": [(50, 2.5), (100, 2.25)]},
    ),
    "a logger's name before the level": (
        "[05/18 11:01:15] ppdet.engine INFO: Epoch: [0] [20/240] learning_rate: 0.5 loss: 2.5 eta: 1 day, 1:14:44\n"
        "[05/18 11:02:15] ppdet.engine INFO: Epoch: [1] [20/240] learning_rate: 0.5 loss: 2.25 eta: 1 day, 1:14:44\n",
        {"loss": [(20, 2.5), (260, 2.25)]},
    ),
    "a day without its year": (
        "10/30 22:09:28 - mmengine - INFO - Epoch(train) [1][10/735]  lr: 2.0e-04  loss: 3.5  grad_norm: nan\n"
        "10/30 22:09:57 - mmengine - INFO - Epoch(train) [1][20/735]  lr: 2.0e-04  loss: 3.25  grad_norm: 1.5\n",
        {"loss": [(10, 3.5), (20, 3.25)], "grad_norm": [(10, np.nan), (20, 1.5)]},
    ),
    "a class with its line before the record, sentences": (
        "2016-12-28 03:04:16 INFO  Optimizer$:230 - [Epoch 12 6583/12800][Iteration 16000][Wall Clock 0.5s] "
        "Train 1120 in 2.955215 seconds. Throughput is 376.5 records/second. Loss is 2.5. \n"
        "2016-12-28 03:04:28 INFO  Optimizer$:230 - [Epoch 12 7703/12800][Iteration 16004][Wall Clock 1.5s] "
        "Train 1120 in 2.908113 seconds. Throughput is 378.5 records/second. Loss is 2.25. \n",
        {"Loss": [(16000, 2.5), (16004, 2.25)], "Throughput": [(16000, 376.5), (16004, 378.5)]},
    ),
    "a level behind the time": (
        "2020-12-22 07:57:57,400-INFO: iter: 0, lr: 0.5, 'loss': '2.5', eta: 8:52:18\n"
        "2020-12-22 07:58:03,800-INFO: iter: 20, lr: 0.25, 'loss': '2.25', eta: 8:29:51\n",
        {"loss": [(0, 2.5), (20, 2.25)], "lr": [(0, 0.5), (20, 0.25)]},
    ),
    "a number in a name": (
        "Step   100 | Avg Reward (last 10):  28.5 | σ=0.25 | Episodes: 16\n"
        "Step   200 | Avg Reward (last 10):  38.5 | σ=0.25 | Episodes: 33\n",
        {"Avg Reward (last 10)": [(100, 28.5), (200, 38.5)], "σ": [(100, 0.25), (200, 0.25)]},
    ),
    "a logger's name without a mark": (
        "2025-03-04 09:12:01 INFO trainer step 1 | loss 2.5\n2025-03-04 09:12:01 INFO skipping step 2 | loss 9.5\n"
        "2025-03-04 09:12:01 INFO trainer step 2 | loss 2.25\n",
        {"loss": [(1, 2.5), (2, 2.25)]},
    ),
    "tensors": (
        "[TRAIN] Iter: 100 Loss: 0.5  PSNR: tensor([20.5], device='cuda:0')\n"
        "[TRAIN] Iter: 200 Loss: 0.25  PSNR: tensor([21.5])\n",
        {"Loss": [(100, 0.5), (200, 0.25)], "PSNR": [(100, 20.5), (200, 21.5)]},
    ),
    "a loss by another word": (
        "2025-03-04 09:12:01,444 INFO trainer: step=0 hinge=0.5 param=3.5\n"
        "2025-03-04 09:12:02,351 INFO trainer: step=2 hinge=0.25 param=3.25\n",
        {"hinge": [(0, 0.5), (2, 0.25)]},
    ),
    "names that nobody knows": (
        "meta-iter    1  pre   8.25  post   7.5\nmeta-iter    2  pre   7.75  post   6.5\n",
        {"pre": [(1, 8.25), (2, 7.75)], "post": [(1, 7.5), (2, 6.5)]},
    ),
    "names without any mark": (
        "2023-05-18 11:01:15.123456: Epoch 0\n2023-05-18 11:01:55.123456: train_loss -0.5\n"
        "2023-05-18 11:01:55.123456: val_loss -0.25\n2023-05-18 11:01:56.123456: Epoch 1\n"
        "2023-05-18 11:02:55.123456: train_loss -0.75\n",
        {"train_loss": [(0, -0.5), (1, -0.75)], "val_loss": [(0, -0.25)]},
    ),
}  # fmt: skip

HELD_OUT: dict[str, tuple[str, dict[str, Pairs]]] = {
    "halves of one line": (
        "1epoch results: [train] loss_ctc=3.5, loss=2.5, total_count=100, [valid] loss_ctc=4.5, loss=4.0, acc=0.5\n"
        "2epoch results: [train] loss_ctc=3.25, loss=2.25, total_count=200, [valid] loss_ctc=4.25, loss=3.75, "
        "acc=0.5\n",
        {"loss": [(1, 2.5), (2, 2.25)], "val/loss": [(1, 4.0), (2, 3.75)], "val/acc": [(1, 0.5), (2, 0.5)]},
    ),
    "results of an epoch": (
        "Epoch[1] Iteration[100/100] Loss: 2.5\nTraining Results - Epoch: 1  Avg accuracy: 0.5 Avg loss: 2.25\n"
        "Validation Results - Epoch: 1  Avg accuracy: 0.25 Avg loss: 2.75\n",
        {"Loss": [(100, 2.5)],
         "Avg loss": [(100, 2.25)], "val/Avg loss": [(100, 2.75)], "val/Avg accuracy": [(100, 0.25)]},
    ),
    "a line that says how long inference took": (
        "Epoch 1 loss 0.5 | train 2.1s\nEpoch 2 loss 0.25 | train 2.1s | Acc 45.5% | infer 4.4s\n"
        "Epoch 3 loss 0.125 | train 2.1s | Train acc 75.5%\n",
        {"loss": [(1, 0.5), (2, 0.25), (3, 0.125)], "val/Acc": [(2, 45.5)], "Train acc": [(3, 75.5)]},
    ),
    "numbers as in a call": (
        "step 5: loss 2.5\nTop1 is Accuracy(correct: 29051, count: 50000, accuracy: 0.5)\nstep 6: loss 2.25\n",
        {"loss": [(5, 2.5), (6, 2.25)], "val/accuracy": [(5, 0.5)], "val/correct": [(5, 29051)]},
    ),
    "an evaluation that is saved": (
        "INFO:tensorflow:loss = 2.5, step = 100 (12.3 sec)\n"
        "INFO:tensorflow:Saving dict for global step 100: accuracy = 0.5, global_step = 100, loss = 2.75\n",
        {"loss": [(100, 2.5)], "val/loss": [(100, 2.75)], "val/accuracy": [(100, 0.5)]},
    ),
    "brackets that say the part": (
        "[2022/05/18 11:01:15] ppcls INFO: [Train][Epoch 1/2][Iter: 90/100]lr: 0.5, CELoss: 2.5, loss: 2.5, "
        "eta: 1 day\n"
        "[2022/05/18 12:00:15] ppcls INFO: [Train][Epoch 1/2][Avg]CELoss: 2.25, loss: 2.25, top1: 0.5\n"
        "[2022/05/18 12:01:15] ppcls INFO: [Eval][Epoch 1][Avg]CELoss: 2.75, loss: 2.75, top1: 0.25\n",
        {"loss": [(90, 2.5)], "epoch/loss": [(90, 2.25)], "val/loss": [(90, 2.75)], "val/top1": [(90, 0.25)]},
    ),
    "the mean of an epoch is a series of its own": (
        "Epoch[0] Batch [20]\tTrain-CrossEntropy=2.5\nEpoch[0] Train-CrossEntropy=nan\nEpoch[0] Validation-Acc=0.5\n",
        {"Train-CrossEntropy": [(20, 2.5)], "epoch/Train-CrossEntropy": [(20, np.nan)], "Validation-Acc": [(20, 0.5)]},
    ),
    "how a metric changed is no evaluation": (
        "Step 50/100; acc: 12.5; xent: 3.5\nValidation perplexity: 14.5\nModel is improving ppl: 8.1 --> 5.4.\n",
        {"xent": [(50, 3.5)], "Validation perplexity": [(50, 14.5)]},
    ),
}  # fmt: skip

BLOCKS: dict[str, tuple[str, dict[str, Pairs]]] = {
    "names that repeat the part before a path": (
        "[batch=50/70000]:\n\t Train time/batch: 49\n\t Train loss/train/total: 9.25\n[batch=100/70000]:\n"
        "\t Train time/batch: 99\n\t Train loss/train/total: 7.75\n\t Eval metrics/eval/LanguageCrossEntropy: 7.5\n",
        {"loss/train/total": [(50, 9.25), (100, 7.75)], "metrics/eval/LanguageCrossEntropy": [(100, 7.5)]},
    ),
    "a header with a time, averages behind the numbers": (
        "   --> TIME: 2023-05-18 11:00:15 -- STEP: 0/200 -- GLOBAL_STEP: 0\n     | > loss_gen: 2.5  (2.25)\n"
        "     | > loss_mel: 50.5  (50.0)\n"
        "   --> TIME: 2023-05-18 11:01:15 -- STEP: 25/200 -- GLOBAL_STEP: 25\n     | > loss_gen: 2.25  (2.0)\n",
        {"loss_gen (current)": [(0, 2.5), (25, 2.25)], "loss_mel (average)": [(0, 50.0)]},
    ),
    "a header behind host, logger and level": (
        "2024-08-06 09:59:26 node-16:0\tolmo.train:908\tINFO\t[step=1/7393,epoch=0]\n    optim/total_grad_norm=231.5\n"
        "    train/CrossEntropyLoss=12.5\n"
        "2024-08-06 10:00:05 node-16:0\tolmo.train:908\tINFO\t[step=2/7393,epoch=0]\n    optim/total_grad_norm=0.5\n"
        "    train/CrossEntropyLoss=1.5\n",
        {"optim/total_grad_norm": [(1, 231.5), (2, 0.5)], "train/CrossEntropyLoss": [(1, 12.5), (2, 1.5)]},
    ),
    "a header behind module, line and rank in brackets": (
        "[2024-07-29 22:12:51] INFO     [olmo.train:885, rank=0] [step=1/739,epoch=0]\n"
        "    train/CrossEntropyLoss=12.5\n"
        "[2024-07-29 22:12:57] INFO     [olmo.train:885, rank=0] [step=2/739,epoch=0]\n"
        "    train/CrossEntropyLoss=1.5\n",
        {"train/CrossEntropyLoss": [(1, 12.5), (2, 1.5)]},
    ),
    "a second count under the header": (
        "                      Learning iteration 1/1500\n               Value function loss: 2.5\n"
        "                 Mean reward: 1.5\n"
        "             Total timesteps: 98304\n                 Iteration time: 1.5s\n"
        "                      Learning iteration 2/1500\n               Value function loss: 2.25\n",
        {"Value function loss": [(1, 2.5), (2, 2.25)], "Mean reward": [(1, 1.5)], "Total timesteps": [(1, 98304)],
         "Iteration time": [(1, 1.5)]},
    ),
    "a dictionary over several lines, under the line with its step": (
        "Step 100 per-step time 0.5s\n{'Loss/classification_loss': 1.5,\n 'Loss/total_loss': 2.5,\n"
        " 'learning_rate': 0.25}\n"
        "Step 200 per-step time 0.5s\n{'Loss/classification_loss': 1.25,\n 'Loss/total_loss': 2.25,\n"
        " 'learning_rate': 0.25}\n",
        {"Loss/total_loss": [(100, 2.5), (200, 2.25)], "Loss/classification_loss": [(100, 1.5), (200, 1.25)]},
    ),
    "a table of signs": (
        "E    #       LOSS TOK2VEC  LOSS NER  SCORE \n---  ------  ------------  --------  ------\n"
        "  0       0         60.50     40.25    0.25\n  0     200         50.50     30.25    0.50\n",
        {"LOSS NER": [(0, 40.25), (200, 30.25)], "SCORE": [(0, 0.25), (200, 0.5)]},
    ),
    "boxed metrics of reinforcement learning": (
        "---------------------\n| EpRewMean      | 1.5  |\n| TimestepsSoFar | 4096 |\n---------------------\n"
        "---------------------\n| EpRewMean      | 2.5  |\n| TimestepsSoFar | 8192 |\n---------------------\n",
        {"EpRewMean": [(4096, 1.5), (8192, 2.5)]},
    ),
    "a bar without an end": (
        "\r10it [00:10,  1.20it/s, loss=2.5, lr=0.5]\r20it [00:20,  1.20it/s, loss=2.25, lr=0.5]\n",
        {"loss": [(10, 2.5), (20, 2.25)]},
    ),
    "a bar in words": (
        "Progress on:train 5.00it/1.00kit rate:1.2s/it remaining:10:10 elapsed:05:10 postfix:loss=2.5\n"
        "Progress on:train 10.0it/1.00kit rate:1.2s/it remaining:10:10 elapsed:05:20 postfix:loss=2.25\n",
        {"loss": [(5, 2.5), (10, 2.25)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [pytest.param(*case, id=name) for cases in (COUNTS, NAMES, HELD_OUT, BLOCKS) for name, case in cases.items()],
)
def test_kinds_of_lines(text: str, expected: dict[str, Pairs], tmp_path: Path) -> None:
    assert_series(read_text(tmp_path, text), expected)


def test_ranks_of_several_print_the_same_step(tmp_path: Path) -> None:
    line = "2024-01-13 20:11:39 INFO [train.py:1028] ({rank}/2) Epoch 1, batch {step}, loss=0.5, lr: 0.25\n"
    text = "".join(line.format(rank=rank, step=step) for step in (0, 50, 100) for rank in (0, 1))
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    ranks = {(points.name, points.rank): points.step.tolist() for points in points_of(path)}
    assert ranks[("loss", 0)] == ranks[("loss", 1)] == [0, 50, 100]


def test_a_share_before_a_global_step_is_no_rank(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("(1/3) iter 100, loss=0.5\n(2/3) iter 200, loss=0.25\n(3/3) iter 300, loss=0.25\n")
    assert {(points.name, points.rank) for points in points_of(path)} == {("loss", None)}


def test_a_very_long_line_of_glued_records(tmp_path: Path) -> None:
    line = "".join(f"iter {i} || Loss: {i}.5 || timer: 0.3520 sec." for i in range(1, 2001))
    result = read_text(tmp_path, line + "\n")
    assert result.series["Loss"].number_steps == list(range(1, 2001))


NO_TRAINING = {
    "source code": "import os\n\nclass Net:\n    loss = 0.5\n    val = [1, 2]\n\ndef step(epoch=3):\n"
    "    return val[0]\n",
    "C": "enum status {\n    STATUS_OK = 0,\n    STATUS_ERROR = 4,\n};\nint error = 0;\nreturn val[0];\n",
    "packages": "numpy==1.26.4\ntorch==2.3.1+cu121\ntqdm==4.66.5\nlossless==0.1\nscore==1.2\n",
    "prose": "The first 3 episodes were better than the 4 that followed.\nIn step 2 of 5 we lost 10% of the batch.\n"
    "Chapter 12. An error of 0.5 was found, and 3 of 4 tests passed.\n",
    "settings": "model:\n  lr: 0.001\n  batch_size: 32\n  max_steps: 1000\n  warmup_steps: 20\n  dropout: 0.1\n",
    "settings in JSON": '{\n  "learning_rate": 0.001,\n  "num_epochs": 3,\n  "score": 0.5,\n  "steps": 500\n}\n',
    "history of a repository": "commit 9fceb02\nAuthor: A B <a@b.org>\nDate:   Mon Mar 3 10:00:00 2025 +0100\n\n"
    "    Fix step 3 of the loss; 12 files changed, 34 insertions(+), 5 deletions(-)\n",
    "results of tests": "tests/test_a.py ....... [ 50%]\ntests/test_b.py ....... [100%]\n"
    "12 passed, 3 warnings in 2.50s\n",
    "a build": "[ 12%] Building CXX object a.cc.o\n[100%] Linking CXX executable a\nStep 1/12 : FROM python:3.11\n",
    "a download": "\r 45%|████▌     | 450/1000 [00:30<00:37, 14.9MB/s]\nCollecting numpy<2.0,>=1.2\n",
    "a pointer to the file": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
    "sweep of a setting": "t=0.5 lr=0.1\nt=0.6 lr=0.1\n",
    "times of steps": "step 1 took 2.5 seconds\niter 5 of the loop, 3 of 4.5 done\nstep 2  took 2.5s\n",
    "settings in a call": "Namespace(lr=0.5, loss=0.25, annealing_loss=0.25)\nargs = TrainArgs(loss=2.5, lr=0.25)\n",
    "a file's name": "Restored all states from the checkpoint at /results/step=799-loss=4096.0-last\n" * 2,
    "asides": "A better model was found (reward: 2.5)\nA better model was found (reward: 3.5)\n",
    "a list of pairs": "[1, 0.05]\n[2, 0.04]\n[3, 0.03]\n",
    "a table of counts": "10 | 12 | 13\n20 | 22 | 23\n",
    "settings with a count among them": "train:\n  batch_size: 64\n  steps: 10000\n  weight_decay: 0.1\n  warmup: 2\n",
    "benchmark of batch sizes": "".join(f"batch {2**i} latency {i}.5 ms throughput {i * 100}.2\n" for i in range(6)),
    "times of steps that rise": "".join(f"step {i} took 2.{i} seconds\n" for i in range(6)),
    "instructions": "".join(f"Step {i}: copy file{i}.txt ({i}.5 MB)\n" for i in range(1, 7)),
    "an image's build": "".join(f"Step {i}/12 : RUN pip install a=={i}.0\n ---> Running in 1b{i}\n" for i in range(6)),
    "settings in the plural": "epochs: 90\nbatch size: 256\nlearning rate: 0.1\n",
    "a list of instructions": "1. Install torch 2.1\n2. Run train.py with 8 GPUs\n3. Expect 30 GB of memory\n",
    "a table of hosts": "Device    tps    kB_read/s\nsda    1.12    12.3\nsdb    2.12    12.5\n",
    "a table of models": "| model | epochs | lr |\n|---|---|---|\n| resnet18 | 90 | 0.1 |\n| resnet50 | 90 | 0.1 |\n",
    "answers of a host": "".join(f"64 bytes from 1.1.1.1: icmp_seq={i} ttl=57 time={i}.12 ms\n" for i in range(6)),
    "a search of settings": "".join(
        f"[I 2024-05-01 10:00:0{i},123] Trial {i} finished with value: 0.{i}5 and parameters: {{'x': 0.{i}}}.\n"
        for i in range(6)
    ),
    "lifecycle alone": "[2022-09-23 19:31:01,023][__main__][INFO] - Starting training!\n[...] - Instantiating model\n",
}  # fmt: skip


@pytest.mark.parametrize("name", NO_TRAINING)
def test_what_is_no_training_stays_unread(name: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(NO_TRAINING[name], encoding="utf-8")
    assert console.sniff(read_head(path)) <= 0.1
    assert not read(console, path).series


COUNTED: dict[str, tuple[str, dict[str, Pairs]]] = {
    "a global total is finer than an epoch": (
        "epoch 0, total_step 0, total loss is 22.5\nepoch 0, total_step 100, total loss is 22.0\n"
        "epoch 1, total_step 200, total loss is 21.5\n",
        {"total loss": [(0, 22.5), (100, 22.0), (200, 21.5)]},
    ),
    "epoch and batch in one share": (
        "TRAIN | Batch 0/0 loss 8.0 lr 0.1\nTRAIN | Batch 0/100 loss 6.0 lr 0.1\nTRAIN | Batch 0/200 loss 4.0 lr 0.1\n"
        "TRAIN | Batch 1/0 loss 3.5 lr 0.1\nTRAIN | Batch 1/100 loss 3.0 lr 0.1\n",
        {"loss": [(0, 8.0), (100, 6.0), (200, 4.0), (300, 3.5), (400, 3.0)]},
    ),
    "a share of all batches": (
        "TRAIN | Batch 1/9 loss 8.0 lr 0.1\nTRAIN | Batch 2/9 loss 6.0 lr 0.1\nTRAIN | Batch 3/9 loss 4.0 lr 0.1\n",
        {"loss": [(1, 8.0), (2, 6.0), (3, 4.0)]},
    ),
    "a count between a name and its number": (
        "Train loss 30000 0.5 Grad Norm 0.25 1.25s/it\nValidation loss 30000:  0.75  \n"
        "Train loss 30001 0.25 Grad Norm 0.5 1.5s/it\nTrain loss 30002 0.125 Grad Norm 0.25 1.25s/it\n"
        "Validation loss 30002:  0.625  \n",
        {
            "Train loss": [(30000, 0.5), (30001, 0.25), (30002, 0.125)],
            "Grad Norm": [(30000, 0.25), (30001, 0.5), (30002, 0.25)],
            "Validation loss": [(30000, 0.75), (30002, 0.625)],
        },
    ),
    "counts and numbers alone": (
        "".join(f"{step}:\t{2 - step / 80}\n" for step in range(0, 120, 10)) + "Validation loss 110: -0.5\n",
        {"loss": [(step, 2 - step / 80) for step in range(0, 120, 10)], "Validation loss": [(110, -0.5)]},
    ),
    "a part of the data before names without marks": (
        "[   25/1500] loss=2.5 lr=0.1\n  >> validation: loss 0.75 acc 81.25%\n[   50/1500] loss=2.25 lr=0.1\n",
        {"loss": [(25, 2.5), (50, 2.25)], "val/loss": [(25, 0.75)], "val/acc": [(25, 81.25)]},
    ),
    "a heading over held-out results": (
        "Epoch 1\n-------\nloss: 2.5  [   64/60000]\nloss: 2.25  [ 6464/60000]\nloss: 2.0  [12864/60000]\n"
        "Test Error: \n Accuracy: 50.0%, Avg loss: 1.25 \n\n"
        "Epoch 2\n-------\nloss: 1.5  [   64/60000]\nTest Error: \n Accuracy: 62.5%, Avg loss: 1.125 \n",
        {
            "loss": [(64, 2.5), (6464, 2.25), (12864, 2.0), (60064, 1.5)],
            "val/Accuracy": [(12864, 50.0), (60064, 62.5)],
            "val/Avg loss": [(12864, 1.25), (60064, 1.125)],
        },
    ),
    "a count that begins again before it would pass its total": (
        "loss: 8.0  [  640/ 2048]\nloss: 7.0  [ 1280/ 2048]\nloss: 6.0  [ 1920/ 2048]\nloss: 5.0  [  512/ 2048]\n",
        {"loss": [(640, 8.0), (1280, 7.0), (1920, 6.0), (2560, 5.0)]},
    ),
    "starred results with a loss among them": (
        "Epoch: [0][10/20]\tLoss 2.5\n * Acc@1 84.5 Loss 0.5\nEpoch: [0][20/20]\tLoss 2.25\n * Acc@1 85.5 Loss 0.25\n",
        {"Loss": [(10, 2.5), (20, 2.25)], "val/Acc@1": [(10, 84.5), (20, 85.5)], "val/Loss": [(10, 0.5), (20, 0.25)]},
    ),
    "durations in words": (
        "".join(
            f"{n}epoch results: [train] loss=2.{n}, time={n} minutes and 2.{n} seconds, n=9, [valid] loss=3.{n}\n"
            for n in (2, 5)
        ),
        {"loss": [(2, 2.2), (5, 2.5)], "val/loss": [(2, 3.2), (5, 3.5)]},
    ),
    "null at first": (
        '{"step": 1, "loss": 2.5, "val_loss": null}\n{"step": 2, "loss": 2.25, "val_loss": 3.5}\n',
        {"loss": [(1, 2.5), (2, 2.25)], "val_loss": [(2, 3.5)]},
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_counts_and_what_is_held_out(name: str, tmp_path: Path) -> None:
    text, expected = COUNTED[name]
    assert_series(read_text(tmp_path, text), expected)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("".join(f"loss: 2.5  [{count:>5d}/60000]\n" for count in (64, 6464, 12864)), "sample"),
        ("".join(f"loss: 2.5  [{count:>5d}/60000]\n" for count in (640, 1280, 1920)), "step"),
    ],
)
def test_counts_of_samples_are_called_so(text: str, unit: str, tmp_path: Path) -> None:
    axis = read_text(tmp_path, f"Epoch 1\n{text}").axis
    assert axis is not None
    assert axis.unit == unit


@pytest.mark.parametrize(
    "text",
    [
        "0: 0.875\n1: 0.75\n2: 0.625\n",
        "Train loss 2 0.5 of the stages\nTrain loss 1 0.25 of the stages\n",
    ],
)
def test_few_numbers_are_no_records(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(text)
    assert not points_of(path)


@pytest.mark.parametrize(("lines", "told"), [(15, True), (5, False)])
def test_many_alike_lines_that_are_not_read_are_told(lines: int, told: bool, tmp_path: Path) -> None:
    text = "".join(
        f"step {step} loss 2.5\nRegion 82 Avg IOU: 0.5{step}, Class: 0.25, No Obj: 0.125, count: 4\n"
        for step in range(lines)
    )
    warnings = read_text(tmp_path, text).warnings
    assert [(warning.kind, warning.where) for warning in warnings] == ([("unread-lines", "line 2")] if told else [])
    assert all(f"{lines} lines" in warning.message for warning in warnings)


def test_averages_of_what_was_read_are_not_told_as_unread(tmp_path: Path) -> None:
    text = "".join(
        f"Epoch: [{epoch}]  [ 0/50]  eta: 0:00:10  loss: 2.5 (2.5)\n"
        f"Epoch: [{epoch}]  [49/50]  eta: 0:00:00  loss: 2.25 (2.4)\n"
        f"Averaged stats: loss: 2.25 (2.4)\n* Acc@1 50.5 Acc@5 75.5 loss 1.75\n"
        for epoch in range(15)
    )
    assert not read_text(tmp_path, text).warnings
