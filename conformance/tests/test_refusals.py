"""A function of one's own that refuses something clearly has not promised it, and the verdict says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.engine.summon import load_subject
from attnspec.problems.problem import Array
from attnspec.record.outcome import Outcome
from helpers.subjects import module_of

HEAD = """
import numpy as np
def attend(query, key, value, *, causal=False, mask=None):
    B, H, T, D = query.shape
    Hkv, S, Dv = value.shape[1:]
    {check}
    group = H // Hkv
    key, value = np.repeat(key, group, axis=1), np.repeat(value, group, axis=1)
    logits = (query @ key.swapaxes(-1, -2)).astype(np.float32) / np.sqrt(D)
    seen = np.tri(T, S, dtype=bool) if causal else np.ones((T, S), bool)
    logits = np.where(seen if mask is None else seen & mask, logits, np.finfo(np.float32).min)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights @ value.astype(np.float32)).astype(query.dtype)
attend.dtypes = ["float32"]
attend.conventions = {{"hidden_row": "uniform"}}
{more}
"""

REFUSALS = {
    "grouped": ('if Hkv != H: raise ValueError("as many key heads as query heads")', "grouped heads (Hkv < H)",
                "ValueError: as many key heads as query heads", "grouped.definition"),
    "cross": ('if T != S: raise NotImplementedError(f"T={T} and S={S}")', "T ≠ S", "NotImplementedError: T=8 and S=16",
              "causal.alignment"),
    "longer": ('assert T <= S', "T > S", "AssertionError: assert T <= S", ""),
    "width": ('if Dv != D: raise TypeError("value should be as wide as key")', "values of another width (Dv ≠ D)",
              "TypeError: value should be as wide as key", ""),
    "causal": ('if causal and T != S: raise ValueError("causal needs equal lengths")', "causal with T ≠ S",
               "ValueError: causal needs equal lengths", "causal.alignment"),
    "one-way": ('if causal and T > S: raise ValueError("causal needs T <= S")', "causal with T > S",
                "ValueError: causal needs T <= S", ""),
}


written = partial(module_of, HEAD)


def judged(target: str, *clauses: str) -> dict[str, Outcome]:
    engine = Engine(Plan((target,), clauses=clauses, effort=Effort.QUICK, dtypes=(DType.FLOAT32,)))
    return {item.clause: engine.try_item(item) for item in engine.items()}


@pytest.mark.family(2)
@pytest.mark.parametrize("name", REFUSALS)
def test_a_clear_refusal_is_noted_with_its_words(name: str, tmp_path: Path) -> None:
    check, refused, words, _ = REFUSALS[name]
    assert dict(load_subject(written(tmp_path, check), Plan(())).refused_words) == {refused: words}


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "told"), [("grouped", "grouped heads (Hkv < H)"), ("cross", "T ≠ S")])
def test_who_is_always_causal_is_asked_the_same(name: str, told: str, tmp_path: Path) -> None:
    always = f"assert causal\n    {REFUSALS[name][0]}"
    assert list(load_subject(written(tmp_path, always, "attend.causal_only = True"), Plan(())).refused_words) == [told]


@pytest.mark.family(1)
@pytest.mark.parametrize("name", [name for name, row in REFUSALS.items() if row[3]])
def test_a_clause_that_needs_it_does_not_apply(name: str, tmp_path: Path) -> None:
    check, refused, words, clause = REFUSALS[name]
    outcome = judged(written(tmp_path, check), clause)[clause]
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason == f"the function refuses the inputs that this clause needs ({refused}: {words})"


@pytest.mark.family(1)
@pytest.mark.parametrize("name", REFUSALS)
def test_the_rest_is_judged_all_the_same(name: str, tmp_path: Path) -> None:
    outcomes = judged(written(tmp_path, REFUSALS[name][0]), "attention.definition", "masking.definition",
                     "causal.flag_is_mask")
    assert {outcome.verdict for outcome in outcomes.values()} == {Verdict.HELD}


def test_the_card_names_what_is_refused(tmp_path: Path) -> None:
    check, refused, words, _ = REFUSALS["grouped"]
    target = written(tmp_path, check)
    assert Engine(Plan((target,))).card(target).refused == {refused: words}


def test_who_claims_the_profile_has_promised_it(tmp_path: Path) -> None:
    target = written(tmp_path, REFUSALS["grouped"][0], 'attend.claims = ["grouped"]')
    assert not load_subject(target, Plan(())).refused_words
    assert judged(target, "grouped.definition")["grouped.definition"].verdict is Verdict.ERRORED


@pytest.mark.nightly
def test_a_promise_as_an_attribute_counts_too(tmp_path: Path) -> None:
    target = written(tmp_path, REFUSALS["grouped"][0], "attend.grouped = True")
    assert judged(target, "grouped.definition")["grouped.definition"].verdict is Verdict.ERRORED


@pytest.mark.family(3)
@pytest.mark.parametrize("accident", [
    "query[:, :, 15]", 'raise KeyError("Hkv")', 'raise ValueError("boom")', "1 / (T - 8)", "raise ValueError"])
def test_an_accident_is_no_refusal(accident: str, tmp_path: Path) -> None:
    target = written(tmp_path, f"if T != S: {accident}")
    assert not load_subject(target, Plan(())).refused_words


def test_a_wrong_answer_is_no_refusal(tmp_path: Path) -> None:
    target = written(tmp_path, "if Hkv != H: return np.zeros((B, H, T, Dv), query.dtype)")
    assert judged(target, "grouped.definition")["grouped.definition"].verdict is Verdict.VIOLATED


@pytest.mark.family(1)
@pytest.mark.parametrize(("check", "takes"), [("", True), ("1 / (Hkv == H)", None), (REFUSALS["grouped"][0], False)])
def test_grouped_heads_that_are_taken_count_as_if_they_were_declared(
        check: str, takes: bool | None, tmp_path: Path) -> None:
    assert load_subject(written(tmp_path, check), Plan(())).declaration.limits.grouped is takes


@pytest.mark.nightly
def test_a_keyword_refused_with_groups_is_a_limit(tmp_path: Path) -> None:
    check = 'if mask is not None and Hkv < H: raise NotImplementedError("mask with grouped heads (Hkv < H)")'
    outcome = judged(written(tmp_path, check), "masking.definition")["masking.definition"]
    assert outcome.verdict is Verdict.HELD
    assert list(outcome.refused) == ["mask with G > 1"]


def test_a_keyword_that_goes_wrong_with_groups_fails_undeclared(tmp_path: Path) -> None:
    found = judged(written(tmp_path, "causal = causal and Hkv == H"), "attention.definition")
    assert found["attention.definition"].verdict is Verdict.VIOLATED


def test_who_refuses_everything_gets_no_limits(tmp_path: Path) -> None:
    assert not load_subject(written(tmp_path, 'raise ValueError("no shape fits")'), Plan(())).refused_words


def test_a_dtype_that_is_refused_is_left_out(tmp_path: Path) -> None:
    check = 'if query.dtype != np.float32: raise TypeError(f"dtype {query.dtype} is not supported")'
    path = written(tmp_path, check, "del attend.dtypes")
    outcomes = [Engine(Plan((path,), clauses=("attention.definition",), effort=Effort.QUICK)).try_item(item)
                for item in Engine(Plan((path,), clauses=("attention.definition",))).items()]
    told = {outcome.dtype: (outcome.verdict, outcome.reason) for outcome in outcomes}
    assert told[DType.FLOAT32][0] is Verdict.HELD
    assert told[DType.FLOAT64] == (
        Verdict.INAPPLICABLE, f"{path} refuses float64: TypeError: dtype float64 is not supported")


def test_a_dtype_that_is_declared_is_a_promise(tmp_path: Path) -> None:
    check = 'if query.dtype != np.float32: raise TypeError(f"dtype {query.dtype} is not supported")'
    assert not load_subject(written(tmp_path, check, 'attend.dtypes = ["float32", "float64"]'), Plan(())).refused_words


def test_a_convention_that_is_undefined_is_like_no_fault(tmp_path: Path) -> None:
    target = written(tmp_path, "if Hkv != H: key, value = np.roll(key, 1, 1), value * 2")
    outcome = judged(target, "grouped.order_is_repeat")["grouped.order_is_repeat"]
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence is not None
    assert "'undefined'" in outcome.evidence.sentence
    assert outcome.evidence.like == ()


def attend(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    if query.shape[1] != key.shape[1]:
        raise ValueError("query and key need the same number of heads")
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    logits = np.where(np.tri(*logits.shape[-2:]).astype(bool) | (not causal), logits, -np.inf).astype(query.dtype)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray((weights / weights.sum(axis=-1, keepdims=True)) @ value)


def test_registered_subjects_are_held_to_their_manifests() -> None:
    assert not load_subject("numpy/msa", Plan(())).refused_words


@pytest.mark.nightly
@pytest.mark.parametrize("function", [attend])
def test_a_function_of_this_module_is_asked_as_well(function: Callable[..., object]) -> None:
    subject = load_subject(f"{function.__module__}:{function.__name__}", Plan(()))
    assert list(subject.refused_words) == ["grouped heads (Hkv < H)"]
