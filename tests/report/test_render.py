from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from results import full_incident, make_incident, make_index, make_run

from trainforensics.model import Cost, DetectorError, NotJudged, RunResult, Segment
from trainforensics.report.json import load_run
from trainforensics.report.render import render

HOSTILE = 'a\x1b[31m\n<b>&"%::error::]]>'
RUNS = (
    make_run(run="ok"),
    make_run(
        full_incident(),
        make_incident("clip-saturation", 9),
        run="bad",
        verdict="failed",
        not_judged=(NotJudged("val-jump", "no val_loss"),),
        errored=(DetectorError("plateau", "ValueError: x"),),
    ),
    make_run(run="blank", verdict="undecided"),
)


def hostile() -> RunResult:
    return make_run(full_incident(summary=HOSTILE), run=HOSTILE, errored=(DetectorError(HOSTILE, HOSTILE),))


def test_junit_counts_what_it_lists() -> None:
    ok, bad, blank = ET.fromstring(render("junit", None, RUNS))
    for suite in (ok, bad, blank):
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute, "")) == sum(case.find(tag) is not None for case in cases)
    assert [case.get("name") for case in ok] == ["the run can be judged"]
    assert (bad.get("failures"), bad.get("errors"), bad.get("skipped")) == ("1", "1", "1")
    assert blank.get("errors") == "1"


def test_junit_failures_name_cause_suspect_and_checkpoint() -> None:
    failure = ET.fromstring(render("junit", None, RUNS)).find(".//failure")
    assert failure is not None
    assert failure.get("type") == "critical"
    assert failure.text == (
        "confidence: 0.97\ncause: bad-shard (0.83)\nsuspect: shard shard-0117 (0.90)\ncheckpoint: 40000"
    )


@pytest.mark.parametrize(("fail_on", "failures"), [("low", 2), ("medium", 1), ("critical", 1)])
def test_junit_fails_from_the_given_severity_on(fail_on: str, failures: int) -> None:
    root = ET.fromstring(render("junit", None, RUNS, fail_on=fail_on))  # type: ignore[arg-type]
    assert len(root.findall(".//failure")) == failures


def test_github_annotates_alarms_and_what_could_not_be_judged() -> None:
    lines = render("github", None, RUNS).splitlines()
    assert lines == [
        "::error title=bad%3A instant-burst (LOS101) at step 41 200::Loss went from 2.41 to 6.92 within one step; "
        "confidence: 0.97; cause: bad-shard (0.83); suspect: shard shard-0117 (0.90); checkpoint: 40000",
        "::warning title=blank%3A could not be judged::This run could not be judged.",
    ]


def test_sarif_has_a_rule_a_kind_and_a_result_an_incident() -> None:
    (run,) = json.loads(render("sarif", None, RUNS))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["GRD103", "LOS101"]
    assert [(found["ruleId"], found["level"]) for found in run["results"]] == [("LOS101", "error"), ("GRD103", "note")]
    location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "bad/log.jsonl"}
    fingerprints = [found["partialFingerprints"]["incident/v1"] for found in run["results"]]
    assert len(set(fingerprints)) == len(fingerprints)


def test_a_postmortem_starts_from_what_the_log_knows() -> None:
    run = replace(RUNS[1], segments=(Segment(0, 1, 20_000), Segment(1, 20_001, 41_250)))
    text = render("postmortem", None, [run])
    assert text.startswith("# Postmortem: bad\n")
    timeline = [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert timeline == [
        "| 12 400 | instant burst begins |",
        "| 20 001 | a new process life begins |",
        "| 29 873 | instant burst begins |",
        "| 40 000 | the last checkpoint known to be clean |",
        "| 41 198 | loss_scale: halved |",
        "| 41 200 | instant burst begins |",
        "| 41 201 | instant burst is at its height |",
    ]
    for heading in ("## Impact", "## Root cause", "## Lessons", "## Action items"):
        assert heading in text
    assert "- [ ] Resume from 40 000 with skip.json. Owner: , due:" in text


def test_a_postmortem_lists_an_action_once_and_only_what_is_known_of_the_cost() -> None:
    nan = full_incident(id="nan", kind="nan-onset", cost=Cost(), recovery="unrecovered")
    slow = full_incident(id="slow", kind="throughput-drop", cost=Cost(), recovery=None)
    text = render("postmortem", None, [make_run(full_incident(), nan, slow)])
    assert text.count("Resume from 40 000 with skip.json") == 1
    assert ": unrecovered." in text
    assert ": its cost is not known." in text
    assert ": -" not in text


def test_a_timeline_tells_begin_height_and_end_in_this_order() -> None:
    burst = make_incident(onset=100, peak_step=105, end_step=105, recovery="partial")
    text = render("postmortem", None, [make_run(burst)])
    told = [line.split("|")[2].strip() for line in text.splitlines() if line.startswith("| 10")]
    assert told == ["instant burst begins", "instant burst is at its height", "instant burst ends: partial"]


@pytest.mark.parametrize("form", ["junit", "github", "sarif", "json", "markdown", "postmortem"])
def test_hostile_text_keeps_every_format_well_formed(form: str) -> None:
    text = render(form, None, [hostile()])
    assert "\x1b" not in text
    if form == "junit":
        assert ET.fromstring(text).find(".//failure") is not None
    elif form == "github":
        assert len(text.splitlines()) == 1
        assert "%25::error::" in text
    elif form == "sarif":
        assert json.loads(text)["runs"][0]["results"]
    elif form == "json":
        assert load_run(text.encode()).run == HOSTILE


def test_several_results_without_an_index_follow_each_other() -> None:
    assert render("markdown", None, RUNS).count("\n## Appendix") == 3


def test_json_of_an_index_holds_whole_results() -> None:
    document = json.loads(render("json", make_index(RUNS), RUNS))
    assert document["schema"] == "trainforensics/result/1"
    assert document["runs"][1]["result"] == "bad/result.json"
    assert document["runs"][1]["incidents"][0]["causes"][0]["for"] == ["same-step jump"]
