"""The sum of parts where no total is logged."""

from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve

from trainforensics.signals import Curve
from trainforensics.signals.parts import sum_of_parts

BOX, OBJ = np.array([3.0, 2.0, 1.0]), np.array([0.5, np.nan, 0.1])


def part(value: np.ndarray, domain: str | None, step: tuple[int, ...] = (1, 2, 3)) -> Curve:
    return make_curve(value, "train_loss", name=f"train/{domain}_loss", step=step, domain=domain)


def test_parts_of_one_table_are_added() -> None:
    (total,) = sum_of_parts([part(BOX, "box"), part(OBJ, "obj")])
    assert total.series.domain is None
    assert total.name == "train/box_loss + train/obj_loss"
    np.testing.assert_allclose(total.value, BOX + OBJ)


@pytest.mark.parametrize(
    "curves",
    [
        [part(BOX, "box")],
        [part(BOX, "box"), part(OBJ, "obj"), part(BOX, None)],  # the whole is logged
        [part(BOX, "wiki"), part(OBJ, "code")],  # sources of data, each a mean
        [part(BOX, "box"), part(OBJ, "obj", (1, 2, 4))],
    ],
)
def test_nothing_else_is_added(curves: list[Curve]) -> None:
    assert not sum_of_parts(curves)
