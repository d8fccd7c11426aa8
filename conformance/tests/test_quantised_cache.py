"""Codes behind a past: past codes are stored as new ones, and one array of scales is for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from attnspec.aspects.past.words import in_chunks
from attnspec.aspects.quantised import mistakes_beside
from attnspec.aspects.quantised.arrays import hand_over, misfit
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe, join_past
from attnspec.vocabulary.scene import Posed
from attnspec.vocabulary.signature import Drawn

CONVENTIONS = {"grouped_heads": "repeat", "causal_alignment": "top_left"}
RECIPE = ("B2,H4,Hkv2,T3,S8,D6,Dv3;mask=none;families=normal;with=past_key+past_value+key_scale+value_scale{0};"
          "past_key={1};key_scale={2};value_scale={2};seed=11")


def posed(pattern: str = "int8/token/odd", past: str = "half", more: str = "") -> Problem:
    """A problem whose keys are past in part, all of them codes of one pattern."""
    return make_problem(Recipe.parse(RECIPE.format(more, past, pattern)), DType.FLOAT32)


@pytest.mark.parametrize("pattern", ["int8/token/odd", "float8_e4m3fn/head/odd", "int4/channel/powers"])
def test_a_past_of_codes_is_that_of_the_numbers_that_they_stand_for(pattern: str) -> None:
    problem = posed(pattern)
    whole = join_past(problem)
    assert problem.key_scale is not None
    assert problem.value_scale is not None
    assert problem.key_scale.shape == whole.key.shape
    plain = whole.but(key=whole.key.astype(np.float64) * problem.key_scale,
                      value=whole.value.astype(np.float64) * problem.value_scale, key_scale=None, value_scale=None)
    behind, alone = (expect(each, assumed_precision(DType.FLOAT32), conventions=CONVENTIONS).output
                     for each in (problem, plain))
    np.testing.assert_array_equal(behind, alone)


def test_past_codes_are_handed_over_in_the_storage_of_new_ones() -> None:
    problem = posed("int8/token/odd")
    limits = Limits(stored_key="int8", stored_value="int8", key_scales="token", value_scales="token")
    arrays, keywords = hand_over({"query": problem.query, "key": problem.key, "value": problem.value},
                                 problem.given, limits)
    assert [each.dtype.name for each in arrays.values()] == ["float32", "int8", "int8"]
    handed = {name: np.asarray(keywords[name]) for name in ("past_key", "past_value", "key_scale")}
    assert [each.dtype.name for each in handed.values()] == ["int8", "int8", "float32"]
    assert handed["key_scale"].shape == (2, 2, 8)


def test_past_codes_that_a_storage_cannot_hold_are_not_put() -> None:
    problem = posed("float8_e4m3fn/token/odd")
    assert problem.past_key is not None
    whole = problem.but(past_key=np.full_like(problem.past_key, 0.3))
    limits = Limits(stored_key="float8_e4m3fn")
    assert not misfit(problem, limits)
    assert misfit(whole, limits) == "float8_e4m3fn cannot hold the entries of its key"


def test_chunks_of_codes_have_the_scales_of_their_own_keys() -> None:
    recipe = Recipe.parse("B1,H2,Hkv2,T6,S6,D4,Dv4;mask=none;families=normal;with=causal+key_scale+value_scale;"
                          "key_scale=int8/token/odd;value_scale=int8/token/odd;seed=3")
    problem = make_problem(recipe, DType.FLOAT32)
    first, second = in_chunks(Posed((problem,)), cut=Drawn(3)).parts
    assert first.key_scale is not None
    assert second.key_scale is not None
    assert problem.key_scale is not None
    np.testing.assert_array_equal(first.key_scale, problem.key_scale[:, :, :4])
    np.testing.assert_array_equal(second.key_scale, problem.key_scale)


FAULTS = {fault.name: fault for fault in mistakes_beside.FAULTS}
BESIDE = ("past_key+past_value;past_key=half", "past_key+past_value;past_key=one_new", "key_lengths",
          "query_lengths", "alibi_slopes", "sinks", "softcap;softcap=0.5", "bias;bias=normal",
          "causal+window;window=2+0", "return_lse")


def calls() -> Iterator[Problem]:
    """Codes by head and by token, each beside another keyword."""
    for pattern in ("int8/head/odd", "float8_e4m3fn/token/odd"):
        for beside in BESIDE:
            names, _, values = beside.partition(";")
            text = (f"B2,H4,Hkv2,T5,S8,D6,Dv3;mask=none;families=normal;with=query_scale+key_scale+value_scale+{names};"
                    f"query_scale={pattern};key_scale={pattern};value_scale={pattern};seed=5"
                    + (f";{values}" if values else ""))
            yield make_problem(Recipe.parse(text), DType.FLOAT32)


def departs(fault: Fault, problem: Problem) -> bool:
    """Whether an output, or a log-sum-exp, is off by more than an honest one may be."""
    seen = fault.function(problem.query, problem.key, problem.value, **problem.given)
    output, *more = seen if isinstance(seen, tuple) else (seen,)
    truth = expect(problem, assumed_precision(DType.FLOAT32), conventions=CONVENTIONS,
                   parts=frozenset({"output", "lse"}) if more else frozenset({"output"}))
    off = (~(np.abs(output - truth.output) <= truth.output_allowance))[truth.claimed].any()
    if not more:
        return bool(off)
    assert truth.lse is not None
    assert truth.lse_allowance is not None
    return bool(off or (~(np.abs(more[0] - truth.lse) <= truth.lse_allowance))[truth.claimed].any())


def with_zeros() -> Iterator[Problem]:
    """Codes by token with zero points, some of them past."""
    for past in ("half", "one_new"):
        yield posed("uint8/token/odd", past, "+key_zero+value_zero")


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_beside_another_keyword_departs(name: str) -> None:
    assert any(departs(FAULTS[name], problem) for problem in (with_zeros() if "_zero_" in name else calls()))
