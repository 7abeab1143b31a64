"""What the hypotheses look at: one incident and the facts of the run around it, each computed once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from trainforensics.blame.described import flat, leaf, matching
from trainforensics.causes.movement import (
    BASELINE,
    CREPT_POINTS,
    FEWEST_BEFORE,
    MOVED,
    STILL,
    Movement,
    climb,
    movement,
)
from trainforensics.causes.rate import EARLY_POINTS, Rate, rate_around
from trainforensics.model import Evidence, Incident, Precursor, Suspect
from trainforensics.signals import Curve, Signals
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.restarts import Join, join
from trainforensics.signals.scale import loss_scale
from trainforensics.signals.stuck import weights_at_rest

NEGLIGIBLE_NORM = 1e-6  # of the loss; the last layer alone gives far more unless the loss is at its floor
MULTIPLES = frozenset({2, 3, 4, 8, 16, 32, 64})
LASTING_POINTS = 20
FEWEST_EVALUATIONS = 4  # before the onset, without which their usual change is not known
QUICK = 0.05  # of the steps so far: to learn again what was lost takes more
QUIET = 1.5  # noise widths; a median of 20 points strays less than that from an unmoved level
PACE_KINDS = frozenset({"throughput-drop", "straggler", "hang", "memory-growth"})
SLOW_KINDS = frozenset({"gradual-rise", "divergence", "plateau", "oscillation"})
RESUME_WORDS = ("restart", "resume", "resumed", "checkpoint-loaded", "load-checkpoint", "checkpoint-load")

Order = Literal["led", "same", "quiet"]


@dataclass(frozen=True)
class Case:
    """An incident with its run and the incidents beside it."""

    incident: Incident
    signals: Signals
    incidents: tuple[Incident, ...]

    @property
    def kind(self) -> str:
        """The incident's kind."""
        return self.incident.kind

    @property
    def onset(self) -> int:
        """Onset step, 0 where the incident has none."""
        return self.incident.onset_step or 0

    @cached_property
    def root(self) -> Incident | None:
        """The incident that `caused_by` leads to, None for a root."""
        by_id = {i.id: i for i in self.incidents}
        here, seen = self.incident, {self.incident.id}
        while here.caused_by and here.caused_by in by_id and here.caused_by not in seen:
            here = by_id[here.caused_by]
            seen.add(here.id)
        return None if here is self.incident else here

    @cached_property
    def loss(self) -> Curve | None:
        """The training loss."""
        return self.curve("train_loss")

    @cached_property
    def cadence(self) -> int:
        """Steps between logged points of the training loss."""
        return self.loss.cadence if self.loss else 1

    @cached_property
    def points_before(self) -> int:
        """Logged points of the training loss before the onset."""
        return int(np.searchsorted(self.loss.step, self.onset)) if self.loss else 0

    @cached_property
    def points_after(self) -> int:
        """Logged points of the training loss after the onset."""
        return len(self.loss) - int(np.searchsorted(self.loss.step, self.onset, side="right")) if self.loss else 0

    @cached_property
    def early(self) -> bool:
        """Within the first points of the log, when nothing has been learnt yet."""
        return self.incident.onset_step is not None and self.points_before <= EARLY_POINTS

    def curve(self, role: str) -> Curve | None:
        """The series that speaks for a role, as the process life of the incident saw it."""
        curve = self.signals.curve(role)
        return None if curve is None else _in_life(curve, self.onset, self.incident.segment)

    def movement(self, role: str) -> Movement | None:
        """How the role's series moved around the onset; None where it is not logged or has too little before."""
        curve = self.curve(role)
        return None if curve is None else movement(curve, self.onset)

    def join(self, role: str) -> Join | None:
        """How the role's series joins at the onset, for incidents at a restart."""
        curve = self.curve(role)
        if curve is None:
            return None
        finite = curve.only_finite()
        return join(finite.value, int(np.searchsorted(finite.step, self.onset)))

    @cached_property
    def gradient(self) -> Movement | None:
        """How the gradient norm moved."""
        return self.movement("grad_norm")

    @cached_property
    def lone_jump(self) -> tuple[float, float, float] | None:
        """Gradient norm before the onset, at it, and one logged point on, where it jumped in that point alone.

        One batch does that: the next has an ordinary gradient again, also where the weights were harmed. Of the height
        (as logarithms) less than half is left. None where the norm did more, or is not known.
        """
        curve, move = self.curve("grad_norm"), self.gradient
        if curve is None or move is None or self.gradient_order != "same" or self.gradient_precursor is not None:
            return None
        at = int(np.searchsorted(curve.step, self.onset))
        here, after = (float(value) for value in curve.value[at : at + 2]) if at + 1 < len(curve) else (0.0, 0.0)
        if not (here == move.at and 0 < move.before < here < np.inf and after > 0):
            return None
        return (move.before, here, after) if after**2 < move.before * here else None

    @cached_property
    def gradient_precursor(self) -> Precursor | None:
        """The gradient norm among the precursors that the incident names."""
        norms = {c.name for c in self.signals.curves("grad_norm")}
        return next((p for p in self.incident.precursors if p.signal in norms), None)

    @cached_property
    def gradient_order(self) -> Order | None:
        """Whether the gradient norm moved before the loss, in the same point, or not at all; None where unknown."""
        move = self.gradient
        if move is not None and move.lead >= CREPT_POINTS:
            return "led"
        if move is not None and move.widths >= MOVED and self.kind == "instant-burst":
            return "same"
        if self.gradient_precursor is not None and self.gradient_precursor.lead >= 2 * self.cadence:
            return "led"
        if move is None:
            return None
        if self.kind in SLOW_KINDS and move.widths < MOVED:
            return self._slow_order()
        if move.widths >= MOVED:
            return "same"
        return "quiet" if move.widths < STILL else None

    def _slow_order(self) -> Order | None:
        """For what builds up slowly: whether the gradient norm stayed quiet until the peak, over 20 points at least."""
        curve = self.curve("grad_norm")
        if curve is None:
            return None
        at = int(np.searchsorted(curve.step, self.onset))
        points = max(2 * LASTING_POINTS, int(np.searchsorted(curve.step, self.incident.peak_step or self.onset)) - at)
        middle = int(curve.step[min(at + points // 2, len(curve) - 1)])
        if len(curve) - at < LASTING_POINTS:
            return None
        later = movement(curve.take((curve.step < self.onset) | (curve.step >= middle)), self.onset, points // 2)
        if later is None:
            return None
        return "quiet" if later.median_widths < QUIET else "same"

    @cached_property
    def climbed_before(self) -> bool:
        """Whether loss or gradient norm were climbing out of their noise before the onset (of a NaN, mostly)."""
        return any(climb(curve, self.onset) for role in ("train_loss", "grad_norm") if (curve := self.curve(role)))

    @cached_property
    def rate(self) -> Rate | None:
        """The learning rate around the onset."""
        curve = self.curve("learning_rate")
        return None if curve is None else rate_around(curve.only_finite(), self.onset, self.cadence)

    @cached_property
    def tiny_rate(self) -> tuple[float, float] | None:
        """The learning rate at the onset and the declared one, where it is a tenth of that or less; else None."""
        declared = [
            float(value)
            for _, value in matching(self.signals.config, r"(max_|peak_|base_)?(lr|learning_rate)")
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
        if self.rate is None or not declared or self.rate.peak > 1.01 * max(declared):
            return None
        return (self.rate.now, max(declared)) if self.rate.now <= 0.1 * max(declared) else None

    @cached_property
    def no_rate(self) -> bool:
        """Whether the learning rate is logged and exactly 0 at the onset, so that no update can have done harm."""
        curve = self.curve("learning_rate")
        return curve is not None and len(curve) > 0 and float(curve.value[max(0, curve.at(self.onset))]) == 0.0

    @cached_property
    def recovered_in(self) -> int | None:
        """Logged points from onset to return, None for an incident that did not return."""
        end = self.incident.end_step
        if self.incident.recovery != "recovered" or end is None or self.loss is None:
            return None
        return int(np.searchsorted(self.loss.step, end) - np.searchsorted(self.loss.step, self.onset))

    @cached_property
    def validated(self) -> tuple[Literal["harmed", "unharmed"], str] | None:
        """What an evaluation says that was made while the training loss was up; None where it does not tell."""
        loss, val = self.loss, self.curve("val_loss")
        if loss is None or val is None or self.incident.role != "train_loss":
            return None
        at = int(np.searchsorted(val.step, self.onset))
        move = movement(loss, self.onset)
        if at < FEWEST_EVALUATIONS or at >= len(val) or move is None or not self._still_up(int(val.step[at])):
            return None
        there = float(loss.value[max(0, loss.at(int(val.step[at])))])
        rise, before, after = there - move.before, float(val.value[at - 1]), float(val.value[at])
        if not rise > 0 or not np.isfinite(before) or move.widths < MOVED:
            return None
        text = (
            f"with the training loss at {there:.4g} (usual {move.before:.4g}) validation at {int(val.step[at])} was "
            f"{after:.4g} after {before:.4g}"
        )
        usual = float(np.nanmax(np.abs(np.diff(val.value[max(0, at - 2 * FEWEST_EVALUATIONS) : at]))))
        if not np.isfinite(after) or after - before > max(0.5 * rise, usual):
            return "harmed", f"{text}: the weights were harmed"
        return ("unharmed", f"{text}: the weights took no harm") if after - before < 0.2 * rise else None

    def _still_up(self, step: int) -> bool:
        end = self.incident.end_step
        return self.incident.recovery != "recovered" or (end is not None and step < end)

    @cached_property
    def quickly_back(self) -> bool:
        """Whether a return took so small a part of the steps trained before that nothing can have been learnt anew."""
        if self.loss is None or self.recovered_in is None:
            return False
        return max(1, self.recovered_in) * self.cadence <= QUICK * (self.onset - int(self.loss.step[0]))

    @cached_property
    def turns_nan(self) -> Incident | None:
        """An incident beside this one that is not finite, or hides it behind a loss of 0, a few points later."""
        if self.kind in ("nan-onset", "grad-nan", "transient-nan", "loss-zero"):
            return None
        return self.beside("nan-onset", "loss-zero", "grad-nan", after=0)

    @cached_property
    def multiple(self) -> int:
        """A usual number of micro-batches or ranks by which a restart multiplied the training loss, else 0."""
        found = self.join("train_loss")
        if found is None or found.before <= 0 or found.after <= 0:
            return 0
        ratio = max(found.after / found.before, found.before / found.after)
        whole = round(ratio)
        return whole if whole in MULTIPLES and abs(np.log(ratio / whole)) < 0.1 else 0

    @cached_property
    def counts_anew(self) -> tuple[float, float, float] | None:
        """Levels at a restart that repeats steps but goes on from where the old life had got to; else None.

        Old life at the repeated steps, new life there, old life at its end: the new one is three times nearer to the
        end than to the same steps, so its weights are the later ones and only its counter went back.
        """
        old = self.loss.superseded.only_finite() if self.loss is not None and self.loss.superseded is not None else None
        if self.loss is None or old is None or self.restart is None:
            return None
        new = self.loss.only_finite().take(self.loss.only_finite().step >= self.restart)
        width = min(LASTING_POINTS, len(old) // 3, len(new))
        if width < 5 or old.step[0] > new.step[width - 1]:
            return None
        there, here, end = (float(np.median(v)) for v in (old.value[:width], new.value[:width], old.value[-width:]))
        apart = 4 * robust_sigma(np.diff(new.value[:width])) / np.sqrt(width)
        return (there, here, end) if abs(there - here) > max(3 * abs(here - end), apart) else None

    @cached_property
    def way_back(self) -> float | None:
        """How far a restart threw the training loss back: 0 not at all, 1 to the first losses of the run."""
        found = self.join("train_loss")
        if found is None or self.loss is None:
            return None
        first = self.loss.only_finite().value[:CREPT_POINTS]
        told = self.told("train_loss")
        before, after = (found.before, found.after)
        if told is not None and told.expected is not None and told.value is not None:
            before, after = told.expected, told.value
        height = float(np.median(first)) - before
        return (after - before) / height if height > 0.2 * abs(before) else None

    @cached_property
    def lone_gap(self) -> tuple[str, float, float, float] | None:
        """How one rank's loss left the others': rank, first gap, later gap, usual gap; None where not logged.

        The first gap is the median of the three logged points from the onset on, the later that of the following 20.
        """
        matrix = self.signals.ranks("train_loss")
        rank = self.incident.scope.rank
        row = next((i for i, series in enumerate(matrix.rows) if series.rank == rank), None) if matrix else None
        if matrix is None or row is None:
            return None
        gap = matrix.value[row] - np.median(matrix.value, axis=0)
        at = int(np.searchsorted(matrix.step, self.onset))
        usual, first, later = gap[max(0, at - BASELINE) : at], gap[at : at + 3], gap[at + 3 : at + 3 + LASTING_POINTS]
        if len(usual) < FEWEST_BEFORE or len(later) < CREPT_POINTS:
            return None
        if not all(np.isfinite(v).any() for v in (usual, first, later)):
            return None
        return str(rank), float(np.nanmedian(first)), float(np.nanmedian(later)), float(np.nanmedian(np.abs(usual)))

    @cached_property
    def beyond_start(self) -> tuple[float, float] | None:
        """Highest loss of the incident and the first of the run, where the former is 1.3 times the latter or more."""
        if self.loss is None or self.early or not len(self.loss.only_finite()):
            return None
        finite = self.loss.only_finite()
        at = int(np.searchsorted(finite.step, self.onset))
        peak, first = float(np.max(finite.value[at : at + CREPT_POINTS], initial=-np.inf)), float(finite.value[0])
        return (peak, first) if first > 0 and peak > 1.3 * first else None

    @cached_property
    def zero_gradient(self) -> float:
        """Share of the logged points from the onset on at which the gradient norm is exactly 0."""
        curve = self.curve("grad_norm")
        after = curve.value[curve.step >= self.onset] if curve is not None else np.empty(0)
        return float(np.mean(after == 0.0)) if len(after) else 0.0

    @cached_property
    def gradient_level(self) -> float | None:
        """Median gradient norm from the onset on; None where it is not logged."""
        curve = self.curve("grad_norm")
        if curve is None:
            return None
        after = curve.value[curve.finite & (curve.step >= self.onset)]
        return float(np.median(after)) if len(after) else None

    @cached_property
    def rescaled(self) -> tuple[float, float] | None:
        """Levels of a gradient norm that left for another one in one logged point and is since the same but for a
        factor: no drift by more than a fifth of the step (as logarithms), and no more spread. None where it is not."""
        curve = self.curve("grad_norm") if self.kind == "gradient-explosion" else None
        curve = curve.take(curve.finite & (curve.value > 0)) if curve is not None else None
        if curve is None:
            return None
        value, at = np.log(curve.value), int(np.searchsorted(curve.step, self.onset))
        before, after = value[max(0, at - BASELINE) : at], value[at:]
        if len(before) < LASTING_POINTS or len(after) < LASTING_POINTS:
            return None
        low, high, third = float(np.median(before)), float(np.median(after)), len(after) // 3
        drift = abs(float(np.median(after[-third:]) - np.median(after[:third])))
        step = float(after[0] - before[-1])
        spreads = robust_sigma(np.diff(before)), robust_sigma(np.diff(after))
        same = drift < 0.2 * (high - low) and step > 0.8 * (high - low) and spreads[1] < 1.5 * spreads[0]
        told = self.told("grad_norm")
        level = told.expected if told is not None and told.expected is not None else float(np.exp(low))
        return (level, float(np.exp(high))) if same else None

    @cached_property
    def no_gradient(self) -> tuple[float, float] | None:
        """Median norm over all parameters and median loss from the onset on, where the norm is all but 0; else None.

        Too little for the last layer alone, which a loss above its floor reaches directly.
        """
        curve, scope = self.curve("grad_norm"), self.incident.scope.layer
        if curve is None or self.loss is None or scope is not None or curve.series.layer is not None:
            return None
        norm, loss = curve.only_finite(), self.loss.only_finite()
        norm, loss = norm.take(norm.step >= self.onset), loss.take(loss.step >= self.onset)
        if not len(norm) or not len(loss):
            return None
        level, height = float(np.median(norm.value)), float(np.median(loss.value))
        return (level, height) if level < NEGLIGIBLE_NORM * abs(height) else None

    @cached_property
    def no_updates(self) -> str:
        """What says that the parameters do not change from the onset on; empty where nothing does."""
        for role in ("update_ratio", "update_norm"):
            curve = self.curve(role)
            after = curve.only_finite() if curve is not None else None
            after = after.take(after.step >= self.onset) if after is not None else None
            if after is not None and len(after) and float(np.median(after.value)) == 0.0:
                return f"{after.name} is exactly 0"
        rest = weights_at_rest(self.signals)
        if rest is not None and abs(int(rest[0].step[rest[1]]) - self.onset) <= 2 * rest[0].cadence:
            return f"{rest[0].name} stands still to its last digit"
        return ""

    @cached_property
    def lasting(self) -> bool:
        """Whether the incident's own series stays where it jumped to: its median of 20 points stands out, finite."""
        curve = self.curve(self.incident.role) if self.incident.role else None
        if curve is None:
            return False
        at = int(np.searchsorted(curve.step, self.onset))
        after = curve.value[at : at + LASTING_POINTS]
        move = movement(curve, self.onset, LASTING_POINTS)
        enough = len(after) >= LASTING_POINTS // 2 and bool(np.isfinite(after).all())
        return enough and move is not None and move.median_widths > MOVED

    @cached_property
    def restart(self) -> int | None:
        """Step of a restart at the onset or shortly before, else None."""
        steps = [event.step for event in self.signals.events if event.kind in RESUME_WORDS and event.step is not None]
        if self.loss is not None and len(self.loss) > 1:
            steps += self.loss.step[1:][np.diff(self.loss.segment) != 0].tolist()
        near = [s for s in steps if -2 * self.cadence <= self.onset - s <= 10 * self.cadence]
        return max(near, default=None)

    @cached_property
    def precision(self) -> str:
        """fp16, bf16, fp8 or fp32 as the configuration says; fp16 also where a loss scale changes; empty if unknown."""
        return precision_of(self.signals.config) or ("fp16" if self.scale_moves else "")

    @cached_property
    def scale_moves(self) -> bool:
        """Whether a loss scale is logged and ever changes: dynamic scaling, so half precision."""
        curve = self.signals.curve("loss_scale")
        return curve is not None and _varies(curve)

    @cached_property
    def scale_falls(self) -> tuple[int, float, float] | None:
        """Halvings of the loss scale without a growth between, until the incident ends, and the scale before and after.

        None if fewer than two. Of a decay those that belong to it: an earlier back-off that had not grown back is none.
        """
        decay = found.decay if self.kind == "scale-decay" and (found := loss_scale(self.signals)) is not None else None
        if decay is not None:
            return (round(decay.halvings), decay.start, decay.low) if decay.halvings >= 2 else None
        curve = self.signals.curve("loss_scale")
        if curve is None:
            return None
        until = max(self.onset + 5 * self.cadence, self.incident.end_step or 0)
        value = curve.only_finite().take(curve.only_finite().step <= until).value
        change = np.diff(value)
        grown = np.flatnonzero(change > 0)
        since = value[int(grown[-1]) + 1 :] if len(grown) else value
        falls = int(np.sum(np.diff(since) < 0)) if len(since) > 1 else 0
        return (falls, float(since[0]), float(since[-1])) if falls >= 2 else None

    @cached_property
    def scale_floor(self) -> float | None:
        """The scale the run ends on, where it is 1 or less."""
        curve = self.signals.curve("loss_scale")
        if curve is None or not _varies(curve):
            return None
        last = float(curve.only_finite().value[-1])
        return last if last <= 1 else None

    @cached_property
    def recurs(self) -> int:
        """How often the incident happened."""
        return max(1, len(self.incident.occurrences))

    @cached_property
    def period(self) -> int | None:
        """Steps between occurrences that come like clockwork, three or more of them; else None."""
        gaps = np.diff(np.array(sorted(self.incident.occurrences), dtype=np.float64))
        if len(gaps) < 2:
            return None
        usual = float(np.median(gaps))
        return int(usual) if float(np.abs(gaps - usual).max()) <= max(2 * self.cadence, 0.05 * usual) else None

    def told(self, role: str) -> Evidence | None:
        """What the incident's evidence says of a role's level now and before, so that a cause repeats its numbers."""
        curve = self.curve(role)
        names = {role} if curve is None else {role, curve.name}
        rows = (row for row in self.incident.evidence if row.signal in names)
        return next((row for row in rows if row.value is not None and row.expected is not None), None)

    def levels(self, role: str, move: Movement) -> tuple[float, float]:
        """A role's level before and its value, as the incident's evidence says them, else as `move` measured them."""
        told = self.told(role)
        if told is None or told.expected is None or told.value is None:
            return move.before, move.at
        return told.expected, told.value

    def suspect(self, *types: str) -> Suspect | None:
        """The likeliest suspect of some types, None without blame."""
        if self.incident.blame is None:
            return None
        return next((s for s in self.incident.blame.suspects if s.type in types), None)

    @cached_property
    def proven_data(self) -> Suspect | None:
        """A shard or document more likely guilty than not."""
        found = self.suspect("shard", "doc")
        return found if found is not None and found.confidence >= 0.5 else None

    @cached_property
    def lone_rank(self) -> Suspect | None:
        """The rank that moved first and alone."""
        return self.suspect("rank")

    @cached_property
    def manifest_quiet(self) -> bool:
        """Whether a manifest fed three events or more and names nothing they share."""
        blame = self.incident.blame
        return blame is not None and bool(blame.batches) and self.recurs >= 3 and self.proven_data is None

    def said(self, pattern: str) -> str:
        """The first line of the log's own text that matches, empty without one."""
        found = re.compile(pattern, re.IGNORECASE)
        return next((" ".join(e.text.split())[:120] for e in self.signals.events if found.search(e.text)), "")

    def configured(self, pattern: str) -> tuple[str, Any] | None:
        """The first configuration entry whose last key part matches."""
        return next(matching(self.signals.config, pattern), None)

    def beside(self, *kinds: str, after: int | None = None) -> Incident | None:
        """Another incident of one of these kinds that begins no later than ten logged points after this one.

        `after`: no earlier than this many steps after it either.
        """
        for other in self.incidents:
            known = other is not self.incident and other.kind in kinds and other.onset_step is not None
            distance = (other.onset_step or 0) - self.onset
            if known and distance <= EARLY_POINTS * self.cadence and (after is None or distance >= after):
                return other
        return None


def _in_life(curve: Curve, onset: int, segment: int | None) -> Curve:
    """The curve with the points that a later life logged again, where the incident lies in those."""
    old = curve.superseded
    at = curve.at(onset)
    if old is None or segment is None or at < 0 or curve.segment[at] <= segment:
        return curve
    own = old.take(old.segment <= segment)
    if not len(own) or not own.step[0] <= onset <= own.step[-1]:
        return curve
    before = curve.take((curve.segment <= segment) & (curve.step < own.step[0]))
    step, value, time, life = (
        np.concatenate([getattr(before, name), getattr(own, name)]) for name in ("step", "value", "time", "segment")
    )
    return Curve(curve.series, step, value, time, life)


def _varies(curve: Curve) -> bool:
    values = curve.only_finite().value
    return len(values) > 1 and float(values.max()) > float(values.min())


def precision_of(config: Mapping[str, Any]) -> str:
    """The precision that configuration keys name, the narrowest where several are set."""
    found = set()
    for key, value in flat(config):
        name = leaf(key)
        text = str(value).lower()
        if name in ("fp16", "bf16", "fp8", "float16", "bfloat16") and text in ("true", "1"):
            found.add(name.replace("bfloat", "bf").replace("float", "fp"))
        elif re.search(r"precision|dtype|amp|autocast", name):
            for kind, words in (
                ("bf16", r"bf16|bfloat16"),
                ("fp8", r"fp8|float8"),
                ("fp16", r"(?<!b)fp16|(?<!b)float16|\b16(-mixed)?\b|half|\bo[12]\b"),
                ("fp32", r"fp32|float32|\b32(-true)?\b|full"),
            ):
                if re.search(words, text):
                    found.add(kind)
                    break
    return next((name for name in ("fp8", "fp16", "bf16", "fp32") if name in found), "")
