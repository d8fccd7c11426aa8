"""Questions about what servers ask for: lengths of batch entries, log-sum-exps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.keywords import KEYWORDS
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Asker,
    Claim,
    NotAsked,
    Question,
    Reply,
    convention,
    even,
    is_close,
    promised,
    shown,
)
from attnspec.questions.masks import ROW, hidden_row, without_row

ALL = 4
"""T and S of the problems that are asked."""


def _lengths(problem: Problem) -> Array:
    """(B,) int32: 2, 3, 2, 3 …, so that neighbours differ."""
    return (2 + np.arange(problem.sizes.B, dtype=np.int32) % 2).astype(np.int32)


def _two_entries(asker: Asker) -> Problem:
    """At least two batch entries whose weights are even, of four queries and four keys."""
    problem = asker.even(ALL, ALL)
    if problem.sizes.B > 1:
        return problem
    return problem.but(**{name: np.concatenate([getattr(problem, name)] * 2) for name in ("query", "key", "value")})


def _length_form(asker: Asker) -> Reply:
    problem = _two_entries(asker)
    lengths = _lengths(problem)
    seen = asker.output(problem.but(key_lengths=lengths))[..., :ALL]
    return _name_length(seen, {"as_asked": lengths, "one_more": lengths + 1, "one_less": lengths - 1,
                               "neighbours": np.roll(lengths, 1), "of_first": np.full_like(lengths, lengths[0]),
                               "ignored": np.full_like(lengths, ALL)})


def _name_length(seen: Array, candidates: Mapping[str, Array]) -> Reply:
    """The first of the lengths (B,) that the weights (B,H,T,S) are spread evenly over."""
    fits = (name for name, lengths in candidates.items()
            if is_close(seen, even(np.arange(ALL) < lengths[:, None, None, None])))
    return Reply(next(fits, OTHER), shown(seen))


def _causal(asker: Asker) -> Reply:
    """Of more keys than queries, some of which lie beyond the length; no length is the number of queries."""
    problem = asker.even(2, ALL)
    seen = asker.output(problem.but(causal=True, key_lengths=np.full(problem.sizes.B, 3, np.int32)))[..., :ALL]
    within = np.arange(ALL) < np.full((2, ALL), 3)
    diagonals = {"top_left": np.tri(2, ALL, 0, dtype=bool), "from_lengths": np.tri(2, ALL, 1, dtype=bool),
                 "from_shape": np.tri(2, ALL, 2, dtype=bool), "everything": np.ones((2, ALL), bool)}
    fits = (name for name, visible in diagonals.items() if is_close(seen, even(visible & within)))
    return Reply(next(fits, OTHER), shown(seen))


def beyond_length(asker: Asker) -> Reply:
    """Zeros, or anything else."""
    problem = asker.even_near(ALL, ALL)
    seen = asker.output(problem.but(query_lengths=np.full(problem.sizes.B, 2, np.int32)))[:, :, 2:]
    return Reply("zeros" if (seen == 0).all() else "unspecified", shown(seen))


def _diagonal(answers: Mapping[str, str]) -> Claim:
    """What a declared alignment means for lengths."""
    said = convention("causal_alignment")
    return lambda declaration: answers.get(said(declaration), "")


def _asks(name: str) -> str:
    """What is asked stands in the keyword's definition."""
    return next(word.questions[name] for word in KEYWORDS.values() if name in word.questions)


LENGTH_QUESTIONS = (
    Question("key_lengths.form", _asks("key_lengths.form"), {
        "as_asked": "the first ones, as many as its entry has", "one_more": "one more", "one_less": "one less",
        "neighbours": "as many as the entry beside its own has", "of_first": "as many as the first entry has",
        "ignored": "all", **FAILURES}, _length_form, promised("as_asked", "key_lengths")),
    Question("key_lengths.causal", _asks("key_lengths.causal"), {
        "top_left": "query i sees keys 0 … i", "from_lengths": "query i sees keys 0 … i + key length - query length",
        "from_shape": "query i sees keys 0 … i + S - T, whatever the lengths", "everything": "the flag is ignored",
        **FAILURES}, _causal, _diagonal({"top_left": "top_left", "bottom_right": "from_lengths"})),
    Question("hidden_row.key_lengths", _asks("hidden_row.key_lengths"), {
        "zeros": "zeros", "uniform": "the mean of all values", "nan": "NaN", **FAILURES},
        lambda asker: hidden_row(asker, "key_lengths", asker.even(ALL, ALL)), convention("hidden_row", "key_lengths")),
    Question("query_lengths.beyond", _asks("query_lengths.beyond"), {
        **{name: CONVENTIONS["beyond_length"].answers[name] for name in ("zeros", "unspecified")}, **FAILURES},
        beyond_length, convention("beyond_length")),
)




def _lse(asker: Asker, problem: Problem) -> Array:
    """(B,H,T), in float64."""
    answer = asker.put(problem.but(return_lse=True))
    assert answer.lse is not None  # it was asked for
    return answer.lse.astype(np.float64)


def lse_base(asker: Asker) -> Reply:
    """The logarithm of the number of keys tells the base."""
    problem = asker.even_near(ALL, ALL)
    seen, S = _lse(asker, problem), problem.sizes.S
    known = {"natural": np.log(S), "two": np.log2(S)}
    name = next((name for name, number in known.items() if is_close(seen, np.full_like(seen, number))), OTHER)
    return Reply(name, f"{seen.flat[0]:.6g}")


def lse_of_hidden_row(asker: Asker) -> Reply:
    """Of a row that is hidden in the first way that the subject takes."""
    taken = asker.subject.declaration.keywords
    form = next((name for name in ("mask", "bias", "key_lengths") if name in taken), "")
    if not form:
        raise NotAsked("nothing hides all keys of a row")
    problem = asker.even_near(ALL, ALL)
    seen = _lse(asker, without_row(asker, problem, form))[:, :, min(ROW, problem.sizes.T - 1)]
    known = {"minus_infinity": -np.inf, "plus_infinity": np.inf, "zero": 0.0}
    name = next((name for name, number in known.items() if (seen == number).all()), "unspecified")
    return Reply(name, f"{seen.flat[0]:.6g}")


def _answers(name: str) -> dict[str, str]:
    return {**{answer: says for answer, says in CONVENTIONS[name].answers.items() if answer != UNDEFINED}, **FAILURES}


LSE_QUESTIONS = (
    Question("lse.form", _asks("lse.form"), _answers("lse_base"), lse_base,
             convention("lse_base")),
    Question("lse.hidden_row", _asks("lse.hidden_row"), _answers("lse_of_hidden_row"),
             lse_of_hidden_row, convention("lse_of_hidden_row")),
)

SERVING_QUESTIONS = (*LENGTH_QUESTIONS, *LSE_QUESTIONS)
