"""Which keys each query attends to, and where it stands among them: a problem's flags, masks and lengths together."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from attnspec.problems.problem import Array, LayerProblem, Problem


def visible_keys(problem: Problem, conventions: Mapping[str, str], rows: Array | None = None) -> Array:
    """(B,H,T,S) bool: which keys each query may attend to, by mask, lengths, causal flag, window and -inf in the bias.
    A query that its batch entry does not have attends to none.

    Where a convention is undefined, the recommended answer is assumed.
    """
    visible = hidden_by_something(problem, conventions, rows)
    return np.ones(_shape(problem, rows), dtype=bool) if visible is None else visible


def hidden_by_something(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array | None:
    """(B,H,T,S) bool: which keys each query may attend to; None where nothing hides a key."""
    own_queries = None if problem.query_lengths is None else queries_within(problem, rows)[:, None, :, None]
    parts = [part for part in (_unmasked(problem, conventions, rows), _past(problem, conventions, rows),
                               _near(problem, conventions, rows), _unbiased(problem, rows), _own_keys(problem),
                               own_queries) if part is not None]
    if not parts:
        return None
    return np.broadcast_to(functools.reduce(np.logical_and, parts), _shape(problem, rows))


def _shape(problem: Problem, rows: Array | None) -> tuple[int, int, int, int]:
    """(B,H,T,S), where T counts the judged rows only."""
    sizes = problem.sizes
    return sizes.B, sizes.H, sizes.T if rows is None else len(rows), sizes.S


def _unmasked(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array | None:
    """The mask as bool, (B,H,T,S) or broadcast to it; None without one, or where the causal flag stands in for it."""
    if problem.mask is None or (problem.causal and conventions.get("mask_with_causal") == "causal"):
        return None
    return of_rows(problem.mask, problem, rows).astype(bool, copy=False)


def queries_within(problem: Problem | LayerProblem, rows: Array | None = None) -> Array:
    """(B,T) bool: the queries that each batch entry has; all of them where no lengths are given."""
    if problem.query_lengths is None:
        return np.ones((problem.sizes.B, problem.sizes.T if rows is None else len(rows)), dtype=bool)
    return np.asarray(places(problem, rows) < problem.query_lengths[:, None])


def _own_keys(problem: Problem) -> Array | None:
    """(B,1,1,S): the keys that each batch entry has; None where no lengths are given."""
    if problem.key_lengths is None:
        return None
    return np.asarray(np.arange(problem.sizes.S) < problem.key_lengths[:, None, None, None])


def places(problem: Problem | LayerProblem, rows: Array | None) -> Array:
    """(T,): the indices of the queries that are judged."""
    return np.arange(problem.sizes.T, dtype=np.int32) if rows is None else np.asarray(rows, dtype=np.int32)


def _past(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array | None:
    """(T,S) or (B,1,T,S): the keys that are not ahead of the query's own place; None without the flag, or where a mask
    stands in.
    """
    if not problem.causal or (problem.mask is not None and conventions.get("mask_with_causal") == "mask"):
        return None
    visible: Array = ahead(problem, conventions, rows) <= 0
    return visible


def _near(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array | None:
    """(T,S) or (B,1,T,S): the keys in the window, which bounds what is seen whether or not there is a mask or a causal
    flag.
    """
    if problem.window is None:
        return None
    left, right = problem.window
    distance = ahead(problem, conventions, rows)
    visible: Array = ((distance >= (-np.inf if left is None else -left))
                      & (distance <= (np.inf if right is None else right)))
    return visible


def ahead(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array:
    """(T,S), or (B,1,T,S) where lengths count: how far each key lies ahead of the query's own place."""
    own = own_places(problem, conventions, rows)
    distance: Array = np.arange(problem.sizes.S, dtype=np.int32) - own
    return distance


def own_places(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array:
    """(T,1), or (B,1,T,1) where lengths count: each query's own place among the keys: behind the past, if there is one;
    else as `causal_alignment` says.
    """
    return np.asarray(places(problem, rows)[:, None] + _first_place(problem, conventions))


def _first_place(problem: Problem, conventions: Mapping[str, str]) -> Array:
    """The place of the first query: one number, or (B,1,1,1) where batch entries have lengths of their own."""
    if problem.has_past:
        return np.array(problem.past, np.int32)
    if conventions.get("causal_alignment") != "bottom_right":
        return np.zeros((), np.int32)
    keys = problem.sizes.S if problem.key_lengths is None else problem.key_lengths
    queries = problem.sizes.T if problem.query_lengths is None else problem.query_lengths
    offset = np.asarray(np.subtract(keys, queries), dtype=np.int32)
    return offset[:, None, None, None] if offset.ndim else offset


def _unbiased(problem: Problem, rows: Array | None) -> Array | None:
    """Where the bias is not -inf, (B,H,T,S) or broadcast to it; None where it hides nothing."""
    if problem.bias is None:
        return None
    visible: Array = of_rows(problem.bias, problem, rows).astype(np.float64) != -np.inf
    return None if visible.all() else visible


def of_rows(array: Array, problem: Problem, rows: Array | None) -> Array:
    """The judged rows of a mask or bias (B,H,T,S), which may be of fewer axes or broadcast along T."""
    if rows is None or array.ndim < 2 or array.shape[-2] != problem.sizes.T:
        return array
    return array[..., rows, :]
