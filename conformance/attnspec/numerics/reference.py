"""The definition of attention, computed wider than any subject computes it.

Subjects of float64 are met with long double where the platform's is wider, all others with float64. Nothing here is
told how a subject computes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.operands import Operands
from attnspec.problems.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What attention gives. (B,H,T,S): dots = query·key, bent = scale·dots, bent where an aspect bends them,
    logits = bent + bias, shifted = logits less the row's largest attended one (hidden keys keep theirs),
    weights = exp(shifted), 0 where hidden. total (B,H,T): the sum of the weights. output (B,H,T,Dv).
    """

    dots: Array
    bent: Array
    logits: Array
    shifted: Array
    weights: Array
    total: Array
    output: Array

    def narrow(self) -> Truth:
        """The same in float64, which is enough to bound an error by."""
        return Truth(*(getattr(self, name).astype(np.float64, copy=False) for name in self.__slots__))


def scaled(operands: Operands, truth: Truth) -> Array:
    """(B,H,T,S): the size of the scaled dot products, before any bend."""
    return np.asarray(abs(float(operands.scale)) * np.abs(truth.dots))


def wide_float(dtype: DType) -> type[np.floating]:
    """The type in which the truth is computed for a subject of this dtype."""
    return np.longdouble if dtype is DType.FLOAT64 else np.float64


def is_wider(dtype: DType) -> bool:
    """Whether the truth is computed more finely than such a subject computes."""
    return dtype is not DType.FLOAT64 or bool(np.finfo(np.longdouble).eps < np.finfo(np.float64).eps)


def attend(operands: Operands, real: type[np.floating]) -> Truth:
    """Attention by its definition, in the arithmetic of `real`. Rows without a visible key get zeros."""
    dots = _products(operands.query, operands.key, real)
    bent = dots * real(operands.scale)
    if operands.bend is not None:
        bent = operands.bend.bend(bent, real)
    logits = bent if operands.bias is None else bent + operands.bias
    shifted = logits - _largest(logits, operands.visible)
    weights = np.exp(shifted if operands.visible is None else np.where(operands.visible, shifted, -np.inf))
    total = weights.sum(axis=-1)
    output = _products(weights, operands.value.swapaxes(-1, -2), real) / np.where(total == 0, 1, total)[..., None]
    return Truth(dots, bent, logits, shifted, weights, total, output)


def _products(rows: Array, columns: Array, real: type[np.floating]) -> Array:
    """(B,H,T,·), (B,H,S,·) -> (B,H,T,S): dot products. Long double has no BLAS; there einsum is the faster loop."""
    if real is np.float64:
        product: Array = rows @ columns.swapaxes(-1, -2)
        return product
    wide = np.ascontiguousarray(columns, dtype=real)
    return np.asarray(np.einsum("bhtd,bhsd->bhts", rows.astype(real, copy=False), wide))


def _largest(logits: Array, visible: Array | None) -> Array:
    """(B,H,T,1): the row's largest attended logit, 0 where there is none."""
    seen = logits if visible is None else np.where(visible, logits, -np.inf)
    largest: Array = seen.max(axis=-1, keepdims=True, initial=-np.inf)
    return np.where(np.isneginf(largest), 0, largest)
