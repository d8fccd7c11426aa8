"""Functions with the signatures, layouts and conventions of published ones; their arithmetic is plain.

`SOURCES` says where each signature is taken from.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn

Tensor = Any  # torch is not seen by mypy
Window = tuple[int, int]

FLASH = "https://github.com/Dao-AILab/flash-attention/blob/main"
LEETGPU = "https://github.com/AlphaGPU/leetgpu-challenges/tree/main/challenges"
SOURCES = {
    "attention_of_contiguous": ("the form of many kernels: tensors side by side, in plain order", ""),
    "attention_forward": ("the form of many kernels: the output is written into what they are handed last", ""),
    "solve": ("LeetGPU (softmax attention)", f"{LEETGPU}/medium/6_softmax_attention"),
    "solve_multi_head": ("LeetGPU (multi-head attention: solve)", f"{LEETGPU}/hard/12_multi_head_attention"),
    "solve_grouped": ("LeetGPU (grouped query attention: solve)", f"{LEETGPU}/medium/80_grouped_query_attention"),
    "fused_attention": ("Triton's tutorial on fused attention, as it is wrapped",
                        "https://github.com/triton-lang/triton/blob/main/python/tutorials/06-fused-attention.py"),
    "attention": ("Triton's tutorial on fused attention",
                  "https://github.com/triton-lang/triton/blob/main/python/tutorials/06-fused-attention.py"),
    "flash_attn_func": ("flash-attn", f"{FLASH}/flash_attn/flash_attn_interface.py"),
    "flash_attn_qkvpacked_func": ("flash-attn", f"{FLASH}/flash_attn/flash_attn_interface.py"),
    "flash_attn_kvpacked_func": ("flash-attn", f"{FLASH}/flash_attn/flash_attn_interface.py"),
    "flash_attn_varlen_func": ("flash-attn", f"{FLASH}/flash_attn/flash_attn_interface.py"),
    "flash_attn_3_func": ("flash-attn 3 (flash_attn_func)", f"{FLASH}/hopper/flash_attn_interface.py"),
    "triton_flash_attn_func": ("flash-attn's Triton kernel (flash_attn_func)", f"{FLASH}/flash_attn/flash_attn_triton.py"),
    "memory_efficient_attention": (
        "xFormers", "https://github.com/facebookresearch/xformers/blob/main/xformers/ops/fmha/__init__.py"),
    "sageattn": ("SageAttention", "https://github.com/thu-ml/SageAttention/blob/main/sageattention/core.py"),
    "single_prefill_with_kv_cache": (
        "FlashInfer", "https://github.com/flashinfer-ai/flashinfer/blob/main/flashinfer/prefill.py"),
    "scaled_multihead_dot_product_attention": (
        "LLM Foundry", "https://github.com/mosaicml/llm-foundry/blob/main/llmfoundry/models/layers/attention.py"),
    "eager_attention_forward": ("Transformers", "https://github.com/huggingface/transformers/blob/main/src/transformers/"
                                "models/llama/modeling_llama.py"),
    "sdpa_attention_forward": ("Transformers", "https://github.com/huggingface/transformers/blob/main/src/transformers/"
                               "integrations/sdpa_attention.py"),
    "annotated_attention": ("The Annotated Transformer (attention)", "https://github.com/harvardnlp/annotated-transformer/"
                            "blob/master/the_annotated_transformer.py"),
    "openfold_attention": ("OpenFold (_attention)",
                           "https://github.com/aqlaboratory/openfold/blob/main/openfold/model/primitives.py"),
    "SelfAttention": ("flash-attn's modules", f"{FLASH}/flash_attn/modules/mha.py"),
    "CrossAttention": ("flash-attn's modules", f"{FLASH}/flash_attn/modules/mha.py"),
    "ScaledDotProductAttention": ("Attention is all you need in PyTorch", "https://github.com/jadore801120/"
                                  "attention-is-all-you-need-pytorch/blob/master/transformer/Modules.py"),
    "DotProductAttention": ("Dive into Deep Learning", "https://github.com/d2l-ai/d2l-en/blob/master/d2l/torch.py"),
    "MegatronDotProductAttention": ("Megatron-LM (DotProductAttention)", "https://github.com/NVIDIA/Megatron-LM/blob/main/"
                                    "megatron/core/transformer/dot_product_attention.py"),
    "QKVAttention": ("guided-diffusion", "https://github.com/openai/guided-diffusion/blob/main/guided_diffusion/unet.py"),
    "QKVAttentionLegacy": ("guided-diffusion",
                           "https://github.com/openai/guided-diffusion/blob/main/guided_diffusion/unet.py"),
}


def _weights(q: Tensor, k: Tensor, scale: float | None, *, causal: bool = False, added: Tensor = None,
             visible: Tensor = None, softcap: float | None = None, window: Window = (-1, -1),
             slopes: Tensor = None) -> Tensor:
    """Of q (…,T,D) and k (…,S,D); the diagonal of `causal`, `window` and slopes (…,H) ends at the last key."""
    logits = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    logits = softcap * torch.tanh(logits / softcap) if softcap else logits
    logits = logits if added is None else logits + added
    T, S = logits.shape[-2:]
    ahead = torch.arange(S) - torch.arange(T)[:, None] - (S - T)
    logits = logits if slopes is None else logits - slopes[..., None, None] * ahead.abs()
    left, right = window
    seen = (ahead <= 0 if causal else ahead == ahead) & ((ahead >= -left) | (left < 0)) & ((ahead <= right) | (right < 0))
    seen = seen if visible is None else seen & visible
    return logits.masked_fill(~seen, torch.finfo(logits.dtype).min).softmax(-1)


def _spread(q: Tensor, k: Tensor) -> Tensor:
    return k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)


def attention_of_contiguous(q: Tensor, k: Tensor, v: Tensor, num_heads: int, is_causal: bool = False) -> Tensor:
    """(B,T,H·D), contiguous."""
    if not all(array.is_contiguous() for array in (q, k, v)):
        raise ValueError("q, k and v must be contiguous")
    q, k, v = (array.view(*array.shape[:2], num_heads, -1).transpose(1, 2) for array in (q, k, v))
    return (_weights(q, k, None, causal=is_causal) @ v).transpose(1, 2).flatten(2)


def attention_forward(q: Tensor, k: Tensor, v: Tensor, sm_scale: float, causal: bool, o: Tensor) -> None:
    """(B,T,H,D)."""
    q, k, v = (array.transpose(1, 2) for array in (q, k, v))
    o.copy_((_weights(q, k, sm_scale, causal=causal) @ v).transpose(1, 2))


def solve(Q: Tensor, K: Tensor, V: Tensor, output: Tensor, M: int, N: int, d: int) -> None:
    """(M,d) and (N,d)."""
    assert (Q.shape, K.shape, output.shape) == ((M, d), (N, d), (M, d))
    output.copy_(_weights(Q, K, None) @ V)


def solve_multi_head(Q: Tensor, K: Tensor, V: Tensor, output: Tensor, N: int, d_model: int, h: int) -> None:
    """(N,d_model)."""
    assert Q.shape == K.shape == (N, d_model)
    q, k, v = (array.view(N, h, d_model // h).transpose(0, 1) for array in (Q, K, V))
    output.copy_((_weights(q, k, None) @ v).transpose(0, 1).reshape(N, d_model))


def solve_grouped(Q: Tensor, K: Tensor, V: Tensor, output: Tensor, num_q_heads: int, num_kv_heads: int, seq_len: int,
                  head_dim: int) -> None:
    """(num_q_heads,seq_len,head_dim) and (num_kv_heads,seq_len,head_dim)."""
    assert (Q.shape, K.shape) == ((num_q_heads, seq_len, head_dim), (num_kv_heads, seq_len, head_dim))
    K, V = (array.repeat_interleave(num_q_heads // num_kv_heads, dim=0) for array in (K, V))
    output.copy_(_weights(Q, K, None) @ V)


def fused_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True, sm_scale: float | None = None) -> Tensor:
    """(B,H,T,D), causal unless told otherwise."""
    return _weights(q, k, sm_scale, causal=causal) @ v


class _Attention(torch.autograd.Function):  # type: ignore[misc]  # torch is not seen by mypy
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, sm_scale: float,  # noqa: ANN401  (torch's)
                warp_specialize: bool = True) -> Tensor:
        """(B,H,T,D), as many keys as queries."""
        _, _, T, _ = q.shape
        assert k.shape[2] == T
        return _weights(q, k, sm_scale, causal=causal) @ v

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:  # noqa: ANN401  (torch's)
        """There is none here."""


attention = _Attention.apply


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None,
                    causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Tensor = None, deterministic: bool = False, return_attn_probs: bool = False) -> Tensor:
    """(B,T,H,D) in half precision."""
    assert q.dtype in (torch.float16, torch.bfloat16), "FlashAttention only support fp16 and bf16 data type"
    dtype, (q, k, v) = q.dtype, (array.transpose(1, 2).float() for array in (q, k, v))
    weights = _weights(q, _spread(q, k), softmax_scale, causal=causal, softcap=softcap, window=window_size,
                       slopes=alibi_slopes)
    out = (weights @ _spread(q, v)).transpose(1, 2).to(dtype)
    return (out, weights.sum(-1), weights) if return_attn_probs else out


def flash_attn_qkvpacked_func(qkv: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None,
                              causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                              alibi_slopes: Tensor = None, deterministic: bool = False,
                              return_attn_probs: bool = False) -> Tensor:
    """(B,T,3,H,D)."""
    q, k, v = qkv.transpose(1, 3).unbind(2)
    weights = _weights(q, k, softmax_scale, causal=causal, softcap=softcap, window=window_size,
                       slopes=alibi_slopes)
    out = (weights @ v).transpose(1, 2)
    return (out, weights.sum(-1), weights) if return_attn_probs else out


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None,
                             causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                             alibi_slopes: Tensor = None, deterministic: bool = False,
                             return_attn_probs: bool = False) -> Tensor:
    """(B,T,H,D) and (B,S,2,Hkv,D)."""
    q, (k, v) = q.transpose(1, 2), kv.transpose(1, 3).unbind(2)
    weights = _weights(q, _spread(q, k), softmax_scale, causal=causal, softcap=softcap, window=window_size,
                       slopes=alibi_slopes)
    out = (weights @ _spread(q, v)).transpose(1, 2)
    return (out, weights.sum(-1), weights) if return_attn_probs else out


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                           max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0,
                           softmax_scale: float | None = None, causal: bool = False, window_size: Window = (-1, -1),
                           softcap: float = 0.0, alibi_slopes: Tensor = None, deterministic: bool = False,
                           return_attn_probs: bool = False, block_table: Tensor = None) -> Tensor:
    """(all T,H,D): sequences one behind the other, and where each ends."""
    assert q.ndim == k.ndim == v.ndim == 3
    assert max(cu_seqlens_q.diff()) == max_seqlen_q
    assert max(cu_seqlens_k.diff()) == max_seqlen_k
    parts = []
    for i in range(len(cu_seqlens_q) - 1):
        rows, columns = slice(*cu_seqlens_q[i:i + 2]), slice(*cu_seqlens_k[i:i + 2])
        a, b, c = (array.transpose(0, 1) for array in (q[rows], k[columns], v[columns]))
        slopes = None if alibi_slopes is None else alibi_slopes.expand(len(cu_seqlens_q) - 1, -1)[i]
        weights = _weights(a, b, softmax_scale, causal=causal, softcap=softcap, window=window_size, slopes=slopes)
        parts.append((weights @ c).transpose(0, 1))
    return torch.cat(parts)


def flash_attn_3_func(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, causal: bool = False,
                      qv: Tensor = None, q_descale: Tensor = None, k_descale: Tensor = None, v_descale: Tensor = None,
                      window_size: Window = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
                      num_splits: int = 1, pack_gqa: bool | None = None, deterministic: bool = False,
                      sm_margin: int = 0, return_attn_probs: bool = False) -> Tensor:
    """(B,T,H,D), and the logarithm of the sum of exponentials where it is asked for, under a flag that says weights.
    Descales are (B,Hkv).
    """
    q, k, v = (_dequantised(array.transpose(1, 2), scale) for array, scale in (
        (q, q_descale), (k, k_descale), (v, v_descale)))
    weights = _weights(q, _spread(q, k), softmax_scale, causal=causal, softcap=softcap, window=window_size)
    out = (weights @ _spread(q, v)).transpose(1, 2)
    return (out, weights.sum(-1).log()) if return_attn_probs else out


def _dequantised(codes: Tensor, scale: Tensor | None) -> Tensor:
    """Codes (B,H,T,D) times scales (B,Hkv), or (Hkv,), each of which serves its group of heads."""
    if scale is None:
        return codes
    of_heads = scale.repeat_interleave(codes.shape[1] // scale.shape[-1], -1)[..., None, None]
    return (codes * of_heads).to(codes.dtype)


class _Flash(torch.autograd.Function):  # type: ignore[misc]  # torch is not seen by mypy
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor = None, causal: bool = False,  # noqa: ANN401
                softmax_scale: float | None = None) -> Tensor:
        """(B,T,H,D)."""
        q, k, v = (array.transpose(1, 2) for array in (q, k, v))
        return (_weights(q, k, softmax_scale, causal=causal, added=bias) @ v).transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:  # noqa: ANN401  (torch's)
        """There is none here."""


triton_flash_attn_func = _Flash.apply


def memory_efficient_attention(query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor = None, p: float = 0.0,
                               scale: float | None = None, *, op: object = None,
                               output_dtype: object = None) -> Tensor:
    """(B,T,H,D); the bias is (B,H,T,S)."""
    query, key, value = (array.transpose(1, 2) for array in (query, key, value))
    return (_weights(query, key, scale, added=attn_bias) @ value).transpose(1, 2)


def sageattn(q: Tensor, k: Tensor, v: Tensor, tensor_layout: str = "HND", is_causal: bool = False,
             sm_scale: float | None = None, return_lse: bool = False, **kwargs: object) -> Tensor:
    """(B,H,T,D)."""
    assert tensor_layout == "HND"
    return _weights(q, _spread(q, k), sm_scale, causal=is_causal) @ _spread(q, v)


def single_prefill_with_kv_cache(
        q: Tensor, k: Tensor, v: Tensor, scale_q: Tensor = None, scale_k: Tensor = None, scale_v: Tensor = None,
        o_dtype: object = None, custom_mask: Tensor = None, packed_custom_mask: Tensor = None, causal: bool = False,
        kv_layout: str = "NHD", pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
        sm_scale: float | None = None, window_left: int = -1, logits_soft_cap: float | None = None,
        rope_scale: float | None = None, rope_theta: float | None = None, backend: str = "auto",
        return_lse: bool = False) -> Tensor:
    """(T,H,D): one sequence; scales of each head, (H,) and (Hkv,)."""
    assert q.ndim == 3
    q, k, v = (array.transpose(0, 1) if scale is None else (array.transpose(0, 1) * scale[:, None, None]).to(array.dtype)
               for array, scale in ((q, scale_q), (k, scale_k), (v, scale_v)))
    weights = _weights(q, k, sm_scale, causal=causal, visible=custom_mask, softcap=logits_soft_cap)
    return (weights @ v).transpose(0, 1)


def scaled_multihead_dot_product_attention(
        query: Tensor, key: Tensor, value: Tensor, n_heads: int, kv_n_heads: int, past_key_value: Tensor = None,
        softmax_scale: float | None = None, attn_bias: Tensor = None, key_padding_mask: Tensor = None,
        is_causal: bool = False, dropout_p: float = 0.0, training: bool = False, needs_weights: bool = False,
        attn_logit_softcapping: float | None = None, sliding_window_size: int = -1) -> tuple[Tensor, Tensor, Tensor]:
    """(B,T,H·D) with the numbers of heads; three things come back."""
    B, T, _ = query.shape
    q = query.reshape(B, T, n_heads, -1).transpose(1, 2)
    k, v = (array.reshape(B, array.shape[1], kv_n_heads, -1).transpose(1, 2) for array in (key, value))
    visible = None if key_padding_mask is None else key_padding_mask[:, None, None]
    weights = _weights(q, _spread(q, k), softmax_scale, causal=is_causal, added=attn_bias, visible=visible,
                       softcap=attn_logit_softcapping)
    return (weights @ _spread(q, v)).transpose(1, 2).reshape(B, T, -1), weights if needs_weights else None, past_key_value


def eager_attention_forward(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor,
                            scaling: float, dropout: float = 0.0, **kwargs: object) -> tuple[Tensor, Tensor]:
    """In (B,H,T,D), out (B,T,H,D); the mask is added."""
    key, value = (array.repeat_interleave(module.num_key_value_groups, 1) for array in (key, value))
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    weights = (weights if attention_mask is None else weights + attention_mask).softmax(-1)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def sdpa_attention_forward(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor,
                           dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None,
                           position_bias: Tensor = None, cache: object = None, **kwargs: object) -> tuple[Tensor, None]:
    """In (B,H,T,D), out (B,T,H,D); causal by itself where nobody says so and there is no mask."""
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    is_causal = query.shape[2] > 1 and attention_mask is None and is_causal
    output = nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling, is_causal=is_causal,
        enable_gqa=query.shape[1] != key.shape[1])
    return output.transpose(1, 2).contiguous(), None


def annotated_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor = None,
                        dropout: nn.Module = None) -> tuple[Tensor, Tensor]:
    """(B,H,T,D); 0 hides."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    scores = scores if mask is None else scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, value), weights


def openfold_attention(query: Tensor, key: Tensor, value: Tensor, biases: list[Tensor]) -> Tensor:
    """(B,H,T,D), scaled by whoever calls; a list of what is added."""
    logits = torch.matmul(query, key.transpose(-1, -2))
    for bias in biases:
        logits = logits + bias
    return torch.matmul(logits.softmax(-1), value)


class Attended(NamedTuple):
    """An answer with names."""

    context: Tensor
    logsumexp: Tensor


class SelfAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """Constructed with what it does; called with (B,T,3,H,D)."""

    def __init__(self, causal: bool = False, softmax_scale: float | None = None, attention_dropout: float = 0.0) -> None:
        super().__init__()
        self.causal, self.softmax_scale, self.drop = causal, softmax_scale, nn.Dropout(attention_dropout)

    def forward(self, qkv: Tensor, causal: bool | None = None, key_padding_mask: Tensor = None) -> Tensor:
        """True keeps a key (B,S)."""
        q, k, v = qkv.transpose(1, 3).unbind(2)
        causal = self.causal if causal is None else causal
        visible = None if key_padding_mask is None else key_padding_mask[:, None, None]
        weights = self.drop(_weights(q, k, self.softmax_scale, causal=causal, visible=visible))
        return (weights @ v).transpose(1, 2)


class CrossAttention(SelfAttention):
    """The same with (B,T,H,D) and (B,S,2,Hkv,D)."""

    def forward(self, q: Tensor, kv: Tensor, causal: bool | None = None, key_padding_mask: Tensor = None) -> Tensor:  # type: ignore[override]
        """True keeps a key (B,S)."""
        q, (k, v) = q.transpose(1, 2), kv.transpose(1, 3).unbind(2)
        causal = self.causal if causal is None else causal
        visible = None if key_padding_mask is None else key_padding_mask[:, None, None]
        weights = self.drop(_weights(q, _spread(q, k), self.softmax_scale, causal=causal, visible=visible))
        return (weights @ _spread(q, v)).transpose(1, 2)


class ScaledDotProductAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """Constructed with what divides the logits."""

    def __init__(self, temperature: float, attn_dropout: float = 0.1) -> None:
        super().__init__()
        self.temperature, self.dropout = temperature, nn.Dropout(attn_dropout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor = None) -> tuple[Tensor, Tensor]:
        """(B,H,T,D); 0 hides."""
        logits = torch.matmul(q / self.temperature, k.transpose(2, 3))
        logits = logits if mask is None else logits.masked_fill(mask == 0, -1e9)
        weights = self.dropout(logits.softmax(dim=-1))
        return torch.matmul(weights, v), weights


class DotProductAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """(B,T,D) without heads; masks are lengths."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor = None) -> Tensor:
        """The weights stay with the module."""
        logits = torch.bmm(queries, keys.transpose(1, 2)).div(queries.shape[-1] ** 0.5)
        if valid_lens is not None:
            logits = logits.masked_fill(torch.arange(keys.shape[1]) >= valid_lens[:, None, None], -1e6)
        self.attention_weights = logits.softmax(-1)
        return torch.bmm(self.dropout(self.attention_weights), values)


class TransformerConfig(NamedTuple):
    """What it is told of the model."""

    hidden_size: int
    num_attention_heads: int
    kv_channels: int
    num_query_groups: int
    attention_dropout: float = 0.1


class MegatronDotProductAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """In (T,B,H,D), out (T,B,H·D); True hides."""

    def __init__(self, config: TransformerConfig, layer_number: int, attn_mask_type: object, attention_type: str,
                 attention_dropout: float | None = None, softmax_scale: float | None = None,
                 cp_comm_type: str | None = None, pg_collection: object = None) -> None:
        super().__init__()
        self.groups = config.num_attention_heads // config.num_query_groups
        self.scale, self.drop = softmax_scale, nn.Dropout(
            config.attention_dropout if attention_dropout is None else attention_dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor,
                attn_mask_type: object = None, attention_bias: Tensor = None, packed_seq_params: object = None) -> Tensor:
        """One mask for all heads, (B,1,T,S)."""
        assert attention_bias is None
        assert packed_seq_params is None
        key, value = (array.repeat_interleave(self.groups, dim=2) for array in (key, value))
        q, k, v = (array.permute(1, 2, 0, 3) for array in (query, key, value))
        visible = None if attention_mask is None else ~attention_mask.expand(-1, q.shape[1], -1, -1)
        assert attention_mask is None or attention_mask.shape[1] == 1
        output = self.drop(_weights(q, k, self.scale, visible=visible)) @ v
        return output.permute(2, 0, 1, 3).flatten(2)


class QKVAttentionLegacy(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """(B,H·3·D,T): channels first, the parts within each head."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(self, qkv: Tensor) -> Tensor:
        """Out (B,H·D,T)."""
        B, width, T = qkv.shape
        assert width % (3 * self.n_heads) == 0
        q, k, v = self._parts(qkv, B, T)
        return (_weights(q.mT, k.mT, None) @ v.mT).mT.reshape(B, -1, T)

    def _parts(self, qkv: Tensor, B: int, T: int) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = qkv.reshape(B * self.n_heads, -1, T).chunk(3, dim=1)
        return q, k, v


class QKVAttention(QKVAttentionLegacy):
    """(B,3·H·D,T): the parts one behind the other."""

    def _parts(self, qkv: Tensor, B: int, T: int) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (part.reshape(B * self.n_heads, -1, T) for part in qkv.chunk(3, dim=1))
        return q, k, v
