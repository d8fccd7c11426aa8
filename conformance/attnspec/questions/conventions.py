"""What a subject follows where practice is divided: what it is held to, wherever its declaration is silent.

Where none of a convention's answers fits, it is `undefined`, and clauses ask less of the subject. So that a wrong
subject is not excused, the problems are easy: all keys weigh the same, and one head is looked at. A subject that gives
an answer there is held to it on all problems. A function of a user's own that fails there, and does not say that it
refuses the call, is held to what is recommended: an exception by accident is no convention, and the clauses meet it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.keywords import FROM_PLACE, PLACED, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.numerics.rotary import PAIRS
from attnspec.problems.problem import Array
from attnspec.problems.rotary import RotaryProblem
from attnspec.questions.asker import RAISES, UNUSABLE, AnyProblem, Asker, Reply, reply_to
from attnspec.questions.masks import alignment, hidden_row, mask_with_causal
from attnspec.questions.shapes import NO, YES, heads_read
from attnspec.subjects.subject import Subject
from attnspec.subjects.watching import surviving_errors

_PATTERN = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 1]], bool)


class _FirstHead(Asker):
    """Looks at no other head."""

    def output(self, problem: AnyProblem | RotaryProblem) -> Array:
        """The first head of the output, (1,1,T,Dv)."""
        return super().output(problem)[:1, :1]


def probe_conventions(subject: Subject, dtype: DType) -> Mapping[str, str]:
    """The convention's answer by name, `undefined` where none fits; and `grouped`: whether Hkv < H is accepted.

    Left out is what cannot be asked of this subject: it lacks the keyword, or its limits forbid the problem.
    Hidden rows are probed in each form: `hidden_row.mask`, `hidden_row.bias`, `hidden_row.key_lengths`; `hidden_row` is
    the first of them.
    """
    if subject.declaration.kind is Kind.ROTARY:
        is_said = "interleaved" in subject.declaration.keywords
        return {} if is_said else _ask_convention(PAIRS, partial(_asked_by_aspects()[PAIRS], Asker(subject, dtype)))
    asker = _FirstHead(subject, dtype)
    found = dict[str, str]()
    for ask in (_hidden_rows, _causal_alignment, _mask_with_causal, _of_aspects):
        with surviving_errors(subject):  # what cannot be asked leaves the other questions
            found |= ask(asker)
    with surviving_errors(subject):
        found |= _grouped(Asker(subject, dtype))
    return found


def _of_aspects(asker: Asker) -> Mapping[str, str]:
    """The conventions of single aspects, such as what lies beyond a length, or what a full cache does."""
    asked = _asked_by_aspects()
    return {name: answer for word, ask in asked.items()
            for name, answer in _ask_convention(word, partial(ask, asker)).items()}


def _asked_by_aspects() -> Mapping[str, Callable[[Asker], Reply]]:
    """By convention, how an aspect finds out what a subject does."""
    return {name: ask for part in load_parts("words")
            for name, ask in getattr(part, "CONVENTIONS_ASKED", {}).items()}


def _ask_convention(name: str, ask: Callable[[], Reply]) -> Mapping[str, str]:
    """The answer of the convention, `undefined` if the reply is none of them; nothing where it cannot be asked."""
    reply = reply_to(ask)
    return {} if reply is None else {name: _answer(name.partition(".")[0], reply)}


def _answer(convention: str, reply: Reply) -> str:
    if reply.is_failure:
        return CONVENTIONS[convention].recommended
    return reply.answer if reply.answer in CONVENTIONS[convention].answers else UNDEFINED


def _hidden_rows(asker: Asker) -> Mapping[str, str]:
    """A subject that ignores its mask gives the mean here; held to `uniform`, it fails where keys differ."""
    problem, found = asker.even_near(4, 4), dict[str, str]()
    for form in ("mask", "bias", "key_lengths"):
        found |= _ask_convention(f"hidden_row.{form}", partial(hidden_row, asker, form, problem))
    return {"hidden_row": next(iter(found.values())), **found} if found else {}


def _causal_alignment(asker: Asker) -> Mapping[str, str]:
    """Asked with more keys than queries and with fewer; the two answers must be the same one. A keyword that is taken
    with one query only is asked about with one. Where there is no causal flag, the first other keyword that counts from
    a query's own place serves for it.
    """
    taken = asker.subject.declaration.keywords
    keyword = next((name for name in (*PLACED, *FROM_PLACE) if name in taken), "causal")
    ask = partial(alignment, keyword=keyword) if keyword in PLACED else _alignments()[keyword]

    def answers_at(*lengths: tuple[int, int]) -> set[str]:
        """The answers at these numbers of queries and keys, where it can be asked."""
        return {answer for T, S in lengths
                for answer in _ask_convention("causal_alignment", partial(ask, asker, T, S)).values()}

    answers = answers_at((2, 5), (5, 2)) or answers_at((1, 5))
    return {"causal_alignment": answers.pop() if len(answers) == 1 else UNDEFINED} if answers else {}


def _alignments() -> Mapping[str, Callable[[Asker, int, int], Reply]]:
    """By keyword that hides nothing, how an aspect asks from where it counts a query's own place."""
    return {keyword: ask for part in load_parts("words") if hasattr(part, "ALIGNMENTS")
            for keyword, ask in part.ALIGNMENTS.items()}


def _mask_with_causal(asker: Asker) -> Mapping[str, str]:
    """Asked at other lengths than the rest: a subject that keeps its answers by their shape has none of this one."""
    return _ask_convention("mask_with_causal", partial(mask_with_causal, asker, _PATTERN))


def _grouped(asker: Asker) -> Mapping[str, str]:
    """A declared limit is believed. A wrong answer is an acceptance: clauses are to find it wrong."""
    limits = asker.subject.declaration.limits
    reply = None if limits.grouped is False else reply_to(partial(heads_read, asker))
    if reply is None:
        return {} if limits.single_head else {"grouped": NO}
    if reply.answer in {RAISES, UNUSABLE}:
        return {"grouped": NO, **({"grouped_heads": _answer("grouped_heads", reply)} if reply.is_failure else {})}
    return {"grouped": YES, "grouped_heads": _answer("grouped_heads", reply)}
