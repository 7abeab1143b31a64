from __future__ import annotations

from shell import Run


def test_a_code_is_explained(run: Run) -> None:
    code, stdout, _ = run("explain", "GEN102")
    assert code == 0
    assert stdout.startswith("# Validation jump\n")
    assert "## False positives" in stdout


def test_all_kinds_are_listed_without_a_name(run: Run) -> None:
    assert "[nan-onset](nan-onset.md) | NUM101" in run("explain")[1]


def test_an_unknown_name_is_a_usage_error_with_near_matches(run: Run) -> None:
    code, stdout, stderr = run("explain", "nan-onst")
    assert (code, stdout) == (2, "")
    assert "did you mean nan-onset" in stderr


def test_colour_is_only_there_when_asked_for(run: Run) -> None:
    assert "\x1b" not in run("explain", "val-jump")[1]
    assert "\x1b" in run("explain", "val-jump", "--color", "always")[1]


def test_families_causes_and_roles_are_explained(run: Run) -> None:
    assert run("explain", "loss")[1].startswith("# Incident kinds of the family loss\n")
    assert "a cause, not a kind of incident" in run("explain", "bad-batch")[1]
    assert "| `train_loss` |" in run("explain", "roles")[1]
