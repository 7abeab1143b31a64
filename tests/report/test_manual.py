from __future__ import annotations

import pytest

from trainforensics import registry, roles
from trainforensics.causes.hypotheses import by_cause
from trainforensics.errors import UsageError
from trainforensics.kinds import KINDS, Kind
from trainforensics.report import manual
from trainforensics.report.brief import BRIEFS

DETECTORS = registry.detectors().modules


@pytest.mark.parametrize("name", ["val-jump", "GEN102", "gen102", "Val_Jump", "val jump"])
def test_a_kind_is_found_by_name_or_code_in_any_case(name: str) -> None:
    assert manual.find_kind(name).name == "val-jump"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nan-onst", "did you mean nan-onset"),
        ("LOS10", "LOS10"),
        ("zzz", "lists every kind"),
        ("bad-bach", "did you mean bad-batch"),
        ("numeric", "numerics"),
        ("spike", "did you mean instant-burst"),
        ("Unstable", "it is a verdict: some incident of severity medium"),
        ("train_loss", "it is a role: see `trainforensics explain roles`"),
    ],
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


def test_every_kind_that_is_judged_is_told_in_short_first() -> None:
    judged = {module.META.kind.name for module in DETECTORS}
    assert set(BRIEFS) == judged
    for name in judged:
        page = manual.page(KINDS[name])
        parts = [page.index(f"**{part}.**") for part in ("How to tell", "Looks like", "Usual causes", "What to do")]
        assert [*parts, page.index("## What it detects")] == sorted([*parts, page.index("## What it detects")])


def test_the_usual_causes_of_a_kind_are_those_of_the_highest_priors() -> None:
    assert manual.causes_of("instant-burst")[0] == "bad-batch"
    assert "**Usual causes.** bad-batch, " in manual.page(KINDS["instant-burst"])


def test_causes_lists_every_cause_and_a_cause_says_what_to_do() -> None:
    listed = manual.answer("causes")
    assert all(f"| {cause} | " in listed for cause in by_cause())
    assert "**What to do.** Record a memory snapshot early and late" in manual.answer("memory-leak")


def test_a_kind_without_detector_says_so() -> None:
    made_up = Kind("made-up", "LOS199", "loss", "low")
    assert "No detector judges this kind yet" in manual.page(made_up)
    assert "Raised by blame" in manual.page(KINDS["suspect-shard"])


def test_the_overview_lists_every_kind() -> None:
    overview = manual.overview()
    assert all(f"[{name}]({name}.md) | {kind.code}" in overview for name, kind in KINDS.items())


def test_a_family_is_answered_with_its_kinds_alone() -> None:
    page = manual.answer("Loss")
    listed = {name for name in KINDS if f"[{name}]({name}.md)" in page}
    assert listed == {name for name, kind in KINDS.items() if kind.family == "loss"}


def test_every_cause_has_a_page_with_the_kinds_it_is_weighed_for() -> None:
    for cause, module in by_cause().items():
        page = manual.cause_page(cause)
        assert page.startswith(f"# {cause.capitalize()}\n")
        assert (module.__doc__ or "").strip().splitlines()[0] in page
        assert all(f"| {kind} | " in page for kind in module.PRIORS)
    assert "a cause, not a kind" in manual.answer("bad_batch")


def test_a_name_that_is_kind_and_cause_is_the_kind() -> None:
    assert "`data-shift` · DAT101" in manual.answer("data-shift")


def test_every_role_is_listed_with_names_and_kinds() -> None:
    page = manual.answer("roles")
    rows = {row.split("|")[1].strip(" `"): row for row in page.splitlines() if row.startswith("| `")}
    assert set(rows) == set(roles.roles())
    assert "| - |" not in rows["val_loss"]
    assert "val-divergence" in rows["val_loss"]
    assert "scale-decay" in rows["loss_scale"].split("|")[4]
    needing, using = rows["val_loss"].split("|")[3:5]
    assert [kind for kind in ("val-divergence", "eval-regression") if kind in needing] == ["val-divergence"]
    assert "eval-regression" in using
    assert all(f"--map {name}" in page for name in ("objective_a=train_loss", "extra=none", "update_nr=step"))


def test_names_listed_for_a_role_mean_it() -> None:
    for role in roles.roles():
        for name in roles.names_of(role)[:4]:
            found = roles.resolve(f"eval/{name}" if role == "val_metric" else name).role
            assert found in (role, None), (role, name)  # None: only with a layer, rank or expert beside it
