import numpy as np
from factories import make_curve, make_signals

from trainforensics.signals.task import adversarial, planned_steps


def test_the_length_of_a_run_is_read_wherever_the_configuration_holds_it() -> None:
    config = {"trainer": {"total_steps": 300, "max_steps": -1}, "optim.lr_decay_iters": 100, "max_iters": 200}
    signals = make_signals({"train_loss": [1.0, 2.0]}, config=config)
    assert planned_steps(signals) == (200, 300)
    assert planned_steps(signals, "lr_decay_iters") == (100, 200, 300)


def test_a_critic_is_one_side_of_a_game_unless_it_judges_an_actor() -> None:
    critic = make_curve(np.ones(20), name="critic_loss")
    assert adversarial(make_signals([critic]), critic)
    actor = make_curve(np.ones(20), None, name="actor_loss", series_id=1)
    assert not adversarial(make_signals([critic, actor]), critic)
