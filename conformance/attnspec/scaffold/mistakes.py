"""Plain mistakes of attention that keep its form from being recognised: each is the definition with one thing
otherwise.

A callee that is attention in no form is held against each of them. Where one explains all of its numbers, its adapter
is written by that form, so that a check judges all of it, and convicts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.numerics.operands import Operands
from attnspec.numerics.reference import Truth
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes, join_past


@dataclass(frozen=True, slots=True)
class PlainMistake:
    """One thing that is done otherwise. says: what, as a sentence has it behind "attention, but".

    of_params: of a layer, the problem with other parameters.  of_problem: attention's problem with query, key, value,
    scale or mask otherwise.  of_weights: the output (B,H,T,Dv) from other weights.  of_heads: the output (B,H,T,Dv)
    with its heads otherwise.  is_causal: whether it is about what a causal callee sees.  is_of_past: whether it is
    about what stands before the new keys.
    """

    says: str
    of_params: Callable[[LayerProblem], LayerProblem] | None = None
    of_problem: Callable[[Problem], Problem] | None = None
    of_weights: Callable[[Truth, Operands], Array] | None = None
    of_heads: Callable[[Array], Array] | None = None
    is_causal: bool = False
    is_of_past: bool = False


def _use_scale(scale: Callable[[Sizes], float]) -> Callable[[Problem], Problem]:
    """With another scale where none is given."""
    return lambda problem: problem.but(scale=scale(problem.sizes)) if problem.scale is None else problem


def _normalise_over(axis: int) -> Callable[[Truth, Operands], Array]:
    """The output (B,H,T,Dv) whose weights sum to 1 over this axis of (B,H,T,S)."""
    def weigh(found: Truth, operands: Operands) -> Array:
        """(B,H,T,Dv)."""
        logits = found.logits if operands.visible is None else np.where(operands.visible, found.logits, -np.inf)
        top = logits.max(axis=axis, keepdims=True)
        weights = np.exp(logits - np.where(np.isneginf(top), 0, top))
        total = weights.sum(axis=axis, keepdims=True)
        return np.asarray(weights / np.where(total == 0, 1, total) @ operands.value)

    return weigh


def _divide_over_queries(found: Truth, operands: Operands) -> Array:
    """The output (B,H,T,Dv) of exponentials below each query's largest logit, divided by their sums over queries."""
    weights = found.weights
    total = weights.sum(axis=2, keepdims=True)
    return np.asarray(weights / np.where(total == 0, 1, total) @ operands.value)


def _skip_normalising(found: Truth, operands: Operands) -> Array:
    """The output (B,H,T,Dv) of exponentials that are not divided by their sum."""
    seen = np.exp(found.logits) if operands.visible is None else np.where(operands.visible, np.exp(found.logits), 0.0)
    return np.asarray(seen @ operands.value)


def _weigh_by_logits(found: Truth, operands: Operands) -> Array:
    """The output (B,H,T,Dv) whose weights are the logits themselves."""
    seen = found.logits if operands.visible is None else np.where(operands.visible, found.logits, 0.0)
    return np.asarray(seen @ operands.value)


def _accumulate_keys(*, rescales_sum: bool, rescales_output: bool) -> Callable[[Truth, Operands], Array]:
    """The output (B,H,T,Dv) of a loop over keys, one by one, in which the sum, or the output so far, is not rescaled
    when the running maximum rises.
    """
    def accumulate(found: Truth, operands: Operands) -> Array:
        """(B,H,T,Dv)."""
        logits = found.logits if operands.visible is None else np.where(operands.visible, found.logits, -np.inf)
        running = np.maximum.accumulate(logits, axis=-1)
        top = running[..., -1:]

        def weights(is_rescaled: bool) -> Array:
            """(B,H,T,S)."""
            less = top if is_rescaled else running
            return np.asarray(np.exp(logits - np.where(np.isneginf(less), 0, less)))

        total = weights(rescales_sum).sum(axis=-1, keepdims=True)
        return np.asarray(weights(rescales_output) @ operands.value / np.where(total == 0, 1, total))

    return accumulate


def _read_heads_last(array: Array) -> Array:
    """(B,H,T,D) as it lies in memory, read as (B,T,H,D)."""
    B, H, T, D = array.shape
    return array.reshape(B, T, H, D).swapaxes(1, 2)


def _read_heads_first(array: Array) -> Array:
    """(B,H,T,D): what lies as (B,T,H,D) in memory, read as (B,H,T,D)."""
    B, H, T, D = array.shape
    return np.ascontiguousarray(array.swapaxes(1, 2)).reshape(B, H, T, D)


def _mix_with_batch(array: Array) -> Array:
    """(B,H,T,D) whose batch entries and heads, (B,H) in memory, are read as (H,B)."""
    B, H, T, D = array.shape
    return array.transpose(2, 0, 1, 3).reshape(T, H, B, D).transpose(2, 1, 0, 3)


def _repeat_first_head(array: Array) -> Array:
    """(B,H,T,D) in which every head is the first."""
    return np.broadcast_to(array[:, :1], array.shape)


def _blank_last_entry(array: Array) -> Array:
    """(B,H,T,D) with 0 in the last entry of the batch."""
    rest: Array = array.copy()
    rest[-1] = 0
    return rest


def _repeat_first_entry(array: Array) -> Array:
    """(B,H,T,D) in which every entry of the batch is the first."""
    return np.broadcast_to(array[:1], array.shape)


def _interleave_heads(array: Array) -> Array:
    """(B,H,T,D) whose heads own every H-th column of all, where they own D columns side by side."""
    B, H, T, D = array.shape
    columns = array.transpose(0, 2, 3, 1).reshape(B, T, H, D)
    return columns.swapaxes(1, 2)


def _split_heads(mix: Callable[[Array], Array], *names: str) -> Callable[[Problem], Problem]:
    """With the heads of these inputs, (B,H,T,D) or (B,H,S,D), split otherwise."""
    return lambda problem: problem.but(**{name: mix(getattr(problem, name)) for name in names})


def _use_mask(visible: Callable[[int, int], Array]) -> Callable[[Problem], Problem]:
    """With a mask in place of the causal flag. visible: (T,S), by the numbers of queries and keys."""
    def see(problem: Problem) -> Problem:
        T, S = problem.sizes.T, problem.sizes.S
        mask = np.broadcast_to(visible(T, S), (problem.sizes.B, problem.sizes.H, T, S))
        both = mask if problem.mask is None else mask & problem.mask.astype(bool)
        return problem.but(causal=False, mask=both.copy())

    return see


def _exchange_projections(one: str, other: str) -> Callable[[LayerProblem], LayerProblem]:
    """With the matrices and biases of two projections exchanged."""
    return lambda problem: _replace_projections(problem, {one: other, other: one})


def _take_projection(projection: str, of: str) -> Callable[[LayerProblem], LayerProblem]:
    """With one projection by the matrix and the bias of another."""
    return lambda problem: _replace_projections(problem, {projection: of})


def _replace_projections(problem: LayerProblem, of: Mapping[str, str]) -> LayerProblem:
    params = dict(problem.params)
    for name, other in of.items():
        for letter in "wb":
            params.pop(f"{letter}_{name}", None)
            if f"{letter}_{other}" in problem.params:
                params[f"{letter}_{name}"] = problem.params[f"{letter}_{other}"]
    return problem.but(params=params)


def _drop_biases(*projections: str) -> Callable[[LayerProblem], LayerProblem]:
    """Without the biases of these projections."""
    left_out = {f"b_{name}" for name in projections}
    return lambda problem: problem.but(params={name: array for name, array in problem.params.items()
                                               if name not in left_out})


def _skip_projection(problem: LayerProblem) -> LayerProblem:
    """Without the projection of the output, where that has as many columns as rows."""
    params = {name: array for name, array in problem.params.items() if name != "b_out"}
    out = params.get("w_out")
    if out is not None and out.shape[0] == out.shape[1]:
        params["w_out"] = np.eye(len(out), dtype=out.dtype)
    return problem.but(params=params)


def _tile_heads(*names: str) -> Callable[[Problem], Problem]:
    """With the heads of these, (B,Hkv,S,D), in the order 0, 1, 0, 1 where others have 0, 0, 1, 1."""
    def tile(problem: Problem) -> Problem:
        groups = problem.sizes.H // problem.sizes.Hkv
        spread = {name: np.tile(getattr(problem, name), (1, groups, 1, 1)) if name in names
                  else np.repeat(getattr(problem, name), groups, axis=1) for name in ("key", "value")}
        return problem.but(**spread)

    return tile


def _swap_memory(problem: Problem) -> Problem:
    """With keys (B,H,S,D) for values (B,H,S,Dv), and values for keys, where they are of one width."""
    return problem.but(key=problem.value, value=problem.key) if problem.sizes.Dv == problem.sizes.D else problem


def _replace_past(problem: Problem, key: Array, value: Array, first: int) -> Problem:
    """The problem with these keys (B,H,S,D) and values (B,H,S,Dv), and nothing past. first: the place of its first
    query, from which the causal flag counts.
    """
    posed = problem.but(past_key=None, past_value=None, key=key, value=value)
    T, S = problem.sizes.T, key.shape[2]
    return _use_mask(lambda _, __: np.tri(T, S, first, dtype=bool))(posed) if problem.causal else posed


def _count_from_first_key(problem: Problem) -> Problem:
    """As if the first query stood at the first key that is past."""
    whole = join_past(problem)
    return _replace_past(problem, whole.key, whole.value, 0)


def _forget_past(problem: Problem) -> Problem:
    """As if nothing were past."""
    return problem.but(past_key=None, past_value=None)


def _put_past_behind(problem: Problem) -> Problem:
    """With the new keys before those that are past."""
    key, value = (np.concatenate([getattr(problem, name), getattr(problem, f"past_{name}")], axis=2)
                  for name in ("key", "value"))
    return _replace_past(problem, key, value, problem.past)


def _write_at_start(*names: str, first: int | None = None) -> Callable[[Problem], Problem]:
    """With these of the new keys and values written over those that are past, from the first place on. first: the place
    of the first query, where it is not behind the past.
    """
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
    "scale_of_heads": PlainMistake("the dot products are divided by the square root of the number of heads",
                                   of_problem=_use_scale(lambda sizes: sizes.H ** -0.5)),
    "scale_of_queries": PlainMistake("the dot products are divided by the square root of the number of queries",
                                     of_problem=_use_scale(lambda sizes: sizes.T ** -0.5)),
    "scale_of_keys": PlainMistake("the dot products are divided by the square root of the number of keys",
                                  of_problem=_use_scale(lambda sizes: sizes.S ** -0.5)),
    "scale_inverted": PlainMistake("the scale is sqrt(D): the dot products are multiplied by it, not divided",
                                   of_problem=_use_scale(lambda sizes: math.sqrt(sizes.D))),
    "scale_negative": PlainMistake("the scale is negative, -1/sqrt(D)",
                                   of_problem=_use_scale(lambda sizes: -1 / math.sqrt(sizes.D))),
    # what a causal callee sees
    "causal_one_later": PlainMistake("its causal mask is off by one: a query sees one later key",
                                     of_problem=_use_mask(lambda T, S: np.tri(T, S, 1, dtype=bool)), is_causal=True),
    "causal_not_itself": PlainMistake("its causal mask is off by one: a query does not see its own place",
                                      of_problem=_use_mask(lambda T, S: np.tri(T, S, -1, dtype=bool)), is_causal=True),
    "causal_reversed": PlainMistake("its causal mask is the wrong way round: a query sees later keys, and no earlier "
                                    "one",
                                    of_problem=_use_mask(lambda T, S: ~np.tri(T, S, -1, dtype=bool)), is_causal=True),
    "causal_reversed_strictly": PlainMistake(
        "its causal mask is the wrong way round: a query sees later keys only, and not its own place",
        of_problem=_use_mask(lambda T, S: ~np.tri(T, S, dtype=bool)), is_causal=True),
    "causal_from_end_one_later": PlainMistake(
        "its causal mask, which counts from the end, is off by one: a query sees one later key",
        of_problem=_use_mask(lambda T, S: np.tri(T, S, S - T + 1, dtype=bool)), is_causal=True),
    # over what the softmax runs
    "softmax_over_queries": PlainMistake("the softmax runs over the queries, not over the keys",
                                         of_weights=_normalise_over(2)),
    "divided_over_queries": PlainMistake("the exponentials are normalised over the queries, not over the keys",
                                         of_weights=_divide_over_queries),
    "softmax_over_heads": PlainMistake("the softmax runs over the heads, not over the keys",
                                       of_weights=_normalise_over(1)),
    "softmax_over_batch": PlainMistake("the softmax runs over the batch, not over the keys",
                                       of_weights=_normalise_over(0)),
    "not_normalised": PlainMistake("the exponentials are not divided by their sum", of_weights=_skip_normalising),
    "no_softmax": PlainMistake("there is no softmax: the logits themselves are the weights",
                               of_weights=_weigh_by_logits),
    "sum_not_rescaled": PlainMistake("the running sum is not rescaled when the maximum rises, from key to key",
                                     of_weights=_accumulate_keys(rescales_sum=False, rescales_output=True)),
    "output_not_rescaled": PlainMistake("the output so far is not rescaled when the maximum rises, from key to key",
                                        of_weights=_accumulate_keys(rescales_sum=True, rescales_output=False)),
    "nothing_rescaled": PlainMistake("nothing is rescaled when the running maximum rises, from key to key",
                                     of_weights=_accumulate_keys(rescales_sum=False, rescales_output=False)),
    # how heads are split and put together
    "heads_not_transposed_back": PlainMistake(
        "the heads are reshaped where they have to be transposed back, so that heads and queries mix in the output",
        of_heads=_read_heads_last),
    "heads_transposed_twice": PlainMistake(
        "the heads are transposed back and then reshaped, so that heads and queries mix in the output",
        of_heads=_read_heads_first),
    "heads_interleaved_in_output": PlainMistake(
        "the heads interleave in the output, where they lie side by side", of_heads=_interleave_heads),
    "heads_split_by_reshape": PlainMistake(
        "query, key and value are split into heads by a reshape without a transpose, so that heads and places mix",
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
        "the heads of queries mix with the entries of the batch", of_problem=_split_heads(_mix_with_batch, "query")),
    "heads_of_keys_and_batch_mixed": PlainMistake(
        "the heads of keys mix with the entries of the batch", of_problem=_split_heads(_mix_with_batch, "key")),
    "heads_of_values_and_batch_mixed": PlainMistake(
        "the heads of values mix with the entries of the batch", of_problem=_split_heads(_mix_with_batch, "value")),
    "heads_of_output_and_batch_mixed": PlainMistake(
        "the heads of the output mix with the entries of the batch", of_heads=_mix_with_batch),
    "all_heads_are_the_first": PlainMistake("every head is the first head", of_heads=_repeat_first_head),
    "all_key_heads_are_the_first": PlainMistake("every head has the keys of the first head",
                                                of_problem=_split_heads(_repeat_first_head, "key")),
    "all_value_heads_are_the_first": PlainMistake("every head has the values of the first head",
                                                  of_problem=_split_heads(_repeat_first_head, "value")),
    # fewer heads of keys and values
    "key_heads_tiled": PlainMistake("query head h uses key head h % Hkv, but value head h // (H / Hkv): the heads of "
                                    "keys are tiled where they have to be repeated", of_problem=_tile_heads("key")),
    "value_heads_tiled": PlainMistake("query head h uses value head h % Hkv, but key head h // (H / Hkv): the heads of "
                                      "values are tiled where they have to be repeated",
                                      of_problem=_tile_heads("value")),
    # entries of the batch
    "last_entry_missing": PlainMistake("the last entry of the batch (the last sequence) gets no output, but 0",
                                       of_heads=_blank_last_entry),
    "memory_of_first_entry": PlainMistake(
        "keys and values of the first entry of the batch serve for all (of pages: its row of the table)",
        of_problem=_split_heads(_repeat_first_entry, "key", "value")),
    # which array is which
    "keys_and_values_exchanged": PlainMistake("keys and values are exchanged", of_problem=_swap_memory),
    "keys_by_values": PlainMistake("keys are projected by the weights of the values",
                                   of_params=_take_projection("key", "value")),
    "values_by_keys": PlainMistake("values are projected by the weights of the keys",
                                   of_params=_take_projection("value", "key")),
    "queries_by_keys": PlainMistake("queries are projected by the weights of the keys",
                                    of_params=_take_projection("query", "key")),
    "keys_by_queries": PlainMistake("keys are projected by the weights of the queries",
                                    of_params=_take_projection("key", "query")),
    "values_by_queries": PlainMistake("values are projected by the weights of the queries",
                                      of_params=_take_projection("value", "query")),
    "query_and_key_projections_exchanged": PlainMistake(
        "the projections of queries and keys are exchanged", of_params=_exchange_projections("query", "key")),
    # what is past
    "past_causal_from_first_key": PlainMistake(
        "behind a past, the causal mask counts from the first key: it forgets that there is a past",
        of_problem=_count_from_first_key, is_causal=True, is_of_past=True),
    "past_forgotten": PlainMistake("the past in the cache is not seen", of_problem=_forget_past, is_of_past=True),
    "past_behind_new_keys": PlainMistake("new keys stand before those of the past, which the cache holds",
                                         of_problem=_put_past_behind, is_of_past=True),
    "values_at_start_of_cache": PlainMistake("new values are written at the start of the cache, over the past",
                                             of_problem=_write_at_start("value"), is_of_past=True),
    "keys_at_start_of_cache": PlainMistake("new keys are written at the start of the cache, over the past",
                                           of_problem=_write_at_start("key"), is_of_past=True),
    "both_at_start_of_cache": PlainMistake("new keys and values are written at the start of the cache, over the past",
                                           of_problem=_write_at_start("key", "value"), is_of_past=True),
    "position_stays": PlainMistake("the position in the cache does not advance: each call begins at its start",
                                   of_problem=_write_at_start("key", "value", first=0), is_of_past=True),
    # biases, and the projection of the output
    "no_bias_of_values": PlainMistake("the bias of the values is not added", of_params=_drop_biases("value")),
    "no_bias_of_queries": PlainMistake("the bias of the queries is not added", of_params=_drop_biases("query")),
    "no_bias_of_output": PlainMistake("the bias of the output is not added", of_params=_drop_biases("out")),
    "output_not_projected": PlainMistake("the output is not projected, though there is a matrix for that",
                                         of_params=_skip_projection),
    "no_bias": PlainMistake("none of its biases is added", of_params=_drop_biases("query", "key", "value", "out")),
}
"""By name; of two that explain the same numbers, the first is told."""


def can_be_made(mistake: PlainMistake, problem: Problem | LayerProblem) -> bool:
    """Whether a mistake can be made at a problem: one of parameters by a layer, one of the causal mask under that
    flag.
    """
    is_layer = isinstance(problem, LayerProblem) and problem.heads == problem.kv_heads  # else matrices differ in shape
    if mistake.is_of_past is not problem.has_past:
        return False
    return (is_layer or mistake.of_params is None) and (problem.causal or not mistake.is_causal)
