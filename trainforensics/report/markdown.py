"""report.md: one run's incident report, and the index over many runs. Pure: a result in, Markdown out.

Templates escape by default: whatever is not `Markdown` already (text from logs, names of files) is shown as it is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trainforensics.config import Settings
from trainforensics.kinds import KINDS
from trainforensics.model import Blame, Cause, Cost, Evidence, Incident, Index, NotJudged, Remedy, RunResult
from trainforensics.report import mapping, narrative, text
from trainforensics.report.text import Markdown, escape, number, sentence

MAX_ROWS = 200  # of a table in the appendix
MAX_CONFIG_LINES = 200
MAX_BATCHES = 40
BATCH_COLUMNS = ("step", "rank", "batch_id", "shard", "doc", "domain", "language", "seq_len", "tokens", "loss")
MAX_COLUMNS = 12
MAX_SUSPECTS = 8
RAISED_BY_OTHERS = frozenset({narrative.SUSPECT, narrative.COVERAGE, "nondeterminism"})  # no signal is judged for them
UNLOGGED = "not logged: "  # how the reason begins where a kind's own roles are missing
BASIS = {
    "logged": "known from the batch log",
    "reconstructed": "reconstructed from the sampler's configuration",
    "assumed": "assumed, not logged",
}


def render_run(result: RunResult, figures: Mapping[str, str] | None = None) -> str:
    """A run's report. `figures`: "timeline" or an incident's id -> path of its plot, relative to the report."""
    alarms = narrative.alarms(result)
    return _render(
        "run.md.j2",
        result=result,
        figures=figures or {},
        alarms=alarms,
        remarks=narrative.told_remarks(result),
        uncovered=_uncovered(result),
        unrecognised=mapping.unrecognised(result),
        max_names=mapping.MAX_NAMES,
        full_pages=narrative.FULL_PAGES,
        lost=_lost(alarms, result.axis.unit),
        gaps=_grouped(gap for gap in result.not_judged if not gap.reason.startswith(UNLOGGED)),
        unlogged=_unlogged(result.not_judged),
        judged=None if result.verdict == "undecided" else _judged(result),
        unjudged=len({gap.kind for gap in result.not_judged}),
        several_files=len({series.source for series in result.series}) > 1,
        warnings=[(source, warning) for source in result.sources for warning in source.warnings],
        max_rows=MAX_ROWS,
        checkpoint_steps=[number(checkpoint.step) for checkpoint in result.checkpoints],
    )


def render_postmortem(result: RunResult) -> str:
    """A postmortem to fill in: impact, timeline, root cause, lessons, action items, with what the log knows."""
    alarms = narrative.alarms(result)
    return _render(
        "postmortem.md.j2",
        result=result,
        alarms=alarms,
        lost=_lost(alarms, result.axis.unit),
        gaps=_grouped(result.not_judged),
        moments=narrative.moments(result),
        actions=list(dict.fromkeys(remedy.action for page in alarms for remedy in page.root.remediation)),
    )


def render_index(index: Index, results: Sequence[RunResult]) -> str:
    """All runs at a glance, most urgent first, with links to each run's report; `results`: those of `index.runs`."""
    reports = {entry.run: str(Path(entry.result).with_name("report.md")) for entry in index.runs}
    rows = [_row(result, reports[result.run]) for result in narrative.by_urgency(results)]
    return _render("index.md.j2", index=index, results=results, rows=rows)


def _render(template: str, **context: Any) -> str:
    body = _environment().get_template(template).render(context)
    return re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        finalize=_show,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {
        "sentence": sentence,
        "capital": text.capital,
        "number": number,
        "link": lambda path: Markdown(quote(path)),
        "clause": text.clause,
        "clauses": lambda items: text.clause("; ".join(map(text.unclosed, items))),
    }
    environment.globals |= {
        name: getattr(text, name)
        for name in ("code", "cost", "label", "listing", "number", "odds", "plural", "span", "when")
    }
    environment.globals |= {
        name: getattr(narrative, name)
        for name in (
            "chain",
            "counts",
            "crash",
            "facts",
            "heading",
            "headline",
            "last_error",
            "suspects",
            "tally",
            "told_effects",
        )
    }
    environment.globals |= {
        "batch_caption": _batch_caption,
        "batch_table": _batch_table,
        "data_line": _data_line,
        "evidence_rows": _evidence_rows,
        "fenced": _fenced,
        "is_spare": _is_spare,
        "remedy_reason": _remedy_reason,
        "rest": _rest,
        "sure": sure,
        "suspect_rows": _suspect_rows,
        "without_repeats": _without_repeats,
    }
    return environment


def _show(value: Any) -> str:
    if isinstance(value, Markdown):
        return value
    if value is None:
        return ""
    return number(value) if isinstance(value, int | float) else escape(str(value))


def sure(incident: Incident) -> str:
    """An incident's confidence, two digits."""
    return f"{incident.confidence:.2f}"


def _is_spare(root: Incident) -> bool:
    """Whether its checkpoint is neither to go back to nor the best one of a run that over-fits."""
    kept = root.safe_checkpoint is not None and root.safe_checkpoint.go_back
    return not kept and not root.code.startswith("GEN")


def _evidence_rows(incident: Incident) -> list[Evidence]:
    """The evidence, rows that read the same (those of many ranks) folded into one that counts them."""
    found = Counter(incident.evidence)
    return [replace(row, text=f"{row.text} ({n} series)") if n > 1 else row for row, n in found.items()]


def _suspect_rows(incident: Incident) -> list[dict[str, Any]]:
    """Suspects, likeliest first, those against whom the same speaks in one row."""
    return [
        {
            "who": Markdown(f"{one.type} {', '.join(text.code(other.id) for other in alike)}"),
            "sure": one.confidence, "p": one.p_value, "steps": one.steps, "why": one.why,
        }
        for one, *more in narrative.alike(narrative.suspects(incident)[:MAX_SUSPECTS])
        for alike in [[one, *more]]
    ]  # fmt: skip


def _without_repeats(causes: Sequence[Cause], blame: Blame | None) -> list[Cause]:
    """Causes that quote what speaks against a suspect in full once only: the table of suspects says it, too."""
    quoted: set[str] = set()

    def brief(line: str) -> str:
        for reason in _reasons(blame):
            if reason in line and reason in quoted:
                line = re.sub(rf": {re.escape(reason)}(?= \(confidence)", " is suspected", line)
                line = re.sub(rf"[,:] {re.escape(reason)}(?=:|$)", "", line)
            elif reason in line:
                quoted.add(reason)
                return line
        return line

    return [replace(c, for_=tuple(map(brief, c.for_)), against=tuple(map(brief, c.against))) for c in causes]


def _reasons(blame: Blame | None) -> list[str]:
    """What speaks against each suspect, longest first, since one sentence may begin another."""
    return sorted({suspect.why for suspect in blame.suspects if suspect.why} if blame else (), key=len, reverse=True)


def _remedy_reason(remedy: Remedy, blame: Blame | None) -> str:
    """Why a remedy is given; empty where it is what speaks against a suspect, which the table of suspects says."""
    return "" if remedy.why.startswith(tuple(_reasons(blame))) else remedy.why


def _lost(alarms: Sequence[narrative.Page], unit: str) -> str:
    """What the alarms cost together: the costliest one, and others that overlap with none counted before them."""
    counted: list[Incident] = []
    for root in sorted((page.root for page in alarms), key=lambda root: -(root.cost.steps or 0)):
        if not any(map(partial(_overlap, root), counted)):
            counted.append(root)
    costs = [root.cost for root in counted if root.cost != Cost()]
    steps = sum(cost.steps or 0 for cost in costs)
    tokens = sum(cost.tokens or 0 for cost in costs) if all(cost.tokens for cost in costs) else None
    seconds = sum(cost.seconds or 0.0 for cost in costs) if all(cost.seconds for cost in costs) else None
    return text.price(Cost(steps, tokens, seconds), unit)


def _overlap(one: Incident, other: Incident) -> bool:
    """Whether the steps that two incidents cost may be the same; of one without an onset they may be any."""
    if one.onset_step is None or other.onset_step is None:
        return True
    first, second = sorted((i.onset_step or 0, (i.onset_step or 0) + (i.cost.steps or 0)) for i in (one, other))
    return second[0] < first[1]


def _grouped(gaps: Iterable[NotJudged]) -> list[dict[str, str]]:
    """Kinds that share a reason share a row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        rows.setdefault((gap.reason, gap.log_next_time.removeprefix("log ")), []).append(gap.kind)
    return [
        {"kinds": ", ".join(kinds), "reason": reason, "log_next_time": log} for (reason, log), kinds in rows.items()
    ]


def _unlogged(gaps: Iterable[NotJudged]) -> str:
    """Kinds without a single role they need, each with the roles, on one line."""
    rows = _grouped(gap for gap in gaps if gap.reason.startswith(UNLOGGED))
    return "; ".join(f"{row['kinds']} ({row['reason'].removeprefix(UNLOGGED)})" for row in rows)


def _judged(result: RunResult) -> int:
    """How many kinds were asked for and could be judged."""
    select, ignore = (tuple(result.options.get(name, ())) for name in ("select", "ignore"))
    asked = Settings(select=select, ignore=ignore)
    blind = {gap.kind for gap in result.not_judged} | {failed.detector for failed in result.errored}
    kinds = (kind for name, kind in KINDS.items() if name not in {*blind, *RAISED_BY_OTHERS})
    return sum(asked.wants(kind.name, kind.family) for kind in kinds)


def _uncovered(result: RunResult) -> list[str]:
    """What coverage-gap misses besides the kinds not judged, which have a table of their own."""
    remarks = [page.root for page in narrative.remarks(result) if page.root.kind == narrative.COVERAGE]
    return [item.text for root in remarks for item in root.evidence if item.signal != "outcomes"]


def _data_line(blame: Blame, result: RunResult) -> Markdown:
    parts = []
    if blame.window is not None:
        basis = f", {BASIS[blame.basis]}" if blame.basis else ""
        parts.append(escape(f"{text.capital(text.stretch(result.axis.unit, *blame.window))} fed it{basis}"))
    if blame.note:
        parts.append(escape(text.capital(blame.note)))
    return text.sentences(parts)


def _batch_caption(blame: Blame) -> str:
    """How many batches are listed, and how many of them fed the window rather than a suspect's other steps."""
    count = text.plural(len(blame.batches), "batch", "batches")
    if blame.window is None:
        return count
    low, high = blame.window
    inside = sum(low <= row.get("log_step", row.get("step", low)) <= high for row in blame.batches)
    elsewhere = len(blame.batches) - inside
    return f"{count}: {inside} of the window" + (f", {elsewhere} with suspects at other steps" if elsewhere else "")


def _batch_table(batches: Sequence[Mapping[str, Any]]) -> Markdown:
    """Batches as a table: the canonical columns first, empty columns left out."""
    shown = batches[:MAX_BATCHES]
    filled = list(dict.fromkeys(key for row in shown for key, value in row.items() if value not in (None, "", [])))
    columns = [name for name in BATCH_COLUMNS if name in filled]
    columns += [name for name in filled if name not in BATCH_COLUMNS]
    columns = columns[:MAX_COLUMNS]
    lines = [_cells(escape(name) for name in columns), _cells("---" for _ in columns)]
    lines += [_cells(_cell(row.get(name)) for name in columns) for row in shown]
    rest = len(batches) - len(shown)
    if rest:
        lines.append(f"\n{number(rest)} more in `result.json`.")
    return Markdown("\n".join(lines))


def _cells(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return escape(text.listing(map(str, value), 3))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return "-" if value is None else escape(str(value))


def _fenced(config: Mapping[str, Any]) -> Markdown:
    """A configuration as a fenced JSON block that nothing inside can close."""
    lines = json.dumps(config, indent=2, default=str, ensure_ascii=False).splitlines()
    body = "\n".join(lines[:MAX_CONFIG_LINES])
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    rest = len(lines) - MAX_CONFIG_LINES
    more = f"\n\n{number(rest)} more lines in `result.json`." if rest > 0 else ""
    return Markdown(f"{fence}json\n{body}\n{fence}{more}")


def _rest(rows: Sequence[Any]) -> str:
    left = len(rows) - MAX_ROWS
    return Markdown(f"{number(left)} more in `result.json`.") if left > 0 else ""


def _row(result: RunResult, report: str) -> dict[str, Any]:
    lead = next(iter((*narrative.alarms(result), *narrative.told_remarks(result))), None)
    row = {"run": result.run, "report": report, "verdict": result.verdict, "alarms": result.alarms}
    crashed = narrative.crash(result)
    if lead is None:
        return row | dict.fromkeys(("when", "sure", "cause", "suspect"), "-") | {"what": crashed or "-"}
    suspect = narrative.top_suspect(lead.root)
    cause = lead.root.causes[0] if lead.root.causes else None
    return row | {
        "what": f"{narrative.chain(lead)} ({lead.root.severity})" + (f"; {crashed}" if crashed else ""),
        "when": text.when(lead.root),
        "sure": sure(lead.root),
        "cause": f"{cause.cause} ({cause.confidence:.2f})" if cause else "-",
        "suspect": Markdown(f"{suspect.type} {text.code(suspect.id)} ({suspect.confidence:.2f})") if suspect else "-",
    }
