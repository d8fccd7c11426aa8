"""How correct attentions over (B,H,T,D) compute: the formula in several orders of summing, rounding and hiding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnspec.core.keywords import CACHED, FROM_PLACE, HIDING, OFF
from attnspec.faults import serving
from attnspec.faults import staged as stage
from attnspec.faults.aspect_stage import added_logits, bend_logits, extra_logit, near_keys, own_keys, own_queries
from attnspec.faults.log_sum import log_sum_exp, put_together, returned, with_column
from attnspec.faults.staged import Attend, around
from attnspec.faults.work import Answer, HandedOver, PreparedCall, wide_dtype
from attnspec.problems.problem import Array

BLOCK = 16
SPLIT = 64  # keys


def joined(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of attention functions that see past and new keys in one array."""
    return around(lambda call: answer(serving.extend(call)))


def _past(call: HandedOver) -> int:
    """The place of the first query."""
    return 0 if call.past_key is None else call.past_key.shape[2]


def _added(call: HandedOver, wide: np.dtype[Any]) -> Array | None:
    """(B,H,T,S) in `wide`: bias, and what aspects add; None without either."""
    added = added_logits(call, _ahead(call), wide)
    if added is None:
        return None if call.bias is None else call.bias.astype(wide)
    shape = (*call.query.shape[:3], call.key.shape[2])
    return np.broadcast_to(added if call.bias is None else added + call.bias.astype(wide), shape)


def _ahead(call: HandedOver) -> Array:
    """(T,S): how far each key lies ahead of the query's own place."""
    return np.arange(call.key.shape[2]) - np.arange(call.query.shape[2])[:, None] - _past(call)


def _visible(call: HandedOver) -> Array:
    """(B,H,T,S): mask, causal flag, window, the numbers of keys and segments together, past keys among the keys."""
    T, S, P = call.query.shape[2], call.key.shape[2], _past(call)
    allowed = np.ones((T, S), bool) if call.mask is None else np.asarray(call.mask)
    joined = allowed & np.tri(T, S, P, dtype=bool) if call.causal else allowed
    joined = joined & near_keys(call, _ahead(call))
    joined = joined & own_keys(call, S)
    return np.broadcast_to(joined, (*call.query.shape[:2], T, S))


def _visible_values(value: Array, visible: Array) -> Array:
    """Values (B,H,S,Dv) that no query sees become 0: weight 0 times NaN would be NaN."""
    kept: Array = np.where(np.asarray(visible.any(axis=-2))[..., None], value, 0)
    return kept


def _textbook(call: HandedOver, wide: np.dtype[np.generic]) -> Answer:
    """The formula, line by line, in `wide`."""
    query, key, value = (array.astype(wide) for array in (call.query, call.key, call.value))
    H, D = query.shape[1], query.shape[3]
    key, value = (np.repeat(array, H // array.shape[1], axis=1) for array in (key, value))
    factor = wide.type(1 / np.sqrt(D) if call.scale is None else call.scale)
    logits = query @ np.swapaxes(key, -1, -2) * factor
    logits = bend_logits(logits, call)
    added, visible = _added(call, wide), _visible(call)
    logits = logits if added is None else logits + added
    logits = np.where(visible, logits, -np.inf)
    extra = _extra(call, logits)
    top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), extra)  # a sequence may have no key
    shift = np.where(np.isneginf(top), 0, top)
    grown = np.exp(logits - shift)
    total = grown.sum(axis=-1, keepdims=True) + np.exp(extra - shift)
    weights = grown / np.where(total == 0, 1, total)
    return _rounded(call, weights @ _visible_values(value, visible), weights, put_together(shift, total))


def _extra(call: HandedOver, logits: Array) -> Array:
    """(1,H,1,1): the logit of each head's extra key, -inf where there is none, in the dtype of logits (B,H,T,S)."""
    extra = extra_logit(call)
    extra = np.full(logits.shape[1], -np.inf) if extra is None else extra
    return np.asarray(extra, logits.dtype)[None, :, None, None]


def _rounded(call: HandedOver, output: Array, weights: Array, lse: Array) -> Answer:
    """Output (B,H,T,Dv), and weights (B,H,T,S) where they are asked for, in the dtype of the inputs; rows beyond the
    number of queries are zeros. The log-sum-exp (B,H,T), too, where it is asked for.
    """
    io = call.query.dtype
    own = own_queries(call, output.shape[2])
    output = output if own is None else np.where(own, output, 0)
    more = ([weights.astype(io)] if call.return_weights else []) + ([returned(lse, io)] if call.return_lse else [])
    return (output.astype(io), *more) if more else output.astype(io)


def naive(call: HandedOver) -> Answer:
    """The formula in float32, in float64 for float64."""
    return _textbook(call, wide_dtype(call.query.dtype))


def float64_inside(call: HandedOver) -> Answer:
    """The formula in float64."""
    return _textbook(call, np.dtype(np.float64))


def eager(call: HandedOver) -> Answer:
    """softmax(q @ k.T * scale + bias) @ v with every intermediate result stored in the dtype of the inputs."""
    io = call.query.dtype
    work = stage.take(call)
    H = work.query.shape[1]
    key, value = stage.group(work.key, H), stage.group(work.value, H)
    factor = np.asarray(stage.scale(work)).astype(io)
    logits = ((work.query @ key.swapaxes(-1, -2)).astype(io) * factor).astype(io)
    logits = bend_logits(logits, work, keep=lambda array: array.astype(io))
    added, visible = _added(call, io), _visible(call)
    logits = logits if added is None else (logits + added).astype(io)
    hidden = np.where(visible, logits.astype(work.query.dtype), -np.inf).astype(work.query.dtype)
    extra = extra_logit(work)
    joined = hidden if extra is None else with_column(hidden, extra.astype(io))  # stored with the logits
    weights = stage.normalise(stage.exponentials(joined))[..., :hidden.shape[3]].astype(io)
    output = weights.astype(work.query.dtype) @ _visible_values(value, visible)
    return _rounded(call, output, weights, log_sum_exp(joined))


def online(call: HandedOver) -> Answer:
    """One pass over blocks of 16 keys with a running maximum, sum and output."""
    return _in_one_pass(call, wide_dtype(call.query.dtype))


def fused(call: HandedOver) -> Answer:
    """The same; weights meet the values in the dtype of the inputs, as matrix units of half precision want them."""
    return _in_one_pass(call, call.query.dtype)


def by_pages(call: HandedOver, slots: int) -> Answer:
    """The same over blocks of as many keys as a page has slots."""
    return _in_one_pass(call, wide_dtype(call.query.dtype), slots)


def _in_one_pass(call: HandedOver, stored: np.dtype[Any], step: int = BLOCK) -> Answer:
    """Blocks of so many keys; the block's exponentials are rounded to `stored` for the product with the values."""
    logits, value = _scored(call)
    top = np.broadcast_to(_extra(call, logits), (*logits.shape[:3], 1))
    total = np.where(np.isneginf(top), 0, 1).astype(logits.dtype)  # of the extra key alone
    output = np.zeros((*logits.shape[:3], value.shape[-1]), logits.dtype)
    for first in range(0, logits.shape[-1], step):
        block = logits[..., first:first + step]
        higher = np.maximum(top, block.max(axis=-1, keepdims=True))
        shift = np.where(np.isneginf(higher), 0, higher)
        grown, factor = np.exp(block - shift), np.exp(top - shift)
        total = total * factor + grown.sum(axis=-1, keepdims=True)
        output = output * factor + grown.astype(stored).astype(grown.dtype) @ value[:, :, first:first + step]
        top = higher
    shift, divisor = np.where(np.isneginf(top), 0, top), np.where(total == 0, 1, total)
    return _rounded(call, output / divisor, np.exp(logits - shift) / divisor, put_together(shift, total))


def _scored(call: HandedOver) -> tuple[Array, Array]:
    """Logits (B,H,T,S), -inf where hidden, and values (B,H,S,Dv) of as many heads, in the dtype of the arithmetic."""
    work, visible = stage.take(call), _visible(call)
    H = work.query.shape[1]
    work = work.but(key=stage.group(work.key, H), value=_visible_values(stage.group(work.value, H), visible))
    added, logits = _added(call, work.query.dtype), stage.bend(stage.logits(work, stage.scale(work)), work)
    logits = logits if added is None else logits + added
    return np.where(visible, logits, -np.inf).astype(work.query.dtype), work.value


def merged(call: HandedOver) -> Answer:
    """Splits of 64 keys, each with an output and a log-sum-exp of its own, by which they are merged; an extra
    key is one more.
    """
    logits, value = _scored(call)
    spans = [slice(first, first + SPLIT) for first in range(0, logits.shape[-1], SPLIT)]
    parts = [_output_and_lse(logits[..., span], value[:, :, span]) for span in spans]
    alone = np.broadcast_to(_extra(call, logits), (*logits.shape[:3], 1))
    sums = np.concatenate([*(lse for _, lse in parts), alone], axis=-1)
    lse = log_sum_exp(sums)
    shift = np.where(np.isneginf(lse), 0, lse)[..., None]
    shares = np.exp(sums - shift)  # (B,H,T,splits + 1)
    output = sum((shares[..., at, None] * part for at, (part, _) in enumerate(parts)),
                 np.zeros((*logits.shape[:3], value.shape[-1]), logits.dtype))
    return _rounded(call, output, np.exp(logits - shift), lse)


def _output_and_lse(logits: Array, value: Array) -> tuple[Array, Array]:
    """Of logits (B,H,T,S) and values (B,H,S,Dv) the output, (B,H,T,Dv), and the log-sum-exp, (B,H,T,1)."""
    top = logits.max(axis=-1, keepdims=True)
    shift = np.where(np.isneginf(top), 0, top)
    grown = np.exp(logits - shift)
    total = grown.sum(axis=-1, keepdims=True)
    return grown @ value / np.where(total == 0, 1, total), put_together(shift, total)[..., None]


_WRITTEN_OUT: Mapping[str, Any] = {
    name: OFF[name] for name in (*HIDING, *CACHED, *FROM_PLACE) if name not in {"mask", "bias"}}
"""What a mask, a bias and joined keys stand in for."""


def reversed_keys(call: HandedOver) -> Answer:
    """The keys are taken from last to first; what hides keys is turned into a mask before."""
    visible = _visible(call)
    bias = _added(call, wide_dtype(call.query.dtype))
    bias = None if bias is None else np.broadcast_to(bias, visible.shape)[..., ::-1]
    answer = stage.attention(call.but(key=call.key[:, :, ::-1], value=call.value[:, :, ::-1], mask=visible[..., ::-1],
                                      bias=bias, **_WRITTEN_OUT))
    if not call.return_weights:
        return answer
    output, weights, *lse = answer
    return (output, np.flip(weights, axis=-1).copy(), *lse)


def sorted_keys(call: HandedOver) -> Answer:
    """The keys of each head are taken in the order of their contents; a permutation of them all, as any other."""
    H, visible = call.query.shape[1], _visible(call)
    key, value = (stage.group(array, H) for array in (call.key, call.value))
    order = np.argsort(key.astype(np.float64).sum(axis=-1), axis=-1, kind="stable")  # (B,H,S); NaN comes last
    of_keys, of_scores = order[..., None], order[:, :, None, :]
    bias = _added(call, wide_dtype(call.query.dtype))
    bias = None if bias is None else np.take_along_axis(np.broadcast_to(bias, visible.shape), of_scores, -1)
    answer = stage.attention(call.but(
        key=np.take_along_axis(key, of_keys, axis=2), value=np.take_along_axis(value, of_keys, axis=2),
        mask=np.take_along_axis(visible, of_scores, axis=-1), bias=bias, **_WRITTEN_OUT))
    if not call.return_weights:
        return answer
    (output, weights, *lse), back = answer, np.argsort(order, axis=-1)[:, :, None, :]
    return (output, np.take_along_axis(weights, back, axis=-1), *lse)


def prescaled(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of a query that is multiplied by the scale before the product."""
    dots: Array = (work.query * work.query.dtype.type(factor)) @ work.key.swapaxes(-1, -2)
    return dots


def of_seen_keys(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) with keys cleared that no query sees: a constant added to NaN hides nothing."""
    return stage.logits(work.but(key=_visible_values(work.key, work.visible)), factor)


def einsum_logits(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S), the sums over features left to einsum."""
    dots: Array = np.einsum("bhtd,bhsd->bhts", work.query, work.key) * work.query.dtype.type(factor)
    return dots


def einsum_mix(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) by einsum, values cleared that no query sees."""
    mixed: Array = np.einsum("bhts,bhsv->bhtv", weights, _visible_values(work.value, work.visible))
    return mixed


def lowest_in_place(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), hidden ones replaced by the lowest finite number."""
    replaced: Array = np.where(work.visible, logits, np.finfo(logits.dtype).min)
    return replaced


def lowest_added(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S): the lowest finite number is added to hidden ones, and no sum falls below it."""
    lowest = np.finfo(logits.dtype).min
    lowered: Array = np.maximum(logits + np.where(work.visible, 0, lowest).astype(logits.dtype), lowest)
    return lowered


def mixed_by_slots(weights: Array, work: PreparedCall) -> Array:
    """Weighted sums of the values, (B,H,T,Dv). Key j lies in slot j mod R of a ring of R = left + right + 1 slots, and
    the slots are added up from the first to the last; without a left bound, as they come.
    """
    left, right = work.window or (None, None)
    if left is None:
        return stage.mix(weights, work)
    ring, within = left + (0 if work.causal else right or 0) + 1, np.broadcast_to(stage.near(work), work.shape[2:])
    seen: Array = np.asarray(work.visible.any(axis=-2))
    value = np.where(seen[..., None], work.value, 0)  # 0 times NaN would be NaN
    rows = [_row(weights[:, :, at], value, _by_slot(np.flatnonzero(keys), ring)) for at, keys in enumerate(within)]
    return np.concatenate(rows, axis=2) if rows else np.zeros((*weights.shape[:3], value.shape[-1]), weights.dtype)


def _by_slot(keys: Array, ring: int) -> Array:
    """Places of keys, (n,), in the order of their slots."""
    return keys[np.argsort(keys % ring, kind="stable")]


def _row(weights: Array, value: Array, keys: Array) -> Array:
    """Of weights (B,H,S) and values (B,H,S,Dv) the sum over these keys, (B,H,1,Dv)."""
    return weights[:, :, None, keys] @ value[:, :, keys]
