"""Implementations that misbehave are judged with a clear finding, and never with a traceback of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.record.outcome import Outcome

SUBJECTS = '''
import sys, warnings
import numpy as np

CALLS = []

def sound(query, key, value, *, causal=False, return_weights=False):
    logits = query @ np.swapaxes(key, -1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf).astype(query.dtype)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights @ value, weights) if return_weights else weights @ value

def raises(query, key, value):
    raise RuntimeError("the kernel is not built\\nsecond line")

def raises_on_long(query, key, value):
    if key.shape[2] > 2:
        raise ValueError("too many keys")
    return sound(query, key, value)

def exits(query, key, value):
    sys.exit("out of licences")

def asserts(query, key, value):
    assert False

def recurses(query, key, value):
    return recurses(query, key, value)

def interrupts_itself(query, key, value):
    raise StopIteration

def wrong_shape(query, key, value):
    return sound(query, key, value)[0]

def a_list(query, key, value):
    return sound(query, key, value).tolist()

def nothing(query, key, value):
    return None

def complex_numbers(query, key, value):
    return sound(query, key, value).astype(complex)

def objects(query, key, value):
    return sound(query, key, value).astype(object)

def whole_numbers(query, key, value):
    return sound(query, key, value).astype(int)

def text(query, key, value):
    return "attention"

def a_tuple(query, key, value):
    return sound(query, key, value, return_weights=True)

def a_scalar(query, key, value):
    return float(sound(query, key, value).sum())

def ragged(query, key, value):
    return [[1.0], [2.0, 3.0]]

def a_generator(query, key, value):
    return (row for row in sound(query, key, value))

def all_nan(query, key, value):
    return np.full_like(sound(query, key, value), np.nan)

def all_infinite(query, key, value):
    return np.full_like(sound(query, key, value), -np.inf)

def wider(query, key, value):
    return sound(query, key, value).astype(np.float64)

def the_values(query, key, value):
    return value

def mutates(query, key, value):
    answer = sound(query, key, value)
    query *= 2
    return answer

def freezes_its_inputs(query, key, value):
    query.flags.writeable = False
    return sound(query, key, value)

def frozen_answer(query, key, value):
    answer = sound(query, key, value)
    answer.flags.writeable = False
    return answer

def noisy(query, key, value):
    print("loading kernels")
    print("W: slow path", file=sys.stderr)
    warnings.warn("deprecated since 1.0")
    return sound(query, key, value)

def divides_by_zero(query, key, value):
    np.ones(1) / np.zeros(1)
    return sound(query, key, value)

def remembers(query, key, value):
    CALLS.append(1)
    return sound(query, key, value) * (1 + (len(CALLS) % 3 == 0))

def lone_answer_for_a_pair(query, key, value, *, return_weights=False):
    return sound(query, key, value)

def lies_about_keywords(query, key, value, *, causal=False):
    return sound(query, key, value)
'''


def judged(folder: Path, function: str, clause: str = "attention.definition", dtype: DType = DType.FLOAT32) -> Outcome:
    (folder / "awkward.py").write_text(SUBJECTS)
    plan = Plan((f"{folder / 'awkward.py'}:{function}",), clauses=(clause,), dtypes=(dtype,), effort=Effort.QUICK)
    engine = Engine(plan)
    [item] = engine.items()
    return engine.try_item(item)


@pytest.mark.family(2)
@pytest.mark.parametrize(("function", "reason"), [
    ("raises", "RuntimeError: the kernel is not built"),
    ("raises_on_long", "ValueError: too many keys"),
    ("exits", "SystemExit: out of licences"),
    ("asserts", "AssertionError"),
    ("interrupts_itself", "StopIteration"),
])
def test_a_subject_that_raises_errored_with_its_own_traceback(tmp_path: Path, function: str, reason: str) -> None:
    outcome = judged(tmp_path, function)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERRORED, reason)
    assert outcome.evidence
    assert f"in {function}" in outcome.evidence.traceback
    assert "attnspec" not in outcome.evidence.traceback.replace(str(tmp_path), "")
    assert outcome.evidence.recipe


@pytest.mark.nightly
def test_a_subject_that_recurses_without_end_errored(tmp_path: Path) -> None:
    outcome = judged(tmp_path, "recurses")
    assert outcome.verdict is Verdict.ERRORED
    assert outcome.reason.startswith("RecursionError")


@pytest.mark.nightly
def test_an_error_is_shrunk_to_the_simplest_case_that_raises(tmp_path: Path) -> None:
    outcome = judged(tmp_path, "raises_on_long")
    assert outcome.evidence
    assert outcome.evidence.recipe.endswith(";mask=none;families=integers;seed=0")


@pytest.mark.family(1)
@pytest.mark.parametrize(("function", "reason"), [
    ("wrong_shape", "of shape (1, 1, 1) and dtype float32"),
    ("nothing", "None"),
    ("complex_numbers", "complex128"),
    ("objects", "object"),
    ("whole_numbers", "int64"),
    ("text", "a str"),
    ("a_tuple", "a tuple of 2"),
    ("a_scalar", "a float of shape ()"),
    ("ragged", "a list of 2"),
    ("a_generator", "a generator"),
])
def test_an_answer_that_is_no_array_of_the_right_kind_violates(tmp_path: Path, function: str, reason: str) -> None:
    outcome = judged(tmp_path, function)
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.reason.startswith("The subject returned ")
    assert reason in outcome.reason
    assert outcome.evidence
    assert outcome.evidence.recipe


@pytest.mark.family(1)
@pytest.mark.parametrize("function", ["all_nan", "all_infinite"])
@pytest.mark.parametrize("clause", ["attention.definition", "attention.finite", "attention.convex_hull",
                                    "attention.rows_are_stochastic", "scale.unit_variance"])
def test_answers_that_are_not_finite_violate(tmp_path: Path, function: str, clause: str) -> None:
    outcome = judged(tmp_path, function, clause)
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.worst
    assert outcome.worst.margin == float("inf")


@pytest.mark.family(1)
@pytest.mark.parametrize(("function", "clause", "reason"), [
    ("mutates", "purity.inputs_are_left_alone", "the call changed query"),
    ("the_values", "purity.output_is_new", "the output shares memory with value"),
    ("wider", "attention.dtype", "the output's dtype is float64; it should be float32"),
])
def test_a_misdeed_is_named_by_the_clause_on_it(tmp_path: Path, function: str, clause: str, reason: str) -> None:
    outcome = judged(tmp_path, function, clause)
    assert (outcome.verdict, outcome.reason) == (Verdict.VIOLATED, reason)


def test_a_lone_answer_where_a_pair_was_asked_for_violates(tmp_path: Path) -> None:
    outcome = judged(tmp_path, "lone_answer_for_a_pair", "attention.returned_weights")
    assert outcome.verdict is Verdict.VIOLATED
    assert "the pair (output, weights)" in outcome.reason


def test_a_subject_with_a_memory_is_violated_though_it_fails_only_once(tmp_path: Path) -> None:
    outcome = judged(tmp_path, "remembers")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence


def test_a_keyword_that_is_taken_and_ignored_is_found(tmp_path: Path) -> None:
    assert judged(tmp_path, "lies_about_keywords", "causal.no_lookahead").verdict is Verdict.VIOLATED


@pytest.mark.family(2)
@pytest.mark.parametrize("function", ["a_list", "frozen_answer", "freezes_its_inputs", "noisy", "divides_by_zero"])
def test_right_answers_in_an_odd_manner_hold(tmp_path: Path, function: str) -> None:
    outcome = judged(tmp_path, function, dtype=DType.FLOAT64)
    assert (outcome.verdict, outcome.reason) == (Verdict.HELD, "")
    assert outcome.cases


def test_noise_goes_to_nobody_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    judged(tmp_path, "noisy")
    assert "slow path" not in capfd.readouterr().err
