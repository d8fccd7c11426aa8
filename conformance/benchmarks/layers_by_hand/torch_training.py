"""Functions of PyTorch with a backward pass of their own, or with dropout."""

import math

import torch
import torch.nn.functional as F


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale):
        p = torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        return p @ v

    @staticmethod
    def backward(ctx, do):
        q, k, v, p = ctx.saved_tensors
        dv = p.transpose(-1, -2) @ do
        dp = do @ v.transpose(-1, -2)
        ds = p * (dp - (dp * p).sum(-1, keepdim=True))
        dq = ds @ k * ctx.scale
        dk = ds.transpose(-1, -2) @ q * ctx.scale
        return dq, dk, dv, None


def attention_with_backward(q, k, v, scale=None):
    """(B, H, T, D)."""
    return _Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale)


class FlashLike(torch.autograd.Function):
    """(B, T, H, D); keeps the log of the sums instead of the probabilities."""

    @staticmethod
    def forward(ctx, q, k, v, causal=False):
        s = FlashLike.scores(q, k, causal)
        lse = torch.logsumexp(s, dim=-1, keepdim=True)
        o = torch.einsum("bhts,bshd->bthd", torch.exp(s - lse), v)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal = causal
        return o

    @staticmethod
    def scores(q, k, causal):
        s = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
        if causal:
            hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
            s = s.masked_fill(hidden, float("-inf"))
        return s

    @staticmethod
    def backward(ctx, grad):
        q, k, v, o, lse = ctx.saved_tensors
        p = torch.exp(FlashLike.scores(q, k, ctx.causal) - lse)
        delta = (grad * o).sum(-1).transpose(1, 2)[..., None]
        dp = torch.einsum("bthd,bshd->bhts", grad, v)
        ds = p * (dp - delta) / math.sqrt(q.shape[-1])
        dv = torch.einsum("bhts,bthd->bshd", p, grad)
        return torch.einsum("bhts,bshd->bthd", ds, k), torch.einsum("bhts,bthd->bshd", ds, q), dv, None


def flash_like(q, k, v, causal=False):
    return FlashLike.apply(q, k, v, causal)


def attention_with_dropout(q, k, v, dropout_p=0.0, training=False):
    """(B, H, T, D)."""
    w = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)
    if training and dropout_p > 0:
        w = F.dropout(w, p=dropout_p)
    return w @ v
