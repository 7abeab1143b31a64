"""What an episode of non-finite values says in a finding: its numbers in words, its evidence, what moved before."""

from __future__ import annotations

import numpy as np

from trainforensics.model import Evidence, Finding, Precursor, Scope
from trainforensics.signals import Signals
from trainforensics.signals.episodes import Episode
from trainforensics.signals.stretches import middle

MOVERS = (
    "grad_norm",
    "update_norm",
    "update_ratio",
    "param_norm",
    "activation_norm",
    "activation_max",
    "attention_logit_max",
    "train_loss",
)
DISGUISES = {
    "filtered": "a number that hides NaN",
    "missing": "absent from its row",
    "message": "NaN by the run's own message",
}
LOOKBACK = 200  # points in which a precursor is sought
OUTSIDE = 6.0  # noise widths


def name_of(episode: Episode) -> str:
    """What the first bad value is, in words. A disguise is the loss's: other series show their value."""
    if episode.series.role == "train_loss" and episode.disguise:
        return DISGUISES[episode.disguise]
    return "NaN" if np.isnan(episode.value) else "infinite"


def finding(signals: Signals, episode: Episode, confidence: float, summary: str) -> Finding:
    """The finding of an episode, with its evidence and what moved before it."""
    onset = episode.onsets[0]
    return Finding(
        kind=episode.kind,
        series=episode.series.name,
        role=episode.series.role,
        onset_step=onset,
        confidence=confidence,
        summary=summary,
        onset_interval=(episode.before, onset) if episode.before is not None else None,
        occurrences=episode.onsets,
        segment=episode.segment,
        end_step=episode.end,
        recovery=episode.recovery,
        scope=Scope(rank=episode.rank),
        evidence=_evidence(signals, episode),
        precursors=_precursors(signals, onset),
    )


def _evidence(signals: Signals, episode: Episode) -> tuple[Evidence, ...]:
    onset = episode.onsets[0]
    curve = next((c for c in signals.every_curve() if c.series == episode.series), None)
    usual = None
    if curve is not None:
        level = middle(curve.value[max(0, curve.at(onset) - 20) : max(0, curve.at(onset))])
        usual = level if np.isfinite(level) else None
    value = float("nan") if episode.disguise in {"missing", "message"} else episode.value
    first = Evidence(episode.series.name, onset, value, usual, f"first bad value: {name_of(episode)}")
    lasting = "from here on" if episode.end is None else "at this step"
    rest = tuple(
        Evidence(series.name, step, None, None, f"not finite {lasting}") for series, step in episode.others[:8]
    )
    return (first, *rest)


@np.errstate(all="ignore")
def _precursors(signals: Signals, onset: int) -> tuple[Precursor, ...]:
    """Signals that left their own noise upwards and stayed out until the onset."""
    found = []
    for role in MOVERS:
        curve = signals.curve(role)
        if curve is None:
            continue
        curve = curve.take(curve.finite & (curve.step < onset))
        recent = curve.value[-LOOKBACK:]
        if len(recent) < 20:
            continue
        calm = recent[: len(recent) * 3 // 4]
        level = float(np.median(calm))
        noise = 1.4826 * float(np.median(np.abs(calm - level)))
        out = recent > level + OUTSIDE * max(noise, 1e-9 * abs(level))
        inside = np.flatnonzero(~out)
        start = int(inside[-1]) + 1 if len(inside) else 0
        if start >= len(recent):
            continue
        step = int(curve.step[len(curve) - len(recent) + start])
        text = f"{curve.name} left its level of {level:.4g} at step {step} and was {recent[-1]:.4g} right before"
        found.append(Precursor(curve.name, step, onset - step, text))
    return tuple(sorted(found, key=lambda precursor: -precursor.lead))
