"""What a probe asks about lengths: which keys a query sees, and what rows hold that lie beyond them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.core.conventions import CONVENTIONS
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Asker,
    Claim,
    Reply,
    convention,
    even,
    is_close,
    keyword_question,
    promised,
    shown,
)
from attnspec.questions.masks import hidden_row

_KEYS = 4
"""T and S of the problems that are asked."""


def _lengths(problem: Problem) -> Array:
    """(B,) int32: 2, 3, 2, 3 …, so that neighbours differ."""
    return (2 + np.arange(problem.sizes.B, dtype=np.int32) % 2).astype(np.int32)


def _two_entries(asker: Asker) -> Problem:
    """At least two batch entries whose weights are even, of four queries and four keys."""
    problem = asker.even(_KEYS, _KEYS)
    if problem.sizes.B > 1:
        return problem
    return problem.but(**{name: np.concatenate([getattr(problem, name)] * 2) for name in ("query", "key", "value")})


def _length_form(asker: Asker) -> Reply:
    problem = _two_entries(asker)
    lengths = _lengths(problem)
    seen = asker.output(problem.but(key_lengths=lengths))[..., :_KEYS]
    return _name_length(seen, {"as_asked": lengths, "one_more": lengths + 1, "one_less": lengths - 1,
                               "neighbours": np.roll(lengths, 1), "of_first": np.full_like(lengths, lengths[0]),
                               "ignored": np.full_like(lengths, _KEYS)})


def _name_length(seen: Array, candidates: Mapping[str, Array]) -> Reply:
    """The first of the lengths (B,) that the weights (B,H,T,S) are spread evenly over."""
    fits = (name for name, lengths in candidates.items()
            if is_close(seen, even(np.arange(_KEYS) < lengths[:, None, None, None])))
    return Reply(next(fits, OTHER), shown(seen))


def _causal(asker: Asker) -> Reply:
    """Of more keys than queries, some of which lie beyond the length; no length is the number of queries."""
    problem = asker.even(2, _KEYS)
    seen = asker.output(problem.but(causal=True, key_lengths=np.full(problem.sizes.B, 3, np.int32)))[..., :_KEYS]
    within = np.arange(_KEYS) < np.full((2, _KEYS), 3)
    diagonals = {"top_left": np.tri(2, _KEYS, 0, dtype=bool), "from_lengths": np.tri(2, _KEYS, 1, dtype=bool),
                 "from_shape": np.tri(2, _KEYS, 2, dtype=bool), "everything": np.ones((2, _KEYS), bool)}
    fits = (name for name, visible in diagonals.items() if is_close(seen, even(visible & within)))
    return Reply(next(fits, OTHER), shown(seen))


def beyond_length(asker: Asker) -> Reply:
    """Zeros, or anything else."""
    problem = asker.even_near(_KEYS, _KEYS)
    seen = asker.output(problem.but(query_lengths=np.full(problem.sizes.B, 2, np.int32)))[:, :, 2:]
    return Reply("zeros" if (seen == 0).all() else "unspecified", shown(seen))


def _diagonal(answers: Mapping[str, str]) -> Claim:
    """What a declared alignment means for lengths."""
    said = convention("causal_alignment")
    return lambda declaration: answers.get(said(declaration), "")


QUESTIONS = (
    keyword_question("key_lengths.form", {
        "as_asked": "the first ones, as many as its entry has", "one_more": "one more", "one_less": "one less",
        "neighbours": "as many as the entry beside its own has", "of_first": "as many as the first entry has",
        "ignored": "all", **FAILURES}, _length_form, promised("as_asked", "key_lengths")),
    keyword_question("key_lengths.causal", {
        "top_left": "query i sees keys 0 … i", "from_lengths": "query i sees keys 0 … i + key length - query length",
        "from_shape": "query i sees keys 0 … i + S - T, whatever the lengths", "everything": "the flag is ignored",
        **FAILURES}, _causal, _diagonal({"top_left": "top_left", "bottom_right": "from_lengths"})),
    keyword_question("hidden_row.key_lengths", {
        "zeros": "zeros", "uniform": "the mean of all values", "nan": "NaN", **FAILURES},
        lambda asker: hidden_row(asker, "key_lengths", asker.even(_KEYS, _KEYS)),
        convention("hidden_row", "key_lengths")),
    keyword_question("query_lengths.beyond", {
        **{name: CONVENTIONS["beyond_length"].answers[name] for name in ("zeros", "unspecified")}, **FAILURES},
        beyond_length, convention("beyond_length")),
)

CONVENTIONS_ASKED: Mapping[str, Callable[[Asker], Reply]] = {"beyond_length": beyond_length}
"""By convention, what finds out what a subject does."""
