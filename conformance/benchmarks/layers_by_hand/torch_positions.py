"""Layers and functions of PyTorch that know positions: rotary, ALiBi, windows; and those that norm, cap or have sinks."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotarySelfAttention(nn.Module):
    """Rotary embedding inside, from a table."""

    def __init__(self, n_dims, n_heads, max_len=2048, base=10000.0):
        super().__init__()
        assert n_dims % n_heads == 0, "n_dims must be divisible by n_heads"
        self.n_heads, self.hd = n_heads, n_dims // n_heads
        self.wqkv = nn.Linear(n_dims, 3 * n_dims, bias=False)
        self.wo = nn.Linear(n_dims, n_dims, bias=False)
        freqs = 1.0 / base ** (torch.arange(0, self.hd, 2).float() / self.hd)
        angles = torch.outer(torch.arange(max_len).float(), freqs)
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)

    def forward(self, x, causal=False):
        B, T, C = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.n_heads, self.hd).permute(2, 0, 3, 1, 4)
        cos, sin = self.cos[:T].to(x.dtype), self.sin[:T].to(x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


class AttentionWithCosSin(nn.Module):
    """The model makes cos and sin, (T, head width), and hands them to each layer."""

    def __init__(self, hidden_size, num_attention_heads, num_key_value_heads):
        super().__init__()
        self.head_dim = hidden_size // num_attention_heads
        self.groups = num_attention_heads // num_key_value_heads
        self.q_proj = nn.Linear(hidden_size, num_attention_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_attention_heads * self.head_dim, hidden_size, bias=False)

    def forward(self, hidden_states, cos, sin, attention_mask=None):
        B, T, _ = hidden_states.shape
        q, k, v = (p(hidden_states).view(B, T, -1, self.head_dim).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        scores = q @ k.transpose(2, 3) * self.head_dim ** -0.5
        if attention_mask is not None:  # added
            scores = scores + attention_mask
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1))


class AlibiAttention(nn.Module):
    """Causal, with linear biases instead of position embeddings."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        slopes = torch.tensor([2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)])
        self.register_buffer("slopes", slopes)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv_proj(x).view(B, T, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        pos = torch.arange(T, device=x.device)
        distance = (pos[None, :] - pos[:, None]).to(x.dtype)  # negative to the left
        scores = q @ k.transpose(-1, -2) / math.sqrt(C // self.n_heads)
        scores = scores + self.slopes.to(x.dtype)[:, None, None] * distance
        scores = scores.masked_fill(pos[None, :] > pos[:, None], float("-inf"))
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class NormedAttention(nn.Module):
    """Queries and keys are normed within each head."""

    def __init__(self, dim, num_heads):
        super().__init__()
        assert dim % num_heads == 0
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.q_norm, self.k_norm = RMSNorm(self.head_dim), RMSNorm(self.head_dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)
        attn = (q * self.head_dim ** -0.5) @ k.transpose(-2, -1)
        x = attn.softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class SlidingAttention(nn.Module):
    """A token sees itself and the window - 1 tokens before it."""

    def __init__(self, d_model, n_heads, window=4):
        super().__init__()
        self.n_heads, self.window = n_heads, window
        self.to_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.to_out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.n_heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        i = torch.arange(n, device=x.device)[:, None]
        j = torch.arange(n, device=x.device)[None, :]
        near = (j <= i) & (j > i - self.window)
        return self.to_out(F.scaled_dot_product_attention(q, k, v, attn_mask=near).transpose(1, 2).reshape(b, n, d))


def capped_attention(q, k, v, mask=None, softcap=None, scale=None):
    """(B, T, H, D); mask (B, 1, T, S), True where it may look."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    logits = torch.einsum("bthd,bshd->bhts", q, k) * scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    if mask is not None:
        logits = logits.masked_fill(~mask, float("-inf"))
    return torch.einsum("bhts,bshd->bthd", logits.softmax(-1), v)


def attention_with_sinks(q, k, v, sinks, sm_scale, causal=True):
    """(B, H, T, D), and one logit for each head that no value belongs to."""
    B, H, T, D = q.shape
    S = k.shape[2]
    qk = torch.matmul(q, k.transpose(-1, -2)) * sm_scale
    if causal:
        qk = qk.masked_fill(torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1), float("-inf"))
    sink = sinks.to(qk.dtype).view(1, H, 1, 1).expand(B, H, T, 1)
    w = torch.softmax(torch.cat([qk, sink], dim=-1), dim=-1)[..., :-1]
    return torch.matmul(w, v)


def local_attention(q, k, v, window_size=(-1, -1)):
    """(B, T, H, D); window_size is (left, right), -1 for no limit on that side."""
    t = torch.arange(q.shape[1], device=q.device)[:, None] + k.shape[1] - q.shape[1]
    s = torch.arange(k.shape[1], device=q.device)[None, :]
    left, right = window_size
    visible = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device)
    if left >= 0:
        visible &= s >= t - left
    if right >= 0:
        visible &= s <= t + right
    logits = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    weights = logits.masked_fill(~visible, float("-inf")).softmax(-1).nan_to_num(0.0)
    return torch.einsum("bhts,bshd->bthd", weights, v)
