"""A problem is the input of attention: what a subject is handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from attnspec.core.keywords import CACHED, KeywordArguments
from attnspec.core.nouns import DType

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    """B batch, H query heads, Hkv key/value heads, T queries, S keys, past ones among them, D head width, Dv value head
    width.
    """

    B: int
    H: int
    Hkv: int
    T: int
    S: int
    D: int
    Dv: int

    @property
    def by_axis(self) -> dict[str, int]:
        """The lengths by the names of the axes."""
        return {"B": self.B, "H": self.H, "Hkv": self.Hkv, "T": self.T, "S": self.S, "D": self.D, "Dv": self.Dv}

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.by_axis.items())


@lru_cache(maxsize=256)
def _sizes(query: tuple[int, ...], value: tuple[int, ...], past: int) -> Sizes:
    """Those of a problem whose query and value have these shapes; a case asks some thirty times."""
    B, H, T, D = query
    Hkv, S, Dv = value[1:]
    return Sizes(B, H, Hkv, T, S + past, D, Dv)


@dataclass(frozen=True, slots=True, eq=False)
class Problem(KeywordArguments[Array]):
    """query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), all in the dtype under test and private to the holder.

    Where P keys are past, key and value have S - P. of_parameters: with the gradients of the inputs, those of a layer's
    parameters are asked for, too.
    """

    dtype: DType
    query: Array
    key: Array
    value: Array
    of_parameters: bool = field(default=False, kw_only=True)

    @property
    def sizes(self) -> Sizes:
        """The lengths of the axes."""
        return _sizes(self.query.shape, self.value.shape, self.past)

    @property
    def past(self) -> int:
        """How many keys are past ones."""
        return int(getattr(self, CACHED[0]).shape[2]) if self.has_past else 0

    @property
    def has_past(self) -> bool:
        """Whether past keys are handed over, if only an empty array of them."""
        return getattr(self, CACHED[0]) is not None

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} {self.dtype.value}{used}"


@dataclass(frozen=True, slots=True, eq=False)
class LayerProblem(KeywordArguments[Array]):
    """The input of a layer: query (B,T,M), key and value (B,S,M), and its parameters (x @ W + b).

    Entries and parameters are chosen such that every projection is exact in the dtype: what is left to judge is
    attention itself and the output projection.
    """

    dtype: DType
    query: Array
    key: Array
    value: Array
    params: Mapping[str, Array]
    heads: int
    kv_heads: int

    @property
    def sizes(self) -> Sizes:
        """The lengths of the axes; M is `query.shape[-1]`."""
        B, T, _ = self.query.shape
        D = self.params["w_query"].shape[1] // self.heads
        Dv = self.params["w_value"].shape[1] // self.kv_heads
        return Sizes(B, self.heads, self.kv_heads, T, self.key.shape[1], D, Dv)

    @property
    def has_past(self) -> bool:
        """A layer is handed no past keys: it projects its own."""
        return False

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} M={self.query.shape[-1]} {self.dtype.value}{used}"


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of a dtype; bfloat16 is ml_dtypes'."""
    if dtype is DType.BFLOAT16:
        import ml_dtypes  # noqa: PLC0415  (weight: only bfloat16 needs it)

        half: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return half
    named: np.dtype[Any] = np.dtype(dtype.value)
    return named


HELD = ("key", "value")
"""What stands behind each of the arrays of earlier calls."""

INPUTS = ("query", *HELD)


@overload
def joined(problem: Problem) -> Problem: ...
@overload
def joined(problem: Problem | LayerProblem) -> Problem | LayerProblem: ...
def joined(problem: Problem | LayerProblem) -> Problem | LayerProblem:
    """Past and new keys and values in one array each; none of them is handed over as past. What counts from a query's
    own place does not know of it.
    """
    if getattr(problem, CACHED[0]) is None:
        return problem
    arrays = {held: (getattr(problem, name), getattr(problem, held)) for held, name in zip(HELD, CACHED, strict=True)}
    return problem.but(**dict.fromkeys(CACHED), **{
        held: np.concatenate(both, axis=2) for held, both in arrays.items()})


def with_gaps(array: Array) -> Array:
    """The array, of any shape, as every other entry, along every axis, of a memory twice as long."""
    memory = np.zeros([2 * length for length in array.shape], array.dtype)
    view = memory[tuple(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def heads_last(array: Array) -> Array:
    """(B,H,T,D) and its like as a view of memory that lies (B,T,H,D)."""
    return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
