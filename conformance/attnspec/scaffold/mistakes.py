"""Plain mistakes of attention, which keep its form from being recognised.

Each is the definition with one thing changed. A callee that is attention in no form is compared
with each of them. Where one explains all of its numbers, its adapter is written in that form, so
that a check judges all of it and convicts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from attnspec.numerics.operands import Operands
from attnspec.numerics.reference import Truth
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes, join_past


@dataclass(frozen=True, slots=True)
class PlainMistake:
    """A plain mistake: attention with one thing changed.

    says: the mistake, as it follows "attention, but".  of_params: changes the parameters of a
    layer's problem.  of_problem: changes query, key, value, scale or mask.  of_weights: computes
    the output (B,H,T,Dv) from other weights.  of_heads: changes the heads of the output
    (B,H,T,Dv).  is_causal: whether it concerns what a causal callee sees.  is_of_past: whether it
    concerns what precedes the new keys.
    """

    says: str
    of_params: Callable[[LayerProblem], LayerProblem] | None = None
    of_problem: Callable[[Problem], Problem] | None = None
    of_weights: Callable[[Truth, Operands], Array] | None = None
    of_heads: Callable[[Array], Array] | None = None
    is_causal: bool = False
    is_of_past: bool = False


def _use_scale(scale: Callable[[Sizes], float]) -> Callable[[Problem], Problem]:
    """Makes a change that sets another scale where none is given."""
    return lambda problem: problem.but(scale=scale(problem.sizes)) if problem.scale is None else problem


def _fill_hidden(logits: Array, operands: Operands, filler: float) -> Array:
    """Replaces what belongs to hidden keys in (B,H,T,S)."""
    if operands.visible is None:
        return logits
    return np.where(operands.visible, logits, filler)


def _normalise_over(axis: int) -> Callable[[Truth, Operands], Array]:
    """Makes a function for the output (B,H,T,Dv) of weights that sum to 1 over this axis."""
    def weigh(found: Truth, operands: Operands) -> Array:
        """(B,H,T,Dv)."""
        logits = _fill_hidden(found.logits, operands, -np.inf)
        top = logits.max(axis=axis, keepdims=True)
        weights = np.exp(logits - np.where(np.isneginf(top), 0, top))
        total = weights.sum(axis=axis, keepdims=True)
        return np.asarray(weights / np.where(total == 0, 1, total) @ operands.value)

    return weigh


def _divide_over_queries(found: Truth, operands: Operands) -> Array:
    """Returns the output (B,H,T,Dv) of weights that are divided by their sums over queries."""
    weights = found.weights
    total = weights.sum(axis=2, keepdims=True)
    return np.asarray(weights / np.where(total == 0, 1, total) @ operands.value)


def _skip_normalising(weigh: Callable[[Array], Array]) -> Callable[[Truth, Operands], Array]:
    """Makes a function for the output (B,H,T,Dv) of weights that are made of logits alone."""
    return lambda found, operands: np.asarray(
        _fill_hidden(weigh(found.logits), operands, 0.0) @ operands.value)


def _accumulate_keys(*, rescales_sum: bool,
                     rescales_output: bool) -> Callable[[Truth, Operands], Array]:
    """Makes a loop over keys, for (B,H,T,Dv), that may forget to rescale its sum or output."""
    def accumulate(found: Truth, operands: Operands) -> Array:
        """(B,H,T,Dv)."""
        logits = _fill_hidden(found.logits, operands, -np.inf)
        running = np.maximum.accumulate(logits, axis=-1)
        top = running[..., -1:]

        def weights(is_rescaled: bool) -> Array:
            """(B,H,T,S)."""
            less = top if is_rescaled else running
            return np.asarray(np.exp(logits - np.where(np.isneginf(less), 0, less)))

        total = weights(rescales_sum).sum(axis=-1, keepdims=True)
        output = weights(rescales_output) @ operands.value
        return np.asarray(output / np.where(total == 0, 1, total))

    return accumulate


def _read_heads_last(array: Array) -> Array:
    """Reads the memory of (B,H,T,D) as (B,T,H,D)."""
    B, H, T, D = array.shape
    return array.reshape(B, T, H, D).swapaxes(1, 2)


def _read_heads_first(array: Array) -> Array:
    """Lays (B,H,T,D) out as (B,T,H,D) and reads that memory as (B,H,T,D)."""
    B, H, T, D = array.shape
    return np.ascontiguousarray(array.swapaxes(1, 2)).reshape(B, H, T, D)


def _mix_with_batch(array: Array) -> Array:
    """Reads the batch entries and heads of (B,H,T,D), which lie as (B,H), as (H,B)."""
    B, H, T, D = array.shape
    return array.transpose(2, 0, 1, 3).reshape(T, H, B, D).transpose(2, 1, 0, 3)


def _repeat_first_head(array: Array) -> Array:
    """Replaces every head of (B,H,T,D) by the first."""
    return np.broadcast_to(array[:, :1], array.shape)


def _blank_last_entry(array: Array) -> Array:
    """Sets the last batch entry of (B,H,T,D) to 0."""
    rest: Array = array.copy()
    rest[-1] = 0
    return rest


def _repeat_first_entry(array: Array) -> Array:
    """Replaces every batch entry of (B,H,T,D) by the first."""
    return np.broadcast_to(array[:1], array.shape)


def _interleave_heads(array: Array) -> Array:
    """Gives each head of (B,H,T,D) every H-th column in place of D neighbouring columns."""
    B, H, T, D = array.shape
    columns = array.transpose(0, 2, 3, 1).reshape(B, T, H, D)
    return columns.swapaxes(1, 2)


def _split_heads(mix: Callable[[Array], Array], *names: str) -> Callable[[Problem], Problem]:
    """Makes a change that mixes the heads of the named inputs, (B,H,T,D) or (B,H,S,D)."""
    return lambda problem: problem.but(**{name: mix(getattr(problem, name)) for name in names})


def _use_mask(visible: Callable[[int, int], Array]) -> Callable[[Problem], Problem]:
    """Makes a change that replaces the causal flag by a mask (T,S), made from both numbers."""
    def see(problem: Problem) -> Problem:
        T, S = problem.sizes.T, problem.sizes.S
        mask = np.broadcast_to(visible(T, S), (problem.sizes.B, problem.sizes.H, T, S))
        both = mask if problem.mask is None else mask & problem.mask.astype(bool)
        return problem.but(causal=False, mask=both.copy())

    return see


def _replace_projections(**others: str) -> Callable[[LayerProblem], LayerProblem]:
    """Makes a change that projects by the matrices and biases of other projections."""
    def project(problem: LayerProblem) -> LayerProblem:
        params = dict(problem.params)
        for (name, other), letter in product(others.items(), "wb"):
            params.pop(f"{letter}_{name}", None)
            if f"{letter}_{other}" in problem.params:
                params[f"{letter}_{name}"] = problem.params[f"{letter}_{other}"]
        return problem.but(params=params)

    return project


def _drop_biases(*projections: str) -> Callable[[LayerProblem], LayerProblem]:
    left_out = {f"b_{name}" for name in projections}
    return lambda problem: problem.but(params={name: array for name, array in problem.params.items()
                                               if name not in left_out})


def _skip_projection(problem: LayerProblem) -> LayerProblem:
    """Skips the projection of the output where its matrix (M,M) is square."""
    params = {name: array for name, array in problem.params.items() if name != "b_out"}
    out = params.get("w_out")
    if out is not None and out.shape[0] == out.shape[1]:
        params["w_out"] = np.eye(len(out), dtype=out.dtype)
    return problem.but(params=params)


def _tile_heads(*names: str) -> Callable[[Problem], Problem]:
    """Makes a change that orders heads (B,Hkv,S,D) as 0, 1, 0, 1 instead of 0, 0, 1, 1."""
    def tile(problem: Problem) -> Problem:
        groups = problem.sizes.H // problem.sizes.Hkv
        spread = {}
        for name in ("key", "value"):
            array = getattr(problem, name)
            if name in names:
                spread[name] = np.tile(array, (1, groups, 1, 1))
            else:
                spread[name] = np.repeat(array, groups, axis=1)
        return problem.but(**spread)

    return tile


def _swap_memory(problem: Problem) -> Problem:
    """Exchanges keys (B,H,S,D) and values (B,H,S,Dv) where they are of one width."""
    if problem.sizes.Dv != problem.sizes.D:
        return problem
    return problem.but(key=problem.value, value=problem.key)


def _replace_past(problem: Problem, key: Array, value: Array, first: int) -> Problem:
    """Gives a problem these keys (B,H,S,D) and values; first: the place of its first query."""
    posed = problem.but(past_key=None, past_value=None, key=key, value=value)
    T, S = problem.sizes.T, key.shape[2]
    if not problem.causal:
        return posed
    return _use_mask(lambda _, __: np.tri(T, S, first, dtype=bool))(posed)


def _count_from_first_key(problem: Problem) -> Problem:
    """Places the first query at the first key of the past."""
    whole = join_past(problem)
    return _replace_past(problem, whole.key, whole.value, 0)


def _put_past_behind(problem: Problem) -> Problem:
    key, value = (np.concatenate([getattr(problem, name), getattr(problem, f"past_{name}")], axis=2)
                  for name in ("key", "value"))
    return _replace_past(problem, key, value, problem.past)


def _write_at_start(*names: str, first: int | None = None) -> Callable[[Problem], Problem]:
    """Makes a change that writes new arrays over the past; first: the first query's place."""
    def write(problem: Problem) -> Problem:
        whole = join_past(problem)
        found = {"key": whole.key, "value": whole.value}
        for name in names:
            new = getattr(problem, name)
            stored = np.zeros_like(found[name])
            stored[:, :, :problem.past] = getattr(problem, f"past_{name}")
            stored[:, :, :new.shape[2]] = new
            found[name] = stored
        return _replace_past(problem, found["key"], found["value"],
                             problem.past if first is None else first)

    return write


MISTAKES: Mapping[str, PlainMistake] = {
    # what it divides by, other than what `init` knows as a default scale
    "scale_of_heads": PlainMistake(
        "the dot products are divided by the square root of the number of heads",
        of_problem=_use_scale(lambda sizes: sizes.H ** -0.5)),
    "scale_of_queries": PlainMistake(
        "the dot products are divided by the square root of the number of queries",
        of_problem=_use_scale(lambda sizes: sizes.T ** -0.5)),
    "scale_of_keys": PlainMistake(
        "the dot products are divided by the square root of the number of keys",
        of_problem=_use_scale(lambda sizes: sizes.S ** -0.5)),
    "scale_inverted": PlainMistake(
        "the scale is sqrt(D): the dot products are multiplied by it, not divided",
        of_problem=_use_scale(lambda sizes: math.sqrt(sizes.D))),
    "scale_negative": PlainMistake("the scale is negative, -1/sqrt(D)",
                                   of_problem=_use_scale(lambda sizes: -1 / math.sqrt(sizes.D))),
    # what a causal callee sees
    "causal_one_later": PlainMistake(
        "its causal mask is off by one: a query sees one later key",
        of_problem=_use_mask(lambda T, S: np.tri(T, S, 1, dtype=bool)), is_causal=True),
    "causal_not_itself": PlainMistake(
        "its causal mask is off by one: a query does not see its own place",
        of_problem=_use_mask(lambda T, S: np.tri(T, S, -1, dtype=bool)), is_causal=True),
    "causal_reversed": PlainMistake(
        "its causal mask is the wrong way round: a query sees later keys, and no earlier one",
        of_problem=_use_mask(lambda T, S: ~np.tri(T, S, -1, dtype=bool)), is_causal=True),
    "causal_reversed_strictly": PlainMistake(
        "its causal mask is the wrong way round: a query sees later keys only, and not its own "
        "place",
        of_problem=_use_mask(lambda T, S: ~np.tri(T, S, dtype=bool)), is_causal=True),
    "causal_from_end_one_later": PlainMistake(
        "its causal mask, which counts from the end, is off by one: a query sees one later key",
        of_problem=_use_mask(lambda T, S: np.tri(T, S, S - T + 1, dtype=bool)), is_causal=True),
    # over what the softmax runs
    "softmax_over_queries": PlainMistake("the softmax runs over the queries, not over the keys",
                                         of_weights=_normalise_over(2)),
    "divided_over_queries": PlainMistake(
        "the exponentials are normalised over the queries, not over the keys",
        of_weights=_divide_over_queries),
    "softmax_over_heads": PlainMistake("the softmax runs over the heads, not over the keys",
                                       of_weights=_normalise_over(1)),
    "softmax_over_batch": PlainMistake("the softmax runs over the batch, not over the keys",
                                       of_weights=_normalise_over(0)),
    "not_normalised": PlainMistake("the exponentials are not divided by their sum",
                                   of_weights=_skip_normalising(np.exp)),
    "no_softmax": PlainMistake("there is no softmax: the logits themselves are the weights",
                               of_weights=_skip_normalising(np.asarray)),
    "sum_not_rescaled": PlainMistake(
        "the running sum is not rescaled when the maximum rises, from key to key",
        of_weights=_accumulate_keys(rescales_sum=False, rescales_output=True)),
    "output_not_rescaled": PlainMistake(
        "the output so far is not rescaled when the maximum rises, from key to key",
        of_weights=_accumulate_keys(rescales_sum=True, rescales_output=False)),
    "nothing_rescaled": PlainMistake(
        "nothing is rescaled when the running maximum rises, from key to key",
        of_weights=_accumulate_keys(rescales_sum=False, rescales_output=False)),
    # how heads are split and put together
    "heads_not_transposed_back": PlainMistake(
        "the heads are reshaped where they have to be transposed back, so that heads and queries "
        "mix in the output",
        of_heads=_read_heads_last),
    "heads_transposed_twice": PlainMistake(
        "the heads are transposed back and then reshaped, so that heads and queries mix in the "
        "output",
        of_heads=_read_heads_first),
    "heads_interleaved_in_output": PlainMistake(
        "the heads interleave in the output, where they lie side by side", of_heads=_interleave_heads),
    "heads_split_by_reshape": PlainMistake(
        "query, key and value are split into heads by a reshape without a transpose, so that "
        "heads and places mix",
        of_problem=_split_heads(_read_heads_first, "query", "key", "value")),
    "heads_of_keys_split_by_reshape": PlainMistake(
        "keys are split into heads by a reshape without a transpose, so that heads and places mix",
        of_problem=_split_heads(_read_heads_first, "key")),
    "heads_of_values_split_by_reshape": PlainMistake(
        "values are split into heads by a reshape without a transpose, so that heads and places mix",
        of_problem=_split_heads(_read_heads_first, "value")),
    "heads_of_queries_split_by_reshape": PlainMistake(
        "queries are split into heads by a reshape without a transpose, so that heads and places mix",
        of_problem=_split_heads(_read_heads_first, "query")),
    "heads_of_queries_and_batch_mixed": PlainMistake(
        "the heads of queries mix with the entries of the batch",
        of_problem=_split_heads(_mix_with_batch, "query")),
    "heads_of_keys_and_batch_mixed": PlainMistake(
        "the heads of keys mix with the entries of the batch",
        of_problem=_split_heads(_mix_with_batch, "key")),
    "heads_of_values_and_batch_mixed": PlainMistake(
        "the heads of values mix with the entries of the batch",
        of_problem=_split_heads(_mix_with_batch, "value")),
    "heads_of_output_and_batch_mixed": PlainMistake(
        "the heads of the output mix with the entries of the batch", of_heads=_mix_with_batch),
    "all_heads_are_the_first": PlainMistake("every head is the first head",
                                            of_heads=_repeat_first_head),
    "all_key_heads_are_the_first": PlainMistake("every head has the keys of the first head",
                                                of_problem=_split_heads(_repeat_first_head, "key")),
    "all_value_heads_are_the_first": PlainMistake("every head has the values of the first head",
                                                  of_problem=_split_heads(_repeat_first_head, "value")),
    # fewer heads of keys and values
    "key_heads_tiled": PlainMistake(
        "query head h uses key head h % Hkv, but value head h // (H / Hkv): the heads of keys are "
        "tiled where they have to be repeated", of_problem=_tile_heads("key")),
    "value_heads_tiled": PlainMistake(
        "query head h uses value head h % Hkv, but key head h // (H / Hkv): the heads of values "
        "are tiled where they have to be repeated", of_problem=_tile_heads("value")),
    # entries of the batch
    "last_entry_missing": PlainMistake(
        "the last entry of the batch (the last sequence) gets no output, but 0",
        of_heads=_blank_last_entry),
    "memory_of_first_entry": PlainMistake(
        "keys and values of the first entry of the batch serve for all (of pages: its row of the "
        "table)",
        of_problem=_split_heads(_repeat_first_entry, "key", "value")),
    # which array is which
    "keys_and_values_exchanged": PlainMistake("keys and values are exchanged",
                                              of_problem=_swap_memory),
    "keys_by_values": PlainMistake("keys are projected by the weights of the values",
                                   of_params=_replace_projections(key="value")),
    "values_by_keys": PlainMistake("values are projected by the weights of the keys",
                                   of_params=_replace_projections(value="key")),
    "queries_by_keys": PlainMistake("queries are projected by the weights of the keys",
                                    of_params=_replace_projections(query="key")),
    "keys_by_queries": PlainMistake("keys are projected by the weights of the queries",
                                    of_params=_replace_projections(key="query")),
    "values_by_queries": PlainMistake("values are projected by the weights of the queries",
                                      of_params=_replace_projections(value="query")),
    "query_and_key_projections_exchanged": PlainMistake(
        "the projections of queries and keys are exchanged",
        of_params=_replace_projections(query="key", key="query")),
    # what is past
    "past_causal_from_first_key": PlainMistake(
        "behind a past, the causal mask counts from the first key: it forgets that there is a past",
        of_problem=_count_from_first_key, is_causal=True, is_of_past=True),
    "past_forgotten": PlainMistake(
        "the past in the cache is not seen", is_of_past=True,
        of_problem=lambda problem: problem.but(past_key=None, past_value=None)),
    "past_behind_new_keys": PlainMistake(
        "new keys stand before those of the past, which the cache holds",
        of_problem=_put_past_behind, is_of_past=True),
    "values_at_start_of_cache": PlainMistake(
        "new values are written at the start of the cache, over the past",
        of_problem=_write_at_start("value"), is_of_past=True),
    "keys_at_start_of_cache": PlainMistake(
        "new keys are written at the start of the cache, over the past",
        of_problem=_write_at_start("key"), is_of_past=True),
    "both_at_start_of_cache": PlainMistake(
        "new keys and values are written at the start of the cache, over the past",
        of_problem=_write_at_start("key", "value"), is_of_past=True),
    "position_stays": PlainMistake(
        "the position in the cache does not advance: each call begins at its start",
        of_problem=_write_at_start("key", "value", first=0), is_of_past=True),
    # biases, and the projection of the output
    "no_bias_of_values": PlainMistake("the bias of the values is not added",
                                      of_params=_drop_biases("value")),
    "no_bias_of_queries": PlainMistake("the bias of the queries is not added",
                                       of_params=_drop_biases("query")),
    "no_bias_of_output": PlainMistake("the bias of the output is not added",
                                      of_params=_drop_biases("out")),
    "output_not_projected": PlainMistake(
        "the output is not projected, though there is a matrix for that",
        of_params=_skip_projection),
    "no_bias": PlainMistake("none of its biases is added",
                            of_params=_drop_biases("query", "key", "value", "out")),
}
"""By name, the plain mistakes; of two that explain the same numbers, the first is named."""


def can_be_made(mistake: PlainMistake, problem: Problem | LayerProblem) -> bool:
    """Says whether a mistake can be made at a problem. A mistake of parameters needs a layer, one
    of the causal mask needs that flag, and one of the past needs a past.
    """
    # with fewer key/value heads the matrices differ in shape
    is_layer = isinstance(problem, LayerProblem) and problem.heads == problem.kv_heads
    if mistake.is_of_past is not problem.has_past:
        return False
    return (is_layer or mistake.of_params is None) and (problem.causal or not mistake.is_causal)
