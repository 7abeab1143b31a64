"""What stands where a number should, and lines of any kind between records: neither costs a record."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import NULL, VALUE, Points, Source
from trainforensics.importers.printed.reader import Reader
from trainforensics.model import Event

SHAPES = ("step {} loss {} lr 0.001", "[INFO] iter: {}/300 | loss: {} | lr: 0.001", "step: {}, lr: 0.001, loss={}")


def read_text(tmp_path: Path, text: str) -> Read:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    return read(console, path)


def with_value(shape: str, value: str) -> str:
    return "\n".join(shape.format(step, value if step > 5 else 4.0 / step) for step in range(1, 9))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("value", "number", "state"),
    [
        *((word, np.nan, VALUE) for word in ("nan", "NAN", "-nan", "NaN%", "nan(ind)", "1.#QNAN", "-1.#IND00")),
        *((word, np.inf, VALUE) for word in ("inf", "INF", "INFINITY", "Infinity", "1.#INF", "1e999")),
        *((word, np.nan, NULL) for word in ("None", "null", "NA", "n/a", "#N/A", "undefined", "--", "ERR", "diverged")),
    ],
)
def test_no_number_is_read_as_what_it_says(shape: str, value: str, number: float, state: int, tmp_path: Path) -> None:
    loss = read_text(tmp_path, with_value(shape, value)).series["loss"]
    assert loss.step.tolist() == list(range(1, 9))
    assert loss.value[5:].tolist() == pytest.approx([number] * 3, nan_ok=True)
    assert loss.state.tolist() == [VALUE] * 5 + [state] * 3


def test_a_value_left_out_is_a_gap(tmp_path: Path) -> None:
    result = read_text(tmp_path, with_value(SHAPES[0], ""))
    assert result.series["loss"].state.tolist() == [VALUE] * 5 + [NULL] * 3
    assert result.series["lr"].number_steps == list(range(1, 9))


def test_what_is_no_number_is_told(tmp_path: Path) -> None:
    assert [w.kind for w in read_text(tmp_path, with_value(SHAPES[0], "ERR")).warnings] == ["wrong-type"]
    assert not read_text(tmp_path, with_value(SHAPES[0], "null")).warnings


def test_steps_begin_below_zero(tmp_path: Path) -> None:
    text = "".join(f"step {step} loss {2.5 + step / 8}\n" for step in range(-4, 4))
    assert read_text(tmp_path, text).series["loss"].number_steps == list(range(-4, 4))


@pytest.mark.parametrize(
    ("good", "odd"),
    [
        (
            " 10%|#  | {}/300 [00:01<00:09, 3.0it/s, loss=2.5]",
            " 10%|#  | " + "9" * 5000 + "/300 [00:01<00:09, 3.0it/s]",
        ),
        (
            " 10%|#  | {}/300 [00:01<00:09, 3.0it/s, loss=2.5]",
            " 10%|#  | " + "9" * 400 + ".5k/300 [00:01<00:09, 3.0it/s]",
        ),
        ("epoch 1, iter {}/300, loss 2.5", "epoch 1, iter " + "9" * 30 + "/300, loss 2.5"),
        ("step {} loss 2.5", "Saved checkpoint at step " + "9" * 5000),
    ],
)
def test_a_count_beyond_all_bounds_costs_one_line(good: str, odd: str, tmp_path: Path) -> None:
    lines = [good.format(step) for step in range(1, 30)]
    result = read_text(tmp_path, "\n".join([*lines[:20], odd, *lines[20:]]))
    assert result.series["loss"].number_steps == list(range(1, 30))
    assert [(warning.kind, warning.where) for warning in result.warnings] == [("bad-line", "line 21")]


def test_many_records_of_one_line(tmp_path: Path) -> None:
    result = read_text(tmp_path, " ".join(f"step {step} loss {step / 8}" for step in range(4000)))
    assert result.series["loss"].number_steps == list(range(4000))
    assert result.series["loss"].numbers.tolist() == [step / 8 for step in range(4000)]


WORDS = (
    "step epoch iter loss val test lr %| | [ ] ( ) / : = , { } ' it/s s/it it/ nan NAN None 1.#QNAN 12 0.5 -7 K M 1e999"
    " 1.2.3 5/300 300 100% rank [rank ]: ² ٣ \x1b[0m \x08 \r 1,000 tensor( 损失 # -- ERR [00:01<00:02, wandb:"
)
PARTS = (
    *WORDS.split(" "),
    *("Progress on:", "2024-01-02 03:04:05", "{'loss': 0.5", "***** train metrics *****", "Resuming from step"),
    *("Traceback (most recent call last)", "Saving checkpoint", "CUDA out of memory", "=" * 24, "Epoch 1/3"),
    *("\t", " ", '"', "9" * 30, "9" * 5000),
)
GOOD = (
    "step {0} loss {1:.4f} lr 0.001", "Epoch 1 | iter {0}/20 | loss: {1:.4f}", "{{'loss': {1:.4f}, 'step': {0}}}",
    " 10%|## | {0}/20 [00:01<00:09, 3.0it/s, loss={1:.4f}]", "2024-01-02 03:04:05 [rank0]: step: {0} loss: {1:.4f}",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=12).map(" ".join), max_size=8),
    st.booleans(),
    st.sampled_from(GOOD),
    st.integers(0, 2**32),
)
def test_no_line_costs_another_record(odd: list[str], glued: bool, good: str, seed: int) -> None:
    records = [(step, 1 + step / 16) for step in range(1, 21)]
    lines = [good.format(step, value) for step, value in records]
    for line in odd:
        lines.insert(random.Random(seed).randrange(3, len(lines)), line.replace(" ", "" if glued else " "))
    reader = Reader(Source(Path("train.log"), "train.log"))
    found = [*reader.block("\n".join(lines), 1), *reader.end()]
    points = {
        pair
        for part in found
        if isinstance(part, Points)
        for pair in zip(part.step.tolist(), part.value.tolist(), strict=True)
    }
    assert points >= set(records)


def test_a_line_that_ends_unlike_its_kind_is_told_from_it_at_once(tmp_path: Path) -> None:
    """Numbers with blanks alone between them are parted in one way only, not in all ways to share their digits."""
    columns = "     {0}/99     5.74G    0.0585  0.004941         0   0.06344         2       640  0.000779    0.1667 "
    columns += "0.0001678 1.899e-05    0.1308   0.01111         0"
    glued = columns.format(20) + "Epoch: [2][10/60]\tTime  0.005 ( 0.059)\tData  0.004\tLoss 5.6603e-01 (6.2331e-01)"
    last = "Epoch: [3][10/60]\tTime  0.005 ( 0.059)\tData  0.004\tLoss 2.5 (6.2331e-01)"
    found = read_text(tmp_path, "\n".join([glued, *(columns.format(step) for step in range(21, 30)), last]))
    assert 2.5 in {value for points in found.series.values() for value in points.value.tolist()}


@pytest.mark.parametrize(
    "odd",
    [
        "-" * 300_000,
        "step 1 " + "a=1, " * 60_000,
        "step 1 " + "| 1 " * 60_000,
        "\t" * 160 + "x)" + " \t" * 80 + "5%|# | 1/20 [00:01<00:09, 3.0it/s]",
        "{'x': " + "9" * 12_000 + "}",
    ],
    ids=["ruler", "pairs", "bars", "blanks", "digits"],
)
def test_a_line_of_great_length_costs_no_record(odd: str, tmp_path: Path) -> None:
    text = "\n".join([*(f"step {step} loss 0.5" for step in range(10)), odd, "step 10 loss 0.5"])
    assert read_text(tmp_path, text).series["loss"].step.tolist() == list(range(11))


def test_a_table_without_an_end_that_no_step_precedes_is_read(tmp_path: Path) -> None:
    table = "| ep_rew_mean | 2.5 |\n| total_timesteps | 17920 |"
    assert read_text(tmp_path, table).series["ep_rew_mean"].value.tolist() == [2.5]


def test_a_step_that_begins_anew_with_each_epoch_goes_on_under_a_bar_of_the_training(tmp_path: Path) -> None:
    rows = [(epoch, step) for epoch in range(1, 6) for step in range(8)]
    text = "\n".join(
        f"Epoch {epoch}, Step {step}, Loss: {2 - count / 64:.4f}: {100 * count // 40:3d}%|# | {count}/40"
        " [00:02<02:20,  1.01it/s]"
        for count, (epoch, step) in enumerate(rows, 1)
    )
    assert read_text(tmp_path, text).series["Loss"].step.tolist() == list(range(40))


def test_what_happens_at_the_beginning_of_a_block_is_of_the_last_row_before_it() -> None:
    reader = Reader(Source(Path("train.log"), "train.log"))
    list(reader.block("\n".join(f"step {step} loss {3 - step / 100:.4f}" for step in range(1, 51)), 1))
    found = reader.block("CUDA out of memory\nstep 51 loss 2.0", 51)
    assert [event.step for event in found if isinstance(event, Event)] == [50]


def test_a_terminal_s_title_hides_no_lines(tmp_path: Path) -> None:
    title = "\x1b]0;train\x1b\\"
    rows = [f"{title}step {step} loss 0.5" for step in range(10)]
    text = "\n".join([*rows, "\x1b]" * 300_000, "the end\x07"])
    assert read_text(tmp_path, text).series["loss"].step.tolist() == list(range(10))


@pytest.mark.parametrize(
    "prefix", ["2026-02-25 06:13:20,310 INFO charrnn: ", "charrnn: ", "[INFO] charrnn: ", "INFO train: "]
)
def test_a_loggers_name_before_a_count_of_batches(prefix: str, tmp_path: Path) -> None:
    lines = (f"{prefix}batch {10 * i}/1700 | lr 3.00e-03 | loss {3 / i + 0.5:.4f}\n" for i in range(1, 9))
    found = read_text(tmp_path, "".join(lines))
    (loss,) = (series for name, series in found.series.items() if name.endswith("loss"))
    assert loss.step.tolist() == list(range(10, 90, 10))


def test_a_bare_rank_before_what_is_trained(tmp_path: Path) -> None:
    lines = [
        f"[{k}] [train], epoch: 0/50, iter: {i}/400, loss: {2 + k + i / 10}\n" for i in range(1, 9) for k in (1, 0)
    ]
    path = tmp_path / "train.log"
    path.write_text("".join(lines), encoding="utf-8")
    told = {(r.name, r.rank) for r in console.read(Source(path, "train.log")) if isinstance(r, Points)}
    assert {rank for _, rank in told} == {0, 1}, told
