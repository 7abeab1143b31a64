from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, false_discovery_control, hypergeom

from trainforensics.blame.enrichment import (
    bayes_bound,
    benjamini_hochberg,
    empirical_tail,
    hypergeometric_tail,
    poisson_binomial_tail,
    recurrence,
)


def steps(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_hypergeometric_tail_is_exact(data: st.DataObject) -> None:
    population = data.draw(st.integers(1, 300))
    marked = data.draw(st.integers(0, population))
    draws = data.draw(st.integers(0, population))
    hits = data.draw(st.integers(0, draws + 1))
    expected = hypergeom.sf(hits - 1, population, marked, draws)
    assert hypergeometric_tail(hits, population, marked, draws) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_poisson_binomial_of_equal_rates_is_binomial() -> None:
    assert poisson_binomial_tail(3, np.full(7, 0.2)) == pytest.approx(binom.sf(2, 7, 0.2))


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=40))
def test_adjusted_p_values_agree_with_scipy(p: list[float]) -> None:
    values = np.array(p)
    assert benjamini_hochberg(values, len(p)) == pytest.approx(false_discovery_control(values))


def test_candidates_left_out_count_as_looked_at() -> None:
    assert benjamini_hochberg(np.array([0.001]), 100)[0] == pytest.approx(0.1)


def test_a_rare_name_at_every_event_is_beyond_chance() -> None:
    p, hit = recurrence(steps(100, 400, 700), steps(100, 400, 700), np.arange(1000))
    assert p < 1e-7
    assert hit.all()


def test_one_visit_counts_once_however_many_events_it_holds() -> None:
    visit = np.arange(400, 440)
    p, _ = recurrence(visit, steps(405, 415, 425), np.arange(1000))
    assert p >= 40 / 1000


def test_a_phase_that_holds_a_name_often_explains_it() -> None:
    rng = np.random.default_rng(0)
    held = 800 + np.flatnonzero(rng.random(200) < 0.6)  # a domain of the last phase only
    p, hit = recurrence(held, held[[5, 25, 45, 65]], np.arange(1000))
    assert hit.all()
    assert p > 0.05


def test_chance_stays_chance() -> None:
    """Under the null the test is no more often significant than it says."""
    rng = np.random.default_rng(1)
    trials = 400
    low = 0
    for _ in range(trials):
        held = np.flatnonzero(rng.random(600) < 0.1)
        events = np.sort(rng.choice(600, 6, replace=False))
        low += recurrence(held, events, np.arange(600))[0] <= 0.05
    assert low / trials <= 0.05


def test_the_bound_on_odds() -> None:
    assert bayes_bound(0.5) == 1.0
    assert bayes_bound(0.05) == pytest.approx(2.46, abs=0.01)
    assert bayes_bound(0.01) == pytest.approx(8.0, abs=0.1)
    assert bayes_bound(1e-6) > bayes_bound(1e-5)


def test_empirical_tail_counts_the_window_itself() -> None:
    assert empirical_tail(5.0, np.array([1.0, 2.0, 3.0])) == 0.25
