from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.nonfinite import nonfinite


@given(st.lists(st.sampled_from("..........ng"), min_size=12, max_size=120), st.integers(0, 10**17))
def test_every_bad_step_belongs_to_exactly_one_episode(what: list[str], offset: int) -> None:
    """n: loss and gradient are NaN; g: the gradient only. What the first rows show may be a placeholder or a search."""
    what = [".", *what]
    n = len(what)
    loss = 2 + 0.1 * np.sin(np.arange(n) * 1.7)
    norm = 1 + 0.1 * np.cos(np.arange(n) * 1.3)
    loss[[w == "n" for w in what]] = np.nan
    norm[[w in "ng" for w in what]] = np.nan
    step = offset + np.arange(n)
    episodes = nonfinite(make_signals({"train_loss": loss, "grad_norm": norm}, step=step))
    kinds = [e.kind for e in episodes]
    assert len(kinds) == len(set(kinds))
    onset = next((e.onsets[0] for e in episodes if e.kind == "nan-onset"), offset + n)
    for episode in episodes:
        assert list(episode.onsets) == sorted(set(episode.onsets))
        if episode.kind != "nan-onset":
            assert episode.onsets[-1] < onset
    bad = np.flatnonzero(np.isnan(loss)) + offset
    if len(bad):
        first = min(e.onsets[0] for e in episodes if e.kind != "grad-nan")
        assert first <= bad[0]
    else:
        assert "nan-onset" not in kinds
        assert "transient-nan" not in kinds


@given(st.integers(1, 10**6))
def test_a_shift_of_steps_shifts_the_onset(shift: int) -> None:
    loss = np.r_[np.full(50, 2.0) + 0.01 * np.arange(50), np.full(10, np.nan)]
    (here,) = nonfinite(make_signals({"train_loss": loss}))
    (there,) = nonfinite(make_signals({"train_loss": loss}, step=np.arange(1, 61) + shift))
    assert there.onsets[0] - here.onsets[0] == shift


def test_a_log_that_ends_in_one_of_many_nan() -> None:
    loss = 2 + 0.1 * np.sin(np.arange(200) * 1.7)
    loss[[40, 90, 140, 199]] = np.nan
    assert [e.kind for e in nonfinite(make_signals({"train_loss": loss}))] == ["transient-nan"]
    loss[197:] = np.nan
    assert "nan-onset" in [e.kind for e in nonfinite(make_signals({"train_loss": loss}))]


def test_losses_that_never_were_a_number() -> None:
    parts = [
        make_curve(np.full(40, np.nan), None, name=f"train/{name}_loss", series_id=i) for i, name in enumerate("abc")
    ]
    (episode,) = nonfinite(make_signals(parts))
    assert (episode.kind, episode.onsets) == ("nan-onset", (1,))


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("cut", [100, 120, 150, 190])
def test_where_a_file_ends_within_the_bad_end_moves_no_onset(cut: int, hidden: bool) -> None:
    loss, norm = 2 + 0.1 * np.sin(np.arange(200) * 1.7), 1 + 0.1 * np.cos(np.arange(200) * 1.3)
    loss[100:], norm[100:] = (0.0 if hidden else np.nan), 1.0 if hidden else np.nan
    segment = (np.arange(200) >= cut).astype(int)
    curves = [
        make_curve(loss, segment=segment),
        make_curve(norm, "grad_norm", segment=segment, series_id=1),
    ]
    (episode,) = nonfinite(make_signals(curves))
    assert (episode.kind, episode.onsets, episode.end) == ("nan-onset", (101,), None)


def test_a_life_that_begins_sound_leaves_the_one_before_behind() -> None:
    loss = 2 + 0.1 * np.sin(np.arange(200) * 1.7)
    loss[90:100] = loss[110:] = np.nan
    curve = make_curve(loss, segment=(np.arange(200) >= 100).astype(int))
    lost, onset = nonfinite(make_signals([curve]))
    assert (lost.onsets, lost.recovery, onset.onsets) == ((91,), "recovered", (111,))


@pytest.mark.parametrize(("bad", "kinds"), [(np.inf, ["transient-nan"]), (np.nan, [])])
def test_a_divergence_that_overflows_beside_finite_losses(bad: float, kinds: list[str]) -> None:
    kl = np.array([0.02, 0.01, bad, 0.03, 0.02, bad, 0.01, 0.02])
    signals = make_signals({"train_loss": 0.1 + 0.01 * np.cos(np.arange(8)), "kl": kl})
    assert [episode.kind for episode in nonfinite(signals)] == kinds
