"""Layer problems whose projections are exact in every dtype, whatever the order of summation.

Inputs are whole numbers up to 3; a column of w_query, w_key or w_value has at most two entries that are not 0. So every
partial sum of x @ W + b is a multiple of 1/2 (of w_query: of the power of two that scales it) with at most 8 bits,
which bfloat16 holds. A column of w_out has one entry, a power of two: the output projection moves and scales what
attention returns, and rounds nothing (adding b_out may).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.ground.declaration import Limits
from attnspec.ground.nouns import DType
from attnspec.problems.entries import Floats, integers, signs
from attnspec.problems.make import as_dtype, keyword_arguments
from attnspec.problems.problem import LayerProblem, Sizes
from attnspec.problems.recipe import Recipe
from attnspec.problems.stream import words

_PLAIN = Limits()


def make_layer(recipe: Recipe, dtype: DType, *, limits: Limits = _PLAIN) -> LayerProblem:
    """The layer problem of a recipe; M is `recipe.M`, or H·D where that is 0.

    limits.has_biases adds b_query … b_out. Without limits.projects_output there are no w_out and b_out (M is H·Dv).
    The family `huge_logits` multiplies w_query by 16.
    """
    sizes = recipe.sizes
    M = recipe.M or sizes.H * sizes.D
    query, key, value = _inputs(recipe, M)
    params = {**_weights(recipe, M, limits), **(_biases(recipe.seed, sizes, M, limits) if limits.has_biases else {})}
    return LayerProblem(
        dtype, as_dtype(query, dtype), as_dtype(key, dtype), as_dtype(value, dtype),
        {name: as_dtype(array, dtype) for name, array in params.items()}, sizes.H, sizes.Hkv,
        **keyword_arguments(recipe, dtype))


def _inputs(recipe: Recipe, M: int) -> tuple[Floats, Floats, Floats]:
    """Query (B,T,M), key and value (B,S,M): three arrays, or the same entries again as `recipe.inputs` says."""
    sizes = recipe.sizes
    query = _whole(recipe.seed, "query", (sizes.B, sizes.T, M), 3)
    if recipe.inputs == "one":
        return query, query.copy(), query.copy()
    key = _whole(recipe.seed, "key", (sizes.B, sizes.S, M), 3)
    return query, key, key.copy() if recipe.inputs == "memory" else _whole(recipe.seed, "value", key.shape, 3)


def _whole(seed: int, label: str, shape: tuple[int, ...], bound: int) -> Floats:
    return integers(words(seed, label, shape), -bound, bound)


def _weights(recipe: Recipe, M: int, limits: Limits) -> Mapping[str, Floats]:
    sizes, seed = recipe.sizes, recipe.seed
    steepness = 8.0 if "huge_logits" in recipe.families else 0.5
    weights = {
        "w_query": steepness * _two_a_column(seed, "w_query", M, sizes.H * sizes.D),
        "w_key": 0.5 * _two_a_column(seed, "w_key", M, sizes.Hkv * sizes.D),
        "w_value": _two_a_column(seed, "w_value", M, sizes.Hkv * sizes.Dv)}
    return weights | ({"w_out": _one_a_column(seed, sizes.H * sizes.Dv, M)} if limits.projects_output else {})


def _two_a_column(seed: int, label: str, rows: int, columns: int) -> Floats:
    """(rows, columns) with +1 or -1 at two places of each column, which may be the same place."""
    random = words(seed, label, (2, columns))
    matrix = np.zeros((rows, columns))
    np.add.at(matrix, (integers(random, 0, rows - 1).astype(np.intp), np.arange(columns)), signs(random))
    return matrix


def _one_a_column(seed: int, rows: int, columns: int) -> Floats:
    """(rows, columns) with one signed power of two a column; each row is used before any is used twice."""
    order = np.argsort(words(seed, "w_out order", (rows,)), kind="stable")
    random = words(seed, "w_out", (columns,))
    powers = np.ldexp(signs(random), 1 - (random >> np.uint32(30)).astype(np.int32))
    matrix = np.zeros((rows, columns))
    matrix[order[np.arange(columns) % rows], np.arange(columns)] = powers
    return matrix


def _biases(seed: int, sizes: Sizes, M: int, limits: Limits) -> Mapping[str, Floats]:
    biases = {
        "b_query": 0.5 * _whole(seed, "b_query", (sizes.H * sizes.D,), 2),
        "b_key": 0.5 * _whole(seed, "b_key", (sizes.Hkv * sizes.D,), 2),
        "b_value": _whole(seed, "b_value", (sizes.Hkv * sizes.Dv,), 2)}
    return biases | ({"b_out": _whole(seed, "b_out", (M,), 2)} if limits.projects_output else {})


def model_width(sizes: Sizes, limits: Limits) -> int:
    """M for these sizes: H·D where the subject ties them, else H·D + 3 for odd T (one M a shape, for compilers)."""
    is_tied = limits.ties_model_width or limits.self_attention_only or not limits.projects_output
    return sizes.H * sizes.D + (0 if is_tied or sizes.T % 2 == 0 else 3)
