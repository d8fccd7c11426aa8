"""Profiles: the groups of clauses that an implementation can claim. Every subject claims `core`."""

from __future__ import annotations

from collections.abc import Mapping

PROFILES: Mapping[str, str] = {
    "core": "attention without optional arguments, as its definition says, deterministic and at every size",
    "scale": "an explicit scale instead of 1/sqrt(D)",
    "weights": "the weights are returned beside the output",
    "masking": "a boolean mask hides keys, whatever stands in them",
    "bias": "an additive bias on the scaled logits",
    "causal": "a query attends to no later key",
    "window": "a query attends to the keys within a window about its own place",
    "softcap": "scaled dot products are capped by a tanh before bias and mask",
    "grouped": "fewer key/value heads than query heads (grouped-query and multi-query attention)",
    "layers": "whole layers with their projections and head split",
    "purity": "same call, same answer: inputs untouched, no hidden state, no dependence on memory layout",
}
