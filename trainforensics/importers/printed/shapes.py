"""The kinds of records. A record's shape is learned from the first line of its kind: its numbers become slots, the
words between them names. Further lines of the kind are then read by one compiled expression.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from trainforensics import roles
from trainforensics.importers.printed.clock import is_global
from trainforensics.importers.printed.expressions import expression, with_words
from trainforensics.importers.printed.items import SPLITS, STEP_TRUST, Item, find_items, trust_of
from trainforensics.importers.printed.naming import (
    BEFORE_STEP,
    EPOCHS,
    MEASURED,
    RESULT_ROLES,
    TRAIN,
    counts_before,
    drop_logger,
    end_sentences,
    is_count,
    is_score,
    name_items,
    name_members,
)
from trainforensics.importers.printed.tokens import LARGEST_COUNT, TIME, Prefix, number_of, prefix_of, whole_number
from trainforensics.importers.rows.axes import says_validation

_EPISODES = frozenset({"episode", "episodes"})
_EPOCHS_AND_EPISODES = frozenset({"epch", "epoch"})  # beside these "ep" counts episodes
# What of an epoch is done: "Process 100/3161 ..., epoch 0".
_OF_DATA = frozenset({"process", "processed", "processing", "progress"})
_ITERATORS = frozenset({"i", "j", "b", "n"})  # out of a total
_RANKS = frozenset({"rank", "global_rank", "dp_rank", "worker", "rank_of"})
_IGNORED = frozenset({"eta", "elapsed", "remaining", "pid", "port", "device", "gpu", "node", "version", "v_num"})
_HELD_OUT_PHRASES = (" valid on ", "Saving dict for ")
_OF_BATCHES = "Avg IOU: "  # of Darknet, which prints the scores of every batch that it trains on
_HELD_OUT_NAMES = frozenset({"tel"})  # llm.c's test loss
_SUMMARY = frozenset({"train_runtime", "train_samples_per_second"})
_TRAINED = frozenset({"train_loss", "reward"})

_SAYS_HELD_OUT = re.compile(
    r"\b(?:valid|validation|eval|evaluation|test)\b(?!_)|\[(?:val|dev|testing)\]", re.IGNORECASE
)
_OF_TEST = re.compile(r"\btest(?:ing)?\b", re.IGNORECASE)
_CHANGE = re.compile(r"\s*-+>\s*$")  # "improved: 8.1 --> 5.4"
_EPOCH_MEANS = re.compile(r"(?:.*\|\s*train )?\|\s*epoch\s+\d+\s*\|")  # fairseq's line at the end of an epoch
_SENTENCE = re.compile(r"['\"]|(?<!\bavg)\.\s|\b(?:from|to|than|by|with|into)$", re.IGNORECASE)
_METRIC = re.compile(
    r"loss|objf|reward|score|acc(?:uracy)?(?![a-z])|error|norm|\blr\b|kl\b|entropy|(?<![a-z])dist(?:ance)?(?![a-z])"
    rf"|\b(?:{'|'.join(sorted(roles.LOSS_WORDS))})\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"-?\d+(?:\.0*)?(?:e\+\d+)?|\d+(?:\.\d+)?[kKM]|\d\.\d+e\+\d+|\d{1,3}(?:,\d{3})+")
_MODE = re.compile(r"\((\w+)\)$")
_AVERAGE = re.compile(r"(?:.*[/ ])?(?:avg|average)_", re.IGNORECASE)  # what stands beside one is its change (Coqui)
_KERAS = re.compile(r"\s*(?:-\s)?(?:\d+/\d+\s*(?:[\[━]|-\s)|\d+m?s(?: \d+m?s/\w+)?\s+-\s)")
# What a message of a save says of the checkpoint: that of the best epoch so far, beside the log's own row of it.
_SAVED = re.compile(
    r"(?i)\b(?:saved|saving|save)\b.{0,80}\b(?:checkpoint|ckpt|model)|\b(?:checkpoint|ckpt)\w*\b.{0,20}\b(?:saved|written)\b"
)
# What is said of the best so far, beside the log's own row of it: "New best model saved! Epoch: 2, val accuracy: 0.8".
_BEST = re.compile(
    r"(?i)(?<![a-z_])best(?![a-z_]).{0,40}?(?:\b(?:model|checkpoint)\b|模型|so far)|!.{0,20}(?<![a-z_])best(?![a-z_])"
    r"|\bnew best\s*:"
)
_NOT_BETTER = re.compile(r"(?i)\b(?:did not|didn't|not) improve")  # "val_loss did not improve from 0.25"
# A title with the settings of what follows in brackets: "BASELINE (dims = 256, beta = 1, batch = 32)".
_FRAMED = re.compile(r"\s*([-=*#~])\1{2,}\s.*\[[^\]]*\]\s*\1{3,}\s*$")  # "--- Epoch 5: focus [a:0.5 - b:0.5] ---"
_TITLED = re.compile(r"[A-Za-z][\w -]*\((?:[A-Za-z][\w ]* ?= ?[\w.+-]+, )+[A-Za-z][\w ]* ?= ?[\w.+-]+\)\s*$")
_PLURAL = frozenset(
    {"steps", "iterations", "iters", "epochs", "batches", "updates", "timesteps"}
)  # fmt: skip
_LEAD = frozenset(SPLITS) | {"loss", "set", "metrics", "results", "phase", "performance", "cur", "current", "metric"}
_CLOCK = frozenset({"time", "date"})
_TIMES = re.compile(TIME)
_ASIDE = re.compile(r"(.*) \([^)]*$")  # "a better model was found (reward: 2.5)"
_LEVELLED = re.compile(r"\b(?:INFO|DEBUG|WARNING|NOTICE)\W*$")
_SETTINGS = re.compile(r"\s*(?:\w+\s*[:=]\s*)?\w*(?:Namespace|Arguments|Args|Config)\(")
_PATH = re.compile(r"\s/\w")
_QUOTED = re.compile(r"\s*[\"']\w+[\"']\s*:")  # a line of a document: `"score": 0.5`
# A count between a result and its name, or before a number alone on its line: "Train loss 5 0.25", "5:\t0.25",
# "epoch 5: 0.25", "500 0.25"; or behind it, "0.25, 500".
COUNTED_RESULT = re.compile(
    r"\s*(?:(?:[A-Za-z]+ )*(?:loss|reward|accuracy|error) (?P<count>\d+):? +"
    r"|(?:(?:epoch|step|iter(?:ation)?) )?(?P<bare>\d+):[ \t]+(?=\S+\s*$)|(?P<beside>\d+)[ \t]+(?=\S+\s*$))"
    r"[-+]?\d+\.\d+(?:e[-+]?\d+)?(?!\S)|\s*[-+]?\d+\.\d+(?:e[-+]?\d+)?,?[ \t]+(?P<behind>\d+)\s*$",
    re.IGNORECASE,
)
# An identifier, or the name of a loss, and its value alone on a line: "gen_loss_GAN 2.5", "D loss: 0.5";
# a loss before others, "loss 0.5 acc 0.75".
NAME_AND_NUMBER = re.compile(
    r"\s*(?:[A-Za-z]+(?:_[A-Za-z\d]+)+\s+|(?:[A-Za-z][\w-]* ){1,3}[Ll]oss\s*[:=]\s*)"
    r"[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|nan)\s*[:;,.]?\s*$"
    r"|\s*(?:[A-Za-z]+ )?[Ll]oss[ \t]+[-+]?\d+\.\d+(?:[ \t,]+[A-Za-z]\w*[ \t]+[-+]?\d+\.\d+[a-z%]*)*\s*$"
)
_IDENTIFIER = re.compile(r"[a-z]+(?:_[a-z]+)+")  # "train_loss 0.5" needs no mark between
_LOSS = re.compile(r"\bloss\b", re.IGNORECASE)
_SPLIT_RESULT = re.compile(
    r"(?:train|val|valid|validation|eval|test|dev|avg|average|mean|total)"
    r" (?:loss|acc|accuracy|error|ppl|reward|return|score)",
    re.IGNORECASE,
)
_HELD_OUT_RESULT = re.compile(r"(?:val|valid|validation|eval|evaluation|test|dev) \w+", re.IGNORECASE)
_OF_PERCENT = re.compile(r"\s*%\)?\s*\($")  # "45% (4500/10000)" says how many that are
_SHORT_SPLITS = ("tr", "trn", "va", "vl", "te", "tst")
_WEIGHED = frozenset({"step_time", "dataloader_time", "comm_time", "tokens_per_sec", "gpu_memory", "host_memory"})
_NEVER_ALONE = frozenset({"s", "batch", "batches", "ba", "mb", "minibatch", *_PLURAL})
_LONGEST_RECORD = 16_384
_MOST_WORDS = 8
_MOST_NUMBERS = 600
_TAIL, _MOST_ITEMS = 12, 24  # of a record that does not say its step
_NO_TRUST = len(STEP_TRUST)


@dataclass(slots=True, eq=False)
class Shape:
    """One kind of record, and the rows of it that were read since the last flush.

    `values`: (group, series name) of the record's numbers; the other numbers are groups of its expression, 0 where it
    has none. `rival`: it holds a second count. `of_several`: the rank is a bare share, and may be none. `inner` counts
    iterations within an epoch, `total` says out of how many. `piece`: a part of an epoch's data whose steps are counted
    anew. `length`: how many steps an epoch has. `bar`: it ends with the epoch, as Keras' bars do.
    `batches`: it counts an evaluation's. `held_out`: one number of it at least is an evaluation's.
    `dictionary`: a printed dictionary, which need not name its step. `stated`: it states its step and no epoch.
    `plain`: its step needs no thought, and `steps` stays empty. `used`: it had rows before the last flush.
    `follows`: what it counts is not what the log's axis does, so its rows are of the step reached.
    `split`: the held-out data that it is of. `lead`: the text it begins with. `evaluating`: the same kind, where its
    words are printed of such data too.
    """

    pattern: re.Pattern[str] = re.compile("")
    values: tuple[tuple[int, str], ...] = ()
    step: int = 0
    step_name: str = ""
    rival: bool = False
    epoch: int = 0
    epoch_name: str = ""
    piece: int = 0
    inner: int = 0
    total: int = 0
    length: int = 0
    time: int = 0
    rank: int = 0
    of_several: bool = False
    validation: bool = False
    dictionary: bool = False
    training: bool = False
    bar: bool = False
    summary: bool = False
    batches: bool = False
    held_out: bool = False
    stated: bool = False
    plain: bool = False
    used: bool = False
    follows: bool = False
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    split: str = "val"
    lead: str = ""
    evaluating: Shape | None = None
    _loose: re.Pattern[str] | None = None

    def of_evaluations(self) -> Shape:
        """The same kind of record, of held-out data, without rows."""
        return replace(self, validation=True, training=False, plain=False, used=False, rows=[], steps=[], seqs=[])

    def match_with_words(self, line: str) -> re.Match[str] | None:
        """The match of a line that holds words where others hold numbers, though it says where the run stands."""
        if not (self.counted and self.values):
            return None
        self._loose = self._loose or with_words(self.pattern)
        found = self._loose.match(line)
        counts = (self.step, self.epoch, self.inner)
        return found if found and all(found[group][-1:].isdigit() for group in counts if group) else None

    def part_share(self) -> None:
        """Take "0/1900" as epoch and step, not as a step out of so many."""
        self.epoch = self.step or self.inner
        self.step, self.inner, self.total, self.stated, self.plain = self.epoch + 1, 0, 0, False, False
        self.step_name = self.step_name or "iteration"

    def state_step(self) -> None:
        """Take its count out of so many as that of the training's steps, not of its own batches."""
        self.step, self.step_name, self.inner, self.batches = self.inner, "iteration", 0, False

    def count_epochs(self) -> None:
        """Take its count as the epoch's."""
        self.epoch, self.step, self.step_name = self.step, 0, ""
        self.stated = self.plain = False

    def counts(self) -> list[int] | None:
        """The steps that its rows state, None where one is beyond what can be counted."""
        steps = [whole_number(row[self.step - 1]) for row in self.rows]
        return None if any(abs(step) == LARGEST_COUNT for step in steps) else steps

    def value_of(self, name: str, groups: Sequence[str | None]) -> float | None:
        """The number that a row states under a name; None if it states none."""
        told = next((groups[group - 1] for group, known in self.values if known == name), None)
        try:
            return number_of(told) if told else None
        except ValueError:
            return None

    @property
    def names(self) -> frozenset[str]:
        """The series it holds."""
        return frozenset(name for _, name in self.values)

    def label(self, name: str) -> str:
        """The name of one of its series, with the data that it is of; beside held-out data that of training is said."""
        trained = self.held_out and TRAIN.match(name) and any(map(says_validation, self.names))
        return f"{self.split}/{name}" if self.validation and not (trained or says_validation(name)) else name

    def rename(self, names: Mapping[str, str]) -> None:
        """Call series otherwise."""
        self.values = tuple((group, names.get(name, name)) for group, name in self.values)

    @property
    def timed(self) -> bool:
        """Whether all that it holds are the timers of a step."""
        return all(name.startswith("timers/") for name in self.names)

    @property
    def losses(self) -> frozenset[str]:
        """Those that are a training loss."""
        return frozenset(name for name in self.names if roles.resolve(name).role == "train_loss")

    @property
    def only_scores(self) -> bool:
        """Whether all that it holds are metrics, none of which is said to be of the training."""
        return all(is_score(name) and not TRAIN.search(name) for name in self.names)

    @property
    def only_rate(self) -> bool:
        """Whether it is a learning rate alone, which may be an argument."""
        return not self.counted and {roles.resolve(name).role for name in self.names} == {"learning_rate"}

    @property
    def setting(self) -> bool:
        """Whether it may say how much is to be done rather than where the run stands: "steps: 1000", "epochs=5"."""
        name = (self.step_name or self.epoch_name).lower()
        results = any(roles.resolve(value).role in RESULT_ROLES for value in self.names)
        alone = name.split()[-1:] and name.split()[-1] in {*_PLURAL, "batch"} and not self.values
        return self.counted and (alone or (name == "epochs" and not results and not self.step))

    @property
    def of_batches(self) -> bool:
        """Whether it states batches, of an epoch."""
        return self.step_name.lower() in {"batch", "minibatch"}

    @property
    def counted(self) -> bool:
        """Whether it says where the run stands."""
        return bool(self.step or self.inner or self.epoch)


def learn(
    line: str,
    *,
    bar: bool = False,
    header: str = "",
    counted: bool = False,
    distrust: bool = False,
    trust: bool = False,
) -> Shape | int | None:
    """The shape of a line that is a record.

    A number says that a second record begins there, so that the parts are to be read one by one; None: no record.
    `bar`: the text behind a progress bar, which counts the steps; `header`: what counts in the line before that said
    the step, behind which any name may follow; `counted`: the log has said a step before; `distrust`: of several counts
    the one trusted least is the step; `trust`: what begins with a count is a record whatever its names are, as it is
    where lines like it follow and their count rises.
    """
    line = line[:_LONGEST_RECORD]
    prefix = prefix_of(line)
    start, end = prefix.end, len(line)
    if _SETTINGS.match(line, start):
        return None
    brace = None if bar else _dictionary(line, start)
    if brace is not None:
        start, end = brace
    items = find_items(line, start, end)
    if isinstance(items, int):
        return items if brace is None else None
    end_sentences(items)
    if brace is not None:
        name_members(line, prefix.end, start, items)
        items = [*counts_before(line, prefix.end, start), *items]
    if items and _LEVELLED.search(line, 0, start):
        drop_logger(items[0])
    if items and (_BEST.search(line, start, items[0].start) or any(_NOT_BETTER.search(item.name) for item in items)):
        return None
    counted_result = trust and COUNTED_RESULT.match(line, start) is not None
    if not (0 < len(items) <= _MOST_NUMBERS and (bar or brace or counted_result or not _is_prose(line, items))):
        return None
    name_items(line, items, start, header, trust=trust, counted_result=counted_result)
    if (_TITLED.match(line, start) or _FRAMED.match(line)) and not any(_says_result(item.name) for item in items):
        return None
    shape = Shape(dictionary=brace is not None)
    said_so = any(phrase in line for phrase in _HELD_OUT_PHRASES)
    shape.validation = said_so or _SAYS_HELD_OUT.search(line, 0, start) is not None
    if _EPOCH_MEANS.match(line) and not shape.validation and not any(item.share and not item.name for item in items):
        _put_below("epoch", items)
    if _SAVED.search(line, start, items[0].start):
        _put_below("checkpoint", items)
    shape.bar = not (items[0].name and items[0].share) and _KERAS.match(line, start) is not None
    _classify(shape, line, items, start, -1 if distrust else 1)
    if header not in {"", "epoch"} and shape.step_name not in {"", header}:
        _take_back_step(shape, items)
    _number_groups(shape, items, prefix)
    shape.summary = shape.dictionary and bool(shape.names & _SUMMARY)
    if not (
        (bar and shape.values)
        or _is_record(shape, line, items, (start, end), bool(header), counted)
        or counted_result
        or (trust and _may_be_record(shape, line, items, start, end))
    ):
        return None
    trained = any(roles.resolve(name).role in _TRAINED for name in shape.names)
    trained |= not (counted or shape.counted) and any(map(_LOSS.search, shape.names))
    lone = trust and NAME_AND_NUMBER.match(line, start) is not None
    shape.training = not shape.validation and (trained or (trust and shape.dictionary) or (lone and not counted))
    within = shape.epoch and not is_global(shape.step_name)
    shape.held_out = shape.validation or any(map(says_validation, shape.names))
    if shape.validation and _OF_TEST.search(line, 0, _first_value(items)):
        shape.split = "test"
    shape.lead = line[start : items[0].start] if brace is None else ""
    shape.stated = shape.plain = bool(shape.step and shape.values) and not (within or shape.dictionary or bar)
    shape.pattern = expression(line, prefix, items, prefix.end if brace else start, end, whole=brace is None)
    return shape if shape.pattern.match(line) else None


def _put_below(folder: str, items: Sequence[Item]) -> None:
    """Give the names that do not count a folder, so that they are series of their own."""
    for item in items:
        if item.name and item.name.lower() not in {*STEP_TRUST, *EPOCHS}:
            item.name = f"{folder}/{item.name}"


def _says_result(name: str) -> bool:
    """Whether a name alone speaks of a loss, a metric or another result."""
    return roles.resolve(name).role in RESULT_ROLES or _METRIC.search(name) is not None or is_score(name)


def _first_value(items: Sequence[Item]) -> int:
    return next((item.start for item in items if item.kind == "value" and not item.skipped), items[-1].start)


def _dictionary(line: str, start: int) -> tuple[int, int] | None:
    """The span of a printed dictionary."""
    begin = line.find("{", start)
    if begin < 0 or line[begin + 1 : begin + 2] not in {"'", '"'}:
        return None
    depth = 0
    for brace in re.finditer(r"[{}]", line[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return begin, begin + brace.end()
    return None


def _is_prose(line: str, items: Sequence[Item]) -> bool:
    """Whether numbers merely stand among words: several words before one, with nothing between them and the last.

    Two numbers with an arrow between them say how something changed, and "==" compares; a path is the name of a file.
    """
    if any(line[item.start - 2 : item.start] == "==" or _PATH.search(item.name) for item in items) or any(
        _CHANGE.match(line[one.end : two.start]) for one, two in pairwise(items)
    ):
        return True
    unsaid = [item for item in items if not item.said and not is_count(item.name)]
    if len(items) > 1 and is_count(items[0].name) and unsaid and unsaid[0] is items[1]:
        del unsaid[0]  # "Step 100 per-step time 0.4s"
    unsaid = [item for item in unsaid if not _SPLIT_RESULT.fullmatch(item.name)]
    return any((" " in item.name and not item.apart) or _SENTENCE.search(item.name) for item in unsaid) or any(
        ". " in item.name and item.name.count(" ") > 1 for item in items
    )


# --- what the items mean -----------------------------------------------------------------------------------------


def _classify(shape: Shape, line: str, items: Sequence[Item], start: int, order: int) -> None:
    """Decide which item is the step, the epoch, the rank. `order`: -1 prefers the step trusted least."""
    step: Item | None = None
    trust = _NO_TRUST
    episodes = any(item.name.lower() in _EPOCHS_AND_EPISODES for item in items)
    seen: set[str] = set()
    for i, item in enumerate(items):
        if item.skipped or item.kind == "average":
            continue
        lead = not i and not shape.bar and not _words(line[start : item.start])
        if item.share and not (item.name or shape.bar or lead or _inside(line, item, items[i - 1] if i else None)):
            item.skipped = True
            continue
        if i and item.share and not item.name and _OF_PERCENT.fullmatch(line, items[i - 1].end, item.start):
            item.skipped = True
            continue
        if episodes and item.name == "ep":
            continue
        part = _part(item, items[i + 1] if i + 1 < len(items) else None, line, shape.dictionary and item.start > start)
        shape.rival |= part.kind == "step" and step is not None
        later = part.kind == "step" and step is items[0] and items[0].name.lower() in _EPISODES and i > 1
        if later and order > 0 and any(known.kind == "value" and known.name for known in items[1:i]):
            item.skipped = True  # "Episode 100  Avg: -250.5 | Steps: 20000  Secs: 60"
            continue
        if part.kind == "step" and step is not None and order * part.trust >= order * trust:
            item.skipped = True
            continue
        if part.kind == "step":
            if step is not None:
                step.skipped = True
            step, trust = item, part.trust
        item.kind = part.kind
        if part.kind == "value" and item.share and trust_of(last := item.name.lower().rpartition(" ")[2]) is not None:
            item.name = last  # "Scenario A Algo B updates 5/1000"
        item.skipped = part.ignored or (part.kind == "value" and item.name in seen)
        shape.validation |= part.held_out
        if part.kind == "value":
            seen.add(item.name)
    shape.validation |= bool(_HELD_OUT_NAMES & seen)
    values = [item for item in items if item.kind in {"value", "average"} and not item.skipped]
    shape.validation |= bool(values) and all(item.held_out or says_validation(item.name) for item in values)
    shape.step_name = "" if step is None else step.name


def _inside(line: str, item: Item, before: Item | None) -> bool:
    """Whether an unnamed "7/100" counts iterations: in brackets, or right behind the epoch."""
    return line[: item.start].rstrip().endswith(("[", "(")) or (before is not None and before.kind == "epoch")


def _take_back_step(shape: Shape, items: Sequence[Item]) -> None:
    """What else counts in a line under a header is a number like the others, if it is alone."""
    kept = [item for item in items if not item.skipped]
    if len(kept) == 1 and not kept[0].share:
        kept[0].kind, shape.step_name = "value", ""


@dataclass(frozen=True, slots=True)
class _Part:
    kind: Literal["step", "epoch", "inner", "rank", "piece", "value"]
    trust: int = _NO_TRUST
    held_out: bool = False
    ignored: bool = False


def _part(item: Item, after: Item | None, line: str, dictionary: bool) -> _Part:
    """What one item is. `after`: the item behind it, which may count iterations."""
    mode = _MODE.search(item.name)
    folder, _, last = _MODE.sub("", item.name).strip().lower().replace("-", "_").rpartition("/")
    words = last.split() or [""]
    joined = "_".join(words)
    head = {*words[:-1], *folder.split("/")} - {""}
    proper = head <= BEFORE_STEP
    held_out = proper and any(SPLITS.get(word) for word in (*head, mode[1].lower() if mode else ""))
    names = (f"{folder}/{last}", joined, words[-1])
    trust = min((found for name in names if (found := trust_of(name)) is not None), default=_NO_TRUST)
    whole = item.share or joined == "kimg" or _WHOLE.fullmatch(line, item.start, item.end) is not None
    counted = after is not None and after.share and not after.name
    split = last in SPLITS
    if item.share and (
        not item.name
        or joined in _OF_DATA
        or joined in _ITERATORS
        or (held_out and trust < _NO_TRUST)
        or (split and not counted)
    ):
        return _Part("inner", held_out=held_out or SPLITS.get(last, False))
    if whole and not dictionary and proper and (words[-1] in EPOCHS or (split and counted)):
        return _Part("epoch", held_out=held_out or SPLITS.get(last, False))
    named = proper or trust == 0 or (joined in STEP_TRUST and not folder)
    if whole and trust < _NO_TRUST and named and (item.said or joined != "s"):
        return _Part("step", trust, held_out)
    if whole and joined == "piece":
        return _Part("piece")
    if whole and joined in _RANKS and line[item.start] != "-":
        return _Part("rank")
    source = joined.endswith(".py") and item.said  # "train.py:40", behind a record
    ignored = not item.name or (joined in _IGNORED and not folder) or len(words) > _MOST_WORDS or source
    return _Part("value", ignored=ignored)


def _number_groups(shape: Shape, items: Sequence[Item], prefix: Prefix) -> None:
    """Give each kept item its group, two for a share; the time and the rank of the prefix come before."""
    spans = sorted(span for span in (prefix.time, prefix.rank) if span)
    shape.time = spans.index(prefix.time) + 1 if prefix.time else 0
    shape.rank = spans.index(prefix.rank) + 1 if prefix.rank else 0
    group, values = len(spans) + 1, []
    averaged = {item.name for item in items if item.kind == "average"}
    for item in (item for item in items if not item.skipped):
        match item.kind:
            case "step":
                shape.step = group
                shape.total = group + 1 if item.share else shape.total
            case "epoch":
                shape.epoch, shape.epoch_name = shape.epoch or group, shape.epoch_name or item.name
            case "inner":
                shape.inner = shape.inner or group
                shape.total = shape.total or group + 1
            case "piece":
                shape.piece = group
            case "rank":
                shape.rank, shape.of_several = group, item.share
            case "average" if not _AVERAGE.match(item.name):
                values.append((group, f"{item.name} (average)"))
            case "value":
                current = item.name in averaged and not _AVERAGE.match(item.name)
                values.append((group, f"{item.name} (current)" if current else item.name))
        group += 2 if item.share else 1
    shape.values = tuple(values)


# --- what is a record --------------------------------------------------------------------------------------------


def _is_record(
    shape: Shape, line: str, items: Sequence[Item], span: tuple[int, int], under_header: bool, counted: bool
) -> bool:
    """Whether what was found is a record: it says where the run stands or is a dictionary, and holds a known metric."""
    found = {roles.resolve(name).role for name in shape.names} - {None}
    if shape.dictionary:
        scores = (shape.counted or counted) and any(map(is_score, shape.names))
        shape.validation |= scores and RESULT_ROLES.isdisjoint(found) and not any(map(TRAIN.search, shape.names))
        return scores or not RESULT_ROLES.isdisjoint(found)
    kept = [item for item in items if not item.skipped] or [items[0]]
    lead = set(re.findall(r"\w+", _TIMES.sub("", line[span[0] : items[0].name_start]).lower()))
    tail = _words(line[items[-1].end : span[1]])
    if not shape.values:
        return shape.counted and not lead - _CLOCK and len(tail) <= 9
    if not lead - _LEAD:
        shape.validation |= any(SPLITS.get(word) for word in lead)
    if shape.counted or shape.bar:
        return _holds_metric(shape, line, kept, found) or _is_row(line, kept)
    end = line[span[0] : span[1]].rstrip()[-1:]
    code = end in {";", "{"} or (end == "," and len(items) == 1) or _QUOTED.match(line, span[0])
    if code or lead - _LEAD or len(tail) > _TAIL or len(items) > _MOST_ITEMS:
        return False
    first = kept[0]
    aside = _ASIDE.match(first.name)
    if aside and not _LEAD.issuperset(aside[1].lower().split()):
        return False
    starred = line[span[0] : first.name_start].strip(" \t") == "*"
    if starred and any(map(is_score, shape.names)):
        shape.validation = True
        return True
    result = counted and len(kept) == 1 and not tail and _HELD_OUT_RESULT.fullmatch(first.name)
    if not (first.said or first.held_out or starred or result or _IDENTIFIER.fullmatch(first.name)):
        return False
    folder, slash, _ = first.name.partition("/")
    shape.validation |= bool(slash) and any(SPLITS.get(word) for word in folder.lower().split())
    return _tells_enough(shape, line, kept, found, under_header, counted)


def _holds_metric(shape: Shape, line: str, kept: Sequence[Item], found: Collection[str | None]) -> bool:
    """Whether a line that counts says how the training goes. Counts that many texts hold need a result beside them."""
    values = [item for item in kept if item.kind == "value"]
    if kept[0].share and not kept[0].name and not shape.bar:
        said = any(item.said for item in values)
        return not RESULT_ROLES.isdisjoint(found) and (said or roles.resolve(values[0].name).role in RESULT_ROLES)
    within = any(item.kind == "epoch" and item.name.lower() not in _PLURAL for item in kept)
    if shape.step_name.lower() in _PLURAL and not (shape.total or within):
        paths = any(item.said and "/" in item.name and _METRIC.search(item.name) for item in values)
        return paths or not RESULT_ROLES.isdisjoint(found)
    return bool(found) or any((item.said and _measures(shape, item)) or _of_split(line, item) for item in values)


def _measures(shape: Shape, item: Item) -> bool:
    """Whether a name says that something was measured; in an evaluation's line every name does."""
    return shape.validation or _METRIC.search(item.name) is not None or is_score(item.name)


def _of_split(line: str, item: Item) -> bool:
    """Whether a number with decimals is said to be of a part of the data and nothing else: "step 5 train: 2.5"."""
    set_apart = (item.said or item.apart) and "." in line[item.start : item.end] and not MEASURED.match(line, item.end)
    return set_apart and item.name.lower() in {*SPLITS, *_SHORT_SPLITS}


def _is_row(line: str, kept: Sequence[Item]) -> bool:
    """Whether a line is nothing but its step and names with decimals, set apart: "iter  5  pre  8.25  post  7.5"."""
    step, *values = kept
    return (
        step.kind == "step"
        and len(values) > 1
        and all(item.apart and " " not in item.name and "." in line[item.start : item.end] for item in values)
    )


def _may_be_record(shape: Shape, line: str, items: Sequence[Item], start: int, end: int) -> bool:
    """Whether a line is its count and names with numbers, of which one at least has decimals and tells no time or size.

    Its names say nothing; lines that follow must. The count leads, unless all numbers are said: "Loss=0.5 | Steps=5".
    """
    kept = [item for item in items if not item.skipped]
    values = [item for item in kept if item.kind == "value"]
    said = all(item.said for item in values)
    if shape.dictionary or NAME_AND_NUMBER.match(line, start):
        return any(_METRIC.search(item.name) and not line[item.start : item.end].isdigit() for item in values)
    leads = kept[0].kind in {"step", "epoch"} or (kept[0].kind == "inner" and said)
    if not shape.counted or not (leads or all(item.said for item in kept)):
        return False
    if shape.step_name.lower() in _NEVER_ALONE and not said:
        return False
    if (
        any(" " in item.name and not (item.said and item.apart) for item in values)
        or len(_words(line[items[-1].end : end])) > 2
    ):
        return False
    return any(
        not line[item.start : item.end].isdigit()
        and not MEASURED.match(line, item.end)
        and roles.resolve(item.name).role not in _WEIGHED
        for item in values
    )


def _tells_enough(
    shape: Shape, line: str, kept: Sequence[Item], found: Collection[str | None], under_header: bool, counted: bool
) -> bool:
    """Whether a line that does not count is a record nevertheless."""
    first, said = kept[0], all(item.said for item in kept if item.kind == "value")
    if under_header and said:
        return True
    if not RESULT_ROLES.isdisjoint(found):
        return roles.resolve(first.name).role in RESULT_ROLES or said
    if any(map(is_score, shape.names)):
        trained = not counted and _LOSS.search(first.name)  # a log that counts nothing: "[D loss: 0.5, acc: 0.75]"
        scores = [name for name in shape.names if is_score(name)]
        said = first.name.lower().startswith("train") or all(map(TRAIN.match, scores))
        shape.validation = not (said or trained or _OF_BATCHES in line)
        return True
    alone = found in ({"tokens_per_sec"}, {"learning_rate"}) or first.name == "epoch time"
    return counted and said and (shape.timed or (bool(found) and (len(shape.values) >= 2 or alone)))


def _words(text: str) -> str:
    return text.strip(" \t\"'`:=[(]){}*>#-/.!~|,;%")
