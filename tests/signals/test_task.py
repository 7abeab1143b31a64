from factories import make_signals

from trainforensics.signals.task import planned_steps


def test_the_length_of_a_run_is_read_wherever_the_configuration_holds_it() -> None:
    config = {"trainer": {"total_steps": 300, "max_steps": -1}, "optim.lr_decay_iters": 100, "max_iters": 200}
    signals = make_signals({"train_loss": [1.0, 2.0]}, config=config)
    assert planned_steps(signals) == (200, 300)
    assert planned_steps(signals, "lr_decay_iters") == (100, 200, 300)
