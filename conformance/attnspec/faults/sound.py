"""Correct attentions that compute in different ways. False alarms are counted on them: no clause
may accuse one.

Each declares where it rounds. Those that compute in float32 or wider for half dtypes, and round
once, are of grade G0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnspec.core.declaration import Declaration, Limits, within_form
from attnspec.core.dtype import DTYPES, HALF_DTYPES
from attnspec.core.errors import TargetError
from attnspec.core.forms import OF_ENTRIES, ROTARY, ROTARY_PROFILE, InputForm
from attnspec.core.keyword import DROPOUT_POOL, GRAD
from attnspec.core.keywords import CACHED, FROM_PLACE, HIDING, KEYWORDS, OFF
from attnspec.core.nouns import DType, Kind
from attnspec.faults import staged as stage
from attnspec.faults.catalogue import ATTENTION_PROFILES, FORMED, RECOMMENDED, claims_of, pools_beside
from attnspec.faults.fault import of_aspects
from attnspec.faults.sound_forms import (
    CAPACITY,
    FORGETFUL,
    by_sequence,
    decode_concatenating,
    decode_forgetting,
    decode_in_a_ring,
    decode_preallocated,
    page_by_page,
    side_by_side,
    with_block_mask,
)
from attnspec.faults.staged import (
    Attend,
    around,
    attention,
    log_sum_exp,
    put_together,
    returned_lse,
    staged,
    with_column,
)
from attnspec.faults.staged_forms import Rotate, with_entries_read
from attnspec.faults.staged_work import (
    Answer,
    HandedOver,
    PreparedCall,
    added_logits,
    bend_logits,
    extra_logit,
    near_keys,
    own_keys,
    own_queries,
    reach,
    wide_dtype,
)
from attnspec.faults.state import in_parts, whole
from attnspec.problems.problem import Array

BLOCK = 16
SPLIT = 64  # keys


def with_joined_keys(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of attention functions that see past and new keys in one array."""
    return around(lambda call: answer(stage.extend(call)))


def _past(call: HandedOver) -> int:
    """The number of keys before the first query's own place."""
    return 0 if call.past_key is None else call.past_key.shape[2]


def _added_bias(call: HandedOver, wide: np.dtype[Any]) -> Array | None:
    """What is added to the logits, (B,H,T,S): bias, and what aspects add; None if nothing is."""
    added = added_logits(call, _ahead(call), wide)
    bias = None if call.bias is None else call.bias.astype(wide)
    if added is None:
        return bias
    shape = (*call.query.shape[:3], call.key.shape[2])
    return np.broadcast_to(added if bias is None else added + bias, shape)


def _ahead(call: HandedOver) -> Array:
    """How far each key lies ahead of the query's own place, (T,S)."""
    return np.arange(call.key.shape[2]) - np.arange(call.query.shape[2])[:, None] - _past(call)


def _visible(call: HandedOver) -> Array:
    """Which keys a query sees, (B,H,T,S), past ones included, by all keywords together."""
    T, S, P = call.query.shape[2], call.key.shape[2], _past(call)
    allowed = np.ones((T, S), bool) if call.mask is None else np.asarray(call.mask)
    joined = allowed & np.tri(T, S, P, dtype=bool) if call.causal else allowed
    joined = joined & near_keys(call, _ahead(call))
    joined = joined & own_keys(call, S)
    return np.broadcast_to(joined, (*call.query.shape[:2], T, S))


def _visible_values(value: Array, visible: Array) -> Array:
    """Values (B,H,S,Dv), 0 where no query sees the key: weight 0 times NaN would be NaN."""
    return np.where(np.asarray(visible.any(axis=-2))[..., None], value, 0)


def _textbook(call: HandedOver, wide: np.dtype[np.generic]) -> Answer:
    """The formula, line by line, in `wide`."""
    query, key, value = (array.astype(wide) for array in (call.query, call.key, call.value))
    H, D = query.shape[1], query.shape[3]
    key, value = (np.repeat(array, H // array.shape[1], axis=1) for array in (key, value))
    factor = wide.type(1 / np.sqrt(D) if call.scale is None else call.scale)
    logits = query @ np.swapaxes(key, -1, -2) * factor
    logits = bend_logits(logits, call)
    added, visible = _added_bias(call, wide), _visible(call)
    logits = logits if added is None else logits + added
    logits = np.where(visible, logits, -np.inf)
    extra = _extra(call, logits)
    top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), extra)  # a sequence may have no key
    shift = np.where(np.isneginf(top), 0, top)
    grown = np.exp(logits - shift)
    total = grown.sum(axis=-1, keepdims=True) + np.exp(extra - shift)
    weights = grown / np.where(total == 0, 1, total)
    return _round_answer(call, weights @ _visible_values(value, visible), weights, put_together(shift, total))


def _extra(call: HandedOver, logits: Array) -> Array:
    """The logit of each head's extra key, (1,H,1,1), -inf without one, as logits (B,H,T,S)."""
    extra = extra_logit(call)
    extra = np.full(logits.shape[1], -np.inf) if extra is None else extra
    return np.asarray(extra, logits.dtype)[None, :, None, None]


def _round_answer(call: HandedOver, output: Array, weights: Array, lse: Array) -> Answer:
    """The answer in the dtype of the inputs: output (B,H,T,Dv), and weights (B,H,T,S) and
    log-sum-exp (B,H,T) where they are asked for. Rows behind the number of queries are zeros.
    """
    io = call.query.dtype
    own = own_queries(call, output.shape[2])
    output = output if own is None else np.where(own, output, 0)
    answer = [output.astype(io)]
    if call.return_weights:
        answer.append(weights.astype(io))
    if call.return_lse:
        answer.append(returned_lse(lse, io))
    return answer[0] if len(answer) == 1 else tuple(answer)


def naive(call: HandedOver) -> Answer:
    """The formula in float32, in float64 for float64."""
    return _textbook(call, wide_dtype(call.query.dtype))


def float64_inside(call: HandedOver) -> Answer:
    """The formula in float64."""
    return _textbook(call, np.dtype(np.float64))


def eager(call: HandedOver) -> Answer:
    """softmax(q @ k.T * scale + bias) @ v, every intermediate result in the inputs' dtype."""
    io = call.query.dtype
    work = stage.take(call)
    H = work.query.shape[1]
    key, value = stage.group(work.key, H), stage.group(work.value, H)
    factor = np.asarray(stage.scale(work)).astype(io)
    logits = ((work.query @ key.swapaxes(-1, -2)).astype(io) * factor).astype(io)
    logits = bend_logits(logits, work, keep=lambda array: array.astype(io))
    added, visible = _added_bias(call, io), _visible(call)
    logits = logits if added is None else (logits + added).astype(io)
    hidden = np.where(visible, logits.astype(work.query.dtype), -np.inf).astype(work.query.dtype)
    extra = extra_logit(work)
    joined = hidden if extra is None else with_column(hidden, extra.astype(io))  # stored with the logits
    weights = stage.normalise(stage.exponentials(joined))[..., :hidden.shape[3]].astype(io)
    output = weights.astype(work.query.dtype) @ _visible_values(value, visible)
    return _round_answer(call, output, weights, log_sum_exp(joined))


def online(call: HandedOver) -> Answer:
    """One pass over blocks of 16 keys with a running maximum, sum and output."""
    return _in_one_pass(call, wide_dtype(call.query.dtype))


def fused_blocks(call: HandedOver) -> Answer:
    """The same; weights meet the values in the dtype of the inputs, as matrix units want them."""
    return _in_one_pass(call, call.query.dtype)


def by_pages(call: HandedOver, slots: int) -> Answer:
    """The same in blocks of as many keys as a page has slots."""
    return _in_one_pass(call, wide_dtype(call.query.dtype), slots)


def _in_one_pass(call: HandedOver, stored: np.dtype[Any], step: int = BLOCK) -> Answer:
    """One pass in blocks of `step` keys, whose exponentials meet the values as `stored`."""
    logits, value = _logits_and_values(call)
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
    return _round_answer(call, output / divisor, np.exp(logits - shift) / divisor, put_together(shift, total))


def _logits_and_values(call: HandedOver) -> tuple[Array, Array]:
    """Logits (B,H,T,S), -inf if hidden, and values (B,H,S,Dv) for each query head, widened."""
    work, visible = stage.take(call), _visible(call)
    H = work.query.shape[1]
    work = work.but(key=stage.group(work.key, H), value=_visible_values(stage.group(work.value, H), visible))
    added, logits = _added_bias(call, work.query.dtype), stage.bend(stage.logits(work, stage.scale(work)), work)
    logits = logits if added is None else logits + added
    return np.where(visible, logits, -np.inf).astype(work.query.dtype), work.value


def merge_splits(call: HandedOver) -> Answer:
    """Splits of 64 keys, merged by the log-sum-exp of each; an extra key is one more split."""
    logits, value = _logits_and_values(call)
    parts, sums = list[Array](), list[Array]()
    for first in range(0, logits.shape[-1], SPLIT):
        span = slice(first, first + SPLIT)
        part, lse = _output_and_lse(logits[..., span], value[:, :, span])
        parts.append(part)
        sums.append(lse)
    sums.append(np.broadcast_to(_extra(call, logits), (*logits.shape[:3], 1)))
    joined = np.concatenate(sums, axis=-1)
    lse = log_sum_exp(joined)
    shift = np.where(np.isneginf(lse), 0, lse)[..., None]
    shares = np.exp(joined - shift)  # (B,H,T,splits + 1)
    output = np.zeros((*logits.shape[:3], value.shape[-1]), logits.dtype)
    for at, part in enumerate(parts):
        output = output + shares[..., at, None] * part
    return _round_answer(call, output, np.exp(logits - shift), lse)


def _output_and_lse(logits: Array, value: Array) -> tuple[Array, Array]:
    """The output (B,H,T,Dv) and log-sum-exp (B,H,T,1) of logits (B,H,T,S), values (B,H,S,Dv)."""
    top = logits.max(axis=-1, keepdims=True)
    shift = np.where(np.isneginf(top), 0, top)
    grown = np.exp(logits - shift)
    total = grown.sum(axis=-1, keepdims=True)
    return grown @ value / np.where(total == 0, 1, total), put_together(shift, total)[..., None]


_WRITTEN_OUT: Mapping[str, Any] = {
    name: OFF[name] for name in (*HIDING, *CACHED, *FROM_PLACE) if name not in {"mask", "bias"}}
"""What is left out of a call whose mask, bias and joined keys say the same."""


def reversed_keys(call: HandedOver) -> Answer:
    """The keys are taken from last to first; a mask stands for all that hides keys."""
    visible = _visible(call)
    bias = _added_bias(call, wide_dtype(call.query.dtype))
    bias = None if bias is None else np.broadcast_to(bias, visible.shape)[..., ::-1]
    answer = stage.attention(call.but(key=call.key[:, :, ::-1], value=call.value[:, :, ::-1], mask=visible[..., ::-1],
                                      bias=bias, **_WRITTEN_OUT))
    if not call.return_weights:
        return answer
    output, weights, *lse = answer
    return (output, np.flip(weights, axis=-1).copy(), *lse)


def sorted_keys(call: HandedOver) -> Answer:
    """The keys of each head are taken in the order of their sums: some permutation of them."""
    H, visible = call.query.shape[1], _visible(call)
    key, value = stage.group(call.key, H), stage.group(call.value, H)
    order = np.argsort(key.astype(np.float64).sum(axis=-1), axis=-1, kind="stable")  # (B,H,S); NaN comes last
    of_keys, of_scores = order[..., None], order[:, :, None, :]
    bias = _added_bias(call, wide_dtype(call.query.dtype))
    bias = None if bias is None else np.take_along_axis(np.broadcast_to(bias, visible.shape), of_scores, -1)
    answer = stage.attention(call.but(
        key=np.take_along_axis(key, of_keys, axis=2), value=np.take_along_axis(value, of_keys, axis=2),
        mask=np.take_along_axis(visible, of_scores, axis=-1), bias=bias, **_WRITTEN_OUT))
    if not call.return_weights:
        return answer
    (output, weights, *lse), back = answer, np.argsort(order, axis=-1)[:, :, None, :]
    return (output, np.take_along_axis(weights, back, axis=-1), *lse)


def prescaled_logits(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of a query that is multiplied by the scale before the product."""
    return (work.query * work.query.dtype.type(factor)) @ work.key.swapaxes(-1, -2)


def of_seen_keys(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S), unseen keys set to 0: a number added to NaN would hide nothing."""
    return stage.logits(work.but(key=_visible_values(work.key, work.visible)), factor)


def einsum_logits(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S), by einsum."""
    return np.einsum("bhtd,bhsd->bhts", work.query, work.key) * work.query.dtype.type(factor)


def einsum_mix(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) by einsum, of values that are 0 where no query sees the key."""
    return np.einsum("bhts,bhsv->bhtv", weights, _visible_values(work.value, work.visible))


def lowest_in_place(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), the lowest finite number in place of hidden ones."""
    return np.where(work.visible, logits, np.finfo(logits.dtype).min)


def lowest_added(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), the lowest finite number added to hidden ones, no sum below it."""
    lowest = np.finfo(logits.dtype).min
    return np.maximum(logits + np.where(work.visible, 0, lowest).astype(logits.dtype), lowest)


def mixed_by_slots(weights: Array, work: PreparedCall) -> Array:
    """Weighted sums of the values, (B,H,T,Dv), slot by slot: key j lies in slot j mod R of a ring.

    R is left + right + 1. Where a query sees all keys on its left, they are summed as they come.
    """
    left, right = reach(work)
    if left is None:
        return stage.mix(weights, work)
    ring = left + (0 if work.causal else right or 0) + 1
    seen: Array = np.asarray(work.visible.any(axis=-2))
    value = np.where(seen[..., None], work.value, 0)  # 0 times NaN would be NaN
    output = np.zeros((*weights.shape[:3], value.shape[-1]), weights.dtype)
    for at, is_near in enumerate(np.broadcast_to(stage.near(work), work.shape[2:])):
        keys = np.flatnonzero(is_near)
        keys = keys[np.argsort(keys % ring, kind="stable")]  # in the order of their slots
        row = weights[:, :, at]
        output[:, :, at] = (row[:, :, None, keys] @ value[:, :, keys])[:, :, 0]
    return output


@dataclass(frozen=True, slots=True)
class Sound:
    """A correct attention or, by its kind, a correct rotary embedding.

    meaning: how it computes.  grade: in half dtypes.  hidden_row: what a row is that sees nothing.
    stores_lse: whether weights depend on a log-sum-exp that was stored.  claims: profiles that
    bind only who claims them.  cache: how many keys a decoder's cache holds; 0: any number.
    overfull_cache: what it does with more.  words: what its precision class says besides the
    grade, at every dtype.  backward: the backward pass beside it, if it has one.
    """

    name: str
    meaning: str
    make: Callable[[], Attend | Rotate]
    grade: str = "G0"
    hidden_row: str = "zeros"
    kind: Kind = Kind.ATTENTION
    form: InputForm = InputForm.DENSE
    stores_lse: bool = False
    claims: tuple[str, ...] = ()
    cache: int = 0
    overfull_cache: str = "grows"
    words: Mapping[str, object] = field(default_factory=dict)
    backward: Callable[[], Callable[..., object]] | None = None

    @property
    def function(self) -> Attend | Rotate:
        """A freshly made function; of another form than the dense one, it takes codes, too."""
        function = self.make()
        return function if self.form is InputForm.DENSE else with_entries_read(function)


SOUND: Mapping[str, Sound] = {sound.name: sound for sound in (
    Sound("naive", "the formula, line by line", with_joined_keys(naive)),
    Sound("float64_inside", "the formula in float64, rounded once", with_joined_keys(float64_inside)),
    Sound("online_blocks", "one pass over blocks of 16 keys, rescaling as the maximum rises", with_joined_keys(online)),
    Sound("fused_blocks", "the same, with weights in the dtype of the inputs where they meet the values",
          with_joined_keys(fused_blocks), grade="G1"),
    Sound("merged_splits", "splits of 64 keys, each with an output and a log-sum-exp of its own, merged by these",
          with_joined_keys(merge_splits), stores_lse=True),
    Sound("prescaled_query", "the query is multiplied by the scale before the product",
          staged(logits=prescaled_logits)),
    Sound("reversed_keys", "the keys are summed from last to first", with_joined_keys(reversed_keys)),
    Sound("sorted_keys", "the keys are summed in the order of their contents", with_joined_keys(sorted_keys)),
    Sound("einsum", "both products by einsum, which sums in another order",
          staged(logits=einsum_logits, mix=einsum_mix)),
    Sound("finite_minimum_mask", "hidden logits are replaced by the lowest finite number",
          staged(hide=lowest_in_place), hidden_row="uniform"),
    Sound("finite_minimum_bias", "the lowest finite number is added to hidden logits",
          staged(logits=of_seen_keys, hide=lowest_added), hidden_row="uniform"),
    Sound("in_order", "the keys are summed one by one, so that the bits of a row hang on what it sees alone",
          in_parts(whole), claims=("batch_invariant",)),
    Sound("ring_buffer", "keys lie in a ring of few slots, and are summed slot by slot", staged(mix=mixed_by_slots)),
    Sound("eager", "every intermediate result is stored in the dtype of the inputs",
          with_joined_keys(eager), grade="G3"),
    Sound("packed_one_by_one", "packed sequences, one after the other", by_sequence(naive), form=InputForm.PACKED),
    Sound("packed_block_mask", "packed sequences, all in one call under a mask of blocks",
          with_block_mask, form=InputForm.PACKED),
    Sound("paged_side_by_side", "keys and values of each entry, put side by side from their pages",
          side_by_side(naive), form=InputForm.PAGED),
    Sound("paged_one_by_one", "one pass over the pages, rescaling as the maximum rises",
          page_by_page(by_pages), form=InputForm.PAGED),
    Sound("decoder_concatenating", "past and new keys, one behind the other",
          decode_concatenating(attention), form=InputForm.DECODER),
    Sound("decoder_preallocated", "a buffer that is allocated once, NaN where nothing was written",
          decode_preallocated(attention), form=InputForm.DECODER, cache=CAPACITY, overfull_cache="refuses"),
    Sound("decoder_in_a_ring", "a ring of as many slots as a query sees keys",
          decode_in_a_ring(attention), form=InputForm.DECODER),
    Sound("decoder_forgetting", "a buffer that forgets the oldest key where it is full", decode_forgetting(attention),
          form=InputForm.DECODER, cache=FORGETFUL, overfull_cache="forgets_oldest"),
)}

_NOT_OF_DROPPING = frozenset({"weights"})
"""Profiles that formulations which drop weights do not claim."""

_OF_ASPECTS = of_aspects(lambda aspect: aspect.sound)

_POOL_OF: Mapping[str, str] = {each.name: each.pool for each in _OF_ASPECTS if each.pool}
"""By name, the pool whose keywords a formulation takes beside those that all take."""

OF_ASPECTS: Mapping[str, Sound] = {
    each.name: Sound(each.name, each.meaning, each.make, each.grade, kind=each.kind, form=each.form,
                     words=each.words, claims=each.claims, backward=each.backward)
    for each in _OF_ASPECTS}
"""Those that are about an aspect which the others do not take, rotary embeddings among them."""

DROPPING: Mapping[str, Sound] = {
    name: sound for name, sound in OF_ASPECTS.items() if _POOL_OF.get(name) == DROPOUT_POOL}
"""Those that drop weights."""

EVERY: Mapping[str, Sound] = {**SOUND, **DROPPING, **OF_ASPECTS}
"""All of them: those of attention, and those of rotary embeddings."""

DENSE: Mapping[str, Sound] = {name: sound for name, sound in SOUND.items() if sound.form is InputForm.DENSE}
"""Those that take (B,H,T,D)."""


def sound_named(name: str) -> Sound:
    """The sound formulation of this name. Raises TargetError, with the nearest name, if absent."""
    if name not in EVERY:
        raise TargetError.unknown("sound formulation", name, EVERY)
    return EVERY[name]


def declaration_of_sound(sound: Sound) -> Declaration:
    """All profiles claimed, the recommended conventions but for hidden rows, and the grade.

    All compute in float32 or wider, and vouch for the systematic error of that.
    """
    if sound.kind is Kind.ROTARY:
        return Declaration(
            kind=Kind.ROTARY, keywords=frozenset(ROTARY), limits=within_form(Limits()), claims=(ROTARY_PROFILE,),
            precision=_precision(sound))
    keywords = FORMED.get(sound.form, _keywords(sound))
    if any(word.startswith("stored_") for word in sound.words):
        keywords -= OF_ENTRIES  # it makes codes itself: of what comes as codes its class says nothing
    profiles = [name for name in ATTENTION_PROFILES if name not in _NOT_OF_DROPPING or sound.name not in DROPPING]
    return Declaration(
        form=sound.form, keywords=keywords, limits=Limits(grouped=True, broadcasts=True, cache=sound.cache),
        conventions={**RECOMMENDED, "overfull_cache": sound.overfull_cache, "hidden_row": sound.hidden_row,
                     # a sum of lowest numbers is no empty sum
                     **({"lse_of_hidden_row": "unspecified"} if sound.hidden_row == "uniform" else {})},
        precision=_precision(sound),
        claims=claims_of(sound.form, profiles, keywords, sound.claims))


def _precision(sound: Sound) -> Mapping[DType, Mapping[str, object]]:
    """Where a formulation rounds, by dtype, as a manifest says it."""
    rounded: dict[DType, dict[str, object]] = {
        dtype: {"grade": sound.grade, "systematic": "accumulator"} for dtype in HALF_DTYPES}
    if sound.words:
        return {dtype: {**rounded.get(dtype, {}), **sound.words} for dtype in DType}
    if not sound.stores_lse:
        return rounded
    reason = "each split's log-sum-exp is stored, and the splits are merged by it"
    return {dtype: {**rounded.get(dtype, {}), "logsumexp_roundings": 1, "reason": reason,
                    "logsumexp": DTYPES[dtype].wide.value} for dtype in DType}


def _keywords(sound: Sound) -> frozenset[str]:
    """The keywords that a formulation takes.

    One that drops weights takes those of dropout, one of an aspect those that the aspect's faults
    take, and any other one all keywords but these.
    """
    words = [word for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds]
    if sound.name in DROPPING:
        return frozenset(word.name for word in words
                         if word.pool in {"", DROPOUT_POOL} and word.profile not in _NOT_OF_DROPPING)
    if sound.name not in _POOL_OF:
        return frozenset(word.name for word in words if word.pool not in _POOL_OF.values())
    pools = pools_beside(_POOL_OF[sound.name])
    taken = {word.name for word in words if word.pool in pools}
    return frozenset(taken | {GRAD} if sound.backward else taken)
