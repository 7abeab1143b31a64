"""JUnit XML, for CI systems that show test results: a suite a run, a failed case an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from trainforensics.kinds import Severity, severity_rank
from trainforensics.model import Incident, RunResult
from trainforensics.report import narrative
from trainforensics.report.text import number, one_line


def render(results: Sequence[RunResult], fail_on: Severity = "medium") -> str:
    """Root incidents of severity `fail_on` and above are failures; what was not judged is skipped, or an error."""
    root = ET.Element("testsuites", name="trainforensics")
    for result in results:
        root.append(_suite(result, fail_on))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(result: RunResult, fail_on: Severity) -> ET.Element:
    roots = [page.root for page in narrative.pages(result)]
    failures = [root for root in roots if severity_rank(root.severity) >= severity_rank(fail_on)]
    undecided = result.verdict == "undecided"
    suite = ET.Element(
        "testsuite",
        name=one_line(result.run),
        tests=str(1 + len(failures) + len(result.not_judged) + len(result.errored)),
        failures=str(len(failures)),
        errors=str(len(result.errored) + undecided),
        skipped=str(len(result.not_judged)),
    )
    readable = _case(suite, result, "the run can be judged")
    if undecided:
        ET.SubElement(readable, "error", message=one_line(narrative.headline(result)))
    for incident in failures:
        failure = ET.SubElement(
            _case(suite, result, title(incident)), "failure", type=incident.severity, message=one_line(incident.summary)
        )
        failure.text = "\n".join(details(incident))
    for failed in result.errored:
        ET.SubElement(_case(suite, result, failed.detector), "error", message=one_line(failed.message))
    for gap in result.not_judged:
        ET.SubElement(_case(suite, result, gap.kind), "skipped", message=one_line(gap.reason))
    return suite


def _case(suite: ET.Element, result: RunResult, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=one_line(result.run), name=one_line(name))


def title(incident: Incident) -> str:
    """`instant-burst (LOS101) at step 41 200`."""
    at = "" if incident.onset_step is None else f" at step {number(incident.onset_step)}"
    return f"{incident.kind} ({incident.code}){at}"


def details(incident: Incident) -> list[str]:
    """Likeliest cause, suspect and checkpoint, a line each, as far as they are known."""
    lines = [f"confidence: {incident.confidence:.2f}"]
    if incident.causes:
        lines.append(f"cause: {one_line(incident.causes[0].cause)} ({incident.causes[0].confidence:.2f})")
    suspect = narrative.top_suspect(incident)
    if suspect is not None:
        lines.append(f"suspect: {suspect.type} {one_line(suspect.id)} ({suspect.confidence:.2f})")
    if incident.safe_checkpoint is not None and incident.safe_checkpoint.step is not None:
        lines.append(f"checkpoint: {incident.safe_checkpoint.step}")
    return lines
