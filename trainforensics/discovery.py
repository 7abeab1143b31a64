"""Which files below the given paths belong to which run. Looks at names and at the head of each file, reads no metric.

The values decide the rest after import (store/assembly.py): several files of one candidate may still part into runs.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from trainforensics import registry
from trainforensics.errors import UsageError
from trainforensics.importers import indexmap, manifest, markdown, mlflow, runconfig
from trainforensics.importers.base import Head, as_text, read_head
from trainforensics.importers.lines import text_head
from trainforensics.importers.table import columns_of
from trainforensics.model import Checkpoint, Skipped

MARKER = ".trainforensics"

_WEIGHTS = frozenset(
    {
        ".pt",
        ".pth",
        ".ckpt",
        ".bin",
        ".safetensors",
        ".distcp",
        ".npz",
        ".npy",
        ".onnx",
        ".gguf",
        ".h5",
        ".pkl",
        ".msgpack",
    }
)
_NOT_LOGS = frozenset(
    {".py", ".pyc", ".so", ".ipynb", ".sh", ".html", ".lock", ".tar", ".zip", ".mp4", ".wav", ".png", ".jpg"}
    | {".jpeg", ".gif", ".svg", ".pdf"}
)
_LOG_LIKE = frozenset({".csv", ".tsv", ".json", ".jsonl", ".log", ".txt", ".out", ".parquet", ".wandb"})
_CLAIM = 0.05  # an importer less sure than this does not claim the file
_NEAR = 0.25  # a second claim this close to the surest one is worth a word; a reader of anything seldom comes so close
_DEEPEST = 500  # folders, half of what Python's stack holds
_COLUMNS_NAMED = 12
_SAY_WHAT_THEY_ARE = "say which is the step and which the loss with --map NAME=step and --map NAME=train_loss"

_RESULT = '"schema": "trainforensics/result/'
_STAMPED = re.compile(r"\[\d{4}-\d\d-")  # a message of a logger, no list
_CHECKPOINT = re.compile(r"^(checkpoint|ckpt|global_?step|iter|step|model|state|epoch=\d+-step)[-_=]?0*(\d+)$", re.I)
_RANK_FOLDER = re.compile(r"^rank[-_]?\d+$", re.IGNORECASE)
_ATTEMPT = re.compile(r"^attempt_\d+$")  # of torchrun's elastic agent, whose folders are called by the local ranks
_SPLIT_FOLDERS = frozenset({"train", "training", "val", "valid", "validation", "eval", "evaluation", "test"})
_WANDB_RUN = re.compile(r"^(?:offline-)?run-\d{8}_\d{6}-\w+$")
_WANDB_CLIENT = re.compile(r"^(?:debug(?:-internal|-core|-cli\..+)?|core-debug.*)\.log$")
_HYDRA = ".hydra"  # where Hydra keeps a run's configuration
_HF_RUN_DATE = re.compile(r"^[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that an importer claims. `label` is its path relative to the run; `others` claim it nearly as surely."""

    path: Path
    label: str
    format: str
    confidence: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """The importable files of one run folder (or one file given directly). May hold checkpoints and no file."""

    name: str
    folder: Path
    sources: tuple[SourceFile, ...]
    checkpoints: tuple[Checkpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found, and what was looked at and left aside."""

    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]


@dataclass(slots=True)
class _Folder:
    """A folder that may be a run's: its files as path and label. `given`: it is one file, named directly."""

    name: str
    path: Path
    files: list[tuple[Path, str]] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    given: bool = False


@dataclass(slots=True)
class _Walk:
    """State of one discovery: folders in order, everything skipped, everything seen (by device and inode)."""

    options: Mapping[str, str]
    folders: list[_Folder] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)

    def skip(self, path: Path, reason: str, *, unread: bool = False) -> None:
        self.skipped.append(Skipped(as_text(str(path)), reason, unread))

    def first_visit(self, path: Path) -> bool:
        info = path.stat()
        key = (info.st_dev, info.st_ino)
        if key in self.seen:
            return False
        self.seen.add(key)
        return True


def discover(
    paths: Iterable[Path], options: Mapping[str, str] | None = None, known: Mapping[Path, str] | None = None
) -> Discovery:
    """Candidates below the paths, in a stable order. `options`: the roles that --map gives to names.

    `known`: absolute folders and what they are called already; whatever lies below one is named from there on. Raises
    UsageError for a path that does not exist or cannot be opened.
    """
    walk = _Walk(options or {})
    for path in paths:
        _start(Path(path), walk, known or {})
    candidates = [made for folder in walk.folders if (made := _candidate(folder, walk)) is not None]
    return Discovery(tuple(_unique_names(candidates)), tuple(walk.skipped))


def _start(path: Path, walk: _Walk, known: Mapping[Path, str]) -> None:
    try:
        info = path.stat()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be opened ({error.strerror})") from None
    name = (path if path.name not in ("", "..") else path.resolve()).name or "root"
    if stat.S_ISDIR(info.st_mode):
        run = _Folder(_known_name(path, known) or name, path)
        _walk_folder(path, run, run, walk)
    elif stat.S_ISREG(info.st_mode):
        if walk.first_visit(path):
            walk.folders.append(_Folder(name, path.parent, [(path, path.name)], given=True))
    else:
        raise UsageError(f"{path}: neither a file nor a folder")


def _known_name(path: Path, known: Mapping[Path, str]) -> str:
    """What a folder is called by the outermost known one that it lies in, empty where there is none."""
    here = _absolute(path)
    if here in known:
        return known[here]
    above = [folder for folder in here.parents if folder in known]
    return f"{known[above[-1]]}/{here.relative_to(above[-1]).as_posix()}" if above else ""


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  (follows no links, whose names are those given)


def manifests_above(path: Path, known: Collection[Path] = (), levels: int = 0) -> tuple[Path, ...]:
    """Batch manifests of the nearest folder above a given one that has any: they serve what lies below it.

    Looks as far up as the outermost of the `known` folders, else `levels` up.
    """
    above = list(_absolute(path).parents) if path.is_dir() else []
    depth = max((i for i, folder in enumerate(above, 1) if folder in known), default=levels)
    for folder in above[:depth]:
        files = [(file, file.name) for file in _log_like(folder)]
        claimed = _claimed(files, _Folder(folder.name, folder), _Walk({}))
        if found := tuple(source.path for source in claimed if source.format == manifest.FORMAT):
            return found
    return ()


def _log_like(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix.lower() in _LOG_LIKE and file.is_file())
    except OSError:
        return []


def _walk_folder(folder: Path, run: _Folder, own: _Folder, walk: _Walk, closed: bool = False) -> None:
    """Collect the files below `folder`, whose files belong to `run`; `own` is what a run here would be called.

    `closed`: everything from here on down belongs to the run.
    """
    try:
        if not walk.first_visit(folder):
            return
        entries = sorted(os.scandir(folder), key=lambda entry: (entry.is_symlink(), _natural(entry.name)))
    except OSError as error:
        walk.skip(folder, f"cannot be opened ({error.strerror})", unread=True)
        return
    if any(entry.name == MARKER for entry in entries):
        walk.skip(folder, "output of trainforensics")
        return
    if run is own:
        walk.folders.append(run)
    for entry in entries:
        path = Path(entry.path)
        is_folder = _is_folder(entry)
        if (step := _checkpoint_step(path, is_folder)) is not None:
            run.checkpoints.append(Checkpoint(step, as_text(path.relative_to(run.path).as_posix())))
        if not is_folder:
            _take_file(entry, path, run, walk)
        elif entry.is_symlink():  # may lead out of the tree, to anything
            walk.skip(path, "a link to a folder; name it to follow it")
        elif len(path.parts) > _DEEPEST:
            walk.skip(path, f"below {_DEEPEST} folders; name it to look there", unread=True)
        elif entry.name == _HYDRA or not (entry.name.startswith(".") or entry.name == "__pycache__"):
            here = _Folder(f"{own.name}/{entry.name}", path)
            joins = closed or _joins(path, entries)
            _walk_folder(path, run if joins else here, here, walk, joins and (closed or _closes(path)))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder; what cannot be looked up, as links in a loop, is none, and is skipped as a file."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _take_file(entry: os.DirEntry[str], path: Path, run: _Folder, walk: _Walk) -> None:
    try:
        info = entry.stat()
        if not stat.S_ISREG(info.st_mode):
            walk.skip(path, "not a regular file (pipe, socket or device)")
        elif walk.first_visit(path):
            run.files.append((path, path.relative_to(run.path).as_posix()))
    except OSError as error:
        dangling = entry.is_symlink() and isinstance(error, FileNotFoundError)
        reason = "dangling link" if dangling else f"cannot be opened ({error.strerror})"
        walk.skip(path, reason, unread=not entry.is_symlink())


def _joins(folder: Path, siblings: list[os.DirEntry[str]]) -> bool:
    """Whether a folder's files belong to the run that the folder above belongs to."""
    name, parent = folder.name, folder.parent
    if _RANK_FOLDER.match(name) or _closes(folder) or name in ("wandb", "checkpoints", _HYDRA):
        return True
    if _is_attempt(folder) or (_ATTEMPT.match(parent.name) and name.isdecimal()):
        return True
    if name.lower() in _SPLIT_FOLDERS:
        return _splits_one_run(siblings)
    if name == "runs":
        return _has_trainer_state(parent)
    if parent.name == "runs" and _HF_RUN_DATE.match(name):
        return _has_trainer_state(parent.parent)
    return _is_add_scalars(folder)


def _is_attempt(folder: Path) -> bool:
    """Whether torchrun's elastic agent kept here what the processes of one attempt printed, by their local ranks."""
    return _ATTEMPT.match(folder.name) is not None and (folder / "0").is_dir()


def _closes(folder: Path) -> bool:
    """Whether everything below the folder belongs together: a W&B run, a checkpoint, an MLflow run's metrics."""
    return bool(_WANDB_RUN.match(folder.name)) or _checkpoint_step(folder, True) is not None or mlflow.is_part(folder)


def _splits_one_run(siblings: list[os.DirEntry[str]]) -> bool:
    """Whether train/, validation/ ... are halves of one run rather than runs that are called so.

    They are, where logs lie beside them, or nothing but other such folders.
    """
    folders = {entry.name.lower() for entry in siblings if _is_folder(entry)}
    logs = any(
        not _is_folder(entry) and ("tfevents" in entry.name or Path(entry.name).suffix in _LOG_LIKE)
        for entry in siblings
    )
    return logs or folders <= _SPLIT_FOLDERS | {"checkpoints", "wandb"}


def _has_trainer_state(folder: Path) -> bool:
    """Whether a Hugging Face trainer saved its state or checkpoints here."""
    try:
        return (folder / "trainer_state.json").is_file() or any(folder.glob("checkpoint-*/trainer_state.json"))
    except OSError:
        return False


def _is_add_scalars(folder: Path) -> bool:
    """TensorBoard's add_scalars("a/b", {"c": ...}) writes one event file with the tag a/b into a folder a_b_c."""
    try:
        files = [path for path in folder.iterdir() if path.is_file()]
        if not files or not all("tfevents" in path.name for path in files) or not any(folder.parent.glob("*tfevents*")):
            return False
        head = read_head(files[0]).data.replace(b"/", b"_").replace(b" ", b"_")
    except OSError:
        return False
    pieces = folder.name.split("_")
    prefixes = ["_".join(pieces[:end]).encode() for end in range(1, len(pieces))]
    # A tag is field 1 of a summary value: 0x0a, its length, its bytes.
    return any(b"\x0a" + bytes([len(prefix)]) + prefix in head for prefix in prefixes if 0 < len(prefix) < 128)


def _checkpoint_step(path: Path, is_folder: bool) -> int | None:
    """The step that a checkpoint's name gives; names that others use as well count only where weights lie."""
    suffix = path.suffix.lower()
    match = _CHECKPOINT.match(path.stem if suffix in _WEIGHTS else path.name)
    if match is None or (not is_folder and suffix not in _WEIGHTS):
        return None
    if is_folder and match[1].lower() in ("step", "model", "state", "iter") and not _holds_weights(path):
        return None
    return int(match[2])


def _holds_weights(folder: Path) -> bool:
    try:
        return any(Path(entry.name).suffix.lower() in _WEIGHTS for entry in os.scandir(folder))
    except OSError:
        return False


def _candidate(folder: _Folder, walk: _Walk) -> Candidate | None:
    pages = [file for file in folder.files if file[0].suffix.lower() in markdown.SUFFIXES]
    logs = [file for file in folder.files if file not in pages]
    sources = _claimed(logs, folder, walk)
    if any(source.format != runconfig.FORMAT for source in sources) and not folder.given:
        for path, _ in pages:
            walk.skip(path, "says what the logs beside it say")
    else:
        sources += _claimed(pages, folder, walk)
    if not sources and not folder.checkpoints:
        return None
    checkpoints = tuple(sorted(set(folder.checkpoints), key=lambda checkpoint: checkpoint.step))
    return Candidate(as_text(folder.name), folder.path, sources, checkpoints)


def _claimed(files: Iterable[tuple[Path, str]], folder: _Folder, walk: _Walk) -> tuple[SourceFile, ...]:
    found = (_claim(path, label, walk, folder.given) for path, label in files)
    return tuple(source for source in found if source is not None)


def _claim(path: Path, label: str, walk: _Walk, given: bool) -> SourceFile | None:
    """The surest importer of a file, or None with the reason noted."""
    suffix = path.suffix.lower()
    if suffix in _WEIGHTS and not given and not indexmap.is_part(path.name):
        walk.skip(path, "weights or optimiser state, not a log")
        return None
    if not given and _WANDB_CLIENT.match(path.name) and any(map(_is_wandb, path.parents)):
        walk.skip(path, "what the W&B client says of itself")
        return None
    if suffix in _NOT_LOGS and not (given or runconfig.is_script(path)):
        walk.skip(path, f"not a log ({suffix})")
        return None
    try:
        head = replace(read_head(path), options=walk.options)
    except OSError as error:
        walk.skip(path, f"cannot be opened ({error.strerror or error})", unread=True)
        return None
    if head.size == 0:
        walk.skip(path, "empty file")
        return None
    claims = sorted(_claims(head), key=lambda claim: -claim[0])
    if not claims:
        walk.skip(path, _guess(head), unread=not head.data)
        return None
    confidence, importer = claims[0]
    near = tuple(other.FORMAT for claim, other in claims[1:] if confidence - claim < _NEAR)
    return SourceFile(path, as_text(label), importer.FORMAT, confidence, near)


def _is_wandb(folder: Path) -> bool:
    return folder.name == "wandb" or _WANDB_RUN.match(folder.name) is not None


def _claims(head: Head) -> Iterator[tuple[float, ModuleType]]:
    for importer in registry.importers().modules:
        try:
            confidence = float(importer.sniff(head))
        except Exception:
            continue
        if confidence > _CLAIM:
            yield confidence, importer


def _guess(head: Head) -> str:
    """What a file that nobody claimed most likely is."""
    data = head.data
    if not data:
        return "compressed file that cannot be read"
    if columns := columns_of(head):
        more = f" and {len(columns) - _COLUMNS_NAMED} more" if len(columns) > _COLUMNS_NAMED else ""
        shown = ", ".join(as_text(name) for name in columns[:_COLUMNS_NAMED])
        return f"table without recognisable metrics (columns {shown}{more}); {_SAY_WHAT_THEY_ARE}"
    if b"\x00" in text_head(data)[:4096]:
        return "binary file of no known log format"
    text = data[:4096].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith("{") and _RESULT in text:
        return "a saved result, no log; give the file itself, or the whole output folder"
    if text[:1] in "{[" and not _STAMPED.match(text):
        return "JSON without recognisable metrics"
    if text.count(",") > 3 * text.count("\n"):
        return "table without recognisable metrics"
    return "text without recognisable metrics; lines such as `step 10 loss 2.31` are read"


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts rank_2 before rank_10."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", name) if p]


def _unique_names(candidates: list[Candidate]) -> Iterator[Candidate]:
    taken: set[str] = set()
    for candidate in candidates:
        name, count = candidate.name, 1
        while name in taken:
            count += 1
            name = f"{candidate.name}-{count}"
        taken.add(name)
        yield Candidate(name, candidate.folder, candidate.sources, candidate.checkpoints)
