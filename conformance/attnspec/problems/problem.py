"""A problem is the input of attention: what a subject is handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnspec.ground.keywords import Window
from attnspec.ground.nouns import DType

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    """B batch, H query heads, Hkv key/value heads, T queries, S keys, D head width, Dv value head width."""

    B: int
    H: int
    Hkv: int
    T: int
    S: int
    D: int
    Dv: int

    def __str__(self) -> str:
        return " ".join(f"{name}={getattr(self, name)}" for name in ("B", "H", "Hkv", "T", "S", "D", "Dv"))


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), all in the dtype under test and private to the holder.

    mask (B,H,T,S) bool, True = may attend; bias (B,H,T,S) in the dtype; both full shape unless a broadcast is on trial.
    `scale` None means 1/sqrt(D). `return_weights` asks for the pair (output, weights). `window` (left, right) and
    `softcap` are None where they are not in use.
    """

    dtype: DType
    query: Array
    key: Array
    value: Array
    mask: Array | None = None
    bias: Array | None = None
    causal: bool = False
    scale: float | None = None
    return_weights: bool = False
    window: Window | None = None
    softcap: float | None = None

    @property
    def sizes(self) -> Sizes:
        """The lengths of the axes."""
        B, H, T, D = self.query.shape
        Hkv, S, Dv = self.value.shape[1:]
        return Sizes(B, H, Hkv, T, S, D, Dv)

    @property
    def keywords(self) -> frozenset[str]:
        """The optional keywords that a subject must take to be handed this problem."""
        present = {"mask": self.mask is not None, "bias": self.bias is not None, "causal": self.causal,
                   "scale": self.scale is not None, "return_weights": self.return_weights,
                   "window": self.window is not None, "softcap": self.softcap is not None}
        return frozenset(name for name, is_used in present.items() if is_used)

    def but(self, **changes: Any) -> Problem:  # noqa: ANN401  (the fields have types of their own)
        """The same problem with some fields replaced."""
        return replace(self, **changes)

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} {self.dtype.value}{used}"


@dataclass(frozen=True, slots=True, eq=False)
class LayerProblem:
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
    mask: Array | None = None
    bias: Array | None = None
    causal: bool = False
    return_weights: bool = False
    window: Window | None = None
    softcap: float | None = None

    @property
    def sizes(self) -> Sizes:
        """The lengths of the axes; M is `query.shape[-1]`."""
        B, T, _ = self.query.shape
        D = self.params["w_query"].shape[1] // self.heads
        Dv = self.params["w_value"].shape[1] // self.kv_heads
        return Sizes(B, self.heads, self.kv_heads, T, self.key.shape[1], D, Dv)

    @property
    def keywords(self) -> frozenset[str]:
        """The optional keywords that a subject must take to be handed this problem."""
        present = {"mask": self.mask is not None, "bias": self.bias is not None, "causal": self.causal,
                   "return_weights": self.return_weights, "window": self.window is not None,
                   "softcap": self.softcap is not None}
        return frozenset(name for name, is_used in present.items() if is_used)

    def but(self, **changes: Any) -> LayerProblem:  # noqa: ANN401  (the fields have types of their own)
        """The same problem with some fields replaced."""
        return replace(self, **changes)

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} M={self.query.shape[-1]} {self.dtype.value}{used}"


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype; bfloat16 is ml_dtypes'."""
    if dtype is DType.BFLOAT16:
        import ml_dtypes  # noqa: PLC0415  (weight: only bfloat16 needs it)

        half: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return half
    named: np.dtype[Any] = np.dtype(dtype.value)
    return named
