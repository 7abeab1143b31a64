from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexmaps import draw, draw_blend

from trainforensics.blame.megatron.index import IndexMap
from trainforensics.blame.megatron.rebuild import asked_of, blend, rebuild, shares_of, train_range


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=25).filter(lambda sizes: sum(sizes) > 12),
    samples=st.integers(1, 60),
    length=st.integers(2, 11),
    seed=st.integers(0, 2**31),
)
def test_maps_are_drawn_as_megatron_draws_them(sizes: list[int], samples: int, length: int, seed: int) -> None:
    theirs = draw(sizes, range(len(sizes)), samples, length, seed)
    ours = rebuild(np.array(sizes, np.int32), (0, len(sizes)), (samples,), length, seed)
    assert isinstance(ours, IndexMap)
    np.testing.assert_array_equal(ours.document, theirs.document)
    np.testing.assert_array_equal(ours.first, theirs.sample[:, 0])
    np.testing.assert_array_equal(ours.shuffle, theirs.shuffle)
    assert len(ours) >= samples


def test_the_last_epoch_is_shuffled_apart_where_little_of_it_is_needed() -> None:
    sizes = np.full(50, 20, np.int32)
    ours = rebuild(sizes, (0, 50), (130,), 10, 1)
    assert isinstance(ours, IndexMap)
    assert sorted(ours.shuffle[:99].tolist()) == list(range(99))
    assert sorted(ours.document[:50].tolist()) == list(range(50))


def test_only_the_documents_of_the_split_are_drawn() -> None:
    sizes = np.arange(1, 101, dtype=np.int32)
    ours = rebuild(sizes, (10, 60), (40,), 8, 3)
    theirs = draw(sizes.tolist(), range(10, 60), 40, 8, 3)
    assert isinstance(ours, IndexMap)
    np.testing.assert_array_equal(ours.document, theirs.document)


def test_what_depends_on_the_version_is_not_drawn() -> None:
    sizes = np.full(10, 100, np.int32)  # one epoch holds 99 samples of 10 tokens
    assert "version" in str(rebuild(sizes, (0, 10), (99, 100), 10, 0))
    assert isinstance(rebuild(sizes, (0, 10), (90, 91), 10, 0), IndexMap)


def test_too_few_tokens_and_too_many_samples_are_refused() -> None:
    assert "not one sequence" in str(rebuild(np.array([3], np.int32), (0, 1), (5,), 10, 0))
    assert "more than" in str(rebuild(np.full(10, 1000, np.int32), (0, 10), (10**9,), 10, 0))


@pytest.mark.parametrize(("split", "stop"), [("969, 30, 1", 969), ("100,0,0", 1000), ("98,2,0", 980), ("1", 1000)])
def test_the_training_part_of_a_split(split: str, stop: int) -> None:
    assert train_range(split, 1000) == (0, stop)


def test_a_split_on_which_versions_differ_is_refused() -> None:
    assert "version" in str(train_range("1,1,1", 5))  # 2 + 2 + 2 documents of 5


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=12), st.integers(1, 400))
def test_blends_are_drawn_as_megatron_draws_them(weights: list[float], size: int) -> None:
    dataset, place = blend(shares_of(weights), size)
    theirs = draw_blend(weights, size)
    np.testing.assert_array_equal(dataset, theirs[0])
    np.testing.assert_array_equal(place, theirs[1])


def test_a_blend_asks_half_a_percent_more_of_its_data_sets() -> None:
    assert asked_of(1000, 0.25) == (math.ceil(251.25), math.ceil(251.25))
    assert asked_of(10, 0.333) == (4, 5)
