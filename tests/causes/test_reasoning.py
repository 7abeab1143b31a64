"""Each cause where it is right and where it is the wrong first guess, as signals a log could show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from incidents_factory import make_incident

from trainforensics.causes import rank
from trainforensics.model import Blame, Cause, Event, Incident, Scope, Suspect
from trainforensics.signals import Curve, Signals

N, ONSET = 400, 300
STEP = np.arange(N)
EVERY = np.arange(0, N, 20)
AFTER = STEP >= ONSET


def noise(level: float = 1.0, seed: int = 0, n: int = N) -> np.ndarray:
    return level * (1 + 0.03 * np.random.default_rng(seed).standard_normal(n))


def at(values: np.ndarray, factor: float, points: int = 1, start: int = ONSET) -> np.ndarray:
    """The values, multiplied at some points."""
    values = values.copy()
    values[start : start + points] *= factor
    return values


def evaluated(before: float, after: float, role: str = "val_loss") -> Curve:
    return make_curve(np.where(EVERY < ONSET, noise(before, 5, len(EVERY)), after), role, step=EVERY)


def learnt(level: float = 2.0, first: float = 6.0, seed: int = 0) -> np.ndarray:
    """A loss that falls from `first` to `level`."""
    return noise(1.0, seed) * (level + (first - level) * np.exp(-STEP / 30))


def nan_from(values: np.ndarray, bad: float = np.nan) -> np.ndarray:
    values = values.copy()
    values[ONSET] = bad
    values[ONSET + 1 :] = np.nan
    return values


CALM = {"train_loss": learnt(), "grad_norm": noise(seed=1)}
BURST = {"train_loss": at(learnt(), 3), "grad_norm": at(noise(seed=1), 6)}
CREPT = noise(seed=1) * np.where(STEP < 260, 1.0, np.exp((STEP - 260) / 40))
WARMING = np.minimum(STEP / 350, 1.0) * 1e-3
COSINE = 1e-3 * (0.5 + 0.5 * np.cos(np.pi * STEP / 320).clip(-1, 1)) * (STEP < 320)
RISE = learnt() * np.where(AFTER, 1 + (STEP - ONSET) / 40, 1.0)
TURNED_UP = at(learnt(), 2.5, 3, 297)[:ONSET]
GAMED = np.where(AFTER, 0.0, noise(1.0)) * np.where(STEP > 280, 2.0, 1.0)
DOWN = {"end_step": N - 1, "recovery": "unrecovered"}
BACK = {"end_step": ONSET + 1, "recovery": "recovered"}
SLOW = {"end_step": ONSET + 40, "recovery": "recovered"}


def ranks(gap: np.ndarray) -> list[Curve]:
    """The losses of four ranks, the third of them apart from the others by `gap`."""
    lone = [gap if i == 2 else 0.0 for i in range(4)]
    return [make_curve(learnt(seed=i) + lone[i], name="loss", step=STEP, rank=i, series_id=i) for i in range(4)]


@dataclass
class Story:
    """What a log shows, and the causes that may stand first for it (or must not, with a `not ` in front)."""

    kind: str
    signals: Any
    first: str
    onset: int | None = ONSET
    incident: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    said: tuple[Event, ...] = ()
    beside: tuple[Incident, ...] = ()


def ranked(story: Story) -> tuple[Cause, ...]:
    if isinstance(story.signals, list):
        signals: Signals = make_signals(story.signals, events=story.said, config=story.config)
    else:
        signals = make_signals(story.signals, step=STEP, events=story.said, config=story.config)
    incident = make_incident(story.kind, story.onset, **(story.incident or {}))
    return rank((incident, *story.beside), signals)[0].causes


def blame(*suspects: Suspect) -> Blame:
    return Blame((ONSET - 1, ONSET), "logged", suspects, ({"step": ONSET, "doc": ["402"]},))


SHARD = Suspect("shard", "7", 0.97, 1e-6, (ONSET,), "fed 6 of 6 events")
MANY = {"occurrences": (40, 95, 133, 210, 260, 300)}
RESTART = (Event("restart", ONSET),)
FP16, FP32 = {"precision": "fp16"}, {"precision": "fp32"}

STORIES = {
    # learning-rate, warmup
    "gradients lead": Story("gradual-rise", {"train_loss": RISE, "grad_norm": CREPT}, "learning-rate", incident=DOWN),
    "rate near zero": Story(
        "gradual-rise", {"train_loss": RISE, "learning_rate": COSINE}, "not learning-rate", incident=DOWN
    ),
    "rate is 0": Story("divergence", {**BURST, "learning_rate": np.zeros(N)}, "not learning-rate", incident=DOWN),
    "still warming up": Story(
        "divergence", {"train_loss": RISE, "learning_rate": WARMING}, "learning-rate warmup", incident=DOWN
    ),
    "a rise, then NaN, in warm-up": Story(
        "nan-onset",
        {"train_loss": make_curve(TURNED_UP, step=STEP[:ONSET]), "learning_rate": WARMING},
        "learning-rate warmup",
        onset=ONSET + 5,
    ),
    "rate tiny against the declared": Story(
        "instant-burst",
        {**BURST, "learning_rate": WARMING / 100},
        "not learning-rate warmup",
        incident=SLOW,
        config={"optimizer": {"lr": 1e-3}},
    ),
    "rate jumps in a warm restart": Story(
        "instant-burst", {**BURST, "learning_rate": np.where(AFTER, 1e-3, 1e-4)}, "learning-rate", incident=SLOW
    ),
    # bad-batch, bad-shard
    "one batch": Story("instant-burst", BURST, "bad-batch", incident=BACK),
    "one batch in warm-up": Story("instant-burst", {**BURST, "learning_rate": WARMING}, "bad-batch", incident=BACK),
    "the norm times a factor, and nothing else": Story(
        "gradient-explosion",
        {"train_loss": learnt(), "grad_norm": at(noise(seed=1), 64, N)},
        "batch-size",
        incident={**DOWN, "role": "grad_norm"},
    ),
    "a norm that grows and grows": Story(
        "gradient-explosion",
        {"train_loss": learnt(), "grad_norm": CREPT},
        "learning-rate",
        incident={**DOWN, "role": "grad_norm"},
    ),
    "weights harmed": Story("instant-burst", BURST, "not bad-batch bad-shard", incident=SLOW),
    "one gradient under a calm rate": Story(
        "instant-burst", {**BURST, "learning_rate": np.full(N, 0.1)}, "bad-batch", incident=SLOW
    ),
    "one gradient as the rate jumps": Story(
        "instant-burst",
        {**BURST, "learning_rate": np.where(AFTER, 0.3, 0.1)},
        "learning-rate",
        incident=SLOW,
    ),
    "gradients that stay up under a calm rate": Story(
        "instant-burst",
        {**BURST, "grad_norm": at(noise(seed=1), 6, 4), "learning_rate": np.full(N, 0.1)},
        "learning-rate",
        incident=SLOW,
    ),
    "never back to the end": Story(
        "instant-burst",
        {"train_loss": at(learnt(), 2, N), "grad_norm": at(noise(seed=1), 3)},
        "not bad-batch",
        incident={"end_step": None, "recovery": "ongoing"},
    ),
    "shard convicted": Story("instant-burst", BURST, "bad-shard", incident={**BACK, **MANY, "blame": blame(SHARD)}),
    "three bursts, two equal gaps": Story(
        "instant-burst",
        {**BURST, "learning_rate": WARMING},
        "not dataloader data-shift",
        incident={**SLOW, "occurrences": (200, 250, 300)},
    ),
    "bursts like clockwork": Story(
        "instant-burst", BURST, "dataloader", incident={**BACK, "occurrences": (100, 150, 200, 250, 300)}
    ),
    "validation is as bad": Story(
        "instant-burst",
        {**BURST, "train_loss": at(learnt(), 2, N), "val_loss": evaluated(2.1, 4.2)},
        "not bad-batch logging-artefact data-shift",
        incident=DOWN,
    ),
    "validation goes on": Story(
        "divergence",
        {"train_loss": at(learnt(), 2, N), "grad_norm": noise(seed=1), "val_loss": evaluated(2.1, 2.1)},
        "data-shift logging-artefact unknown",
        incident=DOWN,
    ),
    # numerics
    "NaN in fp16": Story("nan-onset", {**CALM, "train_loss": nan_from(learnt())}, "numeric-overflow", config=FP16),
    "NaN unannounced in fp32": Story(
        "nan-onset", {**CALM, "train_loss": nan_from(learnt())}, "bad-batch unknown", config=FP32
    ),
    "infinite first in fp32": Story(
        "nan-onset", {**CALM, "train_loss": nan_from(learnt(), np.inf)}, "numeric-overflow", config=FP32
    ),
    "NaN after a climb in fp16": Story(
        "nan-onset",
        {"train_loss": nan_from(at(learnt(), 3, N, 280)), "grad_norm": nan_from(at(noise(seed=1), 20, N, 270))},
        "learning-rate numeric-overflow",
        config=FP16,
    ),
    "NaN after a climb in fp32": Story(
        "nan-onset",
        {"train_loss": nan_from(at(learnt(), 3, N, 280)), "grad_norm": nan_from(at(noise(seed=1), 20, N, 270))},
        "learning-rate",
        config=FP32,
    ),
    "scale falls in fp16": Story(
        "scale-decay",
        {**CALM, "loss_scale": 65536 / 2.0 ** np.clip((STEP - 280) // 5, 0, 12)},
        "loss-scaling numeric-overflow",
        config=FP16,
    ),
    "tiny gradients in fp16 without a scale": Story(
        "vanishing-gradient",
        {"train_loss": noise(2.4), "grad_norm": noise(2e-9, 1)},
        "loss-scaling numeric-overflow",
        onset=0,
        config=FP16,
    ),
    "tiny gradients in fp32": Story(
        "vanishing-gradient", {"train_loss": noise(2.4), "grad_norm": noise(2e-9, 1)}, "not initialisation", onset=0
    ),
    "small gradients from the start": Story(
        "vanishing-gradient", {"train_loss": noise(2.4), "grad_norm": noise(2e-5, 1)}, "initialisation", onset=0
    ),
    "an epoch without a batch": Story(
        "loss-zero",
        {"train_loss": at(learnt(), 0.0), "val_loss": evaluated(2.1, 2.1)},
        "dataloader",
        incident={"recovery": None},
    ),
    "no gradient at all": Story(
        "vanishing-gradient", {"train_loss": noise(2.4), "grad_norm": np.zeros(N)}, "frozen-graph", onset=0
    ),
    # evaluation
    "evaluation alone jumps and stays": Story(
        "val-jump",
        {**CALM, "val_loss": evaluated(2.1, 4)},
        "eval-change",
        incident={**DOWN, "role": "val_loss", "onset_interval": (280, 300)},
    ),
    "training jumps with it": Story(
        "val-jump",
        {"train_loss": at(learnt(), 1.8, N, 290), "val_loss": evaluated(2.1, 4)},
        "not eval-change batch-norm",
        incident={**DOWN, "role": "val_loss", "onset_interval": (280, 300)},
    ),
    "a part of the training loss jumps with it": Story(
        "val-jump",
        [
            make_curve(at(learnt(), 1.8, N, 290), None, name="train/box_loss", step=STEP),
            evaluated(0.7, 0.0, "val_metric"),
        ],
        "not eval-change",
        incident={**DOWN, "role": "val_metric", "onset_interval": (280, 300)},
    ),
    "evaluation comes back by itself": Story(
        "val-jump",
        {**CALM, "val_loss": evaluated(2.1, 4)},
        "not eval-change",
        incident={"recovery": "recovered", "end_step": 340, "role": "val_loss", "onset_interval": (280, 300)},
    ),
    "a score alone jumps and comes back": Story(
        "val-jump",
        {**CALM, "val_loss": evaluated(2.1, 2.1), "val_metric": evaluated(9.0, 13.0)},
        "not batch-norm",
        incident={"recovery": "recovered", "end_step": 340, "role": "val_metric", "onset_interval": (280, 300)},
    ),
    "overfitting": Story(
        "val-divergence",
        {"train_loss": 2.5 * np.exp(-STEP / 200), "val_loss": evaluated(2.1, 2.6)},
        "overfitting",
        onset=100,
        incident={"role": "val_loss"},
    ),
    "training gets worse too": Story(
        "val-divergence",
        {"train_loss": RISE, "val_loss": evaluated(2.1, 2.6)},
        "not overfitting",
        incident={"role": "val_loss"},
    ),
    "a metric falls, nothing of the data moved": Story(
        "eval-regression",
        {**CALM, "val_metric": evaluated(0.7, 0.4, "val_metric")},
        "eval-change overfitting unknown",
        incident={"role": "val_metric"},
    ),
    "a metric falls and the sequences grew": Story(
        "eval-regression",
        {**CALM, "seq_len": at(noise(512, 3), 2, N)},
        "data-shift",
        incident={"role": "val_metric"},
    ),
    # restarts
    "moments lost": Story(
        "resume-discontinuity",
        {
            "train_loss": learnt() * np.where(AFTER, 1 + 0.3 * np.exp(-(STEP - ONSET) / 15), 1),
            "grad_norm": noise(seed=1) * np.where(AFTER, 1 + 2 * np.exp(-(STEP - ONSET) / 15), 1),
        },
        "optimizer-state",
        said=RESTART,
    ),
    "weights lost": Story(
        "resume-discontinuity",
        {
            "train_loss": learnt() * np.where(AFTER, 1 + 1.8 * np.exp(-(STEP - ONSET) / 30), 1),
            "grad_norm": noise(seed=1) * np.where(AFTER, 1 + 2 * np.exp(-(STEP - ONSET) / 30), 1),
        },
        "incomplete-checkpoint",
        said=RESTART,
        incident={"recovery": "recovered"},
    ),
    "data replayed": Story(
        "resume-discontinuity",
        {**CALM, "train_loss": at(learnt(), 0.8, N)},
        "dataloader",
        said=RESTART,
        incident={"recovery": "unrecovered"},
    ),
    "rate not restored": Story(
        "resume-discontinuity",
        {**CALM, "train_loss": at(learnt(), 1.2, N), "learning_rate": np.where(AFTER, 1e-3, 1e-4)},
        "schedule",
        said=RESTART,
    ),
    # ranks, pace
    "a rank leaves at once": Story(
        "rank-divergence", ranks(1.0 * AFTER), "bad-shard", incident={"scope": Scope(rank=2), "recovery": "unrecovered"}
    ),
    "a rank leaves at once, soon after its onset was told": Story(
        "rank-divergence",
        ranks(np.where(STEP < ONSET + 3, 0.2 * AFTER, 1.0)),
        "bad-shard",
        incident={"scope": Scope(rank=2), "recovery": "unrecovered"},
    ),
    "a rank drifts away": Story(
        "rank-divergence",
        ranks(np.where(AFTER, (STEP - ONSET + 5) / 40, 0)),
        "rank-desync",
        incident={"scope": Scope(rank=2), "recovery": "unrecovered"},
    ),
    "a rank waits for its data": Story(
        "straggler",
        {**CALM, "dataloader_time": at(noise(0.05, 4), 40, N)},
        "dataloader",
        incident={"role": "dataloader_time", "scope": Scope(rank=2)},
    ),
    "twins part and nothing says why": Story("nondeterminism", CALM, "unknown"),
    "evaluations are no numbers from the first on": Story(
        "eval-invalid",
        [make_curve(CALM["train_loss"], step=STEP), evaluated(np.nan, np.nan)],
        "labels",
        onset=0,
        incident={"series": "val_loss", "role": "val_loss"},
    ),
    "evaluations are no numbers beside broken weights": Story(
        "eval-invalid",
        [make_curve(nan_from(CALM["train_loss"]), step=STEP), evaluated(2.0, np.nan)],
        "not labels",
        incident={"series": "val_loss", "role": "val_loss"},
        beside=(make_incident("nan-onset", ONSET),),
    ),
    "no sample is paid": Story(
        "rl-collapse", {"reward": np.zeros(N), "reward_std": np.zeros(N)}, "reward-signal", onset=0
    ),
    "the rate of the new life is not the old one's": Story(
        "resume-discontinuity", CALM, "schedule", incident={"role": "learning_rate", "series": "lr"}
    ),
    "rate and scale begin anew": Story(
        "resume-discontinuity",
        {
            **CALM,
            "learning_rate": np.where(AFTER, 1.2e-2, 4e-3),
            "loss_scale": np.where(AFTER, 65536.0, 262144.0),
        },
        "optimizer-state schedule",
        said=RESTART,
        config=FP16,
    ),
    "a burst soon after a checkpoint was loaded to begin with": Story(
        "instant-burst",
        {"train_loss": at(learnt(), 3, start=5), "grad_norm": at(noise(seed=1), 6, start=5)},
        "not optimizer-state",
        said=(Event("checkpoint-loaded", -1),),
        onset=5,
    ),
    "loading takes the time": Story(
        "throughput-drop",
        {**CALM, "step_time": at(noise(2.0, 3), 2, N), "dataloader_time": at(noise(0.05, 4), 40, N)},
        "dataloader",
    ),
    "communication takes the time": Story(
        "throughput-drop",
        {**CALM, "step_time": at(noise(2.0, 3), 2, N), "comm_time": at(noise(0.4, 4), 6, N)},
        "network",
    ),
    "sequences grew": Story(
        "throughput-drop",
        {**CALM, "step_time": at(noise(2.0, 3), 2, N), "seq_len": at(noise(512, 4), 2, N)},
        "data-shift",
    ),
    "pace alone": Story("throughput-drop", {**CALM, "step_time": at(noise(2.0, 3), 2, N)}, "unknown"),
    "the device reports a fault": Story(
        "hang", CALM, "hardware", said=(Event("error", ONSET, text="Xid 48: uncorrectable ECC error"),)
    ),
    "the disk is full": Story(
        "checkpoint-failure", CALM, "storage", said=(Event("error", ONSET, text="OSError: No space left on device"),)
    ),
    # reward
    "the reward is gamed": Story(
        "rl-collapse",
        {"reward": GAMED, "reward_std": at(noise(0.3, 2), 0.02, N)},
        "reward-signal",
        incident={"role": "reward"},
    ),
    "KL leads": Story(
        "rl-collapse",
        {"reward": np.where(AFTER, 0.2, noise(1.0)), "kl": noise(0.02, 2) * np.where(STEP < 280, 1, 20)},
        "learning-rate",
        incident={"role": "reward"},
    ),
    # plateau
    "plateau at a rate of 0": Story("plateau", {**CALM, "learning_rate": np.where(AFTER, 0.0, 1e-3)}, "schedule"),
    "plateau without gradients": Story("plateau", {**CALM, "grad_norm": np.where(AFTER, 0.0, 1.0)}, "frozen-graph"),
    "swings at the data's period": Story(
        "oscillation", CALM, "not learning-rate", incident={"occurrences": tuple(range(100, 301, 40))}
    ),
    # starts
    "a start far above an untrained model": Story("bad-start", {"train_loss": noise(40.0)}, "initialisation", onset=0),
    "a start from a file that did not fit": Story(
        "bad-start",
        {"train_loss": noise(40.0)},
        "incomplete-checkpoint",
        onset=0,
        said=(Event("warning", 0, text="Some weights were not initialized from the checkpoint: size mismatch"),),
    ),
    "a start summed over micro-batches": Story(
        "bad-start",
        {"train_loss": noise(40.0), "val_loss": evaluated(5.0, 5.0)},
        "logging-artefact",
        onset=0,
    ),
    "NaN in the first points": Story(
        "nan-onset",
        {"train_loss": np.where(STEP < 2, 8.0, np.nan), "learning_rate": np.full(N, 1e-3)},
        "learning-rate initialisation numeric-overflow",
        onset=2,
    ),
    "no label counts": Story("loss-zero", {"train_loss": np.zeros(N)}, "labels", onset=0),
    "a loss of 0 that hides NaN": Story(
        "loss-zero",
        {"train_loss": np.where(AFTER, 0.0, learnt()), "grad_norm": np.where(AFTER, np.nan, noise(seed=1))},
        "numeric-overflow",
        config=FP16,
    ),
    # batch size, mixture of experts, attention
    "a smaller batch": Story(
        "gradual-rise", {"train_loss": RISE, "batch_size": np.where(AFTER, 64, 512)}, "batch-size", incident=DOWN
    ),
    "a batch that always was so": Story(
        "gradual-rise", {"train_loss": RISE, "batch_size": np.full(N, 512)}, "not batch-size", incident=DOWN
    ),
    "experts starve": Story(
        "expert-collapse",
        {**CALM, "router_entropy": at(noise(1.0, 2), 0.3, N)},
        "router",
        incident={"role": "router_entropy"},
    ),
    "experts starve since the data changed": Story(
        "expert-collapse",
        {**CALM, "sampling_ratio": at(noise(0.2, 2), 4, N)},
        "data-shift",
        incident={"role": "router_entropy"},
        beside=(make_incident("data-shift", ONSET - 2),),
    ),
    "attention logits lead": Story(
        "divergence",
        {"train_loss": RISE, "attention_logit_max": noise(20, 3) * np.where(STEP < 260, 1, np.exp((STEP - 260) / 30))},
        "attention learning-rate",
        incident=DOWN,
        beside=(make_incident("attention-collapse", 290),),
    ),
    # curves too good, or at odds
    "documents attend to one another": Story(
        "suspicious-low-loss", CALM, "attention", config={"data": {"packing": True}}
    ),
    "the loss has no floor": Story(
        "suspicious-low-loss", {"train_loss": -noise(1.0) * np.exp(STEP / 30)}, "labels", onset=0
    ),
    "a fault of the disk, not of the network": Story(
        "hang", CALM, "storage", said=(Event("error", ONSET, text="OSError: [Errno 116] Stale file handle"),)
    ),
    "NCCL times out after a device failed": Story(
        "hang",
        CALM,
        "hardware",
        said=(
            Event("error", ONSET, text="Xid 48: uncorrectable ECC error"),
            Event("nccl-timeout", ONSET + 1, text="NCCL watchdog: ALLREDUCE timed out"),
        ),
    ),
    "NCCL times out": Story(
        "hang", CALM, "network", said=(Event("nccl-timeout", ONSET, text="NCCL watchdog: ALLREDUCE timed out"),)
    ),
    "memory with longer sequences": Story("memory-growth", {**CALM, "seq_len": at(noise(512, 4), 2, N)}, "data-shift"),
    "memory alone": Story("memory-growth", CALM, "memory-leak"),
    "the environment changed": Story(
        "resume-discontinuity", {**CALM, "tokens_per_sec": at(noise(1e4, 3), 1.5, N)}, "environment", said=RESTART
    ),
    "plateau with everything in order": Story(
        "plateau", {**CALM, "learning_rate": np.full(N, 1e-3)}, "not schedule frozen-graph"
    ),
    "plateau of an optimiser that changes nothing": Story(
        "plateau",
        {**CALM, "update_norm": np.zeros(N), "learning_rate": np.full(N, 1e-3)},
        "optimizer-state frozen-graph",
    ),
    "an effect of the loss scale": Story(
        "lr-anomaly",
        {**CALM, "learning_rate": np.zeros(N), "loss_scale": np.ones(N)},
        "loss-scaling numeric-overflow",
        onset=1,
        config=FP16,
        beside=(make_incident("scale-decay", 1),),
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_the_first_cause_of_a_story(name: str) -> None:
    story = STORIES[name]
    found = ranked(story)
    denied = story.first.startswith("not ")
    causes = story.first.removeprefix("not ").split()
    told = [(c.cause, c.confidence, c.for_, c.against) for c in found[:4]]
    assert (found[0].cause in causes) is not denied, told
