"""What an exception means: a refusal is what the function says, and what NumPy says is a failure with its boundary."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Level, Verdict, does_gate_run
from attnspec.core.plan import Plan
from attnspec.diagnosis.advice import RaisingExplainer
from attnspec.engine.engine import Engine
from attnspec.engine.summon import load_subject
from attnspec.questions.undeclared import probe_conventions
from attnspec.record.outcome import Outcome
from attnspec.subjects.call import SubjectRaised
from attnspec.subjects.exceptions import Topic, refusal_words
from attnspec.subjects.interview import PLAIN, Case
from attnspec.subjects.subject import Subject
from test_refused_sizes import HEAD, plan, subject

ACCIDENT = "np.ones(2) + np.ones(3)"
"""What NumPy raises: a ValueError that speaks of shapes."""

LINE = HEAD[:HEAD.index("{check}")].count("\n") + 1

# by the condition on which the function raises: what is told of it, and a clause that meets it
MAP = {
    "S > 24": ("S > 24", "attention.definition"),
    "S == 1": ("S = 1", "attention.definition"),
    "T != S": ("T ≠ S", "attention.definition"),
    "T == 1": ("T = 1", "attention.definition"),
    "Hkv < H": ("Hkv < H", "grouped.definition"),
    "1 < Hkv < H": ("1 < Hkv < H", "grouped.definition"),
    "D % 2": ("D % 2 ≠ 0", "attention.definition"),
    "causal and S % 2": ("causal is given and S % 2 ≠ 0", "causal.no_lookahead"),
    "window is not None and T != S": ("window is given and T ≠ S", "window.definition"),
    "mask is not None": ("mask is given", "masking.definition"),
    "mask is not None and B > 1": ("mask is given and B > 1", "masking.definition"),
    "causal and mask is not None": ("causal is given and mask is given", "causal.with_mask"),
}


def judged(asked: Plan, clause: str) -> Outcome:
    engine = Engine(Plan(asked.targets, clauses=(clause,), in_process=asked.in_process, effort=Effort.QUICK,
                         dtypes=(DType.FLOAT32,)))
    [item] = engine.items()
    return engine.try_item(item)


@pytest.mark.family(2)
@pytest.mark.parametrize("condition", MAP)
def test_what_numpy_raises_is_a_failure_with_its_line_and_its_boundary(condition: str, tmp_path: Path) -> None:
    where, clause = MAP[condition]
    asked = plan(tmp_path, f"if {condition}: {ACCIDENT}")
    assert not load_subject(asked.targets[0], asked).refused_words
    outcome = judged(asked, clause)
    assert outcome.verdict is Verdict.ERRORED
    assert outcome.evidence
    assert outcome.evidence.explained
    assert outcome.evidence.explained.cause == f"it raises ValueError in {tmp_path}/mine.py:{LINE} where {where}"


def test_the_way_out_is_the_line_that_declares_it(tmp_path: Path) -> None:
    check = f"if Hkv < H: {ACCIDENT}"
    explained = explanation(subject(tmp_path, check), Case(PLAIN).move_case(G=2))
    assert explained.endswith("declare: attend.grouped = False")
    assert judged(plan(tmp_path, check, "attend.grouped = False"), "grouped.definition").verdict is Verdict.INAPPLICABLE


def explanation(asked: Subject, case: Case | None) -> str:
    assert case
    problem = case.make_problem(DType.FLOAT32)
    with pytest.raises(SubjectRaised) as caught:
        asked.answer(problem)
    caught.value.asked = problem
    explained = RaisingExplainer(asked).explain(caught.value, DType.FLOAT32)
    assert explained
    return f"{explained.cause}; declare: {explained.declare}"


@pytest.mark.family(1)
@pytest.mark.parametrize("condition", ["len(calls) == 20", "len(calls) % 3 == 0"])
def test_what_is_raised_by_count_has_no_boundary(condition: str, tmp_path: Path) -> None:
    asked = subject(tmp_path, f"calls.append(1)\n    if {condition}: {ACCIDENT}")
    assert not asked.refused_words
    problem = Case(PLAIN).make_problem(DType.FLOAT32)
    raised = SubjectRaised("ValueError: no", "", is_stated=False)
    raised.asked = problem
    explained = RaisingExplainer(asked).explain(raised, DType.FLOAT32)
    assert explained is None


@pytest.mark.parametrize(("statement", "is_refusal"), [
    ('raise ValueError("as many key heads as query heads")', True),
    ('raise NotImplementedError', True),
    ('raise NotImplementedError("later")', True),
    ("assert H == Hkv", True),
    ("assert H % Hkv == 0 and Hkv == H", True),
    ('raise ValueError("oops")', False),
    ('raise ValueError(f"{H} and {Hkv}")', False),
    ('raise RecursionError("key")', False),
    ('raise IndexError("key heads")', False),
    ('raise UnicodeDecodeError("utf-8", b"", 0, 1, "key")', False),
    (ACCIDENT, False),
    ("query @ np.ones((1, 3, 5, 7))", False),
    ("query.reshape(1, 3, 7)", False),
    ("np.split(query, 3, axis=1)", False),
    ("None.shape", False)])
def test_a_refusal_is_a_statement_of_the_function_in_words(statement: str, is_refusal: bool, tmp_path: Path) -> None:
    found = subject(tmp_path, f"if Hkv < H: {statement}")
    assert ("grouped heads (Hkv < H)" in found.refused_words) is is_refusal


def test_a_check_in_a_helper_of_several_lines_is_the_functions_own(tmp_path: Path) -> None:
    check = """def check(of, heads):
        if of < heads:
            raise ValueError(
                "as many "
                "key heads as query heads")
    check(Hkv, H)"""
    assert list(subject(tmp_path, check).refused_words) == ["grouped heads (Hkv < H)"]


def test_a_mask_that_is_refused_in_a_batch_is_judged_without_one(tmp_path: Path) -> None:
    check = 'if mask is not None and B > 1: raise ValueError("a mask needs a batch of one")'
    assert list(subject(tmp_path, check).refused_words) == ["mask with B > 1"]
    ignored = f"{check}\n    mask = None"
    assert judged(plan(tmp_path, ignored), "masking.definition").verdict is Verdict.VIOLATED


def test_causal_with_a_mask_that_is_refused_is_told(tmp_path: Path) -> None:
    check = 'if causal and mask is not None: raise ValueError("either causal or mask")'
    assert list(subject(tmp_path, check).refused_words) == ["causal and mask"]


@pytest.mark.parametrize(("check", "answer"), [
    (f"if mask is not None and not mask.any(-1).all(): {ACCIDENT}", "zeros"),
    (f"if causal and T != S: {ACCIDENT}", None)])
def test_an_accident_is_no_convention(check: str, answer: str | None, tmp_path: Path) -> None:
    silent = "attend.conventions = {}"
    found = probe_conventions(subject(tmp_path, check, silent), DType.FLOAT32)
    assert "undefined" not in (found["hidden_row"], found["causal_alignment"])
    assert answer in (None, found["hidden_row"])


@pytest.mark.parametrize(("summary", "dtype", "is_limit"), [
    ("TypeError: invalid data type for einsum", DType.BFLOAT16, True),
    ("RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'", DType.FLOAT16, True),
    ("RuntimeError: expected m1 and m2 to have the same dtype, but got: float != c10::Half", DType.FLOAT16, False),
    ("RuntimeError: expected scalar type Float but found Half", DType.FLOAT16, False)])
def test_a_dtype_without_code_is_a_limit_and_two_that_differ_are_a_failure(
        summary: str, dtype: DType, is_limit: bool) -> None:
    raised = SubjectRaised(summary, "", classes=frozenset({summary.partition(":")[0]}), module="mine")
    problem = Case(PLAIN).make_problem(dtype)
    assert bool(refusal_words(raised, problem, home="mine", topic=Topic.DTYPE)) is is_limit


@pytest.mark.parametrize(("summary", "is_stated", "is_refusal"), [
    ("ValueError: value shape should be [3, 1, 1, 7]: but got (3, 1, 1, 160)", True, True),
    ("ValueError: Incompatible shapes for broadcasting: (3, 1), (2, 2)", True, False),
    ("ValueError: value shape should be [3, 1, 1, 7]: but got (3, 1, 1, 160)", False, False)])
def test_a_frameworks_attention_function_refuses_for_who_wraps_it(
        summary: str, is_stated: bool, is_refusal: bool) -> None:
    raised = SubjectRaised(summary, "", classes=frozenset({"ValueError"}), is_stated=is_stated, module="jax._src.nn")
    assert bool(refusal_words(raised, Case(PLAIN).make_problem(DType.FLOAT32), home="mine")) is is_refusal


@pytest.mark.parametrize("verdict", [Verdict.ERRORED, Verdict.CRASHED, Verdict.TIMED_OUT])
def test_no_answer_gates_under_a_recommendation_too(verdict: Verdict) -> None:
    assert does_gate_run(verdict, Level.SHOULD, strict=False)
    assert not does_gate_run(Verdict.VIOLATED, Level.SHOULD, strict=False)
