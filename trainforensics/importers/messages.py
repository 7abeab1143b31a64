"""What a message or a record type says happened: a checkpoint, a restart, an overflow, an error."""

from __future__ import annotations

import re

_LONGEST = 4000  # characters of a text that are looked at
# The first that matches counts. Underscores and hyphens are blanks. ".*" parts what must follow one another in a line.
_KINDS = tuple(
    (kind, tuple(tuple(re.compile(piece, re.IGNORECASE) for piece in way.split(".*")) for way in ways))
    for kind, ways in (
        (
            "checkpoint-failed",
            (
                r"(?:checkpoint|ckpt|sav(?:e|ing))\b.*\b(?:fail(?!safe)|error|corrupt|could not|unable)",
                r"\b(?:failed|unable|could not|not)\b.*(?:sav|writ).*(?:checkpoint|ckpt)",
                r"(?:checkpoint|ckpt)\b.*\bnot (?:saved|written)",
            ),
        ),
        ("overflow", (r"\boverflow|\bfound inf\b",)),
        (
            "update-skipped",
            (r"\bskip(?:s|ped|ping)?\b.*\b(?:updat(?:es?|ing)|optimi[sz]er steps?)\b", r"\bupdates? skipped\b"),
        ),
        (
            "checkpoint-loaded",
            (
                r"\b(?:(?:re)?load|restor)(?:ed|ing|e)?\b.*(?:checkpoint|ckpt|state|weights|snapshot)",
                r"(?:checkpoint|ckpt|weights|snapshot)\b.*\b(?:(?:re)?load|restor)(?:ed|ing|e)?\b",
                r"^restor(?:e|ed|ing)$",
            ),
        ),
        (
            "restart",
            (
                r"\bresum(?:e|ed|ing|ption)\b|\brelaunch|\brequeued?\b|\brolle?d? ?back\b"
                r"|\bre ?start(?:ed|ing)?\b(?! (?:the )?(?:learning rate|lr|schedule|cosine|cycle|warm))"
                r"|\bcontinu(?:e|ed|ing) (?:from|training)\b",
            ),
        ),
        (
            "checkpoint",
            (
                r"sav(?:e|ed|ing)\b.*(?:checkpoint|ckpt|model|state)",
                r"(?:checkpoint|ckpt).*\b(?:saved|written)",
                r"^(?:checkpoint|ckpt|save)$",
            ),
        ),
        ("oom", (r"out of memory|\boom\b",)),
        ("preemption", (r"\bpreempt|\bsigterm\b",)),
        ("nccl-timeout", (r"\bnccl\b.*time ?out", r"watchdog.*time ?out")),
        ("traceback", (r"\btraceback\b",)),
        ("error", (r"\b(?:error|exception|fatal|crash(?:ed)?)\b",)),
        ("warning", (r"\bwarn(?:ing)?\b",)),
    )
)


def event_kind(text: str) -> str | None:
    """The kind of event that a text tells of, or None."""
    plain = re.sub(r"[_-]", " ", text.strip()[:_LONGEST]).strip()
    return next((kind for kind, ways in _KINDS if any(_said(way, plain) for way in ways)), None)


def _said(pieces: tuple[re.Pattern[str], ...], text: str) -> bool:
    """Whether the pieces follow one another in a line. Looked for in turn they cost what one does; ".*" is a power."""
    if len(pieces) == 1:
        return pieces[0].search(text) is not None
    return any(_follow(pieces, line) for line in text.split("\n"))


def _follow(pieces: tuple[re.Pattern[str], ...], line: str) -> bool:
    at = 0
    for piece in pieces:
        found = piece.search(line, at)
        if found is None:
            return False
        at = found.end()
    return True
