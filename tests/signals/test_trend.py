import numpy as np
import pytest

from trainforensics.signals.trend import level


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e160, 1e306])
def test_the_noise_of_a_level_knows_no_scale(scale: float) -> None:
    """Squares of noise near 1e300 are no numbers any more."""
    noise = np.random.default_rng(0).standard_normal(400)
    wandering = np.convolve(noise, np.ones(8) / 8, "same")
    plain, scaled = level(3 + wandering), level(scale * (3 + wandering))
    assert plain.correlation > 0.5
    assert scaled.correlation == pytest.approx(plain.correlation)
    assert scaled.skew == pytest.approx(plain.skew)


def test_a_constant_has_no_correlation() -> None:
    assert level(np.full(40, 1e306)).correlation == 0.0
