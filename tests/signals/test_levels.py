from __future__ import annotations

from curves import grad_norm, healthy
from factories import make_signals

from trainforensics.signals.levels import norm_step


def test_the_norm_at_a_step_of_something_else() -> None:
    stepped = grad_norm()
    stepped[400:] *= 2
    signals = make_signals({"grad_norm": stepped})
    levels = norm_step(signals, 401)
    assert levels is not None
    assert 1.7 < levels[1] / levels[0] < 2.4
    assert norm_step(signals, 300) is None
    assert norm_step(make_signals({"train_loss": healthy()}), 401) is None
