"""What the log lacks for a verdict, and what to log next time.

What it detects:
    No loss or metric with enough numbers (then the run is undecided, and this is its only alarm); a summary instead of
    a history; a log known to be sampled or so sparse that short events fall between its points; and, where something
    did happen, missing gradient norm, learning rate or checkpoints without which its cause or its remedy stays open.

Why it matters:
    Silence about a run that was not looked at reads like health.

Evidence:
    One row per gap with what could not be decided because of it.

False positives:
    A run in which nothing happened is not told what else it might have logged.

Example:
    Only `wandb-summary.json` is there: final values, no history.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS, Severity
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals

JUDGEABLE = ("train_loss", "val_loss", "val_metric", "reward")
META = Meta(
    kind=KINDS["coverage-gap"],
    uses=("*",),
    phase=2,
    params=(
        Param("fewest", 3.0, "numbers without which there is neither trend nor noise"),
        Param("sparse", 30.0, "points of the loss below which its noise is hardly known"),
    ),
)
_ONE_OF_SEVERAL = re.compile(r"#\d+$")  # runs that one file holds
OPEN_WITHOUT = {
    "grad_norm": "whether the gradients moved before the loss, so whether data or the optimiser came first",
    "learning_rate": "whether the schedule had a part in it",
}


def detect(signals: Signals, params: Params) -> Outcome:
    """At most one finding, with a row of evidence per gap."""
    main = _best_curve(signals)
    if main is None or np.count_nonzero(main.finite) < params["fewest"]:
        return Fired((_undecided(signals, main),))
    happened = sorted(kind for kind, outcome in signals.outcomes.items() if isinstance(outcome, Fired))
    gaps = [*_partial_log(signals, main, params), *(_open_questions(signals, happened) if happened else ())]
    return Fired((_finding(main, gaps, "low", 0.9),)) if gaps else Clear()


def _best_curve(signals: Signals) -> Curve | None:
    """The curve that the verdict rests on: the first judgeable role with most numbers."""
    curves = [curve for role in JUDGEABLE for curve in signals.curves(role)]
    return max(curves, key=lambda curve: int(np.count_nonzero(curve.finite)), default=None)


def _undecided(signals: Signals, main: Curve | None) -> Finding:
    every = signals.every_curve()
    longest = max((len(curve) for curve in every), default=0)
    if longest <= 2 and every:
        text = f"{len(every)} series hold {longest} point(s) at most: a summary, not a history"
    elif main is None and (unread := [w for w in signals.warnings if w.kind == "wrong-type"]):
        text = f"no loss or metric holds numbers: {unread[0].message} ({unread[0].where})"
    elif main is None:
        text = "no series is known as a loss or a metric; name it with --map NAME=train_loss"
    else:
        text = f"{main.name} holds {int(np.count_nonzero(main.finite))} numbers among {len(main)} points"
    gap = Evidence(main.name if main is not None else "train_loss", None, None, None, f"{text}: nothing can be judged")
    begun = longest <= 2 and _ONE_OF_SEVERAL.search(signals.run) is not None  # a start that was given up at once
    return _finding(main, [gap], "low" if begun else "medium", 0.95)


def _partial_log(signals: Signals, main: Curve, params: Params) -> list[Evidence]:
    gaps = []
    if signals.sampled:
        gaps.append(Evidence(main.name, None, None, None, f"the log is partial ({signals.sampled}); export it whole"))
    if len(main) < params["sparse"]:
        text = f"{main.name} has {len(main)} points, one every {main.cadence} steps: shorter events are not seen"
        gaps.append(Evidence(main.name, None, float(len(main)), params["sparse"], text))
    return gaps


def _open_questions(signals: Signals, happened: list[str]) -> list[Evidence]:
    kinds = ", ".join(happened)
    gaps = [
        Evidence(role, None, None, None, f"no {role.replace('_', ' ')} logged: open for {kinds}: {question}")
        for role, question in OPEN_WITHOUT.items()
        if not signals.has(role)
    ]
    if not signals.checkpoints:
        text = "no checkpoint is known from the log: which one to go back to cannot be said; log the saves"
        gaps.append(Evidence("checkpoints", None, None, None, text))
    unjudged = [
        f"{kind} ({outcome.reason})"
        for kind, outcome in sorted(signals.outcomes.items())
        if isinstance(outcome, NotApplicable) and outcome.log_next_time
    ]
    if gaps and unjudged:
        gaps.append(Evidence("outcomes", None, float(len(unjudged)), 0.0, "not judged: " + "; ".join(unjudged[:5])))
    return gaps


def _finding(main: Curve | None, gaps: list[Evidence], severity: Severity, confidence: float) -> Finding:
    return Finding(
        kind="coverage-gap",
        series=main.name if main is not None else "",
        role=main.series.role if main is not None else None,
        onset_step=None,
        confidence=confidence,
        severity=severity,
        summary=gaps[0].text if len(gaps) == 1 else f"{len(gaps)} gaps: " + "; ".join(gap.text for gap in gaps[:3]),
        evidence=tuple(gaps),
    )
