"""What small and home-made trainers print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from reading import read

from trainforensics.importers import console

Series = Mapping[str, Sequence[tuple[int, float | str]]]

# Text, and series of it.
LOGS: dict[str, tuple[str, Series]] = {
    "build-nanogpt": (
        "0 val 10.9\n0 hella 0.25\n" + "".join(f"{i} train 9.{i}\n" for i in range(3)),
        {"val": [(0, 10.9)], "hella": [(0, 0.25)], "train": [(0, 9.0), (1, 9.1), (2, 9.2)]},
    ),
    "Romanian, with a norm between bars and a loss in two units": (
        "".join(
            f"pas  {i}0 | pierdere 3.{i} | lr 4.00e-05 | |g|  2.{i} |    0.2s\n"
            f"        -> validare 0.{i} nats = 0.8 biti/caracter\n"
            for i in (1, 2)
        )
        + "cea mai buna validare: 0.1 nats = 0.5 biti/caracter\n",
        {"loss": [(10, 3.1), (20, 3.2)], "|g|": [(10, 2.1), (20, 2.2)], "val loss": [(10, 0.1), (20, 0.2)]},
    ),
    "TensorFlow's U-Net, evaluated before the first step": (
        "Verification error= 49.9%, loss= 0.5\n"
        + "".join(
            f"Iter {i}, Minibatch Loss= 0.{i}5, Training Accuracy= 0.5, Minibatch error= 50.0%\n" for i in range(3)
        )
        + "Epoch 0, Average loss: 0.25, learning rate: 0.0010\nVerification error= 48.5%, loss= 0.75\n",
        {"Minibatch Loss": [(0, 0.05), (1, 0.15), (2, 0.25)], "val/loss": [(0, 0.5), (2, 0.75)],
         "Verification error": [(0, 49.9), (2, 48.5)]},
    ),
    "a record behind a sentence": (
        "".join(
            f"The average error of the model on the 13 test images  is: 0.{e}8351 "
            f"Epoch [{e}/5], Step [1/2], Loss: {e}.25\n"
            f"Epoch [{e}/5], Step [2/2], Loss: {e}.5\n"
            for e in (1, 2)
        ).partition(": 0.18351 ")[2],
        {"Loss": [(1, 1.25), (2, 1.5), (3, 2.25), (4, 2.5)], "test_error": [(2, 0.28351)]},
    ),
    "the tutorial's sentence": (
        "".join(
            f"Epoch {e} loss: {e}.5\nAccuracy of the network on the 10000 test images: 5{e} %\n" for e in (1, 2)
        ),
        {"loss": [(1, 1.5), (2, 2.5)], "test_Accuracy": [(1, 51.0), (2, 52.0)]},
    ),
    "WeNet's evaluations": (
        "".join(
            f"2023-05-01 10:0{e}:00,123 DEBUG TRAIN Batch {e}/0 loss {e}.5 loss_att 1.5 lr 0.001 rank 0\n"
            + "".join(
                f"2023-05-01 10:0{e}:3{b},123 DEBUG CV Batch {e}/{b}00 loss {b}.25 loss_att 1.5 history loss 2.5 "
                f"rank 0\n"
                for b in (1, 2)
            )
            + f"2023-05-01 10:0{e}:50,123 INFO Epoch {e} CV info cv_loss {e}.75\n"
            for e in (0, 1)
        ),
        {"loss": [(0, 0.5), (1, 1.5)], "val/loss": [(0, 0.75), (1, 1.75)],
         "val/loss (current)": [(0, 2.25), (1, 2.25)]},
    ),
    "NanoDet": (
        "".join(
            f"[NanoDet][05-01 10:0{i}:00]INFO: Train|Epoch1/5|Iter{i}({i}/60)| mem:1.2G| lr:1.00e-03| "
            f"loss_qfl:0.{i}| loss_bbox:1.2|\n"
            for i in range(3)
        ),
        {"loss_qfl": [(0, 0.0), (1, 0.1), (2, 0.2)], "lr": [(0, 0.001), (1, 0.001), (2, 0.001)]},
    ),
    "segmentation_models": (
        "".join(
            f"Epoch: {e}\n"
            f"train: 100%|████| 30/30 [00:20<00:00,  1.50it/s, dice_loss - 0.{e}5, iou_score - 0.5]\n"
            f"valid: 100%|████| 10/10 [00:05<00:00,  2.00it/s, dice_loss - 0.{e}6, iou_score - 0.25]\n"
            for e in (0, 1)
        ),
        {"dice_loss": [(30, 0.05), (60, 0.15)], "val/dice_loss": [(30, 0.06), (60, 0.16)]},
    ),
    "StyleGAN2's metrics": (
        "".join(f"network-snapshot-00{i}000              time 1m 05s       fid50k 4{i}.25\n" for i in (1, 2)),
        {"val/fid50k": [(1000, 41.25), (2000, 42.25)]},
    ),
    "EESEN's objective, which is maximised": (
        "".join(
            f"VLOG[1](train-ctc-parallel:EvalParallel():ctc-loss.cc:182) After {i}000 sequences (0.{i}350Hr): "
            f"Obj(log[Pzx]) = -{v}   TokenAcc = 9{i}.5% \n"
            for i, v in ((1, "4.25"), (2, "4.5"), (3, "1e+30"))
        ),
        {"nll": [(1000, 4.25), (2000, 4.5), (3000, 1e30)], "TokenAcc": [(1000, 91.5), (2000, 92.5), (3000, 93.5)]},
    ),
    "KotlinDL's batches": (
        "Epoch 1 begins.\n"
        + "".join(
            f"Training batch {i} begins.\n10:00:0{i}.099 [main] DEBUG api.keras.Sequential - Batch stat: "
            f"{{ lossValue: {i}.25 metricValue: 0.126 }}\nTraining batch {i} ends with loss {i}.25.\n"
            for i in range(4)
        ),
        {"loss": [(0, 0.25), (1, 1.25), (2, 2.25), (3, 3.25)]},
    ),
    "Taiyaki's dots": (
        "".join(
            f" ....................   {i}50 1.0{i} 1.2{i} 18.63s (339.89 ksample/s 30.07 kbase/s) lr=6.50e-04\n"
            for i in (1, 2, 3)
        ),
        {"loss": [(150, 1.01), (250, 1.02), (350, 1.03)], "smoothed_loss": [(150, 1.21), (250, 1.22), (350, 1.23)]},
    ),
    "ColBERT's bare count behind a time": (
        "".join(f"[May 23, 07:02:{i}2] 740{i}0 \t\t avg_loss 0.0{i}\n" for i in (1, 2, 3)),
        {"avg_loss": [(74010, 0.01), (74020, 0.02), (74030, 0.03)]},
    ),
    "batches of held-out data that say no epoch": (
        "".join(
            "".join(f"INFO - [Epoch {e} Batch {b}0/67] loss={e}.{b}, lr=0.5\n" for b in (2, 4, 6))
            + "INFO - Now we are doing evaluation on dev with [gpu(0)].\n"
            + "".join(f"INFO - [Batch {b}0/33] loss={e}.{b}5\n" for b in (1, 2, 3))
            for e in (1, 2)
        ),
        {"loss": [(20, 1.2), (40, 1.4), (60, 1.6), (87, 2.2), (107, 2.4), (127, 2.6)],
         "val/loss": [(60, 1.35), (127, 2.35)]},
    ),
    "Sockeye's perplexities": (
        "".join(
            f"[INFO:sockeye.training] Epoch[0] Batch [{i}00]\tSpeed: 123.4 samples/sec\tperplexity={9 - i}.5\n"
            f"[INFO:sockeye.training] Checkpoint [{i}]\tTrain-perplexity={9 - i}.25\n"
            f"[INFO:sockeye.training] Checkpoint [{i}]\tValidation-perplexity={9 - i}.75\n"
            for i in (1, 2)
        ),
        {"Train-perplexity": [(100, 8.25), (200, 7.25)], "Validation-perplexity": [(100, 8.75), (200, 7.75)]},
    ),
    "a bare count before results": (
        "".join(f"   {i}00 loss {9 - i}.5 lr 1.0e-03\n" for i in (1, 2, 3)),
        {"loss": [(100, 8.5), (200, 7.5), (300, 6.5)], "lr": [(100, 0.001), (200, 0.001), (300, 0.001)]},
    ),
    "a bare count and a colon before results": (
        "".join(f"{i}00: train {9 - i}.5 val {9 - i}.75\n" for i in (1, 2, 3)),
        {"train": [(100, 8.5), (200, 7.5), (300, 6.5)], "val": [(100, 8.75), (200, 7.75), (300, 6.75)]},
    ),
    "makemore": (
        "".join(f"{i * 10000:7d}/ 200000: 3.{i}\n" for i in range(3)),
        {"loss": [(0, 3.0), (10000, 3.1), (20000, 3.2)]},
    ),
    "an epoch's letter and short names": (
        "".join(f"E0{i} | trn {9 - i}.5 | val {9 - i}.75 | f1 0.{i}\n" for i in (1, 2)),
        {"trn": [(1, 8.5), (2, 7.5)], "val": [(1, 8.75), (2, 7.75)], "f1": [(1, 0.1), (2, 0.2)]},
    ),
    "an evaluation's dictionary behind the training's": (
        "".join(
            f"epoch {i}: {{'loss': {9 - i}.5, 'acc': 0.5}} val: {{'loss': {9 - i}.75, 'acc': 0.25}}\n" for i in (1, 2)
        ),
        {"loss": [(1, 8.5), (2, 7.5)], "val/loss": [(1, 8.75), (2, 7.75)], "val/acc": [(1, 0.25), (2, 0.25)]},
    ),
    "the same lines under headings of both": (
        "".join(
            f"Iter {i}0 (1.5 / 2.5):\nTrain results: \n    Loss : {9 - i}.5\n    Precision : 0.{i}\n\n"
            f"Val results: \n    Loss : {9 - i}.75\n    Precision : 0.2{i}\n\n"
            for i in (1, 2, 3)
        ),
        {"Loss": [(10, 8.5), (20, 7.5), (30, 6.5)], "val/Loss": [(10, 8.75), (20, 7.75), (30, 6.75)],
         "Precision": [(10, 0.1), (20, 0.2), (30, 0.3)], "val/Precision": [(10, 0.21), (20, 0.22), (30, 0.23)]},
    ),
    "numbers of epochs": (
        "".join(f"Epoch no. = {e}\nLoss: {e}.5\n" for e in (1, 2)),
        {"Loss": [(1, 1.5), (2, 2.5)]},
    ),
    "NaN at every epoch, in brackets a clock of points and a bar, evaluations between": (
        "".join(
            f"[03.24.23|09:56:{e}1] Training epoch: {e}\n[03.24.23|09:56:{e}2] \tmean_loss: nan\n"
            f"[03.24.23|09:56:{e}2] Done.\n"
            + (f"[03.24.23|09:57:{e}3] Eval epoch: {e}\n[03.24.23|09:57:{e}4] \tmean_loss: 5.75\n" if e % 2 else "")
            for e in range(4)
        ),
        {"mean_loss": [(e, "nan") for e in range(4)], "val/mean_loss": [(1, 5.75), (3, 5.75)]},
    ),
    "names and numbers in turn, without a count, behind a clock with a comma": (
        "2024-08-13 02:00:48,743 - INFO - generated new fontManager\n"
        + "".join(
            f"2024-08-13 02:15:{i}8,490 - INFO - chamfer_dist 1.{i}:\n"
            f"2024-08-13 02:15:{i}8,491 - INFO - occupancy_loss 0.{i}:\n"
            for i in range(4)
        ),
        {"chamfer_dist": [(i + 1, 1 + i / 10) for i in range(4)],
         "occupancy_loss": [(i + 1, i / 10) for i in range(4)]},
    ),
    "two losses in turn are of one row": (
        "".join(f"G loss: 1.{i}\nD loss: 2.{i}\n" for i in range(3)),
        {"G loss": [(1, 1.0), (2, 1.1), (3, 1.2)], "D loss": [(1, 2.0), (2, 2.1), (3, 2.2)]},
    ),
    "counts behind losses under their epoch": (
        "".join(f"Epoch: {e}\n" + "".join(f"1{e}.{i}, {i}00\n" for i in range(4)) for e in range(2)),
        {"loss": [(400 * e + 100 * i, 10 + e + i / 10) for e in range(2) for i in range(4)]},
    ),
    "iterations named by a letter": (
        "".join(f"epoch={e} i={i}/3 total_loss={9 - e}.{i}\n" for e in range(2) for i in range(3)),
        {"total_loss": [(3 * e + i, 9 - e + i / 10) for e in range(2) for i in range(3)]},
    ),
    "PaddleRec's batches": (
        "".join(
            f"2022-04-12 17:06:10,849 - INFO - epoch: {e}, batch_id: {b}00, AUC:0.5, loss:{e}.{b}, ips: 10.5 ins/s\n"
            for e in range(2)
            for b in (0, 5)
        ),
        {"loss": [(0, 0.0), (500, 0.5), (1000, 1.0), (1500, 1.5)]},
    ),
    "names glued to the number before, with a word of their own": (
        "".join(f"27{i} Val Pi loss:0.{i}Val V loss:1.{i}\n" for i in range(1, 4)),
        {"Val Pi loss": [(270 + i, i / 10) for i in (1, 2, 3)],
         "Val V loss": [(270 + i, 1 + i / 10) for i in (1, 2, 3)]},
    ),
    "what is minimised, printed beside its count": (
        "".join(f"{i} tensor({9 - i}.5000, device='cuda:0', grad_fn=<MseLossBackward0>)\n" for i in range(3)),
        {"loss": [(0, 9.5), (1, 8.5), (2, 7.5)]},
    ),
    "a table of commas behind the arguments": (
        "Arguments:\nlr: 0.001\nepochs: 3\n\nEpoch,Train Loss,Test Loss,Test Accuracy\n"
        + "".join(f"{e},{9 - e}.5,{9 - e}.75,0.{e}\n" for e in (1, 2, 3)),
        {"Train Loss": [(1, 8.5), (2, 7.5), (3, 6.5)], "Test Accuracy": [(1, 0.1), (2, 0.2), (3, 0.3)]},
    ),
    "MATLAB's table, with names in two lines and cells that stay empty": (
        "|===================================================|\n"
        "|  Epoch  |  Iteration  |  Mini-batch  |  Validation  |  Base Learning  |\n"
        "|         |             |     Loss     |     Loss     |      Rate       |\n"
        "|===================================================|\n"
        + "".join(f"|  1  |  {i}0  |  2.{i}  | {'' if i % 2 else f' 3.{i} '} |  0.0100  |\n" for i in range(1, 5)),
        {"Mini-batch Loss": [(10 * i, 2 + i / 10) for i in range(1, 5)], "Validation Loss": [(20, 3.2), (40, 3.4)],
         "Base Learning Rate": [(10 * i, 0.01) for i in range(1, 5)]},
    ),
    "curves that are printed at once": (
        "train_loss = [" + ", ".join(f"{9 - i}.5" for i in range(9)) + "]\n"
        "val_loss = [" + ", ".join(f"{9 - i}.75" for i in range(9)) + "]\n",
        {"train_loss": [(i + 1, 9.5 - i) for i in range(9)], "val_loss": [(i + 1, 9.75 - i) for i in range(9)]},
    ),
    "a history that says again what the rows said": (
        "".join(f"epoch {i} loss {9 - i}.5\n" for i in range(9))
        + "{'loss': [" + ", ".join(f"{9 - i}.5" for i in range(9)) + "], 'acc': [" + ", ".join(["0.5"] * 9) + "]}\n",
        {"loss": [(i, 9.5 - i) for i in range(9)]},
    ),
    "a result that ends with a word and has no mark": (
        "".join(f"epoch {e}, minibatch 2500/2500, validation error 1{e}.5 %\n" for e in (1, 2)),
        {"validation error": [(1, 11.5), (2, 12.5)]},
    ),
    "a learning rate alone, under its epoch": (
        "".join(f"epoch:  {e}\ntrain loss : 0.{e}\n(an estimate)\nlr: 0.00{e}\nThis took 100 s\n" for e in range(1, 5)),
        {"lr": [(e, e / 1000) for e in range(1, 5)]},
    ),
    "FunASR's pairs in a list": (
        "".join(
            f"[2024-01-01 10:00:0{i},123][root][INFO] - train, rank: 0, epoch: 0/50, total step: {i}0, "
            f"(loss_avg_rank: 2.5), (acc_avg_slice: 0.5), (lr: 1.250e-05), [('loss_att', 1.5), ('loss', 2.{i})], "
            f"{{'data_load': '0.001'}}, GPU, memory: usage: 1.5 GB\n"
            for i in (1, 2, 3)
        ),
        {"loss": [(10, 2.1), (20, 2.2), (30, 2.3)], "acc_avg_slice": [(10, 0.5), (20, 0.5), (30, 0.5)]},
    ),
    "scores of each part of the data": (
        "".join(
            f"=====Epoch {e}\nTraining...\nEvaluating...\n{{'Train': 0.9{e}, 'Validation': 0.8{e}, 'Test': 0.7{e}}}\n"
            for e in (1, 2)
        ),
        {"Validation score": [(1, 0.81), (2, 0.82)]},
    ),
    "blocks under headings that count": (
        "".join(
            f"Training Results, Epoch {e}:\n Accuracy: 5{e}.0%, Avg loss: 0.{e} \n\n"
            f"Validation Results, Epoch {e}: \n Accuracy: 4{e}.0%, Avg loss: 1.{e} \n"
            for e in (1, 2, 3)
        ),
        {"Avg loss": [(e, e / 10) for e in (1, 2, 3)], "val/Avg loss": [(e, 1 + e / 10) for e in (1, 2, 3)]},
    ),
    "what stands beside a held-out loss alone": (
        "".join(f"[{e}] val_loss=0.{e} acc=0.5 macroF1=0.2{e}\n" for e in (1, 2)),
        {"val_loss": [(1, 0.1), (2, 0.2)], "val/acc": [(1, 0.5), (2, 0.5)], "val/macroF1": [(1, 0.21), (2, 0.22)]},
    ),
    "steps behind dots": (
        "".join(f"2023-01-01 10:00:0{i},123 INFO: Step... {i}0 | Loss: 2.{i}, Learning Rate: 0.5\n" for i in (1, 2)),
        {"Loss": [(10, 2.1), (20, 2.2)]},
    ),
    "text that Docker wraps": (
        "".join(
            f'{{"log":"epoch {e} loss 0.{e} \\u001b[0m\\n","stream":"stderr",'
            f'"time":"2023-05-01T10:00:0{e}.123456789Z"}}\n'
            for e in (1, 2)
        ),
        {"loss": [(1, 0.1), (2, 0.2)]},
    ),
    "the message of a structured log": (
        "".join(
            f'{{"time": "2023-05-01 10:00:0{e}", "level": "INFO", "message": "epoch {e} loss 0.{e}"}}\n' for e in (1, 2)
        ),
        {"loss": [(1, 0.1), (2, 0.2)]},
    ),
    "results in a dictionary of dictionaries": (
        "".join(f"{{'train': {{'loss': 0.{e}, 'acc': 0.5}}, 'val': {{'loss': 1.{e}, 'acc': 0.25}}}}\n" for e in (1, 2)),
        {"train/loss": [(1, 0.1), (2, 0.2)], "val/loss": [(1, 1.1), (2, 1.2)], "val/acc": [(1, 0.25), (2, 0.25)]},
    ),
    "pairs in an ordered dictionary behind its count": (
        "".join(f"epoch {e}: OrderedDict([('loss', 0.{e}), ('acc', 0.5)])\n" for e in (1, 2)),
        {"loss": [(1, 0.1), (2, 0.2)], "acc": [(1, 0.5), (2, 0.5)]},
    ),
    "the losses of both parts as a pair": (
        "".join(f"Epoch {e} loss (train/val): 0.{e}/1.{e}\n" for e in (1, 2))
        + "".join(f"Epoch {e}: train/val acc = 0.{e} / 0.{e}5\n" for e in (3, 4)),
        {"train_loss": [(1, 0.1), (2, 0.2)], "val_loss": [(1, 1.1), (2, 1.2)], "val_acc": [(3, 0.35), (4, 0.45)]},
    ),
    "a loss before others, without marks or a count": (
        "".join(f"loss 0.{i} acc 0.5 time 1.5s\n" for i in range(1, 5)),
        {"loss": [(i, i / 10) for i in range(1, 5)], "acc": [(i, 0.5) for i in range(1, 5)]},
    ),
    "names and numbers in wide columns": (
        "".join(f"Epoch      :   {e}\nTrain Loss :   0.{e}\nVal Loss   :   1.{e}\n\n" for e in (1, 2)),
        {"Train Loss": [(1, 0.1), (2, 0.2)], "Val Loss": [(1, 1.1), (2, 1.2)]},
    ),
    "counts glued by a dash or led by a sign": (
        "".join(f"Iter-{i}00; D_loss: 2.{i}; G_loss: 1.{i}\n" for i in range(3)),
        {"G_loss": [(0, 1.0), (100, 1.1), (200, 1.2)]},
    ),
    "TensorFlow's tensors": (
        "".join(f"epoch: {e} loss: tf.Tensor(0.{e}, shape=(), dtype=float32)\n" for e in (1, 2)),
        {"loss": [(1, 0.1), (2, 0.2)]},
    ),
    "rewards of episodes behind a colon alone": (
        "".join(f"Episode {e}0 : {e}.5\n" for e in (1, 2)),
        {"reward": [(10, 1.5), (20, 2.5)]},
    ),
    "a frame that pandas prints with its index": (
        "    epoch  train_loss  val_loss\n" + "".join(f"{e}       {e}    0.{e}5     1.{e}5\n" for e in range(3)),
        {"train_loss": [(0, 0.05), (1, 0.15), (2, 0.25)], "val_loss": [(0, 1.05), (1, 1.15), (2, 1.25)]},
    ),
    "losses of epochs before the first step": (
        "".join(f"Train Loss: {e}.5\n" for e in (1, 2))
        + "".join(f"[Step {i}0] Running Avg Loss: 0.{i}\n" for i in (3, 4))
        + "Train Loss: 3.5\n",
        {"Train Loss": [(1, 1.5), (2, 2.5), (40, 3.5)], "Running Avg Loss": [(30, 0.3), (40, 0.4)]},
    ),
    "a count glued to the next name, and a tensor": (
        "".join(f"idx: {i}loss: tensor({9 - i}.5, grad_fn=<NegBackward>)\n" for i in range(4)),
        {"loss": [(0, 9.5), (1, 8.5), (2, 7.5), (3, 6.5)]},
    ),
    "losses glued to one another": (
        "".join(f"INFO:root:Epoch = [   {i}/  50] TrainLoss = 2.{i}DevLoss= 2.5 TrainTime = 1.5s\n" for i in (1, 2)),
        {"TrainLoss": [(1, 2.1), (2, 2.2)], "DevLoss": [(1, 2.5), (2, 2.5)]},
    ),
    "Caffe2's print of a blob": (
        "".join(f"Tensor loss of type float. Dims: (): {9 - i}.5\n" for i in range(3)),
        {"loss": [(1, 9.5), (2, 8.5), (3, 7.5)]},
    ),
    "pairs that go on in a dictionary, first before any step": (
        "dev | avg_loss: 2.5 | {'exact_match': 0.0, 'rougeL': 7.25}\n"
        + "".join(
            f"train | epoch 0 | global iter: {i}/ 90 | loss: {9 - i}.5 | lr: 5e-05\n" for i in range(1, 5)
        )
        + "dev | avg_loss: 2.25 | {'exact_match': 2.5, 'rougeL': 8.25}\n",
        {"val/avg_loss": [(0, 2.5), (4, 2.25)], "val/rougeL": [(0, 7.25), (4, 8.25)],
         "loss": [(1, 8.5), (2, 7.5), (3, 6.5), (4, 5.5)]},
    ),
    "steps as remainders of the epoch's length": (
        "".join(
            f"epoch: {e} step: {s % 3:4d}/3, lr:0.001, total_loss: {9 - e}.{s}\n" for e in (0, 1) for s in (1, 2, 3)
        ),
        {"total_loss": [(1, 9.1), (2, 9.2), (3, 9.3), (4, 8.1), (5, 8.2), (6, 8.3)]},
    ),
    "a bar that counts epochs, behind its description": (
        "".join(
            f"Epoch {i - 1}: train_loss: {9 - i}.5, recon_loss: 0.25:   1%|#    | {i}/500 [00:17<42:37, 19.42it/s]\n"
            for i in (1, 2, 3)
        ),
        {"train_loss": [(1, 8.5), (2, 7.5), (3, 6.5)]},
    ),
    "several held-out sets": (
        "".join(
            f"Epoch 00{i}/100 | Train Loss: {9 - i}.5\n"
            f"  Img Val  | Loss: {9 - i}.25 | Dice: 0.75 | IoU: 0.5\n  Vid Val  | Loss: {9 - i}.75 | Dice: 0.5\n"
            for i in (1, 2)
        ),
        {"Train Loss": [(1, 8.5), (2, 7.5)], "Val/Img/Loss": [(1, 8.25), (2, 7.25)],
         "Val/Vid/Loss": [(1, 8.75), (2, 7.75)]},
    ),
    "FuxiCTR": (
        "".join(
            f"2019-11-04 14:0{i}:15,317 P12395 INFO [Metrics] logloss: 0.{i}5 - AUC: 0.75\n"
            f"2019-11-04 14:0{i}:16,628 P12395 INFO ******* 3235/3235 batches finished *******\n"
            f"2019-11-04 14:0{i}:16,794 P12395 INFO [Train] loss: 0.{i}25\n"
            f"2019-11-04 14:0{i}:16,794 P12395 INFO ************ Epoch={i} end ************\n"
            for i in (1, 2, 3)
        ),
        {"val/logloss": [(0, 0.15), (1, 0.25), (2, 0.35)]},
    ),
    "LightGCN": (
        "".join(f"EPOCH[{i}/1000] loss0.{i}5-|Sample:5.25|\n" for i in (1, 2)),
        {"loss": [(1, 0.15), (2, 0.25)]},
    ),
    "NGCF": (
        "".join(f"Epoch {i} [12.3s]: train==[2.{i}=2.0 + 0.{i}]\n" for i in (0, 1))
        + "Epoch 2 [12.3s + 4.5s]: train==[2.2=2.0 + 0.2], recall=[0.125, 0.25], precision=[0.5, 0.25], hit=[0.5, 0.5],"
        " ndcg=[0.25, 0.5]\n",
        {"train_loss": [(0, 2.0), (1, 2.1), (2, 2.2)], "val/recall": [(2, 0.125)], "val/ndcg": [(2, 0.25)]},
    ),
    "an epoch out of so many and a number": (
        "".join(f"Epoch [{i}/100]: 2.{i}\n" for i in (1, 2, 3)),
        {"loss": [(1, 2.1), (2, 2.2), (3, 2.3)]},
    ),
    "results under the step that they were reached at": (
        "".join(
            f"Progress at step {i}000:\nMetrics:\n  training/total_loss: 2.{i}\n  eval/episode_reward: {i}.5\n"
            for i in (1, 2)
        ),
        {"training/total_loss": [(1000, 2.1), (2000, 2.2)], "eval/episode_reward": [(1000, 1.5), (2000, 2.5)]},
    ),
    "YOLOv7's results without names": (
        "".join(
            f"     {i}/299     6.05G    0.125    0.25    0.05    2.{i}       201       640     0.5    0.25    0.75"
            f"    0.125    0.0625    0.5     0.051\n"
            for i in (0, 1, 2)
        ),
        {
            "total_loss": [(0, 2.0), (1, 2.1), (2, 2.2)],
            "val/mAP50": [(0, 0.75), (1, 0.75), (2, 0.75)],
            "gpu_mem_gb": [(0, 6.05), (1, 6.05), (2, 6.05)],
        },
    ),
    "Paddle's ids of epochs and batches": (
        "".join(
            f"[Wed Oct 10 16:33:27 2018] epoch_id: {e}, batch_id: {b}, cost: 2.{e}{b // 100}, acc: 0.515625\n"
            for e in (0, 1)
            for b in (0, 100, 200)
        ),
        {"cost": [(0, 2.0), (100, 2.01), (200, 2.02), (300, 2.1), (400, 2.11), (500, 2.12)]},
    ),
    "Flower": (
        "".join(
            f"INFO flwr 2023-01-01 10:00:0{i},123 | server.py:125 | fit progress: ({i}, 2.{i},"
            f" {{'accuracy': 0.5}}, 12.5)\n"
            for i in (1, 2)
        ),
        {"val/loss": [(1, 2.1), (2, 2.2)], "val/accuracy": [(1, 0.5), (2, 0.5)]},
    ),
    "a round and its average loss": (
        "".join(f"Round   {i}, Average loss 2.{i}01\n" for i in (1, 2, 3)),
        {"Average loss": [(1, 2.101), (2, 2.201), (3, 2.301)]},
    ),
    "a score of episodes": (
        "".join(f"Episode {i}0  Score: -{i}.5\n" for i in (1, 2, 3)),
        {"Episode Score": [(10, -1.5), (20, -2.5), (30, -3.5)]},
    ),
    "an abbreviated average": (
        "".join(f"Epoch: {i} | avg. tr_loss 2.{i} | avg. tr_acc 0.5 | Throughput: 415.5 images/sec\n" for i in (1, 2)),
        {"avg. tr_loss": [(1, 2.1), (2, 2.2)]},
    ),
    "evaluations of Trax": (
        "".join(
            f"\nStep  {i}500: Ran 500 train steps in 390.03 secs\nStep  {i}500: Evaluation\n"
            f"Step  {i}500: train                   accuracy |  0.2{i}475900\n"
            f"Step  {i}500: train                       loss |  {3 - i}.64957333\n"
            f"Step  {i}500: train         neg_log_perplexity | -{3 - i}.64957333\n"
            f"Step  {i}500: eval                    accuracy |  0.1{i}130000\n"
            f"Step  {i}500: eval                        loss |  {4 - i}.69043925\n"
            f"Step  {i}500: Finished evaluation\n"
            for i in (1, 2)
        ),
        {
            "train/accuracy": [(1500, 0.214759), (2500, 0.224759)],
            "train/loss": [(1500, 2.649573), (2500, 1.649573)],
            "eval/accuracy": [(1500, 0.1113), (2500, 0.1213)],
            "eval/loss": [(1500, 3.690439), (2500, 2.690439)],
        },
    ),
    "epoch, iteration and letters of YOLACT": (
        "".join(
            f"[  {i}]    {i}990 || B: 2.427 | C: 3.506 | M: 6.847 | S: 0.456 | T: 13.23{i} || "
            f"ETA: 194 days, 23:33:32 || timer: 0.3{i}4\n"
            for i in (1, 2, 3)
        ),
        {
            "total_loss": [(1990, 13.231), (2990, 13.232), (3990, 13.233)],
            "M": [(1990, 6.847), (2990, 6.847), (3990, 6.847)],
            "iter_time": [(1990, 0.314), (2990, 0.324), (3990, 0.334)],
        },
    ),
    "both lines of a step of TFLearn": (
        "---------------------------------\nRun id: lstm\nTraining samples: 8000\nValidation samples: 2000\n--\n"
        + "".join(
            f"Training Step: {250 * i + at}  | total loss: \x1b[1m\x1b[32m0.{9 - i}{at}\x1b[0m\x1b[0m | time: 1.538s\n"
            f"\x1b[2K| Adam | epoch: 00{i + 1} | loss: 0.{9 - i}{at} - acc: 0.5{i}"
            f"{f' | val_loss: 0.{8 - i}75 - val_acc: 0.625' * (at == 250)} -- iter: {32 * at:04d}/8000\n"
            for i in (0, 1)
            for at in (125, 250)
        ),
        {
            "total loss": [(125, 0.9125), (250, 0.925), (375, 0.8125), (500, 0.825)],
            "loss": [(125, 0.9125), (250, 0.925), (375, 0.8125), (500, 0.825)],
            "acc": [(125, 0.5), (250, 0.5), (375, 0.51), (500, 0.51)],
            "val_loss": [(250, 0.875), (500, 0.775)],
        },
    ),
    "Portuguese": (
        "".join(f"Epoch {i}/5, Loss Treino: 2.{i}, Loss Teste: 2.5\n" for i in (1, 2)),
        {"Loss train": [(1, 2.1), (2, 2.2)], "Loss test": [(1, 2.5), (2, 2.5)]},
    ),
    "what was measured before the parts of the data": (
        "".join(f"Epoch {i} Loss: train=2.{i}, val=3.{i} | Acc: train=0.{i}, val=0.2{i}\n" for i in (1, 2)),
        {"train Loss": [(1, 2.1), (2, 2.2)], "val Loss": [(1, 3.1), (2, 3.2)], "train Acc": [(1, 0.1), (2, 0.2)],
         "val Acc": [(1, 0.21), (2, 0.22)]},
    ),
    "losses by their letters, and the phase": (
        "".join(f"Ep {i}/10 | L=2.{i} | VL=3.{i} | 1m 3{i}s\n" for i in (1, 2))
        + "".join(f"epoch {i} phase {p} loss {v}.{i}\n" for i in (1, 2) for p, v in (("train", 4), ("val", 5))),
        {"L": [(1, 2.1), (2, 2.2)], "val loss": [(1, 3.1), (2, 3.2), (1, 5.1), (2, 5.2)],
         "train loss": [(1, 4.1), (2, 4.2)]},
    ),
    "commas before decimals": (
        "".join(f"Epoche {i}: Verlust=2,{i}500 Val-Verlust=3,{i}00 Zeit=3,2s\n" for i in (1, 2)),
        {"loss": [(1, 2.15), (2, 2.25)], "Val-loss": [(1, 3.1), (2, 3.2)], "time": [(1, 3.2), (2, 3.2)]},
    ),
    "French": (
        "".join(f"Époque {i}/8 - perte d'entraînement : 2.{i} - perte de validation : 3.{i}\n" for i in (1, 2)),
        {"train loss": [(1, 2.1), (2, 2.2)], "loss de validation": [(1, 3.1), (2, 3.2)]},
    ),
    "results of an evaluation without marks": (
        "".join(
            f"Epoch {i}/8: 100%|##| 50/50 [00:05<00:00,  9.50it/s, loss=2.{i}]\n"
            f"Validation: 100%|##| 10/10 [00:01<00:00,  9.5it/s]\nval loss 3.{i}, val acc 0.4{i}\n"
            for i in (1, 2)
        ),
        {"loss": [(50, 2.1), (100, 2.2)], "val loss": [(50, 3.1), (100, 3.2)], "val acc": [(50, 0.41), (100, 0.42)]},
    ),
    "a count and a colon before several results": (
        "".join(f"{i}0: train_loss 2.{i}, valid_loss 3.{i} (1.{i}s)\n" for i in (1, 2)),
        {"train_loss": [(10, 2.1), (20, 2.2)], "valid_loss": [(10, 3.1), (20, 3.2)]},
    ),
    "decibels": (
        "".join(f"<epoch:  {i}, lr:1.0e-04> loss: 2.{i}e-01\n<epoch:  {i}, Average PSNR : 2{i}.5dB\n" for i in (1, 2)),
        {"loss": [(1, 0.21), (2, 0.22)], "Average PSNR": [(1, 21.5), (2, 22.5)]},
    ),
    "ordinal numbers of steps": (
        "".join(f"current step: {i}th step\nbatch loss:2.{i}\n" for i in (4, 5, 6)),
        {"batch loss": [(4, 2.4), (5, 2.5), (6, 2.6)]},
    ),
    "an evaluation that names its step alone": (
        "".join(
            f"iter {i}00 | loss 2.{i} | lr 1e-3\n  eval {i}00: train 3.{i} | val 4.{i} | 5.{i} bpc\n" for i in (1, 2)
        ),
        {"train_loss": [(100, 3.1), (200, 3.2)], "val_loss": [(100, 4.1), (200, 4.2)],
         "val/bpc": [(100, 5.1), (200, 5.2)]},
    ),
    "how long an epoch took, called its cost": (
        "".join(f"Epoch {i} Train, reg:0.{i}, mae:84.{i}, Cost: 71{i}.7 sec \n" for i in (1, 2)),
        {"mae": [(1, 84.1), (2, 84.2)], "Cost time": [(1, 711.7), (2, 712.7)]},
    ),
    "scores under an evaluation's heading beside what counts": (
        "".join(
            f"[INFO] step={i}0, skipped=0, lr=[0.5]\n***** Evaluating perplexity, Epoch 1/2 *****\n"
            f"'step':{i}0, 'ppl': 61.{i}, 'seq_len': 256\n"
            f"[INFO] 0/{i}0, RunningAvgSamplesPerSec=16.{i}, CurrSamplesPerSec=15.{i}\n"
            for i in (1, 2)
        ),
        {"val/ppl": [(10, 61.1), (20, 61.2)], "CurrSamplesPerSec": [(10, 15.1), (20, 15.2)]},
    ),
    "what a name is called with, and a unit apart from its number": (
        "".join(
            f"step:{i} - train/loss:1.{i} - train/lr(1e-3):0.{i} mem: 58.34 GB grad_norm: 1.{i}\n"
            f"INFO: mAP(0.50, 11point) = 18.{i}%\n"
            for i in (1, 2)
        ),
        {"train/lr": [(1, 0.1), (2, 0.2)], "grad_norm": [(1, 1.1), (2, 1.2)], "mAP": [(1, 18.1), (2, 18.2)]},
    ),
    "results of an older RLlib, without a heading": (
        "".join(
            f"custom_metrics: {{}}\ndate: 2019-01-31_21-54-0{i}\nepisode_reward_mean: {i}.5\n"
            f"info:\n  default:\n    cur_lr: 0.5\n    kl: 0.{i}\n  grad_time_ms: 2256.5\ntraining_iteration: {i}\n\n"
            for i in (1, 2)
        ),
        {"episode_reward_mean": [(1, 1.5), (2, 2.5)], "default/kl": [(1, 0.1), (2, 0.2)]},
    ),
    "accuracy on data of any kind, and a rate that was set": (
        "".join(
            f"Epoch {i}: loss: 2.{i}\nLearning rate annealed to: 0.{i}\n"
            f"Accuracy of the network on the 36720 val EEG: 79.{i}%\n"
            for i in (1, 2, 3)
        ),
        {"learning_rate": [(1, 0.1), (2, 0.2), (3, 0.3)], "val_Accuracy": [(1, 79.1), (2, 79.2), (3, 79.3)]},
    ),
    "scores of several kinds under a count": (
        "".join(
            f"--- Iteration {i}/100 ---\nTraining: 2 steps, 8 others\nTraining Acc: Trigger=1{i}.5%, Normal=56.1%\n"
            f"Evaluation: ASR=0.{i}%, Clean=100.0%\n\n"
            for i in (1, 2)
        ),
        {"Trigger": [(1, 11.5), (2, 12.5)], "val/ASR": [(1, 0.1), (2, 0.2)]},
    ),
    "an epoch's letter and a colon, losses by their letters": (
        "".join(f"E:{i} | T-Loss 2.{i} | V-Loss 3.{i} | V-Acc 0.4{i}\n" for i in (1, 2)),
        {"train Loss": [(1, 2.1), (2, 2.2)], "val Loss": [(1, 3.1), (2, 3.2)], "val Acc": [(1, 0.41), (2, 0.42)]},
    ),
    "an average that is cut short": (
        "".join(f"Epoch {i} - avg train loss per batch: 2.{i}, avg. validation loss: 3.{i}\n" for i in (1, 2)),
        {"avg train loss per batch": [(1, 2.1), (2, 2.2)], "avg. validation loss": [(1, 3.1), (2, 3.2)]},
    ),
    "Chinese around English words": (
        "".join(f"第{i}个epoch，训练集loss为2.{i}，测试集准确率为51.{i}%\n" for i in (1, 2)),
        {"train loss": [(1, 2.1), (2, 2.2)], "test accuracy": [(1, 51.1), (2, 51.2)]},
    ),
    "the part of the data before unmarked results": (
        "".join(
            f"Epoch {i}/8\n train: loss 2.{i} | acc 0.5{i}\n valid: loss 3.{i} | acc 0.4{i}\n" for i in (1, 2)
        ),
        {"loss": [(1, 2.1), (2, 2.2)], "val/loss": [(1, 3.1), (2, 3.2)], "acc": [(1, 0.51), (2, 0.52)]},
    ),
    "a dictionary of arguments": (
        "{'lr': 0.5, 'epochs': 3, 'seed': 42, 'lora_r': 16, 'padding': None}\n"
        + "".join(f"{{'loss': 2.{i}, 'epoch': {i}}}\n" for i in (1, 2)),
        {"loss": [(1, 2.1), (2, 2.2)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LOGS)
def test_what_is_read(what: str, tmp_path: Path) -> None:
    text, series = LOGS[what]
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    found = read(console, path)
    for name, points in series.items():
        assert name in found.series, sorted(found.series)
        got = found.series[name]
        told = [number if np.isfinite(number) else str(number) for number in np.round(got.numbers, 6).tolist()]
        assert list(zip(got.number_steps, told, strict=True)) == points


def test_trainings_behind_one_another_count_their_rows_anew(tmp_path: Path) -> None:
    rows = [
        *({"loss": 2.5 - i / 8, "epoch": i / 2} for i in range(1, 5)),
        {"train_runtime": 312.5, "train_samples_per_second": 705.5, "train_loss": 2.25, "epoch": 2.0},
        *({"loss": 1.5 - i / 8, "epoch": i / 2} for i in range(1, 4)),
    ]
    path = tmp_path / "train.log"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    assert read(console, path).series["loss"].number_steps == [1, 2, 3, 4, 1, 2, 3]


@pytest.mark.parametrize(
    "said",
    [
        "ERROR:tensorflow:Model diverged with loss = NaN.",
        "Batch 5: Invalid loss, terminating training",
        "Loss is nan, stopping training",
    ],
)
def test_a_loss_that_is_only_said_to_be_nan(said: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    rows = "".join(f"step {i}, loss = {9 - i / 10}, lr = 0.5\n" for i in (10, 20, 30))
    path.write_text(f"{rows}{said}\n{said}\nTraceback (most recent call last):\n", encoding="utf-8")
    found = read(console, path)
    assert found.series["loss"].number_steps == [10, 20, 30, 31]
    assert np.isnan(found.series["loss"].numbers[-1])
    assert found.series["lr"].number_steps == [10, 20, 30]
    path.write_text(f"{said}\n", encoding="utf-8")
    assert not read(console, path).series


@pytest.mark.parametrize(
    "said",
    [
        "/torch/install/bin/luajit: /torch/install/share/lua/5.1/torch/File.lua:210: write error: wrote 39776036 blocks"
        " instead of 41251350 at /build/torch7/lib/TH/THDiskFile.c:340",
        "/torch/install/bin/luajit: cannot open <cv/lm_epoch2.36_1.6875.t7> in mode w  at"
        " /build/torch7/lib/TH/THDiskFile.c:640",
    ],
)
def test_a_file_of_torch7_that_could_not_be_written(said: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    row = "{}/21150 (epoch 0.567), train_loss = 2.34104304, grad/param norm = 5.3584e-02, time/batch = 0.5148s\n"
    trace = "stack traceback:\n\t[C]: in function 'write'\n\ttrain.lua:383: in main chunk\n"
    text = row.format(990) + row.format(1000) + f"saving checkpoint to cv/lm_epoch2.36_1.6875.t7\n{said}\n{trace}"
    path.write_text(text, encoding="utf-8")
    failed = [event for event in read(console, path).events if event.kind == "checkpoint-failed"]
    assert [(event.step, event.text) for event in failed] == [(1000, said)]


def test_messages_of_apex_are_of_the_iterations_between_which_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    row = (
        "[  {}]    {} || B: 2.427 | C: 3.506 | M: 6.847 | S: 0.456 | T: 13.235 || ETA: 1 day, 3:33:32 || timer: 0.324\n"
    )
    said = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {}\n"
    text = row.format(0, 0) + said.format(32768.0) + row.format(0, 10) + row.format(3, 3780) + said.format(4096.0)
    path.write_text(text + row.format(3, 3790), encoding="utf-8")
    assert [event.step for event in read(console, path).events if event.kind == "overflow"] == [1, 3781]


def test_a_traceback_through_a_remote_call_that_saves(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    trace = '  File "/app/main.py", line 232, in main\n    await learner.save_checkpoint.call_one(final_path)\n'
    end = "ValueError: call_one requires exactly 1 actor, but mesh has 8\n"
    rows = "".join(f"step:{i} | loss=0.{i} | mean_reward=0.1\n" for i in range(1, 9))
    path.write_text(f"{rows}Traceback (most recent call last):\n{trace}{end}", encoding="utf-8")
    assert [event.kind for event in read(console, path).events] == ["checkpoint-failed"]


def test_the_duration_of_a_save_is_no_step(tmp_path: Path) -> None:
    path = tmp_path / "main_log.txt"
    saved = "saving checkpoint at iteration   62100 to /checkpoints\ntime (ms) | save-checkpoint: 24718.33\n"
    path.write_text(f"iteration 62100/ 311541 | lm loss: 2.345E+00 |\n{saved}", encoding="utf-8")
    assert {event.step for event in read(console, path).events} == {62100}


def test_a_printed_row_that_holds_settings_beside_its_results(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    row = "{{'loss': 2.{i}, 'val_loss': 2.5, 'accuracy': 0.{i}, 'seed': 42, 'patience': 3, 'epoch': {i}}}\n"
    path.write_text("".join(row.format(i=i) for i in range(1, 6)), encoding="utf-8")
    loss = read(console, path).series["loss"]
    assert loss.number_steps == list(range(1, 6))
    assert loss.numbers.tolist() == pytest.approx([2.1, 2.2, 2.3, 2.4, 2.5])
