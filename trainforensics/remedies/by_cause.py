"""What to do about each cause: the remedies of the causes worth acting on, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import PACE_KINDS
from trainforensics.model import Remedy
from trainforensics.remedies import numbers
from trainforensics.remedies.patient import Patient

LONGEST_WARMUP = 0.5  # share of a run beyond which a longer warm-up is no advice
NOT_RESTORED = 4.0  # fold; a scaler changes its scale by 2, and a restart by nothing


def by_cause(patient: Patient) -> list[Remedy]:
    """The remedies of each likely cause, likeliest first, none of them twice."""
    found: dict[str, Remedy] = {}
    for cause in patient.causes:
        if cause.cause in COVERED.get(patient.incident.kind, ()):
            continue
        treat = TREATMENTS.get(cause.cause)
        remedies = treat(patient) if treat is not None else _check(patient, cause.cause)
        for remedy in remedies:
            found.setdefault(remedy.action, remedy)
    return list(found.values())


def _check(patient: Patient, cause: str) -> list[Remedy]:
    entry = CHECKS.get(cause)
    return [] if entry is None else [Remedy(entry[0], f"{patient.blamed_on(cause)} is a likely cause", entry[1])]


def look_at_data(patient: Patient) -> list[Remedy]:
    """The batches and shards named."""
    if not patient.suspects:
        window = patient.incident.blame.window if patient.incident.blame is not None else None
        if window is None:
            return []
        text = f"Inspect the batches of steps {window[0]}-{window[1]} (length, padding, language, duplicates)"
        why = f"{patient.blamed_on('bad-batch', 'bad-shard', 'data-shift')} is a likely cause"
        return [Remedy(text, why, "a sample out of the ordinary in the window")]
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


def other_data(patient: Patient) -> list[Remedy]:
    """Data of another kind: the window, and what changed at its beginning."""
    return [*look_at_data(patient), *_check(patient, "data-shift")]


def lower_rate(patient: Patient) -> list[Remedy]:
    """Half the learning rate."""
    if patient.incident.kind == "lr-anomaly":
        return []
    rate = numbers.rate_at(patient.signals, patient.onset)
    if patient.incident.kind == "plateau":
        text = "Try the learning rate at three times and at a third" + (f" of {rate:.3g}" if rate else "")
        return [Remedy(text, f"{patient.blamed_on('learning-rate')} is a likely cause", "the loss falls with one")]
    action = f"Halve the learning rate from {rate:.3g} to {rate / 2:.3g}" if rate else "Halve the learning rate"
    why = f"{patient.blamed_on('learning-rate', 'warmup')} is a likely cause"
    return [Remedy(action, why, f"{patient.watched('grad_norm')} stays on its course beyond the old onset")]


def warm_up(patient: Patient) -> list[Remedy]:
    """Half the learning rate, or a longer warm-up."""
    now, total = numbers.warmup_steps(patient.signals), numbers.total_steps(patient.signals)
    new = max(4 * (now or 0), round(0.02 * (total or 0)))
    if now is None or not total or new > LONGEST_WARMUP * total:
        return lower_rate(patient)
    text = f"Lengthen warm-up from {now} to {new} steps ({new / total:.1%} of {total})"
    why = "usual are 1-5 % of the steps, 1,000-4,000 for large models"
    return [*lower_rate(patient), Remedy(text, why, "a quiet start")]


def precision(patient: Patient) -> list[Remedy]:
    """Wider range where numbers left it."""
    kept = facts.precision.configured(patient.signals.config)
    action = WIDER.get(kept, "Train in bf16, or keep softmax, norms and reductions in fp32")
    why = f"{patient.blamed_on('numeric-overflow', 'loss-scaling')} is a likely cause"
    return [Remedy(action, why, "no overflow over the same batches"), *_scale_by_hand(patient)]


WIDER: Mapping[str, str] = {
    "bf16": "Keep softmax, norms and reductions in fp32",
    "fp32": "Keep logarithms, roots and divisions away from 0 and exponentials from large numbers",
}


def loss_scale(patient: Patient) -> list[Remedy]:
    """The scaler's state restored where a restart lost it; else a wider range."""
    curve = patient.signals.curve("loss_scale")
    at = curve.at(patient.onset - 1) if curve is not None else -1
    if curve is None or at < 0 or at + 1 >= len(curve) or patient.incident.kind != "resume-discontinuity":
        return precision(patient)
    before, after = float(curve.value[at]), float(curve.value[at + 1])
    if not (before > 0 and after > 0 and max(before / after, after / before) >= NOT_RESTORED):
        return precision(patient)
    text = "Save the gradient scaler's state with every checkpoint and load it at a restart"
    why = f"the loss scale was {before:g} before the restart and {after:g} after it"
    return [Remedy(text, why, f"the scale goes on at {before:g} and no update is skipped")]


def _scale_by_hand(patient: Patient) -> list[Remedy]:
    scale = patient.signals.curve("loss_scale")
    if scale is None or not len(scale.only_finite()):
        return []
    value = scale.only_finite().value
    text = f"Set the loss scale's start and floor by hand (highest {value.max():g}, last {value[-1]:g})"
    why = "a scale on its floor means that every batch overflows, not that the scale is wrong"
    return [Remedy(text, why, "the scale grows again between single halvings")]


def optimiser(patient: Patient) -> list[Remedy]:
    """The optimiser's memory."""
    if patient.incident.kind == "resume-discontinuity":
        text = "Resume again with optimiser, scheduler and scaler state loaded; else warm up over about 100 updates"
        return [Remedy(text, "the moments were probably not restored", f"{patient.watched()} joins at the restart")]
    beta2 = numbers.setting(patient.signals, r"(adam_)?beta_?2")
    if beta2 is None:
        text = "Lower beta2 (0.999 to 0.95), or reset the moments and warm up over about 100 updates"
        return [Remedy(text, f"{patient.blamed_on('optimizer-state')} is a likely cause", _calm(patient))]
    lower = 0.95 if beta2 > 0.95 else 0.9
    text = f"Lower beta2 from {beta2:g} to {lower:g}"
    why = f"second moments remember {1 / (1 - beta2):.0f} updates, too long to follow a sudden change of gradients"
    return [Remedy(text, why, _calm(patient))]


def _calm(patient: Patient) -> str:
    if patient.signals.has("update_norm") and patient.incident.series != "update_norm":
        return "the update norm no longer leads the loss"
    return f"{patient.watched('grad_norm')} stays on its course beyond the old onset"


def feeding(patient: Patient) -> list[Remedy]:
    """What the loader does at a restart, or how fast it is."""
    if patient.incident.kind not in PACE_KINDS:
        return _check(patient, "dataloader")
    text = "Profile the loading of data: workers, prefetching, decoding, and the storage it reads from"
    why = f"{patient.blamed_on('dataloader')} is a likely cause"
    return [Remedy(text, why, "steps with one batch kept in memory take as long as before")]


def reduction(patient: Patient) -> list[Remedy]:
    """Sum and mean, or a rate that did not follow the batch."""
    if patient.incident.kind == "gradient-explosion":
        text = "Check how loss and gradients are reduced (sum or mean over samples, micro-batches, ranks) and unscaled"
        why = f"{patient.blamed_on('batch-size')} is a likely cause"
        return [Remedy(text, why, "the norm is back at its old level")]
    return _check(patient, "batch-size")


def _steps(steps: tuple[int, ...]) -> str:
    shown = ", ".join(str(s) for s in steps[:6])
    return f"{shown} and {len(steps) - 6} more" if len(steps) > 6 else shown


TREATMENTS: Mapping[str, Callable[[Patient], list[Remedy]]] = {
    "bad-batch": look_at_data,
    "bad-shard": look_at_data,
    "data-shift": other_data,
    "learning-rate": lower_rate,
    "warmup": warm_up,
    "numeric-overflow": precision,
    "loss-scaling": loss_scale,
    "optimizer-state": optimiser,
    "batch-size": reduction,
    "dataloader": feeding,
}
# cause -> what to do, and what confirms it
CHECKS: Mapping[str, tuple[str, str]] = {
    "attention": (
        "Check packing and attention masks across document borders; log attention logits",
        "an error there; none refutes it",
    ),
    "batch-norm": (
        "Evaluate once with batch statistics, and recompute the running statistics over some hundred batches",
        "a normal figure with either",
    ),
    "batch-size": (
        "Scale the learning rate with the batch: linearly for SGD, by the square root for Adam",
        "loss and noise level join the old course",
    ),
    "capacity": ("Repeat with twice and with half the parameters", "the incident moves or goes"),
    "comm-race": ("Repeat without overlap of communication and computation", "no incident without it"),
    "data-shift": (
        "Compare source, length and duplicates of the data before and after the onset",
        "an error there; none refutes it",
    ),
    "dataloader": (
        "Check what the sampler restores at a restart: seed, epoch, position",
        "an error there; none refutes it",
    ),
    "environment": (
        "Compare versions, drivers, kernels and machines of both lives, and run the same steps in the old environment",
        "the old figures come back",
    ),
    "eval-change": (
        "Check what changed in the evaluation: set, tokeniser, preprocessing, precision",
        "an error there; none refutes it",
    ),
    "frozen-graph": (
        "List the parameters that require a gradient, and those that the optimiser holds",
        "some are missing in either list",
    ),
    "hardware": (
        "Run the devices' diagnostics (ECC, clocks, temperature, links), and take one that fails out of the job",
        "the incident moves with the device",
    ),
    "incomplete-checkpoint": (
        "List missing and unexpected keys when loading, and compare the loss of one batch before saving and after",
        "a key is missing, or the losses differ",
    ),
    "initialisation": (
        "Log mean and deviation of each layer's activations and gradients over the first updates",
        "they shrink or grow from layer to layer",
    ),
    "labels": (
        "Count the unmasked labels of the first batches and check their range",
        "an error there; none refutes it",
    ),
    "logging-artefact": ("Compute one logged value by hand from the model's output", "the figures differ"),
    "memory-leak": ("Record a memory snapshot early and late, and compare what is held", "one kind of them has grown"),
    "network": (
        "Run a bandwidth test between the nodes, and read the error counters of their links",
        "one link is slower than the others, or counts errors",
    ),
    "normalisation": ("Check divisors and norms: a sum for a mean, a missing norm", "an error there; none refutes it"),
    "overfitting": ("Add weight decay, dropout, label smoothing or data", "a later turning point"),
    "rank-desync": ("Compare parameter checksums across ranks; broadcast weights from rank 0", "the gap closes"),
    "reward-signal": (
        "Read samples of the highest rewards before and after the onset, and check the spread within groups",
        "the reward no longer tells good from bad",
    ),
    "router": ("Raise the balance coefficient and check its sign; add router noise", "tokens spread over the experts"),
    "schedule": (
        "Set the schedule as intended and restore its step at every restart",
        "the logged rate lies on the schedule computed from the configuration",
    ),
    "storage": ("Check space, latency and stale handles of the file system", "the pause moves with the file system"),
}
# kind -> causes whose remedy the kind's own already is
COVERED: Mapping[str, frozenset[str]] = {
    "attention-collapse": frozenset({"attention"}),
    "batch-size-change": frozenset({"batch-size"}),
    "checkpoint-failure": frozenset({"storage"}),
    "double-descent": frozenset({"overfitting", "capacity"}),
    "expert-collapse": frozenset({"router"}),
    "lr-anomaly": frozenset({"schedule"}),
    "rank-divergence": frozenset({"rank-desync"}),
    "scale-mismatch": frozenset({"logging-artefact"}),
    "val-divergence": frozenset({"overfitting"}),
}
