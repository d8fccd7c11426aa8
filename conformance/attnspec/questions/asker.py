"""Puts small problems to a subject. All that it does, exceptions included, is an answer."""

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
"""By form: why rows and keys are not where the questions look, in arrays (B,H,T,D)."""

T = TypeVar("T")
AnyProblem = Problem | LayerProblem
HEAD_WIDTH = 8
"""D and Dv. No problem has more keys, so the values can be the identity."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question: a word of its closed list; `detail` is what was observed.

    claimed: what the manifest says, where only the answer tells what that means. is_failure: a
    user's own function fails at the call, and its exception does not say that it refuses the call.
    """

    answer: str
    detail: str = ""
    claimed: str = ""
    is_failure: bool = False


RAISES, UNUSABLE, OTHER = "raises", "unusable", "other"
FAILURES = {RAISES: "the call raises an exception",
            UNUSABLE: "the call does not return an array of the right shape",
            OTHER: "none of these answers"}
"""The answers that every question can get."""


DEATHS = {Verdict.CRASHED: "dies", Verdict.TIMED_OUT: "hangs"}
"""The answers to a question that ended the process."""


class NotAsked(Exception):  # noqa: N818  (named for what happened; it is no error)
    """The subject lacks the keyword, or one of its limits forbids the problem."""


class Failed(Exception):  # noqa: N818  (named for what happened; it is an answer)
    """The call failed; `reply` says how."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.detail)
        self.reply = reply


def reply_to(ask: Callable[[], Reply]) -> Reply | None:
    """The answer, which may be that the call failed. None: the subject cannot be asked."""
    try:
        return ask()
    except NotAsked:
        return None
    except Failed as failed:
        return failed.reply


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """A subject at one dtype. Makes problems within its limits and reads the answers.

    drops: whether True in its mask hides a key.
    """

    subject: Subject
    dtype: DType
    drops: bool = False

    @property
    def heads(self) -> int:
        """Two query heads, or two groups: some libraries treat a single head differently."""
        limits = self.subject.declaration.limits
        if limits.single_head:
            return 1
        return limits.nearest("H", 2 * self.group_size)

    @property
    def group_size(self) -> int:
        """Query heads per key/value head: 1 if the subject takes that."""
        return self.subject.declaration.limits.nearest("G", 1)

    @property
    def width(self) -> int:
        """The head width, D and Dv."""
        limits = self.subject.declaration.limits
        return limits.nearest("D", max(HEAD_WIDTH, limits.min_head_width))

    def fit_lengths(self, T: int, S: int) -> tuple[int, int]:
        """The nearest T and S that the subject takes; the larger stays the larger."""
        return lengths_near(T, S, self.subject.declaration.limits)

    def fit_batch(self, T: int, S: int) -> int:
        """B: 1, or more where the subject needs a least number of scores."""
        limits = self.subject.declaration.limits
        return limits.nearest("B", -(-limits.min_scores // (self.heads * max(T * S, 1))))

    def make_even(self, T: int, S: int) -> Problem:
        """A problem whose output (its first S columns) is the weights: values are the identity.

        Queries and keys are zero, so all visible keys have the same weight.
        """
        B, H, D, number = self.fit_batch(T, S), self.heads, self.width, numpy_dtype(self.dtype)
        Hkv = self.subject.declaration.limits.nearest("Hkv", max(1, H // self.group_size))
        # tiled: some kernels refuse odd strides
        value = np.tile(np.eye(S, D), (B, Hkv, 1, 1)).astype(number)
        return Problem(self.dtype, np.zeros((B, H, T, D), number),
                       np.zeros((B, Hkv, S, D), number), value)

    def make_even_near(self, T: int, S: int) -> Problem:
        """The problem of `make_even` at the nearest lengths that the subject takes."""
        return self.make_even(*self.fit_lengths(T, S))

    def make_sloped(self, T: int, S: int) -> Problem:
        """The problem of `make_even`, but each key has more weight than the one before."""
        problem = self.make_even(T, S)
        problem.query[..., 0] = np.round(np.sqrt(self.subject.scale_width(problem)))
        problem.key[..., 0] = np.arange(S) / 2
        return problem

    def spread_over_heads(self, array: Array, problem: Problem) -> Array:
        """An array (T,S) repeated to (B,H,T,S), contiguous."""
        return np.tile(array, (*problem.query.shape[:2], 1, 1))

    def fit_rows(self, pattern: Array) -> Array:
        """The pattern (T,S) of visible keys. If all queries share one mask: its first row."""
        if self.has_rows:
            return pattern
        return np.tile(pattern[:1], (len(pattern), 1))

    @property
    def has_rows(self) -> bool:
        """Whether each query can have its own row of the mask."""
        return "T" in self.subject.declaration.limits.mask_axes

    def as_mask(self, visible: Array, problem: Problem) -> Array:
        """A mask (B,H,T,S) from (T,S), negated if True hides a key for this subject."""
        return self.spread_over_heads(visible ^ self.drops, problem)

    def as_bias(self, array: Array, problem: Problem) -> Array:
        """A bias (B,H,T,S) from (T,S), in the subject's dtype."""
        return self.spread_over_heads(array, problem).astype(numpy_dtype(self.dtype))

    def ask(self, problem: AnyProblem | RotaryProblem) -> SubjectAnswer:
        """What the subject answers. Raises NotAsked or Failed."""
        posed = self._add_neutral_values(problem) if isinstance(problem, Problem) else problem
        return self._guard_call(posed, lambda: self.subject.answer(posed))

    def _add_neutral_values(self, problem: Problem) -> Problem:
        """Adds keyword values that change nothing, which entries cannot do without here."""
        declared = self.subject.declaration
        names = {name for word in KEYWORDS.values() if word.acts is Acts.ENTRIES
                  and word.comes_with
                  for name in word.comes_with(declared.limits)} & declared.keywords - problem.keywords
        return problem.but(**{name: keyword_array(name, NEUTRAL_PATTERNS[name], 0, problem.sizes,
                                                  problem.dtype)
                              for name in sorted(names)})

    def ask_gradients(self, problem: Problem, rows: Array) -> Gradients | None:
        """The result of `gradients_of_rows`; rows (T,) bool. Raises NotAsked or Failed."""
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
        """Whether it is a user's own function, without a manifest."""
        return is_bare(self.subject.id)

    def ask_output(self, problem: AnyProblem | RotaryProblem) -> Array:
        """The output in float64: (B,H,T,Dv), of a layer (B,T,M). Raises NotAsked or Failed."""
        return self.ask(problem).output.astype(np.float64)

    def with_mask_polarity(self, *, drops: bool) -> Asker:
        """The same asker, which now knows what True in the mask means."""
        return replace(self, drops=drops)

    def without_limits(self, **limits: Any) -> Asker:  # noqa: ANN401  (limits have types of their own)
        """The same asker with other limits, to test whether the declared ones are true."""
        declaration = self.subject.declaration
        limited = replace(declaration, limits=replace(declaration.limits, **limits))
        return replace(self, subject=replace(self.subject, declaration=limited))


Ask = Callable[[Asker], Reply]
Claim = Callable[[Declaration], str]


class When(enum.Enum):
    """The dtypes at which an audit asks a question. The first is float32, if supported."""

    FIRST_DTYPE = "first dtype"
    EVERY_DTYPE = "every dtype"


def no_claim(declaration: Declaration) -> str:  # noqa: ARG001  (a claim's signature)
    """The manifest does not say."""
    return ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to which implementations have different answers.

    answers: the closed list with meanings, FAILURES aside; empty if the answer is a number or a
    name. ask: raises NotAsked if the subject cannot be asked, Failed if a call failed. claim: what
    is declared.
    """

    name: str
    asks: str
    answers: Mapping[str, str]
    ask: Ask
    claim: Claim = no_claim
    when: When = When.FIRST_DTYPE


def promised_answer(answer: str, profile: str = "core") -> Claim:
    """Whoever claims the profile promises this one answer."""
    return lambda declaration: answer if profile == "core" or profile in declaration.claims else ""


def declared_convention(name: str, form: str = "") -> Claim:
    """The convention that the manifest declares, for one form if it differs by form."""
    def claim(declaration: Declaration) -> str:
        answers = declaration.conventions
        said = answers.get(f"{name}.{form}", answers.get(name, ""))
        return "" if said == UNDEFINED else said

    return claim


def convention_answers(name: str) -> Mapping[str, str]:
    """The answers to a convention's question: those that can be declared, and failures."""
    answers = {answer: says for answer, says in CONVENTIONS[name].answers.items() if answer != UNDEFINED}
    return {**answers, **FAILURES}


CLOSENESS = 2.0**-6
"""Far above the rounding of weights at any dtype, far below the differences of candidates."""

_SHOWN_NUMBERS = 5


def even_weights(visible: Array) -> Array:
    """Weights (T,S): each row spreads them evenly over its visible keys; NaN if it has none."""
    with np.errstate(all="ignore"):
        spread: Array = visible / visible.sum(axis=-1, keepdims=True)
    return spread


def softmax_rows(logits: Array) -> Array:
    """The softmax of logits (…,T,S) along the last axis."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights


def name_candidate(observed: Array, candidates: Mapping[str, Array]) -> Reply:
    """The first candidate that equals what was observed, broadcast; else `other`."""
    name = next((name for name, candidate in candidates.items() if is_close(observed, candidate)),
                OTHER)
    return Reply(name, show_numbers(observed))


def is_close(observed: Array, candidate: Array) -> bool:
    """Whether two arrays of any shape are equal to CLOSENESS, broadcast; NaN equals NaN."""
    return np.allclose(observed, candidate, rtol=0, atol=CLOSENESS, equal_nan=True)


def show_numbers(array: Array) -> str:
    """`[0.5 0.5 0 0; 0 0.5 0.5 0]`: three digits of the first head of (B,H,T,S)."""
    rows = array.reshape(-1, *array.shape[-2:])[0] if array.ndim >= 2 else array[None]
    return "[" + "; ".join(" ".join(f"{entry:.3g}" for entry in row[:_SHOWN_NUMBERS])
                           for row in rows[:_SHOWN_NUMBERS]) + "]"


Gradients = tuple[Array, ...]


def gradients_of_rows(subject: Subject, problem: Problem, rows: Array) -> Gradients | None:
    """The gradients of the sum of some output rows; rows (T,) bool.

    They are with respect to query, key and value as handed over: (B,·,L,·), of a layer (B,L,M).
    None if the subject computes without gradients. Raises SubjectRaised or UnusableAnswer, and
    ValueError if the subject refuses the problem.
    """
    return replace(subject, callee=_Differentiated(subject.callee, rows)).answer(problem).gradients


@dataclass(frozen=True, slots=True)
class _Differentiated:
    """A callee that computes gradients with every answer. rows: of the output, (T,) bool."""

    callee: Callee
    rows: Array

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """The answer, with the gradients of the rows (T,)."""
        return self.callee.perform(call, self.rows if rows is None else rows)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)


def keyword_question(name: str, answers: Mapping[str, str], ask: Ask, claim: Claim) -> Question:
    """A question about a keyword; the keyword's definition has its text."""
    return Question(name,
                    next(word.questions[name] for word in KEYWORDS.values()
                         if name in word.questions), answers, ask, claim)
