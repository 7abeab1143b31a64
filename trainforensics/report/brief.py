"""What a person wants to know of a kind first: how to tell it from what looks like it, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Brief:
    """Two or three sentences of practice for one kind."""

    tell: str
    do: str


BRIEFS: Mapping[str, Brief] = {
    "instant-burst": Brief(
        "The loss is back within a few points; a climb over many steps is a gradual rise, one that stays a divergence. "
        "A gradient norm that jumps in the same step points to the batch, one that crept up before to the learning "
        "rate.",
        "Look at the batches of the step named. If it came back to its trend, train on; if it recurs with the same "
        "data, skip them; if not, lower the learning rate or clip.",
    ),
    "gradual-rise": Brief(
        "The climb takes many steps, and gradient norm or update ratio often moved before it. A burst takes a few "
        "points; a level that stays up at once is a divergence.",
        "Go back to a checkpoint from before the first sign, halve the learning rate or lengthen the warm-up.",
    ),
    "divergence": Brief(
        "Compare the level after it with that before: it never falls below half of the height again. Harder data "
        "switched in on purpose also lifts the loss, but it goes on falling from there.",
        "Stop, go back to the checkpoint before the first sign, lower the learning rate, and look at the batches of "
        "the onset.",
    ),
    "plateau": Brief(
        "The loss stands still in mid-run, while the learning rate is not small yet. The tail of a decayed schedule is "
        "flat as well, and no plateau.",
        "Check that the learning rate is not zero and that the parameters train; then try it at three times and at a "
        "third.",
    ),
    "oscillation": Brief(
        "The swings grow and learning stops. Swings that shrink on the way down are learning.",
        "Lower the learning rate; check that the batches are shuffled.",
    ),
    "bad-start": Brief(
        "Compare the first losses with ln(vocabulary) or ln(classes), what an untrained model gives.",
        "Check that the weights were loaded, that labels are not shifted, and the initialisation.",
    ),
    "suspicious-low-loss": Brief(
        "The loss lies below what the task allows, or falls there at once while validation does not follow.",
        "Look for labels in the inputs, an attention mask that shows the future, and duplicates between the sets.",
    ),
    "loss-zero": Brief(
        "One value to the last digit, while other series move. Zero from step 1: masked labels; after a jump: an "
        "overflow hidden by a filter.",
        "Run one batch by hand; print its labels, logits and loss. Nothing was learnt since the onset.",
    ),
    "periodic-data-order": Brief(
        "The distance between bursts or levels is constant, and is that of an epoch, shard or block of data. Stairs at "
        "epochs alone are healthy.",
        "Shuffle across sources and shards; look at the data at the period's start.",
    ),
    "nan-onset": Brief(
        "The loss is not finite to the end of the log. Finite again after a few steps: transient NaN; the gradient "
        "alone: gradient NaN.",
        "Stop; go back to the newest checkpoint that lies clearly before the first sign, never to one saved since. "
        "Then check precision, data and learning rate, in that order.",
    ),
    "transient-nan": Brief(
        "The loss is finite again afterwards, because the update was skipped or the value filtered.",
        "Make sure that the update was skipped; look at the batch for empty or over-long samples.",
    ),
    "grad-nan": Brief(
        "Only the gradient is not finite. A loss scaler that skips such a step and recovers is normal.",
        "Treat it as an early warning of NaN: check precision and the batches of those steps.",
    ),
    "scale-decay": Brief(
        "Halving after halving without growth, or a scale that sits on its floor. One back-off between growths, and "
        "the search at the start, are normal.",
        "Train in bf16, or find the layer that overflows; a smaller scale does not help.",
    ),
    "skipped-steps": Brief(
        "The rate of skipped updates against the run's own history. A few at the start are normal.",
        "Look for what overflows at those steps; learning rate and token counts are off by the updates lost.",
    ),
    "underflow": Brief(
        "The gradient norm falls to zero, or the share of zero gradients rises, under fp16 or lower, with a small loss "
        "scale or none.",
        "Use loss scaling or bf16; keep small factors out of the loss.",
    ),
    "gradient-explosion": Brief(
        "The norm is far above its history, the loss unmoved, as clipping hides it.",
        "Look at the batches of the onset and at how losses are reduced; clip at the run's healthy norms.",
    ),
    "vanishing-gradient": Brief(
        "The norm is next to nothing and the loss flat. At the end of training both are small, and healthy.",
        "List the parameters that require a gradient; check initialisation and norms layer by layer.",
    ),
    "clip-saturation": Brief(
        "The norm before clipping exceeds the threshold at nearly every step.",
        "No alarm by itself. The learning rate then acts as a step length: raise the threshold or know that it does.",
    ),
    "update-ratio": Brief(
        "Updates over weights outside about 1e-5 to 1e-1 for long: too timid below, too violent above.",
        "Raise or lower the learning rate of those parameters.",
    ),
    "activation-outlier": Brief(
        "The first layer in depth and the first step tell where it starts; a slow growth of all layers is healthy.",
        "Check the norm and the initialisation of that layer; add normalisation.",
    ),
    "attention-collapse": Brief(
        "Entropy of the attention runs to zero, or to its maximum, and the loss stops falling.",
        "Normalise queries and keys, or cap the logits; lower the learning rate.",
    ),
    "val-divergence": Brief(
        "Validation rises over several evaluations while training falls. One jump: validation jump; training rises as "
        "well: a loss incident.",
        "Use the checkpoint nearest to the best evaluation; more regularisation or data, or stop earlier.",
    ),
    "val-jump": Brief(
        "One step between two evaluations, training unmoved, the new level stays.",
        "Check what changed in the evaluation: set, tokeniser, preprocessing, precision. Figures before and after do "
        "not compare.",
    ),
    "double-descent": Brief(
        "Validation rises and then falls clearly below its first minimum, training improving all along.",
        "Do not stop at the first minimum; know what early stopping would have lost.",
    ),
    "eval-regression": Brief(
        "A downstream metric falls for good, losses healthy.",
        "Suspect data or the evaluation before the model: run the old checkpoint with the new evaluation.",
    ),
    "eval-invalid": Brief(
        "Not finite, frozen, impossible, or at odds with the training loss.",
        "Distrust the evaluation, not the model: empty label batches, precision, a set that is not read.",
    ),
    "lr-anomaly": Brief(
        "The learning rate that was logged against the schedule in the configuration: jumps, zero, no warm-up, no "
        "decay. A restart of cosine cycles is planned.",
        "Set the schedule as intended, and restore its step at every restart; go back to before, where the loss "
        "followed.",
    ),
    "batch-size-change": Brief(
        "The batch or the tokens of a step change in mid-run, and the learning rate does not.",
        "Scale the learning rate: linearly for SGD, by the square root for Adam.",
    ),
    "resume-discontinuity": Brief(
        "Loss, learning rate or gradient norm jump exactly at a restart. A drop there is often data seen before.",
        "Resume once more with optimiser, scheduler, scaler, random state and data position all restored.",
    ),
    "scale-mismatch": Brief(
        "The ratio of two curves is a whole number: accumulation steps, ranks, a sum instead of a mean.",
        "Divide the logged loss; learning itself is unharmed, unless the gradient was scaled, too.",
    ),
    "import-integrity": Brief(
        "Damaged or missing parts of the file, clashing steps, a sampled export.",
        "Get the complete log; until then, do not conclude anything from what is missing.",
    ),
    "checkpoint-failure": Brief(
        "A message of a failed save or load, or a pause between saves far beyond the usual.",
        "Check space, quota and permissions, then save once by hand, before anything else.",
    ),
    "data-shift": Brief(
        "Mix, length or source of the data change, and the loss takes a new level from which it learns on.",
        "If it was planned, nothing; else compare the data before and after the onset.",
    ),
    "rank-divergence": Brief(
        "One rank stays away from all others. A single odd point is data noise.",
        "Compare checksums of the weights; exchange the node; see whether it moves with the node or with the shard.",
    ),
    "straggler": Brief(
        "One rank's steps are slower than all others' for long; the others wait for it.",
        "Look at that node's temperature, clocks, network and data loading.",
    ),
    "throughput-drop": Brief(
        "Fewer tokens a second, or longer steps, for long. Longer sequences or larger batches explain it, if logged.",
        "See which of computing, loading, communicating and saving takes longer since the onset.",
    ),
    "memory-growth": Brief(
        "Memory climbs without bound; a climb that levels off is a cache.",
        "Save before the step at which it would run out; compare two memory snapshots.",
    ),
    "hang": Brief(
        "One gap in wall time. Pauses for evaluation and checkpoints recur, and are alike.",
        "Read every rank's messages of that time; dump the stacks if it happens again.",
    ),
    "hardware-fault": Brief(
        "Memory errors, driver faults or throttling in counters or messages, on one device.",
        "Take the device out of the job and run its diagnostics; distrust results since the first error.",
    ),
    "clock-skew": Brief(
        "Ranks' wall clocks disagree by a constant, or time runs backwards.",
        "Synchronise the clocks; until then, do not order events of several hosts by time.",
    ),
    "expert-collapse": Brief(
        "Shares of tokens concentrate on few experts, the router's entropy falls. One dead expert alone is none.",
        "Raise the balance coefficient and check its sign; add router noise.",
    ),
    "rl-collapse": Brief(
        "KL surges, or reward or entropy falls for good; see which moved first.",
        "Go back to before it; lower the learning rate, raise the KL penalty, read samples of the highest rewards.",
    ),
    "coverage-gap": Brief(
        "Nothing happened to the run: the log lacks what a verdict needs.",
        "Log what is named, next time.",
    ),
}  # fmt: skip
