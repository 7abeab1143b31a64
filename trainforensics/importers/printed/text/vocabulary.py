"""The words that a log has for what counts, for the parts of the data, and for results."""

from __future__ import annotations

import re
from functools import lru_cache

from trainforensics import roles

# Names that count steps, in the order of trust.
_STEPS = (
    ("global_step", "globalstep", "global_steps", "global_iter", "global_iteration", "global_step/max_steps",
     "total_step", "total_iter", "total_iteration", "total_timesteps", "num_timesteps", "timesteps_total"),
    ("step", "steps", "train_step", "training_step", "current_step", "optimizer_step", "update_step", "step_num", "s"),
    ("iteration", "iter", "iterations", "iters", "it", "itr", "iter_num", "meta_iter", "meta_iteration", "meta_step",
     "outer_iter", "outer_step", "training_iteration"),
    ("num_updates", "n_updates", "nupdates", "num_update"),
    ("updates", "update", "up."),
    ("kimg",),  # by which StyleGAN and its kin name their snapshots
    ("tick",),
    ("batch", "ba", "batches", "minibatch", "mb", "batch_idx", "batch_index", "batch_id", "batch_num", "batch_no",
     "epoch_step", "epoch_iter", "epoch_iteration", "epoch_batch"),
    ("timesteps", "timestep", "env_step", "env_steps", "timesteps_so_far", "timestepssofar", "totalenvinteracts",
     "totalenvsteps"),
    ("episode", "episodes"),
    ("round", "rounds", "generation", "gen"),
    ("counter",),
    ("idx",),
)  # fmt: skip
STEP_TRUST = {name: trust for trust, names in enumerate(_STEPS) for name in names}
# "total_train_updates", "total num timesteps"
_SUM_OF_COUNTS = re.compile(
    r"(?:(?:train|training|num|n|env|agent|optimizer|gradient)_)*(?:total|global|cumulative|overall)"
    r"(?:_(?:train|training|num|n|env|agent|optimizer|gradient))*_(?:step|iter(?:ation)?|update|timestep|episode)s?"
)
# Words for a part of the data, and whether it is held out.
SPLITS = {"train": False, "training": False} | dict.fromkeys(
    ("test", "testing", "val", "vali", "valid", "validation", "validate", "validating", "eval", "evaluate",
     "evaluation", "evaluating", "dev", "cv", "verification"), True,
)  # fmt: skip
EPOCHS = frozenset(
    {"epoch", "epochs", "ep", "ep.", "epo", "pass", "epoch_id", "epoch_idx", "epoch_index", "epoch_no", "pass_id"}
)
EPISODES = frozenset({"episode", "episodes"})
# What may stand before the name of a step or an epoch: "completed step: 5", "validation loss at iteration 1000".
BEFORE_STEP = frozenset(SPLITS) | {
    "at", "completed", "current", "for", "global", "now", "of", "on", "optimizer", "optim", "the", "loss", "results",
    "result", "metrics", "after", "end", "finished", "done", "log", "model", "beginning", "start", "starting", "data",
    "learning", "to", "in", "saving", "dict", "summary", "progress",
}  # fmt: skip
RESULT_ROLES = frozenset({"train_loss", "val_loss", "val_metric", "grad_norm", "reward"})
TRAIN = re.compile(r"train", re.IGNORECASE)
MEASURED = re.compile(r"\s?(?:[mµn]?s|secs?|seconds?|min\w*|hours?|[KMGT]i?B|bytes)\b")
_GLOBAL = ("global", "total", "update", "timestep")

METRIC = re.compile(
    r"loss|objf|reward|score|acc(?:uracy)?(?![a-z])|error|norm|\blr\b|kl\b|entropy|(?<![a-z])dist(?:ance)?(?![a-z])"
    rf"|\b(?:{'|'.join(sorted(roles.LOSS_WORDS))})\b",
    re.IGNORECASE,
)
PLURAL_COUNTS = frozenset(
    {"steps", "iterations", "iters", "epochs", "batches", "updates", "timesteps"}
)  # fmt: skip
LOSS = re.compile(r"\bloss\b", re.IGNORECASE)


def trust_of(name: str) -> int | None:
    """How little a count of this name is trusted, 0 the most; None for what is no count of steps."""
    found = STEP_TRUST.get(name)
    return 0 if found is None and _SUM_OF_COUNTS.fullmatch(name) else found


def is_count(name: str) -> bool:
    """Whether a name says that the number counts steps or epochs: "of epoch", "at step"."""
    *head, last = name.lower().split() or [""]
    return (last in STEP_TRUST or last in EPOCHS) and BEFORE_STEP.issuperset(head)


def is_score(name: str) -> bool:
    """Whether a name is a metric once it is said to be of an evaluation."""
    return roles.resolve(f"val/{name}").role == "val_metric"


@lru_cache(1024)
def is_global(name: str) -> bool:
    """Whether a count of this name never starts again with an epoch."""
    return any(word in name.lower() for word in _GLOBAL)


def says_result(name: str) -> bool:
    """Whether a name alone speaks of a loss, a metric or another result."""
    return roles.resolve(name).role in RESULT_ROLES or METRIC.search(name) is not None or is_score(name)
