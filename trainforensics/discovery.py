"""Which files below the given paths belong to which run. Looks at names and at the head of each file, reads no metric.

The values decide the rest after import (store/assembly.py): several files of one candidate may still part into runs.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from trainforensics import registry
from trainforensics.errors import UsageError
from trainforensics.importers.base import Head, read_head
from trainforensics.model import Checkpoint, Skipped

MARKER = ".trainforensics"

_WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp", ".npz", ".npy", ".onnx", ".gguf", ".h5", ".pkl")
_NOT_LOGS = (
    *(".py", ".pyc", ".so", ".ipynb", ".sh", ".md", ".html", ".lock", ".tar", ".zip", ".mp4", ".wav"),
    *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf"),
)
_FALLBACK_CONFIDENCE = 0.05
_CHECKPOINT = re.compile(r"^(?:checkpoint|ckpt|global_?step|iter|step|model|state|epoch=\d+-step)[-_=]?0*(\d+)$")
_RANK_FOLDER = re.compile(r"^rank[-_]?\d+$", re.IGNORECASE)
_SPLIT_FOLDERS = frozenset({"train", "training", "val", "valid", "validation", "eval", "evaluation", "test"})
_WANDB_RUN = re.compile(r"^(?:offline-)?run-\d{8}_\d{6}-\w+$")
_HF_RUN_DATE = re.compile(r"^[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_")
_CHECKPOINT_FOLDER = re.compile(r"^checkpoint-\d+$")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that an importer claims. `label` is its path relative to the run; `others` claimed it less surely."""

    path: Path
    label: str
    format: str
    confidence: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """The importable files of one run folder (or one file given directly)."""

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
    name: str
    path: Path
    files: list[tuple[Path, str]] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    """State of one discovery: folders by (argument, path), everything skipped, everything seen."""

    folders: dict[tuple[str, Path], _Folder] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)

    def skip(self, path: Path, reason: str) -> None:
        self.skipped.append(Skipped(str(path), reason))

    def first_visit(self, path: Path) -> bool:
        info = path.stat()
        key = (info.st_dev, info.st_ino)
        if key in self.seen:
            return False
        self.seen.add(key)
        return True


def discover(paths: Iterable[Path]) -> Discovery:
    """Candidates below the paths, in a stable order.

    Raises UsageError for a path that does not exist or cannot be opened.
    """
    walk = _Walk()
    for path in paths:
        _start(Path(path), walk)
    candidates = [made for folder in walk.folders.values() if (made := _candidate(folder, walk)) is not None]
    return Discovery(tuple(_unique_names(candidates)), tuple(walk.skipped))


def _start(path: Path, walk: _Walk) -> None:
    try:
        info = path.stat()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be opened ({error.strerror})") from None
    name = path.name if path.name not in ("", "..") else path.resolve().name
    name = name or "run"
    if stat.S_ISDIR(info.st_mode):
        _walk_folder(path, path, name, walk)
    elif stat.S_ISREG(info.st_mode):
        if walk.first_visit(path):
            folder = walk.folders.setdefault((name, path), _Folder(name, path.parent))
            folder.files.append((path, path.name))
    else:
        raise UsageError(f"{path}: neither a file nor a folder")


def _walk_folder(root: Path, folder: Path, name: str, walk: _Walk) -> None:
    """Collect the files below `folder` into the run folders they belong to."""
    try:
        if not walk.first_visit(folder):
            return
        entries = sorted(os.scandir(folder), key=lambda entry: _natural(entry.name))
    except OSError as error:
        walk.skip(folder, f"cannot be opened ({error.strerror})")
        return
    if any(entry.name == MARKER for entry in entries):
        walk.skip(folder, "output of trainforensics")
        return
    home = _home(root, folder)
    run_name = "/".join((name, *home.relative_to(root).parts))
    run = walk.folders.setdefault((name, home), _Folder(run_name, home))
    for entry in entries:
        path = Path(entry.path)
        step = _checkpoint_step(entry.name)
        if step is not None:
            run.checkpoints.append(Checkpoint(step, path.relative_to(home).as_posix()))
        if entry.is_dir():
            if not entry.name.startswith(".") and entry.name != "__pycache__":
                _walk_folder(root, path, name, walk)
            continue
        _take_file(entry, path, run, walk)


def _take_file(entry: os.DirEntry[str], path: Path, run: _Folder, walk: _Walk) -> None:
    try:
        info = entry.stat()
        if not stat.S_ISREG(info.st_mode):
            walk.skip(path, "not a regular file (pipe, socket or device)")
        elif walk.first_visit(path):
            run.files.append((path, path.relative_to(run.path).as_posix()))
    except OSError as error:
        broken = "dangling link" if entry.is_symlink() else f"cannot be opened ({error.strerror})"
        walk.skip(path, broken)


def _home(root: Path, folder: Path) -> Path:
    """The run folder that a writer's sub-folder belongs to; never above the argument."""
    while folder != root and _joins_parent(folder):
        folder = folder.parent
    return folder


def _joins_parent(folder: Path) -> bool:
    name, parent = folder.name, folder.parent
    if name.lower() in _SPLIT_FOLDERS or _RANK_FOLDER.match(name) or name == "wandb":
        return True
    if _WANDB_RUN.match(name) or (name in ("files", "logs", "tmp") and _WANDB_RUN.match(parent.name)):
        return True
    if _CHECKPOINT_FOLDER.match(name) or _checkpoint_step(name) is not None or name == "checkpoints":
        return True
    if name == "runs":
        return _has_trainer_state(parent)
    if parent.name == "runs" and _HF_RUN_DATE.match(name):
        return _has_trainer_state(parent.parent)
    return _is_add_scalars(folder)


def _has_trainer_state(folder: Path) -> bool:
    """Whether a Hugging Face trainer saved its state or checkpoints here."""
    return (folder / "trainer_state.json").is_file() or any(folder.glob("checkpoint-*/trainer_state.json"))


def _is_add_scalars(folder: Path) -> bool:
    """TensorBoard's add_scalars("a/b", {"c": ...}) writes one event file with the tag a/b into a folder a_b_c."""
    if not any(folder.parent.glob("*tfevents*")):
        return False
    files = [path for path in folder.iterdir() if path.is_file()]
    if not files or not all("tfevents" in path.name for path in files):
        return False
    pieces = folder.name.split("_")
    prefixes = ["_".join(pieces[:end]) for end in range(1, len(pieces))]
    head = read_head(files[0]).data.replace(b"/", b"_").replace(b" ", b"_")
    # A tag is field 1 of a summary value: 0x0a, its length, its bytes.
    return any(b"\x0a" + bytes([len(p)]) + p.encode() in head for p in prefixes if 0 < len(p.encode()) < 128)


def _checkpoint_step(name: str) -> int | None:
    stem = name
    for suffix in _WEIGHTS:
        stem = stem.removesuffix(suffix)
    match = _CHECKPOINT.match(stem)
    return int(match[1]) if match else None


def _candidate(folder: _Folder, walk: _Walk) -> Candidate | None:
    sources = tuple(source for path, label in folder.files if (source := _claim(path, label, walk)) is not None)
    if not sources:
        return None
    return Candidate(folder.name, folder.path, sources, tuple(sorted(set(folder.checkpoints), key=lambda c: c.step)))


def _claim(path: Path, label: str, walk: _Walk) -> SourceFile | None:
    """The surest importer of a file, or None with the reason noted."""
    suffix = path.suffix.lower()
    if suffix in _WEIGHTS and suffix != ".h5":
        walk.skip(path, "weights or optimiser state, not a log")
        return None
    if suffix in _NOT_LOGS or path.name == MARKER:
        walk.skip(path, f"not a log ({suffix or path.name})")
        return None
    try:
        head = read_head(path)
    except OSError as error:
        walk.skip(path, f"cannot be opened ({error.strerror or error})")
        return None
    if head.size == 0:
        walk.skip(path, "empty file")
        return None
    claims = sorted(_claims(head), key=lambda claim: -claim[0])
    if not claims:
        walk.skip(path, _guess(head))
        return None
    confidence, importer = claims[0]
    return SourceFile(path, label, importer.FORMAT, confidence, tuple(other.FORMAT for _, other in claims[1:]))


def _claims(head: Head) -> Iterator[tuple[float, ModuleType]]:
    for importer in registry.importers().modules:
        try:
            confidence = float(importer.sniff(head))
        except Exception:
            continue
        if confidence > _FALLBACK_CONFIDENCE:
            yield confidence, importer


def _guess(head: Head) -> str:
    """What a file that nobody claimed most likely is."""
    data = head.data
    if not data:
        return "compressed file that cannot be read"
    if b"\x00" in data[:4096]:
        return "binary file of no known log format"
    text = data[:4096].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text[:1] in "{[":
        return "JSON without recognisable metrics"
    if text.count(",") > 3 * text.count("\n"):
        return "table without recognisable metrics"
    return "text without recognisable metrics"


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts rank_2 before rank_10."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", name) if p]


def _unique_names(candidates: list[Candidate]) -> Iterator[Candidate]:
    taken: set[str] = set()
    for candidate in candidates:
        name, count = candidate.name, 1
        while name in taken:
            count += 1
            name = f"{candidate.name}-{count}"
        taken.add(name)
        yield Candidate(name, candidate.folder, candidate.sources, candidate.checkpoints)
