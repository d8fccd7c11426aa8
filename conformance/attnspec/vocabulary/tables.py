"""Which words there are. A new word joins its table here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attnspec.problems.domain import domain
from attnspec.vocabulary import layer_transforms, relations, rulings, transforms
from attnspec.vocabulary.draws import DRAWS

TRANSFORMS: Mapping[str, Callable[..., Any]] = {
    word.__name__: word
    for word in (
        transforms.after_another, transforms.again, transforms.ask_weights, transforms.broadcast_mask, transforms.causal_as_mask,
        transforms.drop_keys, transforms.drop_mask, transforms.fill, transforms.hide_keys, transforms.keep_kv_heads,
        transforms.keep_prefix, transforms.keep_queries, transforms.keep_values, transforms.lay_out, transforms.mask_as_bias, transforms.multiply,
        transforms.other_content, transforms.permute_batch, transforms.permute_heads, transforms.permute_keys,
        transforms.permute_queries, transforms.repeat_keys, transforms.repeat_kv_heads, transforms.replace_after,
        transforms.replace_hidden, transforms.share_heads, transforms.share_mask, transforms.shift_bias,
        transforms.shift_keys, transforms.show_all, transforms.split, transforms.widen, transforms.with_scale,
        transforms.zero_bias,
    )
}

LAYER_TRANSFORMS: Mapping[str, Callable[..., Any]] = {
    word.__name__: word
    for word in (
        layer_transforms.indivisible_heads, layer_transforms.one_head_at_a_time, layer_transforms.permute_layer_heads,
    )
}

RELATIONS: Mapping[str, Callable[..., Any]] = {
    word.__name__: word
    for word in (
        relations.adds_up, relations.agree, relations.agree_on_prefix, relations.agrees_with_definition, relations.has_input_dtype,
        relations.has_shape, relations.hidden_is_zero, relations.inside_hull, relations.is_finite,
        relations.is_multiple, relations.leaves_inputs, relations.not_negative, relations.row_maxima_grow,
        relations.shares_no_memory, relations.sums_to_one, relations.variants_agree,
        rulings.convention_is, rulings.has_variance, rulings.hidden_rows_follow_convention, rulings.is_refused,
    )
}

WORDS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "problem": {"problem": domain}, "draw": DRAWS, "transform": {**TRANSFORMS, **LAYER_TRANSFORMS},
    "relation": RELATIONS,
}
