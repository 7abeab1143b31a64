"""Headings of evaluations and of the training."""

from __future__ import annotations

import pytest

from trainforensics.importers.printed.remarks.sections import heading


@pytest.mark.parametrize(
    ("line", "announced"),
    [
        (" > EVALUATION ", True),
        ("2019-06-25 10:00:00,081 reid.train INFO: Validation Results - Epoch: 10", True),
        ("Test Error:", True),
        ("***** Running Evaluation *****", True),
        ("Training epoch: 2", False),
        ("[ Wed Jun  6 16:01:01 2018 ] Training epoch: 2", False),
        ("Evaluation runs every 500 steps", None),
        ("test: 500 images", None),
        ("loading the validation set", None),
        ("val loss: 0.5", None),
    ],
)
def test_headings(line: str, announced: bool | None) -> None:
    assert heading(line) is announced
