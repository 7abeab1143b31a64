"""Tables of results in Markdown, as model cards hold them."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading import read, sniff

from trainforensics.discovery import discover
from trainforensics.importers import markdown
from trainforensics.model import Axis

CARD = """---
library_name: transformers
---
# a-model

It achieves the following results on the evaluation set:
- Loss: 0.25

| Model | Size |
|:-----:|:----:|
| small | 1.5  |

### Training results

| Training Loss | Epoch | Step | Validation Loss | Wer    |
|:-------------:|:-----:|:----:|:---------------:|:------:|
| No log        | 1.0   | 500  | 3.5             | 1.0    |
| 2.5           | 2.0   | 1000 | 3.25            | 0.5    |
| 2.25          | 3.0   | 1500 | **3.0**         | 0.25   |

### Framework versions
"""


def test_the_table_of_a_model_card(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(CARD, encoding="utf-8")
    found = read(markdown, path)
    assert found.axis == Axis("Step", "step")
    assert set(found.series) == {"Training Loss", "Epoch", "Validation Loss", "Wer"}
    assert found.series["Training Loss"].number_steps == [1000, 1500]
    assert found.series["Validation Loss"].numbers.tolist() == [3.5, 3.25, 3.0]
    assert found.series["Validation Loss"].number_steps == [500, 1000, 1500]
    assert not found.warnings


def test_a_table_without_margins_and_a_second_training(tmp_path: Path) -> None:
    table = "Step | Training Loss | Wer\n-- | -- | --\n400 | 5.0 | 1.0\n800 | 4.5 | 1.0\n"
    path = tmp_path / "table.md"
    path.write_text(f"{table}\nand once more\n\n{table}", encoding="utf-8")
    found = read(markdown, path)
    assert {run for run, name, _ in found.by_origin if name == "Training Loss"} == {"", "table_2"}


LIST = """# Training

- **Optimizer:** AdamW (Learning Rate: 3e-4)
- **Progress (3 steps):**
  - Step 0: Train Loss `10.5` | Val Loss `10.25`
  - **Step 250 (the best):** **Train Loss `4.5` | Val Loss `5.5`** (~23.5 epochs)
  - Step 500: Train Loss `3.5` | Val Loss `6.5` *(it overfits: +1.0)*
"""
OUTPUT = """It prints

```python
print("step 5 loss 7.5")
```

```text
500  [D loss: 0.25 , acc: 100.00] [G loss: 15.5]
1000 [D loss: 0.5 , acc: 100.00] [G loss: 14.5]
1500 [D loss: 0.75 , acc: 100.00] [G loss: 13.5]
```
"""
PLAIN = "".join(f"Start ep num  {e}\nepoch {e}:\nloss_D: 0.5, loss_G_fake: 0.{e}, \n\n" for e in (1, 2, 3))
HEADINGS = "# Log\n\n" + "".join(f"## Epoch no. = {e}\n- F1: 0.{e}\n- Train Loss: {e}.5\n\n" for e in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "name", "steps", "numbers"),
    [
        (LIST, "Train Loss", [0, 250, 500], [10.5, 4.5, 3.5]),
        (LIST, "Val Loss", [0, 250, 500], [10.25, 5.5, 6.5]),
        (OUTPUT, "G loss", [500, 1000, 1500], [15.5, 14.5, 13.5]),
        (PLAIN, "loss_G_fake", [1, 2, 3], [0.1, 0.2, 0.3]),
        (HEADINGS, "Train Loss", [1, 2, 3], [1.5, 2.5, 3.5]),
    ],
)
def test_records_as_text_where_no_table_holds_results(
    text: str, name: str, steps: list[int], numbers: list[float], tmp_path: Path
) -> None:
    path = tmp_path / "README.md"
    path.write_text(text, encoding="utf-8")
    assert sniff(markdown, path) > 0
    found = read(markdown, path).series[name]
    assert (found.number_steps, found.numbers.tolist()) == (steps, numbers)
    path.write_text(f"{text}\n{CARD}", encoding="utf-8")
    assert set(read(markdown, path).series) == {"Training Loss", "Epoch", "Validation Loss", "Wer"}


@pytest.mark.parametrize(
    "text",
    [
        "# Notes\n\nAt step 10 the loss was 2.5.\nAt step 20 it was 2.25, at step 30 2.0.\n",
        "```python\nstep 10 loss 2.5\nstep 20 loss 2.25\nstep 30 loss 2.0\n```\n",
        "| Model | Loss |\n|---|---|\n| a | 2.5 |\n| b | 2.25 |\n",
        "| Step | Loss |\n| 1 | 2.5 |\n| 2 | 2.25 |\n",
    ],
)
def test_other_pages_are_not_claimed(text: str, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(text, encoding="utf-8")
    assert sniff(markdown, path) == 0.0


def test_a_page_beside_a_log_is_left_aside(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(CARD, encoding="utf-8")
    assert [s.format for s in discover([tmp_path]).candidates[0].sources] == ["markdown"]
    (tmp_path / "log.csv").write_text("step,loss\n" + "".join(f"{i},2.5\n" for i in range(9)), encoding="utf-8")
    found = discover([tmp_path])
    assert [s.format for s in found.candidates[0].sources] == ["table"]
    assert [skip.reason for skip in found.skipped] == ["says what the logs beside it say"]
    assert [s.format for s in discover([tmp_path / "README.md"]).candidates[0].sources] == ["markdown"]
