"""The table: each target, the one line that makes it wrong, and by which words a cause names that mistake.

The words were written before any verdict was seen: they say what the mistake is, not what the suite answers to it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One target. style: what is particular about how it is written.  right, wrong: the text that is exchanged, which
    stands once in the target's own code or once in its file.  cause: a regular expression that a named cause matches.
    """

    target: str
    style: str
    right: str
    wrong: str
    mistake: str
    cause: str

    @property
    def file(self) -> str:
        """The file that the target stands in."""
        return self.target.partition(":")[0] + ".py"

    @property
    def name(self) -> str:
        """The class or function."""
        return self.target.partition(":")[2]


SCALE = r"scal|sqrt|divided by"
SOFTMAX_AXIS = r"softmax.*(quer|axis|dim|column|head)|sum.*over.*quer|normali[sz]ed.*(quer|axis|head)"
INVERTED = r"invert|opposite|negat|(hidden|masked).*(visible|kept|seen)|(visible|allowed).*(hidden|removed)|keeps what"
MASK_LATE = r"after (the )?softmax|not (re)?normali[sz]ed|renormali|zero(es|ed).*weights|weights.*zero"
CAUSAL_ONE = r"causal.*(off by one|one (place|key|too|further|later|beyond|position)|next|diagonal)|sees? (the next|a later|one)"
CAUSAL_SQUARE = r"causal.*(align|top.?left|first|past|cach|offset|start)|past.*causal"
HEADS_MIXED = r"head.*(mix|reshap|interleav|exchang|order|transpos|merg|concat)|(reshap|merg|transpos).*head"
TILED = r"tile|(key|kv).*head.*(order|interleav|modul|repeat|group)|group.*(order|interleav|modul|tile|repeat)|h % "
SWAPPED = r"(key|value)s? and (key|value)s?.*(exchang|swap)|swap|exchang"
NO_BIAS = r"bias.*(value|forgot|ignor|left out|dropped|missing)|(value).*bias"
DROPOUT_ON = r"dropout|drop"
LAST_BLOCK = r"(last|tail|remain|incomplete|partial).*(block|tile|key)|block.*(last|tail|dropped|lost)|multiple of"
FIRST_LENGTH = r"(length|mask|len).*first|first (batch|entry|sequence)"
PAGE = r"page|block.?table"
WINDOW = r"window|left"
DQ = r"(dq|gradient.*quer|quer.*gradient).*|scale.*(gradient|backward)|gradient.*scal"
RESTARTED = r"position|rotar|rotat|restart"
OFFSET = r"cache|past|start|position|offset|chunk|step"
RESCALE = r"rescal|running max|accumulat|maximum|block"

ROWS = (
    # torch layers
    Row("torch_layers:SelfAttn", "fused qkv, emb_size and nhead, padding (B,S) True hides, nn.Dropout",
        "math.sqrt(self.dk)", "math.sqrt(self.nhead * self.dk)", "divided by the square root of the model's width",
        rf"{SCALE}.*model|{SCALE}"),
    Row("torch_layers:MultiHead", "three projections, dim_model=512 and my_heads, keep (B,T,S)",
        "dots.softmax(dim=-1)", "dots.softmax(dim=-2)", "softmax over the queries", SOFTMAX_AXIS),
    Row("torch_layers:ConvAttention", "channels first, Conv1d",
        "self.out(h.reshape(B, C, L))", "self.out(h.transpose(1, 2).reshape(B, C, L))",
        "heads and channels mixed by the last reshape", HEADS_MIXED),
    Row("torch_layers:SpatialAttention", "images (N,C,H,W), Conv2d",
        " * (c // self.heads) ** -0.5", "", "no scale", SCALE),
    Row("torch_layers:ListOfHeads", "ModuleList of one-head layers",
        "h(x) for h in self.heads", "self.heads[0](x) for _ in self.heads", "all heads are the first",
        r"first head|head.*(0|shared|same|one)|every head"),
    Row("torch_layers:TimeFirstAttention", "(T,B,E), heads folded into the batch, float mask (T,S) added",
        "q = self.in_q(query).view(T, B * self.nheads, self.hd).transpose(0, 1)",
        "q = self.in_q(query).view(T, self.nheads, B, self.hd).transpose(1, 2).reshape(T, -1, self.hd).transpose(0, 1)",
        "the query's heads mixed with the batch", r"head|batch"),
    Row("torch_layers:DictAttention", "a dict comes back; 1 keeps, 0 hides, (B,S)",
        "attention_mask[:, None, None, :] == 0", "attention_mask[:, None, None, :] == 1", "mask inverted", INVERTED),
    Row("torch_layers:DataclassAttention", "a dataclass comes back; fused kv; mask (B,T,S)",
        "probs = scores.softmax(-1)",
        "probs = q.mul((w // self.n_heads) ** -0.5).matmul(k.mT).softmax(-1) * (1 if mask is None else mask[:, None])",
        "mask after the softmax, without renormalising", MASK_LATE),
    Row("torch_layers:CrossAttn", "forward(memory, tgt); a list comes back",
        "k = self.k_proj(memory)", "k = self.v_proj(memory)", "keys are projected by the values' weights",
        r"key.*value|value.*key|projection|exchang|swap"),
    Row("torch_layers:OneTensorAttention", "one parameter for all heads and all three, einsum",
        'torch.einsum("bhts,bhsd->bhtd", p, v)',
        'torch.einsum("bhts,bhsd->bthd", p, v).reshape(v.shape)', "heads and queries mixed by a reshape", HEADS_MIXED),
    Row("torch_layers:GroupedAttention", "n_q_heads, n_kv_heads, bias=False, is_causal",
        "k = k.repeat_interleave(self.nq // self.nkv, dim=1)", "k = k.repeat(1, self.nq // self.nkv, 1, 1)",
        "key heads tiled", TILED),
    Row("torch_layers:RawParameters", "nn.Parameter w and b, F.linear",
        "F.linear(x, self.wv, self.bv)", "F.linear(x, self.wv)", "the values' bias is forgotten", NO_BIAS),
    Row("torch_layers:AttentionWithLengths", "lengths (B,)",
        "lengths[:, None]", "lengths[:1, None]", "lengths of the first sequence for all", FIRST_LENGTH),
    Row("torch_layers:CausalAttention", "a config dataclass, tril as a buffer",
        "torch.tril(torch.ones(config.block_size, config.block_size))",
        "torch.tril(torch.ones(config.block_size, config.block_size), diagonal=1)", "causal, off by one", CAUSAL_ONE),
    Row("torch_layers:BookAttention", "a dict as config, triu as a buffer",
        "torch.triu(ones, diagonal=1)", "torch.tril(ones, diagonal=-1)", "causal, the wrong way round",
        r"causal.*(revers|transpos|invert|wrong|later|future|past|opposite)|later keys|future"),
    Row("torch_layers:KeysAreValues", "forward(q, k): values are keys",
        "qh @ kh.mT / math.sqrt(U // self.n_heads)", "qh @ kh.mT", "no scale", SCALE),
    Row("torch_layers:BiasedAttention", "forward(inputs_q, inputs_kv, attn_bias), fused kv",
        "sim * self.scale + attn_bias", "(sim + attn_bias) * self.scale", "the bias is scaled, too",
        r"bias.*scal|scal.*bias"),
    Row("torch_layers:FunctionalDropout", "F.dropout, mask (N,1,T,S) 0 hides, p_drop=0.1",
        "self.p_drop, self.training)", "self.p_drop)", "dropout left on in evaluation", DROPOUT_ON),
    Row("torch_layers:PreNormAttention", "LayerNorm before, residual after",
        " * (C // self.n_heads) ** -0.5", " * C ** -0.5", "scale of the model's width", SCALE),
    # positions
    Row("torch_positions:RotarySelfAttention", "rotary inside, table as a buffer, causal flag",
        "k = k * cos + rotate_half(k) * sin", "k = k * cos - rotate_half(k) * sin", "keys turned the other way",
        r"rotar|rotat|turn|position"),
    Row("torch_positions:AttentionWithCosSin", "cos and sin handed in, grouped, mask added",
        "k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)",
        "k, v = k.repeat(1, self.groups, 1, 1), v.repeat(1, self.groups, 1, 1)", "key and value heads tiled", TILED),
    Row("torch_positions:AlibiAttention", "ALiBi inside, always causal",
        "self.slopes.to(x.dtype)[:, None, None] * distance", "self.slopes.to(x.dtype)[0] * distance",
        "the first head's slope for all", r"slope|alibi"),
    Row("torch_positions:NormedAttention", "RMS norm of query and key inside",
        "(q * self.head_dim ** -0.5)", "(q * C ** -0.5)", "scale of the model's width", SCALE),
    Row("torch_positions:SlidingAttention", "a window inside, of the constructor",
        "(j > i - self.window)", "(j >= i - self.window)", "window off by one", WINDOW),
    Row("torch_positions:capped_attention", "softcap, mask (B,1,T,S), (B,T,H,D)",
        "softcap * torch.tanh(logits / softcap)", "torch.tanh(logits / softcap)",
        "not multiplied by the cap again", r"cap"),
    Row("torch_positions:attention_with_sinks", "sinks (H,), required scale, causal=True by default",
        "sinks.to(qk.dtype).view(1, H, 1, 1)", "(sinks * sm_scale).to(qk.dtype).view(1, H, 1, 1)", "the sink is scaled",
        r"sink"),
    Row("torch_positions:local_attention", "window_size=(left, right), (B,T,H,D)",
        "s >= t - left", "s > t - left", "window off by one", WINDOW),
    # caches
    Row("torch_caches:InPlaceCache", "in-place cache and start_pos, grouped, mask added",
        "self.cache_v[:bsz, start_pos:start_pos + seqlen] = xv", "self.cache_v[:bsz, :seqlen] = xv",
        "values are written at the start of the cache", OFFSET),
    Row("torch_caches:RotaryCache", "rotary and a cache (k, v) handed back, always causal",
        "self.rotate(q, past), self.rotate(k, past)", "self.rotate(q, 0), self.rotate(k, 0)",
        "positions restart at 0 in cached calls", RESTARTED),
    Row("torch_caches:PastTuple", "layer_past, use_cache, (output, present)",
        "diagonal=ns - nd", "diagonal=0", "the causal mask forgets the past", CAUSAL_SQUARE),
    Row("torch_caches:CacheDict", "a dict that is filled in place",
        'torch.cat([cache["k"], k], dim=2)', 'torch.cat([k, cache["k"]], dim=2)', "new keys before old ones", OFFSET),
    Row("torch_caches:ObjectCacheAttention", "a cache object with update()",
        "self.keys[layer_idx], self.values[layer_idx] = k, v",
        "self.keys.setdefault(layer_idx, k), self.values.setdefault(layer_idx, v)",
        "only the first call is kept", OFFSET),
    Row("torch_caches:attend_past", "past_k, past_v; output and new past",
        "torch.arange(S - T, S, device=q.device)[:, None]", "torch.arange(T, device=q.device)[:, None]",
        "the causal mask forgets the past", CAUSAL_SQUARE),
    # torch functions
    Row("torch_functions:attention_with_padding", "(B,H,T,D), key_mask (B,S) True keeps",
        "scores.masked_fill(~key_mask[:, None, None, :]", "scores.masked_fill(~key_mask[:, None, :, None]",
        "mask on the axis of queries", r"mask.*(quer|axis|row)|quer.*mask"),
    Row("torch_functions:einsum_attention", "(B,T,H,D), einsum, causal and sm_scale=None",
        "diagonal=1", "diagonal=2", "causal, off by one", CAUSAL_ONE),
    Row("torch_functions:one_sequence", "(T,H,D)",
        "math.sqrt(q.shape[2])", "math.sqrt(q.shape[1])", "scale of the length, not the width",
        rf"({SCALE}).*(length|T|quer|keys)|{SCALE}"),
    Row("torch_functions:heads_first", "(H,T,D), required scale, softmax spelled out",
        "torch.exp(s - s.amax(dim=-1, keepdim=True))", "torch.exp(s)", "no maximum is subtracted",
        r"maxim|overflow|large"),
    Row("torch_functions:blocked_attention", "blocks of keys, float32 inside",
        "range(0, K.shape[2], block)", "range(0, max(block, K.shape[2] // block * block), block)",
        "the last block is dropped unless full", LAST_BLOCK),
    Row("torch_functions:online_attention", "tiles of queries and keys, float32 out",
        "num = num * shrink[..., None] + p", "num = num + p", "the sum is not rescaled", RESCALE),
    Row("torch_functions:sdpa_with_hidden", "a wrapper of SDPA; hide is True where hidden; causal",
        "keep = ~hide", "keep = hide", "mask inverted", INVERTED),
    Row("torch_functions:attn_fwd", "writes into out, (B,T,H,D)",
        "out.copy_(o.permute(0, 2, 1, 3))", "out.copy_(o.reshape(out.shape))", "output reshaped, not transposed back",
        HEADS_MIXED),
    Row("torch_functions:attention_with_lse", "output and log-sum-exp",
        "(m + total.log())", "total.log()", "the maximum is missing in the log-sum-exp", r"lse|log.?sum|maxim"),
    Row("torch_functions:attention_with_bias_and_padding", "bias (B,H,T,S) and padding (B,S) True hides",
        "logits + attn_bias", "logits + attn_bias[:, :1]", "the first head's bias for all", r"bias.*head|head.*bias"),
    Row("torch_functions:grouped_query_attention", "grouped (B,T,H,D), valid_lens",
        "xk.shape[1], device=xq.device) >= valid_lens", "xk.shape[1], device=xq.device) > valid_lens",
        "one key too many", r"len.*(one|key)|off by one|one key|padding|beyond"),
    Row("torch_functions:attention_with_probs", "mask as 0 and 1, return_probs",
        "return (y, probs) if", "return (y, att) if", "logits are returned as weights", r"weights|probab|logits"),
    # packed
    Row("torch_packed:varlen_attention", "cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k",
        "int(cu_seqlens_k[i]), int(cu_seqlens_k[i + 1])", "int(cu_seqlens_q[i]), int(cu_seqlens_q[i + 1])",
        "the keys' borders are the queries'", r"border|cu_|start|sequence|pack|quer"),
    Row("torch_packed:packed_attention", "qkv (total,3,H,D), cu_seqlens",
        "range(cu_seqlens.numel() - 1)", "range(cu_seqlens.numel() - 2)", "the last sequence is dropped",
        r"last (sequence|entry|batch)|sequence.*(last|dropped|not written)"),
    Row("torch_packed:segment_attention", "segment_ids (B,T), self attention",
        "segment_ids[:, :, None] == segment_ids[:, None, :]", "segment_ids[:, :, None] >= segment_ids[:, None, :]",
        "earlier documents are seen", r"segment|document"),
    Row("torch_packed:decode_attention", "one query (B,H,D), cache_seqlens, grouped",
        "places >= cache_seqlens", "places > cache_seqlens", "one key too many", r"len|one key|off by one|beyond|padding"),
    Row("torch_packed:paged_attention", "block_tables, context_lens, one query, grouped",
        "block_tables[b]", "block_tables[0]", "the first sequence's pages for all", PAGE),
    Row("torch_packed:paged_decode", "page_table, seq_lens, (B,1,H,D)",
        "places[None, :] < seq_lens[:, None]", "places[None, :] < (seq_lens[:, None] + page - 1) // page * page",
        "the rest of the last page is read", PAGE),
    # training
    Row("torch_training:attention_with_backward", "autograd.Function",
        "dq = ds @ k * ctx.scale", "dq = ds @ k", "dQ without scale", DQ),
    Row("torch_training:flash_like", "autograd.Function with causal, (B,T,H,D)",
        "(dp - delta) / math.sqrt(q.shape[-1])", "dp / math.sqrt(q.shape[-1])", "dS without its row sum",
        r"gradient.*(sum|delta|row|softmax)|delta|softmax.*(gradient|backward)"),
    Row("torch_training:attention_with_dropout", "dropout_p, training",
        "if training and dropout_p > 0", "if dropout_p > 0", "dropout left on in evaluation", DROPOUT_ON),
    # JAX
    Row("jax_functions:attend", "(B,T,H,D), jnp.where, mask (B,1,T,S)",
        "jnp.where(mask, logits, jnp.finfo(logits.dtype).min)", "jnp.where(mask, jnp.finfo(logits.dtype).min, logits)",
        "mask inverted", INVERTED),
    Row("jax_functions:mapped_attention", "vmap of one head",
        "jax.nn.softmax(s, axis=-1) @ v", "jax.nn.softmax(s, axis=0) @ v", "softmax over the queries", SOFTMAX_AXIS),
    Row("jax_functions:mha_apply", "a dict of parameters, initialiser beside",
        "(w @ v).transpose(0, 2, 1, 3).reshape(B, T, C)", "(w @ v).reshape(B, T, C)",
        "output not transposed back", HEADS_MIXED),
    Row("jax_functions:gqa", "grouped (B,H,T,D), is_causal=True",
        "jnp.repeat(k, n_rep, axis=1), jnp.repeat(v, n_rep, axis=1)",
        "jnp.tile(k, (1, n_rep, 1, 1)), jnp.tile(v, (1, n_rep, 1, 1))", "heads tiled", TILED),
    Row("jax_functions:attention_with_vjp", "custom_vjp",
        "dq = ds @ k * scale", "dq = ds @ k", "dQ without scale", DQ),
    Row("jax_functions:scanned_attention", "lax.scan over keys",
        "total = total * shrink + e", "total = total + e", "the sum is not rescaled", RESCALE),
    Row("jax_functions:attend_and_cache", "a dict as cache with an index, dynamic_update_slice",
        '"index": index + T', '"index": index', "the index does not advance", OFFSET),
    # Flax
    Row("flax_layers:LinenSelfAttention", "linen, setup, fused qkv",
        "jnp.sqrt(C // self.n_heads)", "jnp.sqrt(self.features)", "scale of the model's width", SCALE),
    Row("flax_layers:LinenCrossAttention", "linen, compact, DenseGeneral, mask True keeps",
        "jnp.where(mask, logits, jnp.finfo(logits.dtype).min)", "jnp.where(mask, jnp.finfo(logits.dtype).min, logits)",
        "mask inverted", INVERTED),
    Row("flax_layers:NnxAttention", "NNX, fused qkv",
        "(d // self.heads) ** -0.5, axis=-1)", "(d // self.heads) ** -0.5, axis=-2)", "softmax over the queries",
        SOFTMAX_AXIS),
    Row("flax_layers:NnxCross", "NNX, to a memory",
        "split(self.k(memory)), split(self.v(memory))", "split(self.v(memory)), split(self.k(memory))",
        "keys and values swapped", SWAPPED),
    # Equinox
    Row("equinox_layers:EqxSelfAttention", "Equinox, (T,C), vmap of linears",
        'jnp.einsum("hts,shd->thd", w, v)', 'jnp.einsum("hts,shd->htd", w, v)', "output not transposed back",
        HEADS_MIXED),
    Row("equinox_layers:EqxCausal", "Equinox, fused, always causal",
        "jnp.tril(jnp.ones((T, T), bool))", "jnp.tril(jnp.ones((T, T), bool), 1)", "causal, off by one", CAUSAL_ONE),
    # Keras
    Row("keras_layers:KerasSelfAttention", "Keras, Dense, attention_mask (B,T,S)",
        "ops.logical_not(ops.expand_dims(attention_mask, 1))", "ops.expand_dims(attention_mask, 1)",
        "mask inverted", INVERTED),
    Row("keras_layers:KerasBuilt", "Keras, add_weight in build, fused",
        "(d // self.heads) ** 0.5", "d ** 0.5", "scale of the model's width", SCALE),
    Row("keras_layers:KerasCross", "Keras, EinsumDense, to a context",
        "ops.softmax(s, axis=-1)", "ops.softmax(s, axis=1)", "softmax over the heads", SOFTMAX_AXIS),
    # NumPy
    Row("numpy_functions:masked_attention", "NumPy (B,H,T,D), 0 hides",
        "softmax(scores) @ V",
        "(softmax(Q @ K.transpose(0, 1, 3, 2) / np.sqrt(Q.shape[-1])) * (1 if mask is None else mask != 0)) @ V",
        "mask after the softmax, without renormalising", MASK_LATE),
    Row("numpy_functions:multi_head_attention", "NumPy, one sequence and four matrices",
        "np.sqrt(d_k)", "np.sqrt(d_model)", "scale of the model's width", SCALE),
    Row("numpy_functions:NumpyMultiHead", "a NumPy class with forward",
        "np.sqrt(self.d_head)", "np.sqrt(C)", "scale of the model's width", SCALE),
    Row("numpy_functions:self_attention", "NumPy (T,d)",
        "weights.sum(axis=1, keepdims=True)", "weights.sum(axis=0, keepdims=True)", "normalised over the queries",
        SOFTMAX_AXIS),
    Row("numpy_functions:sloped_attention", "NumPy (B,T,H,D), slopes (H,)",
        "s - slopes", "s + slopes", "the slope's sign is wrong", r"slope|alibi"),
    Row("numpy_functions:causal_attention", "NumPy (T,H,D), always causal",
        "k=1)", "k=0)", "a query does not see itself", r"itself|diagonal|off by one|own|causal"),
)
