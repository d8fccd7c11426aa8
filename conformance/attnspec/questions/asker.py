"""Puts small problems to a subject. Whatever the subject does to them, its exceptions included,
becomes an answer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.declaration import Declaration
from attnspec.core.forms import InputForm
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Verdict, is_bare
from attnspec.problems.demand import lengths_near
from attnspec.problems.keyword_arrays import NEUTRAL_PATTERNS, keyword_array
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array, LayerProblem, Problem, numpy_dtype
from attnspec.subjects.call import Call
from attnspec.subjects.callee import Callee
from attnspec.subjects.exceptions import refusal_words
from attnspec.subjects.subject import Subject, SubjectAnswer, SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.subjects.watching import Asking, asking_for

_LAYOUT_REASONS: Mapping[InputForm, str] = {
    InputForm.PACKED: "its sequences stand one behind the other", InputForm.PAGED: "its keys and values stand in pages"}
"""By form, why rows and keys are not where the questions look for them in arrays (B,H,T,D)."""

T = TypeVar("T")
AnyProblem = Problem | LayerProblem
HEAD_WIDTH = 8
"""D and Dv: as many as there are keys at the most, so that values can be the identity."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question: a word of its closed list, and in `detail` what was seen.

    claimed: what the manifest says, where that can be told only together with the answer.
    is_failure: that a function of a user's own fails at the call, and does not say that it refuses
    it.
    """

    answer: str
    detail: str = ""
    claimed: str = ""
    is_failure: bool = False


RAISES, UNUSABLE, OTHER = "raises", "unusable", "other"
FAILURES = {RAISES: "the call raises an exception",
            UNUSABLE: "the call does not return an array of the right shape",
            OTHER: "none of these answers"}
"""Answers that every question may get."""


DEATHS = {Verdict.CRASHED: "dies", Verdict.TIMED_OUT: "hangs"}
"""Answers to a question at which the process ended."""


class NotAsked(Exception):  # noqa: N818  (named for what happened; it is no error)
    """The question cannot be put to the subject: it lacks a keyword, or a limit forbids the
    problem.
    """


class Failed(Exception):  # noqa: N818  (named for what happened; it is an answer)
    """The call failed, and `reply` says how."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.detail)
        self.reply = reply


def reply_to(ask: Callable[[], Reply]) -> Reply | None:
    """The answer to a question, a call that fails included; None where it cannot be put to the
    subject.
    """
    try:
        return ask()
    except NotAsked:
        return None
    except Failed as failed:
        return failed.reply


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """A subject at one dtype, and the problems that fit what it can take. `drops`: True in its
    mask hides a key.
    """

    subject: Subject
    dtype: DType
    drops: bool = False

    @property
    def heads(self) -> int:
        """Two query heads, or two groups of them, where it can have so many: some libraries treat
        one otherwise.
        """
        limits = self.subject.declaration.limits
        return 1 if limits.single_head else limits.nearest("H", 2 * self.group_size)

    @property
    def group_size(self) -> int:
        """Query heads for each key/value head: 1 where it takes that."""
        return self.subject.declaration.limits.nearest("G", 1)

    @property
    def width(self) -> int:
        """D and Dv."""
        limits = self.subject.declaration.limits
        return limits.nearest("D", max(HEAD_WIDTH, limits.min_head_width))

    def fit_lengths(self, T: int, S: int) -> tuple[int, int]:
        """The nearest numbers of queries and keys that the subject takes, of which the same is the
        larger.
        """
        return lengths_near(T, S, self.subject.declaration.limits)

    def fit_batch(self, T: int, S: int) -> int:
        """B: 1, or as many as the least number of scores asks for, and as are taken."""
        limits = self.subject.declaration.limits
        return limits.nearest("B", -(-limits.min_scores // (self.heads * max(T * S, 1))))

    def make_even(self, T: int, S: int) -> Problem:
        """Queries and keys are zero, so all visible keys weigh the same; values are the identity:
        the output (its first S columns) is the weights.
        """
        B, H, D, number = self.fit_batch(T, S), self.heads, self.width, numpy_dtype(self.dtype)
        Hkv = self.subject.declaration.limits.nearest("Hkv", max(1, H // self.group_size))
        # tiled: some kernels refuse odd strides
        value = np.tile(np.eye(S, D), (B, Hkv, 1, 1)).astype(number)
        return Problem(self.dtype, np.zeros((B, H, T, D), number),
                       np.zeros((B, Hkv, S, D), number), value)

    def make_even_near(self, T: int, S: int) -> Problem:
        """As `even`, of the nearest lengths that the subject takes."""
        return self.make_even(*self.fit_lengths(T, S))

    def make_sloped(self, T: int, S: int) -> Problem:
        """As `even`, but each key weighs more than the one before it."""
        problem = self.make_even(T, S)
        problem.query[..., 0] = np.round(np.sqrt(self.subject.scale_width(problem)))
        problem.key[..., 0] = np.arange(S) / 2
        return problem

    def spread_over_heads(self, array: Array, problem: Problem) -> Array:
        """(T,S) at full shape (B,H,T,S), contiguous."""
        return np.tile(array, (*problem.query.shape[:2], 1, 1))

    def fit_rows(self, pattern: Array) -> Array:
        """A pattern (T,S) of what is visible; of a subject whose queries share one mask, its first
        row for all.
        """
        return pattern if self.has_rows else np.tile(pattern[:1], (len(pattern), 1))

    @property
    def has_rows(self) -> bool:
        """Whether each query may have a mask of its own."""
        return "T" in self.subject.declaration.limits.mask_axes

    def as_mask(self, visible: Array, problem: Problem) -> Array:
        """(T,S) at full shape, the way round that the subject takes it."""
        return self.spread_over_heads(visible ^ self.drops, problem)

    def as_bias(self, array: Array, problem: Problem) -> Array:
        """(T,S) at full shape in the dtype."""
        return self.spread_over_heads(array, problem).astype(numpy_dtype(self.dtype))

    def ask(self, problem: AnyProblem | RotaryProblem) -> SubjectAnswer:
        """What the subject makes of it. Raises NotAsked or Failed."""
        posed = self._add_neutral_values(problem) if isinstance(problem, Problem) else problem
        return self._guard_call(posed, lambda: self.subject.answer(posed))

    def _add_neutral_values(self, problem: Problem) -> Problem:
        """The problem with values that change nothing of what the subject takes no entries
        without.
        """
        declared = self.subject.declaration
        wanted = {name for word in KEYWORDS.values() if word.acts is Acts.ENTRIES
                  and word.comes_with
                  for name in word.comes_with(declared.limits)} & declared.keywords - problem.keywords
        return problem.but(**{name: keyword_array(name, NEUTRAL_PATTERNS[name], 0, problem.sizes,
                                                  problem.dtype)
                              for name in sorted(wanted)})

    def ask_gradients(self, problem: Problem, rows: Array) -> Gradients | None:
        """What `gradients_of_rows` finds for this subject: (B,H,T,D) of the query; rows (T,) bool.
        Raises NotAsked, of a framework without gradients too, or Failed.
        """
        if not self.subject.declaration.lift:
            raise NotAsked("it takes NumPy arrays, which have no gradients")
        if self.subject.declaration.form in _LAYOUT_REASONS:
            raise NotAsked(f"{_LAYOUT_REASONS[self.subject.declaration.form]}; "
                           "clauses ask for their gradients")
        return self._guard_call(problem, lambda: gradients_of_rows(self.subject, problem, rows))

    def _guard_call(self, problem: AnyProblem | RotaryProblem, call: Callable[[], T]) -> T:
        if reason := self.subject.refuses(problem):
            raise NotAsked(reason)
        try:
            self.subject.callee.begin_item()  # each question has a whole deadline
            with asking_for(self.subject, Asking.CONVENTIONS), np.errstate(all="ignore"):
                return call()
        except SubjectDied as died:
            raise Failed(Reply(DEATHS[died.verdict], str(died), is_failure=self._is_own)) from None
        except SubjectRaised as raised:
            is_refusal = bool(refusal_words(raised, problem, home=self.subject.home))
            raise Failed(Reply(RAISES, raised.summary,
                               is_failure=self._is_own and not is_refusal)) from None
        except UnusableAnswer as unusable:
            raise Failed(Reply(UNUSABLE, unusable.sentence, is_failure=self._is_own)) from None

    @property
    def _is_own(self) -> bool:
        """Whether it is a function of a user's own, which no manifest describes."""
        return is_bare(self.subject.id)

    def ask_output(self, problem: AnyProblem | RotaryProblem) -> Array:
        """The output (B,H,T,Dv), of a layer's own problem (B,T,M), in float64. Raises NotAsked or
        Failed.
        """
        return self.ask(problem).output.astype(np.float64)

    def with_mask_polarity(self, *, drops: bool) -> Asker:
        """The same, knowing which way round its mask is."""
        return replace(self, drops=drops)

    def without_limits(self, **limits: Any) -> Asker:  # noqa: ANN401  (limits have types of their own)
        """The same with other limits: they are declared, and it is asked whether that is so."""
        declaration = self.subject.declaration
        limited = replace(declaration, limits=replace(declaration.limits, **limits))
        return replace(self, subject=replace(self.subject, declaration=limited))


Ask = Callable[[Asker], Reply]
Claim = Callable[[Declaration], str]


class When(enum.Enum):
    """At which dtypes a question is asked in an audit. The first is float32, where it is
    supported.
    """

    FIRST_DTYPE = "first dtype"
    EVERY_DTYPE = "every dtype"


def no_claim(declaration: Declaration) -> str:  # noqa: ARG001  (a claim's signature)
    """A manifest says nothing of it."""
    return ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question on which implementations differ.

    answers: the closed list, each with its meaning (those of FAILURES besides); empty where the
    answer is a number or a name.  ask: the answer; it raises NotAsked where the question cannot be
    put to the subject, Failed where a call failed.  claim: what is declared.
    """

    name: str
    asks: str
    answers: Mapping[str, str]
    ask: Ask
    claim: Claim = no_claim
    when: When = When.FIRST_DTYPE


def promised_answer(answer: str, profile: str = "core") -> Claim:
    """The one answer that the contract allows whoever claims the profile."""
    return lambda declaration: answer if profile == "core" or profile in declaration.claims else ""


def declared_convention(name: str, form: str = "") -> Claim:
    """What the manifest says of a convention, of one of its forms if it tells them apart."""
    def claim(declaration: Declaration) -> str:
        answers = declaration.conventions
        said = answers.get(f"{name}.{form}", answers.get(name, ""))
        return "" if said == UNDEFINED else said

    return claim


def convention_answers(name: str) -> Mapping[str, str]:
    """The answers to a convention's question: what may be declared, and failures."""
    answers = {answer: says for answer, says in CONVENTIONS[name].answers.items() if answer != UNDEFINED}
    return {**answers, **FAILURES}


CLOSENESS = 2.0**-6
"""Far above the rounding of weights in any dtype, far below the differences between the
candidates.
"""

_SHOWN_NUMBERS = 5


def even_weights(visible: Array) -> Array:
    """The weights (T,S) of rows spread evenly over what they see (T,S); a row that sees nothing is
    NaN.
    """
    with np.errstate(all="ignore"):
        spread: Array = visible / visible.sum(axis=-1, keepdims=True)
    return spread


def softmax_rows(logits: Array) -> Array:
    """(…,T,S): rows of weights, of logits along the last axis."""
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: Array = grown / grown.sum(axis=-1, keepdims=True)
    return weights


def name_candidate(seen: Array, candidates: Mapping[str, Array]) -> Reply:
    """The name of the first candidate that is seen, any shape that broadcasts to it; `other` where
    none fits.
    """
    name = next((name for name, candidate in candidates.items() if is_close(seen, candidate)),
                OTHER)
    return Reply(name, show_numbers(seen))


def is_close(seen: Array, candidate: Array) -> bool:
    """Whether two arrays, any shape that broadcasts, are equal as far as CLOSE tells; NaN equals
    NaN.
    """
    return np.allclose(seen, candidate, rtol=0, atol=CLOSENESS, equal_nan=True)


def show_numbers(seen: Array) -> str:
    """`[0.5 0.5 0 0; 0 0.5 0.5 0]`: the first head's numbers, of (B,H,T,S) or any shape, to three
    digits.
    """
    rows = seen.reshape(-1, *seen.shape[-2:])[0] if seen.ndim >= 2 else seen[None]
    return "[" + "; ".join(" ".join(f"{entry:.3g}" for entry in row[:_SHOWN_NUMBERS])
                           for row in rows[:_SHOWN_NUMBERS]) + "]"


Gradients = tuple[Array, ...]


def gradients_of_rows(subject: Subject, problem: Problem, rows: Array) -> Gradients | None:
    """The gradient of the sum of some rows of the output with respect to query, key and value, as
    they are handed over: (B,·,L,·), of a layer (B,L,M).  rows: (T,) bool. None where the output has
    none: the subject computes without.

    Raises SubjectRaised, UnusableAnswer; ValueError where the subject refuses the problem.
    """
    return replace(subject, callee=_Differentiated(subject.callee, rows)).answer(problem).gradients


@dataclass(frozen=True, slots=True)
class _Differentiated:
    """A callee that is asked for gradients with every answer.  rows: of the output, (T,) bool."""

    callee: Callee
    rows: Array

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """The answer with gradients; rows (T,)."""
        return self.callee.perform(call, self.rows if rows is None else rows)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)


def keyword_question(name: str, answers: Mapping[str, str], ask: Ask, claim: Claim) -> Question:
    """A question about a keyword: what is asked stands in the keyword's definition."""
    return Question(name,
                    next(word.questions[name] for word in KEYWORDS.values()
                         if name in word.questions), answers, ask, claim)
