"""What a subject does where its declaration is silent: which conventions it follows, and what it
takes before overflow.

A storage in float16 may be declared, and then an overflow contradicts nothing. So the largest
logit, the largest value and the most keys in a half dtype are read off instead: by bisection over
powers of two, on problems whose answer is known without any rounding.

A subject is held to the conventions that it follows. Where none of a convention's answers fits, it
is `undefined`, and clauses ask less of the subject. So that a wrong subject is not excused, the
problems are easy: all keys weigh the same, and one head is looked at. A subject that gives an
answer there is held to it on all problems. A function of a user's own that fails there, and does
not say that it refuses the call, is held to what is recommended: an exception by accident is no
convention, and the clauses meet it.
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
from attnspec.questions.inputs import NO, YES, ask_alignment, ask_heads_read, ask_hidden_row, ask_mask_with_causal
from attnspec.subjects.subject import Subject
from attnspec.subjects.watching import surviving_errors

_JOINT_PATTERN = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 1]], bool)


class _FirstHead(Asker):
    """Looks at no other head."""

    def ask_output(self, problem: AnyProblem | RotaryProblem) -> Array:
        """The first head of the output, (1,1,T,Dv)."""
        return super().ask_output(problem)[:1, :1]


def probe_conventions(subject: Subject, dtype: DType) -> Mapping[str, str]:
    """The convention's answer by name, `undefined` where none fits; and `grouped`: whether Hkv < H
    is accepted.

    Left out is what cannot be asked of this subject: it lacks the keyword, or its limits forbid
    the problem. Hidden rows are probed in each form: `hidden_row.mask`, `hidden_row.bias`,
    `hidden_row.key_lengths`; `hidden_row` is the first of them.
    """
    if subject.declaration.kind is Kind.ROTARY:
        is_said = "interleaved" in subject.declaration.keywords
        return {} if is_said else _ask_convention(ROTARY_PAIRS,
                                                  partial(_aspect_questions()[ROTARY_PAIRS],
                                                          Asker(subject, dtype)))
    asker = _FirstHead(subject, dtype)
    found = dict[str, str]()
    for ask in (_ask_hidden_rows, _ask_causal_alignment, _ask_masks_together, _ask_aspects):
        with surviving_errors(subject):  # what cannot be asked leaves the other questions
            found |= ask(asker)
    with surviving_errors(subject):
        found |= _ask_groups(Asker(subject, dtype))
    return found


def _ask_aspects(asker: Asker) -> Mapping[str, str]:
    """The conventions of single aspects, such as what lies beyond a length, or what a full cache
    does.
    """
    asked = _aspect_questions()
    return {name: answer for word, ask in asked.items()
            for name, answer in _ask_convention(word, partial(ask, asker)).items()}


def _aspect_questions() -> Mapping[str, Callable[[Asker], Reply]]:
    """By convention, how an aspect finds out what a subject does."""
    return {name: ask for part in load_parts("words")
            for name, ask in getattr(part, "CONVENTIONS_ASKED", {}).items()}


def _ask_convention(name: str, ask: Callable[[], Reply]) -> Mapping[str, str]:
    """The answer of the convention, `undefined` if the reply is none of them; nothing where it
    cannot be asked.
    """
    reply = reply_to(ask)
    return {} if reply is None else {name: _convention_answer(name.partition(".")[0], reply)}


def _convention_answer(convention: str, reply: Reply) -> str:
    if reply.is_failure:
        return CONVENTIONS[convention].recommended
    return reply.answer if reply.answer in CONVENTIONS[convention].answers else UNDEFINED


def _ask_hidden_rows(asker: Asker) -> Mapping[str, str]:
    """A subject that ignores its mask gives the mean here; held to `uniform`, it fails where keys
    differ.
    """
    problem, found = asker.make_even_near(4, 4), dict[str, str]()
    for form in ("mask", "bias", "key_lengths"):
        found |= _ask_convention(f"hidden_row.{form}",
                                 partial(ask_hidden_row, asker, form, problem))
    return {"hidden_row": next(iter(found.values())), **found} if found else {}


def _ask_causal_alignment(asker: Asker) -> Mapping[str, str]:
    """Asked with more keys than queries and with fewer; the two answers must be the same one. A
    keyword that is taken with one query only is asked about with one. Where there is no causal
    flag, the first other keyword that counts from a query's own place serves for it.
    """
    taken = asker.subject.declaration.keywords
    keyword = next((name for name in (*PLACED, *FROM_PLACE) if name in taken), "causal")
    ask: Callable[[Asker, int, int], Reply]
    if keyword in PLACED:
        ask = partial(ask_alignment, keyword=keyword)
    else:
        ask = _aspect_alignments()[keyword]

    def answers_at(*lengths: tuple[int, int]) -> set[str]:
        """The answers at these numbers of queries and keys, where it can be asked."""
        return {answer for T, S in lengths
                for answer in _ask_convention("causal_alignment",
                                              partial(ask, asker, T, S)).values()}

    answers = answers_at((2, 5), (5, 2)) or answers_at((1, 5))
    if not answers:
        return {}
    return {"causal_alignment": answers.pop() if len(answers) == 1 else UNDEFINED}


def _aspect_alignments() -> Mapping[str, Callable[[Asker, int, int], Reply]]:
    """By keyword that hides nothing, how an aspect asks from where it counts a query's own place."""
    return {keyword: ask for part in load_parts("words") if hasattr(part, "ALIGNMENTS")
            for keyword, ask in part.ALIGNMENTS.items()}


def _ask_masks_together(asker: Asker) -> Mapping[str, str]:
    """Asked at other lengths than the rest: a subject that keeps its answers by their shape has
    none of this one.
    """
    return _ask_convention("mask_with_causal",
                           partial(ask_mask_with_causal, asker, _JOINT_PATTERN))


def _ask_groups(asker: Asker) -> Mapping[str, str]:
    """A declared limit is believed. A wrong answer is an acceptance: clauses are to find it wrong."""
    limits = asker.subject.declaration.limits
    reply = None if limits.grouped is False else reply_to(partial(ask_heads_read, asker))
    if reply is None:
        return {} if limits.single_head else {"grouped": NO}
    if reply.answer in {RAISES, UNUSABLE}:
        return {"grouped": NO,
                **({"grouped_heads": _convention_answer("grouped_heads", reply)}
                   if reply.is_failure else {})}
    return {"grouped": YES, "grouped_heads": _convention_answer("grouped_heads", reply)}


RANGE_KEYS = 4
"""S of the problems that ask for logits and values."""

MOST_KEYS = 2**13
MOST_KEYS_SQUARE = 2**11
"""Where there are as many queries as keys."""

_LARGEST_WRITTEN_OUT = 1e6


@dataclass(frozen=True, slots=True)
class Most:
    """What was searched for: `noun`, in the plural; the most that stands, 0 if nothing does; and
    the most tried.
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
    """Heads of width 16 where that can be: the root in the scale is 4, and logits are the powers
    of two asked for.
    """

    @property
    def width(self) -> int:
        """D and Dv."""
        limits = self.subject.declaration.limits
        return limits.nearest("D", max(16, limits.min_head_width))

    @property
    def largest_number(self) -> float:
        """The largest number of the dtype."""
        return DTYPES[self.dtype].largest

    def powers(self, most: float) -> list[float]:
        """The powers of two from 1 to `most`, and the largest number of the dtype if it is no
        more.
        """
        numbers = {2.0**power for power in range(int(math.log2(most)) + 1)}
        return sorted(numbers | {each for each in (self.largest_number,) if each <= most})

    def ask_last_row(self, problem: Problem) -> Array:
        """The last row of every head, (B,H,Dv): it sees all keys under a causal flag too."""
        return np.asarray(self.ask_output(problem)[:, :, -1])


def probe_ranges(subject: Subject, dtype: DType) -> tuple[Most, ...]:
    """What the subject stands of logits, values and keys at a half dtype; what cannot be asked is
    left out.
    """
    if not DTYPES[dtype].is_half:
        return ()
    asker = _Exactly(subject, dtype)
    searches = (("logits", _logit_sizes(asker), _stands_logit),
                ("values", asker.powers(asker.largest_number), _stands_value),
                ("keys", [2.0**power for power in range(int(math.log2(_most_keys(asker))) + 1)],
                 _stands_keys))
    found = []
    for noun, sizes, stands in searches:
        try:
            found.append(Most(noun, find_largest(sizes, partial(_answers_size, stands, asker)),
                              sizes[-1]))
        except NotAsked:
            continue
    return tuple(found)


def find_largest(sizes: Sequence[float], stands: Callable[[float], bool]) -> float:
    """The largest of some growing sizes that stands; 0 if the least does not. What lies below one
    that stands does.
    """
    if stands(sizes[-1]):
        return sizes[-1]
    low, high = -1, len(sizes) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if stands(sizes[middle]) else (low, middle)
    return sizes[low] if low >= 0 else 0.0


def describe_most(found: Sequence[Most]) -> str:
    """`logits up to 65,504, values up to 65,504, 2,048 keys`."""
    return ", ".join(map(str, found))


def describe_tried(found: Sequence[Most]) -> str:
    """What was the most of each that was tried: who stands it may stand more."""
    return ("tried up to "
            + ", ".join(f"{each.noun} {format_size(each.most_tried)}" for each in found))


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
    """As far as one product of two entries reaches, in float32."""
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
    seen = asker.ask_last_row(problem)[..., :RANGE_KEYS]
    return _is_near(seen[..., :len(weights)], weights[:RANGE_KEYS])


def _stands_value(asker: _Exactly, value: float) -> bool:
    """All keys weigh the same, and all values are this one."""
    problem = asker.make_even_near(RANGE_KEYS, RANGE_KEYS)
    return _is_near(asker.ask_last_row(problem.but(value=np.full_like(problem.value, value)))
                    / value, np.ones(1))


def _stands_keys(asker: _Exactly, keys: float) -> bool:
    """So many keys weigh the same, and all values are one."""
    S = int(keys)
    problem = asker.make_even_near(S if _needs_square(asker.subject.declaration.limits) else 1, S)
    return _is_near(asker.ask_last_row(problem.but(value=np.ones_like(problem.value))), np.ones(1))


def _most_keys(asker: _Exactly) -> int:
    return MOST_KEYS_SQUARE if _needs_square(asker.subject.declaration.limits) else MOST_KEYS


def _needs_square(limits: Limits) -> bool:
    """Whether a row sees all of many keys only where there are as many queries."""
    return limits.ties_lengths or limits.causal_only


def _is_near(seen: Array, wanted: Array) -> bool:
    """Whether two arrays of any shape that broadcasts are equal as far as rounding in a half dtype
    lets one tell.
    """
    return bool((np.abs(seen - wanted) <= CLOSENESS).all())


def _ask_range(asker: Asker) -> Reply:
    if not DTYPES[asker.dtype].is_half:
        raise NotAsked("it is asked only in float16 and bfloat16")
    asker.ask(asker.make_even(RANGE_KEYS, RANGE_KEYS))  # who answers nothing at all fails here
    found = probe_ranges(asker.subject, asker.dtype)
    return Reply(describe_most(found), describe_tried(found))


RANGE_QUESTIONS = (
    Question("range",
             "How large may logits and values be in a half dtype, and how many keys may a row "
             "have, before it overflows?", {}, _ask_range, when=When.EVERY_DTYPE),
)
