"""What the path of a source says: its rank, its split, its sub-folder, its W&B run, and what the run is called."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

_RANK = re.compile(r"(?:^|[/._-])rank[-_]?(\d+)(?=$|[/._-])", re.IGNORECASE)
_LOCAL_RANK = re.compile(r"(?:^|(?<=/))attempt_\d+/(\d+)/")  # where torchrun's elastic agent keeps what is printed
_HELD_OUT = re.compile(r"(?:^|[._-])(val|valid|validation|eval|evaluation|test)(?=$|[._-])", re.IGNORECASE)
_ORDINARY_STEM = re.compile(
    r"^(metrics?|logs?|train|training|trainer|state|history|progress|results?|output|stdout|stderr|console|events|job|nohup"
    r"|slurm|scalars?|loss|run|data|export|summary|wandb|main|out|epochs?|steps?|iters?|batch|table|tb|rank|err"
    r"|[\d._-]|[._-])*$",
    re.IGNORECASE,
)
_WANDB_RUN = re.compile(r"(?:^|/)(?:offline-)?run-\d{8}_\d{6}-(\w+)(?=/|$)")
# Sub-folders that say nothing about a series: those of W&B, of Hugging Face, of MLflow, of ranks and of checkpoints.
_SILENT_FOLDER = re.compile(
    r"^(wandb|files|logs|tmp|runs|checkpoints|metrics|(offline-)?run-\d{8}_\d{6}-\w+|[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.*"
    r"|rank[-_]?\d+|(checkpoint|ckpt|global_?step|iter|step|model|state)[-_=]?\d+)$",
    re.IGNORECASE,
)
_WORD_END = re.compile(r"[._-]+")


class Said(NamedTuple):
    """What a path names; `split` and `folder` are empty without."""

    rank: int | None
    split: str
    folder: str


@lru_cache(4096)
def path_says(label: str) -> Said:
    """Rank, split and folder as a path names them; asked again for every pair of files."""
    path = PurePosixPath(label)
    rank, split = _RANK.search(label), _HELD_OUT.search(path.stem)
    parts = PurePosixPath(_LOCAL_RANK.sub("", label)).parent.parts
    folder = "/".join(part for part in parts if not _SILENT_FOLDER.match(part))
    return Said(int(rank[1]) if rank else None, split[1].lower() if split else "", folder)


def local_rank(label: str) -> int | None:
    """The rank within its node, where torchrun kept what each one printed."""
    local = _LOCAL_RANK.search(label)
    return int(local[1]) if local else None


@lru_cache(4096)
def wandb_id(label: str) -> str | None:
    """The run id in the name of the W&B folder that a file lies in."""
    match = _WANDB_RUN.search(label)
    return match[1] if match else None


def may_be_of_one_run(a: str, b: str) -> bool:
    """Whether the names of two files could be those of one run: alike, or one of them says nothing in particular."""
    return alike(a, b) or any(_ORDINARY_STEM.match(_stem(label)) for label in (a, b))


def alike(a: str, b: str) -> bool:
    """Whether two files have one name, but for the split and what says nothing in particular."""
    subjects = [[word for word in _WORD_END.split(_stem(label)) if not _ORDINARY_STEM.match(word)] for label in (a, b)]
    return subjects[0] == subjects[1]


def _stem(label: str) -> str:
    return _HELD_OUT.sub("", PurePosixPath(label).name.split(".")[0]).strip("._-")
