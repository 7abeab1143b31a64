"""The router of a mixture of experts sends its tokens to few experts.

What it detects:
    An expert whose share of the tokens, averaged over enough batches, grows to a multiple of its fair share and of its
    own earlier one for good, or an effective number of experts that falls to little more than half. Without shares: a
    balance loss that leaves its level for good, upwards or (a router that games it) far below. A router entropy that
    falls to next to nothing, where shares are logged only if they narrow with it. Tokens that are dropped for want of
    room, many times as many at once and for good.

Why it matters:
    Starving experts stop learning, the one that takes over becomes a bottleneck and drops tokens: most of the model's
    capacity is gone, while the loss may look fine for long.

Evidence:
    Share of the expert that takes over before and since, effective number of experts, experts that get nothing, the
    balance loss and the router's entropy.

False positives:
    Tiny batches route unevenly at each step; averaged, they are even. A single expert that dies while the rest stay
    even is no collapse. Imbalance at the start that evens out is learning to route.

Example:
    From step 530 on expert 3 takes 50 % of the tokens instead of 18 %; 3.8 of 6 experts are in effective use.

Parameters:
    grown: times its earlier share.
    fair: times the fair share.
    effective: effective number of experts against before.
    balance_up: factor by which a balance loss rises.
    balance_down: factor by which it falls below the level it had settled at.
    entropy: router entropy against its early level.
    dropped: share of the tokens for which no expert has room.
"""

from __future__ import annotations

import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.departure import departure
from trainforensics.signals.excursions import excursions
from trainforensics.signals.routing import Concentration, concentration, routings
from trainforensics.signals.steps import lasting_steps

META = Meta(
    kind=KINDS["expert-collapse"],
    needs=("expert_load|router_entropy|load_balance_loss|dropped_tokens",),
    uses=("expert_load", "router_entropy", "load_balance_loss", "dropped_tokens"),
    params=(
        Param("grown", 1.8, "one dead expert of three raises the others' shares 1.5-fold"),
        Param("fair", 2.0, "twice the fair share fills the usual capacity factors of 1.25 to 2"),
        Param("effective", 0.6, "one dead expert of three leaves 0.67"),
        Param("balance_up", 1.5, "1 in balance, the number of experts in collapse"),
        Param("balance_down", 4.0, "in balance it cannot fall below its floor"),
        Param("dropped", 0.3, "share of the tokens; recipes allow for a few per cent, and for more at the very start"),
        Param("entropy", 0.15, "confident routing lowers the entropy without any collapse"),
    ),
)
_BALANCE = re.compile(r"moe|router|rout|gate|expert|balanc|\blb|lbl", re.IGNORECASE)
_LARGEST = re.compile(r"max|vio", re.IGNORECASE)
MIN_POINTS = 40
PER_CENT = 100.0
SETTLED = 0.1  # of the log
BEYOND = 6.0  # widths of the averaged share's noise: the largest of many experts reaches 3 by chance
NARROWER = 0.9  # of the experts in effective use before: of many, one may double its share and change nothing
EVEN = 0.8  # share of the experts in effective use that ordinary imbalance leaves


def detect(signals: Signals, params: Params) -> Outcome:
    """Judge shares where logged, else balance loss and entropy."""
    known = routings(signals)
    found = [c for routing in known if _collapsed(c := concentration(routing), params)]
    if found:
        return Fired((_by_share(signals, min(found, key=lambda c: int(c.routing.step[c.onset])), len(found), params),))
    narrowed = any(_narrower(concentration(routing)) for routing in known)
    beside_shares = (_by_entropy, _by_dropped) if narrowed else (_by_dropped,)
    sought = beside_shares if known else (_by_balance, _by_largest, _by_entropy, _by_dropped)
    for seek in sought:
        if (other := seek(signals, params)) is not None:
            return Fired((other,))
    if not known and not _judged_otherwise(signals):
        return NotApplicable("no routing of experts is logged", "the share of tokens of every expert")
    return Clear()


def _narrower(c: Concentration) -> bool:
    """Whether fewer experts are in effective use, and one takes more of the tokens, than chance does."""
    clear = BEYOND * c.routing.noise
    return c.few < NARROWER * c.many and c.after - max(c.before, c.routing.fair) > clear


def _collapsed(c: Concentration, params: Params) -> bool:
    fair, experts = c.routing.fair, len(c.routing.experts)
    if c.after - fair < BEYOND * c.routing.noise:
        return False
    grown = c.after > params["grown"] * max(c.before, fair) and c.after > params["fair"] * fair
    grown = grown and c.few < NARROWER * c.many
    return grown or c.few < params["effective"] * max(c.many, EVEN * experts)


def _by_share(signals: Signals, c: Concentration, layers: int, params: Params) -> Finding:
    series, step = c.routing.experts[c.routing.winner], c.routing.step
    onset, experts = int(step[c.onset]), len(c.routing.experts)
    text = (
        f"From step {onset} on expert {series.expert} takes {c.after:.0%} of the tokens instead of "
        f"{c.before if c.onset else c.routing.fair:.0%}; "
        f"{(few := f'{c.few:.2g}')} of {experts} experts {'is' if few == '1' else 'are'} in effective use"
    )
    if c.dead:
        starved = ", ".join(str(s.expert) for s in c.dead[:8])
        text += (
            f", expert{'s' if len(c.dead) > 1 else ''} {starved} get{'' if len(c.dead) > 1 else 's'} next to nothing"
        )
    text += f"; {layers} layers collapse." if layers > 1 else "."
    beside = [e for f in (_by_balance(signals, params), _by_entropy(signals, params)) if f for e in f.evidence]
    return Finding(
        kind="expert-collapse",
        series=series.name,
        role="expert_load",
        onset_step=onset,
        onset_interval=(int(step[max(c.onset - 1, 0)]), onset),
        confidence=round(min(0.95, 0.7 + 0.05 * min(4.0, c.after / c.routing.fair - 1) + 0.05 * len(beside)), 2),
        summary=text,
        recovery="unrecovered",
        scope=Scope(expert=series.expert, layer=series.layer),
        evidence=(
            Evidence(series.name, int(step[-1]), c.after, c.before, f"share; {c.routing.fair:.3g} is fair"),
            Evidence("effective number of experts", int(step[-1]), c.few, c.many, "exponential of the shares' entropy"),
            *beside,
        ),
    )


def _judged_otherwise(signals: Signals) -> bool:
    largest = any(_LARGEST.search(c.name) for c in signals.curves("expert_load") if c.series.expert is None)
    logged = any(signals.has(role) for role in ("router_entropy", "dropped_tokens"))
    return largest or logged or bool(_balance_losses(signals))


def _balance_losses(signals: Signals) -> list[Curve]:
    """Balance losses, not other auxiliary ones: by their name, or beside other signs of experts."""
    moe = any(signals.has(role) for role in ("expert_load", "router_entropy", "dropped_tokens"))
    return [
        c for c in signals.curves("load_balance_loss") if c.series.rank is None and (moe or _BALANCE.search(c.name))
    ]


def _by_balance(signals: Signals, params: Params) -> Finding | None:
    best: Finding | None = None
    for logged in _balance_losses(signals):
        curve = logged.take(logged.finite & (logged.value > 0))
        if len(curve) < MIN_POINTS:
            continue
        for sign, factor in ((1.0, params["balance_up"]), (-1.0, params["balance_down"])):
            moved = Curve(curve.series, curve.step, sign * np.log(curve.value), curve.time, curve.segment)
            for e in excursions(moved):
                late = float(np.median(curve.value[-max(8, len(curve) // 10) :]))
                before = float(np.median(curve.value[max(0, e.knee - 20) : max(e.knee, 1)]))
                if e.returned or e.knee < SETTLED * len(curve) or (late / before) ** sign < factor:
                    continue
                finding = _by_level(curve, e.knee, before, late)
                if best is None or (finding.onset_step or 0) < (best.onset_step or 0):
                    best = finding
    return best


def _by_largest(signals: Signals, params: Params) -> Finding | None:
    """The load of the busiest expert, whichever it is."""
    for logged in signals.curves("expert_load"):
        curve = logged.take(logged.finite & (logged.value > 0))
        if logged.series.expert is not None or not _LARGEST.search(logged.name) or len(curve) < MIN_POINTS:
            continue
        moved = Curve(curve.series, curve.step, np.log(curve.value), curve.time, curve.segment)
        late = float(np.median(curve.value[-max(8, len(curve) // 10) :]))
        for e in excursions(moved):
            before = float(np.exp(e.before))
            if not e.returned and e.onset >= SETTLED * len(curve) and late > params["grown"] * before:
                return _by_level(curve, e.onset, before, late)
    return None


def _by_entropy(signals: Signals, params: Params) -> Finding | None:
    for curve in signals.curves("router_entropy"):
        left = departure(curve, params["entropy"])
        if left is not None:
            return _by_level(left.curve, left.onset, left.before, left.after)
    return None


def _by_dropped(signals: Signals, params: Params) -> Finding | None:
    """The share of tokens that no expert has room for, grown at once and for good."""
    for curve in (logged.only_finite() for logged in signals.curves("dropped_tokens")):
        if curve.series.rank is not None or len(curve) < MIN_POINTS or not 0 <= curve.value.max() <= PER_CENT:
            continue  # a count says nothing without that of all tokens
        scale = PER_CENT if curve.value.max() > 1 else 1.0
        value = curve.value / scale
        for at in lasting_steps(value):
            before, after = float(np.median(value[:at])), float(np.median(value[at:]))
            if after > params["dropped"] and after > params["grown"] * before:
                return _by_level(curve, at, scale * before, scale * after)
    return None


def _by_level(curve: Curve, at: int, before: float, after: float) -> Finding:
    onset = int(curve.step[at])
    role = curve.series.role
    how = "the routing grows uneven" if role == "load_balance_loss" and after > before else ""
    if role == "load_balance_loss" and after < before:
        how = "below what balanced routing can give: the router games it"
    if role == "dropped_tokens":
        how = "experts have no room for tokens that are routed to them"
    if role == "expert_load":
        how = "the busiest expert takes more and more"
    how = how or "the router decides for few experts"
    return Finding(
        kind="expert-collapse",
        series=curve.name,
        role=role,
        onset_step=onset,
        onset_interval=(int(curve.step[max(at - 1, 0)]), onset),
        confidence=0.65,
        summary=f"From step {onset} on {curve.name} goes from {before:.3g} to {after:.3g} for good: {how}.",
        recovery="unrecovered",
        scope=Scope(layer=curve.series.layer),
        evidence=(Evidence(curve.name, int(curve.step[-1]), after, before, "level at the end against before"),),
    )
