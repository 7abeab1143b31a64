from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from factories import make_curve, make_signals
from incidents_factory import make_incident

from trainforensics.blame import at_step, attach
from trainforensics.model import Blame, Incident, Scope, Suspect
from trainforensics.signals import Signals

STEPS, RANKS, SHARDS, DOCS = 600, 4, 24, 40
Change = Callable[[int, int], tuple[int, list[str]] | None]


def manifest(change: Change = lambda step, rank: None, seed: int = 0, **columns: list[float]) -> pl.LazyFrame:
    """Shuffled data: a random shard and four of its documents a step and rank, unless `change` says otherwise."""
    rng = np.random.default_rng(seed)
    rows = []
    for step in range(STEPS):
        for rank in range(RANKS):
            shard = int(rng.integers(SHARDS))
            docs = [f"{shard}-{d}" for d in rng.integers(DOCS, size=4)]
            shard, docs = change(step, rank) or (shard, docs)
            rows.append((step, rank, str(shard), docs))
    frame = pl.DataFrame(rows, schema=["step", "rank", "shard", "doc"], orient="row")
    return frame.with_columns(**{name: pl.Series(values) for name, values in columns.items()}).lazy()


def run(n: int = STEPS, **roles: np.ndarray) -> Signals:
    loss = 2.5 + 0.05 * np.random.default_rng(7).standard_normal(n)
    return make_signals({"train_loss": loss, **roles}, step=np.arange(n))


def blame_of(incident: Incident, signals: Signals, batches: pl.LazyFrame | None) -> Blame:
    (found,) = attach((incident,), signals, batches)
    assert found.blame is not None
    return found.blame


def named(blame: Blame, kind: str) -> Suspect:
    return next(s for s in blame.suspects if s.type == kind)


def convicted(blame: Blame) -> list[Suspect]:
    return [s for s in blame.suspects if s.type in ("shard", "doc") and s.confidence >= 0.5]


def test_a_shard_whose_documents_vary() -> None:
    rng = np.random.default_rng(3)
    events = (60, 140, 233, 310, 402, 555)
    batches = manifest(
        lambda s, r: (17, [f"17-{d}" for d in rng.integers(DOCS, size=4)]) if s in events and r == 1 else None
    )
    blame = blame_of(make_incident(onset=60, occurrences=events), run(), batches)
    shard = named(blame, "shard")
    assert shard.id == "17"
    assert shard.confidence > 0.9
    assert set(events) <= set(shard.steps)
    assert [s.id for s in convicted(blame)] == ["17"]
    assert blame.basis == "logged"


def test_a_document_that_recurs() -> None:
    events = (60, 233, 402)
    batches = manifest(lambda s, r: (s % 7, [f"{s}-1", "bad", f"{s}-3"]) if s in events and r == 0 else None)
    blame = blame_of(make_incident(onset=60, occurrences=events), run(), batches)
    assert named(blame, "doc").id == "bad"
    assert named(blame, "doc").confidence > 0.9
    assert [s.id for s in convicted(blame)] == ["bad"]


def test_company_of_a_guilty_document_is_not_convicted() -> None:
    events = tuple(range(40, 590, 50))

    def change(step: int, rank: int) -> tuple[int, list[str]] | None:
        if step not in events:
            return None
        if rank == 0:
            return 5, ["bad", "5-2", "5-3", "5-4"]
        return (6, ["friend", "6-2", "6-3", "6-4"]) if rank == 1 and step < 300 else None

    blame = blame_of(make_incident(onset=40, occurrences=events), run(), manifest(change))
    assert "bad" in {s.id for s in convicted(blame)}
    assert "friend" not in {s.id for s in convicted(blame)}


def test_one_event_alone_convicts_nobody() -> None:
    blame = blame_of(make_incident(onset=300), run(), manifest())
    assert convicted(blame) == []
    assert len([s for s in blame.suspects if s.type == "shard"]) == RANKS
    assert len(blame.batches) == RANKS * 11 == len(manifest().filter(pl.col("step").is_between(290, 300)).collect())
    assert {row["step"] for row in blame.batches[:RANKS]} == {300}


def test_chance_convicts_nobody() -> None:
    """Random events over shuffled data, ten times."""
    rng = np.random.default_rng(11)
    for seed in range(10):
        events = tuple(sorted(rng.choice(np.arange(20, STEPS), 5, replace=False).tolist()))
        assert convicted(blame_of(make_incident(onset=events[0], occurrences=events), run(), manifest(seed=seed))) == []


def test_shards_read_in_sequence_are_not_convicted_by_a_cluster() -> None:
    batches = manifest(lambda s, r: (s // 25, [f"{s}-{r}-{i}" for i in range(4)]))
    events = (301, 305, 311, 318)
    assert convicted(blame_of(make_incident(onset=301, occurrences=events), run(), batches)) == []


def test_the_rank_that_moved_first_singles_out_its_batch() -> None:
    rng = np.random.default_rng(5)
    losses = 2.5 + 0.05 * rng.standard_normal((RANKS, STEPS))
    losses[2, 300] += 4
    curves = [make_curve(row, rank=r, name=f"loss_rank{r}", step=np.arange(STEPS)) for r, row in enumerate(losses)]
    signals = make_signals([make_curve(losses.mean(axis=0), step=np.arange(STEPS)), *curves])
    batches = manifest()
    blame = blame_of(make_incident(onset=300), signals, batches)
    own = batches.filter(pl.col("step") == 300, pl.col("rank") == 2).collect()
    assert named(blame, "rank").id == "2"
    assert named(blame, "shard").id == own["shard"][0]
    assert named(blame, "shard").confidence > 0.5
    assert {s.id for s in blame.suspects if s.type == "doc"} == set(own["doc"][0].to_list())


def test_a_first_appearance_late_in_the_run_stands_out() -> None:
    batches = manifest(lambda s, r: (3, ["3-1", "new", "3-3", "3-4"]) if (s, r) == (500, 3) else None)
    loss = np.where(np.arange(STEPS) < 500, 2.5, np.nan)
    signals = make_signals({"train_loss": loss}, step=np.arange(STEPS))
    first = named(blame_of(make_incident("nan-onset", 500), signals, batches), "doc")
    assert first.id == "new"
    assert "first seen" in first.why


def test_an_outlying_loss_of_its_own_names_the_batch() -> None:
    losses = (2.5 + 0.05 * np.random.default_rng(2).standard_normal(STEPS * RANKS)).tolist()
    losses[300 * RANKS + 1] = 9.0
    batches = manifest(loss=losses)
    own = batches.filter(pl.col("step") == 300, pl.col("rank") == 1).collect()
    shard = named(blame_of(make_incident(onset=300), run(), batches), "shard")
    assert shard.id == own["shard"][0]
    assert "loss 9 against" in shard.why


def test_overflow_steps_join_the_events_of_a_decaying_scale() -> None:
    visits = tuple(range(210, 590, 17))
    batches = manifest(lambda s, r: (2, [f"2-{s}-{i}" for i in range(4)]) if s in visits and r == 0 else None)
    overflow = np.isin(np.arange(STEPS), visits).astype(float)
    blame = blame_of(make_incident("scale-decay", 227, role="loss_scale"), run(overflow=overflow), batches)
    assert named(blame, "shard").id == "2"
    assert named(blame, "shard").confidence > 0.9


def test_a_jump_of_the_learning_rate_lowers_the_data_s_odds() -> None:
    rate = np.full(STEPS, 1e-3)
    rate[300] = 6e-2
    calm = blame_of(make_incident(onset=300), run(), manifest())
    jumped = blame_of(make_incident(onset=300), run(learning_rate=rate), manifest())
    assert named(jumped, "shard").confidence < named(calm, "shard").confidence / 5


def test_the_window_covers_cadence_and_memory() -> None:
    loss = 2.5 + 0.05 * np.random.default_rng(0).standard_normal(60)
    signals = make_signals({"train_loss": loss}, step=np.arange(0, STEPS, 10))
    blame = blame_of(make_incident(onset=300, onset_interval=(290, 300)), signals, manifest())
    assert blame.window == (290, 300)
    assert {row["step"] for row in blame.batches} <= set(range(290, 302))


def test_without_a_manifest_nothing_is_invented() -> None:
    blame = blame_of(make_incident(onset=300), run(), None)
    assert blame.suspects == ()
    assert blame.basis is None
    assert "log one row per batch" in blame.note


def test_numbers_logged_as_metrics_serve_as_manifest() -> None:
    rng = np.random.default_rng(9)
    shards = rng.integers(SHARDS, size=STEPS)
    events = (60, 140, 233, 310, 402)
    shards[list(events)] = 17
    blame = blame_of(make_incident(onset=60, occurrences=events), run(shard=shards), None)
    assert named(blame, "shard").id == "17"
    assert named(blame, "shard").confidence > 0.5


@pytest.mark.parametrize("kind", ["lr-anomaly", "coverage-gap", "val-divergence"])
def test_kinds_that_data_does_not_make_get_no_blame(kind: str) -> None:
    (found,) = attach((make_incident(kind, 300),), run(), manifest())
    assert found.blame is None


def test_steps_outside_the_manifest_are_said() -> None:
    blame = blame_of(make_incident(onset=300), run(), manifest().filter(pl.col("step") > 400))
    assert blame.batches == ()
    assert "no batch of steps" in blame.note


def test_at_step_reads_only_around_the_step(tmp_path: Path) -> None:
    path = tmp_path / "batches.parquet"
    manifest().collect().write_parquet(path, row_group_size=200)
    blame = at_step(run(), pl.scan_parquet(path), 300, window=2)
    assert blame.window == (299, 300)
    assert {row["step"] for row in blame.batches} == {299, 300}
    one = at_step(run(), pl.scan_parquet(path), 300, rank=2)
    assert [row["rank"] for row in one.batches] == [2]
    assert "this step alone" in one.note
    assert convicted(one) == []


def test_the_expert_whose_load_grows_most() -> None:
    load = np.full((4, STEPS), 0.25) + 0.01 * np.random.default_rng(0).standard_normal((4, STEPS))
    load[1, 300:], load[0, 300:] = 0.7, 0.0
    experts = [
        make_curve(row, "expert_load", expert=e, name=f"load/{e}", step=np.arange(STEPS)) for e, row in enumerate(load)
    ]
    signals = make_signals([make_curve(np.full(STEPS, 2.0), step=np.arange(STEPS)), *experts])
    blame = blame_of(make_incident("expert-collapse", 300, role="expert_load"), signals, None)
    assert named(blame, "expert").id == "1"
    scoped = make_incident("expert-collapse", 300, role="expert_load", series="load/1", scope=Scope(expert=1))
    assert named(blame_of(scoped, signals, None), "expert").why == "the incident lies in its own series load/1"


def test_effects_keep_their_own_blame() -> None:
    root = make_incident(onset=300)
    effect = replace(make_incident("nan-onset", 305), caused_by=root.id)
    found = attach((root, effect), run(), manifest())
    assert all(i.blame is not None for i in found)
