"""Which words there are. A new word joins its table here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attnspec.problems.domain import domain
from attnspec.vocabulary import chance, drift, relations, rulings
from attnspec.vocabulary.draws import DRAWS
from attnspec.vocabulary.transforms import contents, history, keywords, layers, order, shapes

Words = Mapping[str, Callable[..., Any]]


def _words(*functions: Callable[..., Any]) -> Words:
    return {function.__name__: function for function in functions}


TRANSFORMS: Words = _words(
    order.permute_keys, order.permute_queries, order.permute_batch, order.permute_heads, order.split,
    contents.multiply, contents.shift_keys, contents.shift_bias, contents.fill, contents.keep_values,
    contents.other_content, contents.replace_hidden, contents.replace_after, contents.share_heads,
    contents.move_unseen,
    keywords.hide_keys, keywords.show_all, keywords.drop_mask, keywords.share_mask, keywords.broadcast_mask,
    keywords.zero_bias, keywords.mask_as_bias, keywords.causal_as_mask, keywords.with_scale, keywords.ask_weights,
    keywords.leave_out, *keywords.OF_UNCOMMON,
    shapes.widen, shapes.repeat_keys, shapes.drop_keys, shapes.keep_queries, shapes.keep_prefix,
    shapes.repeat_kv_heads, shapes.keep_kv_heads,
    history.again, history.after_another, history.lay_out,
)

LAYER_TRANSFORMS: Words = _words(
    layers.indivisible_heads, layers.multiply_biases, layers.one_head_at_a_time, layers.permute_layer_heads)

RELATIONS: Words = _words(
    relations.agrees_with_definition, relations.agree, relations.agree_on_prefix, rulings.differ, relations.adds_up,
    relations.is_multiple, relations.has_shape, relations.has_input_dtype, relations.is_finite,
    relations.not_negative, relations.sums_to_one, relations.hidden_is_zero, relations.inside_hull,
    relations.row_maxima_grow, relations.leaves_inputs, relations.shares_no_memory, relations.variants_agree,
    relations.answers_are_kept,
    rulings.convention_is, rulings.hidden_rows_follow_convention, rulings.is_refused,
    chance.has_variance, chance.agrees_typically, chance.is_as_precise_as_declared, drift.has_no_drift,
)

ATTENTION_RELATIONS = frozenset({"inside_hull", "row_maxima_grow", "hidden_rows_follow_convention", "has_variance",
                                 "agrees_typically", "is_as_precise_as_declared", "has_no_drift"})
"""Relations that only problems of attention itself have."""

OF_CHANCE = frozenset({"has_variance", "agrees_typically", "is_as_precise_as_declared", "has_no_drift"})
"""Relations with a rate of false alarms. To search for a case that breaks them would void it."""

OF_ROUNDINGS = frozenset({"agrees_typically", "is_as_precise_as_declared"})
"""Relations that take roundings to be independent, which only values without structure allow."""

INSIDE = frozenset({"weights", "logits"})
"""Observables read through the values: a layer's projections are in the way."""

PARTING = frozenset({"split", "one_head_at_a_time"})
"""Transforms that take a problem apart: they are the last of a run."""

WORDS: Mapping[str, Words] = {
    "problem": {"problem": domain}, "draw": DRAWS, "transform": {**TRANSFORMS, **LAYER_TRANSFORMS},
    "relation": RELATIONS,
}
