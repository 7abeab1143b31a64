"""What the log says of the task: is the loss a cross-entropy per token, and what would an untrained model score."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainforensics.signals.curve import Curve
from trainforensics.signals.run import Signals

TOKEN_WORDS = re.compile(r"ppl|perplexity|lm[ _]loss|bpb|wps|tok(?!2vec)")  # tok2vec is a layer
VOCABULARY = (
    "vocab_size", "padded_vocab_size", "vocabulary_size", "n_vocab", "vocab",
    "num_classes", "n_classes", "nb_classes", "num_labels",
)  # fmt: skip
PLANNED = (
    "max_steps", "train_iters", "max_iters", "total_steps", "num_training_steps", "training_steps", "total_iters",
)  # fmt: skip
ADVERSARIAL = frozenset({"g", "gen", "generator", "d", "disc", "discriminator", "critic", "adv", "adversarial", "gan"})
OTHER_LOSSES = ADVERSARIAL | {"sum", "value", "critic", "vf", "td", "q", "mse", "rmse", "mae", "huber", "l1", "l2"}
OTHER_LOSSES |= {"ppl", "perplexity", "box", "bbox"}
PRETRAINING = frozenset({"pt", "pretrain", "pretraining", "pre-training", "clm", "causal_lm"})  # stages on raw text
LARGEST_BATCH = 65_536  # of contrastive training; ln of it is 11.1
LARGEST_VOCABULARY = 300_000  # of the tokenisers in use; ln of it is 12.6


def per_token(signals: Signals) -> bool:
    """Whether the log speaks of tokens: throughput or counts of them, perplexity, a vocabulary, tokens of a step or a
    stage of pre-training in the configuration."""
    if vocabulary(signals) is not None or any(key.startswith("tokens_per_") for key, _ in stated(signals)):
        return True
    if any(key in ("stage", "task") and str(value).lower() in PRETRAINING for key, value in stated(signals)):
        return True
    return any(TOKEN_WORDS.search(curve.name.lower()) for curve in signals.every_curve())


def vocabulary(signals: Signals) -> int | None:
    """Number of classes the loss chooses from, where the configuration says it."""
    for key, value in stated(signals):
        if key in VOCABULARY and isinstance(value, int | float | str) and str(value).isdigit() and int(value) > 1:
            return int(value)
    return None


def planned_steps(signals: Signals, *surest: str) -> tuple[int, ...]:
    """Lengths of the run that the configuration states, or each row of the log, in the order of trust; `surest`: keys
    that go before all."""
    said = (*stated(signals), *_repeated(signals))
    return tuple(
        value
        for wanted in (*surest, *PLANNED)
        for key, value in said
        if key == wanted and isinstance(value, int) and value > 1
    )


def _repeated(signals: Signals) -> Iterator[tuple[str, int]]:
    """The settings that stand in each row: whole numbers that never change."""
    for curve in signals.unmapped:
        name = curve.name.lower().rsplit("/", 1)[-1]
        if name in PLANNED and len(curve) > 1 and curve.value[0] == curve.value.min() == curve.value.max():
            yield name, int(curve.value[0])


def stated(signals: Signals) -> tuple[tuple[str, Any], ...]:
    """The settings of the configuration: the last part of each key in lower case, and its value."""
    return tuple(_leaves(signals.config))


def untrained_loss(signals: Signals) -> float | None:
    """Cross-entropy of guessing at random, ln V; a bound where only tokens are known (for the largest vocabularies) or
    where pairs are told apart at a logged scale (for the largest batches).

    None for a loss that is no mean cross-entropy, as its name says.
    """
    loss, size = signals.curve("train_loss"), vocabulary(signals)
    if loss is not None and is_distance(loss):
        return None
    if size is not None:
        return math.log(size)
    if signals.has("logit_scale"):
        return math.log(LARGEST_BATCH)
    return math.log(LARGEST_VOCABULARY) if per_token(signals) else None


def is_distance(curve: Curve) -> bool:
    """Whether a loss is no mean cross-entropy, by its name: a sum, an error of a value, one side of a game."""
    return bool(OTHER_LOSSES & set(re.split(r"[^a-z0-9]+", curve.name.lower())))


def rewarded(signals: Signals) -> bool:
    """Whether a reward is what the run maximises: its loss then is no measure and may climb."""
    return signals.has("reward")


def adversarial(curve: Curve) -> bool:
    """Whether a loss is one side of a game, by its name: it has no trend that it should follow. Nor has that of
    a critic beside an actor, which grows with the returns."""
    return bool(ADVERSARIAL & set(re.split(r"[^a-z]+", curve.name.lower())))


def _leaves(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        else:
            yield key.lower().rsplit("/", 1)[-1].rsplit(".", 1)[-1], value
