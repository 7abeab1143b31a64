"""`python -m benchmarks.simulated`: false alarms on healthy noise, and the size an event needs to be named."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from benchmarks.detect.scorer import wilson
from benchmarks.detect.tables import calibration
from benchmarks.page import table, write_section
from benchmarks.simulated.events import EVENTS
from benchmarks.simulated.healthy import NATURES
from benchmarks.simulated.measure import EVENT_SEEDS, SEEDS, Healthy, Injected, healthy, injected

NOISES = ("normal", "Student t, 3 degrees", "autocorrelated 0.9")


def by_nature(runs: Sequence[Healthy]) -> str:
    """Share of healthy runs with an alarm, by nature and number of points."""
    lengths = sorted({run.points for run in runs})
    rows = []
    for nature in dict.fromkeys(run.nature for run in runs):
        own = [run for run in runs if run.nature == nature]
        rows.append([nature, *(_loud([r for r in own if r.points == n]) for n in lengths), _loud(own)])
    rows.append(["**all**", *(_loud([r for r in runs if r.points == n]) for n in lengths), _loud(runs)])
    return table(["nature of the loss", *(f"{n:,} points" for n in lengths), "all"], rows)


def _loud(runs: Sequence[Healthy]) -> str:
    loud = sum(bool(run.alarms) for run in runs)
    return f"{loud}/{len(runs)}" if loud else f"0/{len(runs)}"


def by_kind(runs: Sequence[Healthy]) -> str:
    """How many healthy runs raised each kind, and in which natures most."""
    found: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        for kind in {alarm.kinds[0] for alarm in run.alarms if not alarm.follower}:
            found[kind].append(run.nature)
    rows = []
    for kind, natures in sorted(found.items(), key=lambda item: -len(item[1])):
        low, high = wilson(len(natures), len(runs))
        where = ", ".join(f"{name} {n}" for name, n in Counter(natures).most_common(4))
        rows.append([kind, str(len(natures)), f"{100 * low:.2f}–{100 * high:.2f} %", where])
    return table(["kind", "healthy runs", "share [95 %]", "most in"], rows)


def power(runs: Sequence[Injected]) -> str:
    """Share of events named, by height, length and noise; with the onset error in logged points."""
    groups: dict[tuple[str, str, int], list[Injected]] = defaultdict(list)
    for run in runs:
        groups[run.event.name, run.nature, run.length].append(run)
    rows = []
    for (event, nature, length), own in groups.items():
        heights = dict.fromkeys(run.height for run in own)
        curve = [f"{height:g}: {_named([run for run in own if run.height == height])}" for height in heights]
        errors = [error / run.cadence for run in own for _, error in run.score.errors]
        middle = f"{np.median(errors):.0f} / {np.quantile(errors, 0.9):.0f}" if errors else "–"
        false = Counter(kind for run in own for kind in run.score.false)
        said = "; ".join(f"{kind} {n}" for kind, n in false.most_common(2))
        rows.append([event, nature, str(length), ", ".join(curve), middle, f"{said or 'none'} in {len(own)}"])
    return table(["event", "noise", "length", "height: share named", "onset error", "false alarms in runs"], rows)


def _named(runs: Sequence[Injected]) -> str:
    hits, misses = sum(r.score.hits.total() for r in runs), sum(r.score.misses.total() for r in runs)
    return f"{hits / (hits + misses):.2f}"


def report(quiet: Sequence[Healthy], faulty: Sequence[Injected]) -> str:
    """The section of docs/benchmarks.md."""
    rated = [pair for run in faulty for pair in run.score.rated]
    rated += [(a.confidence, False) for run in quiet for a in run.alarms if not a.follower and a.confidence is not None]
    parts = [
        f"{len(quiet):,} healthy runs of {len(NATURES)} natures, {len(faulty):,} runs with one event (recurring ones: "
        f"five), all with grad norm, learning rate, loss scale, validation and throughput beside the loss; one, ten or "
        f"fifty steps from one logged point to the next.\n",
        "### Healthy runs with an alarm\n", by_nature(quiet),
        "### Kinds raised on healthy runs\n", by_kind(quiet),
        "### How large an event must be\n",
        "Heights are in noise widths (gradients: factors; scale decay: halvings), lengths and onset errors (median / "
        "90th percentile) in logged points; validation's in evaluations.\n",
        power(faulty),
        "### Confidence against hit rate, simulated\n", calibration(rated),
    ]  # fmt: skip
    return "\n".join(parts)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the seeds")
    parser.add_argument("--natures", help="only these, separated by ;", type=lambda text: text.split(";"))
    parser.add_argument("--events", help="only these, separated by ;", type=lambda text: text.split(";"))
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    args = parser.parse_args()
    natures = [nature for nature in NATURES if args.natures is None or nature.name in args.natures]
    events = [event for event in EVENTS if args.events is None or event.name in args.events]
    seeds = {points: max(1, round(count * args.scale)) for points, count in SEEDS.items()}
    noises = [nature for nature in NATURES if nature.name in NOISES]
    text = report(
        list(healthy(natures, seeds)), list(injected(events, noises, max(1, round(EVENT_SEEDS * args.scale))))
    )
    print(text)
    if not args.no_write:
        write_section("simulated", text)


if __name__ == "__main__":
    main()
