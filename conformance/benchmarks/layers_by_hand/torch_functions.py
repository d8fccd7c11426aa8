"""Functions of PyTorch tensors, in the layouts that people choose: plain ones, blocked ones, ones that write into an output."""

import math

import torch
import torch.nn.functional as F


def attention_with_padding(q, k, v, key_mask=None):
    """(B, H, T, D); key_mask (B, S) is True for real tokens."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if key_mask is not None:
        scores = scores.masked_fill(~key_mask[:, None, None, :], float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


def einsum_attention(q, k, v, causal=False, sm_scale=None):
    """(B, T, H, D)."""
    sm_scale = 1 / math.sqrt(q.shape[-1]) if sm_scale is None else sm_scale
    s = torch.einsum("bthd,bshd->bhts", q, k) * sm_scale
    if causal:
        T, S = s.shape[-2:]
        s = s.masked_fill(torch.triu(torch.ones(T, S, device=q.device), diagonal=1).bool(), -torch.inf)
    return torch.einsum("bhts,bshd->bthd", s.softmax(-1), v)


def one_sequence(q, k, v):
    """(T, H, D): no batch, tokens first."""
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    p = torch.softmax(torch.bmm(q, k.mT) / math.sqrt(q.shape[2]), dim=2)
    return torch.bmm(p, v).transpose(0, 1)


def heads_first(q, k, v, scale):
    """(H, T, D): no batch, heads first; the softmax is spelled out."""
    s = torch.matmul(q, k.transpose(1, 2)) * scale
    e = torch.exp(s - s.amax(dim=-1, keepdim=True))
    return torch.matmul(e / e.sum(dim=-1, keepdim=True), v)


def blocked_attention(Q, K, V, block=32):
    """(B, H, N, d): keys and values come block by block, as in flash attention."""
    scale = Q.shape[-1] ** -0.5
    m = torch.full((*Q.shape[:-1], 1), -torch.inf, dtype=torch.float32)
    l = torch.zeros_like(m)  # noqa: E741
    acc = torch.zeros((*Q.shape[:-1], V.shape[-1]), dtype=torch.float32)
    for start in range(0, K.shape[2], block):
        kb, vb = K[:, :, start:start + block].float(), V[:, :, start:start + block].float()
        s = Q.float() @ kb.transpose(-1, -2) * scale
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - m_new)
        alpha = torch.exp(m - m_new)
        l = l * alpha + p.sum(-1, keepdim=True)  # noqa: E741
        acc = acc * alpha + p @ vb
        m = m_new
    return (acc / l).to(Q.dtype)


def online_attention(q, k, v, is_causal=False):
    """(B, T, H, D), with a running maximum; tiles of queries and keys."""
    B, T, H, D = q.shape
    S, tile = k.shape[1], 16
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    out = torch.empty(B, H, T, v.shape[-1])
    for i in range(0, T, tile):
        qi = q[:, :, i:i + tile]
        top = torch.full((B, H, qi.shape[2]), -1e30)
        den = torch.zeros(B, H, qi.shape[2])
        num = torch.zeros(B, H, qi.shape[2], v.shape[-1])
        for j in range(0, S, tile):
            s = qi @ k[:, :, j:j + tile].transpose(2, 3) / math.sqrt(D)
            if is_causal:
                rows = torch.arange(i, i + qi.shape[2])[:, None]
                cols = torch.arange(j, j + s.shape[-1])[None, :]
                s = s.masked_fill(cols > rows, -1e30)
            new = torch.maximum(top, s.max(-1).values)
            p, shrink = torch.exp(s - new[..., None]), torch.exp(top - new)
            num = num * shrink[..., None] + p @ v[:, :, j:j + tile]
            den = den * shrink + p.sum(-1)
            top = new
        out[:, :, i:i + tile] = num / den[..., None]
    return out.transpose(1, 2).to(v.dtype if v.dtype == torch.float64 else torch.float32)


def sdpa_with_hidden(query, key, value, hide=None, is_causal=False):
    """(B, H, T, D); hide is True where a query must not look."""
    if hide is None:
        return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    keep = ~hide
    if is_causal:
        keep = keep & torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=keep)


def attn_fwd(q, k, v, out, scale):
    """Writes into out, (B, T, H, D)."""
    qt, kt, vt = (x.permute(0, 2, 1, 3) for x in (q, k, v))
    o = torch.softmax(qt @ kt.transpose(-1, -2) * scale, dim=-1) @ vt
    out.copy_(o.permute(0, 2, 1, 3))


def attention_with_lse(q, k, v, scale=None):
    """(B, H, T, D); also the log of each row's sum of exponentials, for merging: in float32 at least, as mergers ask."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = torch.promote_types(q.dtype, torch.float32)
    s = (q.to(wide) @ k.to(wide).transpose(-1, -2)) * scale
    m = s.amax(-1, keepdim=True)
    e = torch.exp(s - m)
    total = e.sum(-1, keepdim=True)
    lse = (m + total.log()).squeeze(-1)
    return ((e / total) @ v.to(wide)).to(q.dtype), lse


def attention_with_bias_and_padding(queries, keys, values, attn_bias=None, key_padding_mask=None):
    """(B, H, T, D); the bias (B, H, T, S) is added; the padding mask (B, S) is True where padded."""
    logits = torch.einsum("bhqd,bhkd->bhqk", queries, keys) / math.sqrt(queries.shape[-1])
    if attn_bias is not None:
        logits = logits + attn_bias
    if key_padding_mask is not None:
        logits = logits.masked_fill(key_padding_mask[:, None, None], torch.finfo(logits.dtype).min)
    return torch.einsum("bhqk,bhkd->bhqd", logits.softmax(dim=-1), values)


def grouped_query_attention(xq, xk, xv, valid_lens=None):
    """(B, T, Hq, D) and (B, S, Hkv, D); valid_lens (B,) counts the keys of each sequence."""
    g = xq.shape[2] // xk.shape[2]
    xk, xv = xk.repeat_interleave(g, dim=2), xv.repeat_interleave(g, dim=2)
    w = torch.einsum("bthd,bshd->bhts", xq, xk) * xq.shape[-1] ** -0.5
    if valid_lens is not None:
        beyond = torch.arange(xk.shape[1], device=xq.device) >= valid_lens[:, None]
        w = w.masked_fill(beyond[:, None, None, :], float("-inf"))
    return torch.einsum("bhts,bshd->bthd", torch.softmax(w, -1), xv)


def attention_with_probs(q, k, v, mask=None, return_probs=False):
    """(B, H, T, D); mask is 1 where allowed, 0 where not, (B, 1, T, S) or (B, H, T, S)."""
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    if mask is not None:
        att = att.masked_fill(mask == 0, torch.finfo(att.dtype).min)
    probs = F.softmax(att, dim=-1)
    y = probs @ v
    return (y, probs) if return_probs else y
