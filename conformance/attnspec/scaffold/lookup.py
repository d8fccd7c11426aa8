"""Knows the names that other libraries have for our words, and reads parameters by them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.keywords import KEYWORDS

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    # arrays
    "query": ("query", "q", "queries", "xq", "inputs_q", "q_x", "query_states", "query_layer",
              "qs", "hidden_states", "q_in", "x_q", "x", "inputs", "input", "inputs_x", "input_q",
              "src", "tgt"),
    "key": ("key", "k", "keys", "xk", "inputs_k", "k_x", "key_states", "key_layer", "ks", "input_k"),
    "value": ("value", "v", "values", "xv", "inputs_v", "v_x", "value_states", "value_layer", "vs", "input_v"),
    "packed": ("qkv", "qkv_packed", "packed_qkv", "mixed_qkv", "inputs_qkv"),
    "packed_pair": ("kv", "kv_packed", "packed_kv"),
    "context": ("context", "y", "memory", "xa", "encoder_hidden_states", "key_value_states",
                "kv_x", "kv", "kv_in", "x_kv", "key_value", "encoder_output", "encoder_outputs",
                "ctx", "enc_out", "enc_output", "encoder_out", "encoder_states", "cond", "mem",
                "kv_states", "inputs_kv", "input_kv", "kv_inputs", "kv_input", "source",
                "memories", "enc", "encoded"),
    **{word.name: word.parameters for word in KEYWORDS.values() if word.parameters},
    "query_segments": (*KEYWORDS["query_segments"].parameters, "segment_ids", "seg_ids",
                       "segments", "document_ids", "doc_ids", "segment_id", "doc_id"),
    # sizes
    "heads": ("num_heads", "heads", "n_heads", "nhead", "head_num", "n_head",
              "num_attention_heads", "head_count", "num_query_heads", "no_heads", "nb_heads",
              "num_q_heads", "h", "heads_num"),
    "kv_heads": ("num_kv_heads", "kv_heads", "n_kv_heads", "num_key_value_heads", "n_local_heads",
                 "num_query_groups", "kv_n_heads", "num_kv_groups", "num_kv", "n_query_groups",
                 "n_kv_groups"),
    "width": ("embed_dim", "dim", "d_model", "hidden_size", "n_embd", "model_dim", "query_dim",
              "in_features", "embed_size", "hidden_dim", "num_hiddens", "embedding_dim", "n_state",
              "n_feat", "channels", "emb_dim", "query_size", "input_dim", "d_in",
              "embed_dim_to_check", "n_units", "width", "features", "q_dim", "latent_dim",
              "emb_size", "n_channels", "in_channels", "feats", "dim_model", "num_features",
              "n_features", "embedding_size", "in_dim", "d_embed", "dim_embed", "num_channels"),
    "inner_width": ("qkv_features", "attention_dim", "inner_dim", "total_key_depth", "values_dim", "qkv_dim"),
    "out_width": ("out_features", "output_size", "d_out", "out_dim", "out_channels", "output_dim", "model_size"),
    "head_width": ("dim_head", "head_dim", "d_head", "d_kv", "d_k", "qk_size", "key_dim",
                   "key_size", "head_size", "kv_channels"),
    "context_width": ("context_dim", "dim_context", "kv_dim", "dim_kv", "cross_attention_dim",
                      "cross_dim", "ctx_dim", "memory_dim", "encoder_dim", "d_context", "d_memory",
                      "encoder_hidden_size", "kv_in_dim"),
    "value_head_width": ("vo_size", "value_dim", "value_size", "d_v", "v_head_dim"),
    "length": ("block_size", "max_seq_len", "context_length", "n_ctx", "n_positions",
               "max_position_embeddings", "max_seq_length", "max_seqlen", "max_len", "seq_len",
               "sequence_length", "context_size", "max_position", "maxlen"),
    "batch": ("max_batch_size", "max_batch", "batch_size", "max_bsz", "max_bs"),
    "grid": ("feat_size", "hw_shape", "hw_shapes", "spatial_shape", "grid_size", "x_size", "input_resolution", "size"),
    "tile": ("resolution", "input_resolution", "fmap_size"),
    "rows": ("height", "grid_height"),
    "columns": ("width", "grid_width"),
    "queries": ("max_seqlen_q", "tgt_len", "q_len", "query_length", "max_query", "max_q", "m"),
    "keys": ("max_seqlen_k", "src_len", "kv_len", "key_length", "max_key", "max_k", "n"),
    "a_width": ("d",),
    "query_ends": ("cu_seqlens_q", "cu_query", "cu_seq_q", "cu_seqlens_query", "cu_q_lens",
                   "q_cu_seqlens", "cu_seqlens", "cu_lens", "cu_seq_lens"),
    "key_ends": ("cu_seqlens_k", "cu_key", "cu_seq_k", "cu_seqlens_kv", "cu_seqlens_key",
                 "cu_k_lens", "k_cu_seqlens", "kv_cu_seqlens"),
    # what a layer is told of its parameters
    "biases": ("bias", "use_bias", "qkv_bias", "with_bias", "attention_bias", "proj_bias",
               "out_bias", "bias_qkv", "use_query_bias", "use_key_bias", "use_value_bias",
               "use_output_bias", "out_proj_bias"),
    "config": ("config", "cfg", "args", "model_args", "hparams", "conf", "model_config", "params_config", "settings"),
    "params": ("params", "parameters", "layer_params", "layer_weights", "weights", "p", "variables", "theta"),
    "scale_width": ("query_pre_attn_scalar",),
    "rotary_width": ("rotary_dim", "rotary_ndims", "rope_dim", "rotary_emb_dim", "rope_n_elem"),
    "rotary_share": ("rotary_pct", "rotary_percentage", "partial_rotary_factor"),
    "one_kv_head": ("multi_query", "one_kv_head", "use_mqa"),
    "ratio": ("downsample_rate", "attention_downsample_rate", "sr_ratio",
              "sequence_reduction_ratio", "attn_ratio", "reduction_ratio"),
    # what is no part of attention
    "dropout": ("dropout", "dropout_p", "dropout_rate", "attn_dropout", "attention_dropout", "p",
                "attn_pdrop", "resid_pdrop", "drop", "attn_drop", "proj_drop", "resid_dropout",
                "hidden_dropout_prob", "drop_rate", "attention_probs_dropout_prob", "rate",
                "dropout_prob", "p_dropout", "residual_dropout", "att_dropout"),
    "training": ("training", "train", "is_training", "is_train"),
    "deterministic": ("inference", "deterministic", "is_eval"),
    "seed": ("seed", "random_state", "random_seed"),
    "random_key": ("key", "rng", "rngs", "dropout_rng", "prng_key", "rng_key", "dropout_key"),
    "batch_first": ("batch_first",),
    "angles": ("position_embeddings", "cos_sin"),
    "positions": ("position_ids", "positions", "pos_ids", "token_positions", "input_positions"),
    "cosines": ("cos", "cosine", "cosines", "rope_cos", "freqs_cos", "cos_cached", "rotary_cos", "rotary_pos_cos"),
    "sines": ("sin", "sine", "sines", "rope_sin", "freqs_sin", "sin_cached", "rotary_sin", "rotary_pos_sin"),
    "turns": ("freqs_cis", "freqs", "rotary"),
    "caching": ("use_cache", "return_cache", "output_cache", "return_present", "return_kv", "cache_output"),
    "place": ("input_pos", "cache_position", "cache_pos", "cache_index", "past_length", "past_len",
              "offset", "position", "pos", "layer_idx", "start_pos", "layer_id", "layer_number",
              "cur_pos", "layer_index", "block_idx", "block_index", "block_id"),
    "residual": ("residual",),
    "owner": ("module", "layer"),
    "activation": ("activation",),
    "spread": ("w_init_scale",),
    "decoding": ("decode",),
    "destination": ("out", "output", "o", "result", "dst", "dest"),
}
"""By our word, their names, the usual one first."""

_KNOWN_NAMES = frozenset(name for names in SYNONYMS.values() for name in names)

DIVISOR_NAMES = frozenset({"temperature", "norm_factor", "softmax_temperature"})
"""Names of what the dot products are divided by, not multiplied."""


def normalise_name(name: str) -> str:
    """Returns a name as the table has it: `key_` is `key`, `nHeads` is `n_heads`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


def split_words(name: str) -> str:
    """Returns the words of a name in lower case: `GPTSelfAttention` is `gpt self attention`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", name).lower()


_NAME_START = "(?:w|x|to|fc|lin|conv|linear|proj|in|b)?"
_ROLE_PATTERNS: Mapping[str, str] = {
    "qkv": rf"{_NAME_START}(?:qkv|kqv|qvk|kvq|vkq|vqk|qkvs)|combined", "kv": rf"{_NAME_START}kv",
    "query": rf"{_NAME_START}(?:q|qs|query|queries)", "key": rf"{_NAME_START}(?:k|ks|key|keys)",
    "value": rf"{_NAME_START}(?:v|vs|value|values)",
    "out": rf"{_NAME_START}(?:o|out|output)|proj|projection|dense|fc|final|linear|lin|merge"}
"""By role, the words in a parameter's name that say it, the most telling role first."""

_FUSED_WORDS: Mapping[frozenset[str], str] = {
    frozenset({"query", "key", "value"}): "qkv", frozenset({"in", "proj"}): "qkv", frozenset({"c", "attn"}): "qkv",
    frozenset({"in", "projection"}): "qkv", frozenset({"key", "value"}): "kv"}
"""By words that stand together, the role that they say."""


def find_role(path: Sequence[str]) -> str:
    """Returns which matrix the name of a parameter says it is; empty if it does not say."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", " ".join(path))
    words = [word.lower() for word in re.split(r"[^A-Za-z0-9]+", text) if word]
    for together, role in _FUSED_WORDS.items():
        if together <= set(words) and not ({"q", "k", "v", "out"} & set(words)):
            return role
    return next((role
                 for role, pattern in _ROLE_PATTERNS.items() if any(re.fullmatch(pattern, word) for word in words)),
                "")


_PLAIN_TYPES = (type(None), bool, int, float, str)
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class TheirParameter:
    """A parameter of a foreign callable.

    default: REQUIRED where there is none.  kind: of `inspect`.  annotation: a class by its name.
    tried_as: the keyword of ours that it is tried as, whatever its name.
    """

    name: str
    default: object = REQUIRED
    kind: inspect._ParameterKind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    annotation: str = ""
    tried_as: str = ""

    @property
    def is_required(self) -> bool:
        """Says whether a call without it fails."""
        return self.default is REQUIRED

    @property
    def by_position(self) -> bool:
        """Says whether it may be given by position."""
        return self.kind is not inspect.Parameter.KEYWORD_ONLY

    @property
    def text(self) -> str:
        """Returns its default in Python, where its `repr` can be read back; else empty."""
        parts = self.default if type(self.default) is tuple else (self.default,)
        return repr(self.default) if all(type(each) in _PLAIN_TYPES for each in parts) else ""


def find_parameters(keyword: str, parameters: Iterable[TheirParameter]) -> tuple[TheirParameter, ...]:
    """Lists the parameters that may be our keyword, the usual name first. Any other mask
    (`context_mask`) may be ours, and any other rate of dropout (`p_drop`). Last come those that
    are tried as the keyword, whatever their names.
    """
    listed = tuple(parameters)
    present: dict[str, TheirParameter] = {}
    for each in listed:
        present.setdefault(normalise_name(each.name), each)  # Equinox has key_, an array, before key, of random numbers
    named = [name for name in SYNONYMS[keyword] if name in present]
    others = [name
              for name, each in present.items() if name not in _KNOWN_NAMES and _is_named_like(keyword, name, each)]
    return (*(present[name] for name in (*named, *others)), *(each for each in listed if each.tried_as == keyword))


def _is_named_like(keyword: str, name: str, parameter: TheirParameter) -> bool:
    """Says whether a name that no list has says what a parameter is."""
    is_rate = isinstance(parameter.default, float) or parameter.annotation == "float"
    return (keyword == "mask" and name.endswith("_mask")) or (keyword == "dropout" and is_rate and "drop" in name)
