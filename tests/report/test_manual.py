from __future__ import annotations

import pytest

from trainforensics import registry
from trainforensics.errors import UsageError
from trainforensics.kinds import KINDS
from trainforensics.report import manual

DETECTORS = registry.detectors().modules


@pytest.mark.parametrize("name", ["val-jump", "GEN102", "gen102", "Val_Jump", "val jump"])
def test_a_kind_is_found_by_name_or_code_in_any_case(name: str) -> None:
    assert manual.find_kind(name).name == "val-jump"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("nan-onst", "did you mean nan-onset"), ("LOS10", "LOS10"), ("zzz", "lists every kind")],
)
def test_an_unknown_kind_is_refused_with_near_matches(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        manual.find_kind(name)


@pytest.mark.parametrize("module", DETECTORS, ids=lambda module: module.META.kind.name)
def test_every_detector_documents_itself_in_full(module: object) -> None:
    summary, sections = manual.parse(module.__doc__ or "")  # type: ignore[attr-defined]
    assert summary
    assert tuple(sections) == manual.SECTIONS
    assert all(sections.values())


def test_a_page_holds_docstring_signals_and_parameters() -> None:
    page = manual.page(KINDS["val-jump"])
    assert page.startswith("# Validation jump\n\n`val-jump` · GEN102 · family: generalisation · usual severity: medium")
    assert "## False positives" in page
    assert "Needs `val_loss` or `val_metric`." in page
    assert "| `z` | 7 | Step in units of" in page
    assert "`[params.val-jump]`" in page


def test_a_kind_without_detector_says_so() -> None:
    judged = {module.META.kind.name for module in DETECTORS}
    missing = next(kind for name, kind in KINDS.items() if name not in judged and name != "suspect-shard")
    assert "No detector judges this kind yet" in manual.page(missing)
    assert "Raised by blame" in manual.page(KINDS["suspect-shard"])


def test_the_overview_lists_every_kind() -> None:
    overview = manual.overview()
    assert all(f"[{name}]({name}.md) | {kind.code}" in overview for name, kind in KINDS.items())
