"""Which words there are, and on which instrument a verdict by each relation rests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attnspec.core.keywords import load_parts
from attnspec.core.nouns import Kind
from attnspec.problems.domain import domain
from attnspec.vocabulary import capacity, chance, differentiating, making, merging, overflow, relations, rulings
from attnspec.vocabulary.draws import DRAWS
from attnspec.vocabulary.dropout import OF_DROPOUT
from attnspec.vocabulary.rotary import ROTARY_RELATIONS
from attnspec.vocabulary.signature import Bound
from attnspec.vocabulary.transforms import (
    axes,
    contents,
    gradients,
    history,
    keywords,
    layers,
    pages,
    rotary,
    steps,
)
from attnspec.vocabulary.transforms import dropout as dropping

WORST_CASE = "worst-case rounding bound"
EQUALITY = "equality"
_ROUNDINGS = "bound for independent rounding errors, at most {false_alarm:g} false alarms per clause"

_BINOMIAL = "exact binomial test, at most {false_alarm:g} false alarms per clause"

INSTRUMENTS: Mapping[str, str] = {
    "agrees_with_definition": WORST_CASE, "agree": "{within}", "agree_on_prefix": WORST_CASE, "adds_up": WORST_CASE,
    "is_multiple": WORST_CASE, "sums_to_one": WORST_CASE, "inside_hull": WORST_CASE, "row_maxima_grow": WORST_CASE,
    "variants_agree": WORST_CASE, "form_agrees": WORST_CASE, "differ": WORST_CASE, "has_shape": EQUALITY,
    "has_input_dtype": EQUALITY, "is_finite": EQUALITY,
    "not_negative": EQUALITY, "hidden_is_zero": EQUALITY, "leaves_inputs": EQUALITY, "shares_no_memory": EQUALITY,
    "answers_are_kept": EQUALITY, "convention_is": "probe of a convention",
    "hidden_rows_follow_convention": "probe of a convention",
    "rows_beyond_follow_convention": "probe of a convention",
    "lse_of_hidden_rows_follows_convention": "probe of a convention", "merges": WORST_CASE, "lse_merges": WORST_CASE,
    "lse_has_its_dtype": EQUALITY, "gradients_have_input_dtypes": EQUALITY, "is_refused": "refusal of the call",
    "overfull_cache_follows_convention": "probe of a convention", "full_cache_agrees_with_definition": WORST_CASE,
    "has_variance": "chi-squared test, at most {false_alarm:g} false alarms per shape",
    "has_no_drift": "self-normalised score test, at most {false_alarm:g} false alarms per clause",
    "does_not_overflow": f"{WORST_CASE}, no overflow excused",
    "leaves_input_as_it_is": EQUALITY, "leaves_the_rest": EQUALITY, "keeps_pair_norms": WORST_CASE,
    "scores_agree": WORST_CASE, "composes": WORST_CASE,
    "weights_are_dropped_or_rescaled": f"{WORST_CASE} on the weights, measured with V = I",
    "agrees_with_what_is_kept": f"{WORST_CASE}, with the weights dropped that are 0 for V = I",
    "masks_agree": EQUALITY, "drops_at_rate": _BINOMIAL, "drops_independently": _BINOMIAL,
    "masks_are_independent": _BINOMIAL,
    "averages_to_plain": "Hoeffding's inequality, at most {false_alarm:g} false alarms per clause",
    "agrees_typically": _ROUNDINGS, "is_as_precise_as_declared": _ROUNDINGS,
}
"""By relation; in braces its arguments. A new relation joins this table when it joins the words."""

_WITHIN: Mapping[object, str] = {"exact": EQUALITY, "rounding": WORST_CASE}
_READ_OUTS: Mapping[object, str] = {
    "weights": " on the weights, measured with V = I", "logits": " on the logits, measured with V = I"}


def instrument_of(bound: Bound) -> str:
    """The instrument of a relation with its arguments in place."""
    values = bound.values
    phrase = INSTRUMENTS[bound.name].format_map({**values, "within": _WITHIN.get(values.get("within"), "")})
    return phrase + _READ_OUTS.get(values.get("observe"), "")


Words = Mapping[str, Callable[..., Any]]


def _words(*functions: Callable[..., Any]) -> Words:
    return {function.__name__: function for function in functions}


TRANSFORMS: Words = _words(
    axes.permute_keys, axes.permute_queries, axes.permute_batch, axes.permute_heads, axes.split,
    contents.multiply, contents.shift_keys, contents.shift_bias, contents.fill, contents.keep_values,
    contents.other_content, contents.replace_hidden, contents.replace_last_entry, contents.replace_after,
    contents.share_heads,
    contents.move_unseen,
    keywords.hide_keys, keywords.show_all, keywords.drop_mask, keywords.share_mask, keywords.broadcast_mask,
    keywords.zero_bias, keywords.mask_as_bias, keywords.causal_as_mask, keywords.with_scale, keywords.ask_weights,
    keywords.leave_out, *(word for part in load_parts("words") for word in part.TRANSFORMS),
    *pages.OF_PAGES, *gradients.OF_GRADIENTS, *steps.OF_STEPS,
    *dropping.OF_DROPOUT,
    axes.widen, axes.repeat_keys, axes.drop_keys, axes.drop_last_value, axes.drop_first_keys, axes.keep_queries,
    axes.keep_prefix, axes.repeat_kv_heads, axes.keep_kv_heads,
    history.again, history.after_another, history.lay_out,
)

LAYER_TRANSFORMS: Words = _words(
    layers.indivisible_heads, layers.multiply_biases, layers.one_head_at_a_time, layers.permute_layer_heads)

ROTARY_TRANSFORMS: Words = _words(*rotary.TRANSFORMS)

TABLES: Mapping[Kind, Words] = {
    Kind.ATTENTION: TRANSFORMS, Kind.LAYER: LAYER_TRANSFORMS, Kind.ROTARY: ROTARY_TRANSFORMS}
"""The transforms of each kind of problem."""

RELATIONS: Words = _words(
    relations.agrees_with_definition, relations.agree, relations.agree_on_prefix, rulings.differ, relations.adds_up,
    relations.is_multiple, relations.has_shape, relations.has_input_dtype, relations.is_finite,
    relations.not_negative, relations.sums_to_one, relations.hidden_is_zero, relations.inside_hull,
    relations.row_maxima_grow, relations.leaves_inputs, relations.shares_no_memory, relations.variants_agree,
    relations.answers_are_kept,
    overflow.does_not_overflow, rulings.convention_is, rulings.hidden_rows_follow_convention,
    rulings.rows_beyond_follow_convention, rulings.lse_of_hidden_rows_follows_convention, rulings.is_refused,
    capacity.overfull_cache_follows_convention, capacity.full_cache_agrees_with_definition,
    merging.merges, merging.lse_merges, merging.lse_has_its_dtype, differentiating.gradients_have_input_dtypes,
    making.form_agrees,
    chance.has_variance, chance.agrees_typically, chance.is_as_precise_as_declared, chance.has_no_drift,
    *ROTARY_RELATIONS, *OF_DROPOUT,
)

OF_ROTARY = frozenset(word.__name__ for word in ROTARY_RELATIONS)
"""Relations that only rotary embeddings have."""

OF_ANY = frozenset({"agrees_with_definition", "agree", "has_shape", "has_input_dtype", "is_finite", "leaves_inputs",
                    "shares_no_memory", "answers_are_kept"})
"""Relations that look at nothing but inputs and output: all that a rotary embedding has besides."""

ATTENTION_RELATIONS = frozenset({"inside_hull", "row_maxima_grow", "hidden_rows_follow_convention",
                                 "rows_beyond_follow_convention", "lse_of_hidden_rows_follows_convention",
                                 "overfull_cache_follows_convention", "full_cache_agrees_with_definition",
                                 "merges", "lse_merges", "lse_has_its_dtype", "gradients_have_input_dtypes",
                                 "has_variance", "agrees_typically", "is_as_precise_as_declared", "has_no_drift",
                                 *(word.__name__ for word in OF_DROPOUT)})
"""Relations that only problems of attention itself have."""

OF_CHANCE = frozenset({"has_variance", "agrees_typically", "is_as_precise_as_declared", "has_no_drift", "drops_at_rate",
                       "drops_independently", "masks_are_independent", "averages_to_plain"})
"""Relations with a rate of false alarms. To search for a case that breaks them would void it."""

OF_ROUNDINGS = frozenset({"agrees_typically", "is_as_precise_as_declared"})
"""Relations that take roundings to be independent, which only values without structure allow."""

INSIDE = frozenset({"weights", "logits"})
"""Observables read through the values: a layer's projections are in the way."""

READING = frozenset({"weights_are_dropped_or_rescaled", "agrees_with_what_is_kept", "masks_agree", "drops_at_rate",
                     "drops_independently", "masks_are_independent"})
"""Relations that read the weights, whatever they observe."""

PARTING = frozenset({"split", "one_head_at_a_time", "cut_to_lengths", "one_at_a_time"})
"""Transforms that take a problem apart: they are the last of a run."""

PARTED: Mapping[object, str] = {"batch": "B", "heads": "H", "queries": "T", "tokens": "T"}
"""By what `along` says, the axis along which it is taken apart."""

WORDS: Mapping[str, Words] = {
    "problem": {"problem": domain}, "draw": DRAWS, "transform": {**TRANSFORMS, **LAYER_TRANSFORMS, **ROTARY_TRANSFORMS},
    "relation": RELATIONS,
}
