from dataclasses import replace

import pytest
from incidents_factory import make_incident

from trainforensics.incidents import in_units
from trainforensics.model import Blame, Cause, Evidence, Remedy, Suspect

SAID = {
    "loss jumped at step 15": "loss jumped at epoch 15",
    "median of steps 3-5 (step 4 itself: 0.7)": "median of epochs 3-5 (epoch 4 itself: 0.7)",
    "back within one step, 22 steps later": "back within one epoch, 22 epochs later",
    "log each checkpoint's step": "log each checkpoint's step",
    "step_time rose to 3 in step_time 4": "step_time rose to 3 in step_time 4",
}


@pytest.mark.parametrize("text", SAID)
def test_steps_are_called_what_the_run_counts(text: str) -> None:
    incident = make_incident(
        summary=text,
        evidence=(Evidence("step 3", 3, 1.0, None, text),),
        causes=(Cause("labels", 0.5, (text,), (text,), text),),
        remediation=(Remedy(text, text, text),),
        blame=Blame((1, 2), None, (Suspect("doc", "step 3", 0.5, None, (1,), text),), ({"doc": "step 3"},)),
    )
    (told,) = in_units((incident,), "epoch")
    said = SAID[text]
    assert told == replace(
        incident,
        summary=said,
        evidence=(Evidence("step 3", 3, 1.0, None, said),),
        causes=(Cause("labels", 0.5, (said,), (said,), said),),
        remediation=(Remedy(said, said, said),),
        blame=Blame((1, 2), None, (Suspect("doc", "step 3", 0.5, None, (1,), said),), ({"doc": "step 3"},)),
    )
    assert in_units((incident,), "step") == (incident,)
