"""Whether a run was started from a checkpoint of another: what says so beyond a first step above zero.

A run may begin to log late for reasons of its own, and its neighbours are then no parents of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from trainforensics.blame.described import flat
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import point_noise
from trainforensics.signals.restarts import RESUME_EVENTS
from trainforensics.signals.run import stack

GAP = 3  # logged points between the end of the one and the begin of the other
FEWEST_COMMON = 8  # steps that both logged, fewer show no course
SHARED = 0.5  # noise of the difference in that of independent runs

_NAMED = re.compile(r"resum|continu|restart|restor|reload|relaunch|(?:from|ckpt|checkpoint)[-_]?\d", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*(?:version|part|attempt|try|segment|chunk))[-_]?(\d+)$", re.IGNORECASE)
_SETTING = re.compile(
    r"(?:^|[._/-])(?:(?:resume|restore)(?:_(?:from|checkpoint|ckpt|path|step|training|run|id)\w*)?|ckpt_path|load(?:_from)?_(?:checkpoint|ckpt)\w*|load_from|init_from"
    r"|from_(?:checkpoint|ckpt))$",
    re.IGNORECASE,
)
_UNSET = frozenset({"", "none", "null", "false", "no", "0", "scratch", "never", "auto", "allow", "must", "random"})


def is_continued(earlier: Signals, later: Signals, old: Curve, new: Curve) -> bool:
    """Whether the later run goes on from the earlier one, whose losses are `new` and `old`.

    It follows right behind it; or a name, a setting, a message or a checkpoint says so; or its loss comes back to the
    course of the other. Numbered starts of one training count where the later one gets further.
    """
    border, end, cadence = int(new.step[0]), int(old.step[-1]), max(old.cadence, new.cadence)
    if border > end:
        return border <= end + GAP * cadence
    if _says_so(later, border + cadence) or any(0 <= border - saved.step <= cadence for saved in earlier.checkpoints):
        return True
    further = int(new.step[-1]) > end
    return (further and _is_next(earlier.run, later.run)) or _takes_the_course(old, new)


def _says_so(run: Signals, begun: int) -> bool:
    """Whether the run's name, a setting, or a message up to the step `begun` says that it was resumed."""
    if _NAMED.search(PurePosixPath(run.run).name) or any(_resumes(key, value) for key, value in flat(run.config)):
        return True
    early = (event for event in run.events if event.step is None or event.step <= begun)
    return any(event.kind.replace("_", "-").replace(" ", "-") in RESUME_EVENTS for event in early)


def _resumes(key: str, value: Any) -> bool:
    is_set = not isinstance(value, Mapping) and str(value).strip().lower() not in _UNSET
    return is_set and _SETTING.search(key) is not None


def _is_next(earlier: str, later: str) -> bool:
    """Whether two names are those of one start and the next (`version_0`, `version_1`)."""
    matches = [_NUMBERED.match(PurePosixPath(name).name) for name in (earlier, later)]
    found = [(match[1], int(match[2])) for match in matches if match is not None]
    return len(found) == 2 and found[1] == (found[0][0], found[0][1] + 1)


@np.errstate(all="ignore")
def _takes_the_course(old: Curve, new: Curve) -> bool:
    """Whether the losses share their noise on common steps, or agree within it in the second half of them."""
    matrix = stack([old, new])
    if matrix is None:
        return False
    mine, theirs = matrix.value[:, np.isfinite(matrix.value).all(axis=0)]
    if len(mine) < FEWEST_COMMON:
        return False
    noise = math.hypot(point_noise(mine), point_noise(theirs))
    half = len(mine) // 2
    return point_noise(mine - theirs) <= SHARED * noise or abs(float(np.median((mine - theirs)[half:]))) <= noise
