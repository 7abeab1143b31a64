"""A file system is full, slow or failing."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.witnesses import said
from trainforensics.causes.weight import STRONG, Weight

CAUSE = "storage"
PRIORS: Mapping[str, float] = {
    "checkpoint-failure": 0.75,
    "hang": 0.2,
    "throughput-drop": 0.05,
    "import-integrity": 0.08,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = said(
        case, r"no space left|enospc|disk quota|read-only file system|input/output error|stale file handle", STRONG
    )
    return Weight(reasons, "write and read back a file of the checkpoint's size on the same volume")
