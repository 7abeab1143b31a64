from __future__ import annotations

import numpy as np

from trainforensics.signals.steps import held_changes


def test_changes_of_a_setting_that_is_held() -> None:
    assert held_changes(np.repeat([1.0, 2.0, 1.0], 10)) == [10, 20]


def test_a_value_that_changes_at_every_turn_is_no_setting() -> None:
    assert held_changes(np.repeat([1.0, 2.0, 1.0, 3.0], 5)) == []
    assert held_changes(np.arange(30.0)) == []
