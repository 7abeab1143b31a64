"""A kind of record: what its numbers are, and the expression that reads further lines of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainforensics import roles
from trainforensics.importers.printed.records.expressions import with_words
from trainforensics.importers.printed.text.numbers import LARGEST_COUNT, number_of, whole_number
from trainforensics.importers.printed.text.vocabulary import PLURAL_COUNTS, RESULT_ROLES, TRAIN, is_score
from trainforensics.importers.rows.axes import says_validation

Groups = tuple[str | None, ...]  # what the expression of a shape found in a line


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
    rows: list[Groups] = field(default_factory=list)
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

    def be_evaluation(self) -> None:
        """Take it as one of held-out data."""
        self.validation, self.held_out, self.training, self.plain = True, True, False, False

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
        return all(name.startswith("timers/") for _, name in self.values)

    @property
    def losses(self) -> frozenset[str]:
        """Those that are a training loss."""
        return frozenset(name for name in self.names if roles.resolve(name).role == "train_loss")

    @property
    def only_scores(self) -> bool:
        """Whether all that it holds are metrics, none of which is said to be of the training."""
        return all(is_score(name) and not TRAIN.search(name) for name in self.names)

    @property
    def tells_scores(self) -> bool:
        """Whether metrics are among what it holds, and nothing that is said to be of the training."""
        trained = any(TRAIN.search(name) for name in self.names) or self.losses
        return not (self.validation or trained) and any(map(is_score, self.names))

    @property
    def only_rate(self) -> bool:
        """Whether it is a learning rate alone, which may be an argument."""
        return not self.counted and {roles.resolve(name).role for name in self.names} == {"learning_rate"}

    @property
    def setting(self) -> bool:
        """Whether it may say how much is to be done rather than where the run stands: "steps: 1000", "epochs=5"."""
        name = (self.step_name or self.epoch_name).lower()
        results = any(roles.resolve(value).role in RESULT_ROLES for value in self.names)
        alone = name.split()[-1:] and name.split()[-1] in {*PLURAL_COUNTS, "batch"} and not self.values
        return self.counted and (alone or (name == "epochs" and not results and not self.step))

    @property
    def of_batch_size(self) -> bool:
        """Whether its count may be the size of a batch: "Batch=256 RAM: 6.3 MB", "lr 0.5, batch 64"."""
        planned = self.epoch_name.lower() == "epochs"
        alone = not ((self.epoch and not planned) or self.inner or self.total or self.validation or self.dictionary)
        alone = alone and not any(roles.resolve(name).role in RESULT_ROLES for name in self.names)
        return alone and self.step_name.rpartition(" ")[2].lower() in {"batch", "batches", "minibatch", "mb", "ba"}

    @property
    def of_batches(self) -> bool:
        """Whether it states batches, of an epoch."""
        return self.step_name.lower() in {"batch", "minibatch"}

    @property
    def counted(self) -> bool:
        """Whether it says where the run stands."""
        return bool(self.step or self.inner or self.epoch)
