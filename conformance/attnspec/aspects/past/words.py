"""Spec words and questions about a past: keys and values of earlier calls, and chunks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from attnspec.core.keyword import Acts
from attnspec.core.keywords import COUNTS, FROM_PLACE, PLACED, acting_on
from attnspec.numerics.operands import visible_keys
from attnspec.problems.keyword_arrays import cut_meanings, split_past
from attnspec.problems.problem import Array, Problem, join_past
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Reply,
    keyword_question,
    promised_answer,
    show_numbers,
)
from attnspec.questions.inputs import name_band
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.signature import DrawnRow
from attnspec.vocabulary.transforms.axes import Attention

MOST_STEPS = 16
"""Of so many tokens at most, each has a call of its own."""


def past_as_keys(posed: Attention) -> Attention:
    """Hand past keys and values over as the first of all. Causal flag and window, which count from
    a query's own place, become a mask, joined with all else that hides keys, but a bias.
    """
    problem = posed.one
    if not problem.has_past:
        raise NoClaim("there is no past")
    if FROM_PLACE - PLACED.keys() & problem.keywords:
        raise NoClaim("what counts from a query's own place would count from another")
    whole = join_past(problem)
    if not PLACED.keys() & problem.keywords:
        return replace(posed, parts=(whole,))
    mask = visible_keys(problem.but(bias=None), posed.conventions)
    return replace(posed, parts=(whole.but(**{**acting_on(Acts.VISIBILITY), "mask": mask}),))


def with_past(posed: Attention, *, to: Literal["nothing"]) -> Attention:  # noqa: ARG001  (so that clauses read)
    """Hand over past keys and values of length 0."""
    return replace(posed, parts=(split_past(posed.one, 0),))


def in_chunks(posed: Attention, *, cut: DrawnRow) -> Attention:
    """Make two calls: one of the queries and keys up to position `cut`, and one of the rest, whose
    past are the keys of the first. Only where queries and new keys are one sequence.
    """
    return _call_by_spans(posed, (0, cut + 1, posed.one.sizes.T))


def token_by_token(posed: Attention, *, cut: DrawnRow) -> Attention:
    """Make a call up to position `cut`, and one for each later token, 16 at most, with all keys
    before it as its past. Only where queries and new keys are one sequence.
    """
    T = posed.one.sizes.T
    return _call_by_spans(posed, (0, *range(max(cut + 1, T - MOST_STEPS), T), T))


def _call_by_spans(posed: Attention, places: Iterable[int]) -> Attention:
    """One call for each span between neighbouring places."""
    problem, spans = posed.one, [span for span in pairwise(places) if span[0] < span[1]]
    if problem.sizes.T + problem.past != problem.sizes.S:
        raise NoClaim("queries and new keys are not one sequence")
    if counting := next((name for name in problem.given if name in COUNTS), ""):
        raise NoClaim(f"{counting} counts what would be cut")
    if len(spans) == 1:
        raise NoClaim("there is one chunk only")
    return replace(posed, parts=tuple(_chunk(problem, *span) for span in spans), join="T")


def _chunk(problem: Problem, first: int, end: int) -> Problem:
    """The queries from `first` to `end`, with the keys up to theirs; those before are past."""
    whole, past, keys = join_past(problem), problem.past + first, slice(problem.past + end)

    def cut(array: Array | None) -> Array | None:
        """The rows and columns of the chunk, of a mask or bias (B,H,T,S)."""
        return None if array is None else np.ascontiguousarray(array[..., first:end, keys])

    part = whole.but(
        **cut_meanings(whole, queries=slice(first, end), keys=keys),
        query=np.ascontiguousarray(whole.query[:, :, first:end]), key=np.ascontiguousarray(whole.key[:, :, keys]),
        value=np.ascontiguousarray(whole.value[:, :, keys]), mask=cut(whole.mask), bias=cut(whole.bias))
    return split_past(part, past) if past or problem.has_past else part


TRANSFORMS = (past_as_keys, with_past, in_chunks, token_by_token)


_KEYS, _PAST = 4, 2
"""T and S of the problems that are asked, and how many of the keys are past."""


def _form(asker: Asker) -> Reply:
    """Asks which keys are seen, past or new; they weigh the same."""
    queries = _KEYS - _PAST if asker.subject.declaration.limits.is_step else _KEYS
    seen = asker.ask_output(split_past(asker.make_even(queries, _KEYS), _PAST))[..., :_KEYS]
    is_past = np.arange(_KEYS) < _PAST
    bands = {"all": is_past | True, "new_only": ~is_past, "past_only": is_past}
    name = name_band(seen, {name: np.tile(visible, (queries, 1)) for name, visible in bands.items()})
    return Reply(name, show_numbers(seen))


def _causal(asker: Asker) -> Reply:
    """Asks where queries stand, of more new keys than queries: no two answers agree."""
    past = 2
    T, S = (2, 4) if asker.subject.declaration.limits.is_step else (2, 7)
    seen = asker.ask_output(split_past(asker.make_even(T, S), past).but(causal=True))[..., :S]
    shifts = {"behind": past, "top_left": 0, "from_shape": S - T, "twice": 2 * past}
    bands = {name: np.tri(T, S, shift, dtype=bool) for name, shift in shifts.items()}
    return Reply(name_band(seen, {**bands, "everything": np.ones((T, S), bool)}), show_numbers(seen))


QUESTIONS = (
    keyword_question("past.form", {
        "all": "past and new ones", "new_only": "new ones only: the past is ignored", "past_only": "past ones only",
        **FAILURES}, _form, promised_answer("all", "past")),
    keyword_question("past.causal", {
        "behind": "query i stands at place P + i", "top_left": "at place i: the past is not counted",
        "from_shape": "at place i + S - T, whatever the past", "twice": "at place 2P + i",
        "everything": "the flag is ignored", **FAILURES}, _causal, promised_answer("behind", "past")),
)
