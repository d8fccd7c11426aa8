"""What was once said falsely of a kind of mistake is not said of another function of that kind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from attnspec.core.nouns import FAILURES, DType, Effort, Kind
from attnspec.core.plan import Plan
from attnspec.diagnosis.conditions import ENOUGH_LONGER, LengthCondition, LengthProfile, LengthRule
from attnspec.diagnosis.locate import OUTPUT_IS_MIXED
from attnspec.engine.subject_run import SubjectRun
from attnspec.problems.problem import Array
from attnspec.record.boundaries import Span
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import likely_words
from attnspec.subjects.subject import Subject
from attnspec.trials.sizes import MAX_SEEDS
from helpers.law import checks
from helpers.subjects import subject_of
from mistakes import attend, keys_up_to


def failures(subject: Subject, *clauses: str) -> list[Outcome]:
    """What fails of these clauses at effort quick."""
    run = SubjectRun(subject, Plan((subject.id,), effort=Effort.QUICK), lambda _: None, checks)
    [dtype] = subject.declaration.dtypes
    outcomes = [run.try_clause(checks()[clause], dtype) for clause in clauses]
    return [each for each in outcomes if each.verdict in FAILURES]


def halved_logits(query: Array, key: Array, value: Array) -> Array:
    """Of long sequences the weights are nearly equal, so that little of it shows there."""
    return attend(query, key, value, visible=True, scale=0.5 * query.shape[-1]**-0.5)


def window_of_one_query_behind_all(query: Array, key: Array, value: Array, *,
                                   window: tuple[int | None, int | None] | None = None) -> Array:
    """A single query is taken to stand behind all keys, though the first query stands at the first key."""
    T, S = query.shape[2], key.shape[2]
    place, (left, right) = (S - 1 if T == 1 else 0), window or (None, None)
    visible = np.ones((T, S), bool) if right is None else keys_up_to(T, S, place + right)
    return attend(query, key, value, visible=visible if left is None else visible & ~keys_up_to(T, S, place - left - 1))


def interleaved_heads(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int,
                      causal: bool = False) -> Array:
    """(B,T,M) of a layer that takes every heads-th column for a head."""
    split = [(each @ params[name]).reshape(*each.shape[:2], -1, heads).transpose(0, 3, 1, 2)
             for each, name in ((query, "w_query"), (key, "w_key"), (value, "w_value"))]
    output = attend(*split, visible=keys_up_to(query.shape[1], key.shape[1]) if causal else True)
    return np.asarray(output.swapaxes(1, 2).reshape(*query.shape[:2], -1) @ params["w_out"])


def half_as_much_without_keys(query: Array, key: Array, value: Array, *, mask: Array | None = None) -> Array:
    """A row that sees no key gets half the mean of all values, by its convention the mean."""
    output = attend(query, key, value, visible=True if mask is None else mask)
    if mask is None:
        return output
    mean = value.mean(axis=-2, keepdims=True).repeat(query.shape[1] // key.shape[1], axis=1)
    return np.where(mask.any(axis=-1, keepdims=True), output, 0.5 * mean).astype(query.dtype)


@pytest.mark.nightly
def test_halved_logits_are_told_as_such_and_not_as_a_length() -> None:
    subject = subject_of(halved_logits, dtypes=(DType.FLOAT16,))
    words = likely_words(failures(subject, "attention.definition", "numerics.ties"))
    assert words.startswith("Likely one bug: the logits are wrong by the factor 0.5 (scale)")


def test_no_mistake_is_named_where_none_would_be_named_too() -> None:
    subject = subject_of(half_as_much_without_keys, frozenset({"mask"}), dtypes=(DType.FLOAT32,),
                         conventions={"hidden_row": "uniform"})
    [failed] = failures(subject, "masking.hidden_row_convention", "masking.definition")
    assert failed.evidence
    assert failed.evidence.like == ()
    assert failed.evidence.begins.startswith("Fails where a query sees no key")


def test_what_is_never_an_output_is_one_bug() -> None:
    def with_sum(query: Array, key: Array, value: Array) -> tuple[Array, float]:
        output = attend(query, key, value, visible=True)
        return output, float(output.sum())

    failed = failures(subject_of(with_sum, dtypes=(DType.FLOAT32,)), "attention.definition", "purity.strided_inputs")
    assert likely_words(failed) == "Likely one bug: every call returns a tuple of 2, and no array (explains 2 of 2)"


def test_what_depends_on_one_query_is_told_with_its_keyword() -> None:
    subject = subject_of(window_of_one_query_behind_all, frozenset({"window"}), dtypes=(DType.FLOAT32,),
                         conventions={"causal_alignment": "top_left"})
    failed = failures(subject, "window.definition", "window.alone")
    assert likely_words(failed) == "Likely one bug: fails only where T = 1, with window (explains 2 of 2)"
    assert failed[0].evidence
    assert failed[0].evidence.wrong.startswith("At B=2 H=2 Hkv=2 T=1 S=6")


@pytest.mark.nightly
def test_heads_that_are_interleaved_are_told_as_mixed_up() -> None:
    """Their columns, read one by one through projections that select them, look like keys that the flag hides."""
    subject = subject_of(interleaved_heads, frozenset({"causal"}), dtypes=(DType.FLOAT32,), kind=Kind.LAYER)
    [failed] = failures(subject, "layers.definition")
    assert failed.evidence
    assert failed.evidence.located == OUTPUT_IS_MIXED
    assert failed.evidence.like == ()


@pytest.mark.parametrize(("longer", "is_chance"), [(ENOUGH_LONGER - 1, True), (ENOUGH_LONGER, False)])
def test_a_length_at_which_alone_it_fails_is_no_chance(longer: int, *,
                                                                                   is_chance: bool) -> None:
    fared = {1: True, **{2 + number: False for number in range(longer)}}
    profile = LengthProfile(1, LengthCondition(LengthRule.ONLY, 1), fared, is_settled=True)
    assert profile.may_be_chance(MAX_SEEDS) is is_chance


def test_a_range_of_one_length_is_told_as_that_length() -> None:
    assert Span("T", 1, 1).words == "T = 1"
