"""The gradients of attention by their closed form, computed wider than any subject computes them.

With P the weights of a row, O its output, dO the gradient of that output and a the scale:

    dP = dO·Vᵀ    delta = dO·O    dS = P (dP - delta)    dX = w dS    w the slope of the bend, or 1
    dV = Pᵀ·dO    dQ = a·dX·K     dK = a·dXᵀ·Q           dBias = dS, summed along the axes that the bias has not

Where weights are dropped, with the factors F: dP = F ∘ (dO·Vᵀ), and dV = (F ∘ P)ᵀ·dO.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnspec.numerics.operands import Operands
from attnspec.numerics.reference import Truth
from attnspec.problems.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class Differentials:
    """What stands between a row's output and its inputs, of one block; 0 where a key is hidden.

    (B,H,T,S): weights P; products dP; apart = dP - delta; logits dS; dots dX, behind a bend; slope, the bend's;
    applied, the weights by which the values are multiplied, P itself without dropout.
    delta (B,H,T,1).  grad (B,H,T,Dv): the output's gradient.
    """

    weights: Array
    products: Array
    apart: Array
    logits: Array
    dots: Array
    slope: Array
    delta: Array
    grad: Array
    applied: Array

    def narrow(self) -> Differentials:
        """The same in float64, which is enough to bound an error by."""
        return Differentials(*(getattr(self, name).astype(np.float64, copy=False) for name in self.__slots__))


def differentiate(operands: Operands, truth: Truth, grad: Array, factor: Array | None = None) -> Differentials:
    """Of one block, in the arithmetic of the truth; grad: the output's gradient (B,H,T,Dv). Rows that see no key have
    zeros throughout. factor (B,H,T,S): what weights are multiplied by before they meet the values, as in the truth.
    """
    real, seen = truth.output.dtype, operands.seen()
    grad = grad.astype(real)
    weights = np.where(seen, truth.weights, 0) / np.where(truth.total == 0, 1, truth.total)[..., None]
    products = times(grad, operands.value.swapaxes(-1, -2))
    products = products if factor is None else products * factor
    delta = (grad * truth.output).sum(axis=-1, keepdims=True)
    apart = np.where(seen, products - delta, 0)
    logits, slope = weights * apart, _slope(operands, truth)
    applied = weights if factor is None else weights * factor
    return Differentials(weights, products, apart, logits, logits * slope, slope, delta, grad, applied)


def _slope(operands: Operands, truth: Truth) -> Array:
    """(B,H,T,S): the derivative of the bend at the scaled dot products; 1 without one."""
    if operands.bend is None:
        return np.ones_like(truth.dots)
    return operands.bend.derivative(truth.dots * truth.dots.dtype.type(operands.scale))


def times(one: Array, other: Array) -> Array:
    """(B,H,T,·), (B,H,·,S) -> (B,H,T,S): a product in the arithmetic of the first. Long double has no BLAS; there
    einsum is the faster loop.
    """
    if one.dtype == np.float64:
        return np.asarray(one @ other)
    return np.asarray(np.einsum("bhtd,bhds->bhts", one, np.ascontiguousarray(other, dtype=one.dtype)))
