import math
from typing import Any

import pytest
from factories import make_signals

from trainforensics.signals.task import planned_steps, untrained_loss


def test_the_length_of_a_run_is_read_wherever_the_configuration_holds_it() -> None:
    config = {"trainer": {"total_steps": 300, "max_steps": -1}, "optim.lr_decay_iters": 100, "max_iters": 200}
    signals = make_signals({"train_loss": [1.0, 2.0]}, config=config)
    assert planned_steps(signals) == (200, 300)
    assert planned_steps(signals, "lr_decay_iters") == (100, 200, 300)


@pytest.mark.parametrize("config", [{"model.vocab": 128}, {"model": {"vocab": 128}}, {"n_classes": "128"}])
def test_the_vocabulary_goes_by_several_names(config: dict[str, Any]) -> None:
    assert untrained_loss(make_signals({"train_loss": [5.0, 4.0]}, config=config)) == math.log(128)


def test_a_list_is_no_vocabulary() -> None:
    assert untrained_loss(make_signals({"train_loss": [5.0, 4.0]}, config={"vocab": ["a", "b"]})) is None
