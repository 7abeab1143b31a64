"""`trainforensics gate`: results held against a policy, for CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from trainforensics.cli import inputs, options, output
from trainforensics.cli.output import Form, Format
from trainforensics.kinds import severity_rank

if TYPE_CHECKING:
    from trainforensics.gate import Decision, Policy, Violation
    from trainforensics.model import RunResult

MAX_TOLERATED = 10  # incidents below the policy's severity that are told one by one
FailOn = Annotated[
    str | None,
    typer.Option("--fail-on", metavar="SEVERITY", help="Lowest severity that fails (high).", show_default=False),
]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", metavar="NAMES", help="Roles or kinds that must have been judged.", show_default=False),
]


def gate(
    paths: options.Paths,
    fail_on: FailOn = None,
    require: Require = None,
    out: options.Out = None,
    select: options.Select = None,
    ignore: options.Ignore = None,
    map_: options.Map = None,
    config: options.ConfigFile = None,
    jobs: options.Jobs = None,
    form: Form = Format.TABLE,
    write: options.Write = None,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Pass (0) or fail (1) runs by a policy; 4 if it could not look. Takes logs, a result.json or an --out folder."""
    settings = options.settings_from(
        config,
        out=out,
        select=select,
        ignore=ignore,
        map=map_,
        jobs=jobs,
        fail_on=fail_on,
        require=require,
        plots=False,
    )
    targets = output.targets(write)
    from trainforensics import gate as policies  # noqa: PLC0415

    policy = policies.Policy.of(settings)
    with options.progress_bar(show=not (quiet or no_progress)) as progress:
        found = inputs.results_of(paths, settings, progress)
    results = found.results
    options.notes((note for note in found.notes if ": not read: " not in note), quiet=quiet)
    decision = policies.judge(results, policy, settings, found.unread)
    output.write_files(targets, None, results, fail_on=policy.fail_on)
    if form is Format.TABLE:
        _print(decision, results, policy, quiet)
    else:
        from trainforensics.report.render import render  # noqa: PLC0415

        print(render(form, None, results, fail_on=policy.fail_on), end="")
    raise typer.Exit(decision.exit_code)


def _print(decision: Decision, results: Sequence[RunResult], policy: Policy, quiet: bool) -> None:
    from trainforensics.report.text import one_line, plural  # noqa: PLC0415

    for violation in decision.violations:
        print(_line(violation))
    for blind in decision.blind:
        print(f"{one_line(blind.run)}: could not judge: {one_line(blind.reason)}")
    if quiet:
        return
    for violation in decision.tolerated[:MAX_TOLERATED]:
        print(f"tolerated: {_line(violation)}")
    runs = plural(len(results), "run")
    failed = len({violation.run for violation in decision.violations})
    count = plural(len(decision.violations), "violation")
    if decision.blind:
        names = {blind.run for blind in decision.blind}
        judged = {result.run for result in results}
        unjudged, unread = len(names & judged), len(names - judged)
        parts = [f"could not judge {unjudged} of {runs}"] if unjudged or not unread else []
        parts += [f"could not read {plural(unread, 'path')}"] if unread and any(names - judged) else []
        parts += [f"{count} in {failed} of {runs}"] if failed else []
        print(f"gate: {'; '.join(parts)}")
    elif decision.violations:
        print(f"gate: failed, {count} in {failed} of {runs}")
    else:
        passed = f"passed, {runs} without an incident of severity {policy.fail_on} or above"
        print(f"gate: {passed}{_tolerated(decision)}")


def _line(violation: Violation) -> str:
    from trainforensics.report.text import number, one_line  # noqa: PLC0415

    found = violation.incident
    at = "" if found.onset_step is None else f" at step {number(found.onset_step)}"
    return f"{one_line(violation.run)}: {found.severity} {found.kind} ({found.code}){at}: {one_line(found.summary)}"


def _tolerated(decision: Decision) -> str:
    """How many alarms the policy let pass, and which one would not."""
    from trainforensics.report.text import plural  # noqa: PLC0415

    if not decision.tolerated:
        return ""
    worst = max((one.incident.severity for one in decision.tolerated), key=severity_rank)
    return f"; {plural(len(decision.tolerated), 'lesser incident')} tolerated (--fail-on {worst} would fail)"
