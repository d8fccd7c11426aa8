"""Profiles: the groups of clauses that an implementation can claim. Every subject claims `core`."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.ground.keywords import KEYWORDS, UNCOMMON

PROFILES: Mapping[str, str] = {
    "core": "attention without optional arguments, as its definition says, deterministic and at every size",
    **{KEYWORDS[name].profile: KEYWORDS[name].promise
       for name in ("scale", "return_weights", "mask", "bias", "causal", *UNCOMMON)},
    "grouped": "fewer key/value heads than query heads (grouped-query and multi-query attention)",
    "layers": "whole layers with their projections and head split",
    "purity": "same call, same answer: inputs untouched, no hidden state, no dependence on memory layout",
}
