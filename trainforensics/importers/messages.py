"""What a message or a record type says happened: a checkpoint, a restart, an overflow, an error."""

from __future__ import annotations

import re

# The first that matches counts. Underscores and hyphens are blanks.
_KINDS = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            "checkpoint-failed",
            r"(?:checkpoint|ckpt|sav(?:e|ing))\b.*\b(?:fail|error|corrupt|could not|unable)"
            r"|\b(?:failed|unable|could not|not)\b.*(?:sav|writ).*(?:checkpoint|ckpt)"
            r"|(?:checkpoint|ckpt)\b.*\bnot (?:saved|written)",
        ),
        ("overflow", r"\boverflow|\bfound inf\b"),
        (
            "update-skipped",
            r"\bskip(?:s|ped|ping)?\b.*\b(?:updat(?:es?|ing)|optimi[sz]er steps?)\b|\bupdates? skipped\b",
        ),
        (
            "checkpoint-loaded",
            r"\b(?:(?:re)?load|restor)(?:ed|ing|e)?\b.*(?:checkpoint|ckpt|state|weights|snapshot)"
            r"|(?:checkpoint|ckpt|weights|snapshot)\b.*\b(?:(?:re)?load|restor)(?:ed|ing|e)?\b"
            r"|^restor(?:e|ed|ing)$",
        ),
        (
            "restart",
            r"\bresum(?:e|ed|ing|ption)\b|\bre ?start(?:ed|ing)?\b|\brelaunch|\brequeued?\b|\brolle?d? ?back\b"
            r"|\bcontinu(?:e|ed|ing) (?:from|training)\b",
        ),
        (
            "checkpoint",
            r"sav(?:e|ed|ing)\b.*(?:checkpoint|ckpt|model|state)|(?:checkpoint|ckpt).*\b(?:saved|written)"
            r"|^(?:checkpoint|ckpt|save)$",
        ),
        ("oom", r"out of memory|\boom\b"),
        ("preemption", r"\bpreempt|\bsigterm\b"),
        ("nccl-timeout", r"\bnccl\b.*time ?out|watchdog.*time ?out"),
        ("traceback", r"\btraceback\b"),
        ("error", r"\b(?:error|exception|fatal|crash(?:ed)?)\b"),
        ("warning", r"\bwarn(?:ing)?\b"),
    )
)  # fmt: skip


def event_kind(text: str) -> str | None:
    """The kind of event that a text tells of, or None."""
    plain = re.sub(r"[_-]", " ", text).strip()
    return next((kind for kind, pattern in _KINDS if pattern.search(plain)), None)
