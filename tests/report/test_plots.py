from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from factories import make_curve, make_signals
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from results import make_incident, make_run

from trainforensics.model import Checkpoint, Precursor, RunResult, SafeCheckpoint, Scope, Segment
from trainforensics.report import narrative, plots
from trainforensics.signals import Signals

N = 400


def signals(**changes: object) -> Signals:
    noise = np.random.default_rng(0).normal(0, 0.02, N)
    curves = {
        "train_loss": 2.0 + noise,
        "grad_norm": 1.0 + np.abs(noise),
        "learning_rate": np.linspace(1e-3, 0, N),
        "loss_scale": np.repeat([65536.0, 32768.0], N // 2),
    }
    return make_signals(curves | changes)


def burst(**changes: object) -> RunResult:
    incident = make_incident(
        onset=200, peak_step=203, end_step=210, recovery="recovered", series="train_loss",
        precursors=(Precursor("grad_norm", 180, 20, "rose"),), safe_checkpoint=SafeCheckpoint(150, "before"),
    )  # fmt: skip
    return make_run(replace(incident, **changes), checkpoints=(Checkpoint(100, "event"), Checkpoint(190, "event")))


def lines_at(axes: Axes) -> list[float]:
    """Steps of the vertical lines in a panel."""
    return sorted(
        float(line.get_xdata()[0])
        for line in axes.lines
        if len(set(line.get_xdata())) == 1 == len(line.get_xdata()) - 1
    )


def labels(axes_list: list[Axes]) -> list[str]:
    return [axes.get_ylabel() for axes in axes_list]


def test_the_timeline_has_a_panel_for_each_main_signal_and_marks_what_happened() -> None:
    run = replace(burst(), segments=(Segment(0, 1, 300), Segment(1, 301, 400)))
    figure = plots.timeline(run, signals())
    assert figure is not None
    assert labels(figure.axes) == ["loss", "gradient norm", "learning rate", "loss scale"]
    assert all(lines_at(axes) == [200, 301] for axes in figure.axes)
    assert figure.texts[0].get_text() == "runs/a: loss, gradient norm, learning rate, loss scale"
    keys = [text.get_text() for text in figure.legends[0].get_texts()]
    assert keys == [
        "medium incident (number as in the report)",
        "restart",
        "checkpoint",
        "checkpoint named in the report",
    ]


def test_a_checkpoint_is_called_one_to_go_back_to_only_where_the_remedies_ask_for_it() -> None:
    (root,) = burst().incidents
    assert root.safe_checkpoint is not None
    run = replace(burst(), incidents=(replace(root, safe_checkpoint=replace(root.safe_checkpoint, go_back=True)),))
    figure = plots.timeline(run, signals())
    assert figure is not None
    assert figure.legends[0].get_texts()[-1].get_text() == "checkpoint to go back to"


def test_the_timeline_of_a_policy_shows_reward_and_entropy() -> None:
    roles = ("reward", "entropy", "kl", "grad_norm")
    policy = make_signals({role: np.random.default_rng(i).normal(1, 0.1, N) for i, role in enumerate(roles)})
    figure = plots.timeline(burst(series="kl"), policy)
    assert figure is not None
    assert labels(figure.axes) == ["reward", "gradient norm", "entropy", "kl"]


def test_a_close_up_marks_onset_peak_end_and_precursors() -> None:
    run = burst()
    figure = plots.close_up_of(narrative.pages(run)[0], run, signals())
    assert figure is not None
    assert figure.texts[0].get_text() == "runs/a: Instant burst at step 200"
    assert lines_at(figure.axes[0]) == [180, 200, 203, 210]
    keys = [text.get_text() for text in figure.legends[0].get_texts()]
    assert keys[:4] == ["onset 200", "peak 203", "recovered 210", "grad_norm moved 180"]
    left, right = figure.axes[0].get_xlim()
    assert 100 < left < 180
    assert 210 < right < 300


def test_an_incident_that_recurs_is_shown_at_its_highest() -> None:
    run = burst(occurrences=(20, 200, 215, 390), precursors=())
    figure = plots.close_up_of(narrative.pages(run)[0], run, signals())
    assert figure is not None
    assert figure.texts[0].get_text() == "runs/a: Instant burst, 4 times from step 20 on (here: step 200)"
    assert lines_at(figure.axes[0]) == [200, 203, 210, 215]
    left, right = figure.axes[0].get_xlim()
    assert 150 < left < 165
    assert 235 < right < 250


def test_steps_that_a_restart_undid_are_shown_and_explained() -> None:
    old = make_curve(np.full(20, 2.0), step=np.arange(201, 221))
    curve = make_curve(np.full(N, 2.0), superseded=old)
    figure = plots.timeline(make_run(), make_signals([curve]))
    assert figure is not None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["undone by the restart"]


def test_the_incidents_own_series_comes_first_even_if_it_is_no_main_signal() -> None:
    curves = [
        *(curve for group in signals().by_role.values() for curve in group),
        make_curve(np.ones(N), None, name="aux"),
    ]
    run = burst(series="aux")
    figure = plots.close_up_of(narrative.pages(run)[0], run, make_signals(curves))
    assert figure is not None
    assert labels(figure.axes)[:2] == ["aux", "loss"]


def test_a_slower_clock_is_shown_as_time_per_step() -> None:
    seconds = np.where(np.arange(N) < 200, 0.4, 1.2)
    loss = make_curve(2.0 + np.random.default_rng(0).normal(0, 0.02, N), time=1.7e9 + np.cumsum(seconds))
    run = burst(series="wall time per step")
    figure = plots.close_up_of(narrative.pages(run)[0], run, make_signals([loss]))
    assert figure is not None
    assert labels(figure.axes) == ["wall time per step", "loss"]


def test_incidents_have_a_key_in_the_colour_they_are_drawn_in() -> None:
    run = make_run(make_incident(onset=100, severity="critical"), make_incident(onset=200, severity="medium"))
    figure = plots.timeline(run, signals())
    assert figure is not None
    shown = dict(zip((t.get_text() for t in figure.legends[0].get_texts()), figure.legends[0].get_lines(), strict=True))
    for severity in ("critical", "medium"):
        line = shown[f"{severity} incident (number as in the report)"]
        assert line.get_color() == plots.ALARM[severity]


def test_marks_that_coincide_share_a_key() -> None:
    run = burst(peak_step=200, precursors=())
    figure = plots.close_up_of(narrative.pages(run)[0], run, signals())
    assert figure is not None
    assert figure.legends[0].get_texts()[0].get_text() == "onset and peak 200"


def test_onsets_share_a_key() -> None:
    run = burst(occurrences=(200, 207, 215), peak_step=200, precursors=())
    figure = plots.close_up_of(narrative.pages(run)[0], run, signals())
    assert figure is not None
    keys = [text.get_text() for text in figure.legends[0].get_texts()]
    assert keys[:3] == ["onset and peak 200", "onset 207, 215", "recovered 210"]


def test_shares_are_linear_and_evaluations_show_the_incident_s_own_range() -> None:
    step = np.arange(0, N, 10)
    loss = np.append([9.0, 5.0], np.linspace(2.3, 3.0, len(step) - 2))
    accuracy = np.append([1e-3, 0.1], np.linspace(0.45, 0.38, len(step) - 2))
    curves = [
        make_curve(loss, "val_loss", step=step, name="val/loss"),
        make_curve(accuracy, "val_metric", step=step, name="val/acc", series_id=1),
    ]
    incident = burst(series="val/acc", onset_step=100, end_step=None, recovery="unrecovered", precursors=())
    figure = plots.close_up_of(narrative.pages(incident)[0], incident, make_signals(curves))
    assert figure is not None
    by_label = {axes.get_ylabel(): axes for axes in figure.axes}
    assert by_label["val/acc"].get_yscale() == "linear"
    low, high = by_label["validation loss"].get_ylim()
    assert high - low < 3 * (3.0 - 2.3)


def test_draw_writes_what_the_report_shows_and_removes_what_it_no_longer_does(tmp_path: Path) -> None:
    run = burst()
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "incident-7.png").write_bytes(b"old")
    drawn = plots.draw(run, signals(), tmp_path)
    assert drawn == {"timeline": "plots/timeline.png", run.incidents[0].id: "plots/incident-1.png"}
    assert drawn == narrative.figures_beside(run, tmp_path)
    assert sorted(file.name for file in (tmp_path / "plots").iterdir()) == ["incident-1.png", "timeline.png"]
    assert all((tmp_path / path).read_bytes().startswith(b"\x89PNG") for path in drawn.values())


@pytest.mark.parametrize(
    "values",
    [
        np.full(N, np.nan),
        np.full(N, 0.0),
        np.full(N, 1e300),
        np.array([1.0, 2.0]),
        np.array([np.nan, 1.0, np.inf]),
        np.where(np.arange(N) % 50, 1.0, -1e9),
        np.geomspace(1e-12, 1e12, N),
    ],
    ids=["nan", "zero", "huge", "two points", "mixed", "outliers", "decades"],
)
def test_any_curve_can_be_drawn(values: np.ndarray, tmp_path: Path) -> None:
    run = burst(onset_step=2, occurrences=(2,), precursors=())
    step = np.arange(1, len(values) + 1)
    curves = {role: make_curve(values, role, step=step) for role in ("train_loss", "grad_norm", "loss_scale")}
    assert "timeline" in plots.draw(run, make_signals(curves), tmp_path)


@pytest.mark.parametrize("curves", [{}, {"train_loss": np.array([1.0])}, {"train_loss": np.array([np.nan])}])
def test_next_to_nothing_logged_draws_nothing(curves: dict[str, np.ndarray], tmp_path: Path) -> None:
    assert plots.draw(burst(onset_step=1), make_signals(curves), tmp_path) == {}


def test_a_setting_that_never_changes_and_two_dots_get_no_panel() -> None:
    run = burst(precursors=())
    val = make_curve(np.array([2.0, 1.9]), "val_loss", step=np.array([150, 250]))
    loss = signals().curve("train_loss")
    rate = make_curve(np.full(N, 1e-3), "learning_rate")
    figure = plots.close_up_of(narrative.pages(run)[0], run, make_signals([loss, val, rate]))
    assert figure is not None
    assert labels(figure.axes) == ["loss"]


def test_the_timeline_shows_the_series_in_which_an_incident_lies() -> None:
    memory = make_curve(np.linspace(100, 900, N), "host_memory", name="rss_mb")
    figure = plots.timeline(burst(series="rss_mb"), make_signals([signals().curve("train_loss"), memory]))
    assert figure is not None
    assert labels(figure.axes) == ["loss", "rss_mb"]


def test_of_series_that_share_a_name_the_incidents_rank_is_shown() -> None:
    curves = [make_curve(np.linspace(rank, rank + 1, N), rank=rank, name="loss", series_id=rank) for rank in range(4)]
    run = burst(series="loss", scope=Scope(rank=2), precursors=())
    figure = plots.close_up_of(narrative.pages(run)[0], run, make_signals(curves))
    assert figure is not None
    assert labels(figure.axes)[0] == "loss, rank 2"
    assert 2 < figure.axes[0].lines[0].get_ydata().mean() < 3


def test_keys_and_title_stay_inside_the_figure() -> None:
    signs = tuple(Precursor(f"model/layer_{i}/activation_norm", 150 + i, 50 - i, "rose") for i in range(6))
    run = replace(burst(precursors=signs), run="experiments/" + "long-name-" * 8)
    figure = plots.close_up_of(narrative.pages(run)[0], run, signals())
    assert figure is not None
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    sheet = figure.bbox
    parts = [*figure.texts, figure.legends[0], *(text for axes in figure.axes for text in axes.texts)]
    for box in (part.get_window_extent(renderer) for part in parts):
        assert sheet.x0 <= box.x0
        assert sheet.x1 >= box.x1
        assert sheet.y0 <= box.y0
        assert sheet.y1 >= box.y1
    lowest = figure.axes[-1].get_tightbbox(renderer).y0
    assert figure.legends[0].get_window_extent(renderer).y1 <= lowest


def test_many_incidents_draw_a_bounded_number_of_figures() -> None:
    run = make_run(*(make_incident(onset=10 * i) for i in range(1, 31)))
    assert len(narrative.figure_paths(run)) == 1 + narrative.FULL_PAGES


def test_text_that_looks_like_mathematics_is_drawn_as_it_is(tmp_path: Path) -> None:
    run = burst(series="a$b_{")
    curves = [make_curve(np.arange(N), None, name="a$b_{"), *signals().every_curve()]
    plots.draw(replace(run, run="x$y_{z"), make_signals(curves), tmp_path)


def test_pyplot_is_not_loaded() -> None:
    assert "matplotlib.pyplot" not in sys.modules


def test_names_that_the_font_cannot_show_are_drawn_without_a_warning(tmp_path: Path) -> None:
    run = replace(burst(), run="r\u65e5\u672c\u8a9e\x1b[31m\U0001f600")
    assert plots.draw(run, signals(), tmp_path)
