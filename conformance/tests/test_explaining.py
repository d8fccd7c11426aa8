"""A finding explains a failure by what was seen of it: its case, its exception, its worst entry."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.outcome import RECOMMENDING_RELATION, Evidence, KnownFinding, Measured, Outcome, Seen, does_explain
from attnspec.subjects.findings import read_findings

RECIPE = "B2,H4,Hkv2,T3,S2,D8,Dv8;mask=padding;families=normal;with=causal+mask+scale;scale=-0.25;seed=0"
MEASURED = Measured("agrees", "agrees", 40.0, 1e-10, 2.5e-12, 1.0, 1.0, (0,), 4, 4)
VIOLATED = Outcome("lib/a", "causal.alignment", DType.FLOAT32, Level.MUST, Verdict.VIOLATED,
                   evidence=Evidence("4 of 4 entries differ", "", RECIPE, MEASURED))
ERRORED = replace(VIOLATED, verdict=Verdict.ERRORED, evidence=Evidence("ValueError: shapes do not fit", "", RECIPE))
FINDING = KnownFinding("lib/one", "It differs.", (), (), "", "no", "")


def shows(*seen: Seen, outcome: Outcome = VIOLATED) -> bool:
    return does_explain(replace(FINDING, seen=seen), outcome)


def measured(**words: float) -> Outcome:
    assert VIOLATED.evidence
    return replace(VIOLATED, evidence=replace(VIOLATED.evidence, measured=replace(MEASURED, **words)))  # type: ignore[arg-type]  # numbers


@pytest.mark.parametrize(("fits", "does_not"), [
    (Seen(needs=("causal", "mask")), Seen(needs=("causal", "bias"))),
    (Seen(needs_any=("bias", "mask")), Seen(needs_any=("bias", "window"))),
    (Seen(without=("bias",)), Seen(without=("mask",))),
    (Seen(sizes=("T > S", "H > Hkv")), Seen(sizes=("T > S", "H = Hkv"))),
    (Seen(sizes=("scale <= 0",)), Seen(sizes=("scale = 0",))),
    (Seen(values=("number",)), Seen(values=("nan", "zero"))),
    (Seen(relative_error=1e-9), Seen(relative_error=1e-11)),
    (Seen(absolute_error=1e-9), Seen(absolute_error=1e-11)),
    (Seen(margin=50), Seen(margin=10)),
    (Seen(clauses=("causal.*",), needs=("mask",)), Seen(clauses=("bias.*",), needs=("mask",))),
], ids=lambda seen: str(seen) if isinstance(seen, str) else "")
def test_every_sign_has_to_be_there(fits: Seen, does_not: Seen) -> None:
    assert shows(fits)
    assert not shows(does_not)


def test_one_of_several_ways_is_enough() -> None:
    assert shows(Seen(needs=("bias",)), Seen(needs=("mask",)))


def test_an_exception_is_explained_by_its_words_only() -> None:
    words = Seen(exception="^ValueError: shapes")
    assert shows(words, outcome=ERRORED)
    assert not shows(words)
    assert not shows(Seen(exception="entries differ"))
    assert not shows(Seen(exception="^TypeError"), outcome=ERRORED)
    assert not shows(Seen(needs=("causal",)), outcome=ERRORED)


@pytest.mark.parametrize(("seen", "name"), [(math.nan, "nan"), (-math.inf, "infinity"), (0.0, "zero"), (0.5, "number")])
def test_the_worst_entry_is_of_a_kind(seen: float, name: str) -> None:
    assert shows(Seen(values=(name,)), outcome=measured(seen=seen))
    assert not shows(Seen(values=tuple({"nan", "infinity", "zero", "number"} - {name})), outcome=measured(seen=seen))


@pytest.mark.parametrize("words", [{"gap": math.inf}, {"gap": math.nan}, {"expected": 0.0}, {"expected": math.nan}])
def test_a_small_error_is_none_of_these(words: dict[str, float]) -> None:
    assert not shows(Seen(relative_error=1e-9), outcome=measured(**words))


def test_a_size_that_no_case_has_is_no_evidence() -> None:
    recipe = RECIPE.replace("+scale;scale=-0.25", "")
    assert VIOLATED.evidence
    plain = replace(VIOLATED, evidence=replace(VIOLATED.evidence, recipe=recipe))
    assert not shows(Seen(sizes=("scale <= 0",)), outcome=plain)


def test_a_recommendation_is_explained_by_name_and_by_no_pattern() -> None:
    recommended = measured(margin=math.inf)
    assert recommended.evidence
    told = replace(recommended.evidence, measured=replace(MEASURED, relation=RECOMMENDING_RELATION))
    outcome = replace(recommended, evidence=told)
    assert does_explain(replace(FINDING, clauses=("causal.alignment",)), outcome)
    assert not does_explain(replace(FINDING, clauses=("causal.*",)), outcome)
    assert not shows(Seen(needs=("causal",)), outcome=outcome)


def test_what_a_list_of_known_failures_names_counts_for_more() -> None:
    listed = replace(VIOLATED, verdict=Verdict.EXPECTED, finding="lib/other")
    assert does_explain(replace(FINDING, id="lib/other", seen=(Seen(needs=("bias",)),)), listed)
    assert not does_explain(FINDING, listed)


@pytest.mark.parametrize(("sign", "message"), [
    ("{needs: [causl]}", "'causl' is not a known keyword of a subject. Did you mean 'causal'?"),
    ("{sizes: [T over S]}", "'sizes' of what was seen holds 'T over S', which is no comparison. Write one like 'T > S' "
     "or 'scale <= 0', of B, H, Hkv, T, S, D, Dv, scale."),
    ("{values: [nul]}", "'nul' is not a known kind of value."),
    ("{exception: '('}", "'exception' of what was seen is no regular expression: missing ), unterminated subpattern at "
     "position 0."),
    ("{}", "what was seen is empty, so every failure shows it. Say at least one sign."),
])
def test_a_sign_that_no_failure_can_show_is_refused(tmp_path: Path, sign: str, message: str) -> None:
    (tmp_path / "shown.py").write_text("", encoding="utf-8")
    (tmp_path / "findings.yaml").write_text(
        "findings:\n  - {id: a, says: It is so., subjects: ['*'], script: shown.py, documented: 'no', "
        f"seen: [{sign}]}}\n", encoding="utf-8")
    with pytest.raises(ManifestError) as problem:
        tuple(read_findings(tmp_path))
    assert message in str(problem.value)
