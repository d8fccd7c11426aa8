"""Whom a campaign judges: sound implementations of our own and of others, and which part of the cases each gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CHOSEN: tuple[str, ...] = (
    "sound/naive", "sound/float64_inside", "sound/online_blocks", "sound/prescaled_query", "sound/reversed_keys",
    "sound/sorted_keys", "sound/einsum", "numpy/attention", "sound/eager", "sound/fused_blocks",
    "sound/finite_minimum_mask", "sound/finite_minimum_bias", "torch/sdpa_math", "torch/sdpa", "torch/sdpa_flash",
    "numpy/paper", "torch/paper", "torch/mha", "torch/mha_no_weights", "jax/attention", "jax/dot_product_attention",
    "jax/dot_product_attention_jit",
)
"""Those of one precision class and convention stand together: they share what the definition says of a case.

Left out are registered subjects that depart from the definition at some dtype in all they do, as their manifests say.
"""

SHARES: Mapping[str, float] = {
    "torch/mha": 0.5, "torch/mha_no_weights": 0.5,
    "jax/attention": 0.05, "jax/dot_product_attention": 0.02, "jax/dot_product_attention_jit": 0.04}
"""Where it is not 1. A layer pays for four projections as well. JAX compiles for every new shape and feature, and op by
op for every new operation."""


def share(target: str) -> float:
    """How many cases a subject gets, relative to others."""
    return SHARES.get(target, 1.0)


def in_order(targets: Iterable[str]) -> tuple[str, ...]:
    """The chosen ones first, in the order that serves sharing."""
    places = {target: place for place, target in enumerate(CHOSEN)}
    return tuple(sorted(dict.fromkeys(targets), key=lambda target: places.get(target, len(places))))
