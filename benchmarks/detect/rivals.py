"""Public tools that read training logs, called as a user calls them, their findings mapped to our kinds.

A finding is mapped to every kind it might mean. A finding without a step counts as at the right place. Which severities
of a tool count as alarms is chosen in its favour: the choice with the higher F1.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detect.rules import GRAD_NOT_FINITE, GRADIENT, NOT_FINITE, OVERFIT, SPIKE, STUCK
from benchmarks.detect.scorer import Alarm
from trainforensics.signals import Signals

NOT_LOGS = re.compile(r"config\.json|batches\.\w+|.*\.ya?ml")
COLUMNS = {
    "train_loss": "loss", "val_loss": "val_loss", "learning_rate": "lr", "grad_norm": "grad_norm",
    "val_metric": "val_accuracy", "tokens_per_sec": "tokens_per_sec", "step_time": "step_time",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool said of a run. `read`: it found metrics; `findings`: (severity, alarm)."""

    read: bool
    findings: tuple[tuple[str, Alarm], ...] = ()


@dataclass(frozen=True, slots=True)
class Rival:
    """A tool: its command, its severities from mild to grave, and how to ask it."""

    name: str
    severities: tuple[str, ...]
    ask: Callable[[Path, Path], Answer]

    def installed(self, folder: Path) -> bool:
        """Whether its command lies in `folder`."""
        return (folder / self.name).is_file()


def commands() -> Path:
    """Where the commands of this environment lie."""
    return Path(sys.executable).parent


def logs_of(run: Path) -> list[Path]:
    """The files of a run that hold metrics."""
    return sorted(file for file in run.rglob("*") if file.is_file() and not NOT_LOGS.fullmatch(file.name))


def convert(signals: Iterable[Signals], file: Path) -> None:
    """A run as JSON lines with the names that all tools document; NaN as Python writes it."""
    rows: dict[int, dict[str, Any]] = {}
    for view in signals:
        for role, column in COLUMNS.items():
            curve = view.curve(role)
            if curve is not None:
                for step, value in zip(curve.step.tolist(), curve.value.tolist(), strict=True):
                    rows.setdefault(step, {"step": step})[column] = value
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(rows[step]) + "\n" for step in sorted(rows)), "utf-8")


def call(command: Sequence[str | Path]) -> Any:
    """The JSON document a command prints; None where it prints none."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return None


def first_that_reads(ask: Callable[[Path, Path], Answer]) -> Callable[[Path, Path], Answer]:
    """Ask for the folder, then for each of its files; the first answer that read anything counts."""

    def judge(bin_: Path, run: Path) -> Answer:
        for path in [run, *logs_of(run)] if run.is_dir() else [run]:
            answer = ask(bin_, path)
            if answer.read:
                return answer
        return Answer(False)

    return judge


def _alarm(kinds: tuple[str, ...], steps: Iterable[Any], span: tuple[float, float] | None = None) -> Alarm:
    return Alarm(kinds, tuple(float(step) for step in steps if step is not None), span)


# --- one adapter a tool --------------------------------------------------------------------------------------------

TRAINSPOTTER = {
    "spikes": SPIKE, "divergence": ("divergence", "gradual-rise", *NOT_FINITE, *SPIKE), "plateau": STUCK,
    "overfitting": OVERFIT, "lr_schedule": ("lr-anomaly",), "throughput": ("throughput-drop", "straggler", "hang"),
    "eval_noise": ("eval-invalid", "oscillation", "val-jump"), "loss_floor": ("suspicious-low-loss", "loss-zero"),
    "grad_norm": GRADIENT,
}  # fmt: skip
RUNMEDIC = {
    "non_finite": (*NOT_FINITE, "grad-nan", "eval-invalid"), "divergence": ("divergence", "gradual-rise", *SPIKE),
    "loss_spikes": SPIKE, "no_learning": STUCK, "overfitting": OVERFIT, "val_below_train": ("suspicious-low-loss",),
    "grad_spikes": GRADIENT, "constant_lr_plateau": STUCK, "input_bound": ("throughput-drop",),
    "slow_steps": ("throughput-drop", "hang", "straggler"), "slowdown": ("throughput-drop",),
    "memory_growth": ("memory-growth",),
}  # fmt: skip
TRAINPROOF = {
    "TP-NAN": NOT_FINITE, "TP-NAN-GRAD": GRAD_NOT_FINITE, "TP-DIVERGE": ("divergence", "gradual-rise", *SPIKE),
    "TP-FLAT": STUCK, "TP-DEAD-RUN": STUCK, "TP-ZERO-GRAD": ("vanishing-gradient", "underflow", *STUCK),
    "TP-GRAD-SPIKE": GRADIENT, "TP-ZERO-LR": ("lr-anomaly", "plateau"), "TP-ZERO-LR-PARTIAL": ("lr-anomaly", "plateau"),
    "TP-ZERO-LOSS": ("loss-zero", "suspicious-low-loss"), "TP-ZERO-LOSS-ONSET": ("loss-zero", "suspicious-low-loss"),
    "TP-OVERFIT": OVERFIT, "TP-STEP-CLIFF": ("throughput-drop", "straggler"), "TP-LOADER-BOUND": ("throughput-drop",),
}  # fmt: skip
LOSSLINT = {
    "nan_inf": (*NOT_FINITE, "grad-nan", "eval-invalid"), "loss_spike": SPIKE,
    "divergence": ("divergence", "gradual-rise", *SPIKE), "overfit_onset": OVERFIT, "stagnation": STUCK,
    "step_backtrack": ("resume-discontinuity", "import-integrity"), "parse": ("import-integrity",),
}  # fmt: skip
RUNWISE = {
    "nan": (*NOT_FINITE, "grad-nan"), "spike": SPIKE, "overfit": OVERFIT, "plateau": STUCK,
    "gradient": ("gradient-explosion", "vanishing-gradient", "underflow", *SPIKE), "system": ("throughput-drop",),
}  # fmt: skip
RUNWISE_ASK = """
import json, sys
from runwise.anomalies import detect_anomalies
rows = [json.loads(line) for line in open(sys.argv[1])]
found = detect_anomalies(rows)
print(json.dumps([{"type": a.type, "severity": a.severity, "step": a.step} for a in found]))
"""


def _trainspotter(bin_: Path, path: Path) -> Answer:
    report = call([bin_ / "trainspotter", "analyze", path, "--output", "json"])
    if report is None:
        return Answer(False)
    findings = []
    for found in report["findings"]:
        kinds = TRAINSPOTTER[found["detector"]]
        if "clipping" in found["title"]:
            kinds = ("clip-saturation",)
        peak = found["evidence"].get("peak_step") if isinstance(found["evidence"], dict) else None
        span = (float(found["step_start"]), float(found["step_end"]))
        findings.append((found["severity"], _alarm(kinds, (*span, peak), span)))
    return Answer(True, tuple(findings))


def _runmedic(bin_: Path, path: Path) -> Answer:
    report = call([bin_ / "runmedic", "diagnose", path, "--json"])
    if not report:
        return Answer(False)
    findings = []
    for run in report:
        for found in run["findings"]:
            kinds = RUNMEDIC.get(found["check"])
            if kinds is not None:
                findings.append((found["severity"], _alarm(kinds, _runmedic_steps(found))))
    return Answer(True, tuple(findings))


def _runmedic_steps(found: dict[str, Any]) -> list[Any]:
    """The step it names, and those that it lists in its text."""
    listed = [line for line in found["evidence"] if line.startswith("spike steps:")]
    return [found["step"], *(number for line in listed for number in re.findall(r"\d+(?:\.\d+)?", line))]


def _trainproof(bin_: Path, path: Path) -> Answer:
    report = call([bin_ / "trainproof", "doctor", path, "--json"])
    if report is None:
        return Answer(False)
    found = [finding for run in report.get("reports", ()) for finding in run["findings"]]
    if not found or any(finding["id"] in {"TP-NO-RECORDS", "TP-NO-LOSS"} for finding in found):
        return Answer(False)
    known = [finding for finding in found if finding["id"] in TRAINPROOF]
    return Answer(True, tuple((f["level"], _alarm(TRAINPROOF[f["id"]], _trainproof_steps(f))) for f in known))


def _trainproof_steps(found: dict[str, Any]) -> list[str]:
    """The first step its evidence names, if any."""
    named = re.search(r"(?:[Ss]teps?:? \[?|at step )(\d+(?:\.\d+)?)", found["evidence"] or "")
    return [named[1]] if named else []


def _losslint(bin_: Path, path: Path) -> Answer:
    report = call([bin_ / "losslint", "check", path, "--format", "json"])
    if report is None or not any(run["points"] for run in report["runs"]):
        return Answer(False)
    findings = []
    for found in report["findings"]:
        details = found["details"]
        steps = [*details.get("steps", ()), *(v for k, v in details.items() if k.endswith("step") and v is not None)]
        findings.append((found["severity"], _alarm(LOSSLINT[found["check"]], _occurrences(steps))))
    return Answer(True, tuple(findings))


def _occurrences(steps: Sequence[float]) -> list[float]:
    """Steps with neighbours folded, as for the public rules."""
    ordered = np.unique(np.array(steps, dtype=float))
    return [float(s) for s in ordered[np.append(True, np.diff(ordered) > 10)]] if len(ordered) else []


def _runwise(bin_: Path, path: Path) -> Answer:
    """Its command shows anomalies of W&B's own folders only; for JSON lines its library is asked."""
    if path.suffix != ".jsonl":
        return Answer(False)
    python = next((bin_ / name for name in ("python", "python3") if (bin_ / name).exists()), shutil.which("python3"))
    found = call([str(python), "-c", RUNWISE_ASK, path])
    if found is None:
        return Answer(False)
    return Answer(True, tuple((f["severity"], _alarm(RUNWISE[f["type"]], [f["step"]])) for f in found))


RIVALS: tuple[Rival, ...] = (
    Rival("trainspotter", ("info", "warning", "error"), first_that_reads(_trainspotter)),
    Rival("runmedic", ("info", "warning", "critical"), first_that_reads(_runmedic)),
    Rival("trainproof", ("INFO", "WARN", "FAIL"), first_that_reads(_trainproof)),
    Rival("losslint", ("info", "warning", "error"), first_that_reads(_losslint)),
    Rival("runwise", ("warning", "critical"), first_that_reads(_runwise)),
)


def alarms(rival: Rival, answer: Answer, least: str) -> list[Alarm]:
    """What counts as an alarm when severities from `least` on do."""
    counted = rival.severities[rival.severities.index(least) :]
    return [alarm for severity, alarm in answer.findings if severity in counted]
