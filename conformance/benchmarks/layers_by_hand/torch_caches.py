"""Layers of PyTorch that keep, take or hand back what they have seen: caches inside, tuples, dicts, objects."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class InPlaceCache(nn.Module):
    """Keeps keys and values of all positions so far, and is told where the new ones start."""

    def __init__(self, dim, n_heads, n_kv_heads, max_batch_size=32, max_seq_len=512):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)
        self.cache_k = torch.zeros(max_batch_size, max_seq_len, n_kv_heads, self.head_dim)
        self.cache_v = torch.zeros(max_batch_size, max_seq_len, n_kv_heads, self.head_dim)

    def forward(self, x, start_pos, mask=None):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        self.cache_k, self.cache_v = self.cache_k.to(xq), self.cache_v.to(xq)
        self.cache_k[:bsz, start_pos:start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos:start_pos + seqlen] = xv
        keys = self.cache_k[:bsz, :start_pos + seqlen].repeat_interleave(self.n_heads // self.n_kv_heads, dim=2)
        values = self.cache_v[:bsz, :start_pos + seqlen].repeat_interleave(self.n_heads // self.n_kv_heads, dim=2)
        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores + mask  # (seqlen, start_pos + seqlen)
        output = torch.matmul(F.softmax(scores, dim=-1), values)
        return self.wo(output.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class RotaryCache(nn.Module):
    """Rotary embedding and a cache that is handed in and back."""

    def __init__(self, n_embed, n_head, max_pos=1024):
        super().__init__()
        self.n_head, self.hd = n_head, n_embed // n_head
        self.qkv = nn.Linear(n_embed, 3 * n_embed, bias=False)
        self.out = nn.Linear(n_embed, n_embed, bias=False)
        angles = torch.outer(torch.arange(max_pos).float(), 1e4 ** (-torch.arange(0, self.hd, 2).float() / self.hd))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x, start):
        cos, sin = (t[start:start + x.shape[2]].to(x.dtype) for t in (self.cos, self.sin))
        x1, x2 = x.chunk(2, -1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), -1)

    def forward(self, x, past_kv=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.n_head, self.hd).permute(2, 0, 3, 1, 4)
        past = 0 if past_kv is None else past_kv[0].shape[2]
        q, k = self.rotate(q, past), self.rotate(k, past)
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), 2), torch.cat((past_kv[1], v), 2)
        hidden = torch.ones(T, past + T, dtype=torch.bool, device=x.device).triu(past + 1)
        att = (q @ k.transpose(-1, -2) / math.sqrt(self.hd)).masked_fill(hidden, float("-inf"))
        return self.out((att.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C)), (k, v)


class PastTuple(nn.Module):
    """GPT-2's way: past in, present out."""

    def __init__(self, nx, n_head):
        super().__init__()
        assert nx % n_head == 0, "nx must be a multiple of n_head"
        self.n_head, self.nx = n_head, nx
        self.c_attn = nn.Linear(nx, 3 * nx)
        self.c_proj = nn.Linear(nx, nx)

    def forward(self, x, layer_past=None, use_cache=False):
        q, k, v = (t.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for t in self.c_attn(x).split(self.nx, dim=-1))
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=-2)
            v = torch.cat((layer_past[1], v), dim=-2)
        present = (k, v) if use_cache else None
        w = q @ k.transpose(-1, -2) / math.sqrt(v.size(-1))
        nd, ns = w.size(-2), w.size(-1)
        visible = torch.tril(torch.ones(nd, ns, dtype=torch.bool, device=x.device), diagonal=ns - nd)
        w = torch.where(visible, w, torch.finfo(w.dtype).min)
        return self.c_proj((w.softmax(-1) @ v).transpose(1, 2).flatten(2)), present


class CacheDict(nn.Module):
    """The cache is a dict that the caller keeps, and the layer fills it."""

    def __init__(self, d_model, nheads):
        super().__init__()
        self.nheads = nheads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.nheads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        if cache is not None:
            if "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
        S = k.shape[2]
        mask = torch.ones(T, S, device=x.device).tril(S - T).bool()
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(B, T, C))


class KVCache:
    """What every layer has seen."""

    def __init__(self):
        self.keys, self.values = {}, {}

    def update(self, k, v, layer_idx):
        if layer_idx in self.keys:
            k = torch.cat([self.keys[layer_idx], k], dim=-2)
            v = torch.cat([self.values[layer_idx], v], dim=-2)
        self.keys[layer_idx], self.values[layer_idx] = k, v
        return k, v


class ObjectCacheAttention(nn.Module):
    """Takes a cache object."""

    def __init__(self, hidden, heads, layer_idx=0):
        super().__init__()
        if hidden % heads:
            raise ValueError(f"{hidden} is not divisible by {heads}")
        self.heads, self.layer_idx = heads, layer_idx
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, hidden_states, kv_cache: KVCache = None):
        B, T, C = hidden_states.shape
        q, k, v = (f(hidden_states).view(B, T, self.heads, -1).transpose(1, 2)
                   for f in (self.q_proj, self.k_proj, self.v_proj))
        if kv_cache is not None:
            k, v = kv_cache.update(k, v, self.layer_idx)
        S = k.shape[2]
        scores = q @ k.transpose(2, 3) / math.sqrt(C // self.heads)
        future = torch.arange(S)[None, :] > torch.arange(S - T, S)[:, None]
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(B, T, C))


def attend_past(q, k, v, past_k=None, past_v=None, scale=None):
    """(B, H, T, D); causal; gives the output and the new past."""
    if past_k is not None:
        k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    T, S = q.shape[2], k.shape[2]
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    i = torch.arange(S - T, S, device=q.device)[:, None]
    s = s.masked_fill(torch.arange(S, device=q.device)[None] > i, float("-inf"))
    return s.softmax(-1) @ v, k, v
