"""Transforms along an axis: they reorder a problem, take it apart, or change how many keys,
queries and heads it has.

Those of layers act on the parameters. All are pure and exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from attnspec.core.keywords import AXES, COUNTS, OFF
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array, LayerProblem, Problem, numpy_dtype
from attnspec.vocabulary.scene import Axis, NoClaim, OutsideLimits, Posed
from attnspec.vocabulary.signature import Between, DrawnCount, DrawnRow, DrawnSeed

Attention = Posed[Problem]
ArrayName = Literal["query", "key", "value"]
_AXES: Mapping[str, tuple[str, ...]] = {
    "query": ("B", "H", "T", "D"), "key": ("B", "H", "S", "D"), "value": ("B", "H", "S", "Dv"),
    **{name: tuple(axes) for name, axes in AXES.items()}}
ARRAYS = tuple(_AXES)
"""Every field of a problem that may be an array."""


def permutation(seed: int, length: int) -> Array:
    """A permutation of 0 … length - 1, (S,); NumPy has frozen the stream of RandomState."""
    return np.random.RandomState(seed).permutation(length)


def entries_at(array: Array | None, index: Array, axis: int) -> Array | None:
    """The entries at these places along an axis of an array of any shape; None stays None."""
    return None if array is None else np.ascontiguousarray(np.take(array, index, axis=axis))


def entries_along(problem: Problem, axis: str, index: Array) -> dict[str, Array]:
    """The arrays that have an axis of (B,H,T,S), with the entries at these places; H also where
    Hkv is H.

    Raises NoClaim if lengths count the first entries of the axis, and for keys if some of them are
    past.
    """
    if axis == "S" and problem.has_past:
        raise NoClaim("some keys are past")
    if counting := next((name for name in problem.given if COUNTS.get(name) == axis), ""):
        raise NoClaim(f"{counting} counts what would be moved")
    places = {name: axes.index(axis) - len(axes) for name, axes in _AXES.items() if axis in axes}
    return {name: np.ascontiguousarray(np.take(array, index, axis=place)) for name, place in places.items()
            if (array := getattr(problem, name)) is not None and array.ndim >= -place}


def product(array: Array, by: float, dtype: DType) -> Array:
    """The array times a power of two. Raises NoClaim if the dtype does not hold the product."""
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        result = wide * by
        # a power of two moves the exponent alone; what underflows does not come back
        is_exact = abs(np.frexp(by)[0]) == 0.5 and np.array_equal(result / by, wide)
    return _store_exactly(result, dtype, is_exact=is_exact)


def shift_exactly(array: Array, by: float, dtype: DType) -> Array:
    """The array, of any shape, plus a number. Raises NoClaim if that is not exact in the dtype.

    A sum is exact where both summands come back by subtraction (Knuth's TwoSum).
    """
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        result = wide + by
        is_exact = np.array_equal(result - by, wide) and bool((result - wide == by).all())
    return _store_exactly(result, dtype, is_exact=is_exact)


def _store_exactly(wide: Array, dtype: DType, *, is_exact: bool) -> Array:
    """The array, of any shape, in the dtype. Raises NoClaim if it is not exact there."""
    with np.errstate(over="ignore"):
        array = wide.astype(numpy_dtype(dtype))
    if not is_exact or not np.array_equal(array.astype(np.float64), wide):
        raise NoClaim("the change is not exact in the dtype")
    return array


def score_shape(problem: Problem) -> tuple[int, int, int, int]:
    """The full shape (B,H,T,S) of a mask or bias."""
    size = problem.sizes
    return size.B, size.H, size.T, size.S


def widen(posed: Attention, *, by: Annotated[int, Between(2, 16)]) -> Attention:
    """Append features of zero until all arrays are `by` times as wide; of the output, the old columns are compared."""
    problem = posed.one

    def wider(array: Array) -> Array:
        """An array (B,H,T,D) or its like, with features of zero behind the others."""
        return np.pad(array, [(0, 0)] * 3 + [(0, array.shape[-1] * (by - 1))])

    wide = posed.but(query=wider(problem.query), key=wider(problem.key), value=wider(problem.value))
    return wide.reading("Dv", np.arange(problem.sizes.Dv))


def repeat_keys(posed: Attention) -> Attention:
    """Append a copy of every key and value; a query sees the copy if it sees the original."""
    problem = posed.one
    twice = np.concatenate([np.arange(problem.sizes.S)] * 2)
    return posed.but(**entries_along(problem, "S", twice))


def drop_keys(posed: Attention, *, kept: DrawnCount) -> Attention:
    """Remove the keys and values from position `kept` on."""
    return posed.but(**entries_along(posed.one, "S", np.arange(kept)))


def drop_last_value(posed: Attention) -> Attention:
    """Remove the last value and leave its key: a problem that makes no sense."""
    return posed.but(value=np.ascontiguousarray(posed.one.value[:, :, :-1]))


def drop_first_keys(posed: Attention, *, dropped: DrawnCount) -> Attention:
    """Cut off the first keys and values, so many; the others keep their mask and bias."""
    problem = posed.one
    if dropped >= problem.sizes.S:
        raise NoClaim("no key would be left")
    return posed.but(**entries_along(problem, "S", np.arange(dropped, problem.sizes.S)))


def keep_queries(posed: Attention, *, cut: DrawnRow) -> Attention:
    """Remove the queries after position `cut`; keys and values stay."""
    return posed.but(**entries_along(posed.one, "T", np.arange(cut + 1)))


def keep_prefix(posed: Attention, *, cut: DrawnRow) -> Attention:
    """Remove queries, keys and values after position `cut`; only where T = S."""
    problem = posed.one
    if problem.sizes.T != problem.sizes.S:
        raise NoClaim("queries and keys are not one sequence")
    index = np.arange(cut + 1)
    shorter = problem.but(**entries_along(problem, "T", index))
    return posed.but(**{**entries_along(problem, "T", index), **entries_along(shorter, "S", index)})


def repeat_kv_heads(posed: Attention, *, order: Literal["declared", "repeat", "tile"]) -> Attention:
    """Copy key/value heads until every query head has one of its own: grouped heads, written out."""
    problem = posed.one
    H, Hkv = problem.sizes.H, problem.sizes.Hkv
    answer = posed.conventions.get("grouped_heads", "") if order == "declared" else order
    if answer not in {"repeat", "tile"}:
        raise NoClaim("grouped_heads is undefined: none is declared, and no known order was found")
    heads = np.arange(H) // (H // Hkv) if answer == "repeat" else np.arange(H) % Hkv
    return posed.but(key=entries_at(problem.key, heads, 1), value=entries_at(problem.value, heads, 1))


def keep_kv_heads(posed: Attention, *, kept: DrawnCount) -> Attention:
    """Keep the first `kept` key/value heads; the query heads share them."""
    problem = posed.one
    if problem.sizes.H % kept:
        raise NoClaim("the number of query heads is not a multiple of the number of key/value heads")
    index = np.arange(kept)
    return posed.but(key=entries_at(problem.key, index, 1), value=entries_at(problem.value, index, 1))


_PERMUTED_AXES: Mapping[str, Axis] = {"batch": "B", "heads": "H", "queries": "T"}


def permute_keys(posed: Attention, *, by: DrawnSeed) -> Attention:
    """Reorder keys, values and the columns of mask and bias, all in the same way."""
    problem = posed.one
    order = permutation(by, problem.sizes.S)
    return posed.but(**entries_along(problem, "S", order)).reading("S", np.argsort(order))


def permute_queries(posed: Attention, *, by: DrawnSeed) -> Attention:
    """Reorder queries and the rows of mask and bias in the same way; the output is put back into the old order."""
    problem = posed.one
    order = permutation(by, problem.sizes.T)
    return posed.but(**entries_along(problem, "T", order)).reading("T", np.argsort(order))


def permute_batch(posed: Attention, *, by: DrawnSeed) -> Attention:
    """Reorder the batch entries; the output is put back into the old order."""
    return _permute_axis(posed, "B", permutation(by, posed.one.sizes.B))


def permute_heads(posed: Attention, *, by: DrawnSeed) -> Attention:
    """Reorder the heads of all arrays (not grouped ones); the output is put back into the old order."""
    if posed.one.sizes.Hkv < posed.one.sizes.H:
        raise NoClaim("heads are grouped")
    return _permute_axis(posed, "H", permutation(by, posed.one.sizes.H))


def _permute_axis(posed: Attention, axis: Axis, order: Array) -> Attention:
    """Every array with an axis, (B,) or (H,), in this order; answers are read in the old one."""
    return posed.but(**entries_along(posed.one, axis, order)).reading(axis, np.argsort(order))


def split(posed: Attention, *, along: Literal["batch", "heads", "queries"]) -> Attention:
    """Split the problem along an axis, make one call for each piece, and join the answers."""
    axis = _PERMUTED_AXES[along]
    problem = posed.one
    if along == "heads" and problem.sizes.Hkv < problem.sizes.H:
        raise NoClaim("heads are grouped")
    parts = tuple(problem.but(**entries_along(problem, axis, np.array([i])))
                  for i in range(getattr(problem.sizes, axis)))
    return replace(posed, parts=parts, join=axis)


# Layers


Layer = Posed[LayerProblem]


def permute_layer_heads(posed: Layer, *, by: DrawnSeed) -> Layer:
    """Reorder the heads: the columns of the input projections and, with them, the rows of the output projection."""
    problem = posed.one
    _needs_output_projection(problem)
    if problem.heads != problem.kv_heads:
        raise NoClaim("heads are grouped")
    order = np.random.RandomState(by).permutation(problem.heads)
    moved = {name: np.ascontiguousarray(np.take(array, order, axis=AXES[name].index("H")))
             for name, array in problem.given.items() if "H" in AXES.get(name, "")}
    params = {name: _reorder_heads(name, array, order) for name, array in problem.params.items()}
    return posed.but(params=params, **moved).reading("H", np.argsort(order))


def _needs_output_projection(problem: LayerProblem) -> None:
    """Raises OutsideLimits without an output projection: the output would tell heads' order."""
    if "w_out" not in problem.params:
        raise OutsideLimits("it has no output projection")


def _reorder_heads(name: str, array: Array, order: Array) -> Array:
    """The parameter with its heads in the order (H,).

    These are rows of w_out (H·Dv,M), and columns of other weights (M,H·D) and of their biases
    (H·D,); b_out (M,) has none.
    """
    if name == "b_out":
        return array
    axis = 0 if name == "w_out" else -1
    columns = np.arange(array.shape[axis]).reshape(len(order), -1)[order].ravel()
    return np.ascontiguousarray(np.take(array, columns, axis=axis))


def one_head_at_a_time(posed: Layer) -> Layer:
    """Make one call for each head, with the other heads' rows of w_out zero; add up the outputs, b_out once."""
    problem = posed.one
    _needs_output_projection(problem)
    parts = tuple(problem.but(params=_only(problem.params, head, problem.heads)) for head in range(problem.heads))
    return replace(posed, parts=parts, join="sum")


def _only(params: Mapping[str, Array], head: int, heads: int) -> dict[str, Array]:
    """The parameters, w_out (H·Dv,M) zero but for one head; b_out (M,) is the first one's."""
    owner = np.arange(params["w_out"].shape[0]) * heads // params["w_out"].shape[0]
    lone = {**params, "w_out": np.where((owner == head)[:, None], params["w_out"], np.zeros_like(params["w_out"]))}
    # the outputs of all heads are summed, and each would bring the bias along
    if "b_out" in params and head:
        lone["b_out"] = np.zeros_like(params["b_out"])
    return lone


def multiply_biases(posed: Layer, *, by: Literal["minus four", "two"]) -> Layer:
    """Multiply every bias of the projections by a power of two, which is exact; a layer needs biases for this."""
    params, factor = posed.one.params, {"minus four": -4, "two": 2}[by]
    if not any(name.startswith("b_") for name in params):
        raise OutsideLimits("its projections add no biases")
    return posed.but(params={name: array * array.dtype.type(factor) if name.startswith("b_") else array
                             for name, array in params.items()})


def indivisible_heads(posed: Layer) -> Layer:
    """Ask for a number of heads that does not divide the width."""
    problem = posed.one
    width = problem.params["w_query"].shape[1]
    # a count beyond the width divides nothing, so one is always found
    heads = next(count for count in range(problem.heads + 1, width + 2) if width % count)
    return posed.but(heads=heads, kv_heads=heads, **{name: OFF[name] for name in AXES if "H" in AXES[name]})
