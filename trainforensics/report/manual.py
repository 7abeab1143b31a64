"""The page of a kind, from its detector's docstring and declaration. `explain` and docs/ show the same."""

from __future__ import annotations

import difflib
import inspect
import re
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from trainforensics import registry, roles
from trainforensics.causes.hypotheses import by_cause
from trainforensics.detectors.base import Meta, Param
from trainforensics.errors import UsageError
from trainforensics.kinds import CODES, FAMILIES, KINDS, Kind
from trainforensics.remedies.by_cause import CHECKS
from trainforensics.report.brief import BRIEFS
from trainforensics.report.text import capital, code, label, number

SECTIONS = ("What it detects", "Why it matters", "Evidence", "False positives", "Example", "Parameters")
DETAILS = ("Why it matters", "What it detects", "Evidence", "False positives")  # after what is said in short
WITHOUT_DETECTOR = {
    "suspect-shard": "Raised by blame, as an effect of the incident whose data it names; it has no own detector.",
    "nondeterminism": "Raised where runs are compared: between twins of one analysis, and by `trainforensics diff`.",
}
ROLES, CAUSES = "roles", "causes"
# What people call a kind whose name looks nothing like it.
SYNONYMS = {
    "spike": "instant-burst", "spikes": "instant-burst", "loss-spike": "instant-burst",
    "exploding-gradients": "gradient-explosion",
}  # fmt: skip
VERDICTS = {
    "failed": "not finite, or running away, to the end of the log",
    "unstable": "some incident of severity medium or above",
    "stable": "no such incident",
    "undecided": "no usable loss or metric, or an error while judging",
}
ROLES_INTRODUCTION = """# Roles

What a logged number means is its role. It is read from the series' name; case, separators, units, rank, layer and
train/validation words do not matter. `--map NAME=ROLE` (or `[map]` in the configuration file) sets the role of a name
that is not recognised or taken for something else. NAME is the whole name of a series or its last path components.

- `--map objective_a=train_loss` reads the series `objective_a` as the training loss.
- `--map extra=none` keeps the series but gives it no role.
- `--map update_nr=step` takes the column `update_nr` as the step axis of the log.
"""
ROLES_BY_CONTEXT = {"val_loss": "those of `train_loss` with a word such as `val`, `eval`, `test`, `dev`"}
_HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Manual:
    """One kind's page in parts. `summary` and `sections` are empty where no detector judges the kind."""

    kind: Kind
    meta: Meta | None
    summary: str
    sections: dict[str, str]


def find_kind(name: str) -> Kind:
    """The kind of a name or code, in any case. Raises UsageError with near matches."""
    key = _plain(name)
    kind = KINDS.get(CODES.get(name.strip().upper(), key))
    if kind is not None:
        return kind
    codes = {code.lower(): code for code in CODES}
    known = [*{*KINDS, *codes, *FAMILIES, *by_cause(), ROLES, CAUSES}]
    near = [SYNONYMS[key]] if key in SYNONYMS else difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    shown = ", ".join(codes.get(word, word) for word in near)
    hint = f"did you mean {shown}?" if near else "`trainforensics explain` lists every kind"
    if key in VERDICTS:
        hint = f"it is a verdict: {VERDICTS[key]}"
    elif key.replace("-", "_") in roles.roles():
        hint = "it is a role: see `trainforensics explain roles`"
    raise UsageError(f"no kind, code, family or cause {name!r}; {hint}")


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def answer(name: str) -> str:
    """What `explain` says of a kind or code, a family, a cause or a list. Raises UsageError with near matches."""
    key = _plain(name)
    if key == ROLES:
        return roles_page()
    if key == CAUSES:
        return causes_page()
    if key in FAMILIES:
        return overview(key)
    if key in by_cause() and key not in KINDS:
        return cause_page(key)
    return page(find_kind(name))


def cause_page(cause: str) -> str:
    """A cause in Markdown: what it means, and the kinds it is weighed for, likeliest first."""
    module = by_cause()[cause]
    priors = sorted(module.PRIORS.items(), key=lambda item: -item[1])
    rows = [f"| {kind} | {number(prior)} |" for kind, prior in priors]
    check = CHECKS.get(cause)
    advice = [f"**What to do.** {check[0]}. *Confirmed by:* {check[1]}.", ""] if check else []
    return "\n".join(
        [
            f"# {capital(cause)}", "", f"`{cause}` · a cause, not a kind of incident", "",
            _first_sentence(module), "", *advice,
            "Weighed for these kinds. The prior is its share before the log's evidence speaks for or against it.", "",
            "| kind | prior |", "|---|---|", *rows, "",
        ]
    )  # fmt: skip


def causes_page() -> str:
    """Every cause in a table."""
    rows = [f"| {cause} | {_first_sentence(module)} |" for cause, module in sorted(by_cause().items())]
    return "\n".join(["# Causes", "", "| cause | |", "|---|---|", *rows, ""])


def _first_sentence(module: ModuleType) -> str:
    return " ".join((module.__doc__ or "").partition("\n\n")[0].split())


def manual(kind: Kind) -> Manual:
    """What there is to say of a kind."""
    module = _modules().get(kind.name)
    if module is None:
        return Manual(kind, None, "", {})
    summary, sections = parse(module.__doc__ or "")
    return Manual(kind, module.META, summary, sections)


def parse(docstring: str) -> tuple[str, dict[str, str]]:
    """Summary and sections of a detector's docstring, unindented."""
    parts = _HEADING.split(inspect.cleandoc(docstring))
    sections = {
        name: inspect.cleandoc("\n" + body).strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return parts[0].strip(), sections


def page(kind: Kind) -> str:
    """A kind's page in Markdown."""
    found = manual(kind)
    lines = [f"# {capital(label(kind.name))}", "", facts(found), ""]
    if found.meta is None:
        return "\n".join([*lines, without_detector(kind), ""])
    lines += [found.summary, "", *_in_short(found)]
    for name in DETAILS:
        if name in found.sections:
            lines += [f"## {name}", "", found.sections[name], ""]
    lines += ["## Signals", "", _signals(found.meta), ""]
    lines += ["## Parameters", "", *_parameters(kind, found.meta.params)]
    return "\n".join(lines).rstrip() + "\n"


def _in_short(found: Manual) -> list[str]:
    """What a person wants first: how to tell the kind, what it looks like, where it comes from, what to do."""
    practice = BRIEFS.get(found.kind.name)
    told = {
        "How to tell": practice.tell if practice else "",
        "Looks like": " ".join(found.sections.get("Example", "").split()),
        "Usual causes": ", ".join(causes_of(found.kind.name)),
        "What to do": practice.do if practice else "",
    }
    return [line for name, text in told.items() if text for line in (f"**{name}.** {text}", "")]


def causes_of(kind: str, most: int = 3) -> list[str]:
    """The causes that are likeliest for a kind before anything of a log is known, likeliest first."""
    shares = {cause: module.PRIORS[kind] for cause, module in by_cause().items() if kind in module.PRIORS}
    return sorted(shares, key=lambda cause: -shares[cause])[:most]


def without_detector(kind: Kind) -> str:
    """Why nothing judges a kind."""
    for plugin in registry.detectors().broken:
        if plugin.name.endswith("." + kind.name.replace("-", "_")):
            return f"Its detector cannot be loaded: {plugin.message}"
    return WITHOUT_DETECTOR.get(kind.name, "No detector judges this kind yet; it is never reported.")


def facts(found: Manual) -> str:
    """Name, code, family, severity and status in one line."""
    kind = found.kind
    status = f" · status: {found.meta.status}" if found.meta else ""
    return f"`{kind.name}` · {kind.code} · family: {kind.family} · usual severity: {kind.severity}{status}"


def overview(family: str | None = None) -> str:
    """Every kind, or those of one family, in a table."""
    judged = _modules()
    title = "Incident kinds" if family is None else f"Incident kinds of the family {family}"
    lines = [f"# {title}", "", "| kind | code | family | usual severity | |", "|---|---|---|---|---|"]
    for kind in KINDS.values():
        if family not in (None, kind.family):
            continue
        told = parse(judged[kind.name].__doc__ or "")[0] if kind.name in judged else ""
        told = " ".join(told.split()) or without_detector(kind)
        lines.append(f"| [{kind.name}]({kind.name}.md) | {kind.code} | {kind.family} | {kind.severity} | {told} |")
    return "\n".join(lines) + "\n"


def roles_page() -> str:
    """Every role in a table: names it is known by, the kinds that need it or one of a few with it, and others that use
    it."""
    header = "| role | known by names such as | kinds that need it | kinds that use it where it is logged |"
    lines = [ROLES_INTRODUCTION, header, "|---|---|---|---|"]
    for role in roles.roles():
        names = ROLES_BY_CONTEXT.get(role) or ", ".join(map(code, roles.names_of(role)[:4]))
        metas = {kind: module.META for kind, module in _modules().items()}
        needed = [kind for kind, meta in metas.items() if any(role in need.split("|") for need in meta.needs)]
        used = [kind for kind, meta in metas.items() if role in meta.uses and kind not in needed]
        lines.append(f"| `{role}` | {names} | {', '.join(needed) or '-'} | {', '.join(used) or '-'} |")
    return "\n".join(lines) + "\n"


def _signals(meta: Meta) -> str:
    needs = ", ".join(" or ".join(map(code, need.split("|"))) for need in meta.needs) or "nothing in particular"
    uses = ", ".join("every series" if role == "*" else code(role) for role in meta.uses)
    return f"Needs {needs}." + (f" Uses {uses} where logged." if uses else "")


def _parameters(kind: Kind, params: tuple[Param, ...]) -> list[str]:
    if not params:
        return ["None."]
    rows = [f"| {code(p.name)} | {number(p.default)} | {capital(p.source)} |" for p in params]
    setting = f"Set in `trainforensics.toml` under `[params.{kind.name}]`."
    return ["| parameter | default | where it comes from |", "|---|---|---|", *rows, "", setting]


@cache
def _modules() -> dict[str, ModuleType]:
    return {module.META.kind.name: module for module in registry.detectors().modules}
