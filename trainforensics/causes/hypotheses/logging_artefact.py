"""The number is wrong, not the training: its unit, reduction, window, filter or file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.evaluation import validated
from trainforensics.causes.evidence.gradient import gradient, rescaled
from trainforensics.causes.evidence.recovery import recovery
from trainforensics.causes.evidence.restarts import counts_anew
from trainforensics.causes.weight import CLEAR, PROOF, STRONG, Reason, Weight

CAUSE = "logging-artefact"
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.04,
    "resume-discontinuity": 0.02,
    "scale-mismatch": 0.88,
    "import-integrity": 0.9,
    "coverage-gap": 0.9,
    "loss-zero": 0.12,
    "bad-start": 0.22,
    "suspicious-low-loss": 0.06,
    "grad-nan": 0.04,
    "transient-nan": 0.03,
    "val-jump": 0.04,
    "data-shift": 0.02,
    "eval-invalid": 0.03,
    "gradient-explosion": 0.03,
    "plateau": 0.02,
}
PLACES = 4  # of a file that are named
FEWEST_ROWS, UNEVEN = 20, 0.05  # rows that tell a cadence, and gaps in it beyond which it is none


def _against_validation(case: Case) -> list[Reason]:
    """A training loss far above the validation loss of the same weights is another unit, not another model."""
    train, val = case.loss, case.signals.curve("val_loss")
    if train is None or val is None or not len(val.only_finite()):
        return []
    first = val.only_finite()
    at = max(0, train.at(int(first.step[0])))
    mine, theirs = float(train.value[at]), float(first.value[0])
    if theirs > 0 and mine > 2 * theirs:
        return [Reason(STRONG, f"validation of the same weights is {theirs:.4g}, the training loss {mine:.4g}")]
    return [Reason(-CLEAR, f"validation agrees ({theirs:.4g} against {mine:.4g})")]


def _multiplied(case: Case, multiple: int) -> list[Reason]:
    """A loss that a restart multiplies by a whole number while validation goes on is summed, not averaged."""
    text = f"the training loss changed {multiple}-fold, as a sum over micro-batches or ranks would"
    reasons = [Reason(CLEAR, text)]
    val = case.curve("val_loss")
    at = int(np.searchsorted(val.step, case.onset)) if val is not None else 0
    if val is not None and 0 < at < len(val) and val.value[at - 1] > 0:
        before, after = float(val.value[at - 1]), float(val.value[at])
        goes_on = abs(after / before - 1) < 0.25 * (multiple - 1)
        where = f"validation went from {before:.4g} to {after:.4g} meanwhile"
        reasons.append(Reason(STRONG if goes_on else -STRONG, where))
    norm = facts.restarts.joint(case, "grad_norm")
    if norm is not None and norm.before > 0 and abs(norm.after / norm.before - multiple) < 0.3 * multiple:
        reasons.append(Reason(CLEAR, f"the gradient norm changed with it ({norm.before:.3g} to {norm.after:.3g})"))
    return reasons


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = []
    if case.kind == "instant-burst":
        reasons += [*gradient(case, quiet=CLEAR, same=-CLEAR, led=-CLEAR), *recovery(case, slow=-CLEAR)]
        reasons += validated(case, harmed=-STRONG, unharmed=CLEAR)
    reasons += rescaled(case, CLEAR)
    if case.kind == "resume-discontinuity":
        multiple = facts.restarts.multiple(case)
        reasons += _multiplied(case, multiple) if multiple else counts_anew(case, PROOF)
    if case.kind == "bad-start":
        reasons += _against_validation(case)
    return Weight(reasons, _test(case))


def _test(case: Case) -> str:
    """What decides: for a file with parts missing its writer's copy, for a number its own computation."""
    if case.kind == "coverage-gap":
        return "log the missing series for a few steps: what could not be judged then is"
    if case.kind != "import-integrity":
        return "compute the value of one logged step by hand from the model's output"
    places = ", ".join(row.signal for row in case.incident.evidence[:PLACES] if row.signal != case.incident.series)
    what = f"{places} (file under Warnings)" if places else "the rows of these steps"
    steps = _missing_steps(case)
    missing = f", steps {steps} missing," if steps else ""
    return f"read {what}{missing} from the writer's own copy: whole rows there confirm it"


def _missing_steps(case: Case) -> str:
    """The steps that an evenly logged training loss leaves out, the first few stretches of them."""
    if case.loss is None or len(case.loss) < FEWEST_ROWS:
        return ""
    step, cadence = case.loss.step, case.cadence
    gaps = np.flatnonzero(np.diff(step) > cadence)
    if not 0 < len(gaps) <= UNEVEN * len(step):
        return ""
    stretches = [(int(step[at]) + cadence, int(step[at + 1]) - cadence) for at in gaps]
    texts = [f"{first}-{last}" if last > first else f"{first}" for first, last in stretches[:PLACES]]
    return ", ".join(texts) + (f" and {len(stretches) - PLACES} more stretches" if len(stretches) > PLACES else "")
