"""The attention modules of LLaMA, Mistral and Gemma 2 with given parameters, eager and in evaluation, nothing rotated.

They attend to their own input. So the model is at least three times as wide as asked for, and a multiple of the number
of heads, as a config has to be: query, key and value stand side by side in its columns, each projection reads its own,
and the output is written to the first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping

import torch
from transformers import Gemma2Config, LlamaConfig, MistralConfig
from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.mistral.modeling_mistral import MistralAttention

Tensor = Any  # torch is not seen by mypy
Dtype = Any
Module = Any
Params = Mapping[str, Tensor]

PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
KINDS = {"llama": (LlamaConfig, LlamaAttention), "mistral": (MistralConfig, MistralAttention),
         "gemma2": (Gemma2Config, Gemma2Attention)}


class Unturned:
    """A module that asks for angles, called with none: every cosine is 1 and every sine is 0."""

    def __init__(self, module: Module, width: int) -> None:
        self.module, self.width = module, width

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **told: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401  (what a module is told)
        """Three (B,T,M) to (B,T,M), and weights (B,H,T,slots)."""
        shape = (*query.shape[:2], self.module.head_dim)
        angles = torch.ones(shape, dtype=query.dtype), torch.zeros(shape, dtype=query.dtype)
        X = torch.cat([query, key, value], dim=-1)
        X = torch.nn.functional.pad(X, (0, self.module.q_proj.in_features - X.shape[2]))
        output, weights = self.module(X, position_embeddings=angles, **told)
        return output[..., :self.width], weights


def filled(kind: str, query: Tensor, params: Params, heads: int, softcap: float | None = None) -> Unturned:
    """The module of that kind with these parameters."""
    M, width = query.shape[2], params["w_query"].shape[1] // heads
    module = _empty(kind, M, heads, params["w_key"].shape[1] // width, width, softcap=softcap, dtype=query.dtype)
    with torch.no_grad():
        for place, (name, linear) in enumerate(PARTS.items()):
            _fill(getattr(module, linear), params, name, columns=slice(place * M, place * M + M))
        module.o_proj.weight[:M] = params["w_out"].T
        if module.o_proj.bias is not None:
            module.o_proj.bias[:M] = params["b_out"]
    return Unturned(module, M)


def _fill(linear: Module, params: Params, name: str, columns: slice) -> None:
    """`w_<name>` into these columns of a Linear, whose weight is (out,in), and `b_<name>` if it has a bias."""
    linear.weight[:, columns] = params[f"w_{name}"].T
    if linear.bias is not None:
        linear.bias.copy_(params[f"b_{name}"])


@lru_cache(maxsize=64)
def _empty(kind: str, M: int, heads: int, kv_heads: int, head_dim: int, *, softcap: float | None,
           dtype: Dtype) -> Module:
    """All parameters zero. What only one kind knows, the others keep and do not read."""
    config, attention = KINDS[kind]
    module = attention(config(
        hidden_size=-(-3 * M // heads) * heads, num_attention_heads=heads, num_key_value_heads=kv_heads,
        head_dim=head_dim, query_pre_attn_scalar=head_dim, attn_logit_softcapping=softcap, attention_bias=True,
        attn_implementation="eager"), layer_idx=0).to(dtype).eval()
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return module
