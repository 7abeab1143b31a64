from trainforensics.incidents.merge import merge
from trainforensics.model import Evidence, Finding, Recovery


def finding(kind: str, onset: int, recovery: Recovery | None = "unrecovered") -> Finding:
    row = Evidence("loss", onset, 8.0, 2.0, kind)
    return Finding(kind, "loss", "train_loss", onset, 0.9, kind, evidence=(row,), recovery=recovery)


def test_a_change_of_scale_takes_the_jump_of_the_loss_in() -> None:
    (merged,) = merge((finding("divergence", 505), finding("scale-mismatch", 503)), slack=4)
    assert merged.kind == "scale-mismatch"
    assert [row.text for row in merged.evidence] == ["scale-mismatch", "divergence"]


def test_another_step_is_another_happening() -> None:
    assert len(merge((finding("divergence", 700), finding("scale-mismatch", 503)), slack=4)) == 2


def test_a_loss_that_runs_away_is_told_by_itself() -> None:
    assert len(merge((finding("divergence", 503, "diverging"), finding("data-shift", 503)), slack=4)) == 2


def test_nothing_is_taken_in_by_kinds_that_explain_nothing() -> None:
    findings = (finding("divergence", 503), finding("nan-onset", 503))
    assert merge(findings, slack=4) == findings


def test_a_loss_that_became_a_constant_has_not_diverged() -> None:
    (merged,) = merge((finding("divergence", 870), finding("loss-zero", 870)), slack=4)
    assert merged.kind == "loss-zero"


def test_rises_that_come_back_in_every_cycle_are_the_cycle() -> None:
    rises = tuple(finding("gradual-rise", at, "recovered") for at in (100, 200, 405))
    (kept,) = merge((finding("periodic-data-order", 100), *rises), slack=4)
    assert [row.step for row in kept.evidence] == [100, 100, 200, 405]
    assert len(merge((finding("periodic-data-order", 100), *rises[:2]), slack=4)) == 3
    assert len(merge(rises, slack=4)) == 3
    other = finding("gradual-rise", 650, "recovered")  # no whole number of cycles away
    assert len(merge((finding("periodic-data-order", 100), *rises, other), slack=4)) == 5
