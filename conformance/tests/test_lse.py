"""The log-sum-exp: its truth, its bound, merging, and what a subject that returns one is held to."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from attnspec.aspects.lse import words as lse
from attnspec.aspects.lse.words import QUESTIONS
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.engine.engine import Engine
from attnspec.faults.sound import DENSE, sound_named
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import declared_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe
from attnspec.questions.asker import Asker, reply_to
from attnspec.questions.undeclared import probe_conventions
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import UnusableAnswer
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import axes
from helpers.subjects import module_of

HALVES = (DType.FLOAT16, DType.BFLOAT16)
DTYPES = (DType.FLOAT64, DType.FLOAT32, *HALVES)
FAMILIES = ("normal", "log_normal+huge_logits", "above_88", "far_below_zero", "integers", "offset+tiny_query_key",
            "uniform", "constant")
VALUES = {"": "", "mask": "", "bias": "bias=large;", "causal": "", "softcap": "softcap=2.0;", "window": "window=2+0;",
          "sinks": "sinks=normal;", "scale": "scale=0.3;"}


def problem(more: str = "", family: str = "normal", dtype: DType = DType.FLOAT32, *, seed: int = 3,
            sizes: str = "B2,H2,Hkv2,T4,S5,D4,Dv4") -> Problem:
    features = "+".join(sorted(filter(None, (more, "return_lse"))))
    text = (f"{sizes};mask={'with_empty_rows' if more == 'mask' else 'none'};families={family};with={features};"
            f"{VALUES[more]}seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def expected_of(made: Problem, declared: dict[str, Any] | None = None) -> Expectation:
    return expect(made, declared_precision(declared, made.dtype), conventions={}, parts=frozenset({"lse"}))


def sums(found: Expectation) -> tuple[Array, Array]:
    """(B,H,T) each: the log-sum-exp and its allowance."""
    assert found.lse is not None
    assert found.lse_allowance is not None
    return found.lse, found.lse_allowance


@pytest.mark.parametrize("family", ["normal", "above_88", "far_below_zero", "huge_logits"])
def test_the_truth_is_that_of_fifty_digits(family: str) -> None:
    made = problem(family=family)
    found = sums(expected_of(made))[0]
    with mpmath.workdps(50):
        for b, h, i in product(range(2), range(2), range(4)):
            logits = [mpmath.fdot(zip(made.query[b, h, i].tolist(), key, strict=True)) / 2
                      for key in made.key[b, h].tolist()]
            exact = float(mpmath.log(mpmath.fsum(map(mpmath.exp, logits))))
            np.testing.assert_allclose(found[b, h, i], exact, rtol=1e-13, atol=1e-13)


@pytest.mark.family(1, each="dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DENSE)
def test_sound_formulations_stay_within_the_bound(name: str, dtype: DType) -> None:
    sound = sound_named(name)
    declared = {"grade": sound.grade} if dtype in HALVES else None
    for index, (family, more) in enumerate(product(FAMILIES, VALUES)):
        made = problem(more, family, dtype, seed=index, sizes=f"B2,H4,Hkv2,T5,S{(19, 1, 70)[index % 3]},D8,Dv4")
        found = expected_of(made, declared)
        truth, allowance = sums(found)
        with np.errstate(all="ignore"):
            seen = sound.function(made.query, made.key, made.value, **made.given)[-1]
        assert seen.dtype == (np.float64 if dtype is DType.FLOAT64 else np.float32)
        with np.errstate(invalid="ignore"):
            assert (np.abs(seen.astype(np.longdouble) - truth) <= allowance)[found.claimed].all()


@pytest.mark.parametrize(("dtype", "share"), [(DType.FLOAT64, 1e-13), (DType.FLOAT32, 1e-4), (DType.FLOAT16, 1e-4),
                                              (DType.BFLOAT16, 1e-4)])
def test_the_bound_is_small_beside_the_logits(dtype: DType, share: float) -> None:
    declared = {"grade": "G0"} if dtype in HALVES else None
    assert (sums(expected_of(problem(dtype=dtype), declared))[1] < share).all()


def test_a_row_without_keys_is_minus_infinity_and_not_claimed() -> None:
    made = problem("mask")
    found = expected_of(made)
    assert found.empty.any()
    assert (sums(found)[0][found.empty] == -np.inf).all()
    assert not found.claimed[found.empty].any()


def test_a_sink_is_counted() -> None:
    made = problem("sinks")
    assert made.sinks is not None
    without = sums(expected_of(made.but(sinks=None)))[0]
    np.testing.assert_allclose(sums(expected_of(made))[0], np.logaddexp(without, made.sinks[:, None]), rtol=1e-13)


def test_a_coarser_storage_that_is_declared_is_allowed() -> None:
    made = problem(family="offset")
    fine = sums(expected_of(made))[1]
    coarse = sums(expected_of(made, {"logsumexp": "bfloat16", "logsumexp_roundings": 1, "reason": "a test"}))[1]
    assert (coarse > 100 * fine).all()


# Words


def test_the_first_keys_are_dropped_with_their_mask_and_bias() -> None:
    made = problem("bias")
    after = axes.drop_first_keys(Posed((made,)), dropped=Drawn(2)).one
    assert made.bias is not None
    np.testing.assert_array_equal(after.key, made.key[:, :, 2:])
    np.testing.assert_array_equal(after.bias, made.bias[..., 2:])


def test_all_keys_cannot_be_dropped() -> None:
    with pytest.raises(NoClaim, match="no key would be left"):
        axes.drop_first_keys(Posed((problem(),)), dropped=Drawn(5))


def test_a_log_sum_exp_is_asked_for() -> None:
    assert lse.ask_lse(Posed((problem().but(return_lse=False),))).one.return_lse


# Subjects


MINE = """
import numpy as np

def attend(query, key, value, *, return_lse=False, return_weights=False):
    output, lse = query * 2, np.zeros(query.shape[:3], np.float32)
    weights = np.ones((*query.shape[:3], key.shape[2]), np.float32)
    return (output, *([weights] if return_weights else []), *([lse] if return_lse else [])) {wrong}
"""


def mine(folder: Path, wrong: str = "") -> Any:  # noqa: ANN401  (a subject)
    path = folder / "mine.py"
    path.write_text(MINE.replace("{wrong}", wrong), encoding="utf-8")
    return load_target(f"{path}:attend", Surroundings())


def test_output_and_log_sum_exp_are_read(tmp_path: Path) -> None:
    answer = mine(tmp_path).answer(problem())
    assert (answer.weights, answer.lse.shape) == (None, (2, 2, 4))


def test_weights_stand_before_the_log_sum_exp(tmp_path: Path) -> None:
    answer = mine(tmp_path).answer(problem().but(return_weights=True))
    assert (answer.weights.shape, answer.lse.shape) == ((2, 2, 4, 5), (2, 2, 4))


@pytest.mark.parametrize(("wrong", "weights", "complaint"), [
    ("and None", False, "The subject returned None where the pair (output, lse) is expected."),
    ("[:2]", True, "The subject returned a tuple of 2 where the triple (output, weights, lse) is expected."),
    ("and (query, weights)", False, "where the lse should be: an array of shape (2, 2, 4) in float64, float32, float16 "
                                    "or bfloat16."),
])
def test_another_form_of_answer_is_told(tmp_path: Path, wrong: str, weights: bool, complaint: str) -> None:
    with pytest.raises(UnusableAnswer) as raised:
        mine(tmp_path, wrong).answer(problem().but(return_weights=weights))
    assert raised.value.sentence.endswith(complaint)


@pytest.mark.parametrize(("target", "form", "hidden"), [
    ("sound/naive", "natural", "minus_infinity"), ("sound/finite_minimum_mask", "natural", "unspecified"),
    ("fault/lse_in_base_two", "two", "minus_infinity"), ("fault/lse_negated", "other", "plus_infinity"),
    ("fault/lse_of_hidden_row_nan", "natural", "unspecified"), ("fault/lse_of_hidden_row_zero", "natural", "zero")])
def test_a_probe_says_what_is_returned(target: str, form: str, hidden: str) -> None:
    subject = fault_subject(target) if target.startswith("fault") else sound_subject(target)
    replies = [reply_to(partial(each.ask, Asker(subject, DType.FLOAT32))) for each in QUESTIONS]
    assert [reply and reply.answer for reply in replies] == [form, hidden]
    assert probe_conventions(subject, DType.FLOAT32)["lse_of_hidden_row"] == hidden


SUNK = """
import numpy as np
def attend(query, key, value, *, causal=False, sinks=None, return_lse=False):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.dtype.type(query.shape[-1]))
    logits = np.where(np.tri(*logits.shape[2:], dtype=bool), logits, -np.inf) if causal else logits
    sink = np.full(query.shape[1], -np.inf) if sinks is None else sinks
    sink = sink.astype(query.dtype)[:, None, None]
    top = logits.max(axis=-1, keepdims=True)
    {check}
    weights = np.exp(logits - top)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(sink - top)
    output = weights @ value / total
    return (output, (top + np.log(total))[..., 0]) if return_lse else output
attend.dtypes = ["float32"]
attend.grouped = False
attend.conventions = {{"causal_alignment": "top_left", "lse_base": "natural"}}
"""


@pytest.mark.parametrize(("check", "verdict"), [
    ("top = np.maximum(top, sink)", Verdict.HELD), ("pass", Verdict.VIOLATED)])
def test_a_large_sink_out_of_the_maximum_shows_in_the_log_sum_exp(
        check: str, verdict: Verdict, tmp_path: Path) -> None:
    target = module_of(SUNK, tmp_path, check)
    engine = Engine(Plan((target,), clauses=("lse.large_sinks",), effort=Effort.GLANCE, dtypes=(DType.FLOAT32,)))
    assert [engine.try_item(item).verdict for item in engine.items()] == [verdict]
