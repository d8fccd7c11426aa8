"""Known deviations: expected as listed, unexpected in every other way, an error where no verdict can meet them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.declaration import Declaration, Deviation, Harm
from attnspec.core.errors import FileLocation, ManifestError
from attnspec.core.nouns import DType, Effort, Level, Novelty, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.engine.expectations import check_deviations, has_reached, with_choice, with_deviations
from attnspec.record.outcome import Change, Evidence, KnownFinding, Measured, Outcome
from helpers.places import SMALL_SPEC

LISTED = Deviation("causal.no_lookahead", "violated", "the flag is ignored", "https://example.org/1", "2.14",
                   (DType.FLOAT32,), FileLocation("manifest.yaml", 7))
OUTCOME = Outcome("mine/attend", "causal.no_lookahead", DType.FLOAT32, Level.MUST, Verdict.VIOLATED, "rows moved")
LISTING = "listed as violated until 2.14 (https://example.org/1), but "


def test_a_failure_as_listed_is_expected_and_says_why() -> None:
    outcome = with_deviations(OUTCOME, [LISTED], "2.13.1")
    assert (outcome.verdict, outcome.reason) == (
        Verdict.EXPECTED, "the flag is ignored (https://example.org/1, until 2.14)")


@pytest.mark.parametrize(("verdict", "reason"), [
    (Verdict.HELD, "it passes now: correct the manifest. rows moved"),
    (Verdict.ERRORED, "it is errored now: correct the manifest. rows moved"),
    (Verdict.CRASHED, "it is crashed now: correct the manifest. rows moved"),
    (Verdict.INAPPLICABLE, "it was not judged (inapplicable): correct the manifest. rows moved"),
    (Verdict.NO_CLAIM, "it was not judged (no_claim): correct the manifest. rows moved"),
])
def test_any_other_verdict_is_unexpected(verdict: Verdict, reason: str) -> None:
    outcome = with_deviations(replace(OUTCOME, verdict=verdict), [LISTED], "2.13")
    assert (outcome.verdict, outcome.reason) == (Verdict.UNEXPECTED, LISTING + reason)


MEASURED = Measured("agree", "rows should agree: 3 of 4 differ", 2.0, 2.0, 1.0, 0.0, 1.0, (0,), 4, 4, 3)
SEEN = replace(OUTCOME, evidence=Evidence(MEASURED.sentence, "B=1", "B1", MEASURED))
RAISED = replace(OUTCOME, verdict=Verdict.ERRORED, evidence=Evidence("ValueError: 3.5e-7 at 0x7f2a of 12", "B=1", "B1"))


def test_how_something_failed_is_told_without_numbers() -> None:
    assert (SEEN.failure_kind, RAISED.failure_kind) == ("agree", "ValueError: N at N of N")
    assert replace(OUTCOME, reason="it claims 2 things").failure_kind == "it claims N things"
    assert replace(RAISED, verdict=Verdict.CRASHED).failure_kind == ""


@pytest.mark.parametrize(("outcome", "verdict"), [(SEEN, Verdict.EXPECTED), (OUTCOME, Verdict.UNEXPECTED)])
def test_a_failure_is_as_listed_only_if_it_fails_in_that_way(outcome: Outcome, verdict: Verdict) -> None:
    assert with_deviations(outcome, [replace(LISTED, how="agree")]).verdict is verdict


@pytest.mark.parametrize(("outcome", "novelty", "fares"), [
    (replace(OUTCOME, verdict=Verdict.HELD), Novelty.MENDED, "holds now"),
    (SEEN, Novelty.CHANGED, "is violated (agree) now"),
    (RAISED, Novelty.CHANGED, "is errored (ValueError: N at N of N) now"),
    (replace(OUTCOME, verdict=Verdict.INAPPLICABLE), Novelty.CHANGED, "was not judged (inapplicable)"),
])
def test_what_is_not_as_listed_says_whether_it_is_mended(outcome: Outcome, novelty: Novelty, fares: str) -> None:
    assert with_deviations(outcome, [replace(LISTED, how="differ")], "2.13").change == Change(
        novelty, f"{fares}, and is listed as violated (differ) until 2.14", outcome.verdict)


def test_a_failure_that_outlives_its_version_has_changed() -> None:
    assert with_deviations(OUTCOME, [LISTED], "2.15").change == Change(
        Novelty.CHANGED, "is listed as violated until 2.14, and 2.15 is installed", Verdict.VIOLATED)


def test_what_is_as_listed_has_not_changed_and_names_its_finding() -> None:
    outcome = with_deviations(OUTCOME, [replace(LISTED, finding="mine/ignored")], "2.13")
    assert (outcome.change, outcome.finding) == (None, "mine/ignored")
    assert outcome.reason == "the flag is ignored (mine/ignored, https://example.org/1, until 2.14)"


def test_a_deviation_ends_with_its_version() -> None:
    outcome = with_deviations(OUTCOME, [LISTED], "2.14.0+cpu")
    assert (outcome.verdict, outcome.reason) == (
        Verdict.UNEXPECTED, LISTING + "2.14.0+cpu is installed: correct the manifest. rows moved")


@pytest.mark.parametrize(("version", "until", "reached"), [
    ("2.14", "2.14", True), ("2.14.0", "2.14", True), ("2.14", "2.14.0", True), ("2.14.1", "2.14", True),
    ("3.0", "2.14", True), ("2.9", "2.14", False), ("2.13.9", "2.14", False), ("2.14rc1", "2.14", False),
    ("2.14.0.dev20260101", "2.14", False), ("2.15.0.dev1", "2.14", True), ("2.14.0+cpu", "2.14", True),
    ("2.14.post1", "2.14", True), ("", "2.14", False), ("unknown", "2.14", False)])
def test_versions_are_compared_by_number(version: str, until: str, reached: bool) -> None:
    assert has_reached(version, until) is reached


@pytest.mark.parametrize("other", [replace(OUTCOME, dtype=DType.FLOAT64), replace(OUTCOME, clause="scale.read_out")])
def test_what_is_not_listed_stays_as_it_is(other: Outcome) -> None:
    assert with_deviations(other, [LISTED], "2.13") is other


def test_a_deviation_without_dtypes_speaks_of_all() -> None:
    other = replace(OUTCOME, dtype=DType.BFLOAT16)
    assert with_deviations(other, [replace(LISTED, dtypes=())], "2.13").verdict is Verdict.EXPECTED


@pytest.mark.parametrize(("deviations", "message"), [
    ((replace(LISTED, clause="causal.no_lookahed"),),
     "manifest.yaml:7: 'causal.no_lookahed' is not a known clause. Did you mean 'causal.no_lookahead'? "
     "`attnspec list clauses` names them all."),
    ((replace(LISTED, dtypes=(DType.FLOAT16,)),),
     "manifest.yaml:7: mine/attend does not take float16, so it cannot deviate there."),
    ((LISTED, replace(LISTED, dtypes=())),
     "manifest.yaml:7: mine/attend deviates from 'causal.no_lookahead' at float32 twice."),
])
def test_a_deviation_that_no_verdict_can_meet_is_an_error(deviations: tuple[Deviation, ...], message: str) -> None:
    declaration = Declaration(dtypes=(DType.FLOAT32, DType.FLOAT64), deviations=deviations)
    with pytest.raises(ManifestError) as caught:
        check_deviations("mine/attend", declaration, ["causal.no_lookahead", "scale.read_out"])
    assert str(caught.value) == message


MANIFEST = '''library: Mine
subjects:
  - id: attend
    title: an attention that divides by the width
    function: adapter:attend
    deviations:
      - clause: {clause}
        verdict: violated
        reason: it divides by d_k
        issue: https://example.org/1
        until: "2.0"
'''
ADAPTER = '''
import numpy as np

def attend(query, key, value):
    logits = query @ np.swapaxes(key, -1, -2) / query.dtype.type(query.shape[-1])
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value
'''


def engine(folder: Path, clause: str, name: str) -> Engine:
    """Of a library of its own name: an adapter is imported once a process."""
    library = folder / name
    library.mkdir()
    (library / "manifest.yaml").write_text(MANIFEST.format(clause=clause))
    (library / "adapter.py").write_text(ADAPTER)
    return Engine(Plan((f"{name}/attend",), clauses=("scale.read_out", "attention.shape"), dtypes=(DType.FLOAT32,),
                      effort=Effort.QUICK, implementations=(str(folder),)))


def test_the_engine_expects_what_the_manifest_lists(tmp_path: Path) -> None:
    trial = engine(tmp_path, "scale.read_out", "deviating")
    verdicts = {item.clause: trial.try_item(item).verdict for item in trial.items()}
    assert verdicts == {"scale.read_out": Verdict.EXPECTED, "attention.shape": Verdict.HELD}


def test_the_engine_is_surprised_by_a_listed_deviation_that_passes(tmp_path: Path) -> None:
    trial = engine(tmp_path, "attention.shape", "obedient")
    verdicts = {item.clause: trial.try_item(item).verdict for item in trial.items()}
    assert verdicts == {"attention.shape": Verdict.UNEXPECTED, "scale.read_out": Verdict.VIOLATED}


def test_the_engine_refuses_a_deviation_from_a_clause_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"stranger/manifest\.yaml:7: 'scale\.readout' is not a known clause\. "
                                            r"Did you mean 'scale\.read_out'\?"):
        engine(tmp_path, "scale.readout", "stranger").items()


def test_another_law_may_lack_the_clauses_that_a_manifest_names(tmp_path: Path) -> None:
    trial = engine(tmp_path, "scale.read_out", "foreign")
    plan = replace(trial.plan, spec=str(SMALL_SPEC), clauses=())
    assert len(Engine(plan).items()) == 2


CHOICE = KnownFinding("mine/choice", "It does so.", ("causal.*",), (), "", "Its page says so.", "",
                      harm=Harm.DOCUMENTED_CHOICE)
MISTAKE = replace(CHOICE, id="mine/mistake", harm=None)


@pytest.mark.parametrize(("known", "verdict"), [
    ((), Verdict.VIOLATED), ((CHOICE,), Verdict.EXPECTED), ((MISTAKE,), Verdict.VIOLATED),
    ((CHOICE, MISTAKE), Verdict.VIOLATED), ((MISTAKE, CHOICE), Verdict.VIOLATED)])
def test_a_failure_is_a_choice_where_nothing_else_explains_it(
        known: tuple[KnownFinding, ...], verdict: Verdict) -> None:
    assert with_choice(OUTCOME, known).verdict is verdict
