"""What a report says first, drawn from a result: pages in order of urgency, headline, facts, verdict of many runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainforensics.kinds import SEVERITIES, is_alarm, severity_rank
from trainforensics.model import Blame, Cause, Incident, RunResult, Suspect, Verdict
from trainforensics.report.text import (
    Markdown,
    capital,
    code,
    escape,
    label,
    listing,
    number,
    one_line,
    plural,
    sentences,
    stretch,
    when,
    where,
)

VERDICTS: tuple[Verdict, ...] = ("failed", "unstable", "undecided", "stable")  # most urgent first
ENDINGS = {
    "finished": "it finished",
    "crashed": "it crashed",
    "ongoing": "the log ends while it was still going",
    "unknown": "the log does not say how it ended",
}
SUSPECT = "suspect-shard"  # told with the data that fed an incident
COVERAGE = "coverage-gap"  # told under "Not judged", never as an incident
LONGEST_ERROR = 80  # characters of an error in an overview
TIMELINE = "timeline"  # the name of the figure of the whole run
FULL_PAGES = 12  # incidents told in full, with a figure; what comes after them is a line each
SUSPECTED = 0.2  # below this nothing sets a shard or document apart from what else the window held
NAMED_CONFIDENCE = 0.5  # a suspect or cause less likely than not is left to the incident's own section


@dataclass(frozen=True, slots=True)
class Page:
    """One thing that happened: a root incident and the effects that followed from it. `number` counts from 1."""

    number: int
    root: Incident
    effects: tuple[Incident, ...] = ()

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The root, then its effects by step."""
        return (self.root, *self.effects)


def pages(result: RunResult) -> tuple[Page, ...]:
    """The run's root incidents, most urgent first, each with its effects. An effect without its root stands alone."""
    ids = {incident.id for incident in result.incidents}
    roots = [incident for incident in result.incidents if incident.caused_by not in ids]
    roots.sort(key=lambda root: (-severity_rank(root.severity), -root.confidence, root.onset_step or 0))
    return tuple(
        Page(
            place,
            root,
            tuple(
                sorted(
                    (effect for effect in result.incidents if effect.caused_by == root.id),
                    key=lambda effect: effect.onset_step or 0,
                )
            ),
        )
        for place, root in enumerate(roots, 1)
    )


def alarms(result: RunResult) -> list[Page]:
    """The pages of medium severity and above."""
    return [page for page in pages(result) if is_alarm(page.root.severity)]


def remarks(result: RunResult) -> list[Page]:
    """The pages of low severity."""
    return [page for page in pages(result) if not is_alarm(page.root.severity)]


def told_remarks(result: RunResult) -> list[Page]:
    """The remarks but for the gaps of the log itself, which stand under "Not judged"."""
    return [page for page in remarks(result) if page.root.kind != COVERAGE]


def figure_paths(result: RunResult) -> dict[str, str]:
    """Every figure a run's report can show: "timeline" or an incident's id -> path relative to the report."""
    shown = [page for page in alarms(result)[:FULL_PAGES] if page.root.onset_step is not None]
    return {TIMELINE: "plots/timeline.png"} | {page.root.id: f"plots/incident-{page.number}.png" for page in shown}


def figures_beside(result: RunResult, folder: Path) -> dict[str, str]:
    """The figures of `figure_paths` that lie under `folder`."""
    return {name: path for name, path in figure_paths(result).items() if (folder / path).is_file()}


def heading(page: Page, result: RunResult) -> str:
    """`Instant burst at step 41 200 (rank 3), then NaN onset at 41 236`."""
    root, times = page.root, len(page.root.occurrences)
    at = "" if root.onset_step is None else f" at {_unit(result)} {number(root.onset_step)}"
    if times > 1:
        at = f", {times} times from {_unit(result)} {number(root.occurrences[0])} on"
    worst = _worst_effect(page)
    after = f", then {label(worst.kind)} at {number(worst.onset_step)}" if worst else ""
    place = where(root.scope)
    return capital(label(root.kind)) + at + (f" ({place})" if place else "") + after


def counts(result: RunResult) -> str:
    """`1 critical, 2 medium`, over the root incidents that the report lists."""
    found = Counter(page.root.severity for page in (*alarms(result), *told_remarks(result)))
    return ", ".join(f"{found[s]} {s}" for s in reversed(SEVERITIES) if found[s]) or "no incident"


def headline(result: RunResult) -> Markdown:
    """What happened and what to do, in one paragraph."""
    if result.verdict == "undecided":
        gaps = [escape(capital(gap.reason)) for gap in result.not_judged[:1]]
        return sentences([Markdown("This run could not be judged"), *gaps])
    found = alarms(result)
    if not found:
        failed = f", but {plural(len(result.errored), 'part')} of the analysis failed" if result.errored else ""
        steps, told = stretch(_unit(result), *extent(result)), len(told_remarks(result))
        if told:
            return Markdown(f"Nothing above low severity in {steps}{failed}; {plural(told, 'remark')} below.")
        return Markdown(f"No incident in {steps}{failed}.")
    lead, rest = found[0], len(found) - 1
    more = [Markdown(f"{plural(rest, 'further incident')} below")] if rest else []
    return sentences([_happened(lead, _unit(result)), *_because(lead.root), *_act(lead.root), *more])


def facts(result: RunResult) -> str:
    """What was read: steps, series, files, process lives, how the run ended."""
    points = sum(source.points for source in result.sources)
    parts = [
        stretch(_unit(result), *extent(result)),
        plural(len(result.series), "series", "series"),
        f"{plural(points, 'point')} from {plural(len(result.sources), 'file')}",
    ]
    if len(result.segments) > 1:
        starts = ", ".join(number(life.first_step) for life in result.segments[1:6])
        parts.append(f"{len(result.segments)} process lives (restarted at {starts})")
    return capital("; ".join([*parts, ENDINGS[result.ended]])) + "."


def crash(result: RunResult) -> str:
    """`crashed: CUDA out of memory`, with the last error that the log states; empty where the run did not crash."""
    if result.ended != "crashed":
        return ""
    said = one_line(result.failure.text) if result.failure else ""
    short = said if len(said) <= LONGEST_ERROR else f"{said[: LONGEST_ERROR - 3]}..."
    return f"crashed: {short}" if short else "crashed"


def last_error(result: RunResult) -> Markdown:
    """The last error of a crashed run, quoted with where it stands in the log; empty where there is none."""
    failure = result.failure
    if failure is None:
        return Markdown("")
    line = "" if failure.line is None else f", line {failure.line}"
    place = f" ({code(failure.source)}{line})" if failure.source else ""
    return Markdown(f"The last error in the log{place}: {code(failure.text)}")


def extent(result: RunResult) -> tuple[int | None, int | None]:
    """First and last step of the run over all series."""
    firsts = [series.first_step for series in result.series if series.first_step is not None]
    lasts = [series.last_step for series in result.series if series.last_step is not None]
    return min(firsts, default=None), max(lasts, default=None)


def chain(page: Page) -> str:
    """The kinds of a page as one phrase: `instant-burst, recurring, then nan-onset`."""
    root = page.root.kind + (", recurring" if len(page.root.occurrences) > 1 else "")
    effects = list(dict.fromkeys(effect.kind for effect in told_effects(page)))
    return f"{root}, then {', '.join(effects)}" if effects else root


def told_effects(page: Page) -> list[Incident]:
    """What followed from the root, but for the suspects, which stand in a table of their own."""
    return [effect for effect in page.effects if effect.kind != SUSPECT]


def suspects(incident: Incident) -> list[Suspect]:
    """Whom something speaks against, likeliest first; what merely lay in the window is not named."""
    named = incident.blame.suspects if incident.blame else ()
    found = [suspect for suspect in named if suspect.confidence >= SUSPECTED]
    return sorted(found, key=lambda suspect: -suspect.confidence)


def alike(suspects: Iterable[Suspect]) -> list[list[Suspect]]:
    """Suspects of one type against whom the same speaks, together; in the order in which each group begins."""
    groups: dict[tuple[object, ...], list[Suspect]] = {}
    for suspect in suspects:
        key = (suspect.type, suspect.confidence, suspect.p_value, suspect.why)
        groups.setdefault(key, []).append(suspect)
    return list(groups.values())


def top_suspect(incident: Incident) -> Suspect | None:
    """The likeliest suspect, if there is any."""
    return next(iter(suspects(incident)), None)


def moments(result: RunResult) -> list[tuple[int, str]]:
    """What happened when, in order of steps: restarts, and what led to, began, peaked and ended with every alarm."""
    found = [(life.first_step, 0, "a new process life begins") for life in result.segments[1:]]
    for page in alarms(result):
        for incident in (page.root, *told_effects(page)):
            name = label(incident.kind)
            found += [(sign.step, 0, f"{sign.signal}: {sign.text}") for sign in incident.precursors]
            found += [(onset, 1, f"{name} begins") for onset in incident.occurrences]
            if incident.peak_step is not None and incident.peak_step != incident.onset_step:
                found.append((incident.peak_step, 2, f"{name} is at its height"))
            if incident.end_step is not None and not runs_on(incident):
                found.append((incident.end_step, 3, f"{name} ends: {incident.recovery or 'recovered'}"))
        choice = page.root.safe_checkpoint
        if choice is not None and choice.step is not None:
            clean = page.root.onset_step is None or choice.step < page.root.onset_step
            name = "the last checkpoint known to be clean" if clean else "the checkpoint nearest to the best evaluation"
            found.append((choice.step, 0, name))
    return [(step, event) for step, _, event in sorted(set(found))]


def by_urgency(results: Sequence[RunResult]) -> list[RunResult]:
    """Runs, most urgent first: verdict, then the worst root incident, then the number of alarms, then the name."""

    def key(result: RunResult) -> tuple[int, int, int, str]:
        worst = max((severity_rank(page.root.severity) for page in pages(result)), default=-1)
        return VERDICTS.index(result.verdict), -worst, -result.alarms, result.run

    return sorted(results, key=key)


def known_at(result: RunResult, first: int, last: int) -> list[str]:
    """What an analysis found at the steps `first` to `last`, a line an incident, with its cause and suspects."""
    return [_known(page) for page in pages_at(result, first, last)]


def as_known(blame: Blame, result: RunResult, alone: str) -> Blame:
    """The answer for a step with what an analysis says of its suspects, who are judged over the whole incident there.

    One name then has one figure; those that no incident names keep that of the step. `alone`: what the answer's note
    says of figures of the step alone.
    """
    if blame.window is None:
        return blame
    named = {(s.type, s.id): s for page in reversed(pages_at(result, *blame.window)) for s in suspects(page.root)}
    if not any((suspect.type, suspect.id) in named for suspect in blame.suspects):
        return blame
    merged = sorted((named.get((s.type, s.id), s) for s in blame.suspects), key=lambda s: -s.confidence)
    note = blame.note.replace(alone, "the incident's suspects with its figures, the others judged from this step alone")
    return replace(blame, suspects=tuple(merged), note=note)


def _known(page: Page) -> str:
    root = page.root
    at = f"{'from' if runs_on(root) and len(root.occurrences) < 2 else 'at'} {when(root)}"
    parts = [f"known incident {page.number}: {chain(page)} {at} ({root.severity}, {root.confidence:.2f})"]
    if root.causes:
        parts.append(f"most likely cause {root.causes[0].cause} ({root.causes[0].confidence:.2f})")
    named = [f"{suspect.type} {suspect.id} ({suspect.confidence:.2f})" for suspect in suspects(root)]
    if named:
        parts.append(f"suspected over all of it: {listing(named, 4)}")
    elif root.blame and root.blame.basis:
        parts.append("no data stands out over all of it")
    return "; ".join(parts)


def pages_at(result: RunResult, first: int, last: int) -> list[Page]:
    """The incidents that any of the steps `first` to `last` belongs to, or that fed them."""
    return [page for page in pages(result) if any(_covers(i, first, last) for i in (page.root, *told_effects(page)))]


def _covers(incident: Incident, first: int, last: int) -> bool:
    if incident.onset_step is None:
        return False
    if incident.blame and incident.blame.window and _meet(incident.blame.window, (first, last)):
        return True
    if len(incident.occurrences) > 1:
        return any(first <= onset <= last for onset in incident.occurrences)
    if runs_on(incident):
        return last >= incident.onset_step
    return _meet((incident.onset_step, incident.end_step or incident.onset_step), (first, last))


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def runs_on(incident: Incident) -> bool:
    """Whether an incident reaches to the end of the log."""
    return incident.recovery in ("ongoing", "diverging", "unrecovered")


def tally(results: Sequence[RunResult]) -> str:
    """`1 failed, 2 unstable, 5 stable`."""
    found = Counter(result.verdict for result in results)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict]) or "no runs"


def _unit(result: RunResult) -> str:
    return result.axis.unit


def _happened(page: Page, unit: str) -> Markdown:
    root = page.root
    again = len(root.occurrences) > 1
    at = f"{unit}s {when(root)}" if again else f"{unit} {number(root.onset_step)}"
    text = f"{capital(label(root.kind))} at {at}" if root.onset_step is not None else capital(label(root.kind))
    if place := where(root.scope):
        text += f" ({escape(place)})"
    worst = _worst_effect(page)
    if worst is None:
        return Markdown(text)
    if worst.onset_step == root.onset_step:
        return Markdown(f"{text} became {label(worst.kind)}")
    return Markdown(f"{text} led to {label(worst.kind)} at {number(worst.onset_step)}")


def _worst_effect(page: Page) -> Incident | None:
    """The effect that a headline names: the most severe alarm of another kind than the root."""
    alarming = [effect for effect in page.effects if is_alarm(effect.severity) and effect.kind != page.root.kind]
    return max(alarming, key=lambda effect: severity_rank(effect.severity), default=None)


def _because(root: Incident) -> list[Markdown]:
    parts = []
    causes = [cause for cause in root.causes if cause.cause != "unknown"]
    if causes and (causes[0].confidence >= NAMED_CONFIDENCE or len(causes) == 1):
        parts.append(Markdown(f"Most likely cause: {_weighed(causes[0])}"))
    elif causes:
        *others, last = map(_weighed, causes[:3])
        parts.append(Markdown(f"The log does not settle the cause: {', '.join(others)} or {last}"))
    elif root.causes:
        parts.append(Markdown("The log does not tell the cause"))
    suspect = top_suspect(root)
    if suspect is not None and suspect.confidence >= NAMED_CONFIDENCE:
        parts.append(Markdown(f"Suspect: {suspect.type} {code(suspect.id)} ({suspect.confidence:.2f})"))
    return parts


def _weighed(cause: Cause) -> str:
    return f"{escape(cause.cause)} ({cause.confidence:.2f})"


def _act(root: Incident) -> list[Markdown]:
    choice = root.safe_checkpoint
    if choice is None or choice.step is None:
        return []
    if root.onset_step is not None and choice.step >= root.onset_step:
        step = number(choice.step)
        return [Markdown(f"The checkpoint nearest to the best evaluation, of step {step}, was saved after the onset")]
    return [Markdown(f"Go back to the checkpoint of step {number(choice.step)}")] if choice.go_back else []
