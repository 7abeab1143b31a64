"""What must not change a verdict, through the whole pipeline: where the steps start, how the log is cut into files,
what else was logged, the unit of the loss, how often it was logged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from curves import burst, healthy, hump, ramp
from curves import step as jump
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from logs import Row, write_jsonl

from trainforensics import engine
from trainforensics.config import Settings
from trainforensics.kinds import is_alarm
from trainforensics.model import Incident

RELATIVE = {
    "instant-burst", "gradual-rise", "divergence", "oscillation", "gradient-explosion", "val-divergence", "val-jump",
    "double-descent", "resume-discontinuity", "nan-onset", "transient-nan", "grad-nan", "scale-decay", "skipped-steps",
}  # fmt: skip
N = 400
few = settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

EVENTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda loss: loss,
    "burst": lambda loss: burst(loss, 250, 3.0),
    "two bursts": lambda loss: burst(burst(loss, 180, 2.0, 1.0), 320, 4.0),
    "hump": lambda loss: hump(loss, 200, 40, 1.5),
    "ramp": lambda loss: ramp(loss, 260, 3.0),
    "jump": lambda loss: jump(loss, 260, 2.0),
    "NaN": lambda loss: np.where(np.arange(len(loss)) >= 300, np.nan, loss),
    "short NaN": lambda loss: np.where((np.arange(len(loss)) >= 300) & (np.arange(len(loss)) < 303), np.nan, loss),
}

STRETCHES = {
    "none": (), "burst": ((250, 275),), "two bursts": ((180, 185), (320, 345)), "hump": ((200, 280),),
    "ramp": ((260, N),), "jump": ((260, N),), "NaN": ((300, N),), "short NaN": ((300, 303),),
}  # fmt: skip
NEAR = 32  # points; a file that begins so close to an event may be the restart that it happened at


def rows_of(seed: int, event: str) -> list[Row]:
    """A run with one event or none."""
    loss, validation = EVENTS[event](healthy(N, seed)), healthy(N, seed) + 0.1
    norm = np.exp(np.random.default_rng(seed).normal(0, 0.2, N))
    return [
        {"step": i, "loss": loss[i], "grad_norm": norm[i], "lr": 1e-3 * min(1, (i + 1) / 20)}
        | ({"val_loss": validation[i]} if i % 20 == 19 else {})
        for i in range(N)
    ]


seeds, events = st.integers(0, 50), st.sampled_from(sorted(EVENTS))


def judged(files: Mapping[str, Sequence[Row]]) -> tuple[Incident, ...]:
    """The incidents of one run, logged in these files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, lines in files.items():
            write_jsonl(folder / "run" / file, lines)
        (run,) = engine.analyze([folder / "run"], Settings(out=folder / "out", plots=False)).runs
        assert not run.errored
        return run.incidents


def said(incidents: Sequence[Incident], shift: int = 0) -> list[Any]:
    """What was said of the relative kinds, steps counted from `shift` on."""
    return sorted(
        (i.kind, (i.onset_step or 0) - shift, tuple(s - shift for s in i.occurrences), i.severity, i.recovery or "")
        for i in incidents
        if i.kind in RELATIVE
    )


@given(seeds, events, st.sampled_from([1, 1_000, 10**9]))
@few
def test_where_the_steps_start(seed: int, event: str, shift: int) -> None:
    rows = rows_of(seed, event)
    moved = [{**row, "step": row["step"] + shift} for row in rows]
    assert said(judged({"m.jsonl": moved}), shift) == said(judged({"m.jsonl": rows}))


@given(seeds, events, st.integers(60, N - 40), st.booleans())
@few
def test_how_the_log_is_cut_into_files(seed: int, event: str, cut: int, swapped: bool) -> None:
    assume(not any(first - NEAR <= cut <= last + NEAR for first, last in STRETCHES[event]))
    rows = rows_of(seed, event)
    names = ("b.jsonl", "a.jsonl") if swapped else ("a.jsonl", "b.jsonl")
    pieces = dict(zip(names, (rows[:cut], rows[cut:]), strict=True))
    assert said(judged(pieces)) == said(judged({"m.jsonl": rows}))


@given(seeds, events)
@few
def test_what_else_was_logged(seed: int, event: str) -> None:
    rows = rows_of(seed, event)
    noise = np.random.default_rng(seed + 1000).standard_t(3, N)
    more = [{**row, "queue/depth": noise[i]} for i, row in enumerate(rows)]
    found, alone = judged({"m.jsonl": more}), judged({"m.jsonl": rows})
    assert said([i for i in found if i.series != "queue/depth"]) == said(alone)
    assert not [i for i in found if i.series == "queue/depth" and is_alarm(i.severity)]


@given(seeds, events, st.sampled_from([1e-3, 0.5, 7.0, 1e4]))
@few
def test_the_unit_of_the_loss(seed: int, event: str, factor: float) -> None:
    rows = rows_of(seed, event)
    scaled = [{k: v * factor if k.endswith("loss") else v for k, v in row.items()} for row in rows]
    assert said(judged({"m.jsonl": scaled})) == said(judged({"m.jsonl": rows}))


@given(seeds, events, st.sampled_from([2, 5, 10]))
@few
def test_a_coarser_cadence_adds_nothing(seed: int, event: str, every: int) -> None:
    rows = rows_of(seed, event)
    whole = [i for i in judged({"m.jsonl": rows}) if is_alarm(i.severity)]
    for incident in judged({"m.jsonl": rows[::every]}):
        if is_alarm(incident.severity) and incident.kind in RELATIVE:
            onset = incident.onset_step or 0
            assert any(
                (known.onset_step or 0) - 3 * every <= onset <= (known.end_step or N) + 3 * every for known in whole
            ), f"{incident.kind} at {onset}"
