"""The dynamic loss scale keeps falling, or sits on its floor.

What it detects:
    Consecutive reductions of the loss scale without growth in between, deeper than the run's own habits, from the
    series or from overflow messages; and overflows that go on while the scale cannot fall any further.

Why it matters:
    A scale that only falls says that every attempt to grow meets an overflow: activations or gradients have outgrown
    fp16. Small gradients are then flushed to zero. It has led a divergence by about 2,000 steps in a public run.

Evidence:
    First and last reduction, the scale before and after, the number of halvings, overflows on the floor.

False positives:
    The search from 2^16 or 2^32 at the start and after a restart, saw-teeth (grow, back off once, grow) and growth are
    normal and set aside. A fixed scale never moves and is no floor.

Example:
    The scale falls from 65536 to 1 in 16 halvings between steps 439 and 662 and never grows again.

Parameters:
    min_halvings: reductions by a factor of two without growth in between that count as a decay.
"""

from __future__ import annotations

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.scale import LossScale, loss_scale

META = Meta(
    kind=KINDS["scale-decay"],
    uses=("loss_scale", "overflow", "*"),
    params=(Param("min_halvings", 3.0, "one back-off between growths is normal, two may follow one bad patch"),),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report the deepest decay of the loss scale."""
    scale = loss_scale(signals)
    if scale is None:
        return NotApplicable("no loss scale is logged", "the loss scale, where the run uses one")
    decay = scale.decay
    if decay is None or (decay.halvings < params["min_halvings"] and not decay.overflows_at_floor):
        return Clear()
    return Fired((_finding(scale),))


def _finding(scale: LossScale) -> Finding:
    decay = scale.decay
    assert decay is not None
    first, last = decay.steps[0], decay.steps[-1]
    if decay.halvings:
        text = (
            f"the loss scale falls from {decay.start:g} to {decay.low:g} in {decay.halvings:.0f} halvings "
            f"without growth, steps {first} to {last}"
        )
    else:
        text = f"the loss scale sits on its floor of {decay.low:g} from step {first} on"
    if decay.overflows_at_floor:
        text += f", and {decay.overflows_at_floor} updates overflow on the floor"
    evidence = [
        Evidence(scale.name, first, decay.start, None, "scale before the first reduction"),
        Evidence(scale.name, last, decay.low, decay.start, "lowest scale, against the one before"),
    ]
    if len(decay.steps) > 2:
        gap = (last - first) / (len(decay.steps) - 1)
        evidence.append(Evidence(scale.name, last, None, None, f"{gap:.4g} steps between reductions on average"))
    certain = 0.7 + 0.04 * min(5.0, decay.halvings - 3) + (0.05 if decay.recovery == "unrecovered" else 0.0)
    return Finding(
        kind="scale-decay",
        series=scale.name,
        role="loss_scale",
        onset_step=first,
        confidence=round(max(0.6, certain), 2),
        summary=text[0].upper() + text[1:] + ".",
        onset_interval=(decay.before, first) if decay.before is not None else None,
        peak_step=last,
        end_step=last,
        recovery=decay.recovery,
        evidence=tuple(evidence),
    )
