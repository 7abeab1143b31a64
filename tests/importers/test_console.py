"""Console text of many trainers, read to points, events and settings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import Config, Source, read_head


def read_text(tmp_path: Path, text: str, name: str = "train.log") -> Read:
    """What the importer makes of a text."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read(console, path)


def series(result: Read, name: str) -> tuple[list[int], list[float]]:
    """Steps and numbers of a series."""
    gathered = result.series[name]
    return gathered.number_steps, gathered.numbers.tolist()


ONE_LINERS = {
    "nanoGPT": ("iter 20000: loss 3.8079, time 31141.27ms, mfu -100.00%", 20000, {"loss": 3.8079, "mfu": -100.0}),
    "nanoGPT evaluation": ("step 500: train loss 7.0, val loss 7.5", 500, {"train loss": 7.0, "val loss": 7.5}),
    "nanochat": (
        "step 00010/05000 (0.20%) | loss: 9.46 | dt: 410.20ms | tok/sec: 1,278,142 | epoch: 1 | total time: 2.82m",
        10,
        {"loss": 9.46, "tok/sec": 1278142.0, "total time": 2.82},
    ),
    "llm.c": (
        "step   10/74 | loss     nan (+nanz)| norm 2.5 (-0.31z)| lr 3.00e-04 | 36.60 ms | 9.2% bf16 MFU | 112346 tok/s",
        10,
        {"loss": math.nan, "norm": 2.5, "lr": 3e-4, "ms": 36.6, "bf16 MFU": 9.2, "tok/s": 112346.0},
    ),
    "llm.c main.log": ("s:12 trl:10.2393 lr:0.000111 norm:8.60", 12, {"trl": 10.2393, "norm": 8.6}),
    "modded-nanogpt": ("step:3/6200 train_loss:5.06 train_time:40ms step_avg:nanms", 3, {"train_loss": 5.06}),
    "torchtitan": (
        "[rank0]:[titan] 2025-07-15 22:19:09,370 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss: 10.8688  "
        "\x1b[38;2;180;60;0mgrad_norm:  2.8708  \x1b[38;2;54;234;195mmemory: 160.60GiB(90.05%)  "
        "\x1b[34mtps: 1,360\x1b[39m",
        10,
        {"loss": 10.8688, "grad_norm": 2.8708, "memory": 160.6, "tps": 1360.0},
    ),
    "Megatron": (
        " [2025-10-03 22:36:27.885910] iteration     2890/    8000 | consumed samples:       739840 | elapsed time per "
        "iteration (ms): 4838.9 | learning rate: 1.822000E-04 | lm loss: 4.355821E+00 | loss scale: 1.0 | grad norm: "
        "0.586 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        2890,
        {"lm loss": 4.355821, "grad norm": 0.586, "number of nan iterations": 0.0, "consumed samples": 739840.0},
    ),
    "Megatron validation": (
        " validation loss at iteration 4000 | lm loss value: 6.392364E+00 | lm loss PPL: 5.972669E+02 | ",
        4000,
        {"val/lm loss value": 6.392364, "val/lm loss PPL": 597.2669},
    ),
    "NeMo": (
        "Training epoch 0, iteration 9/99 | lr: 1e-05 | global_step: 9 | reduced_train_loss: 10.9",
        9,
        {"lr": 1e-5, "reduced_train_loss": 10.9},
    ),
    "DeepSpeed": (
        "[2023-04-18 02:10:32,250] [INFO] [logging.py:96:log_dist] [Rank 0] step=1860, skipped=34, "
        "lr=[8.2e-06, 8.2e-06], mom=[(0.9, 0.95), (0.9, 0.95)]",
        1860,
        {"skipped": 34.0, "lr": 8.2e-6, "lr/1": 8.2e-6},
    ),
    "verl": (
        "(main_task pid=2100) step:160 - actor/ppo_kl:0.01 - critic/rewards/mean:np.float64(0.5) - actor/lr:1e-06",
        160,
        {"actor/ppo_kl": 0.01, "critic/rewards/mean": 0.5, "actor/lr": 1e-6},
    ),
    "fairseq": (
        "2020-01-01 10:10:10 | INFO | train_inner | epoch 001:    100 / 1000 loss=12.3, ppl=2345.3, "
        "num_updates=100, lr=1e-05",
        100,
        {"loss": 12.3, "lr": 1e-5},
    ),
    "Detectron2": (
        "[07/08 10:00:00 d2.utils.events]:  eta: 1:00:00  iter: 19  total_loss: 2.3  loss_cls: 1.4  lr: 0.001",
        19,
        {"total_loss": 2.3, "loss_cls": 1.4, "lr": 0.001},
    ),
    "MaxText": (
        "completed step: 5, seconds: 1.2, TFLOP/s/device: 150, Tokens/s/device: 8000, loss: 10.5",
        5,
        {"loss": 10.5, "TFLOP/s/device": 150.0},
    ),
    "mmengine": ("Iter(train) [ 50/160000]  lr: 1.0e-02  eta: 1 day, 2:30:10  loss: 2.3", 50, {"loss": 2.3}),
    "plain": ("INFO:root:Step 7 | loss = 2.5 | acc = 0.25", 7, {"loss": 2.5, "acc": 0.25}),
    "JSON": ('{"step": 3, "loss": 0.5}', 3, {"loss": 0.5}),
}


@pytest.mark.parametrize("name", ONE_LINERS)
def test_one_line(name: str, tmp_path: Path) -> None:
    line, step, expected = ONE_LINERS[name]
    result = read_text(tmp_path, f"{line}\n")
    for tag, value in expected.items():
        steps, numbers = series(result, tag)
        assert steps == [step], tag
        assert numbers == pytest.approx([value], nan_ok=True), tag


def test_confidence_is_below_the_structured_readers(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("iter 1: loss 3.8\niter 2: loss 3.7\n")
    assert 0.3 <= console.sniff(read_head(path)) < 0.7
    path.write_text("nothing of interest\nin 3 lines of text\n")
    assert console.sniff(read_head(path)) == 0


def test_printed_dictionaries_take_the_step_of_the_bar_drawn_after_them(tmp_path: Path) -> None:
    bar = "\r  1%|▏         | {}/850 [00:20<57:28,  4.08s/it]"
    text = bar.format(0) + bar.format(4) + "\n{'loss': '0.5', 'grad_norm': nan, 'epoch': 0.01}\n" + bar.format(5)
    text += "\r 50%|█████     | 1/2 [00:00<00:00, 10.0it/s]\n{'eval_loss': 0.75, 'epoch': 0.01}\n"
    text += bar.format(9) + "{'loss': 0.25, 'grad_norm': 1.5, 'epoch': 0.02}" + bar.format(10)
    text += "\n{'train_runtime': 9.5, 'train_loss': 0.4, 'epoch': 0.02}\n"
    result = read_text(tmp_path, text)
    assert series(result, "loss") == ([5, 10], [0.5, 0.25])
    assert series(result, "eval_loss") == ([5], [0.75])
    assert np.isnan(result.series["grad_norm"].value[0])
    assert "train_loss" not in result.series
    assert [event.kind for event in result.events] == ["finish"]


def test_printed_dictionaries_between_two_drawings_of_the_bar_share_its_steps(tmp_path: Path) -> None:
    bar = "  5%|▌         | {}/400 [0:13:40<4:19:00, 41.2s/it]\n"
    row = "{{'loss': {}, 'epoch': 0.5}}\n{{'reward': 0.5, 'epoch': 0.5}}\n"
    text = row.format(0.5) * 5 + bar.format(10) + row.format(0.25) * 4 + "{'eval_loss': 0.75}\n" + row.format(0.25)
    result = read_text(tmp_path, text + bar.format(20) + row.format(0.125))
    assert series(result, "loss")[0] == [*range(2, 21, 2), 20]
    assert series(result, "reward")[0] == [*range(2, 21, 2), 20]
    assert series(result, "eval_loss")[0] == [18]
    assert result.axis is not None
    assert result.axis.name == "progress bar"


def test_a_bar_behind_the_rows_is_an_evaluation(tmp_path: Path) -> None:
    row = "{'loss': 0.5, 'epoch': 0.04}\n"
    text = row * 26 + "100%|██████████| 7/7 [00:00<00:00, 1843.47it/s]\n" + row * 4
    text += "100%|██████████| 70/70 [00:00<00:00, 1843.47it/s]\n" + row
    assert series(read_text(tmp_path, text), "loss")[0] == list(range(1, 32))


def test_overflows_belong_to_the_step_under_way(tmp_path: Path) -> None:
    message = "[2025-03-31 21:50:38,037] [INFO] [deepspeed] OVERFLOW! Rank {} Skipping step. "
    message += "Attempted loss scale: 8, reducing to 4"
    text = f"{message.format(0)}\n{message.format(1)}\nEpoch: 0, Step: 1, Rank: 0, loss = 2.5\n{message.format(0)}\n"
    result = read_text(tmp_path, text)
    assert [(e.kind, e.step, e.rank) for e in result.events] == [
        ("overflow", 1, 0), ("overflow", 1, 1), ("overflow", 2, 0),
    ]  # fmt: skip


def test_a_warning_of_a_skipped_step_is_no_row(tmp_path: Path) -> None:
    text = "Step 1 | Loss: 0.5 | GradNorm: 1.5\n"
    text += "WARNING - Step 2: detected spiky gradient (norm=2.5); skipping optimizer step.\n"
    result = read_text(tmp_path, text)
    assert [(e.kind, e.step) for e in result.events] == [("update-skipped", 2)]
    assert set(result.series) == {"Loss", "GradNorm"}


def test_skipped_updates_are_all_kept(tmp_path: Path) -> None:
    text = "".join(
        f"step {i}: loss {3 - i / 100:.3f}\nWARNING: The grad norm is nan. Skipping updating the model.\n"
        for i in range(1, 41)
    )
    events = read_text(tmp_path, text + "WARNING: Skipping update check for newer versions\n").events
    assert [e.step for e in events if e.kind == "update-skipped"] == list(range(2, 42))


def test_a_program_before_its_log_is_no_log(tmp_path: Path) -> None:
    text = (
        "=" * 100 + "\nimport os\nclass Net:\n    raise Exception('save checkpoint')\n    print('step 3: loss 4.0')\n"
    )
    text += "=" * 100 + "\nstep:1/10 train_loss:5.5 step_avg:3ms\n"
    result = read_text(tmp_path, text)
    assert series(result, "train_loss") == ([1], [5.5])
    assert not result.events


def test_a_program_between_two_logs_is_no_log(tmp_path: Path) -> None:
    program = "import os\nimport torch\ndist.init_process_group('nccl', timeout=timedelta(hours=1))\n" + "=" * 100
    log = "step:1/10 train_loss:5.5 step_avg:3ms\nstep:2/10 train_loss:5.25 step_avg:3ms\n"
    assert not read_text(tmp_path, f"{program}\n{log}{program}\n{log}").events
    stray = f"{log}import os\n{log}RuntimeError: CUDA out of memory\n"
    twice = f"{log}import os\nimport re\n{log}RuntimeError: CUDA out of memory\n"
    for text in (stray, twice):
        assert [event.kind for event in read_text(tmp_path, text).events] == ["oom"]


def test_ranks_stand_apart_even_where_their_lines_are_glued(tmp_path: Path) -> None:
    text = "[rank0]: step: 1  loss: 2.5[rank1]: step: 1  loss: 3.5\n"
    text += "[rank1]: step: 2  loss: 3.25\n[rank0]: step: 2  loss: 2.25\n"
    result = read_text(tmp_path, text)
    assert result.by_origin["", "loss", 0].numbers.tolist() == [2.5, 2.25]
    assert result.by_origin["", "loss", 1].numbers.tolist() == [3.5, 3.25]


@pytest.mark.parametrize(("time", "naive"), [("2025-03-01 05:00:0{}", True), ("2025-03-01T05:00:0{}+00:00", False)])
def test_times_that_state_no_zone_are_said_to(tmp_path: Path, time: str, naive: bool) -> None:
    found = read_text(tmp_path, "".join(f"[{time.format(i)}] step {i} loss 2.{i}\n" for i in range(5)))
    assert found.series["loss"].wall is not None
    assert [warning.kind for warning in found.warnings] == ["naive-time"] * naive
    said = read_text(tmp_path, f"[{time.format(1)}] CUDA out of memory\n")
    assert [warning.kind for warning in said.warnings] == ["naive-time"] * naive


@pytest.mark.parametrize(("first", "steps"), [(2**63 - 100, range(1, 31)), (10**22, range(1, 31))])
def test_rows_are_counted_where_steps_are_beyond_what_a_step_can_be(tmp_path: Path, first: int, steps: range) -> None:
    found = read_text(tmp_path, "".join(f"step {first + i} loss {2 + i / 8}\n" for i in range(30)))
    assert series(found, "loss")[0] == list(steps)
    assert [w.kind for w in found.warnings] == ["odd-step"]


def test_a_step_beyond_what_a_step_can_be_is_the_one_before(tmp_path: Path) -> None:
    texts = [str(i) for i in range(1, 31)]
    texts[6] = "9" * 30
    found = read_text(tmp_path, "".join(f"step {text} loss 2.5\n" for text in texts))
    assert series(found, "loss")[0] == [*range(1, 7), 6, *range(8, 31)]
    assert [w.kind for w in found.warnings] == ["odd-step"]


def test_what_nanogpt_says_of_its_tokens_is_a_setting(tmp_path: Path) -> None:
    head = "tokens per iteration will be: 12,288\nfound vocab_size = 65 (inside data/letters/meta.pkl)\n"
    rows = "".join(f"iter {i}: loss {4 - i / 100:.4f}, time 30.00ms, mfu 1.00%\n" for i in range(0, 100, 10))
    result = read_text(tmp_path, head + rows)
    assert result.config == {"tokens_per_iteration": 12288, "vocab_size": 65}


def test_a_text_of_settings_alone_is_read_for_them(tmp_path: Path) -> None:
    lines = ["[2023-11-15 20:11:02,114] [INFO] launching", "Seq2SeqTrainingArguments("]
    lines += ["bf16=True,", "learning_rate=0.0001,", "logging_steps=10,", "lr_scheduler_type=SchedulerType.COSINE,"]
    path = tmp_path / "run.log"
    path.write_text("\n".join([*lines, "max_steps=3000,", "warmup_steps=0,", ")"]))
    assert console.sniff(read_head(path)) > 0.05
    stated = [record.values for record in console.read(Source(path, path.name)) if isinstance(record, Config)]
    assert stated[0]["lr_scheduler_type"] == "SchedulerType.COSINE"
