"""Remedies in the order a practitioner works, each with this run's numbers and what would confirm it: back to healthy
weights, the causes by their likelihood, safety valves, what the kind asks for, a reproduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from trainforensics.model import Incident, Remedy
from trainforensics.remedies import numbers
from trainforensics.remedies.by_cause import by_cause
from trainforensics.remedies.checkpoints import best_checkpoint, safe_checkpoint
from trainforensics.remedies.patient import GENERALISATION, Patient
from trainforensics.signals import Signals

USUAL_CLIP = 1.0  # what most published recipes clip at
TIGHTER = 1.25  # a threshold already this near to the healthy norms is tight enough
REPLAYABLE = frozenset(
    {"instant-burst", "gradual-rise", "divergence", "nan-onset", "transient-nan", "grad-nan", "scale-decay"}
)
CLIPPED = frozenset({"instant-burst", "gradual-rise", "divergence", "gradient-explosion"})


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
    if chosen.step is None and _from_the_first_row(patient):
        return []
    if chosen.step is None:
        return [Remedy("Roll back to before the incident", chosen.why, "the loss joins its old course there")]
    why = f"checkpoint {chosen.step} is clean: {chosen.why}"
    if patient.fatal:
        why += "; later ones hold NaN in weights or optimiser"
    return [Remedy(f"Roll back to checkpoint {chosen.step}", why, f"the loss joins its old course after {chosen.step}")]


def _from_the_first_row(patient: Patient) -> bool:
    loss = patient.signals.curve("train_loss")
    return loss is not None and len(loss) > 0 and patient.onset <= int(loss.step[0])


def clip(patient: Patient) -> list[Remedy]:
    """Clip by the run's own healthy gradient norm."""
    diverged = patient.incident.kind == "nan-onset" and patient.likely("learning-rate", "warmup", "bad-batch")
    if patient.incident.kind not in CLIPPED and not diverged:
        return []
    if not patient.signals.has("grad_norm"):
        return []
    healthy = numbers.healthy_norm(patient.signals, patient.incidents)
    now = numbers.clip_now(patient.signals)
    threshold = USUAL_CLIP if healthy is None else healthy
    if now is not None and 0 < now <= TIGHTER * threshold:
        return []
    at = f"{threshold:.3g}" if healthy is not None else f"{threshold}"
    action = f"Clip gradients by norm at {at}" + (f" (now {now:g})" if now else "")
    why = "the 95th percentile of this run's gradient norms outside incidents"
    if healthy is None:
        why = "the usual threshold, for the log holds too few gradient norms outside incidents to tell this run's own"
    why += "; a safety valve, not a diagnosis"
    return [Remedy(action, why, "clipping then acts on about 5 % of the steps; on far more, the threshold is too low")]


def overfitting(patient: Patient) -> list[Remedy]:
    """Which checkpoint was best, and what stopping early would have kept."""
    best = numbers.best_evaluation(patient.signals) if patient.incident.kind in GENERALISATION else None
    if best is None:
        return []
    patience = (
        f"patience {numbers.PATIENCE} would have stopped at {best.stopped}" if best.stopped else "it never stopped"
    )
    why = f"{best.name} was best there, {best.value:.4g} against {best.last:.4g} at the end; {patience}"
    confirm = "an evaluation of that checkpoint on other held-out data agrees"
    found = [Remedy(_best_weights(patient, best.step), why, confirm)]
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


def _best_weights(patient: Patient, best: int) -> str:
    """How to come by the weights of the best evaluation: a kept checkpoint, or training once more."""
    kept = patient.checkpoint.step if patient.checkpoint is not None else None
    if kept is not None:
        return f"Use checkpoint {kept}, the nearest to step {best}"
    if patient.signals.checkpoints:
        return f"No usable checkpoint was kept: train again, keep checkpoints, and stop near step {best}"
    return f"Use the checkpoint nearest to step {best}"


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
    if entry is None:
        return []
    action, why, confirm = entry
    return [Remedy(action, why, confirm.format(watched=patient.watched(*WATCHED.get(patient.incident.kind, ()))))]


# what the kind's repetition is watched by, where that is logged
WATCHED: Mapping[str, tuple[str, ...]] = {
    "expert-collapse": ("router_entropy", "expert_load"),
    "attention-collapse": ("attention_entropy", "attention_logit_max"),
}


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
        "{watched} comes back to its old level",
    ),
    "attention-collapse": (
        "Normalise queries and keys, or cap attention logits",
        "attention entropy runs to its limit",
        "{watched} stays on its old level beyond the old onset",
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


STEPS: tuple[Callable[[Patient], list[Remedy]], ...] = (
    roll_back, by_cause, clip, overfitting, by_kind, reproduce,
)  # fmt: skip
