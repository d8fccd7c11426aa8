"""The attention interfaces: what `attn_implementation` names, as functions (B,H,T,D) -> (B,T,H,D)."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert.modeling_bert import eager_attention_forward as bert_eager
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma2_eager
from transformers.models.llama.modeling_llama import eager_attention_forward as llama_eager

from . import masks

Tensor = Any  # torch is not seen by mypy


def eager(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None, causal: bool = False,
          scale: float | None = None, return_weights: bool = False) -> Tensor:
    """`modeling_llama.eager_attention_forward`, which most decoders share. In evaluation, without gradient."""
    additive = masks.added(masks.visible(query, key, mask, causal), bias, query.dtype)
    return _pair(llama_eager, query, key, value, additive, scaling=_scaling(query, scale), weights=return_weights)


def eager_in_training(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                      causal: bool = False, scale: float | None = None, return_weights: bool = False) -> Tensor:
    """As `eager`, in training with gradient and no dropout."""
    additive = masks.added(masks.visible(query, key, mask, causal), bias, query.dtype)
    query, key, value = (tensor.requires_grad_() for tensor in (query, key, value))
    return _pair(llama_eager, query, key, value, additive, scaling=_scaling(query, scale), weights=return_weights,
                 training=True)


def eager_dropout_in_evaluation(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                                causal: bool = False, scale: float | None = None,
                                return_weights: bool = False) -> Tensor:
    """As `eager`, with a dropout that evaluation switches off."""
    additive = masks.added(masks.visible(query, key, mask, causal), bias, query.dtype)
    return _pair(llama_eager, query, key, value, additive, scaling=_scaling(query, scale), weights=return_weights,
                 dropout=0.5)


def eager_boolean_mask(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
                       scale: float | None = None, return_weights: bool = False) -> Tensor:
    """As `eager`, handed the boolean mask that the other interfaces read as "may attend"."""
    return _pair(llama_eager, query, key, value, masks.visible(query, key, mask, causal),
                 scaling=_scaling(query, scale), weights=return_weights)


def encoder_eager(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                  causal: bool = False, scale: float | None = None, return_weights: bool = False) -> Tensor:
    """`modeling_bert.eager_attention_forward`: softmax in the dtype, as many key/value heads as query heads."""
    additive = masks.added(masks.visible(query, key, mask, causal), bias, query.dtype)
    return _pair(bert_eager, query, key, value, additive, scaling=scale, weights=return_weights)


def capped_eager(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                 causal: bool = False, scale: float | None = None, softcap: float | None = None,
                 return_weights: bool = False) -> Tensor:
    """`modeling_gemma2.eager_attention_forward`, which caps its logits."""
    additive = masks.added(masks.visible(query, key, mask, causal), bias, query.dtype)
    return _pair(gemma2_eager, query, key, value, additive, scaling=_scaling(query, scale), weights=return_weights,
                 softcap=softcap)


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None, causal: bool = False,
         scale: float | None = None) -> Tensor:
    """`ALL_ATTENTION_FUNCTIONS["sdpa"]`: causal as its flag alone, or within the mask. In evaluation."""
    with torch.set_grad_enabled(query.requires_grad):
        return _sdpa(query, key, value, mask, bias, causal=causal, scale=scale)


def sdpa_with_gradient(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                       causal: bool = False, scale: float | None = None) -> Tensor:
    """As `sdpa`, while it records for a backward pass."""
    query, key, value = (tensor.requires_grad_() for tensor in (query, key, value))
    return _sdpa(query, key, value, mask, bias, causal=causal, scale=scale)


def sdpa_causal_by_flag(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                        causal: bool = False, scale: float | None = None) -> Tensor:
    """As `sdpa`, causal as its flag whatever else there is."""
    with torch.set_grad_enabled(query.requires_grad):
        return _attend_by_sdpa(query, key, value, masks.either(mask, bias, query.dtype), scale, causal=causal)


def _sdpa(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, bias: Tensor, *, causal: bool,
          scale: float | None) -> Tensor:
    """As the models do: the flag stands for a mask that would be the causal triangle and nothing else."""
    by_flag = causal and mask is None and bias is None
    attention_mask = masks.either(masks.visible(query, key, mask, causal and not by_flag), bias, query.dtype)
    return _attend_by_sdpa(query, key, value, attention_mask, scale, causal=by_flag)


def _attend_by_sdpa(query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scale: float | None, *,
                    causal: bool) -> Tensor:
    output, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](_module(query, key), query, key, value, attention_mask,
                                                scaling=scale, is_causal=causal)
    return output.transpose(1, 2)


def _pair(function: Any, query: Tensor, key: Tensor, value: Tensor, additive: Tensor, *, scaling: float | None,  # noqa: ANN401  (torch is not seen by mypy)
          weights: bool, training: bool = False, dropout: float = 0.0, **more: Any) -> Tensor:  # noqa: ANN401  (see above)
    with nullcontext() if training else torch.set_grad_enabled(query.requires_grad):
        output, returned = function(_module(query, key, training), query, key, value, additive, scaling=scaling,
                                    dropout=dropout, **more)
    return (output.transpose(1, 2), returned) if weights else output.transpose(1, 2)


def _module(query: Tensor, key: Tensor, training: bool = False) -> SimpleNamespace:
    """What the interfaces ask of the module that calls them."""
    return SimpleNamespace(num_key_value_groups=query.shape[1] // key.shape[1], training=training,
                           head_dim=query.shape[-1], is_causal=False)


def _scaling(query: Tensor, scale: float | None) -> float:
    """What a decoder hands over: 1/sqrt(D) unless told otherwise."""
    return float(query.shape[-1] ** -0.5) if scale is None else scale
