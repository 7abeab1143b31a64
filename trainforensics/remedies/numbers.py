"""Numbers of this run that remedies need: the rate now, a clip threshold from healthy norms, the best evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.blame.described import matching
from trainforensics.model import Incident
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Bools

HEALTHY_POINTS = 20
AFTERMATH = 10  # logged points after an onset that are not healthy where the incident gives no end
LASTING = frozenset({"gradual-rise", "divergence", "nan-onset", "gradient-explosion"})  # healthy is what came before
PATIENCE = 3


@dataclass(frozen=True, slots=True)
class BestEvaluation:
    """The best evaluation, the last one, and where stopping after `PATIENCE` worse ones would have stopped."""

    step: int
    value: float
    last: float
    stopped: int | None
    name: str
    evaluations: Curve

    def around(self, step: int) -> float:
        """The evaluation at a step, between two of them on the line that joins them."""
        return float(np.interp(step, self.evaluations.step, self.evaluations.value))

    def harmed(self, onset: int) -> float:
        """The median of the evaluations from an onset on, the last one where there is none."""
        later = self.evaluations.value[self.evaluations.step >= onset]
        return float(np.median(later)) if len(later) else self.last


def setting(signals: Signals, pattern: str) -> float | None:
    """A number from the configuration by the last part of its key."""
    for _, value in matching(signals.config, pattern):
        try:
            return float(value)
        except (TypeError, ValueError):
            continue
    return None


def _finite(signals: Signals, role: str) -> Curve | None:
    """The ordinary numbers of a role, None without any."""
    curve = signals.curve(role)
    finite = curve.only_finite() if curve is not None else None
    return finite if finite is not None and len(finite) else None


def rate_at(signals: Signals, step: int) -> float | None:
    """The learning rate at a step: logged, else the configured one."""
    curve = _finite(signals, "learning_rate")
    if curve is not None:
        return float(curve.value[max(0, curve.at(step))])
    return setting(signals, r"lr|learning_rate|max_lr|peak_lr|base_lr")


def warmup_steps(signals: Signals) -> int | None:
    """Steps until the learning rate first reached 95 % of its highest; 0 if it began there; None if not logged."""
    curve = _finite(signals, "learning_rate")
    if curve is None or len(curve) < 3:
        configured = setting(signals, r"(lr_)?warmup(_steps|_iters)?|num_warmup_steps")
        return None if configured is None else int(configured)
    value = curve.value
    top = float(value.max())
    if value[0] > 0.5 * top:
        return 0
    return int(curve.step[int(np.flatnonzero(value >= 0.95 * top)[0])] - curve.step[0])


def total_steps(signals: Signals) -> int | None:
    """Steps of the whole run: as configured, else as logged."""
    configured = setting(signals, r"max_steps|total_steps|max_iters|train_iters|num_train_steps|iterations")
    if configured and configured > 0:
        return int(configured)
    loss = signals.curve("train_loss")
    return int(loss.step[-1]) if loss is not None and len(loss) else None


def healthy_norm(signals: Signals, incidents: tuple[Incident, ...]) -> float | None:
    """The 95th percentile of the gradient norms outside every incident, None with fewer than 20 of them.

    The first tenth of the log is left out, where norms are still those of an untrained model.
    """
    curve = signals.curve("grad_norm")
    if curve is None:
        return None
    healthy = curve.finite & ~_within(curve, incidents)
    healthy[: len(curve) // 10] = False
    values = curve.value[healthy]
    return float(np.quantile(values, 0.95)) if len(values) >= HEALTHY_POINTS else None


def _within(curve: Curve, incidents: tuple[Incident, ...]) -> Bools:
    bad = np.zeros(len(curve), dtype=bool)
    reach = AFTERMATH * curve.cadence
    for incident in incidents:
        for step in {*incident.occurrences, incident.onset_step} - {None}:
            assert step is not None
            start = min([step, *(p.step for p in incident.precursors if step == incident.onset_step)])
            if incident.kind in LASTING and incident.recovery != "recovered":
                bad |= curve.step >= start
                continue
            end = incident.end_step if incident.end_step and step == incident.onset_step else step + reach
            bad |= (curve.step >= start) & (curve.step <= max(end, step))
    return bad


def clip_now(signals: Signals) -> float | None:
    """The clipping threshold the run is configured with."""
    return setting(
        signals, r"(max_)?grad(ient)?_?(norm_)?clip(_norm|ping|_val)?|clip_grad(_norm)?|max_grad_norm|grad_clip"
    )


def training_falls(signals: Signals, since: int) -> bool:
    """Whether the last quarter of the training loss from a step on lies below the first; False with under 8 points."""
    curve = _finite(signals, "train_loss")
    value = curve.value[curve.step >= since] if curve is not None else np.empty(0)
    quarter = len(value) // 4
    return quarter >= 2 and bool(np.median(value[-quarter:]) < np.median(value[:quarter]))


def best_evaluation(signals: Signals) -> BestEvaluation | None:
    """The lowest validation loss and what stopping early would have kept."""
    curve = signals.curve("val_loss")
    points = curve.only_finite() if curve is not None else None
    if curve is None or points is None or len(points) < 3:
        return None
    best = int(np.argmin(points.value))
    running = np.minimum.accumulate(points.value)
    improved = np.concatenate([[0], np.flatnonzero(np.diff(running) < 0) + 1])
    bounds = np.append(improved, len(points))
    waited = np.flatnonzero(np.diff(bounds) > PATIENCE)
    stopped = int(points.step[improved[waited[0]] + PATIENCE]) if len(waited) else None
    return BestEvaluation(
        int(points.step[best]), float(points.value[best]), float(points.value[-1]), stopped, curve.name, points
    )
