"""The optional keywords that a subject may take, and what others call them. Nothing else in the code lists them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "mask": ("attn_mask", "attention_mask", "src_mask"),
    "bias": ("attn_bias", "attention_bias"),
    "causal": ("is_causal", "use_causal_mask"),
    "scale": ("softmax_scale", "sm_scale", "scaling", "scale_factor"),
    "window": ("window_size", "local_window_size"),
    "softcap": ("logits_soft_cap", "soft_cap", "logit_cap"),
    "return_weights": ("need_weights", "return_attention_scores", "return_attn_weights", "output_attentions"),
}
"""What libraries call a keyword, the usual name first. It may mean another thing there: a mask may be True to hide."""


def keyword_for(name: str) -> str:
    """The keyword for what others call `name`, also where that is mistyped; empty if there is none."""
    return next((word for word, others in OTHER_NAMES.items() if name in others or slip_of(name, others)), "")


def slip_of(name: str, known: Iterable[str]) -> str:
    """The known name that `name` is a slip of the pen from: one letter more, less or other, or two swapped; else ""."""
    return next((other for other in known if _is_slip(name, other)), "")


def _is_slip(written: str, meant: str) -> bool:
    same = len(os.path.commonprefix((written, meant)))  # noqa: RUF071  (letter by letter is what is meant)
    wrote, means = written[same:], meant[same:]
    is_swap = wrote[:2] == means[:2][::-1] and wrote[2:] == means[2:]
    return wrote != means and (is_swap or wrote[1:] == means[1:] or wrote[1:] == means or wrote == means[1:])


def listed(defaults: Mapping[str, str]) -> str:
    """Parameters that are left at their defaults, for a reader: `block=64`, and what attnspec calls them if it does."""
    return ", ".join(f"{name}={default}{_ours(name)}" for name, default in defaults.items())


def _ours(name: str) -> str:
    word = keyword_for(name)
    return f" (attnspec's keyword is {word}: rename it, or wrap it with `attnspec init`)" if word else ""
