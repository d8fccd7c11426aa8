"""Layers of PyTorch with the constructors, calls, parameters and conventions of published ones; their arithmetic is plain.

`SOURCES` says where each is taken from.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Tensor = Any  # torch is not seen by mypy

GITHUB = "https://github.com"
SOURCES = {
    "MultiHeadedAttention": ("The Annotated Transformer",
                             f"{GITHUB}/harvardnlp/annotated-transformer/blob/master/the_annotated_transformer.py"),
    "EspnetMultiHeadedAttention": ("ESPnet (MultiHeadedAttention)", f"{GITHUB}/espnet/espnet/blob/master/espnet/nets/"
                                   "pytorch_backend/transformer/attention.py"),
    "OnmtMultiHeadedAttention": ("OpenNMT-py (MultiHeadedAttention)",
                                 f"{GITHUB}/OpenNMT/OpenNMT-py/blob/master/onmt/modules/multi_headed_attn.py"),
    "FairseqMultiheadAttention": ("fairseq (MultiheadAttention)",
                                  f"{GITHUB}/facebookresearch/fairseq/blob/main/fairseq/modules/multihead_attention.py"),
    "WhisperMultiHeadAttention": ("Whisper (MultiHeadAttention)",
                                  f"{GITHUB}/openai/whisper/blob/main/whisper/model.py"),
    "Attention": ("Segment Anything",
                  f"{GITHUB}/facebookresearch/segment-anything/blob/main/segment_anything/modeling/transformer.py"),
    "CrossAttention": ("latent-diffusion", f"{GITHUB}/CompVis/latent-diffusion/blob/main/ldm/modules/attention.py"),
    "DinoAttention": ("DINOv2 (Attention)",
                      f"{GITHUB}/facebookresearch/dinov2/blob/main/dinov2/layers/attention.py"),
    "ViTAttention": ("vit-pytorch (Attention)",
                     f"{GITHUB}/lucidrains/vit-pytorch/blob/main/vit_pytorch/simple_vit.py"),
    "MultiHeadAttention": ("LLMs from scratch", f"{GITHUB}/rasbt/LLMs-from-scratch/blob/main/pkg/llms_from_scratch/ch03.py"),
    "D2lMultiHeadAttention": ("Dive into Deep Learning (MultiHeadAttention)",
                              f"{GITHUB}/d2l-ai/d2l-en/blob/master/d2l/torch.py"),
    "TorchtuneMultiHeadAttention": ("torchtune (MultiHeadAttention)",
                                    f"{GITHUB}/meta-pytorch/torchtune/blob/main/torchtune/modules/attention.py"),
    "CausalSelfAttention": ("nanoGPT", f"{GITHUB}/karpathy/nanoGPT/blob/master/model.py"),
    "MinCausalSelfAttention": ("minGPT (CausalSelfAttention)", f"{GITHUB}/karpathy/minGPT/blob/master/mingpt/model.py"),
    "GptFastAttention": ("gpt-fast (Attention)", f"{GITHUB}/meta-pytorch/gpt-fast/blob/main/model.py"),
    "LlamaAttention": ("Transformers", f"{GITHUB}/huggingface/transformers/blob/main/src/transformers/models/llama/"
                       "modeling_llama.py"),
    "BertSelfAttention": ("Transformers", f"{GITHUB}/huggingface/transformers/blob/main/src/transformers/models/bert/"
                          "modeling_bert.py"),
    "GPTNeoXAttention": ("Transformers", f"{GITHUB}/huggingface/transformers/blob/main/src/transformers/models/gpt_neox/"
                         "modeling_gpt_neox.py"),
}


def _split(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)


def _merged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _attended(q: Tensor, k: Tensor, v: Tensor, visible: Tensor = None, added: Tensor = None) -> tuple[Tensor, Tensor]:
    logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    logits = logits if added is None else logits + added
    logits = logits if visible is None else logits.masked_fill(~visible, torch.finfo(q.dtype).min)
    weights = logits.softmax(-1)
    return weights @ v, weights


class Four(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """What several have in common: four projections under names of their own."""

    def _project(self, names: tuple[str, ...], width: int, *, bias: bool = True) -> None:
        for name in names:
            setattr(self, name, nn.Linear(width, width, bias=bias))


class MultiHeadedAttention(nn.Module):  # type: ignore[misc]
    """Four projections in a list; one mask for all heads, 0 hides."""

    def __init__(self, h: int, d_model: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.h, self.dropout = h, nn.Dropout(p=dropout)
        self.linears = nn.ModuleList(copy.deepcopy(nn.Linear(d_model, d_model)) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor = None) -> Tensor:
        """(B,T,M)."""
        q, k, v = (_split(linear(x), self.h) for linear, x in zip(self.linears, (query, key, value), strict=False))
        output, self.attn = _attended(q, k, v, None if mask is None else mask.unsqueeze(1) != 0)
        return self.linears[-1](_merged(output))


class EspnetMultiHeadedAttention(Four):
    """A mask that has to be given, and may be None."""

    def __init__(self, n_head: int, n_feat: int, dropout_rate: float) -> None:
        super().__init__()
        self._project(("linear_q", "linear_k", "linear_v", "linear_out"), n_feat)
        self.h, self.dropout = n_head, nn.Dropout(p=dropout_rate)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """(B,T,M); the mask is (B,T,S), 0 hides."""
        q, k, v = (_split(x, self.h) for x in (self.linear_q(query), self.linear_k(key), self.linear_v(value)))
        output, weights = _attended(q, k, v, None if mask is None else mask.unsqueeze(1).ne(0))
        self.attn = self.dropout(weights)
        return self.linear_out(_merged(output))


class OnmtMultiHeadedAttention(Four):
    """Called with key, value, query; True hides; a pair comes back."""

    def __init__(self, head_count: int, model_dim: int, dropout: float = 0.1, is_decoder: bool = True,
                 max_relative_positions: int = 0, attn_type: str | None = None, add_qkvbias: bool = False,
                 num_kv: int = 0) -> None:
        super().__init__()
        self._project(("linear_keys", "linear_values", "linear_query", "final_linear"), model_dim, bias=add_qkvbias)
        self.head_count, self.dropout = head_count, nn.Dropout(dropout)

    def forward(self, key: Tensor, value: Tensor, query: Tensor, mask: Tensor = None, sliding_window: int = 0,
                step: int = 0, return_attn: bool = False, self_attn_type: str | None = None) -> tuple[Tensor, Tensor]:
        """(B,T,M); the mask is (B,1,T,S)."""
        given = (self.linear_query(query), self.linear_keys(key), self.linear_values(value))
        visible = None if mask is None else ~mask.expand(-1, self.head_count, -1, -1)
        q, k, v = (_split(x, self.head_count) for x in given)
        output, weights = _attended(q, k, v, visible)
        return self.final_linear(_merged(output)), weights if return_attn else None


class FairseqMultiheadAttention(Four):
    """(T,B,M); a mask (T,S) that is added, and one of keys, True hides."""

    def __init__(self, embed_dim: int, num_heads: int, kdim: int | None = None, vdim: int | None = None,
                 dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False, add_zero_attn: bool = False,
                 self_attention: bool = False, encoder_decoder_attention: bool = False, dictionary: object = None,
                 q_noise: float = 0.0, qn_block_size: int = 8) -> None:
        super().__init__()
        self._project(("k_proj", "v_proj", "q_proj", "out_proj"), embed_dim, bias=bias)
        self.num_heads = num_heads

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor = None,
                incremental_state: object = None, need_weights: bool = True, static_kv: bool = False,
                attn_mask: Tensor = None, before_softmax: bool = False,
                need_head_weights: bool = False) -> tuple[Tensor, Tensor]:
        """Averaged weights unless those of heads are asked for."""
        T, B, M = query.shape
        assert attn_mask is None or (attn_mask.shape == (T, key.shape[0]) and attn_mask.is_floating_point())
        given = (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        q, k, v = (_split(x.transpose(0, 1), self.num_heads) for x in given)
        hidden = None if key_padding_mask is None else ~key_padding_mask.to(torch.bool)[:, None, None]
        output, weights = _attended(q, k, v, hidden, attn_mask)
        weights = (weights.transpose(0, 1) if need_head_weights else weights.mean(1)) if need_weights else None
        return self.out_proj(_merged(output).transpose(0, 1)), weights


class WhisperMultiHeadAttention(nn.Module):  # type: ignore[misc]
    """No bias of the key; a mask (T,S) that is added; logits come back beside the output."""

    def __init__(self, n_state: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.query, self.value, self.out = (nn.Linear(n_state, n_state) for _ in range(3))
        self.key = nn.Linear(n_state, n_state, bias=False)

    def forward(self, x: Tensor, xa: Tensor = None, mask: Tensor = None,
                kv_cache: dict[nn.Module, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(B,T,M); without scaled_dot_product_attention."""
        held = x if xa is None else xa
        q, k, v = (_split(each, self.n_head) for each in (self.query(x), self.key(held), self.value(held)))
        logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        logits = logits if mask is None else logits + mask[:x.shape[1], :x.shape[1]]
        return self.out(_merged(logits.softmax(-1) @ v)), logits.detach()


class Attention(Four):
    """q, k, v and no mask."""

    def __init__(self, embedding_dim: int, num_heads: int, downsample_rate: int = 1) -> None:
        super().__init__()
        self._project(("q_proj", "k_proj", "v_proj", "out_proj"), embedding_dim)
        self.num_heads = num_heads

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B,T,M)."""
        given = (self.q_proj(q), self.k_proj(k), self.v_proj(v))
        return self.out_proj(_merged(_attended(*(_split(x, self.num_heads) for x in given))[0]))


class CrossAttention(nn.Module):  # type: ignore[misc]
    """Heads of a width of their own; one mask of keys."""

    def __init__(self, query_dim: int, context_dim: int | None = None, heads: int = 8, dim_head: int = 64,
                 dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (
            nn.Linear(width, heads * dim_head, bias=False)
            for width in (query_dim, *[context_dim or query_dim] * 2))
        self.to_out = nn.Sequential(nn.Linear(heads * dim_head, query_dim), nn.Dropout(dropout))

    def forward(self, x: Tensor, context: Tensor = None, mask: Tensor = None) -> Tensor:
        """(B,T,M); the mask is (B,S), True keeps."""
        context = x if context is None else context
        given = (self.to_q(x), self.to_k(context), self.to_v(context))
        visible = None if mask is None else mask.reshape(len(mask), -1)[:, None, None]
        q, k, v = (_split(each, self.heads) for each in given)
        return self.to_out(_merged(_attended(q, k, v, visible)[0]))


class DinoAttention(nn.Module):  # type: ignore[misc]
    """One matrix for all three, a flag for causal."""

    def __init__(self, dim: int, num_heads: int = 8, qkv_bias: bool = False, proj_bias: bool = True,
                 attn_drop: float = 0.0, proj_drop: float = 0.0) -> None:
        super().__init__()
        self.num_heads, self.proj_drop = num_heads, nn.Dropout(proj_drop)
        self.qkv, self.proj = nn.Linear(dim, dim * 3, bias=qkv_bias), nn.Linear(dim, dim, bias=proj_bias)

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        """(B,T,M)."""
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj_drop(self.proj(_merged(F.scaled_dot_product_attention(q, k, v, is_causal=is_causal))))


class ViTAttention(nn.Module):  # type: ignore[misc]
    """It normalises its input first."""

    def __init__(self, dim: int, heads: int = 8, dim_head: int = 64) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B,T,M)."""
        given = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        return self.to_out(_merged(_attended(*(_split(each, self.heads) for each in given))[0]))


class MultiHeadAttention(nn.Module):  # type: ignore[misc]
    """Always causal: the triangle is made once, of the longest context."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int,
                 qkv_bias: bool = False) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x: Tensor) -> Tensor:
        """(B,T,M)."""
        T, given = x.shape[1], (self.W_query(x), self.W_key(x), self.W_value(x))
        q, k, v = (_split(each, self.num_heads) for each in given)
        output, _ = _attended(q, k, v, ~self.mask.bool()[:T, :T])
        return self.out_proj(_merged(output))


class D2lMultiHeadAttention(nn.Module):  # type: ignore[misc]
    """Its projections learn their widths from the first call; masks are lengths, which have to be given."""

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float, bias: bool = False, **kwargs: object) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.LazyLinear(num_hiddens, bias=bias) for _ in range(4))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor) -> Tensor:
        """(B,T,M)."""
        given = (self.W_q(queries), self.W_k(keys), self.W_v(values))
        return self.W_o(_merged(_attended(*(_split(each, self.num_heads) for each in given))[0]))


class TorchtuneMultiHeadAttention(nn.Module):  # type: ignore[misc]
    """Its projections are made by whoever makes it; causal by default, with grouped heads."""

    def __init__(self, *, embed_dim: int, num_heads: int, num_kv_heads: int, head_dim: int, q_proj: nn.Module,
                 k_proj: nn.Module, v_proj: nn.Module, output_proj: nn.Module, pos_embeddings: nn.Module = None,
                 q_norm: nn.Module = None, k_norm: nn.Module = None, kv_cache: object = None, max_seq_len: int = 4096,
                 is_causal: bool = True, attn_dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.is_causal = num_heads, num_kv_heads, is_causal
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = q_proj, k_proj, v_proj, output_proj

    def forward(self, x: Tensor, y: Tensor = None, *, mask: Tensor = None, input_pos: Tensor = None) -> Tensor:
        """(B,T,M); y is what it attends to, and has to be given; the mask is (B,T,S)."""
        q, k, v = self.q_proj(x), self.k_proj(y), self.v_proj(y)
        q, (k, v) = _split(q, self.num_heads), (_split(each, self.num_kv_heads) for each in (k, v))
        is_causal = self.is_causal and mask is None
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask[:, None],
                                                is_causal=is_causal, enable_gqa=True)
        return self.output_proj(_merged(output))


class CausalSelfAttention(nn.Module):  # type: ignore[misc]
    """Whatever config it is given; always causal."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401  (any object with these attributes)
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x: Tensor) -> Tensor:
        """(B,T,M)."""
        q, k, v = (_split(each, self.n_head) for each in self.c_attn(x).split(self.n_embd, dim=2))
        return self.c_proj(_merged(F.scaled_dot_product_attention(q, k, v, dropout_p=0, is_causal=True)))


class MinCausalSelfAttention(nn.Module):  # type: ignore[misc]
    """As long as its config says."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(config.n_embd, 3 * config.n_embd), nn.Linear(config.n_embd, config.n_embd)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.attn_pdrop), nn.Dropout(config.resid_pdrop)
        self.register_buffer("bias", torch.ones(config.block_size, config.block_size).tril())
        self.n_head, self.n_embd = config.n_head, config.n_embd

    def forward(self, x: Tensor) -> Tensor:
        """(B,T,M)."""
        T = x.shape[1]
        q, k, v = (_split(each, self.n_head) for each in self.c_attn(x).split(self.n_embd, dim=2))
        return self.resid_dropout(self.c_proj(_merged(_attended(q, k, v, self.bias[:T, :T] != 0)[0])))


@dataclass
class ModelArgs:
    """gpt-fast's."""

    block_size: int = 2048
    vocab_size: int = 32000
    n_layer: int = 32
    n_head: int = 32
    dim: int = 4096
    n_local_heads: int = -1
    head_dim: int = 64
    rope_base: float = 10000
    norm_eps: float = 1e-5


class GptFastAttention(nn.Module):  # type: ignore[misc]
    """An annotated config, grouped heads in one matrix, rotary embedding by numbers that have to be given."""

    def __init__(self, config: ModelArgs) -> None:
        super().__init__()
        self.kv_size, self.dim = config.n_local_heads * config.head_dim, config.dim
        self.wqkv = nn.Linear(config.dim, config.dim + 2 * self.kv_size, bias=False)
        self.wo = nn.Linear(config.dim, config.dim, bias=False)
        self.n_head, self.n_local_heads = config.n_head, config.n_local_heads

    def forward(self, x: Tensor, freqs_cis: Tensor, mask: Tensor, input_pos: Tensor = None) -> Tensor:
        """(B,T,M)."""
        q, k, v = self.wqkv(x).split([self.dim, self.kv_size, self.kv_size], dim=-1)
        q, k, v = _split(q, self.n_head), _split(k, self.n_local_heads), _split(v, self.n_local_heads)
        q, k = (_turned(each, freqs_cis[:, :, 0], freqs_cis[:, :, 1]) for each in (q, k))
        return self.wo(_merged(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)))


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of neighbours turned."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


@dataclass
class LlamaConfig:
    """Of Transformers' many fields, those that its attention reads."""

    hidden_size: int = 4096
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0
    max_position_embeddings: int = 2048
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1


class LlamaAttention(nn.Module):  # type: ignore[misc]
    """Cosines and sines have to be given; the mask is added; the weights come back."""

    def __init__(self, config: LlamaConfig, layer_idx: int) -> None:
        super().__init__()
        D = config.head_dim or config.hidden_size // config.num_attention_heads
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads or config.num_attention_heads
        self.heads, self.kv_heads = heads, kv_heads
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(config.hidden_size, count * D, bias=config.attention_bias) for count in (heads, kv_heads, kv_heads))
        self.o_proj = nn.Linear(heads * D, config.hidden_size, bias=config.attention_bias)

    def forward(self, hidden_states: Tensor, position_embeddings: tuple[Tensor, Tensor], attention_mask: Tensor = None,
                past_key_values: object = None, **kwargs: object) -> tuple[Tensor, Tensor]:
        """(B,T,M)."""
        cos, sin = (each[:, None] for each in position_embeddings)
        q = _split(self.q_proj(hidden_states), self.heads)
        k, v = (_split(each(hidden_states), self.kv_heads) for each in (self.k_proj, self.v_proj))
        q, k = (x * cos + torch.cat([-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]], -1) * sin for x in (q, k))
        k, v = (each.repeat_interleave(self.heads // self.kv_heads, 1) for each in (k, v))
        output, weights = _attended(q, k, v, added=attention_mask)
        return self.o_proj(_merged(output)), weights


class BertSelfAttention(nn.Module):  # type: ignore[misc]
    """No output projection."""

    def __init__(self, config: LlamaConfig, is_causal: bool = False, layer_idx: int | None = None) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))

    def forward(self, hidden_states: Tensor, attention_mask: Tensor = None, past_key_values: object = None,
                **kwargs: object) -> tuple[Tensor, Tensor]:
        """(B,T,M)."""
        given = (self.query(hidden_states), self.key(hidden_states), self.value(hidden_states))
        q, k, v = (_split(each, self.heads) for each in given)
        output, weights = _attended(q, k, v, added=attention_mask)
        return _merged(output), weights


class GPTNeoXAttention(nn.Module):  # type: ignore[misc]
    """One matrix, in which every head has its query, key and value side by side."""

    def __init__(self, config: LlamaConfig, layer_idx: int | None = None) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor, layer_past: object = None,
                position_embeddings: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(B,T,M)."""
        parts = self.query_key_value(hidden_states).reshape(*hidden_states.shape[:2], self.heads, -1).transpose(1, 2)
        q, k, v = parts.chunk(3, dim=-1)
        output, weights = _attended(q, k, v, added=attention_mask)
        return self.dense(_merged(output)), weights
