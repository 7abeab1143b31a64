from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from results import LONG, full_incident, make_incident, make_index, make_run

from trainforensics.model import (
    Blame,
    Cause,
    Cost,
    CrossRunFinding,
    DetectorError,
    Evidence,
    Incident,
    NotJudged,
    ReadWarning,
    Remedy,
    RunResult,
    SafeCheckpoint,
    Scope,
    Segment,
    SeriesSummary,
    Skipped,
    SourceSummary,
    Suspect,
)
from trainforensics.report.markdown import MAX_ROWS, render_index, render_run

GFM = MarkdownIt("js-default", {"html": True})


def sections(report: str) -> list[str]:
    return re.findall(r"^## (.*)$", report, re.MULTILINE)


def tables(report: str) -> Iterator[list[int]]:
    """Cells of each row of each table."""
    rows: list[int] = []
    for token in GFM.parse(report):
        if token.type == "table_open":
            rows = []
        elif token.type == "tr_open":
            rows.append(0)
        elif token.type in ("td_open", "th_open"):
            rows[-1] += 1
        elif token.type == "table_close":
            yield rows


def effect(**changes: object) -> Incident:
    return make_incident("nan-onset", 41_236, caused_by=full_incident().id, summary="loss turns NaN", **changes)


def test_what_was_lost_counts_no_step_twice() -> None:
    def alarm(onset: int, *cost: float) -> Incident:
        return make_incident(onset=onset, cost=Cost(*cost))  # type: ignore[arg-type]

    def lost(*alarms: Incident) -> str:
        return next((line for line in render_run(make_run(*alarms)).splitlines() if line.startswith("Lost")), "")

    apart, within = alarm(1000, 100, 500, 60.0), alarm(2050, 100, 500, 60.0)
    assert lost(alarm(2000, 300, 900, 120.0), apart) == "Lost: 400 steps, 1400 tokens, 3 min."
    assert lost(alarm(2000, 300, 900, 120.0), within) == "Lost: 300 steps, 900 tokens, 2 min."
    assert lost(alarm(2000, 300, 900), apart) == "Lost: 400 steps, 1400 tokens."
    assert lost(alarm(2000)) == ""


def test_reasons_that_are_sentences_are_joined_without_their_full_stops() -> None:
    cause = Cause("data-shift", 0.6, ("the scale falls, steps 4700 to 6640.", "and so on...", "nothing announced it."))
    text = render_run(make_run(make_incident(causes=(cause,))))
    assert "*For:* the scale falls, steps 4700 to 6640; and so on...; nothing announced it." in text


def test_a_report_asks_to_go_back_only_where_the_remedies_do() -> None:
    incident = full_incident()
    assert incident.safe_checkpoint is not None
    calm = replace(incident, safe_checkpoint=replace(incident.safe_checkpoint, go_back=False))
    assert "Go back" in render_run(make_run(incident))
    assert "Go back" not in (text := render_run(make_run(calm)))
    assert "**Checkpoint.** If one is needed, 40 000: lies before the first precursor" in text


def test_a_report_begins_with_verdict_what_happened_and_what_to_do() -> None:
    lines = render_run(make_run(full_incident(), effect(), verdict="failed")).splitlines()
    assert lines[0] == "# runs/a: **failed** (1 critical)"
    assert lines[2] == (
        "**Instant burst at steps 12 400, 29 873, 41 200 led to NaN onset at 41 236. "
        "Most likely cause: bad-shard (0.83). Suspect: shard `shard-0117` (0.90). "
        "Go back to the checkpoint of step 40 000.**"
    )
    assert lines[3] == "Lost: 1236 steps, 2.6 B tokens, 3 h 10 min."


def test_the_place_of_a_cause_is_not_said_of_its_effect() -> None:
    report = render_run(make_run(replace(full_incident(), scope=Scope(layer="layer_4")), effect()))
    assert "steps 12 400, 29 873, 41 200 (layer_4) led to NaN onset at 41 236. " in report
    assert "## 1. Instant burst, 3 times from step 12 400 on (layer_4), then NaN onset at 41 236\n" in report


def test_batches_of_the_window_are_told_from_those_of_other_steps() -> None:
    incident = full_incident()
    assert incident.blame is not None
    rows = ({"step": 100, "shard": "a"}, {"step": 95, "shard": "b"}, {"step": 700, "shard": "a"})
    blame = replace(incident.blame, window=(90, 100), batches=rows)
    assert "3 batches: 2 of the window, 1 with suspects at other steps" in render_run(
        make_run(replace(incident, blame=blame))
    )


def test_gaps_of_the_log_are_not_counted_as_incidents() -> None:
    gap = make_incident("coverage-gap", None, severity="low", id="gap")
    assert render_run(make_run(full_incident(), gap)).splitlines()[0].endswith("(1 critical)")
    assert render_run(make_run(gap)).splitlines()[0].endswith("(no incident)")


def test_a_checkpoint_after_the_onset_is_not_called_one_to_go_back_to() -> None:
    incident = full_incident()
    assert incident.onset_step is not None
    late = replace(incident, safe_checkpoint=SafeCheckpoint(incident.onset_step + 50, "nearest"))
    head = render_run(make_run(late)).splitlines()[2]
    assert "saved after the onset" in head
    assert "Go back" not in head


def test_every_part_of_an_incident_is_told() -> None:
    report = render_run(
        make_run(full_incident(), effect()), {"timeline": "plots/t.png", full_incident().id: "plots/i.png"}
    )
    for expected in (
        "![Timeline of runs/a](plots/t.png)",
        "## 1. Instant burst, 3 times from step 12 400 on, then NaN onset at 41 236",
        "The onset lies in steps 41 191 - 41 200",
        "](plots/i.png)",
        "| `train/loss` | 41 200 | 6.92 | 2.41 | 150 noise widths above trend |",
        "- `loss_scale` at 41 198, 2 steps ahead: halved.",
        "- NaN onset at 41 236 (critical, 0.90): loss turns NaN.",
        "- **bad-shard** 0.83. *For:* same-step jump. *Against:* fed 640 other batches.",
        "- **numeric-overflow** 0.12. *Against:* follows, does not lead.",
        "*To settle it:* replay 41190-41210.",
        "Steps 41 188 - 41 200 fed it, known from the batch log.",
        "| shard `shard-0117` | 0.90 | 3e-11 | 41 200 | fed 3 of 3 bursts |",
        "| 41 200 | 329590 | shard-0117 | a, b |",
        "**Checkpoint.** 40 000: lies before the first precursor. Alternative 39 000: older.",
        "- [ ] Resume from 40 000 with skip.json",
    ):
        assert expected in report
    assert sections(report) == [
        "1. Instant burst, 3 times from step 12 400 on, then NaN onset at 41 236", "Not judged", "Appendix",
    ]  # fmt: skip


def test_what_speaks_against_a_suspect_is_told_where_it_first_counts_and_in_the_table() -> None:
    why = "fed 3 of 3 bursts; 2 other intervals stayed quiet"
    suspects = tuple(Suspect("doc", name, 0.9, 1e-4, (LONG,), why) for name in ("d1", "d2"))
    incident = full_incident(
        blame=Blame((41_188, LONG), "logged", suspects),
        causes=(
            Cause(
                "bad-batch", 0.8, (f"doc d1: {why} (confidence 0.90)", f"doc d1 recurs by itself, {why}: not a shard")
            ),
            Cause("bad-shard", 0.1, (), (f"doc d1: {why} (confidence 0.90)",)),
        ),
        remediation=(Remedy("Skip doc d1", f"{why}; seen at 41200", "no burst"),),
    )
    effect = make_incident("suspect-shard", severity="low", caused_by=incident.id, summary=f"doc d1 recurs: {why}")
    report = render_run(make_run(incident, effect))
    assert report.count(why) == 2
    assert "doc d1 recurs by itself: not a shard." in report
    assert "*Against:* doc d1 is suspected (confidence 0.90)." in report
    assert "| doc `d1`, `d2` | 0.90 |" in report
    assert "- [ ] Skip doc d1. *Confirm:* no burst." in report
    assert "What followed" not in report


def test_evidence_of_many_ranks_is_a_row() -> None:
    row = Evidence("grad_norm", 402, None, None, "not finite from here on")
    report = render_run(make_run(make_incident(evidence=(row,) * 8)))
    assert report.count("not finite from here on") == 1
    assert "not finite from here on (8 series)" in report


def test_the_header_counts_what_the_report_lists() -> None:
    gap = make_incident("coverage-gap", severity="medium", evidence=(Evidence("x", None, 1.0, None, "gap"),))
    report = render_run(make_run(make_incident("nan-onset", severity="critical"), gap))
    assert report.startswith("# runs/a: **unstable** (1 critical, 1 medium)")
    remark = render_run(make_run(make_incident("coverage-gap", severity="low")))
    assert remark.startswith("# runs/a: **stable** (no incident)")


def test_the_best_checkpoint_of_a_run_that_over_fits_is_not_a_spare_one() -> None:
    best = replace(make_incident("val-divergence"), safe_checkpoint=SafeCheckpoint(900, "the best val_loss is there"))
    assert "**Checkpoint.** 900: the best val" in render_run(make_run(best))


def test_what_was_not_judged_is_counted_and_folded_away() -> None:
    gaps = (NotJudged("val-jump", "fewer than 5", "more"), NotJudged("plateau", "not logged: train_loss", ""))
    report = render_run(make_run(not_judged=gaps, options={"select": ["loss", "val-jump"]}))
    told = report[report.index("## Not judged") : report.index("## Appendix")]
    assert "8 kinds of incident could be judged from this log, 2 could not." in told
    assert (
        told.index("<details>") < told.index("| val-jump |") < told.index("plateau (train") < told.index("</details>")
    )


def test_a_remark_is_not_called_no_incident() -> None:
    report = render_run(make_run(make_incident("clip-saturation", 5)))
    assert "**Nothing above low severity in steps 1 - 41 250; 1 remark below.**" in report


def test_a_healthy_run_says_so_and_shows_no_incident() -> None:
    report = render_run(make_run())
    assert report.startswith("# runs/a: **stable** (no incident)\n\n**No incident in steps 1 - 41 250.**\n")
    assert sections(report) == ["Not judged", "Appendix"]


def test_a_run_with_a_failed_detector_does_not_read_as_all_clear() -> None:
    report = render_run(make_run(errored=(DetectorError("plateau", "ValueError: x"),)))
    assert "**No incident in steps 1 - 41 250, but 1 part of the analysis failed.**" in report
    assert "- `plateau`: ValueError: x" in report


def test_an_undecided_run_says_why() -> None:
    run = make_run(verdict="undecided", series=(), not_judged=(NotJudged("coverage-gap", "no loss", "the loss"),))
    report = render_run(run)
    assert "**This run could not be judged. No loss.**" in report
    assert "| coverage-gap | no loss | the loss |" in report
    assert "<details>" not in report[report.index("## Not judged") : report.index("## Appendix")]


def test_kinds_with_the_same_reason_share_a_row() -> None:
    gaps = tuple(NotJudged(kind, "not logged: val_loss", "log val_loss") for kind in ("val-jump", "val-divergence"))
    assert "val-jump, val-divergence (val_loss)" in render_run(make_run(not_judged=gaps)).replace("\\", "")
    few = tuple(NotJudged(kind, "fewer than 5", "log more") for kind in ("val-jump", "val-divergence"))
    assert "| val-jump, val-divergence | fewer than 5 | more |" in render_run(make_run(not_judged=few))


def test_gaps_in_what_was_logged_are_told_once_and_not_as_a_remark() -> None:
    evidence = (
        Evidence("checkpoints", None, None, None, "no checkpoint is known; log the saves"),
        Evidence("outcomes", None, 1.0, 0.0, "not judged: val-jump (not logged: val_loss)"),
    )
    gap = make_incident("coverage-gap", None, evidence=evidence)
    report = render_run(make_run(gap, not_judged=(NotJudged("val-jump", "not logged: val_loss", ""),)))
    assert "Remarks" not in sections(report)
    assert "- No checkpoint is known; log the saves." in report
    assert report.count("val_loss") == 1


def test_the_most_urgent_incident_comes_first_and_low_ones_are_a_line_each() -> None:
    report = render_run(
        make_run(
            make_incident("clip-saturation", 5),
            make_incident("instant-burst", 10),
            make_incident("divergence", 900),
        )
    )
    assert sections(report)[:3] == ["1. Divergence at step 900", "2. Instant burst at step 10", "Remarks"]
    assert "| 5 | clip-saturation | 0.90 | Something of kind clip-saturation |" in report


def test_twenty_incidents_stay_readable() -> None:
    report = render_run(make_run(*(make_incident("instant-burst", 100 * i) for i in range(1, 21))))
    assert sum(heading[0].isdigit() for heading in sections(report)) == 12
    assert "Further incidents" in sections(report)
    assert "| 20 | 2000 | instant-burst | medium | 0.90 | Something of kind instant-burst |" in report


def test_an_effect_whose_root_is_missing_is_not_lost() -> None:
    assert "1. NaN onset at step 7" in sections(render_run(make_run(make_incident("nan-onset", 7, caused_by="gone"))))


def test_without_a_manifest_blame_says_what_to_log() -> None:
    blame = Blame((3, 7), None, note="no batch manifest; log step and shard")
    report = render_run(make_run(make_incident(blame=blame)))
    assert "**Data.** Steps 3 - 7 fed it. No batch manifest; log step and shard." in report


def test_long_appendices_are_cut_and_counted() -> None:
    series = tuple(SeriesSummary(f"s{i}", None, "x", None, 1, 0, 1, 1) for i in range(MAX_ROWS + 50))
    warnings = tuple(ReadWarning("bad-record", f"line {i}", "torn") for i in range(MAX_ROWS + 7))
    report = render_run(make_run(series=series, sources=(SourceSummary("a", "jsonl", 3, warnings),)))
    assert "`s199`" in report
    assert "`s200`" not in report
    assert "50 more in `result.json`." in report
    assert "7 more in `result.json`." in report


def test_process_lives_and_configuration_are_shown() -> None:
    run = make_run(
        segments=(Segment(0, 1, 500, "2024-05-01T00:00:00Z"), Segment(1, 450, 900)),
        config={"note": "```\n# not a title"},
    )
    report = render_run(run)
    assert "2 process lives (restarted at 450)" in report
    assert "| 1 | 450 - 900 | - |" in report
    assert [token.info for token in GFM.parse(report) if token.type == "fence"] == ["json"]


HOSTILE = [
    "|",
    "`",
    "<script>alert(1)</script>",
    "</details>",
    "a\n\n# title",
    "![x](y)",
    "\x1b[31m",
    "*b*",
    "$x$",
    "-",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_logs_cannot_change_the_report(text: str) -> None:
    incident = full_incident()
    plain, hostile = (render_run(spoiled(incident, word)) for word in ("word", text))
    assert [t.type for t in GFM.parse(hostile)] == [t.type for t in GFM.parse(plain)]
    assert sections(hostile) == [*sections(plain)]
    assert "<script>" not in re.sub(r"`[^`]*`|^```[^`]*^```", "", hostile, flags=re.MULTILINE)


def spoiled(incident: Incident, text: str) -> RunResult:
    evidence = tuple(replace(item, signal=text, text=text) for item in incident.evidence)
    causes = tuple(replace(cause, for_=(text,), against=(text,), test=text) for cause in incident.causes)
    assert incident.blame is not None
    suspects = tuple(replace(suspect, id=text, why=text) for suspect in incident.blame.suspects)
    blame = replace(incident.blame, suspects=suspects, note=text, batches=({"step": 1, "shard": text, "doc": [text]},))
    changed = replace(incident, series=text, summary=f"a {text}", evidence=evidence, causes=causes, blame=blame)
    return make_run(
        changed, sources=(SourceSummary(text, "jsonl", 3, (ReadWarning("x", text, text),)),), config={"note": text},
        not_judged=(NotJudged("val-jump", text, text),), errored=(DetectorError(text, text),),
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.builds(make_run, st.builds(Incident, blame=st.none() | st.just(full_incident().blame))))
def test_any_result_renders_with_whole_tables(run: RunResult) -> None:
    assert all(len(set(rows)) == 1 for rows in tables(render_run(run)))


def test_the_index_lists_the_most_urgent_run_first_and_links_to_its_report() -> None:
    runs = [make_run(run="ok"), make_run(full_incident(), verdict="failed", run="a b/(1)")]
    report = render_index(make_index(runs), runs)
    assert report.startswith("# 2 training runs: 1 failed, 1 stable\n")
    rows = [line for line in report.splitlines() if line.startswith("| [")]
    assert rows[0] == (
        "| [a b/(1)](a%20b/%281%29/report.md) | failed | 1 | instant-burst, recurring (critical) "
        "| 12 400, 29 873, 41 200 | 0.97 | bad-shard (0.83) | shard `shard-0117` (0.90) |"
    )
    assert rows[1] == "| [ok](ok/report.md) | stable | 0 | - | - | - | - | - |"


def test_the_index_tells_what_runs_show_together_and_what_was_not_read() -> None:
    runs = [make_run()]
    index = make_index(
        runs,
        cross_run=(CrossRunFinding("Both spike at the same steps", ("a", "b"), (919,), ("same data order",)),),
        skipped=(Skipped("notes.txt", "no metrics"),),
    )
    report = render_index(index, runs)
    assert "- Both spike at the same steps. Runs: a, b. Steps: 919." in report
    assert "  - same data order" in report
    assert "| `notes.txt` | no metrics |" in report
