from __future__ import annotations

import pytest

from trainforensics.compare.wording import side_by_side


@pytest.mark.parametrize(
    ("a", "b"), [("x" * 70 + "a", "x" * 70 + "b"), ("a" + "x" * 70, "b" + "x" * 70), ("x" * 70, "x")]
)
def test_long_texts_are_cut_around_what_differs(a: str, b: str) -> None:
    left, right = side_by_side(a, b, 40)
    assert left != right
    assert max(len(left), len(right)) <= 40


def test_short_texts_stay() -> None:
    assert side_by_side("fp16", "bf16", 40) == ("fp16", "bf16")
