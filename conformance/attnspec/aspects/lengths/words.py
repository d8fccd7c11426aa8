"""Words of the spec language, and a probe's questions, about the numbers of keys and queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.dtype import DTYPES
from attnspec.problems.keyword_arrays import cut_meanings, keyword_array
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Asker,
    Claim,
    Reply,
    declared_convention,
    even_weights,
    is_close,
    keyword_question,
    promised_answer,
    show_numbers,
)
from attnspec.questions.inputs import ask_hidden_row
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention
from attnspec.vocabulary.transforms.contents import LARGE, hide_by_mask, poison_hidden

SlotsOf = Literal["query", "key", "value", "past_key", "past_value"]
LengthsOf = Literal["key_lengths", "query_lengths"]


def lengths_as_mask(posed: Attention) -> Attention:
    """Hand lengths over as an explicit mask, joined with all else that hides keys, but a bias."""
    return hide_by_mask(posed)


def with_lengths(posed: Attention, *, keyword: LengthsOf, to: Literal["all"]) -> Attention:  # noqa: ARG001  (so that clauses read)
    """Hand over lengths that leave every key, or every query, in every batch entry."""
    return posed.but(**{keyword: keyword_array(keyword, "full", 0, posed.one.sizes)})


def cut_to_lengths(posed: Attention, *, along: Literal["batch"]) -> Attention:  # noqa: ARG001  (as in split)
    """Take the batch apart: one call an entry, its keys and values cut off at its length; the answers joined again."""
    problem = posed.one
    if problem.key_lengths is None or not problem.key_lengths.all():
        raise NoClaim("a batch entry has no key to keep")
    parts = tuple(_cut_entry(problem, entry, int(length)) for entry, length in enumerate(problem.key_lengths))
    return replace(posed, parts=parts, join="B")


def _cut_entry(problem: Problem, entry: int, length: int) -> Problem:
    """The problem of one batch entry with so many keys, without their number."""
    def cut(array: Array | None) -> Array | None:
        """The batch entry of an array of any shape."""
        return None if array is None else np.ascontiguousarray(array[entry:entry + 1])

    def cut_columns(array: Array | None) -> Array | None:
        """The batch entry and its keys of a mask or bias (B,H,T,S)."""
        return None if array is None else np.ascontiguousarray(array[entry:entry + 1, ..., :length])

    own = None if problem.query_lengths is None else problem.query_lengths[entry:entry + 1]
    meanings = {name: cut(array) for name, array in cut_meanings(problem, keys=slice(length)).items()}
    return problem.but(
        **meanings, query=cut(problem.query), key=cut(problem.key[:, :, :length]),
        value=cut(problem.value[:, :, :length]), mask=cut_columns(problem.mask), bias=cut_columns(problem.bias),
        key_lengths=None, query_lengths=own)


def replace_beyond(posed: Attention, *, arrays: tuple[SlotsOf, ...],
                   content: Literal["large", "nan", "inf"]) -> Attention:
    """Put other content into the keys, values and queries that lie beyond the lengths of their
    batch entry.

    `large` is 256 with alternating signs; no claim where a dot product with it would leave the
    dtype's range.
    """
    problem = posed.one
    beyond = {name: _places_beyond(problem, name) for name in arrays if getattr(problem, name) is not None}
    if not any(places.any() for places in beyond.values()):
        raise NoClaim("nothing lies beyond a length")
    entries = np.abs(problem.query.astype(np.float64)).sum(axis=-1).max() * LARGE
    if content == "large" and entries > DTYPES[problem.dtype].largest:
        raise NoClaim("a dot product with the new keys would overflow")
    return posed.but(**{name: poison_hidden(getattr(problem, name), places, content)
                        for name, places in beyond.items()})


def _places_beyond(problem: Problem, array: SlotsOf) -> Array:
    """Places behind each entry's length, of keys, past or queries, (B,1,·); else none."""
    lengths = problem.query_lengths if array == "query" else problem.key_lengths
    past = problem.past if array in {"key", "value"} else 0
    places = np.arange(getattr(problem, array).shape[2]) + past
    if lengths is None:
        return np.zeros((problem.sizes.B, 1, len(places)), bool)
    return np.asarray(places >= lengths[:, None, None])


TRANSFORMS = (lengths_as_mask, with_lengths, cut_to_lengths, replace_beyond)


_KEYS = 4
"""T and S of the problems that are asked."""


def _lengths(problem: Problem) -> Array:
    """The lengths 2, 3, 2, 3 …, (B,) int32, so that neighbours differ."""
    return (2 + np.arange(problem.sizes.B, dtype=np.int32) % 2).astype(np.int32)


def _two_entries(asker: Asker) -> Problem:
    """A problem of at least two batch entries, four queries and four keys that weigh the same."""
    problem = asker.make_even(_KEYS, _KEYS)
    if problem.sizes.B > 1:
        return problem
    return problem.but(**{name: np.concatenate([getattr(problem, name)] * 2) for name in ("query", "key", "value")})


def _length_form(asker: Asker) -> Reply:
    problem = _two_entries(asker)
    lengths = _lengths(problem)
    seen = asker.ask_output(problem.but(key_lengths=lengths))[..., :_KEYS]
    return _name_length(seen, {"as_asked": lengths, "one_more": lengths + 1, "one_less": lengths - 1,
                               "neighbours": np.roll(lengths, 1), "of_first": np.full_like(lengths, lengths[0]),
                               "ignored": np.full_like(lengths, _KEYS)})


def _name_length(seen: Array, candidates: Mapping[str, Array]) -> Reply:
    """The name of the lengths (B,) over which the weights (B,H,T,S) are spread evenly."""
    fits = (name for name, lengths in candidates.items()
            if is_close(seen, even_weights(np.arange(_KEYS) < lengths[:, None, None, None])))
    return Reply(next(fits, OTHER), show_numbers(seen))


def _causal(asker: Asker) -> Reply:
    """Asks along which diagonal the flag lies, of more keys than queries, some behind a length."""
    problem = asker.make_even(2, _KEYS)
    seen = asker.ask_output(problem.but(causal=True, key_lengths=np.full(problem.sizes.B, 3, np.int32)))[..., :_KEYS]
    within = np.arange(_KEYS) < np.full((2, _KEYS), 3)
    diagonals = {"top_left": np.tri(2, _KEYS, 0, dtype=bool), "from_lengths": np.tri(2, _KEYS, 1, dtype=bool),
                 "from_shape": np.tri(2, _KEYS, 2, dtype=bool), "everything": np.ones((2, _KEYS), bool)}
    fits = (name for name, visible in diagonals.items() if is_close(seen, even_weights(visible & within)))
    return Reply(next(fits, OTHER), show_numbers(seen))


def beyond_length(asker: Asker) -> Reply:
    """Asks whether rows behind the number of queries are zeros."""
    problem = asker.make_even_near(_KEYS, _KEYS)
    seen = asker.ask_output(problem.but(query_lengths=np.full(problem.sizes.B, 2, np.int32)))[:, :, 2:]
    return Reply("zeros" if (seen == 0).all() else "unspecified", show_numbers(seen))


def _diagonal(answers: Mapping[str, str]) -> Claim:
    """What a declared alignment means for lengths."""
    said = declared_convention("causal_alignment")
    return lambda declaration: answers.get(said(declaration), "")


QUESTIONS = (
    keyword_question("key_lengths.form", {
        "as_asked": "the first ones, as many as its entry has", "one_more": "one more", "one_less": "one less",
        "neighbours": "as many as the entry beside its own has", "of_first": "as many as the first entry has",
        "ignored": "all", **FAILURES}, _length_form, promised_answer("as_asked", "key_lengths")),
    keyword_question("key_lengths.causal", {
        "top_left": "query i sees keys 0 … i", "from_lengths": "query i sees keys 0 … i + key length - query length",
        "from_shape": "query i sees keys 0 … i + S - T, whatever the lengths", "everything": "the flag is ignored",
        **FAILURES}, _causal, _diagonal({"top_left": "top_left", "bottom_right": "from_lengths"})),
    keyword_question("hidden_row.key_lengths", {
        "zeros": "zeros", "uniform": "the mean of all values", "nan": "NaN", **FAILURES},
        lambda asker: ask_hidden_row(asker, "key_lengths", asker.make_even(_KEYS, _KEYS)),
        declared_convention("hidden_row", "key_lengths")),
    keyword_question("query_lengths.beyond", {
        **{name: CONVENTIONS["beyond_length"].answers[name] for name in ("zeros", "unspecified")}, **FAILURES},
        beyond_length, declared_convention("beyond_length")),
)

CONVENTIONS_ASKED: Mapping[str, Callable[[Asker], Reply]] = {"beyond_length": beyond_length}
"""By convention, what finds out what a subject does."""
