"""Puts small inputs to a function, in under a second: does it take four axes, and does its adapter
work?

A function of one's own gets its first calls here, before the clauses and anything else is loaded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from attnspec.core.errors import FileLocation, TargetError
from attnspec.core.forms import FARTHEST, InputForm
from attnspec.core.keywords import KEYWORDS, list_defaults
from attnspec.core.nouns import DType, Kind
from attnspec.core.surroundings import Surroundings
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import INPUTS, Array, Problem, Sizes, numpy_dtype
from attnspec.spec.clause import first_of
from attnspec.subjects.call import Call
from attnspec.subjects.callee import Hosted
from attnspec.subjects.signature import UNKNOWN_PLACE
from attnspec.subjects.subject import Subject, SubjectAnswer, SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.subjects.target import begin_target, importable_name, load_bare

_SMOKE_SIZES = (Sizes(B=2, H=4, Hkv=4, T=16, S=16, D=8, Dv=8),
                Sizes(B=1, H=1, Hkv=1, T=16, S=16, D=8, Dv=8))
_PICKING = (8, 8), (8, 64), (128, 64), (128, 128)
"""T and D at which the order of axes is asked, until one is answered."""
_TURN_ROUND = ("{0} seems to take arrays with the axes (B, T, H, D): given these, it is right. "
               "attnspec gives (B, H, T, D). Have a wrapper written (attnspec init {1}), or swap "
               "the axes 1 and 2 of query, key, value and output.")
_CLEAR_ENTRY = 64
"""An entry of a query and its key, whose product outweighs all others whatever the scale."""
_FEWER_AXES = {(2, 16, 8): ("(B, T, D)", "`torch.bmm` or `key.transpose(0, 2, 1)`"),
               (16, 8): ("(T, D)", "`key.T`")}
"""Shapes of all inputs and of the output: their axes, and how such code turns the key."""


def check_axes(subject: Subject, *, target: str = UNKNOWN_PLACE) -> None:
    """Raises TargetError for a function that answers on (T, D) or (B, T, D) alone, or is right on
    (B, T, H, D) alone.  target: for `attnspec init`. Nothing is concluded of one that is wrong on
    these axes too.
    """
    if subject.declaration.kind is Kind.ATTENTION:
        _check_number(subject, target)
        _check_order(subject, target)


def complaint_of_all_calls(subject: Subject) -> str:
    """Returns the first complaint on four axes, where every call has one; else ""."""
    first = ""
    for complaint in _complaints(subject):
        if not complaint:
            return ""
        first = first or complaint
    return first


def _complaints(subject: Subject) -> Iterator[str]:
    inputs = product(subject.declaration.dtypes, _SMOKE_SIZES, (False, True))
    said = (_try_four_axes(subject, *each) for each in inputs)
    return (each for each in said if each is not None)


def _check_number(subject: Subject, target: str) -> None:
    complaints = list(_complaints(subject))
    taken = next(_dropped_axes(subject), None) if complaints and all(complaints) else None
    if taken:
        axes, turned = taken
        raise TargetError(
            f"{subject.id} takes arrays with the axes {axes}. attnspec gives it four, (B, H, T, "
            f"D), and then {complaints[0]}. Have a wrapper written (attnspec init {target}), or "
            "let the function take any leading axes: write `query @ key.swapaxes(-1, -2)`, not "
            f"{turned}, and sum over axis -1.",
            where=_name_axis(subject))


def _check_order(subject: Subject, target: str) -> None:
    for sizes in _PICKING:
        plain = _reads_rightly(subject, *sizes)
        swapped = None if plain else _reads_rightly(subject, *sizes, swapped=True)
        if swapped:
            raise TargetError(_TURN_ROUND.format(subject.id, target), where=_name_axis(subject))
        if plain is not None or swapped is not None:
            return


def _reads_rightly(subject: Subject, tokens: int, width: int, *,
                   swapped: bool = False) -> bool | None:
    """Says whether it is right at these sizes, at some dtype; None where it answers at none."""
    problems = (_picking(subject, dtype, tokens, width) for dtype in subject.declaration.dtypes)
    found = None
    for problem in problems:
        if subject.refuses(problem):
            continue
        picks = _picks_values(subject, problem, swapped=swapped)
        if picks:
            return True
        found = picks if found is None else found
    return found


def _picking(subject: Subject, dtype: DType, tokens: int, width: int) -> Problem:
    """Makes a problem whose query t picks key t // 2, so that the rounded output is its value."""
    limits = subject.declaration.limits
    shape = (2, 1 if limits.single_head else 3, tokens, width)
    keys = np.broadcast_to(_CLEAR_ENTRY * np.eye(tokens, width), shape)
    # what every format holds, and no two neighbours alike
    values = np.arange(np.prod(shape)).reshape(shape) % 251
    query, key, value = (np.ascontiguousarray(each, numpy_dtype(dtype))
                         for each in (keys[:, :, np.arange(tokens) // 2], keys, values))
    return Problem(dtype, query, key, value, causal=limits.causal_only)


def _picks_values(subject: Subject, problem: Problem, *, swapped: bool) -> bool | None:
    """Says whether the output has the picked values, with axes 1 and 2 swapped or not; or None."""
    order = (0, 2, 1, 3) if swapped else (0, 1, 2, 3)
    inputs = {name: np.ascontiguousarray(getattr(problem, name).transpose(order))
              for name in INPUTS}
    causal = {"causal": True} if problem.causal else {}
    expected = problem.value[:, :, np.arange(problem.sizes.T) // 2]
    try:
        answer = subject.callee.perform(
            subject.as_spelled(Call(inputs, causal, problem.dtype, (inputs["query"].shape,))))
    except (SubjectRaised, UnusableAnswer):
        return None
    return np.array_equal(np.rint(answer.output.astype(np.float64)),
                          expected.transpose(order).astype(np.float64))


def _name_axis(subject: Subject) -> FileLocation | None:
    return subject.source if subject.source.file else None


def _try_four_axes(subject: Subject, dtype: DType, sizes: Sizes, causal: bool) -> str | None:
    """Says what goes wrong on four axes, or "" for nothing; None where that cannot be asked."""
    keys = _make_array((sizes.B, sizes.H, sizes.S, sizes.D), dtype)
    problem = Problem(dtype, keys, keys, keys, causal=causal)
    if subject.refuses(problem):
        return None
    try:
        subject.answer(problem)
    except SubjectRaised as raised:
        return f"it raises {raised.summary}"
    except UnusableAnswer as unusable:
        return unusable.sentence[0].lower() + unusable.sentence[1:].rstrip(".")
    return ""


def _dropped_axes(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yields the fewer axes on which the function answers in the right shape."""
    causal = {"causal": True} if subject.declaration.limits.causal_only else {}
    for dtype in subject.declaration.dtypes:
        for shape, told in _FEWER_AXES.items():
            inputs = {name: _make_array(shape, dtype) for name in INPUTS}
            try:
                subject.callee.perform(subject.as_spelled(Call(inputs, causal, dtype, (shape,))))
            except (SubjectRaised, UnusableAnswer):
                continue
            yield told


def _make_array(shape: tuple[int, ...], dtype: DType) -> Array:
    """Makes small whole numbers, in an array of any shape."""
    return (np.arange(np.prod(shape)).reshape(shape) % 3 - 1).astype(numpy_dtype(dtype))


@dataclass(frozen=True, slots=True)
class SmokeLine:
    """One input: what should happen, whether it did, and what happened instead."""

    sentence: str
    has_passed: bool
    detail: str = ""


def smoke_subject(subject: Subject) -> tuple[SmokeLine, ...]:
    """Puts five inputs to the subject, in its first dtype. Raises ReleaseError of its adapter."""
    dtype = first_of(subject.declaration.dtypes)
    if subject.declaration.kind is Kind.ROTARY:
        return tuple(_make_line(subject, *each) for each in rotary_lines(subject, dtype))
    small, single = _make_problem(subject, dtype, 3, 3), _make_problem(subject, dtype, 1, 1)
    cross = _make_problem(subject, dtype, 2, 4)
    with_all = _with_keywords(subject, small)
    tried = ", ".join(sorted(with_all.keywords)) or "none"
    left = _list_left_alone(subject, with_all)
    return (
        _make_line(subject, "one query and one key give the value", single, expected=single.value),
        _make_line(subject, "three queries and keys give finite numbers", small),
        _make_line(subject, "two queries and four keys give finite numbers", cross),
        _make_line(subject, f"every keyword that is tried ({tried}) is accepted{left}", with_all),
        _make_line(subject, "the same call again gives the same", small,
                   expected=_try_output(subject, small)),
    )


def _make_problem(subject: Subject, dtype: DType, T: int, S: int) -> Problem:
    limits = subject.declaration.limits
    sizes = Sizes(2, *((1, 1) if limits.single_head else (2, 2)), T, S, 4, 4)
    draw, number = np.random.default_rng(0), numpy_dtype(dtype)

    def entries(heads: int, length: int) -> Array:
        """Draws multiples of a quarter (B,H,T,D), which every dtype holds."""
        return (draw.integers(-8, 9, (sizes.B, heads, length, sizes.D)) / 4).astype(number)

    return Problem(dtype, entries(sizes.H, T), entries(sizes.Hkv, S), entries(sizes.Hkv, S),
                   causal=limits.causal_only)


def _with_keywords(subject: Subject, problem: Problem) -> Problem:
    """Adds every optional keyword at a harmless value; the flag alone where a mask forbids it."""
    takes = subject.declaration.keywords
    shape = (problem.sizes.B, problem.sizes.H, problem.sizes.T, problem.sizes.S)
    plain = problem.but(causal="causal" in takes, scale=0.5 if "scale" in takes else None,
                        return_weights="return_weights" in takes)
    both = subject.declaration.conventions.get("mask_with_causal")
    if both not in ("raises", "undefined"):
        if "mask" in takes:
            plain = plain.but(mask=np.ones(shape, bool))
        if "bias" in takes:
            plain = plain.but(bias=np.zeros(shape, problem.query.dtype))
    full = plain.but(**{name: word.sample for name, word in KEYWORDS.items()
                        if name in takes and word.sample is not None and not word.pool})
    return plain if subject.refuses(full) else full


def _make_line(subject: Subject, sentence: str, problem: Problem | RotaryProblem,
               expected: Array | None = None) -> SmokeLine:
    """Checks that the answer is finite, and `expected` (B,H,T,Dv) where that is given."""
    if reason := subject.refuses(problem):
        return SmokeLine(sentence, has_passed=True, detail=f"not asked: {reason}")
    subject.callee.begin_item()
    try:
        answer = subject.answer(problem)
    except SubjectDied as died:
        return SmokeLine(sentence, has_passed=False, detail=str(died))
    except SubjectRaised as raised:
        return SmokeLine(sentence, has_passed=False, detail=f"it raises {raised.summary}")
    except UnusableAnswer as unusable:
        return SmokeLine(sentence, has_passed=False, detail=unusable.sentence)
    wrong = _find_wrong(answer, expected)
    return SmokeLine(sentence, has_passed=not wrong, detail=wrong)


def _find_wrong(answer: SubjectAnswer, expected: Array | None) -> str:
    """Says what is wrong with an answer that should be finite and `expected` (B,H,T,Dv)."""
    if not np.isfinite(answer.output.astype(np.float64)).all():
        return "the output holds NaN or infinities"
    if expected is not None and not np.array_equal(answer.output, expected):
        gap = np.abs(answer.output.astype(np.float64) - expected.astype(np.float64)).max()
        return f"the output differs by {gap:.3g}"
    return ""


def _try_output(subject: Subject, problem: Problem | RotaryProblem) -> Array | None:
    """Returns the output (B,H,T,Dv), or None where there is none."""
    try:
        return None if subject.refuses(problem) else subject.answer(problem).output
    except (SubjectRaised, SubjectDied, UnusableAnswer):
        return None


def rotary_lines(subject: Subject,
                 dtype: DType) -> Iterator[tuple[str, RotaryProblem, Array | None]]:
    """Yields a rotary embedding's first problems: sentence, problem, known answer (B,H,T,D)."""
    takes, x = subject.declaration.keywords, _make_array((2, 2, 3, 4), dtype)
    counted = RotaryProblem(dtype, x, np.tile(np.arange(3, dtype=np.int32), (2, 1)))
    zero = counted.but(positions=np.zeros((2, 3), np.int32))
    far = counted.but(positions=np.full((2, 3), FARTHEST, np.int32))
    with_all = counted.but(base=500000.0 if "base" in takes else None,
                           interleaved="interleaved" in takes,
                           rotary_width=2 if "rotary_width" in takes else None)
    named = ", ".join(sorted(with_all.keywords))
    yield "three tokens at position 0 are returned as they are", zero, x
    yield "three tokens that count from 0 give finite numbers", counted, None
    yield "tokens at position 131072 give finite numbers", far, None
    yield f"every keyword that it takes ({named}) is accepted", with_all, None
    yield "the same call again gives the same", counted, _try_output(subject, counted)


def _list_left_alone(subject: Subject, tried: Problem) -> str:
    """Lists the keywords that are not tried, and the parameters that keep their defaults."""
    left = ""
    if untried := sorted(subject.declaration.keywords - tried.keywords):
        left += f"; not tried: {', '.join(untried)}"
    if defaults := subject.declaration.defaults:
        left += f"; left at their defaults: {list_defaults(defaults)}"
    return left


_ANY_SHAPE = (1, 1, 16, 8)
"""A shape that any attention takes: (B,H,T,D)."""


def check_first_calls(target: str, surroundings: Surroundings, *, lift: str = "") -> str:
    """Calls the function with small inputs, and says what it returns instead of an array, or "".
    Raises TargetError where it cannot be judged at all. Nothing is concluded of one that dies.
    """
    begin_target(target, surroundings)
    subject = load_bare(target, surroundings, lift=lift)
    with contextlib.suppress(SubjectDied):
        check_axes(subject, target=importable_name(target))
        return _returned_otherwise(subject, importable_name(target))
    return ""


def _returned_otherwise(subject: Subject, target: str) -> str:
    declared = subject.declaration
    if declared.kind is not Kind.ATTENTION or declared.form is not InputForm.DENSE:
        return ""
    causal = {"causal": True} if declared.limits.causal_only else {}
    dtype = first_of(declared.dtypes)
    inputs = {name: _make_array(_ANY_SHAPE, dtype) for name in INPUTS}
    call = subject.as_spelled(Call(inputs, causal, dtype, (_ANY_SHAPE,)))
    try:
        subject.callee.perform(call)
    except UnusableAnswer as unusable:
        assert isinstance(subject.callee, Hosted)
        returned = subject.callee.call_whole(replace(call, shapes=()))
        if any(not part.path for part in returned.parts):  # an unfit array, which is judged
            return ""
        return (f"{subject.source}: {unusable.sentence} Return the output alone, or have a "
                f"wrapper written: attnspec init {target}.")
    except SubjectRaised:
        return ""
    return ""
