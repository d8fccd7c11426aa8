"""A problem for a packed function: its sequences one behind the other, and the answer spread out again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnspec.core.forms import SAID
from attnspec.core.keywords import COUNTS
from attnspec.problems.problem import Array, Problem, Sizes
from attnspec.subjects.laying import Lays


@dataclass(frozen=True, slots=True, eq=False)
class PackedProblem:
    """query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv) of sequences one behind the other, and their borders (B+1,).

    own: by input, the places of each sequence among its dense ones, (B,T) or (B,S).
    """

    query: Array
    key: Array
    value: Array
    given: Mapping[str, object]
    own: Mapping[str, Array]
    sizes: Sizes

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(Nq,H,Dv)."""
        return len(self.query), self.sizes.H, self.sizes.Dv

    @property
    def lse_shape(self) -> tuple[int, int]:
        """(Nq,H)."""
        return len(self.query), self.sizes.H

    def spread(self, answer: Array, of: str = "query") -> Array:
        """An answer (Nq,H,…), or one that lies as another input does, as (B,H,T,…), with zeros in the rows that no
        sequence has.
        """
        own = self.own[of]
        dense = np.zeros((*own.shape, *answer.shape[1:]), answer.dtype)
        dense[own] = answer
        return dense.swapaxes(1, 2)

    def spread_inputs(self, gradients: Mapping[str, Array]) -> Mapping[str, Array]:
        """Spreads the gradients of packed inputs out again, (B,H,T,D) and its like; one that is not packed stays as it
        is, such as sinks' (H,).
        """
        return {name: self.spread(array, name) if name in self.own else array for name, array in gradients.items()}

    @property
    def lays(self) -> Lays:
        """How what belongs to the entries of each input is packed, (Nq,H,·) or (Nk,Hkv,·)."""
        return {name: partial(_pack_array, own=own) for name, own in self.own.items()}

    def of_output(self, array: Array) -> Array:
        """An array (B,H,T,Dv) that lies as the output does, as (Nq,H,Dv)."""
        return _pack_array(array, self.own["query"])


def pack(problem: Problem, parameters: frozenset[str]) -> PackedProblem:
    """The problem in packed form, with those of `max_query` and `max_key` that are among the function's parameters.

    Lengths become borders; where none are given, every sequence is as long as the array.
    """
    sizes = problem.sizes
    of_queries, of_keys = _lengths(problem, "T"), _lengths(problem, "S")
    own = {"query": _own(of_queries, problem.query), "key": _own(of_keys, problem.key),
           "value": _own(of_keys, problem.value)}
    query, key, value = (_pack_array(getattr(problem, name), places) for name, places in own.items())
    most = {"max_query": _longest(own["query"]), "max_key": _longest(own["key"])}
    form = {"cu_query": _borders(own["query"]), "cu_key": _borders(own["key"]),
            **{name: longest for name, longest in most.items() if name in parameters}}
    keywords = {name: value for name, value in sorted(problem.given.items()) if name not in SAID}
    return PackedProblem(query, key, value, {**form, **keywords}, own, sizes)


def _lengths(problem: Problem, axis: str) -> Array | None:
    """(B,): how many of its queries, or keys, each batch entry has; None where all."""
    lengths: Array | None = next(getattr(problem, name) for name, counted in COUNTS.items() if counted == axis)
    return lengths


def _pack_array(array: Array, own: Array) -> Array:
    """An array (B,H,T,D), or of keys, as (T,H,D) of all sequences together, one behind the other."""
    return np.ascontiguousarray(array.swapaxes(1, 2)[own])


def _own(lengths: Array | None, array: Array) -> Array:
    """(B,T) bool: the places of each sequence in an array (B,H,T,D), or of keys."""
    B, _, most, _ = array.shape
    return np.arange(most) < (np.full((B, 1), most) if lengths is None else lengths[:, None])


def _borders(own: Array) -> Array:
    """(B+1,) int32: where each sequence begins, and where the last one ends; own: its places (B,T)."""
    return np.concatenate([[0], np.cumsum(own.sum(axis=1))]).astype(np.int32)


def _longest(own: Array) -> int:
    """The most places (B,T) that a sequence has."""
    return int(own.sum(axis=1).max(initial=0))
