from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from trainforensics.report import panel

values = arrays(np.float64, st.integers(2, 300), elements=st.floats(-1e6, 1e6))


@given(values, st.integers(1, 20))
def test_thinning_keeps_the_ends_and_every_extreme(value: np.ndarray, buckets: int) -> None:
    kept = panel.thin(np.arange(len(value)), value, buckets)
    assert np.all(np.diff(kept) > 0)
    assert kept[0] == 0
    assert kept[-1] == len(value) - 1
    assert value[kept].min() == value.min()
    assert value[kept].max() == value.max()
    assert len(kept) <= max(4 * buckets, 4)


def test_one_outlier_does_not_flatten_the_axis() -> None:
    value = np.random.default_rng(0).normal(2.0, 0.05, 1000)
    value[500] = 60.0
    view = panel.limits(value)
    assert not view.log
    assert view.low < value.min()
    assert view.high < 5


def test_a_series_over_decades_gets_a_log_axis() -> None:
    view = panel.limits(np.geomspace(1e-3, 1e3, 50))
    assert view.log
    assert view.low < 1e-3
    assert view.high > 1e3


@given(values)
def test_limits_span_something_and_hold_the_bulk(value: np.ndarray) -> None:
    view = panel.limits(value)
    assert view.low < view.high
    assert view.low <= np.median(value) <= view.high


@pytest.mark.parametrize(("at", "marker"), [(60.0, "^"), (-60.0, "v")])
def test_what_is_cut_is_marked_with_its_number(at: float, marker: str) -> None:
    value = np.random.default_rng(0).normal(2.0, 0.05, 1000)
    value[500] = at
    axes = Figure().add_subplot()
    panel.draw(axes, make_curve(value), "k", "loss")
    arrows = [line for line in axes.lines if line.get_marker() == marker]
    assert [list(line.get_xdata()) for line in arrows] == [[501]]
    assert [text.get_text() for text in axes.texts] == [f"{at:.0f}"]


def test_nan_is_marked_and_breaks_the_line() -> None:
    value = np.ones(50)
    value[20:23] = np.nan
    axes = Figure().add_subplot()
    panel.draw(axes, make_curve(value), "k", "loss")
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert [list(line.get_xdata()) for line in crosses] == [[21, 22, 23]]
    assert np.isnan(axes.lines[0].get_ydata()).any()


def test_a_process_life_ends_its_line() -> None:
    life = np.repeat([0, 1], 25)
    axes = Figure().add_subplot()
    panel.draw(axes, make_curve(np.ones(50), segment=life), "k", "loss")
    drawn = axes.lines[0].get_ydata()
    assert len(drawn) == 51
    assert np.isnan(drawn[25])


def test_the_number_of_a_peak_near_the_right_edge_stays_inside() -> None:
    value = np.random.default_rng(0).normal(2.0, 0.05, 1000)
    value[995] = 123456.0
    figure = Figure()
    axes = figure.add_subplot()
    panel.draw(axes, make_curve(value), "k", "loss")
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    assert axes.texts[0].get_window_extent(renderer).x1 <= axes.bbox.x1


def test_what_leads_up_to_the_points_in_focus_is_not_cut() -> None:
    value = np.linspace(2.26, 1.93, 10)
    view = panel.limits(value, focus=np.arange(10) >= 5)
    assert view.high > value.max()


@pytest.mark.parametrize("scale", ["auto", "linear", "log2"])
@pytest.mark.parametrize(
    "value", [[1.7e308, -1.7e308], [1.7e308, 5e-324], [5e-324, 1e-300], [1e-320, 1e-320], [1.0, 1.7e308], [1.7e308] * 2]
)
def test_numbers_at_the_edge_of_their_range_are_drawn(value: list[float], scale: str) -> None:
    figure = Figure()
    panel.draw(figure.add_subplot(), make_curve(value * 60), "black", "loss", scale=scale)
    FigureCanvasAgg(figure).draw()
