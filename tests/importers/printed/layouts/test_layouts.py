"""Console text whose numbers stand apart from their names, or say them in a layout of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import Points, Source, read_head
from trainforensics.model import Axis

Series = dict[str, list[tuple[int, float]]]

_BAR = "{}%|##   | {}/40 [0:00:10<12:10:05,  5.20s/it]"
# Text, axis, all of its series.
LOGS: dict[str, tuple[str, Axis, Series]] = {
    "results glued behind a bar with hours": (
        "".join(_BAR.format(i, i) + f"G: {i}.5 | GP: {i}0.25 | D: nan\n" for i in (4, 8)),
        Axis("progress bar", "step"),
        {"G": [(4, 4.5), (8, 8.5)], "GP": [(4, 40.25), (8, 80.25)], "D": [(4, np.nan), (8, np.nan)],
         "elapsed_time": [(4, 10), (8, 10)]},
    ),
    "a bar that is not drawn": (
        "".join(f"[Epoch {i} / Fit]:  25% 10/40 [00:03<01:05,  3.5s/it, loss={5 - i}.5]\n" for i in (0, 1)),
        Axis("epoch x 40 + iteration", "step"),
        {"loss": [(10, 5.5), (50, 4.5)], "elapsed_time": [(10, 3), (50, 3)]},
    ),
    "results between bars before a bar": (
        "".join(f"> Epoch [1/9] | Loss {i}.25 | LR 0.00{i} | Batch:  50%|##  | {i}/4 [00:01<00:01,  1.0it/s]\n"
                for i in (2, 3, 4)),
        Axis("progress bar", "step"),
        {"Loss": [(2, 2.25), (3, 3.25), (4, 4.25)], "LR": [(2, 0.002), (3, 0.003), (4, 0.004)],
         "elapsed_time": [(2, 1), (3, 1), (4, 1)]},
    ),
    "evaluations that count the training's steps": (
        "0/9000 val_loss: 9.25 val_bpb: 3.5\n"
        + "".join(f"{i}00/9000 train_loss: {8 - i}.5 tok/s: {i}50\n" for i in (1, 2))
        + "200/9000 val_loss: 6.25 val_bpb: 2.5\n215/9000 val_loss: 6.125 val_bpb: 2.25\n"
        "diagnostic pre-quantization post-ema val_loss:6.0 val_bpb:2.0\nquantized_ttt val_loss:6.5 val_bpb:2.75\n",
        Axis("iteration", "step"),
        {"val_loss": [(0, 9.25), (200, 6.25), (215, 6.125)], "val_bpb": [(0, 3.5), (200, 2.5), (215, 2.25)],
         "train_loss": [(100, 7.5), (200, 6.5)], "tok/s": [(100, 150), (200, 250)],
         "diagnostic pre-quantization post-ema/val_loss": [(215, 6.0)],
         "diagnostic pre-quantization post-ema/val_bpb": [(215, 2.0)],
         "quantized_ttt/val_loss": [(215, 6.5)], "quantized_ttt/val_bpb": [(215, 2.75)]},
    ),
    "evaluations of batches as many as those of the training": (
        "".join(f"train {i}/90 loss: {9 - i / 10}\n" for i in (30, 60, 90))
        + "".join(f"val {i}/90 val_loss: {i}.5\n" for i in (30, 60, 90)),
        Axis("iteration", "step"),
        {"loss": [(30, 6.0), (60, 3.0), (90, 0.0)], "val_loss": [(90, 90.5)]},
    ),
    "perplexities beside an engine that counts updates": (
        "".join(
            f"Step at {2 * i} with Perplexity: {i}0.5\n[INFO] step={i}, skipped=0, lr=[0.{i}]\n" for i in (1, 2, 3)
        ),
        Axis("iteration", "step"),
        {"val/perplexity": [(2, 10.5), (4, 20.5), (6, 30.5)], "skipped": [(1, 0), (2, 0), (3, 0)],
         "lr": [(1, 0.1), (2, 0.2), (3, 0.3)]},
    ),
    "memory in lines of its own": (
        "".join(
            f"epoch 1/9 - it {i}/100 - loss: {i}.5\n"
            f"Memory info of GPU /physical_device:GPU:0: current: 0.{i}5, peak: 2.{i}5\n"
            f"Memory info of CPU: total:201.37Gb, available: 19{i}.75Gb, percent: 4.{i}%\n"
            for i in (1, 2, 3)
        ),
        Axis("it", "step"),
        {"loss": [(1, 1.5), (2, 2.5), (3, 3.5)], "gpu_memory": [(1, 0.15), (2, 0.25), (3, 0.35)],
         "peak_gpu_memory": [(1, 2.15), (2, 2.25), (3, 2.35)],
         "host_memory_available": [(1, 191.75), (2, 192.75), (3, 193.75)],
         "host_memory_percent": [(1, 4.1), (2, 4.2), (3, 4.3)]},
    ),
    "an epoch and its seconds": (
        "".join(f"Epoch   {i}/9, train_loss:{9 - i}.5 val_loss:{9 - i}.25\n1{i}.5s/epoch\n" for i in (1, 2)),
        Axis("epoch", "epoch"),
        {"train_loss": [(1, 8.5), (2, 7.5)], "val_loss": [(1, 8.25), (2, 7.25)],
         "epoch time": [(1, 11.5), (2, 12.5)]},
    ),
    "numbers without names behind an epoch": (
        "".join(f"INFO:Net, 2024-01-02 03:04:0{i},847, epoch, 000{i}, 0.{i}5, 0.5\n" for i in (1, 2, 3)),
        Axis("epoch", "epoch"),
        {"loss": [(1, 0.15), (2, 0.25), (3, 0.35)], "others": [(1, 0.5), (2, 0.5), (3, 0.5)]},
    ),
    "losses in a list under an epoch": (
        "".join(
            f"2024-01-02 03:04:05,847\t44k\tINFO\tTrain Epoch: {i} [0%]\n"
            f"2024-01-02 03:04:05,847\t44k\tINFO\t[2.5, {i}.25, 9.5, 40.5, 1.5, {i}00, 9.5e-05]\n"
            for i in (1, 2)
        ),
        Axis("step", "step"),
        {"lr": [(100, 9.5e-5), (200, 9.5e-5)], "loss/disc": [(100, 2.5), (200, 2.5)],
         "loss/gen": [(100, 1.25), (200, 2.25)], "loss/fm": [(100, 9.5), (200, 9.5)],
         "loss/mel": [(100, 40.5), (200, 40.5)], "loss/kl": [(100, 1.5), (200, 1.5)]},
    ),
    "dictionaries with a member a line": (
        "".join(
            f'{{\n    "loss": {i}.5,\n    "grad_norm": nan,\n    "learning_rate": "1.0e-0{i}",\n}}\n'
            for i in (1, 2, 3)
        ),
        Axis("row", "row"),
        {"loss": [(1, 1.5), (2, 2.5), (3, 3.5)], "grad_norm": [(i, np.nan) for i in (1, 2, 3)],
         "learning_rate": [(1, 0.1), (2, 0.01), (3, 0.001)]},
    ),
    "scores of an epoch between batches": (
        "".join(
            f"Train Epoch: [{i}|9] [0/20] Loss: {9 - i}.5\nTrain Epoch: [{i}|9] [10/20] Loss: {9 - i}.25\n"
            f"epoch: {i} top1_a2b: 4{i}.5 top10_a2b: 7{i}.5\n"
            for i in (1, 2)
        ),
        Axis("epoch x 20 + iteration", "step"),
        {"Loss": [(0, 8.5), (10, 8.25), (20, 7.5), (30, 7.25)], "val/top1_a2b": [(10, 41.5), (30, 42.5)],
         "val/top10_a2b": [(10, 71.5), (30, 72.5)]},
    ),
    "a logger's dotted name, counts of batches, and what is new": (
        "INFO seg.fit: Train batches: 64, Val batches: 8\n"
        + "".join(
            f"INFO seg.fit:   Val: loss=0.{i}5, mean_dice=0.{i}\n"
            f"INFO seg.fit: * New best: mean_dice=0.{i} at epoch {i}\n"
            f"INFO seg.fit: Epoch {i}/9 | LR=1.0e-03 | loss=0.{i}25 | val_dice=0.{i} | best=0.{i} (ep{i}) | 00:07:17\n"
            for i in (1, 2)
        ),
        Axis("epoch", "epoch"),
        {"val/loss": [(0, 0.15), (1, 0.25)], "val/mean_dice": [(0, 0.1), (1, 0.2)],
         "LR": [(1, 0.001), (2, 0.001)], "loss": [(1, 0.125), (2, 0.225)], "val_dice": [(1, 0.1), (2, 0.2)]},
    ),
    "average returns of episodes": (
        "".join(f"Episode {i}00   Avg: -{i}5.5  BestAvg:  -inf   s: 7.5  |  Steps:  {i}9900  Secs:  3{i}\n"
                for i in (1, 2, 3)),
        Axis("Episode", "step"),
        {"Avg reward": [(100, -15.5), (200, -25.5), (300, -35.5)], "s": [(100, 7.5), (200, 7.5), (300, 7.5)],
         "Secs": [(100, 31), (200, 32), (300, 33)]},
    ),
    "tasks before an arrow, and a title with their shares": (
        "".join(
            f"--- Epoch {i}: both alike [A:0.5 - B:0.5] ---\nEpoch {i}: loss={9 - i}.5\n"
            f"   Tone -> F1 micro=0.{i} | F1 macro=0.{i}5\n   Tune    \u2192 Acc=0.6{i}\n"
            for i in (1, 2)
        ),
        Axis("epoch", "epoch"),
        {"loss": [(1, 8.5), (2, 7.5)], "val/Tone/F1 micro": [(1, 0.1), (2, 0.2)],
         "val/Tone/F1 macro": [(1, 0.15), (2, 0.25)], "val/Tune/Acc": [(1, 0.61), (2, 0.62)]},
    ),
    "rates behind their numbers": (
        "".join(f"Epoch[0] Batch [{i}0]\tSpeed: 1{i}.5 samples/sec 2{i}.5 tokens/sec 1.5 updates/sec\tloss={i}.5\n"
                for i in (1, 2)),
        Axis("Batch", "step"),
        {"Speed": [(10, 11.5), (20, 12.5)], "tokens/sec": [(10, 21.5), (20, 22.5)],
         "updates/sec": [(10, 1.5), (20, 1.5)], "loss": [(10, 1.5), (20, 2.5)]},
    ),
    "evaluations of two sets at one step": (
        " iteration 90/ 90 | lm loss: 5.5E+00 |\n"
        " validation loss at iteration 90 on 32-sample draw from validation set | lm loss value: 4.5E+00 |\n"
        " validation loss at iteration 90 on 32-sample draw from test set | lm loss value: 6.5E+00 |\n",
        Axis("iteration", "step"),
        {"lm loss": [(90, 5.5)], "val/lm loss value": [(90, 4.5)], "test/lm loss value": [(90, 6.5)]},
    ),
    "parts of a loss under its row": (
        "".join(f"iter: {i}0 / 90, total loss: {i}.5\n >>> rpn_box: 0.{i}5\n >>> lr: 0.001000\n" for i in (1, 2, 3)),
        Axis("iter", "step"),
        {"total loss": [(10, 1.5), (20, 2.5), (30, 3.5)], "rpn_box": [(10, 0.15), (20, 0.25), (30, 0.35)],
         "lr": [(10, 0.001), (20, 0.001), (30, 0.001)]},
    ),
    "a bar over the scores of all classes": (
        "".join(
            "     Epoch   gpu_mem       box     total\n"
            f"     {i}/9     4.5G   0.{i}5   0.{i}25: 100%|####| 12/12 [03:18<00:00,  2.1it/s]\n"
            "       Class      Images      P     mAP@.5  mAP@.5:.95: 100%|####| 6/6 [00:09<00:00,  2.7it/s]\n"
            f"         all         41    0.5     0.7{i}   0.5\n"
            for i in (0, 1)
        ),
        Axis("epoch", "epoch"),
        {"gpu_mem": [(0, 4.5e9), (1, 4.5e9)], "box": [(0, 0.05), (1, 0.15)], "total": [(0, 0.025), (1, 0.125)],
         "val/Images": [(0, 41), (1, 41)], "val/P": [(0, 0.5), (1, 0.5)], "val/mAP@.5": [(0, 0.70), (1, 0.71)]},
    ),
}  # fmt: skip


def read_text(tmp_path: Path, text: str, name: str = "train.log") -> Read:
    """What the importer makes of a text that it recognises."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert console.sniff(read_head(path)) >= 0.3
    return read(console, path)


@pytest.mark.parametrize("name", LOGS)
def test_layouts(name: str, tmp_path: Path) -> None:
    text, axis, series = LOGS[name]
    result = read_text(tmp_path, text)
    assert result.axis == axis
    assert result.series.keys() == series.keys()
    for label, expected in series.items():
        found = result.series[label]
        assert found.number_steps == [step for step, _ in expected], label
        assert found.numbers.tolist() == pytest.approx([value for _, value in expected], nan_ok=True), label


@pytest.mark.parametrize(
    "remark", ["<-- best", "\u2190 best", "*", "\u2713", "(saved)", "[new best]", "| best", "saved (0.25)"]
)
@pytest.mark.parametrize("bar", [" |", "  "])
def test_a_remark_behind_a_row_is_no_cell_of_it(remark: str, bar: str, tmp_path: Path) -> None:
    rows = [(i, 9 - i, remark if i % 2 else "") for i in range(1, 5)]
    text = f" Epoch{bar} Loss{bar} ValAcc{bar} Time\n----------------\n" + "".join(
        f"  {i} {bar}  {loss}.5{bar}  50.8%{bar} 19.6s  {said if bar == ' |' else said.strip('| ')}\n"
        for i, loss, said in rows
    )
    series = read_text(tmp_path, text).series
    assert {name: len(found.step) for name, found in series.items()} == {"Loss": 4, "ValAcc": 4, "Time": 4}
    assert series["Loss"].value.tolist() == [8.5, 7.5, 6.5, 5.5]


def test_a_table_of_unicode_bars_with_stars(tmp_path: Path) -> None:
    text = "\u2503 Epoch \u2503 Train Loss \u2503 Val Loss \u2503\n" + "".join(
        f"\u2502 {i}     \u2502 2.{i}     \u2502 3.{i} \u2605 \u2502\n" for i in (1, 2)
    )
    series = read_text(tmp_path, text).series
    assert series["Val Loss"].value.tolist() == [3.1, 3.2]


def test_a_word_in_a_row_says_what_data_it_is_of(tmp_path: Path) -> None:
    text = "| epoch | phase | loss | acc |\n|---|---|---|---|\n" + "".join(
        f"| {i} | train | {9 - i}.5 | 0.5 |\n| {i} | val | {9 - i}.75 | 0.25 |\n" for i in (1, 2)
    )
    found = read_text(tmp_path, text).series
    values = {name: found[name].value.tolist() for name in found}
    assert values == {
        "train loss": [8.5, 7.5],
        "train acc": [0.5, 0.5],
        "val loss": [8.75, 7.75],
        "val acc": [0.25, 0.25],
    }


def test_lines_behind_a_mails_date_and_parts_of_a_model(tmp_path: Path) -> None:
    lead = "Sat, 03 Nov 2018 16:39:4{} train.py[line:236] INFO "
    text = "  (1): BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True)\n" + "".join(
        lead.format(i) + f"Training Summary Epoch: [{i}]\tTime taken (s): 3\tAverage Loss {9 - i}.5\t\n"
        + lead.format(i) + f"Validation Summary Epoch: [{i}]\tAverage CER {i}.25\t\n"
        for i in (1, 2)
    )  # fmt: skip
    found = read_text(tmp_path, text)
    assert set(found.series) == {"Time taken (s)", "Average Loss", "val/Average CER"}
    assert found.series["val/Average CER"].value.tolist() == [1.25, 2.25]
    wall = found.series["Average Loss"].wall
    assert wall is not None
    assert wall.tolist() == [1541263181000000, 1541263182000000]


def test_summaries_are_of_the_data_that_they_name(tmp_path: Path) -> None:
    text = (
        "".join(f"- Train | Epoch {i} | {n}/2 | Loss 0.{i}{n}5\n" for i in (1, 2) for n in (1, 2))
        + "- Valid | Epoch 2 | 1/1 | Loss 0.5\n- Train Summary | Epoch 2 | Loss=0.25\n"
        "- Valid Summary | Epoch 2 | Loss=0.75\n"
    )
    series = read_text(tmp_path, text).series
    assert series["val/Loss"].value.tolist() == [0.75]
    assert series["epoch/Loss"].value.tolist() == [0.25]


def test_scores_beside_the_cost_of_one_held_out_set_are_of_that_set(tmp_path: Path) -> None:
    text = "".join(
        f"epoch_id: {i}, dev_cost: 0.5, accuracy: 0.5{i}\nepoch_id: {i}, test_cost: 0.25, accuracy: 0.25{i}\n"
        for i in (1, 2)
    )
    series = read_text(tmp_path, text).series
    assert series["val/accuracy"].value.tolist() == [0.51, 0.52]
    assert series["test/accuracy"].value.tolist() == [0.251, 0.252]


@pytest.mark.parametrize(
    ("file", "line", "name"),
    [
        ("train_loss.txt", "epoch {}:{}.5", "train_loss"),
        ("fit.txt", "epoch {}:{}.5", "loss"),
        ("fit.log", "{} {}.5", "loss"),
        ("rewards.log", "{} {}.5", "reward"),
    ],
)
def test_a_count_and_a_number_alone(file: str, line: str, name: str, tmp_path: Path) -> None:
    text = "Loading from checkpoint\n" + "".join(line.format(i, i % 7) + "\n" for i in range(20))
    found = read_text(tmp_path, text, file).series[name]
    assert found.number_steps == list(range(20))
    assert found.numbers.tolist() == [i % 7 + 0.5 for i in range(20)]


def test_two_columns_that_nothing_names_are_left(tmp_path: Path) -> None:
    path = tmp_path / "spectrum.txt"
    path.write_text("a note\n" + "".join(f"{i} {i % 7}.5\n" for i in range(20)), encoding="utf-8")
    assert console.sniff(read_head(path)) == 0


@pytest.mark.parametrize("line", ["| Training Device=xla:0/{d} Step={i} Loss=0.5 Rate={r} GlobalRate={r}\n",
                                  "[xla:{d}]({i}) Loss=0.5 Rate={r} GlobalRate={r}\n"])  # fmt: skip
def test_devices_are_ranks_and_their_rates_no_learning_rates(line: str, tmp_path: Path) -> None:
    text = "".join(line.format(d=d, i=20 * i, r=4.5 + 60 * i) for i in range(4) for d in (1, 0, 2))
    path = tmp_path / "log.txt"
    path.write_text(text, encoding="utf-8")
    ranked = {(point.name, point.rank) for point in console.read(Source(path, path.name)) if isinstance(point, Points)}
    assert ranked == {(name, d) for name in ("Loss", "Rate per sec", "GlobalRate per sec") for d in range(3)}


def test_a_mere_rate_of_small_numbers_keeps_its_name(tmp_path: Path) -> None:
    result = read_text(tmp_path, "".join(f"step {i}: loss: 2.5, rate: 0.00{i}\n" for i in range(1, 5)))
    assert result.series.keys() == {"loss", "rate"}


@pytest.mark.parametrize(
    "lead",
    [
        "\x1b[32m[04/11 22:56:{:02d} d2.utils.events]: \x1b[0m eta: 0:47:06  ",
        "I0411 22:56:{:02d}.000000 139 train.py:40] ",
        "04/11/2000 22:56:{:02d} - INFO - __main__ - ",
        "[04/11/24 22:56:{:02d}] INFO     ",
    ],
)
def test_wall_times_without_a_year(lead: str, tmp_path: Path) -> None:
    lines = (f"{lead.format(10 + 8 * i)}iter: {20 * i + 19}  total_loss: 1.{i}5  lr: 0.01\n" for i in range(4))
    found = read_text(tmp_path, "".join(lines)).series["total_loss"]
    assert found.wall is not None
    assert np.diff(found.wall).tolist() == [8_000_000] * 3


def test_where_rich_says_a_line_comes_from_is_no_number_of_it(tmp_path: Path) -> None:
    lines = (f"[05/01/24 10:00:0{i}] INFO     step {i} loss 2.{i}{' ' * 40}train.py:40\n" for i in range(4))
    assert read_text(tmp_path, "".join(lines)).series.keys() == {"loss"}


def test_times_without_a_year_go_on_in_the_next(tmp_path: Path) -> None:
    lines = [f"[{day} 23:59:00 engine]: iter: {i}  loss: 2.{i}\n" for i, day in enumerate(("12/30", "12/31", "01/01"))]
    found = read_text(tmp_path, "".join(lines)).series["loss"]
    assert found.wall is not None
    assert np.diff(found.wall).tolist() == [86_400_000_000] * 2


def test_steps_that_are_completed_and_tensors_of_a_device(tmp_path: Path) -> None:
    bar = "Training Epoch: {}/2, step {}/3 completed (loss: {}.5): {}%|#  | {}/3 [00:00<27:20,  2.10s/it]\n"
    evaluation = " eval_ppl=tensor(57.5, device='cuda:0') eval_epoch_loss=tensor(4.25, device='cuda:0')\n"
    text = "".join(
        "".join(bar.format(epoch, i, 9 - 3 * epoch - i, 33 * i, i) for i in range(3)) + evaluation for epoch in (1, 2)
    )
    found = read_text(tmp_path, text).series
    assert found["loss"].numbers.tolist() == [6.5, 5.5, 4.5, 3.5, 2.5, 1.5]
    assert found["loss"].number_steps == [0, 1, 2, 3, 4, 5]
    assert found["eval_epoch_loss"].numbers.tolist() == [4.25, 4.25]
    older = read_text(tmp_path, "".join(f" step {i} is completed and loss is {i}.5\n" for i in range(3)))
    assert older.series["loss"].numbers.tolist() == [0.5, 1.5, 2.5]


def test_a_report_on_stragglers_is_no_score_of_an_evaluation(tmp_path: Path) -> None:
    report = (
        "    GPU relative performance:\n      Worst performing 5/16 ranks:\n"
        "        Rank=11 Node=dgx-021 Score=0.58\n        Rank=7 Node=dgx-020 Score=0.98\n"
    )
    warning = (
        "[NeMo W 2025-02-11 03:55:15 straggler_det_callback:228] STRAGGLER DETECTION WARNING: Some GPUs have worse "
        "relative performance. Affected ranks: StragglerId(rank=11, node='dgx-021')\n"
    )
    text = "".join(f"step {i} loss: 2.{i}\n" + (report + warning if i > 2 else "") for i in range(6))
    result = read_text(tmp_path, text)
    assert "val/Score" not in result.series
    assert [(event.kind, event.rank, event.step) for event in result.events] == [("warning", 11, 3)]


def test_weights_that_were_in_no_checkpoint_are_told(tmp_path: Path) -> None:
    said = (
        "Some weights of GPT2LMHeadModel were not initialized from the model checkpoint at ./hf and are newly "
        "initialized: ['h.0.attn.c_attn.weight']\n"
    )
    result = read_text(tmp_path, said + "".join(f"step {i} loss: 9.{i}\n" for i in range(4)))
    assert [event.kind for event in result.events] == ["warning"]
