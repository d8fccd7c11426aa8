"""`keras.ops.dot_product_attention` on JAX: under jit, as Keras itself runs a model, and op by op."""

from __future__ import annotations

from ..jax.compiled import hurried_jit
from .dot_product import attend as eager

__all__ = ["attend", "eager"]

attend = hurried_jit(eager, "causal")
