"""Five fixed inputs, well under a second: is the adapter broken, before anything is measured?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnspec.ground.keywords import listed
from attnspec.ground.nouns import DType
from attnspec.problems.problem import Array, Problem, Sizes, numpy_dtype
from attnspec.subjects.subject import Answer, Subject, SubjectRaised, UnusableAnswer


@dataclass(frozen=True, slots=True)
class SmokeLine:
    """One input: what should happen, whether it did, and what happened instead."""

    sentence: str
    passed: bool
    detail: str = ""


def smoke(subject: Subject) -> tuple[SmokeLine, ...]:
    """Put the five inputs to the subject, in its first dtype of float32, float64, … Raises nothing of the subject's."""
    dtype = DType.FLOAT32 if DType.FLOAT32 in subject.declaration.dtypes else subject.declaration.dtypes[0]
    small, single = _problem(subject, dtype, 3, 3), _problem(subject, dtype, 1, 1)
    cross = _problem(subject, dtype, 2, 4)
    with_all = _with_keywords(subject, small)
    return (
        _line(subject, "one query and one key give the value", single, expected=single.value),
        _line(subject, "three queries and keys give finite numbers", small),
        _line(subject, "two queries and four keys give finite numbers", cross),
        _line(subject, f"every keyword that it takes ({_list(with_all)}) is accepted{_left_alone(subject)}", with_all),
        _line(subject, "the same call again gives the same", small, expected=_quiet(subject, small)),
    )


def _problem(subject: Subject, dtype: DType, T: int, S: int) -> Problem:
    limits = subject.declaration.limits
    sizes = Sizes(2, *((1, 1) if limits.single_head else (2, 2)), T, S, 4, 4)
    draw, number = np.random.default_rng(0), numpy_dtype(dtype)

    def entries(heads: int, length: int) -> Array:
        return (draw.integers(-8, 9, (sizes.B, heads, length, sizes.D)) / 4).astype(number)

    return Problem(dtype, entries(sizes.H, T), entries(sizes.Hkv, S), entries(sizes.Hkv, S), causal=limits.causal_only)


def _with_keywords(subject: Subject, problem: Problem) -> Problem:
    """Every optional keyword that the subject takes, at a harmless value; the flag alone where a mask forbids it."""
    takes = subject.declaration.keywords
    shape = (problem.sizes.B, problem.sizes.H, problem.sizes.T, problem.sizes.S)
    refuses_both = subject.declaration.conventions.get("mask_with_causal") in ("raises", "undefined")
    return problem.but(
        mask=np.ones(shape, bool) if "mask" in takes and not refuses_both else None,
        bias=np.zeros(shape, problem.query.dtype) if "bias" in takes and not refuses_both else None,
        causal="causal" in takes,
        scale=0.5 if "scale" in takes else None,
        return_weights="return_weights" in takes)


def _line(subject: Subject, sentence: str, problem: Problem, expected: Array | None = None) -> SmokeLine:
    if reason := subject.refuses(problem):
        return SmokeLine(sentence, passed=True, detail=f"not asked: {reason}")
    try:
        answer = subject.answer(problem)
    except SubjectRaised as raised:
        return SmokeLine(sentence, passed=False, detail=f"it raises {raised.summary}")
    except UnusableAnswer as unusable:
        return SmokeLine(sentence, passed=False, detail=unusable.sentence)
    wrong = _wrong(answer, expected)
    return SmokeLine(sentence, passed=not wrong, detail=wrong)


def _wrong(answer: Answer, expected: Array | None) -> str:
    if not np.isfinite(answer.output.astype(np.float64)).all():
        return "the output holds NaN or infinities"
    if expected is not None and not np.array_equal(answer.output, expected):
        gap = np.abs(answer.output.astype(np.float64) - expected.astype(np.float64)).max()
        return f"the output differs by {gap:.3g}"
    return ""


def _quiet(subject: Subject, problem: Problem) -> Array | None:
    """The output, or None where there is none."""
    try:
        return None if subject.refuses(problem) else subject.answer(problem).output
    except (SubjectRaised, UnusableAnswer):
        return None


def _left_alone(subject: Subject) -> str:
    defaults = subject.declaration.defaults
    return f"; left at their defaults: {listed(defaults)}" if defaults else ""


def _list(problem: Problem) -> str:
    return ", ".join(sorted(problem.keywords)) or "none"
