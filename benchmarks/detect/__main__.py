"""`python -m benchmarks.detect`: score every tool on the labelled corpus and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.detect import rivals
from benchmarks.detect.corpus import FIXTURES, Case, cases
from benchmarks.detect.cost import cost
from benchmarks.detect.rivals import RIVALS, Answer, Rival, convert
from benchmarks.detect.rules import RULES, judge
from benchmarks.detect.scorer import figures, score_run
from benchmarks.detect.tables import ToolScore, calibration, families_of_tools, of_families, of_kinds, of_tools
from benchmarks.page import write_section

OURS = "trainforensics"


def ours(corpus: Sequence[Case]) -> ToolScore:
    """Our own verdicts."""
    return ToolScore(OURS, tuple(score_run(case.label, case.alarms, case.read) for case in corpus))


def by_rules(corpus: Sequence[Case]) -> list[ToolScore]:
    """Every public rule."""
    return [
        ToolScore(
            rule.name,
            tuple(
                score_run(case.label, [a for view in case.signals for a in judge(rule, view)], case.read)
                for case in corpus
            ),
        )
        for rule in RULES
    ]


def by_rivals(corpus: Sequence[Case], bin_: Path, work: Path) -> tuple[list[ToolScore], list[str]]:
    """Every installed tool, on the logs as they are and on converted ones; and the names of those not installed."""
    tools = []
    for case in corpus:
        convert(case.signals, work / case.label.run / "metrics.jsonl")
    for rival in RIVALS:
        if rival.installed(bin_):
            tools.append(_score(rival, corpus, _answers(rival, bin_, [case.folder for case in corpus]), ""))
            converted = _answers(rival, bin_, [work / case.label.run for case in corpus])
            tools.append(_score(rival, corpus, converted, ", converted logs"))
    return tools, [rival.name for rival in RIVALS if not rival.installed(bin_)]


def _answers(rival: Rival, bin_: Path, folders: Sequence[Path]) -> list[Answer]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the threads wait for processes
        return list(pool.map(lambda folder: rival.ask(bin_, folder), folders))


def _score(rival: Rival, corpus: Sequence[Case], answers: Sequence[Answer], note: str) -> ToolScore:
    """The severities that serve the tool best count as alarms."""
    choices = []
    for least in rival.severities:
        runs = tuple(
            score_run(case.label, rivals.alarms(rival, answer, least), answer.read)
            for case, answer in zip(corpus, answers, strict=True)
        )
        choices.append((figures(runs).f1 or 0.0, ToolScore(f"{rival.name}{note} (from {least})", runs)))
    return max(choices, key=lambda choice: choice[0])[1]


def report(corpus: Sequence[Case], rival_scores: Sequence[ToolScore], missing: Sequence[str], spent: str) -> str:
    """The section of docs/benchmarks.md."""
    own, rules = ours(corpus), by_rules(corpus)
    tools = [own, *rules, *rival_scores]
    points = {case.label.run: case.points for case in corpus}
    healthy = sum(case.label.healthy for case in corpus)
    absent = f"Not installed, so not scored: {', '.join(missing)}.\n" if missing else ""
    rated = [pair for run in own.runs for pair in run.rated]
    parts = [
        f"{len(corpus)} trained runs, {healthy} of them healthy, {sum(points.values()):,} logged steps.\n",
        "### Tools\n", of_tools(tools, points), absent,
        "### F1 by family\n", families_of_tools(tools),
        "### trainforensics by family\n", of_families(own),
        "### trainforensics by kind\n", of_kinds(own),
        "### Confidence against hit rate\n", calibration(rated),
        "### Cost of judging\n", spent,
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=FIXTURES, help="folder with runs/ and truth.jsonl")
    parser.add_argument("--rivals", type=Path, default=rivals.commands(), help="folder with the rivals' commands")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        corpus = cases(Path(name) / "out", args.corpus)
        scores, missing = by_rivals(corpus, args.rivals, Path(name) / "converted")
        text = report(corpus, scores, missing, cost())
    print(text)
    if not args.no_write:
        write_section("detect", text)


if __name__ == "__main__":
    main()
