"""What a backward pass works with: how it computes, the call, and what is known so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from attnspec.faults.work import HandedOver
from attnspec.problems.problem import Array

Stored = Literal["logits", "weights", "kept", "products", "grads", "scaled", "group", "partial"]
"""What may be rounded to the dtype of the inputs on the way: logits, P before its product with the output's gradient,
P as it meets dP, dP, dS, the scaled dS, a head's dK and dV, partial sums.
"""


@dataclass(frozen=True, slots=True)
class BackwardMethod:
    """How a backward pass is computed. delta: the sum of P·dP, or of dO times the output as it was returned (`output`)
    or before it was rounded (`wide_output`).  is_recomputed: P is exp(logit - logsumexp), by 2^x where `base_two`.
    block: terms that are summed at once; 0: all.  scaling: what is multiplied by the scale.  is_apart: dS is
    P·dP - P·delta.  is_reversed: sums run from last to first.
    """

    stored: frozenset[Stored] = frozenset()
    delta: Literal["products", "output", "wide_output"] = "wide_output"
    is_recomputed: bool = True
    block: int = 0
    scaling: Literal["logit", "query", "both"] = "logit"
    is_float64: bool = False
    is_apart: bool = False
    is_reversed: bool = False
    base_two: bool = False
    uses_einsum: bool = False


USUAL = BackwardMethod()


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A call taken in. added (B,H,T,S): what is added to the logits; visible (B,H,T,S); factor: the scale.  keys: how
    many there are without a sink.  kv_heads: how many heads keys and values had.
    """

    call: HandedOver
    query: Array
    key: Array
    value: Array
    grad: Array
    added: Array | None
    visible: Array
    factor: float
    keys: int
    kv_heads: int

    @property
    def wide(self) -> np.dtype[Any]:
        """What is computed in."""
        return self.query.dtype


@dataclass(frozen=True, slots=True, eq=False)
class BackwardValues:
    """The values that a backward pass has computed so far.

    (B,H,T,S): bent and logits, exponentials, weights, products, scores (dS), dots (dX), slope; (B,H,T,1): total, lse,
    delta; (B,H,T,Dv): output, returned.  factor (B,H,T,S): of weights that are dropped.
    """

    taken: Taken
    way: BackwardMethod
    bent: Array
    logits: Array
    exponentials: Array
    total: Array
    weights: Array
    lse: Array
    output: Array
    returned: Array
    products: Array = field(default_factory=lambda: np.zeros(0))
    delta: Array = field(default_factory=lambda: np.zeros(0))
    scores: Array = field(default_factory=lambda: np.zeros(0))
    slope: Array = field(default_factory=lambda: np.zeros(0))
    factor: Array | None = None

    def but(self, **changes: Any) -> BackwardValues:  # noqa: ANN401  (the fields have types of their own)
        """The same with some fields replaced."""
        return replace(self, **changes)

    def kept(self, what: Stored, array: Array) -> Array:
        """An array of any shape, rounded to the dtype of the inputs where the way says so."""
        return array.astype(self.taken.call.query.dtype).astype(array.dtype) if what in self.way.stored else array
