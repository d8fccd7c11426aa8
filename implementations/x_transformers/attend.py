"""`x_transformers.attend.Attend`: the attention of x-transformers without projections, written out or on SDPA (flash).

Scale, causal and the soft cap are fixed where it is built; a module is built for each. Masks are boolean, True = may
attend. The weights are what it calls `post_softmax_attn`; the flash form gives none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from x_transformers.attend import Attend

Tensor = Any  # torch is not seen by mypy
Module = Any


def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
           causal: bool = False, scale: float | None = None, return_weights: bool = False) -> Tensor:
    """Written out; training mode, without dropout."""
    output, seen = _module(causal, scale).train()(query, key, value, mask=mask, attn_bias=bias)
    return (output, seen.post_softmax_attn) if return_weights else output


def attend_inference(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                     causal: bool = False, scale: float | None = None, return_weights: bool = False) -> Tensor:
    """Written out; evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    with torch.no_grad():
        module = _module(causal, scale, dropout=0.5).eval()
        output, seen = module(query, key, value, mask=mask, attn_bias=bias)
    return (output, seen.post_softmax_attn) if return_weights else output


def attend_causal_in_call(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                          causal: bool = False, scale: float | None = None) -> Tensor:
    """Written out; `causal` given to the call."""
    module = _module(False, scale).train()
    return module(query, key, value, mask=mask, attn_bias=bias, causal=causal)[0]


def attend_onnxable(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                    causal: bool = False, scale: float | None = None, return_weights: bool = False) -> Tensor:
    """Written out, with `onnxable`, which makes the causal mask in another way."""
    output, seen = _module(causal, scale, onnxable=True).train()(query, key, value, mask=mask, attn_bias=bias)
    return (output, seen.post_softmax_attn) if return_weights else output


def softclamp(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
              causal: bool = False, softcap: float | None = None) -> Tensor:
    """Written out, with `softclamp_logits`; training mode, without dropout."""
    return _module(causal, None, softcap=softcap).train()(query, key, value, mask=mask, attn_bias=bias)[0]


def softclamp_inference(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                        causal: bool = False, softcap: float | None = None) -> Tensor:
    """Written out, with `softclamp_logits`; evaluation mode, no gradient, and a dropout that should do nothing."""
    with torch.no_grad():
        module = _module(causal, None, softcap=softcap, dropout=0.5).eval()
        return module(query, key, value, mask=mask, attn_bias=bias)[0]


def flash(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
          causal: bool = False, scale: float | None = None) -> Tensor:
    """On F.scaled_dot_product_attention; training mode, without dropout."""
    return _module(causal, scale, flash=True).train()(query, key, value, mask=mask, attn_bias=bias)[0]


def flash_inference(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                    causal: bool = False, scale: float | None = None) -> Tensor:
    """On SDPA; evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    with torch.no_grad():
        return _module(causal, scale, flash=True, dropout=0.5).eval()(query, key, value, mask=mask, attn_bias=bias)[0]


def flash_causal_in_call(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                         causal: bool = False, scale: float | None = None) -> Tensor:
    """On SDPA; `causal` given to the call."""
    module = _module(False, scale, flash=True).train()
    return module(query, key, value, mask=mask, attn_bias=bias, causal=causal)[0]


@lru_cache(maxsize=256)
def _module(causal: bool, scale: float | None, *, flash: bool = False, dropout: float = 0.0,
            softcap: float | None = None, onnxable: bool = False) -> Module:
    cap = {} if softcap is None else {"softclamp_logits": True, "logit_softclamp_value": softcap}
    return Attend(causal=causal, scale=scale, flash=flash, dropout=dropout, onnxable=onnxable, **cap)
