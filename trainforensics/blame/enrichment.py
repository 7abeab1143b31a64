"""Exact tests of coincidence: does a shard turn up at the events more often than chance, and is a window unlike others?

Every p-value here is an upper tail, corrected for nothing; `benjamini_hochberg` corrects for all that was looked at.
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from trainforensics.signals.curve import Bools, Floats, Ints

MAX_EVENTS = 200  # the Poisson-binomial tail costs events squared; more events add nothing to a p-value this small
HOPELESS = 0.05  # without any correction; the second guard can only raise it
LOCAL_SHARE = 20  # a neighbourhood for local rates is 1/20 of the manifest to either side


@lru_cache(maxsize=1 << 14)
def hypergeometric_tail(hits: int, population: int, marked: int, draws: int) -> float:
    """P(X >= hits) of `draws` units without replacement from `population` units of which `marked` hold the suspect.

    Written out because importing scipy.special takes longer (0.2 s) than judging a small run.
    """
    if hits <= 0:
        return 1.0
    first, most = max(hits, draws + marked - population), min(draws, marked)
    if hits > most:
        return 0.0
    chance = _log_choose(marked, first) + _log_choose(population - marked, draws - first)
    k = np.arange(first, most, dtype=np.float64)
    ratio = (marked - k) * (draws - k) / ((k + 1) * (population - marked - draws + k + 1))
    terms = np.append(0.0, np.cumsum(np.log(ratio))) + chance - _log_choose(population, draws)
    return float(min(1.0, np.exp(terms).sum()))


def _log_choose(n: int, k: int) -> float:
    """Logarithm of the number of ways to choose k of n."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def poisson_binomial_tail(hits: int, rates: Floats) -> float:
    """P(X >= hits) of independent events with their own `rates`, shape (events,). O(events squared)."""
    if hits <= 0:
        return 1.0
    law = np.array([1.0])
    for rate in rates:
        law = np.convolve(law, [1.0 - rate, rate])
    return float(min(1.0, law[hits:].sum()))


def recurrence(held: Ints, events: Ints, population: Ints) -> tuple[float, Bools]:
    """Whether `events` fall on the units that hold a suspect more often than chance: (p-value, hit mask of the events).

    All three are sorted unit numbers. Two guards keep the order of the data from passing for a cause: events within
    one unbroken visit of the suspect count once (a shard read in sequence feeds whole stretches), and each event's
    chance is at least the suspect's share of the units around it (a curriculum feeds a domain in one phase only).
    """
    events = events[:MAX_EVENTS]
    hit: Bools = np.isin(events, held)
    if not hit.any():
        return 1.0, hit
    at = np.searchsorted(population, held)
    visit = np.cumsum(np.concatenate([[0], np.diff(at) > 1]))
    visits_hit = visit[np.searchsorted(held, events[hit])]
    _, first = np.unique(visits_hit, return_index=True)
    hits = len(first)
    centres = np.concatenate([events[hit][first], events[~hit]])
    draws = len(centres)
    exact = hypergeometric_tail(hits, len(population), len(held), draws)
    if exact > HOPELESS:
        return exact, hit
    reach = max(50, len(population) // LOCAL_SHARE)
    centre = np.searchsorted(population, centres)
    own = np.concatenate([np.ones(hits), np.zeros(draws - hits)])
    low, high = np.maximum(centre - reach, 0), np.minimum(centre + reach + 1, len(population))
    around = np.searchsorted(at, high) - np.searchsorted(at, low) - own
    local = around / np.maximum(high - low - 1, 1)
    rates = np.clip(np.maximum(local, len(held) / len(population)), 0.0, 1.0)
    return max(exact, poisson_binomial_tail(hits, rates)), hit


def benjamini_hochberg(p: Floats, looked_at: int) -> Floats:
    """Adjusted p-values, shape as `p`; `looked_at` counts every candidate, those left out having p = 1."""
    n = len(p)
    order = np.argsort(p)
    tests = max(looked_at, n)
    scaled = p[order] * tests / np.arange(1, n + 1)
    adjusted: NDArray[np.float64] = np.empty(n)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return adjusted


def empirical_tail(value: float, others: Floats) -> float:
    """Share of `others` at least as large as `value`, the window itself counted among them: (1 + more) / (1 + n)."""
    return float((1 + np.sum(others >= value)) / (1 + len(others)))


def bayes_bound(p: float) -> float:
    """Largest odds by which a p-value can speak for its alternative: 1 / (-e p ln p) below 1/e, else 1.

    Sellke, Bayarri and Berger, The American Statistician 55 (2001): a calibration of p-values that p = 0.05 can raise
    the odds by at most 2.5, p = 0.01 by 8, p = 0.001 by 53.
    """
    if p >= 1 / np.e:
        return 1.0
    p = max(p, 1e-300)
    return float(1.0 / (-np.e * p * np.log(p)))
