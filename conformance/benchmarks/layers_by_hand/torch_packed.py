"""Functions of PyTorch for sequences without padding, pages, and single queries."""

import math

import torch


def varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False):
    """(total, H, D): sequence after sequence."""
    out = torch.empty(q.shape[0], q.shape[1], v.shape[2], dtype=q.dtype, device=q.device)
    for i in range(len(cu_seqlens_q) - 1):
        qs, qe = int(cu_seqlens_q[i]), int(cu_seqlens_q[i + 1])
        ks, ke = int(cu_seqlens_k[i]), int(cu_seqlens_k[i + 1])
        qi, ki, vi = q[qs:qe].transpose(0, 1), k[ks:ke].transpose(0, 1), v[ks:ke].transpose(0, 1)
        s = qi @ ki.transpose(1, 2) / math.sqrt(q.shape[-1])
        if causal:
            s = s.masked_fill(torch.ones(qe - qs, ke - ks, dtype=torch.bool).triu(ke - ks - (qe - qs) + 1), -torch.inf)
        out[qs:qe] = (s.softmax(-1).nan_to_num(0.0) @ vi).transpose(0, 1)
    return out


def packed_attention(qkv, cu_seqlens):
    """(total, 3, H, D)."""
    out = torch.zeros_like(qkv[:, 0])
    for b in range(cu_seqlens.numel() - 1):
        start, end = cu_seqlens[b].item(), cu_seqlens[b + 1].item()
        q, k, v = qkv[start:end].permute(1, 2, 0, 3)
        p = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)
        out[start:end] = (p @ v).transpose(0, 1)
    return out


def segment_attention(q, k, v, segment_ids):
    """(B, T, H, D); a token sees the tokens of its own document, segment_ids (B, T)."""
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    logits = torch.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
    logits = logits.masked_fill(~same[:, None], -torch.inf)
    return torch.einsum("bhts,bshd->bthd", logits.softmax(-1), v)


def decode_attention(q, k_cache, v_cache, cache_seqlens):
    """One new query of each sequence: q (B, H, D), caches (B, S, Hkv, D)."""
    B, H, D = q.shape
    groups = H // k_cache.shape[2]
    k = k_cache.repeat_interleave(groups, dim=2)
    v = v_cache.repeat_interleave(groups, dim=2)
    scores = torch.einsum("bhd,bshd->bhs", q, k) / math.sqrt(D)
    places = torch.arange(k.shape[1], device=q.device)
    scores = scores.masked_fill(places >= cache_seqlens[:, None, None], float("-inf"))
    return torch.einsum("bhs,bshd->bhd", scores.softmax(-1), v)


def paged_attention(query, key_cache, value_cache, block_tables, context_lens, scale):
    """query (B, H, D); caches (blocks, block size, Hkv, D); block_tables (B, most blocks)."""
    out = torch.zeros(*query.shape[:2], value_cache.shape[-1], dtype=query.dtype, device=query.device)
    size = key_cache.shape[1]
    group = query.shape[1] // key_cache.shape[2]
    for b in range(query.shape[0]):
        n = int(context_lens[b])
        if n == 0:
            continue
        blocks = block_tables[b][:(n + size - 1) // size].long()
        k = key_cache[blocks].flatten(0, 1)[:n].repeat_interleave(group, dim=1)
        v = value_cache[blocks].flatten(0, 1)[:n].repeat_interleave(group, dim=1)
        w = torch.softmax(torch.einsum("hd,shd->hs", query[b], k) * scale, dim=-1)
        out[b] = torch.einsum("hs,shd->hd", w, v)
    return out


def paged_decode(q, k_pages, v_pages, page_table, seq_lens):
    """q (B, 1, H, D); pages (P, page, H, D)."""
    B, _, H, D = q.shape
    page = k_pages.shape[1]
    k = k_pages[page_table.long()].reshape(B, -1, H, D)
    v = v_pages[page_table.long()].reshape(B, -1, H, v_pages.shape[-1])
    places = torch.arange(k.shape[1], device=q.device)
    used = places[None, :] < seq_lens[:, None]
    used = used & (places < page * page_table.shape[1])
    s = torch.einsum("bqhd,bshd->bhqs", q, k) / math.sqrt(D)
    s = s.masked_fill(~used[:, None, None, :], -torch.inf)
    v = v.masked_fill(~used[:, :, None, None], 0.0)
    return torch.einsum("bhqs,bshd->bqhd", s.softmax(-1), v)
