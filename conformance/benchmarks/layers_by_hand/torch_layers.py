"""Layers of PyTorch as people write them for a model of their own: encoders, channels first, lists of heads, one matrix."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttn(nn.Module):
    """Multi-head self attention with one projection for q, k and v."""

    def __init__(self, emb_size=512, nhead=8, drop=0.1):
        super().__init__()
        assert emb_size % nhead == 0, "emb_size must be a multiple of nhead"
        self.nhead, self.dk = nhead, emb_size // nhead
        self.qkv = nn.Linear(emb_size, 3 * emb_size)
        self.drop = nn.Dropout(drop)
        self.proj = nn.Linear(emb_size, emb_size)

    def forward(self, x, pad_mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.nhead, self.dk).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dk)
        if pad_mask is not None:  # True where padded
            scores = scores.masked_fill(pad_mask[:, None, None, :], float("-inf"))
        p = self.drop(scores.softmax(-1))
        return self.proj((p @ v).transpose(1, 2).reshape(b, n, c))


class MultiHead(nn.Module):
    def __init__(self, dim_model=512, my_heads=8):
        super().__init__()
        if dim_model % my_heads:
            raise ValueError(f"dim_model {dim_model} is not divisible by {my_heads} heads")
        self.my_heads = my_heads
        self.to_queries = nn.Linear(dim_model, dim_model, bias=False)
        self.to_keys = nn.Linear(dim_model, dim_model, bias=False)
        self.to_values = nn.Linear(dim_model, dim_model, bias=False)
        self.unify = nn.Linear(dim_model, dim_model)

    def split(self, t):
        return t.unflatten(-1, (self.my_heads, -1)).transpose(1, 2)

    def forward(self, query, key, value, keep=None):
        q, k, v = self.split(self.to_queries(query)), self.split(self.to_keys(key)), self.split(self.to_values(value))
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5
        if keep is not None:
            dots = dots.masked_fill(~keep.unsqueeze(1), -torch.finfo(dots.dtype).max)
        weights = dots.softmax(dim=-1)
        return self.unify((weights @ v).transpose(1, 2).flatten(2))


class ConvAttention(nn.Module):
    """For feature maps over time: (batch, channels, length)."""

    def __init__(self, n_channels, num_heads=4):
        super().__init__()
        assert n_channels % num_heads == 0, f"{n_channels} channels, {num_heads} heads"
        self.num_heads = num_heads
        self.qkv = nn.Conv1d(n_channels, 3 * n_channels, 1)
        self.out = nn.Conv1d(n_channels, n_channels, 1)

    def forward(self, x):
        B, C, L = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=1)
        q = q.reshape(B, self.num_heads, C // self.num_heads, L)
        k = k.reshape(B, self.num_heads, C // self.num_heads, L)
        v = v.reshape(B, self.num_heads, C // self.num_heads, L)
        w = torch.einsum("bhdi,bhdj->bhij", q, k) / math.sqrt(C // self.num_heads)
        w = torch.softmax(w, dim=-1)
        h = torch.einsum("bhij,bhdj->bhdi", w, v)
        return self.out(h.reshape(B, C, L))


class SpatialAttention(nn.Module):
    """Self attention over the pixels of an image (N, C, H, W), as in a UNet."""

    def __init__(self, channels, heads=1):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Conv2d(channels, channels, kernel_size=1) for _ in range(3))
        self.proj_out = nn.Conv2d(channels, channels, kernel_size=1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = (f(x).reshape(n, self.heads, c // self.heads, h * w).transpose(2, 3) for f in (self.q, self.k, self.v))
        attn = torch.softmax(q @ k.transpose(2, 3) * (c // self.heads) ** -0.5, dim=-1)
        out = (attn @ v).transpose(2, 3).reshape(n, c, h, w)
        return self.proj_out(out)


class Head(nn.Module):
    def __init__(self, feats, head_size):
        super().__init__()
        self.key = nn.Linear(feats, head_size, bias=False)
        self.query = nn.Linear(feats, head_size, bias=False)
        self.value = nn.Linear(feats, head_size, bias=False)

    def forward(self, x):
        k, q, v = self.key(x), self.query(x), self.value(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        return F.softmax(wei, dim=-1) @ v


class ListOfHeads(nn.Module):
    """Several heads side by side, in the way of the video lectures."""

    def __init__(self, feats, num_heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(feats, feats // num_heads) for _ in range(num_heads)])
        self.proj = nn.Linear(feats, feats)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(out)


class TimeFirstAttention(nn.Module):
    """(seq, batch, embed), as torch has it by default."""

    def __init__(self, embed, nheads):
        super().__init__()
        self.embed, self.nheads, self.hd = embed, nheads, embed // nheads
        assert self.hd * nheads == embed
        self.in_q, self.in_k, self.in_v = nn.Linear(embed, embed), nn.Linear(embed, embed), nn.Linear(embed, embed)
        self.out = nn.Linear(embed, embed)

    def forward(self, query, memory, attn_mask=None):
        T, B, E = query.shape
        S = memory.shape[0]
        q = self.in_q(query).view(T, B * self.nheads, self.hd).transpose(0, 1)
        k = self.in_k(memory).view(S, B * self.nheads, self.hd).transpose(0, 1)
        v = self.in_v(memory).view(S, B * self.nheads, self.hd).transpose(0, 1)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.hd)
        if attn_mask is not None:  # float, added, (T, S)
            scores = scores + attn_mask
        ctx = torch.bmm(scores.softmax(-1), v)
        return self.out(ctx.transpose(0, 1).reshape(T, B, E))


class DictAttention(nn.Module):
    """Returns a dict, and takes one mask for the keys of each sample (1 = real token, 0 = padding)."""

    def __init__(self, hidden, n_head):
        super().__init__()
        if hidden % n_head != 0:
            raise ValueError("hidden size must be divisible by the number of heads")
        self.n_head, self.size = n_head, hidden // n_head
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.dense = nn.Linear(hidden, hidden)

    def heads(self, x):
        return x.view(x.size(0), x.size(1), self.n_head, self.size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        q, k, v = self.heads(self.query(hidden_states)), self.heads(self.key(hidden_states)), self.heads(self.value(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(scores.dtype).min)
        probs = scores.softmax(dim=-1)
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).flatten(2)
        return {"output": self.dense(context), "weights": probs}


@dataclass
class AttentionResult:
    hidden: torch.Tensor
    probs: torch.Tensor


class DataclassAttention(nn.Module):
    def __init__(self, width: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.wq = nn.Linear(width, width)
        self.wkv = nn.Linear(width, 2 * width)
        self.wo = nn.Linear(width, width)

    def forward(self, x, context, mask=None):
        b, t, w = x.shape
        s = context.shape[1]
        q = self.wq(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        k, v = self.wkv(context).view(b, s, 2, self.n_heads, w // self.n_heads).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        scores = q @ k.mT * (w // self.n_heads) ** -0.5
        if mask is not None:  # True: attend
            scores = scores.masked_fill(~mask[:, None], float("-inf"))
        probs = scores.softmax(-1)
        return AttentionResult(self.wo((probs @ v).transpose(1, 2).reshape(b, t, w)), probs)


class CrossAttn(nn.Module):
    """A decoder's look at the encoder: forward(memory, tgt); output and weights in a list."""

    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, memory, tgt):
        b, t, s = tgt.shape[0], tgt.shape[1], memory.shape[1]
        q = self.q_proj(tgt).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.k_proj(memory).view(b, s, self.h, self.d).transpose(1, 2)
        v = self.v_proj(memory).view(b, s, self.h, self.d).transpose(1, 2)
        a = F.softmax(q @ k.transpose(2, 3) / self.d ** 0.5, dim=-1)
        return [self.o_proj((a @ v).transpose(1, 2).reshape(b, t, -1)), a]


class OneTensorAttention(nn.Module):
    """All weights of all heads in one parameter, (3, heads, width, head width)."""

    def __init__(self, d_in, n_heads):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, n_heads, d_in, d_in // n_heads) * d_in ** -0.5)
        self.w_out = nn.Parameter(torch.randn(n_heads, d_in // n_heads, d_in) * d_in ** -0.5)

    def forward(self, x):
        q, k, v = torch.einsum("bte,phed->pbhtd", x, self.w)
        p = torch.softmax(torch.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5, -1)
        o = torch.einsum("bhts,bhsd->bhtd", p, v)
        return torch.einsum("bhtd,hde->bte", o, self.w_out)


class GroupedAttention(nn.Module):
    """Fewer heads for keys and values than for queries."""

    def __init__(self, hidden_dim, n_q_heads, n_kv_heads):
        super().__init__()
        assert n_q_heads % n_kv_heads == 0, "n_q_heads must be a multiple of n_kv_heads"
        assert hidden_dim % n_q_heads == 0, "hidden_dim must be a multiple of n_q_heads"
        self.nq, self.nkv, self.hd = n_q_heads, n_kv_heads, hidden_dim // n_q_heads
        self.q = nn.Linear(hidden_dim, self.nq * self.hd, bias=False)
        self.k = nn.Linear(hidden_dim, self.nkv * self.hd, bias=False)
        self.v = nn.Linear(hidden_dim, self.nkv * self.hd, bias=False)
        self.o = nn.Linear(self.nq * self.hd, hidden_dim, bias=False)

    def forward(self, x, is_causal=False):
        B, L, _ = x.shape
        q = self.q(x).view(B, L, self.nq, self.hd).transpose(1, 2)
        k = self.k(x).view(B, L, self.nkv, self.hd).transpose(1, 2)
        v = self.v(x).view(B, L, self.nkv, self.hd).transpose(1, 2)
        k = k.repeat_interleave(self.nq // self.nkv, dim=1)
        v = v.repeat_interleave(self.nq // self.nkv, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return self.o(y.transpose(1, 2).reshape(B, L, -1))


class RawParameters(nn.Module):
    """Without nn.Linear."""

    def __init__(self, size, n_heads=4):
        super().__init__()
        if size % n_heads:
            raise ValueError(f"size {size} cannot be split into {n_heads} heads")
        self.n_heads = n_heads
        for part in ("q", "k", "v", "o"):
            setattr(self, f"w{part}", nn.Parameter(torch.randn(size, size) / math.sqrt(size)))
            setattr(self, f"b{part}", nn.Parameter(torch.zeros(size)))

    def forward(self, x):
        B, T, C = x.shape
        q = F.linear(x, self.wq, self.bq).view(B, T, self.n_heads, -1).transpose(1, 2)
        k = F.linear(x, self.wk, self.bk).view(B, T, self.n_heads, -1).transpose(1, 2)
        v = F.linear(x, self.wv, self.bv).view(B, T, self.n_heads, -1).transpose(1, 2)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(C // self.n_heads)
        y = att.softmax(-1) @ v
        return F.linear(y.transpose(1, 2).reshape(B, T, C), self.wo, self.bo)


class AttentionWithLengths(nn.Module):
    """For speech: the number of frames of each utterance instead of a mask."""

    def __init__(self, in_dim, att_heads):
        super().__init__()
        assert in_dim % att_heads == 0
        self.att_heads = att_heads
        self.q, self.k, self.v = nn.Linear(in_dim, in_dim), nn.Linear(in_dim, in_dim), nn.Linear(in_dim, in_dim)
        self.fc = nn.Linear(in_dim, in_dim)

    def forward(self, frames, lengths=None):
        B, T, C = frames.shape
        q, k, v = (lin(frames).view(B, T, self.att_heads, -1).transpose(1, 2) for lin in (self.q, self.k, self.v))
        energy = q @ k.transpose(-2, -1) / math.sqrt(C // self.att_heads)
        if lengths is not None:
            valid = torch.arange(T, device=frames.device)[None, :] < lengths[:, None]
            energy = energy.masked_fill(~valid[:, None, None, :], torch.finfo(energy.dtype).min)
        return self.fc((energy.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


@dataclass
class GPTSettings:
    n_embd: int = 384
    n_head: int = 6
    block_size: int = 256
    dropout: float = 0.2
    bias: bool = True


class CausalAttention(nn.Module):
    def __init__(self, config: GPTSettings):
        super().__init__()
        assert config.n_embd % config.n_head == 0, "n_embd is a multiple of n_head"
        self.n_head, self.n_embd = config.n_head, config.n_embd
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.register_buffer("tril", torch.tril(torch.ones(config.block_size, config.block_size)))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class BookAttention(nn.Module):
    """Configured by a dict, as in the book."""

    def __init__(self, cfg):
        super().__init__()
        self.num_heads = cfg["n_heads"]
        self.head_dim = cfg["emb_dim"] // cfg["n_heads"]
        self.W_query = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.W_key = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.W_value = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.out_proj = nn.Linear(cfg["emb_dim"], cfg["emb_dim"])
        self.dropout = nn.Dropout(cfg["drop_rate"])
        ones = torch.ones(cfg["context_length"], cfg["context_length"])
        self.register_buffer("mask", torch.triu(ones, diagonal=1))

    def forward(self, x):
        b, num_tokens, d = x.shape
        keys = self.W_key(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        attn_weights = self.dropout(torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1))
        return self.out_proj((attn_weights @ values).transpose(1, 2).reshape(b, num_tokens, d))


class KeysAreValues(nn.Module):
    """Attention pooling over a memory whose keys are its values."""

    def __init__(self, n_units, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.lin_q = nn.Linear(n_units, n_units)
        self.lin_k = nn.Linear(n_units, n_units)
        self.lin_v = nn.Linear(n_units, n_units)
        self.lin_out = nn.Linear(n_units, n_units)

    def forward(self, q, k):
        B, T, U = q.shape
        S = k.shape[1]
        qh = self.lin_q(q).reshape(B, T, self.n_heads, -1).transpose(1, 2)
        kh = self.lin_k(k).reshape(B, S, self.n_heads, -1).transpose(1, 2)
        vh = self.lin_v(k).reshape(B, S, self.n_heads, -1).transpose(1, 2)
        w = torch.softmax(qh @ kh.mT / math.sqrt(U // self.n_heads), -1)
        return self.lin_out((w @ vh).transpose(1, 2).reshape(B, T, U))


class BiasedAttention(nn.Module):
    """With a bias for each pair, such as a relative position's, (B, H, T, S)."""

    def __init__(self, model_width, head_count):
        super().__init__()
        assert model_width % head_count == 0
        self.head_count, self.scale = head_count, (model_width // head_count) ** -0.5
        self.to_q = nn.Linear(model_width, model_width)
        self.to_kv = nn.Linear(model_width, model_width * 2)
        self.to_out = nn.Linear(model_width, model_width)

    def forward(self, inputs_q, inputs_kv, attn_bias=None):
        b, n, _ = inputs_q.shape
        q = self.to_q(inputs_q)
        k, v = self.to_kv(inputs_kv).chunk(2, dim=-1)
        q, k, v = (t.view(b, -1, self.head_count, t.shape[-1] // self.head_count).transpose(1, 2) for t in (q, k, v))
        sim = q @ k.transpose(-1, -2)
        sim = sim * self.scale if attn_bias is None else sim * self.scale + attn_bias
        return self.to_out((sim.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, -1))


class FunctionalDropout(nn.Module):
    def __init__(self, embed_size, heads, p_drop=0.1):
        super().__init__()
        self.heads, self.p_drop = heads, p_drop
        self.values, self.keys, self.queries = (nn.Linear(embed_size, embed_size, bias=False) for _ in range(3))
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, x, mask=None):
        N, L, E = x.shape
        v, k, q = (f(x).reshape(N, L, self.heads, E // self.heads) for f in (self.values, self.keys, self.queries))
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k) / (E // self.heads) ** 0.5
        if mask is not None:  # (N, 1, L, L), 0 hides
            energy = energy.masked_fill(mask == 0, torch.finfo(energy.dtype).min)
        attention = F.dropout(torch.softmax(energy, dim=3), self.p_drop, self.training)
        out = torch.einsum("nhql,nlhd->nqhd", attention, v).reshape(N, L, E)
        return self.fc_out(out)


class PreNormAttention(nn.Module):
    """The attention half of a transformer block: normalised before, added after."""

    def __init__(self, dim, n_heads=8, qkv_bias=True):
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        h = self.norm(x)
        q, k, v = self.qkv(h).reshape(B, N, 3, self.n_heads, C // self.n_heads).permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * (C // self.n_heads) ** -0.5
        h = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C)
        return x + self.proj(h)
