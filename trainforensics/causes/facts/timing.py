"""Where the incident lies in the log, and how often it comes."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once

EARLY_POINTS = 10  # logged points of the training loss in which nothing has been learnt yet


@once
def points_before(case: Case) -> int:
    """Logged points of the training loss before the onset."""
    return int(np.searchsorted(case.loss.step, case.onset)) if case.loss else 0


def points_after(case: Case) -> int:
    """Logged points of the training loss after the onset."""
    return len(case.loss) - int(np.searchsorted(case.loss.step, case.onset, side="right")) if case.loss else 0


def early(case: Case) -> bool:
    """Within the first points of the log, when nothing has been learnt yet."""
    return case.incident.onset_step is not None and points_before(case) <= EARLY_POINTS


def times(case: Case) -> int:
    """How often the incident happened."""
    return max(1, len(case.incident.occurrences))


@once
def period(case: Case) -> int | None:
    """Steps between occurrences that come like clockwork, three or more of them; else None."""
    gaps = np.diff(np.array(sorted(case.incident.occurrences), dtype=np.float64))
    if len(gaps) < 2:
        return None
    usual = float(np.median(gaps))
    return int(usual) if float(np.abs(gaps - usual).max()) <= max(2 * case.cadence, 0.05 * usual) else None
