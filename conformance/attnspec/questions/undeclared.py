"""What a declaration does not say: the conventions of a subject, and its range before overflow.

A subject may declare that it stores in float16; then an overflow contradicts nothing. So the
largest logit and value and the most keys at a half dtype are found by bisection over powers of
two, on problems whose answer is known exactly.

A subject is held to the conventions that it follows. If no answer of a convention fits, it is
`undefined`, and clauses ask less of it. To excuse no wrong subject, these problems are easy: all
keys have the same weight, and only one head is examined. Whoever answers there is held to that
answer on all problems. A user's own function that fails there, and does not say that it refuses
the call, is held to what is recommended: an accidental exception is no convention, and the clauses
will meet it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.declaration import Limits
from attnspec.core.dtype import DTYPES
from attnspec.core.keywords import FROM_PLACE, PLACED, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.numerics.rotary import ROTARY_PAIRS
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    CLOSENESS,
    RAISES,
    UNUSABLE,
    AnyProblem,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    When,
    reply_to,
    softmax_rows,
)
from attnspec.questions.inputs import (
    NO,
    ask_alignment,
    ask_heads_read,
    ask_hidden_row,
    ask_mask_with_causal,
    yes_or_no,
)
from attnspec.subjects.subject import Subject
from attnspec.subjects.watching import surviving_errors

_JOINT_PATTERN = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 1]], bool)


class _FirstHead(Asker):
    """Examines the first head only."""

    def ask_output(self, problem: AnyProblem | RotaryProblem) -> Array:
        """The first head of the output, (1,1,T,Dv)."""
        return super().ask_output(problem)[:1, :1]


def probe_conventions(subject: Subject, dtype: DType) -> Mapping[str, str]:
    """The convention's answer by name; `undefined` if none fits.

    `grouped` says whether Hkv < H is accepted. What the subject cannot be asked is missing: it
    lacks the keyword, or its limits forbid the problem. Hidden rows are asked in each form:
    `hidden_row.mask`, `hidden_row.bias`, `hidden_row.key_lengths`; `hidden_row` is the first of
    them.
    """
    if subject.declaration.kind is Kind.ROTARY:
        if "interleaved" in subject.declaration.keywords:
            return {}
        ask_pairs = _aspect_questions()[ROTARY_PAIRS]
        return _ask_convention(ROTARY_PAIRS, partial(ask_pairs, Asker(subject, dtype)))
    asker = _FirstHead(subject, dtype)
    found = dict[str, str]()
    for ask in (_ask_hidden_rows, _ask_causal_alignment, _ask_masks_together, _ask_aspects):
        with surviving_errors(subject):  # what cannot be asked leaves the other questions
            found |= ask(asker)
    with surviving_errors(subject):
        found |= _ask_groups(Asker(subject, dtype))
    return found


def _ask_aspects(asker: Asker) -> Mapping[str, str]:
    """The conventions of aspects, such as what a full cache does."""
    answers = dict[str, str]()
    for name, ask in _aspect_questions().items():
        answers |= _ask_convention(name, partial(ask, asker))
    return answers


def _aspect_questions() -> Mapping[str, Callable[[Asker], Reply]]:
    """By convention, the function of an aspect that asks for it."""
    return {name: ask for part in load_parts("words")
            for name, ask in getattr(part, "CONVENTIONS_ASKED", {}).items()}


def _ask_convention(name: str, ask: Callable[[], Reply]) -> Mapping[str, str]:
    """The convention's answer, `undefined` if none fits; empty if it cannot be asked."""
    reply = reply_to(ask)
    if reply is None:
        return {}
    return {name: _convention_answer(name.partition(".")[0], reply)}


def _convention_answer(convention: str, reply: Reply) -> str:
    if reply.is_failure:
        return CONVENTIONS[convention].recommended
    return reply.answer if reply.answer in CONVENTIONS[convention].answers else UNDEFINED


def _ask_hidden_rows(asker: Asker) -> Mapping[str, str]:
    """A subject that ignores its mask answers `uniform` here. The clauses then refute it."""
    problem, answers = asker.make_even_near(4, 4), dict[str, str]()
    for form in ("mask", "bias", "key_lengths"):
        answers |= _ask_convention(f"hidden_row.{form}",
                                 partial(ask_hidden_row, asker, form, problem))
    if not answers:
        return {}
    return {"hidden_row": next(iter(answers.values())), **answers}


def _ask_causal_alignment(asker: Asker) -> Mapping[str, str]:
    """Asked with more keys than queries and with fewer; both answers must be the same.

    A keyword for one query only is asked with one. Without a causal flag, another keyword that
    counts from a query's own position is asked instead.
    """
    keywords = asker.subject.declaration.keywords
    keyword = next((name for name in (*PLACED, *FROM_PLACE) if name in keywords), "causal")
    ask: Callable[[Asker, int, int], Reply]
    if keyword in PLACED:
        ask = partial(ask_alignment, keyword=keyword)
    else:
        ask = _aspect_alignments()[keyword]

    def answers_at(*lengths: tuple[int, int]) -> set[str]:
        """The answers at these T and S that can be asked."""
        answers = set[str]()
        for T, S in lengths:
            answers |= set(_ask_convention("causal_alignment", partial(ask, asker, T, S)).values())
        return answers

    answers = answers_at((2, 5), (5, 2)) or answers_at((1, 5))
    if not answers:
        return {}
    return {"causal_alignment": answers.pop() if len(answers) == 1 else UNDEFINED}


def _aspect_alignments() -> Mapping[str, Callable[[Asker, int, int], Reply]]:
    """By keyword that hides nothing: how to ask from where it counts positions."""
    return {keyword: ask for part in load_parts("words") if hasattr(part, "ALIGNMENTS")
            for keyword, ask in part.ALIGNMENTS.items()}


def _ask_masks_together(asker: Asker) -> Mapping[str, str]:
    """Asked at lengths of its own: no answer cached by shape can serve here."""
    return _ask_convention("mask_with_causal",
                           partial(ask_mask_with_causal, asker, _JOINT_PATTERN))


def _ask_groups(asker: Asker) -> Mapping[str, str]:
    """A declared limit is believed. A wrong answer counts as accepted: clauses will refute it."""
    limits = asker.subject.declaration.limits
    reply = None if limits.grouped is False else reply_to(partial(ask_heads_read, asker))
    if reply is None:
        return {} if limits.single_head else {"grouped": NO}
    is_accepted = reply.answer not in {RAISES, UNUSABLE}
    answers = {"grouped": yes_or_no(is_accepted)}
    if is_accepted or reply.is_failure:
        answers["grouped_heads"] = _convention_answer("grouped_heads", reply)
    return answers


RANGE_KEYS = 4
"""S of the problems about logits and values."""

MOST_KEYS = 2**13
MOST_KEYS_SQUARE = 2**11
"""The most keys if there must be as many queries."""

_LARGEST_WRITTEN_OUT = 1e6


@dataclass(frozen=True, slots=True)
class RangeFound:
    """The largest size without overflow, 0 if there is none, and the largest tried.

    noun: in the plural.
    """

    noun: str
    most_stood: float
    most_tried: float

    def __str__(self) -> str:
        """`logits up to 65,504`, `2,048 keys`."""
        if not self.most_stood:
            return f"no {self.noun}"
        most = format_size(self.most_stood)
        return f"{most} keys" if self.noun == "keys" else f"{self.noun} up to {most}"


class _Exactly(Asker):
    """Heads of width 16 if possible: the scale is 1/4, so logits are exact powers of two."""

    @property
    def width(self) -> int:
        """The head width, D and Dv."""
        limits = self.subject.declaration.limits
        return limits.nearest("D", max(16, limits.min_head_width))

    @property
    def largest_number(self) -> float:
        """The largest number of the dtype."""
        return DTYPES[self.dtype].largest

    def powers(self, most: float) -> list[float]:
        """The powers of two from 1 to `most`, and the dtype's largest number if within."""
        numbers = set(_powers_of_two(most))
        if self.largest_number <= most:
            numbers.add(self.largest_number)
        return sorted(numbers)

    def ask_last_row(self, problem: Problem) -> Array:
        """The last row of all heads, (B,H,Dv): the causal flag hides no key from it."""
        return np.asarray(self.ask_output(problem)[:, :, -1])


def _powers_of_two(most: float) -> list[float]:
    return [2.0**power for power in range(int(math.log2(most)) + 1)]


def probe_ranges(subject: Subject, dtype: DType) -> tuple[RangeFound, ...]:
    """The largest logits and values and the most keys without overflow, at a half dtype.

    What cannot be asked is missing.
    """
    if not DTYPES[dtype].is_half:
        return ()
    asker = _Exactly(subject, dtype)
    searches = (("logits", _logit_sizes(asker), _stands_logit),
                ("values", asker.powers(asker.largest_number), _stands_value),
                ("keys", _powers_of_two(_most_keys(asker)), _stands_keys))
    ranges = []
    for noun, sizes, stands in searches:
        try:
            ranges.append(RangeFound(noun, find_largest(sizes, partial(_answers_size, stands, asker)),
                              sizes[-1]))
        except NotAsked:
            continue
    return tuple(ranges)


def find_largest(sizes: Sequence[float], stands: Callable[[float], bool]) -> float:
    """The largest of the sizes that `stands` accepts, by bisection; 0 if there is none."""
    if stands(sizes[-1]):
        return sizes[-1]
    low, high = -1, len(sizes) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if stands(sizes[middle]) else (low, middle)
    if low < 0:
        return 0.0
    return sizes[low]


def describe_most(ranges: Sequence[RangeFound]) -> str:
    """`logits up to 65,504, values up to 65,504, 2,048 keys`."""
    return ", ".join(map(str, ranges))


def describe_tried(ranges: Sequence[RangeFound]) -> str:
    """The largest sizes tried: the subject may take larger ones."""
    return ("tried up to "
            + ", ".join(f"{each.noun} {format_size(each.most_tried)}" for each in ranges))


def format_size(size: float) -> str:
    """`65,504`, `2^30`, `3.39e+38`."""
    if size < _LARGEST_WRITTEN_OUT:
        return f"{size:,.0f}"
    power = math.log2(size)
    return f"2^{power:.0f}" if power == int(power) else f"{size:.3g}"


def _answers_size(stands: Callable[[_Exactly, float], bool], asker: _Exactly, size: float) -> bool:
    try:
        return stands(asker, size)
    except Failed:
        return False


def _logit_sizes(asker: _Exactly) -> list[float]:
    """Up to the largest product of two entries that float32 holds."""
    entry = 2.0 ** math.floor(math.log2(asker.largest_number))
    return asker.powers(min(entry * (entry / _scale_root(asker)), float(np.finfo(np.float32).max)))


def _scale_root(asker: _Exactly) -> float:
    return math.sqrt(asker.subject.scale_width(asker.make_even_near(RANGE_KEYS, RANGE_KEYS)))


def _stands_logit(asker: _Exactly, logit: float) -> bool:
    """One key has this logit, the others have 0."""
    problem, product = asker.make_even_near(RANGE_KEYS, RANGE_KEYS), logit * _scale_root(asker)
    share = 2.0 ** math.ceil(math.log2(product) / 2)
    problem.query[..., 0], problem.key[..., 0, 0] = share, product / share
    weights = softmax_rows(np.array([[logit, *np.zeros(problem.sizes.S - 1)]]))[0]
    observed = asker.ask_last_row(problem)[..., :RANGE_KEYS]
    return _is_near(observed[..., :len(weights)], weights[:RANGE_KEYS])


def _stands_value(asker: _Exactly, value: float) -> bool:
    """All keys have the same weight and this value."""
    problem = asker.make_even_near(RANGE_KEYS, RANGE_KEYS)
    return _is_near(asker.ask_last_row(problem.but(value=np.full_like(problem.value, value)))
                    / value, np.ones(1))


def _stands_keys(asker: _Exactly, keys: float) -> bool:
    """So many keys have the same weight and the value 1."""
    S = int(keys)
    problem = asker.make_even_near(S if _needs_square(asker.subject.declaration.limits) else 1, S)
    return _is_near(asker.ask_last_row(problem.but(value=np.ones_like(problem.value))), np.ones(1))


def _most_keys(asker: _Exactly) -> int:
    return MOST_KEYS_SQUARE if _needs_square(asker.subject.declaration.limits) else MOST_KEYS


def _needs_square(limits: Limits) -> bool:
    """Whether the last row sees all of many keys only if there are as many queries."""
    return limits.ties_lengths or limits.causal_only


def _is_near(observed: Array, expected: Array) -> bool:
    """Whether two arrays of any shape are equal as far as a half dtype's rounding allows."""
    return bool((np.abs(observed - expected) <= CLOSENESS).all())


def _ask_range(asker: Asker) -> Reply:
    if not DTYPES[asker.dtype].is_half:
        raise NotAsked("it is asked only in float16 and bfloat16")
    asker.ask(asker.make_even(RANGE_KEYS, RANGE_KEYS))  # who answers nothing at all fails here
    ranges = probe_ranges(asker.subject, asker.dtype)
    return Reply(describe_most(ranges), describe_tried(ranges))


RANGE_QUESTIONS = (
    Question("range",
             "How large may logits and values be in a half dtype, and how many keys may a row "
             "have, before it overflows?", {}, _ask_range, when=When.EVERY_DTYPE),
)
