"""What a staged attention works on: what it was handed, and the same prepared for the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.problems.problem import Array

Answer = Array | tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HandedOver(KeywordArguments[Array]):
    """What `attend` was handed, untouched."""

    query: Array
    key: Array
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCall(KeywordArguments[Array]):
    """A call prepared for the stages: arrays in the dtype of the computation, mask and bias at full shape (B,H,T,S).

    After `group` key and value have H heads; `visible` (B,H,T,S) is what a query may attend to, all rules together.
    Past keys and values are in key and value. start: the place of the first query, of all batch entries or (B,1,1,1).
    """

    query: Array
    key: Array
    value: Array
    visible: Array
    start: Array | int = 0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B,H,T,S)."""
        B, H, T, _ = self.query.shape
        return B, H, T, self.key.shape[2]


def wide_dtype(io: np.dtype[Any]) -> np.dtype[Any]:
    """What is computed in for inputs of this dtype."""
    return np.dtype(np.float64) if io == np.float64 else np.dtype(np.float32)
