"""Which checkpoints a run has: those beside its logs, those the log calls saved, failing both those it resumed from.

One that a message calls failed or unreadable is none, unless a later message calls it saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trainforensics.model import Checkpoint, Event
from trainforensics.signals.curve import Ints
from trainforensics.signals.restarts import RESUME_EVENTS

SAVED = frozenset({"checkpoint", "checkpoint-saved"})
NEAR_STEPS, NEAR = 10, 0.1  # or share of the step: a save that runs beside the training ends later
AT_START = 10  # logged points before the first within which a run that was resumed there was saved
_THING = r"(?:checkpoints?|ckpts?|model state|optimizer state|[\w./-]+\.(?:pt|pth|ckpt|safetensors|distcp))"
_BAD = (
    r"(?:fail(?!safe)\w*|errno|could not|cannot|unable|corrupt\w*|no space left|\w*error|not saved|truncated"
    r"|incomplete)"
)
_FAILED = re.compile(rf"\b{_BAD}\b.*\b{_THING}|\b{_THING}.*\b{_BAD}\b", re.IGNORECASE)
_OF_A_GAME = re.compile(r"/[GD]_0*(\d+)\.pth\b")  # "at iteration 6 to logs/G_1000.pth": in the sixth epoch (VITS)
_STEP = re.compile(
    r"(?:checkpoint|ckpt|global_?step|iter(?:ation)?|step)s?[-_=:/# ]*0*(\d+)|@\s*(\d+)\s+(?:updates|steps|iterations)",
    re.IGNORECASE,
)
_GAVE_UP = frozenset({"error", "warning", "traceback", "console", "checkpoint", "checkpoint-failed", "text", "message"})


def known(beside: Iterable[Checkpoint], events: Sequence[Event], logged: Ints) -> tuple[Checkpoint, ...]:
    """The checkpoints of a run by step. `beside`: files and folders found; `logged`: its steps, shape (n,), sorted."""
    found = saved(beside, events) or {checkpoint.step: checkpoint for checkpoint in _resumed_from(events, logged)}
    return tuple(found[step] for step in sorted(found))


def saved(beside: Iterable[Checkpoint], events: Iterable[Event]) -> dict[int, Checkpoint]:
    """What lies beside the logs, and what messages call saved, by step."""
    found = {checkpoint.step: checkpoint for checkpoint in beside}
    for event in events:
        failed = tells_of_failure(event)
        step = step_of(event) if failed or event.kind in SAVED else None
        if step is not None and failed:
            found.pop(step, None)
        elif step is not None:
            found.setdefault(step, Checkpoint(step, event.source))
    return found


def _resumed_from(events: Sequence[Event], logged: Ints) -> list[Checkpoint]:
    """Checkpoints that the run came back from; not one of another run, whose step this one had not reached."""
    if not len(logged):
        return []
    earliest = int(logged[0]) - AT_START * (int(logged[min(AT_START, len(logged) - 1)]) - int(logged[0])) // AT_START
    loads = [event for event in events if event.kind in RESUME_EVENTS and event.step is not None]
    named = [(step, event) for event in loads if (step := _named(event.text)) is not None]
    return [
        Checkpoint(step, event.source)
        for step, event in named
        if earliest <= step <= int(logged[-1]) and event.step is not None and step <= event.step + 1
    ]


def tells_of_failure(event: Event) -> bool:
    """Whether a message says that a checkpoint could not be written or read."""
    told = event.kind in _GAVE_UP and any(_FAILED.search(line) for line in event.text.splitlines())
    return event.kind == "checkpoint-failed" or told


def line_of(event: Event) -> str:
    """The line of a message that tells of the failure, else its last."""
    lines = [line for line in event.text.splitlines() if line.strip()] or [event.kind]
    line = next((line for line in lines if _FAILED.search(line)), lines[-1])
    return " ".join(line.split())[:200]


def step_of(event: Event) -> int | None:
    """The step that a message about a checkpoint names, unless that counts something else (epochs, files) than where it
    was printed."""
    line = line_of(event)
    if (of_file := _OF_A_GAME.search(line)) is not None:
        return int(of_file[1])
    step = _named(line)
    if step is None or event.step is None:
        return event.step if step is None else step
    return step if abs(step - event.step) <= max(NEAR_STEPS, NEAR * event.step) else event.step


def _named(text: str) -> int | None:
    """The step that a text names."""
    found = _OF_A_GAME.search(text) or _STEP.search(text)
    return int(next(number for number in found.groups() if number)) if found is not None else None
