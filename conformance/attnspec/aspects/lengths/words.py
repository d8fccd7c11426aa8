"""The words of the spec language that are about lengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.numerics.precision import unit
from attnspec.problems.keyword_arrays import cut_scales, keyword_array
from attnspec.problems.problem import Array, Problem
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention
from attnspec.vocabulary.transforms.contents import LARGE, hide_by_mask, poisoned

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
    parts = tuple(_cut(problem, entry, int(length)) for entry, length in enumerate(problem.key_lengths))
    return replace(posed, parts=parts, join="B")


def _cut(problem: Problem, entry: int, length: int) -> Problem:
    """One batch entry with so many keys, handed over without their number."""
    def kept(array: Array | None) -> Array | None:
        """One entry of (B,H,S,D) or (B,H,T,S), cut along S."""
        return None if array is None else np.ascontiguousarray(array[entry : entry + 1])

    own = None if problem.query_lengths is None else problem.query_lengths[entry : entry + 1]
    scales = {name: np.ascontiguousarray(array[entry : entry + 1])
              for name, array in cut_scales(problem, keys=slice(length)).items()}
    mask, bias = (None if array is None else np.ascontiguousarray(array[entry : entry + 1, ..., :length])
                  for array in (problem.mask, problem.bias))
    return problem.but(
        **scales, query=kept(problem.query), key=kept(problem.key[:, :, :length]),
        value=kept(problem.value[:, :, :length]), mask=mask, bias=bias, key_lengths=None, query_lengths=own)


def replace_beyond(posed: Attention, *, arrays: tuple[SlotsOf, ...],
                   content: Literal["large", "nan", "inf"]) -> Attention:
    """Put other content into the keys, values and queries that lie beyond the lengths of their batch entry.

    `large` is 256 with alternating signs; no claim where a dot product with it would leave the dtype's range.
    """
    problem = posed.one
    beyond = {name: _places_beyond(problem, name) for name in arrays if getattr(problem, name) is not None}
    if not any(places.any() for places in beyond.values()):
        raise NoClaim("nothing lies beyond a length")
    entries = np.abs(problem.query.astype(np.float64)).sum(axis=-1).max() * LARGE
    if content == "large" and entries > unit(problem.dtype).largest:
        raise NoClaim("a dot product with the new keys would overflow")
    return posed.but(**{name: poisoned(getattr(problem, name), places, content) for name, places in beyond.items()})


def _places_beyond(problem: Problem, array: SlotsOf) -> Array:
    """(B,1,S), (B,1,P) of the past, or (B,1,T) of the query: the places beyond the length of each batch entry; none
    where none is given.
    """
    lengths = problem.query_lengths if array == "query" else problem.key_lengths
    places = np.arange(getattr(problem, array).shape[2]) + (problem.past if array in {"key", "value"} else 0)
    if lengths is None:
        return np.zeros((problem.sizes.B, 1, len(places)), bool)
    return np.asarray(places >= lengths[:, None, None])


TRANSFORMS = (lengths_as_mask, with_lengths, cut_to_lengths, replace_beyond)
