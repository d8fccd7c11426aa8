"""Lowers attention's problems to layers, by projections that are identities or selections.

These are exact in every dtype, so every clause about attention judges layers, too. Where the layer
ties widths, heads are padded with zero columns; the padded width then sets the layer's scale
(`LoweredProblem.head_width`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.problems.problem import CACHED_INPUTS, INPUTS, Array, Problem, Sizes, numpy_dtype

SHARES: Mapping[str, Mapping[str, int]] = {
    "separate": {"query": 0, "key": 0, "value": 0},
    "memory": {"query": 0, "key": 0, "value": 1},
    "one": {"query": 0, "key": 1, "value": 2},
}
"""By a layer's inputs, which part of a head's columns holds query, key and value."""


@dataclass(frozen=True, slots=True, eq=False)
class LoweredProblem:
    """A problem for a layer: query (B,T,M), key and value (B,S,M), the parameters, and the heads'
    widths.

    shares: which part of a head's columns in its input makes each of the three.
    """

    query: Array
    key: Array
    value: Array
    params: Mapping[str, Array]
    sizes: Sizes
    head_width: int
    value_width: int
    shares: Mapping[str, int]

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """Returns (B,T,M), or (B,T,H·Dv) of a layer without output projection."""
        width = self.sizes.H * self.value_width
        out = self.params.get("w_out")
        return self.sizes.B, self.sizes.T, width if out is None else out.shape[1]

    def heads_of(self, output: Array) -> Array:
        """Brings the layer's output (B,T,M) to attention's (B,H,T,Dv)."""
        B, H, T = self.sizes.B, self.sizes.H, self.sizes.T
        heads = output[..., : H * self.value_width].reshape(B, T, H, self.value_width)
        return heads.swapaxes(1, 2)[..., : self.sizes.Dv]

    @property
    def first_of(self) -> Mapping[str, str]:
        """Returns, for each input, the first one that is the same array."""
        first = {id(getattr(self, name)): name for name in reversed(INPUTS)}
        return {name: first[id(getattr(self, name))] for name in INPUTS}

    def output_of(self, heads: Array) -> Array:
        """Brings an array (B,H,T,Dv) like attention's output to the layer's (B,T,M)."""
        return _side_by_side(heads, self.value_width, self.output_shape[2])

    def project_heads(self, name: str, heads: Array) -> Array:
        """Brings a projection's heads, (B,H,T,D) or (B,Hkv,S,·), to (B,T,H·D), padded."""
        width = self.value_width if name in {"value", "out"} else self.head_width
        return _side_by_side(heads, width, heads.shape[1] * width)

    def heads_of_inputs(self, gradients: Mapping[str, Array]) -> Mapping[str, Array]:
        """Brings gradients of the layer's inputs, (B,T,M) and its like, to attention's, (B,H,T,D)
        and its like. Each column of an input is an entry of one head. Those of other inputs stay
        as they are.
        """
        n, parts, found = self.sizes, _list_parts(self.shares), dict(gradients)
        lie = {"query": (n.H, self.head_width, n.D), "key": (n.Hkv, self.head_width, n.D),
               "value": (n.Hkv, self.value_width, n.Dv)}
        for name, (heads, padded, width) in lie.items():
            columns = gradients[self.first_of[name]][..., : heads * padded]
            apart = columns.reshape(*columns.shape[:2], heads, parts, padded // parts)
            found[name] = apart[:, :, :, self.shares[name], :width].swapaxes(1, 2)
        return found


def lower_problem(problem: Problem, limits: Limits) -> LoweredProblem:
    """Lowers a problem to a layer with these limits. Raises ValueError where they forbid it."""
    if reason := lowering_misfit(problem.sizes, limits):
        raise ValueError(reason)
    return _three_inputs(problem, limits) if limits.inputs == "separate" else _in_parts(problem, limits)


def lowering_misfit(sizes: Sizes, limits: Limits) -> str:
    """Says why a layer with these limits cannot be put such a problem; empty if it can."""
    if limits.self_attention_only and sizes.T != sizes.S:
        return f"it attends to its own input, so T = S; here {sizes}"
    if limits.grouped is False and sizes.Hkv != sizes.H:
        return f"it has as many key/value heads as query heads; here {sizes}"
    if limits.single_head and sizes.H != 1:
        return f"it has one head; here {sizes}"
    return ""


def head_width(sizes: Sizes, limits: Limits) -> int:
    """Returns the head width of the lowered layer, whose root scales its logits."""
    if (parts := _list_parts(SHARES[limits.inputs])) > 1:
        # an input that serves for several holds them side by side in every head
        return parts * max(sizes.D, sizes.Dv)
    return max(sizes.D, sizes.Dv) if _list_ties(limits) else sizes.D


def _list_parts(shares: Mapping[str, int]) -> int:
    return 1 + max(shares.values())


def _list_ties(limits: Limits) -> bool:
    return limits.ties_value_width or limits.ties_model_width


def _three_inputs(problem: Problem, limits: Limits) -> LoweredProblem:
    """Lowers by identity projections; the model is as wide as its widest heads side by side."""
    sizes, width = problem.sizes, head_width(problem.sizes, limits)
    value_width = width if _list_ties(limits) else sizes.Dv
    M = sizes.H * max(width, value_width)
    columns = {"query": (sizes.H, width), "key": (sizes.Hkv, width), "value": (sizes.Hkv, value_width)}
    inputs = {name: _side_by_side(getattr(problem, name), per_head, M) for name, (_, per_head) in columns.items()}
    widths = (sizes.H * width, sizes.Hkv * width, sizes.Hkv * value_width, sizes.H * value_width)
    params = _identities(M, widths, problem.dtype, limits)
    return LoweredProblem(**inputs, params=params, sizes=sizes, head_width=width,
                          value_width=value_width, shares=SHARES[limits.inputs])


def _in_parts(problem: Problem, limits: Limits) -> LoweredProblem:
    """Lowers to X = [q|k|v], or [q|0] and [k|v], in each head; the first Hkv heads hold keys."""
    shares, width = SHARES[limits.inputs], head_width(problem.sizes, limits)
    held = _join_projections(problem, INPUTS if limits.self_attention_only else CACHED_INPUTS, shares, width)
    query = held if limits.self_attention_only else _join_projections(problem, INPUTS[:1], shares, width)
    params = _selections(problem.sizes.H, problem.sizes.Hkv, width, problem.dtype, limits)
    return LoweredProblem(query, held, held, params, problem.sizes, width, width, shares)


def _join_projections(problem: Problem, names: Sequence[str], shares: Mapping[str, int], width: int) -> Array:
    """Joins inputs in their parts of every head's columns: (B,T,H·width) or (B,S,H·width)."""
    arrays, parts = {name: getattr(problem, name) for name in names}, _list_parts(shares)
    B, _, length, _ = arrays[names[0]].shape
    model = np.zeros((B, length, problem.sizes.H, parts, width // parts), problem.query.dtype)
    for name, array in arrays.items():
        model[:, :, :array.shape[1], shares[name], : array.shape[-1]] = array.swapaxes(1, 2)
    return model.reshape(B, length, problem.sizes.H * width)


def _side_by_side(array: Array, per_head: int, M: int) -> Array:
    """Lays (B,H,T,D) out as (B,T,M): each head takes `per_head` columns; the rest is 0."""
    B, heads, length, width = array.shape
    model = np.zeros((B, length, M), array.dtype)
    model[..., : heads * per_head].reshape(B, length, heads, per_head)[..., :width] = array.swapaxes(1, 2)
    return model


@lru_cache(maxsize=32)
def _identities(M: int, widths: tuple[int, int, int, int], dtype: DType, limits: Limits) -> Mapping[str, Array]:
    """Makes w_query (M,H·D), w_key, w_value and w_out (H·Dv,M) with ones on the diagonal."""
    query, key, value, heads = widths
    weights = {"w_query": _make_diagonal(M, query, dtype), "w_key": _make_diagonal(M, key, dtype),
               "w_value": _make_diagonal(M, value, dtype),
               "w_out": _make_diagonal(heads, M, dtype)}
    return _fill_params(weights, limits)


@lru_cache(maxsize=32)
def _selections(heads: int, kv_heads: int, width: int, dtype: DType, limits: Limits) -> Mapping[str, Array]:
    """Makes w_query (M,M), w_key and w_value (M,Hkv·D), which select parts of head columns."""
    shares = SHARES[limits.inputs]
    count, read = width // _list_parts(shares), {"query": heads, "key": kv_heads, "value": kv_heads}
    # heads own blocks of columns, so the parts are picked within each block
    weights = {f"w_{name}": _part(heads, width, share * count, count, dtype)[:, :read[name] * width]
               for name, share in shares.items()}
    return _fill_params({**weights, "w_out": _make_diagonal(heads * width, heads * width, dtype)}, limits)


def _part(heads: int, width: int, first: int, count: int, dtype: DType) -> Array:
    """Makes (M,M) that moves each head's columns `first` … `first + count - 1` to the front."""
    block = np.zeros((width, width), bool)
    block[np.arange(first, first + count), np.arange(count)] = True
    return np.kron(np.eye(heads, dtype=bool), block).astype(numpy_dtype(dtype))


def _make_diagonal(rows: int, columns: int, dtype: DType) -> Array:
    """Makes a parameter such as w_query (M,H·D), with ones on the diagonal."""
    return np.eye(rows, columns, dtype=bool).astype(numpy_dtype(dtype))


def _fill_params(weights: Mapping[str, Array], limits: Limits) -> Mapping[str, Array]:
    """Keeps the layer's weights, w_query (M,H·D) and its like, with zero biases (H·D,)."""
    kept = {name: weight for name, weight in weights.items() if limits.projects_output or name != "w_out"}
    zeros = {f"b{name[1:]}": np.zeros(weight.shape[1], weight.dtype) for name, weight in kept.items()
             if limits.is_biased(name.removeprefix("w_"))}
    return {**kept, **zeros}
