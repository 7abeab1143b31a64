"""What stands under the heading of an evaluation, where the training prints alike lines."""

from __future__ import annotations

from trainforensics.importers.printed.kinds.known import Known
from trainforensics.importers.printed.records.hints import may_be_record
from trainforensics.importers.printed.records.learn import learn
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.remarks.sections import Section, under_evaluation
from trainforensics.importers.printed.steps.bars import find_bar
from trainforensics.importers.printed.steps.progress import Progress


def as_evaluation(line: str, section: Section, known: Known, progress: Progress) -> str:
    """A line under the heading of an evaluation, as one of it.

    What the training prints too ends the evaluation, unless it has headings of its own; its bar that goes on does.
    """
    if "SamplesPerSec=" in line:
        return line  # DeepSpeed's engine tells of the training
    at = line.find("%|")
    if at >= 0 and (bar := find_bar(line, at)) is not None and progress.goes_on(bar):
        section.evaluating = False
        return line
    same = next((shape for shape in known.recent if shape.pattern.match(line)), None)
    said = under_evaluation(line)
    if same is None and any(shape.validation and shape.pattern.match(said) for shape in known.recent):
        return said
    if same is None and (known.full or not (section.count or may_be_record(said))):
        return line
    as_it_is = same or learn(line, counted=True)
    if isinstance(as_it_is, Shape) and (not as_it_is.values or as_it_is.validation or as_it_is.counted):
        return line
    if same is not None and section.is_left_by(same):
        section.evaluating = False
        return line
    return said if isinstance(learn(said, counted=True), Shape) else line
