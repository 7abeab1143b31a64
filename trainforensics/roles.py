"""From a log's own names to canonical roles: one synonym table as data (roles.toml), and the reading of a name.

A name is cut into words (path separators, punctuation, camel case); rank, layer, expert and train/validation words
are set aside; the longest run of the remaining words that the table knows decides the role, provided that what is
left over fits that role: a loss with a further word is a component, a gradient norm with one belongs to a layer.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from trainforensics.errors import UsageError

_UNIT = re.compile(
    r"[(\[](?:ms|s|sec|secs|seconds|[gmk]i?b|%|pct|it(?:er)?s?/s|tok(?:en)?s?/s|tflop/?s?(?:/s)?(?:/gpu)?|hz|mhz|°?c|w|b)[)\]]",
    re.IGNORECASE,
)
_SUFFIX_UNIT = re.compile(r"\s+in\s+\w+$")
_NORM_ORDER = re.compile(r"(?<=_)(\d)\.0(?=_)")
_MONITOR = frozenset({"r", "l", "t"})  # of a gym monitor: one row an episode
_RETURNS = frozenset({"episodes", "mean", "median", "stdev", "max", "min"})  # columns of a table of evaluations
_BARE_GRADIENTS = frozenset({"grad", "gradient"})  # a norm, where no other name says so
_HELD_OUT = frozenset({"val", "valid", "validation", "vali", "vl", "dev"})
_CRITICS_LOSS = (frozenset({"critic", "loss"}), frozenset({"qf", "loss"}))
_FASTAI = frozenset({"epoch", "train_loss", "valid_loss"})  # its columns; it measures every other one on held-out data
_PERPLEXITY = frozenset({"ppl", "perplexity"})
_RANKED = re.compile(  # only an evaluation ranks, or retrieves texts by images; a contrastive loss has both ways too
    r"(?:recall|ndcg|hr|hits?|mrr|map|precision|\br)@\d+\b"
    r"|^(?!.*(?:loss|acc)).*(?<![a-z])(?:t2i|i2t|t2v|v2t)(?![a-z])",
    re.IGNORECASE,
)
_WINDOW = re.compile(r"\s[(\[](?:last|past|over)\s\d+[^)\]]*[)\]]")  # "reward (last 10 episodes)"
_SPREAD = frozenset({"std", "stdev", "stddev"})
_SPAN = re.compile(r"([a-z]*)[1-9]\d{1,3}")  # episodes that a reward is the mean of: "avg_reward_100"
_POSSESSIVE = re.compile(r"(?<=\w)'s(?= )")  # "valid_1's auc"
_HELD_OUT_NORM = re.compile(
    r"^(.*'s |(?:.*/)?(?:val|valid|validation|eval|test)[ _/])(l[12])$", re.IGNORECASE
)  # an error, no layer
_NORM_BARS = re.compile(r"\|{1,2}(\w+)\|{1,2}")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
_COMPONENT = re.compile(r"[^/.:|]+")
_FUSED = re.compile(r"(train|valid|val|eval|test)(loss|acc|accuracy|error|err|ppl|auc)")
_LAYER_MARKS = frozenset({"layer", "layers", "block", "blocks", "blk", "h", "l", "stage", "resblock", "lyr"})
_LAYER = re.compile(r"(?:layers?|blocks?|blk|h|l|lyr|stage)(\d+)")
_RANK_MARKS = frozenset({"rank", "ranks", "worker", "process", "proc", "replica"})
_RANK = re.compile(r"(?:rank|worker|proc|dp)(\d+)")
_DEVICE = re.compile(r"(gpu|cuda|device)(\d+)")
_EXPERT_MARKS = frozenset({"expert", "experts"})
_EXPERT = re.compile(r"experts?(\d+)")
_SHORT_EXPERT = re.compile(r"e(\d+)")
_ROUTED = frozenset({"moe", "router", "routing", "gate", "gating", "load"})  # beside these `e3` is an expert
_NORM_WORDS = frozenset({"norm", "loss", "grad", "reg", "regularization", "penalty"})  # "l2 norm" is no layer
_BEFORE_RANK = frozenset({"per", "dp", "global", "local", "by"})


# What --map may call a column besides the roles of metrics: importers then take it as the step axis.
AXIS_ROLES = ("step",)


@dataclass(frozen=True, slots=True)
class RoleMatch:
    """What a name means. `weak`: only in a run without a surer name for the same thing (see `resolve_all`).

    `mean`: weak, and a mean over time or of a second network: less sure than other weak names.
    """

    role: str | None = None
    rank: int | None = None
    layer: str | None = None
    expert: int | None = None
    domain: str | None = None
    weak: bool = False
    mean: bool = False


# Words that say that a number is minimised, whatever else its name says.
LOSS_WORDS = frozenset(
    {
        "loss",
        "losses",
        "cost",
        "ce",
        "nll",
        "mse",
        "mae",
        "bce",
        "huber",
        "hinge",
        "elbo",
        "xent",
        "objective",
        "criterion",
        "deviance",
        "brier",
        "pinball",
        "logloss",
        "crps",
        "infonce",
    }
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """One role of the table. The sets hold compact names: words without separators."""

    role: str
    rest: str
    strong: frozenset[str]
    weak: frozenset[str]
    whole: frozenset[str]
    needs_layer: frozenset[str]
    needs_expert: frozenset[str]
    needs_rank: frozenset[str]
    decorations: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Table:
    rules: tuple[_Rule, ...]
    names: Mapping[str, tuple[str, ...]]
    by_name: Mapping[str, tuple[_Rule, ...]]
    metrics: frozenset[str]
    always: frozenset[str]
    lower_is_better: frozenset[str]
    counts: frozenset[str]
    train: frozenset[str]
    val: frozenset[str]
    probe: frozenset[str]
    neutral: frozenset[str]
    weakening: frozenset[str]
    running: frozenset[str]
    component: frozenset[str]
    summand: frozenset[str]
    domain: frozenset[str]
    modules: frozenset[str]
    longest: int


@dataclass(frozen=True, slots=True)
class _Token:
    word: str
    component: int
    text: str


@dataclass(slots=True)
class _Name:
    """A name taken apart: the words that may hold the role, and what was set aside."""

    tokens: list[_Token]
    rank: int | None = None
    expert: int | None = None
    layer: list[_Token] = field(default_factory=list)
    val: bool = False
    trained: set[int] = field(default_factory=set)  # the path components that say "train"


def resolve(name: str, extra: Mapping[str, str] | None = None) -> RoleMatch:
    """The role of one logged name, with the rank, layer, expert or domain that the name states.

    `extra` maps further names to roles and wins over the table ("none" unmaps). A key matches the whole name or its
    last path components, whatever their case. Raises UsageError for a role that does not exist.
    """
    found = _resolve(name)
    for key, role in (extra or {}).items():
        check_role(role)
        if is_named(key, name):
            return replace(found, role=None if role in ("none", *AXIS_ROLES) else role, weak=False, mean=False)
    return found


def is_named(key: str, name: str) -> bool:
    """Whether a key of `--map` means a logged name: all of it, or its last path components, whatever their case."""
    return f"/{name.casefold()}".endswith(f"/{key.casefold()}")


def resolve_all(
    names: Iterable[str], extra: Mapping[str, str] | None = None, points: Mapping[str, int] | None = None
) -> dict[str, RoleMatch]:
    """The roles of all names of one run. A weak name keeps its role only where no surer one has it.

    `points`: how many each holds, where that is known. A running mean of the loss that was logged far more often than
    the loss itself, as epoch by epoch, keeps its role beside it. A bare "mean" among other statistics of episodes is
    that of their returns; "r", "l" and "t" together are an episode's return, length and time. Where no name is known as
    the training loss and nothing is rewarded, the parts of a detector's loss are taken, or the plainest that speaks of
    a loss; where no name speaks of any result, "train" beside "val" is one. An error of held-out data without a unit
    stands in for a validation loss that is not logged.
    """
    found = {name: resolve(name, extra) for name in names}
    sure = {_place(match) for match in found.values() if match.role and not match.weak}
    plain = sure | {_place(match) for match in found.values() if match.role and not match.mean}
    denser = _denser_means(found, points or {})
    decided = {
        name: replace(match, role=None)
        if match.weak and name not in denser and _place(match) in (plain if match.mean else sure)
        else match
        for name, match in found.items()
    }
    decided |= {name: RoleMatch() for name in decided if _is_game(name, decided)}
    free = [name for name in decided if not any(is_named(key, name) for key in extra or {})]
    decided |= _times_of_steps({name: decided[name] for name in free})
    if set(free) >= _MONITOR:
        decided |= {"r": RoleMatch("reward", weak=True), "l": RoleMatch()}
    if set(free) >= _RETURNS and not any(match.role == "reward" for match in decided.values()):
        decided |= {"mean": RoleMatch("reward", weak=True), "stdev": RoleMatch("reward_std", weak=True)}
    if not {"train_loss", "reward"} & {match.role for match in decided.values()}:
        unmapped = [name for name in free if decided[name] == RoleMatch()]
        summands = _summands(unmapped)
        decided |= summands
        ways = (_plainest_loss, _gans_generator, _critics_loss, _perplexity, _only_part)
        standing_in = [] if summands else next((names for way in ways if (names := way(unmapped))), [])
        decided |= {name: RoleMatch("train_loss", weak=True) for name in standing_in}
        if standing_in == (part := _only_part(unmapped)):
            decided |= {name: RoleMatch("val_loss", weak=True) for name in _evaluated_as(part, unmapped)}
        evaluated = [name for name, match in decided.items() if match.role in {"val_loss", "val_metric"}]
        if not (summands or standing_in or any(map(_tells_split, evaluated))):
            decided |= _bare_pair(unmapped)
    elif not {"val_loss", "val_metric"} & {match.role for match in decided.values()}:
        decided |= {name: RoleMatch("val_loss", weak=True) for name in _bare_validation(free, decided)}
    decided |= _bare_scores([name for name in free if decided[name] == RoleMatch()], decided)
    decided |= _scores_of_no_split([name for name in free if decided[name] == RoleMatch()], decided)
    if not any(match.role == "val_loss" for match in decided.values()):
        decided |= {name: RoleMatch("val_loss", weak=True) for name in _bare_error(free)}
    if decided.keys() >= _FASTAI:
        decided |= _held_out(name for name in free if decided[name] == RoleMatch())
    if not any(match.role == "grad_norm" for match in decided.values()):
        decided |= {name: RoleMatch("grad_norm", weak=True) for name in free if name.lower() in _BARE_GRADIENTS}
    return decided


def _denser_means(found: Mapping[str, RoleMatch], points: Mapping[str, int]) -> set[str]:
    """The means of the training loss that hold many times as many points as what is surer to be it."""
    losses = {name: match for name, match in found.items() if match.role == "train_loss"}
    most = max((points.get(name, 0) for name, match in losses.items() if not match.mean), default=0)
    return {name for name, match in losses.items() if match.mean and points.get(name, 0) >= _DENSER * most > 0}


def _held_out(names: Iterable[str]) -> dict[str, RoleMatch]:
    """The names that mean a metric of an evaluation; none where one of them says that it is of training."""
    found = {name: resolve(f"val/{name}") for name in names}
    if any(_set_aside(_cut(name)).trained for name in found):
        return {}
    return {name: match for name, match in found.items() if match.role == "val_metric"}


def _times_of_steps(decided: Mapping[str, RoleMatch]) -> dict[str, RoleMatch]:
    """What ESPnet calls the time of an iteration of its loader, beside those of the passes and of the whole step."""
    found: dict[str, RoleMatch] = {}
    for name, match in decided.items():
        head = name.removesuffix("iter_time")
        passes = (f"{head}{part}_time" for part in ("train", "forward", "backward"))
        if head != name and match.role == "step_time" and all(part in decided for part in passes):
            found |= {name: replace(match, role="dataloader_time"), f"{head}train_time": match}
    return found


def _is_game(name: str, names: Container[str]) -> bool:
    """Whether a loss is a lost game: "eval_loss" beside "eval_win" or "eval_wins"."""
    head, _, last = name.rpartition("_")
    return last in {"loss", "losses"} and any(f"{head}_{won}" in names for won in ("win", "wins"))


def _plainest_loss(names: Iterable[str]) -> list[str]:
    """The name with the fewest words that speaks of a loss outside of evaluation; none, or one."""
    ranked: list[tuple[tuple[bool, int], str]] = []
    for name in names:
        parts = _set_aside(_cut(name))
        words = [token.word.rstrip("0123456789") for token in parts.tokens]
        known = _resolve(name.rpartition("/")[2]).role == "train_loss"  # as "g_loss" under "gan/" is
        spoken = known or LOSS_WORDS & set(words)
        if not parts.val and spoken and (known or not _table().component & set(words)):
            further = [word for word in words if word not in LOSS_WORDS | _table().neutral]
            ranked.append((("loss" not in words, len(further)), name))
    return [min(ranked, key=lambda item: item[0])[1]] if ranked else []


def _said(name: _Name) -> set[str]:
    return {token.word for token in name.tokens}


def _only_part(names: Iterable[str]) -> list[str]:
    """The one part of a detector's loss that training logs, where there is no other to be summed up; none, or one."""
    cuts = ((name, _set_aside(_cut(name))) for name in names)
    parts = [name for name, cut in cuts if not cut.val and LOSS_WORDS & _said(cut) and _is_summand(cut)]
    return parts if len(parts) == 1 else []


def _is_summand(name: _Name) -> bool:
    words = _said(name) - _table().neutral - LOSS_WORDS
    return bool(words) and words <= _table().summand


def _evaluated_as(part: list[str], names: Iterable[str]) -> list[str]:
    """The names of evaluation that say what the only part of the training says."""
    own = [_said(_set_aside(_cut(name))) - _table().neutral for name in part]
    cuts = ((name, _set_aside(_cut(name))) for name in names)
    return [name for name, cut in cuts if cut.val and _said(cut) - _table().neutral in own]


def _summands(names: Iterable[str]) -> dict[str, RoleMatch]:
    """The parts that a detector's loss is the sum of, two or more of training or of validation; the part is the domain.

    A bare "total" beside them is the sum itself. Parts of validation are parts of training too: "val/seg" alone is a
    metric.
    """
    train: dict[str, str] = {}
    val: dict[str, str] = {}
    total: dict[str, RoleMatch] = {}
    for name in names:
        parts = _set_aside(_cut(name))
        words = [token.word for token in parts.tokens if token.word not in _table().neutral]
        if [token.word for token in parts.tokens] in (["total"], ["tot"]) and not parts.val:
            total[name] = RoleMatch("train_loss", weak=True)
        elif words and set(words) <= _table().summand:
            (val if parts.val else train)[name] = "_".join(words)
    val = {name: part for name, part in val.items() if part in train.values()}
    if len(train) < 2:
        return {}
    named = [("train_loss", train), ("val_loss", val if len(val) > 1 else {})]
    return total | {name: RoleMatch(role, domain=part, weak=True) for role, of in named for name, part in of.items()}


def is_summand(domain: str | None) -> bool:
    """Whether what a name says beside a loss is a part of a detector's loss."""
    return domain is not None and set(domain.split("_")) <= _table().summand


def are_losses(names: Sequence[str]) -> bool:
    """Whether all names together are the losses of one run, known ones or not: "d_adv_loss", "f_cyc_loss"."""
    known = resolve_all(names)
    said = all(known[name].role or LOSS_WORDS & {token.word for token in _cut(name)} for name in names)
    return said and any(match.role == "train_loss" for match in known.values())


def _gans_generator(names: Iterable[str]) -> list[str]:
    """The loss that is called "G" beside a "D"; none, or one."""
    found = {name.lower(): name for name in names}
    return [found["g"]] if {"g", "d"} <= found.keys() else []


def _critics_loss(names: Iterable[str]) -> list[str]:
    """What learning from recorded transitions minimises where no reward is logged: the critic's loss; none, or one."""
    train = _table().train
    found = [name for name in names if frozenset(token.word for token in _cut(name)) - train in _CRITICS_LOSS]
    return found if len(found) == 1 else []


def _perplexity(names: Iterable[str]) -> list[str]:
    """The perplexity in training, which rises and falls with the loss that is its logarithm; none, or one."""
    found = []
    for name in names:
        parts = _set_aside(_cut(name))
        words = {token.word for token in parts.tokens if token.word not in _table().neutral}
        if len(words) == 1 and words <= _PERPLEXITY and not parts.val:
            found.append(name)
    return found[:1]


def _bare_error(names: Iterable[str]) -> list[str]:
    """The error of held-out data without a unit, which need be no share of wrong answers; none, or one."""
    found = []
    for name in names:
        parts = _set_aside(_cut(name))
        words = [token.word for token in parts.tokens if token.word not in _table().neutral]
        if parts.val and words == ["error"]:
            found.append(name)
    return found if len(found) == 1 else []


def _tells_split(name: str) -> bool:
    """Whether a name says of which part of the data it is; a benchmark's own does not."""
    return any(token.word in _table().train | _table().val for token in _cut(name))


def _bare_pair(names: Iterable[str]) -> dict[str, RoleMatch]:
    """The names that say nothing but "train" and "val", where there is one of each."""
    table = _table()
    found: dict[str, list[str]] = {"train_loss": [], "val_loss": []}
    for name in names:
        words = {token.word for token in _cut(name)}
        if words and words <= table.train | table.val:
            found["val_loss" if words & table.val else "train_loss"].append(name)
    alone = all(len(same) == 1 for same in found.values())
    return {same[0]: RoleMatch(role, weak=True) for role, same in found.items()} if alone else {}


def _bare_scores(names: Iterable[str], decided: Mapping[str, RoleMatch]) -> dict[str, RoleMatch]:
    """The scores that are called "Val" and "Test" alone beside a "Train" and a loss, as in logs of graph networks."""
    table = _table()
    words = {name: {token.word for token in _cut(name)} for name in names}
    trained = any(said and said <= table.train for said in words.values())
    if not trained or not any(match.role == "train_loss" for match in decided.values()):
        return {}
    return {
        name: RoleMatch("val_metric", domain=None if said & _HELD_OUT else name)
        for name, said in words.items()
        if said and said <= table.val
    }


def _scores_of_no_split(names: Iterable[str], decided: Mapping[str, RoleMatch]) -> dict[str, RoleMatch]:
    """The scores that say no part of the data where the losses of both say theirs: "train loss", "val loss", "f1".

    None where a score of training or of an evaluation is logged too.
    """
    losses = {role: [name for name, match in decided.items() if match.role == role] for role in _LOSSES}
    if not all(any(map(_tells_split, same)) for same in losses.values()):
        return {}
    if any(match.role == "val_metric" for match in decided.values()):
        return {}
    scores = {name: match for name in names if (match := resolve(f"val/{name}")).role == "val_metric"}
    if any(map(_tells_split, scores)):
        return {}
    other = _PERPLEXITY | {"metric"}  # a perplexity may be either loss's; Lightning repeats others as "hp_metric"
    return {
        name: replace(match, weak=True)
        for name, match in scores.items()
        if other.isdisjoint(token.word for token in _cut(name))
    }


def _bare_validation(names: Iterable[str], found: Mapping[str, RoleMatch]) -> list[str]:
    """The name that says nothing but "val", where one says nothing but "loss", and none nothing but "train"; or none.

    Beside a bare "train" both are of something else, as accuracies.
    """
    table = _table()
    words = {name: {token.word for token in _cut(name)} for name in names}
    bare = [name for name, said in words.items() if said and said <= table.train | table.val]
    lone = len(bare) == 1 and words[bare[0]] <= table.val and found[bare[0]].role is None
    return bare if lone and any(name.lower() == "loss" for name in found) else []


def check_role(role: str) -> None:
    """Raise UsageError, naming near matches, unless `role` is a canonical role (or "none")."""
    known = roles()
    if role in known or role in AXIS_ROLES or role == "none":
        return
    near = difflib.get_close_matches(role, known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else f"known roles: {', '.join(sorted(known))}"
    raise UsageError(f"unknown role {role!r} in --map; {hint}")


def roles() -> tuple[str, ...]:
    """Every canonical role."""
    return tuple(rule.role for rule in _table().rules)


def names_of(role: str) -> tuple[str, ...]:
    """Names that mean a role, commonest first, in lower case with "_" between words."""
    return _table().names[role]


def lower_is_better(name: str) -> bool:
    """Whether a metric of this name improves by falling (perplexity, error rates, losses)."""
    words = [token.word for token in _cut(name)]
    table = _table()
    return any(
        "".join(words[i:j]) in table.lower_is_better for i in range(len(words)) for j in range(i + 1, len(words) + 1)
    )


def _place(match: RoleMatch) -> tuple[object, ...]:
    return match.role, match.rank, match.layer, match.expert, match.domain


@cache
def _table() -> _Table:
    data = tomllib.loads(files("trainforensics").joinpath("roles.toml").read_text(encoding="utf-8"))
    rules = tuple(_rule(role, entry) for role, entry in data["roles"].items())
    by_name: dict[str, tuple[_Rule, ...]] = {}
    for rule in rules:
        for key in rule.strong | rule.weak:
            by_name[key] = (*by_name.get(key, ()), rule)
    metric = data["roles"]["val_metric"]
    reward = data["roles"]["reward"]
    words = data["words"]
    return _Table(
        rules=rules,
        names={role: tuple(entry["names"]) for role, entry in data["roles"].items()},
        by_name=by_name,
        metrics=_compact(metric["names"] + metric["always"] + reward["names"]),
        always=_compact(metric["always"]),
        lower_is_better=_compact(metric["lower_is_better"]),
        counts=_compact(data["counts"]),
        train=frozenset(data["context"]["train"]),
        val=frozenset(data["context"]["val"]),
        probe=frozenset(data["context"]["probe"]),
        neutral=frozenset(words["neutral"]),
        weakening=frozenset(words["weakening"]),
        running=frozenset(words["running"]),
        component=frozenset(words["component"]),
        summand=frozenset(words["summand"]),
        domain=frozenset(words["domain"]),
        modules=frozenset(words["modules"]),
        longest=1
        + max(name.count("_") for rule in data["roles"].values() for name in rule["names"] + rule.get("weak", [])),
    )


def _rule(role: str, entry: Mapping[str, Any]) -> _Rule:
    def keys(part: str) -> frozenset[str]:
        return _compact(entry.get(part, []))

    metric = role in {"val_loss", "val_metric"}  # decided by the validation context, not by a name of their own
    return _Rule(
        role=role,
        rest=entry.get("rest", "folder"),
        strong=frozenset() if metric else keys("names"),
        weak=frozenset() if metric else keys("weak"),
        whole=keys("whole"),
        needs_layer=keys("needs_layer"),
        needs_expert=keys("needs_expert"),
        needs_rank=keys("needs_rank"),
        decorations=frozenset(entry.get("decorations", [])),
    )


def _compact(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.replace("_", "") for name in names)


_LOSSES = ("train_loss", "val_loss")
_DENSER = 10  # times as many points as a loss that is logged epoch by epoch
_OF_WEIGHTS = frozenset({"quantized", "quantised"})  # before the name of a loss; within it they say what it is of
_TIMES = frozenset({"step_time", "dataloader_time"})
_TIMERS = frozenset({"timer", "timers", "timing", "timings"})
_PACES = _TIMES | {"comm_time", "barrier_wait", "tokens_per_sec", "mfu"}
_PLURALS = frozenset({"iters", "imgs", "seqs"})  # as one word a count; "iter/s" is two


@lru_cache(maxsize=65536)
def _resolve(name: str) -> RoleMatch:
    tokens = _cut(name)
    parts = _set_aside(tokens)
    within = [token for token in parts.tokens if token.word not in _table().neutral]
    last = [token for token in tokens if token.component == tokens[-1].component]
    if any("".join(token.word for token in said) in _table().counts for said in (tokens, parts.tokens, within, last)):
        return RoleMatch()
    if len(within) == 1 and within[0].word in _PLURALS:
        return RoleMatch()
    parts.val |= not parts.trained and _RANKED.search(name) is not None
    match = _validation(parts) if parts.val else _by_windows(parts)
    if len({token.component for token in tokens}) > 1 and tokens[0].word in _TIMERS and match.role not in _PACES:
        return RoleMatch()  # "timers/optimizer_gradients" is a time
    if match.role is None and (probed := _probed(parts)) is not None:
        match = probed
    layer = match.layer or _join(parts.layer)
    return replace(match, rank=parts.rank, expert=parts.expert, layer=layer)


def _probed(name: _Name) -> RoleMatch | None:
    """The metric of a model on top of the one in training, which evaluates it; its loss is its own."""
    rest = [token for token in name.tokens if token.word not in _table().probe]
    match = _validation(replace(name, tokens=rest)) if len(rest) < len(name.tokens) else RoleMatch()
    return match if match.role == "val_metric" else None


def _cut(name: str) -> list[_Token]:
    """The words of a name in lower case, each with its path component and its text as logged."""
    tokens: list[_Token] = []
    plain = _NORM_ORDER.sub(r"\1", _SUFFIX_UNIT.sub("", _UNIT.sub(" ", name))).replace(" - ", "/")
    plain = plain.replace("default_policy/", "")  # as RLlib calls the only one
    plain = _NORM_BARS.sub(r"\1 norm", _POSSESSIVE.sub("", _HELD_OUT_NORM.sub(r"\1\2_loss", _WINDOW.sub("", plain))))
    for index, part in enumerate(_COMPONENT.finditer(plain)):
        for found in _WORD.finditer(part[0]):
            word = found[0].lower()
            fused = _FUSED.fullmatch(word)
            tokens += [_Token(w, index, w) for w in fused.groups()] if fused else [_Token(word, index, found[0])]
    return tokens


def _set_aside(tokens: list[_Token]) -> _Name:
    """Take rank, layer, expert and train/validation words out of a name."""
    table = _table()
    name = _Name([])
    at = 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else None
        word, number = token.word, int(following.word) if following and following.word.isdigit() else None
        taken = 1
        if number is not None and (word in _RANK_MARKS or word in {"gpu", "cuda", "device"}):
            name.rank, taken = number, 2
            _keep_device(name, token)
        elif found := _RANK.fullmatch(word) or _DEVICE.fullmatch(word):
            name.rank = int(found[found.re.groups])
            _keep_device(name, replace(token, word=found[1] if found.re.groups == 2 else "rank"))
        elif number is not None and word in _EXPERT_MARKS:
            name.expert, taken = number, 2
            name.tokens.append(replace(token, word="expert"))
        elif found := _EXPERT.fullmatch(word):
            name.expert = int(found[1])
            name.tokens.append(replace(token, word="expert"))
        elif number is not None and word in _LAYER_MARKS:
            name.layer += tokens[at : at + 2]
            taken = 2
        elif _LAYER.fullmatch(word) and not (word in {"l1", "l2"} and _tells_a_norm(tokens, at)):
            name.layer.append(token)
        elif word in table.val:
            name.val = True
        elif word in table.train:
            name.trained.add(token.component)
        else:
            name.tokens.append(replace(token, word="expert") if word == "experts" else token)
        at += taken
    words = [token.word for token in name.tokens]
    if name.expert is None and "expert" in words and words[-1].isdigit():
        name.expert = int(name.tokens.pop().word)
    elif name.expert is None and words and (short := _SHORT_EXPERT.fullmatch(words[-1])) and _ROUTED & set(words):
        name.expert = int(short[1])
        name.tokens[-1] = replace(name.tokens[-1], word="expert")
    if name.expert is not None and len(name.tokens) > 1 and name.tokens[-1].word == "expert":
        what, which = name.tokens[-2:]  # "load_expert_3" is "expert_3_load"
        if what.component == which.component and what.word not in _BEFORE_RANK:
            name.tokens[-2:] = [which, what]
    return name


def _tells_a_norm(tokens: Sequence[_Token], at: int) -> bool:
    """Whether "l1" or "l2" at a place is a norm and no layer: "l2_norm", "G_L1"."""
    norm = at + 1 < len(tokens) and tokens[at + 1].word in _NORM_WORDS
    return norm or (at > 0 and tokens[at - 1].word in {"g", "smooth"})


def _keep_device(name: _Name, token: _Token) -> None:
    """`gpu 0 memory` keeps its `gpu`; `loss per rank 3` loses `per` with the rank."""
    if token.word in {"gpu", "cuda", "device"}:
        name.tokens.append(token)
    elif name.tokens and name.tokens[-1].word in _BEFORE_RANK and name.tokens[-1].component == token.component:
        name.tokens.pop()


def _windows(tokens: list[_Token]) -> Iterable[tuple[str, list[_Token], list[_Token]]]:
    """Runs of words, longest first and rightmost first: the compact text, the run, what it leaves over."""
    n = len(tokens)
    for length in range(min(n, _table().longest), 0, -1):
        for start in range(n - length, -1, -1):
            run = tokens[start : start + length]
            yield "".join(token.word for token in run), run, tokens[:start] + tokens[start + length :]


def _by_windows(name: _Name) -> RoleMatch:
    """The role of a name without validation words."""
    table = _table()
    for key, run, rest in _windows(name.tokens):
        if key in table.always and name.trained.isdisjoint(token.component for token in run):  # "train-WER"
            return RoleMatch("val_metric", domain=_join([t for t in rest if t.word not in table.neutral]))
        rules = sorted(table.by_name.get(key, ()), key=lambda rule: key not in rule.needs_expert)
        for rule in rules:
            match = _fit(rule, key, run, rest, name)
            if match is not None:
                return match
    return RoleMatch()


def _fit(rule: _Rule, key: str, run: list[_Token], rest: list[_Token], name: _Name) -> RoleMatch | None:
    """The match, if what the run of words leaves over fits the role; None if the name must mean something else."""
    table = _table()
    weak = key in rule.weak
    mean = any(token.word in table.weakening for token in rest)
    extra: list[_Token] = []
    own = {token.component for token in run}
    for token in rest:
        stem = token.word.rstrip("0123456789")
        of_loss = token.word == "loss" and (token.component in own or rule.role == "reward")
        if of_loss and rule.role != "train_loss":
            return None  # and a world model predicts rewards: "loss/reward"
        if token.word in table.neutral or (stem or token.word) in rule.decorations or token.word in table.domain:
            weak |= token.word in table.weakening or token.word[len(stem) :].strip("0") != ""
        elif rule.role == "reward" and (found := _SPAN.fullmatch(token.word)) and found[1] in {"", *table.neutral}:
            weak = mean = True
        elif token.word.isdigit() and (rule.decorations or _tells_optimisers(rule, name, token, own)):
            weak |= token.word != "0"
        elif not _allowed(rule, token, own, rest):
            return None
        elif token.word in table.running and rule.rest == "none":
            weak = mean = True
        else:
            weak |= token.word in table.weakening
            extra.append(token)
    if key in rule.whole and (extra or name.layer or any(token.word.isdigit() for token in rest)):
        return None
    if key in rule.needs_layer and not extra and not name.layer:
        return None
    if (key in rule.needs_expert and name.expert is None) or (key in rule.needs_rank and name.rank is None):
        return None
    if rule.rest == "none" and name.layer:
        return None
    layer = _layer(extra, name.layer, own) if rule.rest == "layer" else None
    domain = _join(extra) if rule.rest in {"domain", "none"} else None
    role = "reward_std" if rule.role == "reward" and any(token.word in _SPREAD for token in rest) else rule.role
    return RoleMatch(role, layer=layer, domain=domain, weak=weak, mean=weak and mean)


def _tells_optimisers(rule: _Rule, name: _Name, token: _Token, own: set[int]) -> bool:
    """Whether a number behind a gradient norm merely tells optimisers apart: "grad_norm_0", "grad_norm_1"."""
    if rule.role != "grad_norm":
        return False
    said = [other for other in name.tokens if other.word not in _table().neutral]
    return said[-1] is token and {other.component for other in said} == own and not name.layer


def _layer(extra: list[_Token], marked: list[_Token], own: set[int]) -> str | None:
    """The layer or parameter: marked words with the module words around them, or whatever follows the metric."""
    modules = _table().modules
    if marked:
        extra = [token for token in extra if token.word in modules or token.word.isdigit()]
    else:
        named = {token.component for token in extra if token.word in modules}
        extra = [token for token in extra if token.component in named or token.component > max(own)]
    return _join(sorted([*extra, *marked], key=lambda token: token.component))


def _allowed(rule: _Rule, token: _Token, own: set[int], rest: list[_Token]) -> bool:
    """Whether a role tolerates this further word in the name."""
    table = _table()
    if rule.rest == "layer":
        return token.component not in own or token.word in table.modules
    if rule.rest == "domain":
        return token.component not in own
    if rule.rest == "none":
        named = any(other.word in table.domain for other in rest) and token.word not in table.component
        return named or token.word in table.running
    return token.component not in own


def _validation(name: _Name) -> RoleMatch:
    """The role of a name that says it was measured on validation data: a loss, a metric, or nothing we know."""
    table = _table()
    losses = next(rule for rule in table.rules if rule.role == "train_loss")
    if _by_windows(name).role in _TIMES:
        return RoleMatch()  # "val/batch_cost" is no loss
    for key, run, rest in _windows(name.tokens):
        loss = key in losses.strong or key in losses.weak
        if not loss and key not in table.metrics:
            continue
        words = [token for token in rest if token.word not in table.neutral and token.word not in table.domain]
        own = {token.component for token in run}
        weights = [token for token in words if token.word in _OF_WEIGHTS and token.component not in own]
        if any(token.word in table.component for token in words if token not in weights):
            return RoleMatch()
        weak = key in losses.weak if loss else False
        weak |= any(token.word in table.weakening and token.word not in {"epoch", "avg", "average"} for token in rest)
        return RoleMatch("val_loss" if loss else "val_metric", domain=_join(words), weak=weak)
    return RoleMatch()


def _join(tokens: list[_Token]) -> str | None:
    """Set-aside words as one name: "_" within a path component, "." between components."""
    by_component: dict[int, list[str]] = {}
    for token in tokens:
        by_component.setdefault(token.component, []).append(token.text)
    return ".".join("_".join(words) for words in by_component.values()) or None
