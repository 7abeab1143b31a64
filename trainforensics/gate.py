"""Holds results against a policy, for CI: violated, passed, or could not look."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainforensics import registry, roles
from trainforensics.config import Settings
from trainforensics.errors import EXIT_OK, EXIT_POLICY, EXIT_UNDECIDED, UsageError
from trainforensics.importers.base import DAMAGE
from trainforensics.kinds import KINDS, SEVERITIES, Severity, is_alarm, severity_rank
from trainforensics.model import Incident, RunResult, Skipped

LOSSES = ("train_loss", "val_loss")
STAND_INS = ("val_metric", "reward")  # what a run without a loss is judged by, where the policy asks for it


@dataclass(frozen=True, slots=True)
class Policy:
    """What is not acceptable (`fail_on` and above), and what must have been looked at (`require`: roles or kinds)."""

    fail_on: Severity = "high"
    require: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        """The policy a call's settings ask for. Raises UsageError on an unknown severity, role or kind."""
        for name in settings.require:
            if name not in KINDS and name not in roles.roles():
                near = difflib.get_close_matches(name, [*KINDS, *roles.roles()], n=3)
                hint = f"; did you mean {', '.join(near)}?" if near else ""
                raise UsageError(f"--require {name!r}: neither a role nor a kind{hint}")
        for severity in SEVERITIES:
            if severity == settings.fail_on:
                return cls(severity, settings.require)
        raise UsageError(f"--fail-on {settings.fail_on!r}: choose one of {', '.join(SEVERITIES)}")


@dataclass(frozen=True, slots=True)
class Violation:
    """An incident the policy does not accept."""

    run: str
    incident: Incident


@dataclass(frozen=True, slots=True)
class Blind:
    """Something the policy needs that could not be looked at, and why."""

    run: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate found. Not having been able to look outweighs a violation, and both forbid a pass."""

    violations: tuple[Violation, ...]
    blind: tuple[Blind, ...]
    tolerated: tuple[Violation, ...] = ()  # alarms below the bar of the policy

    @property
    def exit_code(self) -> int:
        """4 if it could not look, else 1 if violated, else 0."""
        if self.blind:
            return EXIT_UNDECIDED
        return EXIT_POLICY if self.violations else EXIT_OK


def judge(results: Sequence[RunResult], policy: Policy, settings: Settings, unread: Sequence[Skipped] = ()) -> Decision:
    """Hold every run against the policy; `settings` says which kinds are selected and ignored.

    `unread`: what may hold a run and could not be looked at, and paths given by name that hold none.
    """
    blind = [Blind(entry.path, entry.reason) for entry in unread]
    violations: list[Violation] = []
    tolerated: list[Violation] = []
    for result in results:
        counted = [Violation(result.run, incident) for incident in _counted(result, settings)]
        found = [one for one in counted if severity_rank(one.incident.severity) >= severity_rank(policy.fail_on)]
        tolerated += [one for one in counted if one not in found and is_alarm(one.incident.severity)]
        blind += _blind(result, policy, settings)
        blind += [] if found else _damaged(result)  # what is lost cannot undo a violation, but may hide one
        violations += found
    if not results:
        blind.append(Blind("", "there is no run to judge"))
    return Decision(tuple(violations), tuple(blind), tuple(tolerated))


def _counted(result: RunResult, settings: Settings) -> Iterator[Incident]:
    """Incidents of the selected kinds; an effect counts where its root is not selected."""
    wanted = {i.id: i for i in result.incidents if settings.wants(i.kind, _family(i.kind))}
    for incident in wanted.values():
        if not _counted_with_cause(incident, wanted):
            yield incident


def _counted_with_cause(incident: Incident, wanted: Mapping[str, Incident]) -> bool:
    """Whether the root of the incident is among the selected ones; a broken or circular chain has no root."""
    seen, cause = {incident.id}, incident.caused_by
    while cause is not None and cause in wanted and cause not in seen:
        if wanted[cause].is_root:
            return True
        seen.add(cause)
        cause = wanted[cause].caused_by
    return False


def _family(kind: str) -> str:
    return KINDS[kind].family if kind in KINDS else ""


def _blind(result: RunResult, policy: Policy, settings: Settings) -> Iterator[Blind]:
    if result.verdict == "undecided":
        reasons = [f"{gap.kind}: {gap.reason}" for gap in result.not_judged[:1]]
        yield Blind(result.run, "; ".join(["undecided, no usable loss", *reasons]))
    elif not _has_loss(result) and not set(STAND_INS) & set(policy.require):
        logged = [role for role in STAND_INS if not _not_logged(result, role)]
        instead = "".join(f", or --require {role} to judge the run by it alone" for role in logged[:1])
        yield Blind(result.run, f"no readable loss (--map NAME=train_loss{instead})")
    for source in result.sources:
        if failures := [warning.message for warning in source.warnings if warning.kind == "importer-error"]:
            yield Blind(result.run, f"{source.path} was not read to its end: {failures[0]}")
    for failed in result.errored:
        if settings.wants(failed.detector, _family(failed.detector)):
            yield Blind(result.run, f"detector {failed.detector} failed ({failed.message})")
    for name in policy.require:
        reason = _not_judged(result, name) if name in KINDS else _not_logged(result, name)
        if reason:
            yield Blind(result.run, f"required {name}: {reason}")


def _damaged(result: RunResult) -> Iterator[Blind]:
    """Files whose damaged part nobody could read: an incident may lie in it."""
    for source in result.sources:
        lost = [warning for warning in source.warnings if warning.kind in DAMAGE - {"importer-error"}]
        if lost:
            more = f"; and at {len(lost) - 1} more {'place' if len(lost) == 2 else 'places'}" if len(lost) > 1 else ""
            yield Blind(result.run, f"{source.path} is damaged ({lost[0].where}): {lost[0].message}{more}")


def _has_loss(result: RunResult) -> bool:
    """Whether a loss of training or evaluation was read, or another one by its name, as those of a policy are."""
    return any(s.n and (s.role in LOSSES or (s.role is None and "loss" in s.name.lower())) for s in result.series)


def _not_judged(result: RunResult, kind: str) -> str:
    """Why a required kind was not judged in this run, or nothing."""
    for gap in result.not_judged:
        if gap.kind == kind:
            return gap.reason + (f"; log {gap.log_next_time}" if gap.log_next_time else "")
    if any(incident.kind == kind for incident in result.incidents):
        return ""
    select, ignore = (tuple(result.options.get(name, ())) for name in ("select", "ignore"))
    if not Settings(select=select, ignore=ignore).wants(kind, _family(kind)):
        return "the analysis left it out (select/ignore)"
    known = {module.META.kind.name for module in registry.detectors().modules}
    return "" if kind in known else "no detector judges it"


def _not_logged(result: RunResult, role: str) -> str:
    """Why a required role cannot be relied on in this run, or nothing."""
    logged = any(series.role == role and series.n for series in result.series)
    return "" if logged else "not logged (or not recognised: --map NAME=ROLE)"
