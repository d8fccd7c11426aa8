"""The optional keywords that a subject may take. Nothing else in the code lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.ground.nouns import Kind


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword of `attend(query, key, value, *, ...)`: its shape, its meaning, its profile, and who may take it."""

    name: str
    shape: str
    meaning: str
    profile: str  # who claims it promises to take the keyword
    kinds: frozenset[Kind] = frozenset(Kind)
    required: frozenset[Kind] = frozenset()


Window = tuple[int | None, int | None]
"""How many keys a query sees to the left and to the right of its own place; None: no bound on that side."""

_LAYER = frozenset({Kind.LAYER})

KEYWORDS: Mapping[str, Keyword] = {
    word.name: word
    for word in (
        Keyword("mask", "(B,H,T,S) bool", "True where a query may attend to a key", "masking"),
        Keyword("bias", "(B,H,T,S) of the dtype", "added to the scaled logits before the softmax; -inf hides a key",
                "bias"),
        Keyword("causal", "bool", "a query attends to no later key; see `causal_alignment`", "causal"),
        Keyword("scale", "float", "what the dot products are multiplied by; None means 1/sqrt(D)", "scale"),
        Keyword("window", "(int or None, int or None)", "(left, right): the query at position p sees the keys "
                "p - left … p + right and no others; None: no bound on that side. p is the query's own place, as "
                "`causal_alignment` counts it", "window"),
        Keyword("softcap", "float", "c > 0: the scaled dot products x become c·tanh(x / c), before bias and mask",
                "softcap"),
        Keyword("return_weights", "bool", "return the pair (output, weights)", "weights"),
        Keyword("params", "mapping of arrays", "w_query (M,H·D), w_key (M,Hkv·D), w_value (M,Hkv·Dv), w_out (H·Dv,M) "
                "and, only where the layer has biases, b_query, b_key, b_value, b_out; used as x @ W + b", "layers",
                _LAYER, _LAYER),
        Keyword("heads", "int", "H; head h owns the columns h·D … (h+1)·D-1", "layers", _LAYER, _LAYER),
    )
}
