"""What a remedy is chosen by: a root incident, its run, and what its causes suggest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trainforensics.model import Cause, Incident, SafeCheckpoint, Suspect
from trainforensics.signals import Signals

LIKELY = 0.15  # a cause at least this likely is worth acting on
NAN_KINDS = frozenset({"nan-onset"})
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
    def causes(self) -> tuple[Cause, ...]:
        """The causes worth acting on, likeliest first."""
        return tuple(c for c in self.incident.causes if c.confidence >= LIKELY)

    def blamed_on(self, *causes: str) -> str:
        """`bad-batch (0.61) or data-shift (0.20)`, of some causes the likely ones."""
        return " or ".join(f"{c.cause} ({c.confidence:.2f})" for c in self.causes if c.cause in causes)

    def watched(self, *roles: str) -> str:
        """What to watch in a repetition: the first of some roles that is logged, else the incident's own series."""
        first = ("reward",) if self.incident.kind == "rl-collapse" else roles
        return next((WORDS[role] for role in (*first, "train_loss") if self.signals.has(role)), self.incident.series)

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


WORDS = {
    "grad_norm": "the gradient norm",
    "router_entropy": "the router's entropy",
    "expert_load": "the share of the busiest expert",
    "attention_entropy": "attention entropy",
    "attention_logit_max": "the largest attention logit",
    "update_norm": "the update norm",
    "reward": "the reward",
    "train_loss": "the loss",
}
