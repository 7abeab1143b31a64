from __future__ import annotations

from dataclasses import replace

import pytest
from results import full_incident, make_incident, make_run

from trainforensics.config import Settings
from trainforensics.errors import EXIT_OK, EXIT_POLICY, EXIT_UNDECIDED, UsageError
from trainforensics.gate import Decision, Policy, judge
from trainforensics.model import (
    DetectorError,
    Incident,
    NotJudged,
    ReadWarning,
    RunResult,
    SeriesSummary,
    SourceSummary,
)

FAILED = DetectorError("plateau", "ValueError: x")


def decide(*results: RunResult, fail_on: str = "high", require: tuple[str, ...] = (), **given: object) -> Decision:
    settings = Settings(fail_on=fail_on, require=require, **given)  # type: ignore[arg-type]
    return judge(results, Policy.of(settings), settings)


def test_a_stable_run_passes() -> None:
    assert decide(make_run()).exit_code == EXIT_OK


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 0), ("high", 0), ("medium", 1), ("low", 1)])
def test_fail_on_is_the_lowest_severity_that_fails(fail_on: str, code: int) -> None:
    assert decide(make_run(make_incident("instant-burst")), fail_on=fail_on).exit_code == code


@pytest.mark.parametrize(
    ("fail_on", "kinds"), [("high", ["instant-burst"]), ("medium", []), ("critical", ["instant-burst"])]
)
def test_alarms_below_the_bar_are_told_as_tolerated(fail_on: str, kinds: list[str]) -> None:
    found = decide(make_run(make_incident("instant-burst"), make_incident("clip-saturation")), fail_on=fail_on)
    assert [one.incident.kind for one in found.tolerated] == kinds


def test_only_roots_count() -> None:
    root = make_incident("instant-burst")
    effect = make_incident("divergence", 1300, caused_by=root.id)
    assert decide(make_run(root, effect)).exit_code == EXIT_OK


def test_every_violation_of_every_run_is_named() -> None:
    decision = decide(
        make_run(full_incident(), make_incident("divergence"), run="a"), make_run(full_incident(), run="b")
    )
    assert decision.exit_code == EXIT_POLICY
    assert [(v.run, v.incident.kind) for v in decision.violations] == [
        ("a", "instant-burst"), ("a", "divergence"), ("b", "instant-burst"),
    ]  # fmt: skip


def test_ignored_and_unselected_kinds_do_not_fail() -> None:
    run = make_run(make_incident("divergence"))
    assert decide(run, ignore=("divergence",)).exit_code == EXIT_OK
    assert decide(run, select=("numerics",)).exit_code == EXIT_OK
    assert decide(run, select=("loss",)).exit_code == EXIT_POLICY


@pytest.mark.parametrize(
    ("run", "require"),
    [
        (make_run(verdict="undecided"), ()),
        (make_run(errored=(FAILED,)), ()),
        (make_run(), ("val_loss",)),
        (make_run(not_judged=(NotJudged("plateau", "too short"),)), ("plateau",)),
        (make_run(), ("nondeterminism",)),
        (make_run(options={"ignore": ["plateau"]}), ("plateau",)),
        (make_run(options={"select": ["numerics"]}), ("plateau",)),
    ],
    ids=["undecided", "detector failed", "role", "kind", "kind without detector", "ignored", "not selected"],
)
def test_a_gate_never_passes_because_it_could_not_look(run: RunResult, require: tuple[str, ...]) -> None:
    assert decide(run, require=require).exit_code == EXIT_UNDECIDED


def test_no_run_at_all_is_not_a_pass() -> None:
    assert decide().exit_code == EXIT_UNDECIDED


def series(name: str, role: str | None, n: int = 100) -> SeriesSummary:
    return SeriesSummary(name, role, "run.log", None, n, 0, 0, 100)


def test_a_run_without_any_loss_does_not_pass_by_what_else_it_logs() -> None:
    run = make_run(series=(series("average reward", "reward"), series("loss scale", "loss_scale")))
    (blind,) = decide(run).blind
    assert blind.reason == "no readable loss (--map NAME=train_loss, or --require reward to judge the run by it alone)"
    assert decide(run, require=("reward",)).exit_code == EXIT_OK
    assert decide(run, require=("val_metric",)).exit_code == EXIT_UNDECIDED
    unread = make_run(series=(series("loss", "train_loss", n=0), series("acc", "val_metric")))
    assert decide(unread).exit_code == EXIT_UNDECIDED


@pytest.mark.parametrize(("name", "role"), [("loss", "train_loss"), ("eval", "val_loss"), ("actor/pg_loss", None)])
def test_any_loss_that_was_read_is_one(name: str, role: str | None) -> None:
    assert decide(make_run(series=(series(name, role), series("r", "reward")))).exit_code == EXIT_OK


def test_what_is_required_and_there_passes() -> None:
    assert decide(make_run(), require=("grad_norm", "val-jump")).exit_code == EXIT_OK


def test_a_required_kind_that_fired_was_judged() -> None:
    assert not decide(make_run(make_incident("hang")), require=("hang",)).blind


def test_a_failed_detector_that_is_ignored_does_not_matter() -> None:
    assert decide(make_run(errored=(FAILED,)), ignore=("plateau",)).exit_code == EXIT_OK


def test_not_being_able_to_look_outweighs_a_violation_and_both_are_told() -> None:
    decision = decide(make_run(full_incident(), errored=(FAILED,)))
    assert decision.exit_code == EXIT_UNDECIDED
    assert len(decision.violations) == 1
    assert decision.blind[0].reason == "detector plateau failed (ValueError: x)"


def test_an_unknown_requirement_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="did you mean grad_norm"):
        Policy.of(Settings(require=("grad_nrom",)))


def test_an_unknown_severity_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="low, medium, high, critical"):
        Policy.of(Settings(fail_on="severe"))


def test_an_effect_counts_when_its_root_is_left_out() -> None:
    rise = make_incident("gradual-rise", severity="high", id="rise")
    lost = make_incident("divergence", severity="critical", id="lost", caused_by="rise")
    run = make_run(rise, lost)
    assert [v.incident.id for v in decide(run).violations] == ["rise"]
    assert [v.incident.id for v in decide(run, ignore=("gradual-rise",)).violations] == ["lost"]
    assert [v.incident.id for v in decide(run, select=("divergence",)).violations] == ["lost"]


@pytest.mark.parametrize("cause", ["nowhere", "lost"])
def test_a_broken_or_circular_chain_hides_nothing(cause: str) -> None:
    lost = make_incident("divergence", severity="critical", id="lost", caused_by=cause)
    assert decide(make_run(lost)).exit_code == EXIT_POLICY


def damaged(kind: str, *incidents: Incident) -> RunResult:
    lost = ReadWarning(kind, "byte 6000", "the file is cut off")
    return replace(make_run(*incidents), sources=(SourceSummary("a.json", "jsonl", 10, (lost,)),))


@pytest.mark.parametrize("kind", ["damaged-file", "corrupt", "damaged-archive", "importer-error"])
def test_a_damaged_file_is_named_and_forbids_a_pass(kind: str) -> None:
    decision = decide(damaged(kind))
    assert decision.exit_code == EXIT_UNDECIDED
    assert "a.json" in decision.blind[0].reason
    assert len(decision.blind) == 1


def test_an_unfinished_last_line_is_a_log_still_being_written() -> None:
    assert decide(damaged("torn-line")).exit_code == EXIT_OK


def test_what_damage_took_does_not_undo_a_violation() -> None:
    assert decide(damaged("damaged-file", make_incident("divergence"))).exit_code == EXIT_POLICY
