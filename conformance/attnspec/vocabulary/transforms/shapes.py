"""Transforms that give a problem more or fewer keys, queries, heads or features."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from attnspec.problems.problem import Array
from attnspec.vocabulary.posed import NoClaim
from attnspec.vocabulary.signature import Between, Drawn
from attnspec.vocabulary.transforms.arrays import Attention, entries_along, taken


def widen(posed: Attention, *, by: Annotated[int, Between(2, 16)]) -> Attention:
    """Append zero features until all arrays are `by` times as wide; the old columns of the values are reported."""
    problem = posed.one

    def wider(array: Array) -> Array:
        return np.pad(array, [(0, 0)] * 3 + [(0, array.shape[-1] * (by - 1))])

    wide = posed.but(query=wider(problem.query), key=wider(problem.key), value=wider(problem.value))
    return wide.reading("Dv", np.arange(problem.sizes.Dv))


def repeat_keys(posed: Attention) -> Attention:
    """Give every key and value a twin at the end, visible to whom the first is."""
    problem = posed.one
    twice = np.concatenate([np.arange(problem.sizes.S)] * 2)
    return posed.but(**entries_along(problem, "S", twice))


def drop_keys(posed: Attention, *, kept: Drawn) -> Attention:
    """Cut keys and values off from `kept` on."""
    return posed.but(**entries_along(posed.one, "S", np.arange(kept)))


def keep_queries(posed: Attention, *, cut: Drawn) -> Attention:
    """Cut the queries off after position `cut`; keys and values stay."""
    return posed.but(**entries_along(posed.one, "T", np.arange(cut + 1)))


def keep_prefix(posed: Attention, *, cut: Drawn) -> Attention:
    """Cut the whole sequence off after position `cut`; only where T = S."""
    problem = posed.one
    if problem.sizes.T != problem.sizes.S:
        raise NoClaim("queries and keys are no one sequence")
    index = np.arange(cut + 1)
    shorter = problem.but(**entries_along(problem, "T", index))
    return posed.but(**{**entries_along(problem, "T", index), **entries_along(shorter, "S", index)})


def repeat_kv_heads(posed: Attention, *, order: Literal["declared", "repeat", "tile"]) -> Attention:
    """Give every query head a key/value head of its own: what grouped heads mean, spelled out."""
    problem = posed.one
    H, Hkv = problem.sizes.H, problem.sizes.Hkv
    answer = posed.conventions.get("grouped_heads", "") if order == "declared" else order
    if answer not in {"repeat", "tile"}:
        raise NoClaim("the order of grouped heads is undefined")
    heads = np.arange(H) // (H // Hkv) if answer == "repeat" else np.arange(H) % Hkv
    return posed.but(key=taken(problem.key, heads, 1), value=taken(problem.value, heads, 1))


def keep_kv_heads(posed: Attention, *, kept: Drawn) -> Attention:
    """Cut the key/value heads off from `kept` on; query heads share those that are left."""
    problem = posed.one
    if problem.sizes.H % kept:
        raise NoClaim("so many key/value heads cannot share the query heads evenly")
    index = np.arange(kept)
    return posed.but(key=taken(problem.key, index, 1), value=taken(problem.value, index, 1))
