"""What overflows a half dtype breaks a recommendation, whatever is declared; how much a subject stands is read off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults.subject import own_subject
from attnspec.numerics.precision import declared_precision, precision_of_grade, with_range_of_float32
from attnspec.numerics.roundings import roundings
from attnspec.problems.problem import Array
from attnspec.questions.undeclared import (
    MOST_KEYS,
    MOST_KEYS_SQUARE,
    RangeFound,
    describe_most,
    describe_tried,
    find_largest,
    format_size,
    probe_ranges,
)
from attnspec.record.outcome import Outcome
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from attnspec.trials import evaluator
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import LoggingEvaluator
from helpers.law import checks
from helpers.liars import liar_subject, sound, steps

BEYOND, DEFINITION = "numerics.logits_beyond_float16", "numerics.huge_logits"
HALF = (DType.FLOAT16, DType.BFLOAT16)


def subject(store: Callable[[Array], Array], **limits: Any) -> Subject:  # noqa: ANN401  (limits have types of their own)
    """Attention in float32 that stores its scaled logits, and declares nothing: in half precision that is G3."""
    def attend(query: Array, key: Array, value: Array) -> Array:
        q, k, v = (array.astype(np.float32) for array in (query, key, value))
        logits = store(q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))).astype(np.float32)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray(weights @ v).astype(query.dtype)

    base = own_subject("sound/naive")
    declaration = replace(base.declaration, keywords=frozenset(), precision={},
                          limits=replace(base.declaration.limits, grouped=False, **limits))
    return replace(base, callee=InProcess(attend), declaration=declaration)


def in_float16(logits: Array) -> Array:
    return logits.astype(np.float16)


def in_bfloat16(logits: Array) -> Array:
    return logits.astype(ml_dtypes.bfloat16)


def clipped(logits: Array) -> Array:
    """As who would make infinity finite again: logits (B,H,T,S) that are too large tie."""
    return np.clip(logits, -65504, 65504)


def judged(one: Subject, dtype: DType, clause: str = BEYOND) -> Outcome:
    run = SubjectRun(one, Plan((one.id,), dtypes=(dtype,), effort=Effort.QUICK), lambda _: None)
    return run.try_clause(checks()[clause], dtype)


def test_a_declared_storage_of_logits_in_float16_hides_no_overflow() -> None:
    one = subject(in_float16)
    assert declared_precision(None, DType.FLOAT16).logits is DType.FLOAT16  # it declares as much
    assert judged(one, DType.FLOAT16, DEFINITION).verdict is Verdict.HELD
    outcome = judged(one, DType.FLOAT16)
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.worst is not None
    assert outcome.worst.sentence.startswith("output against the definition, no overflow excused: ")
    assert "nan against" in outcome.worst.sentence


def test_logits_that_are_clipped_at_the_largest_number_tie_and_are_seen() -> None:
    assert judged(subject(clipped), DType.FLOAT16).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("store", "dtype"), [
    (np.asarray, DType.FLOAT16), (np.asarray, DType.BFLOAT16), (in_bfloat16, DType.BFLOAT16)])
def test_who_has_the_range_of_float32_holds_it_and_may_round(store: Callable[[Array], Array], dtype: DType) -> None:
    outcome = judged(subject(store), dtype)
    assert outcome.verdict is Verdict.HELD
    assert outcome.no_claims == 0


@pytest.mark.nightly
def test_the_diagnosis_names_the_storage_that_overflows() -> None:
    evidence = judged(own_subject("sound/eager"), DType.FLOAT16).evidence
    assert evidence is not None
    assert evidence.like[0].fault == "logits_float16"


@pytest.mark.parametrize("grade", ["G0", "G1", "G2", "G3", "G4"])
def test_the_range_is_widened_and_no_rounding_is_taken_away(grade: str) -> None:
    declared = roundings(precision_of_grade(grade, DType.FLOAT16))
    wide = roundings(with_range_of_float32(precision_of_grade(grade, DType.FLOAT16)))
    assert wide.largest_logit > 1e38
    for name in ("accumulate", "softmax", "prescale", "scale", "weights", "row_sum", "output"):
        assert getattr(wide, name) >= getattr(declared, name)


def test_a_class_without_float16_is_left_as_it_is() -> None:
    for dtype in (DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64):
        precision = declared_precision(None, dtype)
        assert with_range_of_float32(precision) == precision


@pytest.mark.parametrize(("name", "dtype", "value"), [
    ("fault/logits_float16", DType.FLOAT16, "logits up to 65,504, values up to 65,504, 8,192 keys"),
    ("fault/logits_raw_float16", DType.FLOAT16, "logits up to 8,192, values up to 65,504, 8,192 keys"),
    ("fault/accumulated_float16", DType.FLOAT16, "logits up to 2^28, values up to 65,504, 2,048 keys"),
    ("fault/accumulated_bfloat16", DType.BFLOAT16, "logits up to 2^125, values up to 3.39e+38, 256 keys"),
    ("fault/softmax_without_maximum", DType.FLOAT16, "logits up to 64, values up to 65,504, 8,192 keys")])
def test_how_much_a_subject_stands_is_read_off(name: str, dtype: DType, value: str) -> None:
    assert describe_most(probe_ranges(own_subject(name), dtype)) == value


def test_the_reading_stands_with_the_clause_held_or_not() -> None:
    for store, value in ((in_float16, "logits up to 65,504, values up to 65,504, 8,192 keys"),
                         (np.asarray, "logits up to 2^28, values up to 65,504, 8,192 keys")):
        [reading] = judged(subject(store), DType.FLOAT16).readings
        assert (reading.quantity, reading.value) == ("range", value)
        assert reading.sentence == f"float16: {value}; tried up to logits 2^28, values 65,504, keys 8,192"


def test_float32_and_float64_have_no_such_reading() -> None:
    for dtype in (DType.FLOAT32, DType.FLOAT64):
        assert probe_ranges(own_subject("sound/naive"), dtype) == ()
        assert judged(subject(np.asarray), dtype).readings == ()
        assert steps(liar_subject(sound), dtype)["range"].ask_question() is None


def test_a_probe_tells_it_in_the_same_words() -> None:
    found = steps(liar_subject(sound), DType.FLOAT16)["range"].ask_question()
    assert found is not None
    assert found.answer == "logits up to 2^28, values up to 65,504, 8,192 keys"
    assert found.detail == "tried up to logits 2^28, values 65,504, keys 8,192"


def test_a_probe_of_who_raises_says_so_and_nothing_of_ranges() -> None:
    def refusing(_: object) -> Array:
        raise TypeError("no half, please")

    found = steps(liar_subject(refusing), DType.FLOAT16)["range"].ask_question()
    assert found is not None
    assert (found.answer, found.detail) == ("raises", "TypeError: no half, please")


def test_rows_that_need_as_many_queries_as_keys_are_asked_for_fewer() -> None:
    assert [each.most_tried for each in probe_ranges(subject(np.asarray), DType.FLOAT16)][-1] == MOST_KEYS
    assert [each.most_tried for each in probe_ranges(subject(np.asarray, lengths="equal"), DType.FLOAT16)][-1] == \
        MOST_KEYS_SQUARE


@pytest.mark.parametrize("dtype", HALF)
def test_a_reading_takes_forty_calls_at_the_most(dtype: DType) -> None:
    calls = []

    def broken(call: Any) -> Array:  # noqa: ANN401  (a call that is handed over)
        calls.append(call)
        return np.full((*call.query.shape[:3], call.value.shape[-1]), np.nan)

    found = probe_ranges(liar_subject(broken), dtype)
    assert describe_most(found) == "no logits, no values, no keys"
    assert len(calls) <= 40


@pytest.mark.parametrize("limit", range(10))
def test_the_largest_size_that_stands_is_found_wherever_it_is(limit: int) -> None:
    sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]
    assert find_largest(sizes, lambda size: size in sizes[:limit]) == ([0.0, *sizes])[limit]


def test_sizes_are_written_as_they_are_best_read() -> None:
    assert [format_size(size) for size in (1, 2048, 65504, 2.0**30, 3.39e38)] == \
        ["1", "2,048", "65,504", "2^30", "3.39e+38"]
    assert describe_tried([RangeFound("keys", 0, 8192)]) == "tried up to keys 8,192"


def test_what_a_subject_stands_is_asked_once_whatever_it_is_held_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Subject] = []

    def ask(subject: Subject, _: DType) -> tuple[RangeFound, ...]:
        asked.append(subject)
        return ()

    monkeypatch.setattr(evaluator, "probe_ranges", ask)
    judged = Evaluator(own_subject("sound/naive"), DType.FLOAT16)
    wide = judged.with_precision(with_range_of_float32(judged.precision))
    logged = LoggingEvaluator(judged.subject, judged, [])
    assert [each.ranges for each in (wide, judged, logged)] == [(), (), ()]
    assert len(asked) == 1
    assert LoggingEvaluator(own_subject("sound/naive"), judged, []).ranges == ()
    assert len(asked) == 2
