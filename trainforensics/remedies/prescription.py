"""Remedies in the order a practitioner works, each with this run's numbers and what would confirm it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from trainforensics.causes.case import precision_of
from trainforensics.model import Incident, Remedy, SafeCheckpoint, Suspect
from trainforensics.remedies import numbers
from trainforensics.remedies.checkpoints import best_checkpoint, safe_checkpoint
from trainforensics.signals import Signals

LONGEST_WARMUP = 0.5  # share of a run beyond which a longer warm-up is no advice
TIGHTER = 1.25  # a threshold already this near to the healthy norms is tight enough
LIKELY = 0.15  # a cause at least this likely is worth acting on
NAN_KINDS = frozenset({"nan-onset"})
REPLAYABLE = frozenset(
    {"instant-burst", "gradual-rise", "divergence", "nan-onset", "transient-nan", "grad-nan", "scale-decay"}
)
CLIPPED = frozenset({"instant-burst", "gradual-rise", "divergence", "gradient-explosion"})
GENERALISATION = frozenset({"val-divergence", "double-descent"})
ROLL_BACK = frozenset({"unrecovered", "diverging", "ongoing", "partial"})


@dataclass(frozen=True)
class Patient:
    """A root incident, its run, and what its causes suggest."""

    incident: Incident
    incidents: tuple[Incident, ...]
    signals: Signals
    checkpoint: SafeCheckpoint | None

    @property
    def onset(self) -> int:
        """Onset step, 0 where there is none."""
        return self.incident.onset_step or 0

    def likely(self, *causes: str) -> float:
        """Joint confidence of some causes, 0 where it is not worth acting on."""
        total = sum(c.confidence for c in self.incident.causes if c.cause in causes)
        return total if total >= LIKELY else 0.0

    @cached_property
    def chain(self) -> tuple[Incident, ...]:
        """The incident and everything it caused."""
        found, grew = {self.incident.id}, True
        while grew:
            more = {i.id for i in self.incidents if i.caused_by in found} - found
            found, grew = found | more, bool(more)
        return tuple(i for i in self.incidents if i.id in found)

    @property
    def fatal(self) -> bool:
        """Whether the weights are no numbers any more."""
        return any(i.kind in NAN_KINDS for i in self.chain)

    @property
    def weights_harmed(self) -> bool:
        """Whether the weights are lost, or worse than before to the end of the log."""
        lasting = any(i.recovery in ROLL_BACK for i in self.chain if i.role == "train_loss")
        return (self.fatal or lasting) and self.incident.kind not in GENERALISATION

    @cached_property
    def suspects(self) -> tuple[Suspect, ...]:
        """Shards, documents and batches worth a look."""
        blame = self.incident.blame
        found = blame.suspects if blame else ()
        return tuple(s for s in found if s.type in ("shard", "doc", "batch") and s.confidence >= 0.2)


def prescribe(incidents: tuple[Incident, ...], signals: Signals) -> tuple[Incident, ...]:
    """The incidents with `safe_checkpoint` and `remediation`; what another incident caused is treated there."""
    done = []
    for incident in incidents:
        if not incident.is_root_alarm or incident.kind in ("coverage-gap", "import-integrity"):
            done.append(incident)
            continue
        if incident.kind in GENERALISATION:
            checkpoint = best_checkpoint(signals, incident.onset_step or 0)
        else:
            checkpoint = safe_checkpoint(incident, incidents, signals)
        patient = Patient(incident, incidents, signals, checkpoint)
        if checkpoint is not None and patient.weights_harmed:
            checkpoint = replace(checkpoint, go_back=True)
            patient = replace(patient, checkpoint=checkpoint)
        remedies = [remedy for step in STEPS for remedy in step(patient)]
        done.append(replace(incident, safe_checkpoint=checkpoint, remediation=tuple(remedies)))
    return tuple(done)


def roll_back(patient: Patient) -> list[Remedy]:
    """Back to the last healthy checkpoint where the weights are lost or harmed."""
    chosen = patient.checkpoint
    if chosen is None or not chosen.go_back:
        return []
    if chosen.step is None:
        return [Remedy("Roll back to before the incident", chosen.why, "the loss joins its old course there")]
    why = f"checkpoint {chosen.step} is clean: {chosen.why}"
    if patient.fatal:
        why += "; later ones hold NaN in weights or optimiser"
    return [Remedy(f"Roll back to checkpoint {chosen.step}", why, f"the loss joins its old course after {chosen.step}")]


def look_at_data(patient: Patient) -> list[Remedy]:
    """The batches and shards named."""
    if not patient.suspects:
        if patient.likely("bad-batch", "bad-shard", "data-shift") and patient.incident.blame is not None:
            window = patient.incident.blame.window
            if window is not None:
                text = f"Inspect the batches of steps {window[0]}-{window[1]} (length, padding, language, duplicates)"
                return [Remedy(text, "bad data is a likely cause", "a sample out of the ordinary in the window")]
        return []
    first = patient.suspects[0]
    names = ", ".join(f"{s.type} {s.id} ({s.confidence:.2f})" for s in patient.suspects[:4])
    verb = "Skip" if first.confidence >= 0.5 else "Inspect"
    steps = f"; seen at {_steps(first.steps)}" if first.steps else ""
    return [
        Remedy(
            f"{verb} {names} (skip.json)",
            f"{first.why}{steps}",
            f"no incident in a replay of {patient.onset} without it; the same incident again refutes it",
        )
    ]


def lower_rate(patient: Patient) -> list[Remedy]:
    """Half the learning rate, or a longer warm-up."""
    found = []
    rate = numbers.rate_at(patient.signals, patient.onset)
    if patient.likely("learning-rate", "warmup") and patient.incident.kind != "lr-anomaly":
        action = f"Halve the learning rate from {rate:.3g} to {rate / 2:.3g}" if rate else "Halve the learning rate"
        why = f"learning-rate or warmup is the cause with {patient.likely('learning-rate', 'warmup'):.2f}"
        found.append(Remedy(action, why, "the gradient norm stays on its course beyond the old onset"))
    if patient.likely("warmup"):
        now, total = numbers.warmup_steps(patient.signals), numbers.total_steps(patient.signals)
        new = max(4 * (now or 0), round(0.02 * (total or 0)))
        if now is not None and total and new <= LONGEST_WARMUP * total:
            text = f"Lengthen warm-up from {now} to {new} steps ({new / total:.1%} of {total})"
            found.append(Remedy(text, "usual are 1-5 % of the steps, 1,000-4,000 for large models", "a quiet start"))
    return found


def clip(patient: Patient) -> list[Remedy]:
    """Clip by the run's own healthy gradient norm."""
    diverged = patient.incident.kind == "nan-onset" and patient.likely("learning-rate", "warmup", "bad-batch")
    if patient.incident.kind not in CLIPPED and not diverged:
        return []
    healthy = numbers.healthy_norm(patient.signals, patient.incidents)
    now = numbers.clip_now(patient.signals)
    if healthy is None or (now is not None and 0 < now <= TIGHTER * healthy):
        return []
    action = f"Clip gradients by norm at {healthy:.3g}" + (f" (now {now:g})" if now else "")
    why = "the 95th percentile of this run's gradient norms outside incidents; a safety valve, not a diagnosis"
    return [Remedy(action, why, "clipping then acts on about 5 % of the steps; on far more, the threshold is too low")]


def precision(patient: Patient) -> list[Remedy]:
    """Wider range where numbers left it."""
    sure = patient.likely("numeric-overflow", "loss-scaling")
    if not sure:
        return []
    scale = patient.signals.curve("loss_scale")
    action = WIDER.get(
        precision_of(patient.signals.config), "Train in bf16, or keep softmax, norms and reductions in fp32"
    )
    why = f"numeric-overflow or loss-scaling is the cause with {sure:.2f}"
    found = [Remedy(action, why, "no overflow over the same batches")]
    if scale is not None and len(scale.only_finite()):
        value = scale.only_finite().value
        found.append(
            Remedy(
                f"Set the loss scale's start and floor by hand (highest {value.max():g}, last {value[-1]:g})",
                "a scale on its floor means that every batch overflows, not that the scale is wrong",
                "the scale grows again between single halvings",
            )
        )
    return found


WIDER: Mapping[str, str] = {
    "bf16": "Keep softmax, norms and reductions in fp32",
    "fp32": "Keep logarithms, roots and divisions away from 0 and exponentials from large numbers",
}


def inputs(patient: Patient) -> list[Remedy]:
    """Masks, packing, tokeniser."""
    if not patient.likely("labels", "attention", "data-shift", "dataloader", "eval-change"):
        return []
    causes = [c.cause for c in patient.incident.causes if c.cause in INPUT_CHECKS and c.confidence >= LIKELY]
    return [Remedy(INPUT_CHECKS[c], f"{c} is a likely cause", "an error there; none refutes it") for c in causes]


INPUT_CHECKS: Mapping[str, str] = {
    "labels": "Count the unmasked labels of the first batches and check their range",
    "attention": "Check packing and attention masks across document borders; log attention logits",
    "data-shift": "Compare source, length and duplicates of the data before and after the onset",
    "dataloader": "Check what the sampler restores at a restart: seed, epoch, position",
    "eval-change": "Check what changed in the evaluation: set, tokeniser, preprocessing, precision",
}


def optimiser(patient: Patient) -> list[Remedy]:
    """The optimiser's memory."""
    if not patient.likely("optimizer-state"):
        return []
    if patient.incident.kind == "resume-discontinuity":
        text = "Resume again with optimiser, scheduler and scaler state loaded; else warm up over about 100 steps"
        return [Remedy(text, "the moments were probably not restored", "loss and gradient norm join at the restart")]
    beta2 = numbers.setting(patient.signals, r"(adam_)?beta_?2")
    if beta2 is None:
        return []
    lower = 0.95 if beta2 > 0.95 else 0.9
    text = f"Lower beta2 from {beta2:g} to {lower:g}"
    why = f"second moments remember {1 / (1 - beta2):.0f} steps, too long to follow a sudden change of gradients"
    return [Remedy(text, why, "the update norm no longer leads the loss")]


def overfitting(patient: Patient) -> list[Remedy]:
    """Which checkpoint was best, and what stopping early would have kept."""
    best = numbers.best_evaluation(patient.signals) if patient.incident.kind in GENERALISATION else None
    if best is None:
        return []
    patience = (
        f"patience {numbers.PATIENCE} would have stopped at {best.stopped}" if best.stopped else "it never stopped"
    )
    found = [
        Remedy(
            f"Use the checkpoint nearest to step {best.step}",
            f"{best.name} was best there, {best.value:.4g} against {best.last:.4g} at the end; {patience}",
            "an evaluation of that checkpoint on other held-out data agrees",
        )
    ]
    if patient.incident.kind == "double-descent":
        text = "Do not stop at the first minimum: train on past the peak"
        why = "validation fell again while training went on improving"
        return [*found, Remedy(text, why, "the second minimum lies below the first")]
    decay = numbers.setting(patient.signals, r"weight_?decay|wd")
    text = (
        f"Raise weight decay (now {decay:g}), dropout or label smoothing, or add data"
        if decay is not None
        else ("Add weight decay, dropout, label smoothing or data")
    )
    return [*found, Remedy(text, f"validation rises{_meanwhile(patient.signals, best.step)}", "a later turning point")]


def _meanwhile(signals: Signals, since: int) -> str:
    """What the training loss does while validation rises, as far as it is seen."""
    if numbers.training_falls(signals, since):
        return " while the training loss goes on falling"
    if signals.has("train_loss"):
        return ""
    named = "recognised among the logged series" if signals.unmapped else "logged"
    return f"; no training loss is {named}, so first make sure that training itself does not fail"


def by_kind(patient: Patient) -> list[Remedy]:
    """What belongs to one kind alone."""
    entry = BY_KIND.get(patient.incident.kind)
    return [] if entry is None else [Remedy(*entry)]


BY_KIND: Mapping[str, tuple[str, str, str]] = {
    "lr-anomaly": (
        "Set the schedule as intended and restore its step at every restart",
        "the rate that was applied is not the declared one",
        "the logged rate lies on the schedule computed from the configuration",
    ),
    "batch-size-change": (
        "Scale the learning rate with the batch: linearly for SGD, by the square root for Adam",
        "the batch changed and the rate did not follow",
        "loss and noise level join the old course",
    ),
    "checkpoint-failure": (
        "Check space, quota and permissions of the checkpoint volume, then save once by hand",
        "saves failed, so a crash would cost everything since the last good one",
        "a saved checkpoint loads again",
    ),
    "rank-divergence": (
        "Compare parameter checksums across ranks; exchange the rank's node; broadcast weights from rank 0",
        "one rank leaves the others and stays away",
        "the gap closes after the broadcast (weights) or moves with the node (hardware) or the data (shard)",
    ),
    "expert-collapse": (
        "Raise the balance coefficient and check its sign; add router noise",
        "few experts take most tokens",
        "the router's entropy recovers",
    ),
    "attention-collapse": (
        "Normalise queries and keys, or cap attention logits",
        "attention entropy runs to its limit",
        "entropy stays between its limits over the old onset",
    ),
    "scale-mismatch": (
        "Divide the logged loss by the number of micro-batches or ranks",
        "the ratio of the two curves is a whole number",
        "both curves coincide",
    ),
    "loss-zero": (
        "Overfit one batch by hand and print its labels, logits and loss",
        "a loss of exactly one value carries no gradient",
        "the loss of that batch falls",
    ),
}  # fmt: skip


def reproduce(patient: Patient) -> list[Remedy]:
    """If it comes back, make it small."""
    if patient.incident.kind not in REPLAYABLE:
        return []
    start = patient.checkpoint.step if patient.checkpoint and patient.checkpoint.step is not None else None
    origin = f"from checkpoint {start}" if start is not None else "from the last state before it"
    text = f"If it recurs, reproduce it small: same seed and batches {origin}, logging every step from {patient.onset}"
    return [Remedy(text, "a reproduction separates data from optimiser state", "the same step fails again")]


def _steps(steps: tuple[int, ...]) -> str:
    shown = ", ".join(str(s) for s in steps[:6])
    return f"{shown} and {len(steps) - 6} more" if len(steps) > 6 else shown


STEPS: tuple[Callable[[Patient], list[Remedy]], ...] = (
    roll_back, look_at_data, lower_rate, clip, precision, inputs, optimiser, overfitting, by_kind, reproduce,
)  # fmt: skip
