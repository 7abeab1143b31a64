"""One event each in an otherwise healthy run, with its truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.detect.scorer import Labelled, Truth
from benchmarks.simulated.healthy import Floats, Rng, Run, loss_scale

RISES = frozenset({"gradual-rise", "divergence"})
LASTING = RISES | {"data-shift"}  # harder data lift the loss for good as well


@dataclass(frozen=True, slots=True)
class Dose:
    """From which point on, how high (in noise widths; factors for gradients, halvings for scales), how many points."""

    at: int
    height: float
    length: int


@dataclass(frozen=True, slots=True)
class Event:
    """A fault. `also`: kinds that name it as well; `sequel`: kinds
    that are no false alarm beside it."""

    name: str
    kind: str
    heights: tuple[float, ...]
    lengths: tuple[int, ...]
    apply: Callable[[Run, Dose], None]
    also: frozenset[str] = frozenset()
    sequel: frozenset[str] = frozenset()
    lasts: bool = False
    recurs: int = 1
    in_evaluations: bool = False  # lengths count evaluations rather than logged points
    slack: float = 2.0  # tolerance of the onset in logged points, beside a fifth of the length

    def inject(self, run: Run, rng: Rng, height: float, length: int) -> Labelled:
        """Put the event in; its label. The onset may be said as late as where the lift leaves the noise."""
        n, before = len(run.step), {role: values.copy() for role, values in run.values.items()}
        points = length * run.every if self.in_evaluations else length
        first, last = int(0.35 * n), max(int(0.8 * n) - (2 if self.in_evaluations else 1) * points, int(0.35 * n) + 1)
        onsets = sorted(int(at) for at in rng.choice(np.arange(first, last), size=self.recurs, replace=False))
        for at in onsets:
            self.apply(run, Dose(at, height, length))
        cadence = int(run.step[1] - run.step[0])
        every = run.every if self.kind.startswith(("val-", "double")) else 1
        tolerance = cadence * (self.slack * every + points / 5 + _hidden(run, before, onsets[0]))
        return Labelled(
            self.name,
            truths=tuple(
                Truth(
                    self.kind,
                    (float(run.step[at]),),
                    tolerance,
                    None if self.lasts else float(run.step[min(at + 2 * points + 10, n - 1)]),
                    self.also,
                )
                for at in onsets
            ),
            excused=self.sequel,
        )


def _hidden(run: Run, before: dict[str, Floats], at: int) -> int:
    """Points from `at` until loss or validation stands three noise widths above what it would have been."""
    for role, sigma, every in (("train_loss", run.sigma, 1), ("val_loss", 0.3 * run.sigma, run.every)):
        lift = run.values[role] - before[role]
        if np.any(lift > 0):
            out = np.flatnonzero(lift >= min(3 * sigma, float(lift.max())))
            return max(0, (int(out[0]) + 1) * every - 1 - at)
    return 0


def add(run: Run, dose: Dose, shape: Floats) -> None:
    """Lift the loss by `shape`, 1 meaning the full height."""
    loss = run.values["train_loss"]
    loss[dose.at : dose.at + len(shape)] += dose.height * run.sigma * shape[: len(loss) - dose.at]


def burst(run: Run, dose: Dose) -> None:
    """A jump that decays over `length` points; 1: a single point."""
    add(run, dose, np.exp(-np.arange(6 * dose.length) / dose.length) if dose.length > 1 else np.ones(1))


def hump(run: Run, dose: Dose) -> None:
    """Up over `length` points, and as long down."""
    add(run, dose, np.append(np.linspace(0, 1, dose.length), np.linspace(1, 0, dose.length)))


def lasting(run: Run, dose: Dose) -> None:
    """Up over `length` points, and there it stays."""
    add(run, dose, np.append(np.linspace(0, 1, dose.length + 1)[1:], np.ones(len(run.step))))


def runaway(run: Run, dose: Dose) -> None:
    """Grows to the end of the log, the grad norm with it."""
    growth = np.linspace(0, 1, len(run.step) - dose.at)
    add(run, dose, growth)
    run.values["grad_norm"][dose.at :] *= np.exp(1.5 * growth)


def not_finite(run: Run, dose: Dose) -> None:
    """NaN for `length` points; 0: to the end."""
    stop = dose.at + dose.length if dose.length else len(run.step)
    run.values["train_loss"][dose.at : stop] = np.nan
    run.values["grad_norm"][dose.at : stop] = np.nan


def grad_not_finite(run: Run, dose: Dose) -> None:
    """The grad norm alone, without a loss scaler that would skip the update."""
    run.values["grad_norm"][dose.at : dose.at + dose.length] = np.nan
    run.values.pop("loss_scale", None)


def scale_falls(run: Run, dose: Dose) -> None:
    """`height` halvings, `length` points apart, and no growth any more."""
    n = len(run.step)
    halvings = np.minimum(np.arange(n - dose.at) // max(dose.length, 1) + 1, dose.height)
    before = loss_scale(np.random.default_rng(dose.at), n)
    before[max(0, dose.at - 5) : dose.at] *= 2  # a growth, so that no back-off just before belongs to the fall
    before[dose.at :] = before[dose.at - 1] * 0.5**halvings
    run.values["loss_scale"] = before


def lift_validation(run: Run, dose: Dose, shape: Callable[[int], Floats]) -> None:
    """Lift validation from the level it has at the onset: a net rise, whatever it would have fallen by meanwhile.

    `shape` is given the number of evaluations from the onset on; 1 means the full height, counted in widths of the
    noise, or in per cent of the level where those are more: less than a few per cent changes no decision.
    """
    first = -(-(dose.at + 1) // run.every) - 1
    values, healthy = run.values["val_loss"], run.validated
    unit = max(0.3 * run.sigma, 0.01 * abs(float(healthy[first])))
    lift = healthy[first] - healthy[first:] + dose.height * unit * shape(len(values) - first)
    values[first:] += lift


def overfit(run: Run, dose: Dose) -> None:
    """Validation climbs to the end while training falls."""
    lift_validation(run, dose, lambda n: np.linspace(0, 1, n + 1)[1:])


def validation_jump(run: Run, dose: Dose) -> None:
    """Validation stands higher from one evaluation on, and falls on from there."""
    first = -(-(dose.at + 1) // run.every) - 1
    unit = max(0.3 * run.sigma, 0.01 * abs(float(run.validated[first])))
    run.values["val_loss"][first:] += dose.height * unit


def validation_hump(run: Run, dose: Dose) -> None:
    """Validation rises for `length` evaluations, and falls as long to below its first minimum."""

    def up_and_down(n: int) -> Floats:
        up = np.sin(np.linspace(0, np.pi, 2 * dose.length))
        return np.append(up, np.full(n, -0.1))[:n]

    lift_validation(run, dose, up_and_down)


def resume(run: Run, dose: Dose) -> None:
    """A new process life whose loss starts higher and comes back."""
    run.lives[dose.at :] = 1
    add(run, dose, np.exp(-np.arange(6 * dose.length) / dose.length))


def explosion(run: Run, dose: Dose) -> None:
    """Grad norm times `height` for `length` points, the loss unmoved."""
    run.values["grad_norm"][dose.at : dose.at + dose.length] *= dose.height


def stuck_at_zero(run: Run, dose: Dose) -> None:
    """The loss reads 0.0 from here on."""
    run.values["train_loss"][dose.at :] = 0.0


def swings(run: Run, dose: Dose) -> None:
    """Swings with a period of `length` points that reach `height` noise widths and stop the descent."""
    t = np.arange(len(run.step) - dose.at)
    add(run, dose, np.sin(2 * np.pi * t / dose.length) * np.minimum(1, t / 50))


def fading(run: Run, dose: Dose) -> None:
    """The grad norm halves every `length` points, and the loss stands still."""
    left = np.arange(len(run.step) - dose.at)
    run.values["grad_norm"][dose.at :] *= np.maximum(1e-7, 0.5 ** (left / dose.length))
    loss = run.values["train_loss"]
    still = np.random.default_rng(dose.at).normal(0, 0.2 * run.sigma, len(left))
    loss[dose.at :] = float(np.median(loss[max(0, dose.at - 10) : dose.at])) + still


HEIGHTS = (4.0, 6.0, 8.0, 12.0, 25.0, 100.0)
LOW_HEIGHTS = (1.0, 2.0, 3.0, 5.0, 10.0, 30.0)

EVENTS: tuple[Event, ...] = (
    Event("burst", "instant-burst", HEIGHTS, (1, 5), burst, also=frozenset({"gradient-explosion"})),
    Event("recurring burst", "instant-burst", HEIGHTS, (1, 5), burst, recurs=5),
    Event("recovered rise", "gradual-rise", LOW_HEIGHTS, (10, 50, 200), hump,
          frozenset({"instant-burst"})),
    Event("lasting rise", "gradual-rise", LOW_HEIGHTS, (10, 50, 200), lasting, also=LASTING, lasts=True),
    Event("lasting jump", "divergence", HEIGHTS, (1,), lasting, also=LASTING | {"instant-burst"}, lasts=True),
    Event("divergence", "divergence", (3, 6, 12, 25, 100), (100,), runaway, RISES, RISES, lasts=True),
    Event("NaN to the end", "nan-onset", (1,), (0,), not_finite, sequel=frozenset({"grad-nan"}), lasts=True),
    Event("transient NaN", "transient-nan", (1,), (1, 5), not_finite, frozenset({"grad-nan"}), frozenset({"grad-nan"})),
    Event("grad NaN", "grad-nan", (1,), (1, 5), grad_not_finite),
    Event("scale decay", "scale-decay", (2, 3, 4, 6, 10), (1, 10), scale_falls, frozenset({"skipped-steps"}),
          frozenset({"skipped-steps"}), lasts=True),
    Event("validation climbs", "val-divergence", (3, 6, 12, 25, 100), (100,), overfit, lasts=True, slack=4.0),
    Event("validation jumps", "val-jump", HEIGHTS, (1,), validation_jump, frozenset({"val-divergence"}), lasts=True),
    Event("double descent", "double-descent", (6, 12, 25, 100), (5, 10), validation_hump,
          frozenset({"val-divergence", "val-jump"}), in_evaluations=True, slack=4.0),
    Event("resume", "resume-discontinuity", HEIGHTS, (5, 50), resume, frozenset({"instant-burst"}),
          frozenset({"instant-burst"})),
    Event("gradient explosion", "gradient-explosion", (3, 5, 10, 30, 100), (1, 5), explosion),
    Event("loss stuck at 0", "loss-zero", (1,), (0,), stuck_at_zero, frozenset({"suspicious-low-loss", "nan-onset"}),
          frozenset({"suspicious-low-loss"}), lasts=True),
    Event("swings", "oscillation", LOW_HEIGHTS, (4, 20), swings, frozenset({"gradual-rise"}),
          frozenset({"instant-burst", "gradual-rise"}), lasts=True, slack=30.0),
    Event("gradient vanishes", "vanishing-gradient", (1,), (5, 50), fading, frozenset({"underflow", "plateau"}),
          frozenset({"underflow", "plateau"}), lasts=True, slack=100.0),
)  # fmt: skip
