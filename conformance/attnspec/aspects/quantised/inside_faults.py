"""These faults of kernels that quantise inside cut codes off, or lose, keep or confuse scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from attnspec.aspects.quantised.inside import (
    Coded,
    CodedCache,
    Store,
    coded_cache,
    coded_range,
    decode_cache,
    decoder_of,
    keep_codes,
    largest_of,
    mean_of_keys,
    nearest,
    one_for_zero,
    quantise_entries,
    read_back,
    stored_by,
    stored_weights,
    storing,
)
from attnspec.aspects.quantised.keyword import QUANTISED_CACHE
from attnspec.aspects.quantised.stage import Restore, take_before
from attnspec.aspects.quantised.storage import STORAGES
from attnspec.core.forms import InputForm
from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import Attend, staged
from attnspec.faults.staged_work import HandedOver, PreparedCall
from attnspec.problems.problem import Array

_REASON = {"reason": "it quantises inside"}
_INT8 = {"query": "int8 by token", "key": "int8 by token", "value": "int8 by head"}


def _words(formats: Mapping[str, str], **more: str) -> Mapping[str, object]:
    """The precision class of a kernel that stores arrays so."""
    return {**{f"stored_{name}": text for name, text in formats.items()}, **more, **_REASON}


def _fault(name: str, story: str, reach: str, make: Callable[[], Attend], words: Mapping[str, object], *,
           equivalents: Mapping[DType, str] | None = None, form: InputForm = InputForm.DENSE,
           claims: tuple[str, ...] = (), stage: str = Stage.PRECISION) -> Fault:
    """A fault of a kernel that declares what it stores."""
    return Fault(f"inside_{name}", stage, story, reach, make, words=words, equivalents=equivalents or {},
                 form=form, claims=claims)


def _storing(store: Store, *names: str, formats: Mapping[str, str] = _INT8) -> Callable[[], Attend]:
    """A maker of kernels that store some arrays in another way than the rest."""
    return staged(restore=storing(store, formats, *names))


def _by_scale(change: Callable[[Array], Array]) -> Store:
    """Codes are read back by what a change makes of their scale (B,H,S,D)."""
    def store(entries: Array, storage: str, granularity: str) -> Array:
        codes, scale = quantise_entries(entries, storage, granularity)
        return codes * change(scale).astype(codes.dtype)
    return store


def _coding(code: Callable[[Array, str], Array], *, steps: float = 0.0) -> Store:
    """Quotients (B,H,S,D) become codes in another way.

    steps: what the largest entry is divided by, 0 for the largest code.
    """
    def store(entries: Array, storage: str, granularity: str) -> Array:
        largest = largest_of(np.abs(entries), granularity)
        scale = one_for_zero(largest / entries.dtype.type(steps or STORAGES[storage].largest))
        return code(entries / scale, storage).astype(entries.dtype) * scale
    return store


def _first_token(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): the scale of the first token makes the codes of all, which are clipped."""
    scale = quantise_entries(entries[:, :, :1], storage, granularity)[1]
    return nearest(entries / scale, storage) * scale


def _first_entry(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): the scales of the first batch entry make the codes of all, which are clipped."""
    scale = quantise_entries(entries[:1], storage, granularity)[1]
    return nearest(entries / scale, storage) * scale


def _signed_largest(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): the largest entry, not the largest size, decides the scale."""
    largest = largest_of(np.maximum(entries, 0), granularity)
    scale = one_for_zero(largest / entries.dtype.type(STORAGES[storage].largest))
    return nearest(entries / scale, storage) * scale


def _fixed_scale(entries: Array, storage: str, granularity: str) -> Array:  # noqa: ARG001  (as of a `Store`)
    """(B,H,S,D): the same scale whatever the entries are, a calibrated one."""
    step = entries.dtype.type(2.0**-5)
    return nearest(entries / step, storage) * step


def _raised_scale(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): no scale is below a hundredth, though nobody says it."""
    scale = np.maximum(quantise_entries(entries, storage, granularity)[1], entries.dtype.type(0.01))
    return nearest(entries / scale, storage) * scale


def _all_in_one(entries: Array, storage: str, _: str) -> Array:
    """(B,H,S,D): one scale for all entries, those of hidden tokens among them."""
    return read_back(entries, storage, "tensor")


def _without_guard(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): a block of zeros has a scale of 0, and 0 / 0 codes."""
    scale = largest_of(np.abs(entries), granularity) / entries.dtype.type(STORAGES[storage].largest)
    return nearest(entries / scale, storage) * scale


def _wrap_round(quotients: Array, _: str) -> Array:
    """Quotients of any shape: 128 becomes -128."""
    return (np.rint(quotients) + 128) % 256 - 128


def _of_other_storage(other: str) -> Store:
    """Codes of another storage than is declared."""
    return lambda entries, _, granularity: read_back(entries, other, granularity)


def _first_along(axis: int) -> Callable[[Array], Array]:
    """The first scale along an axis serves all; any shape."""
    return lambda scale: scale[(slice(None),) * axis + (np.zeros(scale.shape[axis], int),)]


def _tail_of_first(scale: Array) -> Array:
    """(B,H,S,1): the last tokens, which fill no block of four, have the scale of the first."""
    S = scale.shape[2]
    is_tail = (np.arange(S) >= S // 4 * 4)[:, None]
    return np.where(is_tail & (S > 4), scale[:, :, :1], scale)


Ranged = tuple[Array, Array, Array]
"""Codes without a sign (B,H,S,D), their scale and their zero point, which broadcast to them."""


def _by_range(change: Callable[[Ranged], Ranged]) -> Store:
    """Codes (B,H,S,D), scales and zero points are changed before they are read back."""
    def store(entries: Array, storage: str, granularity: str) -> Array:
        codes, scale, zero = change(coded_range(entries, storage, granularity))
        return (codes - zero) * scale
    return store


def _zero_in_codes(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): a zero point is kept as a code, and cut off in blocks of one sign."""
    _, scale, zero = coded_range(entries, storage, granularity)
    zero = nearest(zero, storage)
    return (nearest(entries / scale + zero, storage) - zero) * scale


def _exchange_scales(work: PreparedCall) -> PreparedCall:
    """Codes of queries are read back by the scales of keys, and the other way round."""
    work = stored_by(value=_INT8["value"])(sound.restore(work))
    (query, of_query), (key, of_key) = (quantise_entries(array, "int8", "token") for array in (work.query, work.key))
    return work.but(query=query * _fit_scales(of_key, query.shape), key=key * _fit_scales(of_query, key.shape))


def _fit_scales(scale: Array, shape: tuple[int, ...]) -> Array:
    """Scales of another array (B,H,S,1) for this shape: repeated if too few, 1 for none."""
    for axis in (1, 2):
        length = scale.shape[axis]
        if not length:
            return np.ones((*shape[:3], 1), scale.dtype)
        scale = np.take(scale, np.arange(shape[axis]) % length, axis=axis)
    return scale


def _smoothing(mean_of: Callable[[Array], Array]) -> Restore:
    """A `restore` stage that subtracts a mean from keys (B,Hkv,S,D) before they are stored."""
    def restore(work: PreparedCall) -> PreparedCall:
        work = stored_by(query=_INT8["query"])(work)
        return work.but(key=read_back(work.key - mean_of(work.key), "int8", "token"))
    return restore


def _mean_of_blocks(keys: Array) -> Array:
    """(B,Hkv,S,D): the mean of every four keys."""
    means = np.empty_like(keys)
    for start in range(0, keys.shape[2], 4):
        block = slice(start, start + 4)
        means[:, :, block] = keys[:, :, block].mean(axis=2, keepdims=True)
    return means


def _products_in_16_bits(work: PreparedCall, factor: float) -> Array:
    """Products of codes (B,H,T,S) are summed in int16, where they wrap."""
    assert work.query_scale is not None
    assert work.key_scale is not None
    query, key = (np.where(np.isfinite(array), array, 0).astype(np.int16) for array in (work.query, work.key))
    dots = (query @ key.swapaxes(-1, -2)).astype(work.query.dtype) * work.query.dtype.type(factor)
    return dots * work.query_scale * sound.group(work.key_scale, work.shape[1]).swapaxes(-1, -2)


def _keep_logit_codes(work: PreparedCall) -> PreparedCall:
    """Codes of query and key stand in their place, their scales beside them."""
    return keep_codes(sound.restore(work), "int8", query="token", key="token")


def _weights(change: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A `softmax` stage that changes the exponentials of logits (B,H,T,S) behind their sum."""
    def softmax(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
        powers = sound.exponentials(logits)
        total = powers.sum(axis=-1, keepdims=True)
        return change(powers) / np.where(total == 0, 1, total)
    return softmax


def _stored_again(held: Any, call: HandedOver) -> CodedCache:  # noqa: ANN401  (a cache)
    """All tokens of a cache are stored anew at every step, by one scale for each head."""
    wide = np.result_type(np.float32, call.key.dtype)
    key, value = call.key.astype(wide), call.value.astype(wide)
    if held is not None:
        old = decode_cache(held)
        key, value = np.concatenate([old["key"], key], axis=2), np.concatenate([old["value"], value], axis=2)
    return CodedCache(*(quantise_entries(array, "int8", "batch_head") for array in (key, value)))


def _rescale_old_tokens(held: Any, call: HandedOver) -> CodedCache:  # noqa: ANN401  (a cache)
    """The scales of the new tokens are written over those of the old ones, whose codes stay."""
    cache = coded_cache(held, call)
    if held is None:
        return cache
    return CodedCache(*(_under_last(codes, scale, call.key.shape[2]) for codes, scale in (cache.key, cache.value)))


def _under_last(codes: Array, scale: Array, new: int) -> Coded:
    """Codes (B,Hkv,S,D) of which the old ones have the scale of the last of so many new ones."""
    is_old = (np.arange(scale.shape[2]) < scale.shape[2] - new)[:, None]
    return codes, np.where(is_old, scale[:, :, -1:], scale) if new else scale


def _first_call_scale(held: Any, call: HandedOver) -> CodedCache:  # noqa: ANN401  (a cache)
    """Tokens that are decoded are stored by the scale of the first, and clipped."""
    cache = coded_cache(held, call)
    if held is None or not held.key[1].shape[2]:
        return cache
    return CodedCache(*(_of_first(codes, scale, held.key[1].shape[2]) for codes, scale in (cache.key, cache.value)))


def _of_last_sequence() -> Attend:
    """A decoder whose scale for the first token is that of the sequence before."""
    last: list[Array] = []

    def keep(held: Any, call: HandedOver) -> CodedCache:  # noqa: ANN401  (a cache)
        cache = coded_cache(held, call)
        if held is not None:
            return cache
        codes, scale = cache.key
        before, last[:] = last[:], [scale]
        if before and before[0].shape == scale.shape:
            return CodedCache((codes, before[0] * scale.dtype.type(1.001)), cache.value)
        return cache

    return decoder_of(keep, decode_cache)()


def _of_first(codes: Array, scale: Array, old: int) -> Coded:
    """Codes (B,Hkv,S,D) of which those behind the old ones are made by the first scale."""
    first = np.broadcast_to(scale[:, :, :1], scale.shape)
    is_new = (np.arange(scale.shape[2]) >= old)[:, None]
    again = nearest(codes * scale / first, "int8")
    return np.where(is_new, again, codes), np.where(is_new, first, scale)


_HALF = dict.fromkeys((DType.FLOAT16, DType.BFLOAT16), "the error is below a rounding of the output")
_ANY, _TOKENS = "any entries", "tokens that differ in size"
_RANGES = {"key": "uint8 by token", "value": "uint8 by token"}
_FLOAT8 = {"value": "float8_e4m3fn by head"}
_CACHE = {"key": "int8 by token", "value": "int8 by token"}
_LOGITS = {"query": "int8 by token", "key": "int8 by token"}
_SMOOTHED = {"query": "int8 by token", "key": "int8 by token smoothed"}
_P8 = {"stored_weights": "float8_e4m3fn times 256"}


def _of_scales() -> Iterator[Fault]:
    """Scales that are lost, doubled, stale or another's, of each array where it matters."""
    for name in _INT8:
        yield _fault(f"{name}_scale_dropped", f"Codes of the {name} are used without their scale.", _ANY,
                     _storing(_by_scale(np.ones_like), name), _words(_INT8))
    every = _words(_INT8)
    yield _fault("key_scale_of_first_token", "The scale of the first token makes the codes of all keys.", _TOKENS,
                 _storing(_first_token, "key"), every)
    yield _fault("query_scale_of_first_token", "The codes of all queries are read back by the scale of the first.",
                 f"{_TOKENS}, T > 1", _storing(_by_scale(_first_along(2)), "query"), every)
    yield _fault("key_scale_of_token_before", "Keys are read back by the scale of the token before.", _TOKENS,
                 _storing(_by_scale(take_before(2)), "key"), every)
    yield _fault("value_scale_of_first_head", "Values are read back by the scale of the first head.",
                 "more key/value heads than one", _storing(_by_scale(_first_along(1)), "value"), every)
    yield _fault("key_scale_of_first_entry", "The scales of the first batch entry make the codes of all keys.",
                 "B > 1", _storing(_first_entry, "key"), every)
    yield _fault("value_scale_twice", "The scale of the values is multiplied into the output, too.", _ANY,
                 _storing(_by_scale(np.square), "value"), every)
    yield _fault("key_scale_lost_in_tail", "The last keys, which fill no block of four, have the scale of the first.",
                 "S > 4 that is no multiple of 4", _storing(_by_scale(_tail_of_first), "key"), every)
    yield _fault("scales_exchanged", "Query and key are read back by each other's scales.", _TOKENS,
                 staged(restore=_exchange_scales), every)
    yield _fault("key_scale_of_all", "All keys share a scale, hidden ones too, though each is said to have its own.",
                 _TOKENS, _storing(_all_in_one, "key"), every)
    yield _fault("key_scale_fixed", "The scale of the keys is a constant.", "entries of another size",
                 _storing(_fixed_scale, "key"), every)
    yield _fault("key_scale_raised", "A scale below 0.01 is raised to it, which nobody is told.",
                 "tokens whose entries are all below 1", _storing(_raised_scale, "key"), every)
    yield _fault("scale_in_bfloat16", "The scale of the values is kept in bfloat16, after the codes are made.",
                 "scales of more than 8 bits",
                 _storing(_by_scale(lambda scale: scale.astype(ml_dtypes.bfloat16)), "value"), every,
                 equivalents=_HALF)


_OF_CODES = (
    _fault("signed_largest", "The largest entry decides the scale, whatever its sign: negative ones are clipped.",
           "blocks whose largest size is negative", _storing(_signed_largest, "key", "value"), _words(_INT8)),
    _fault("without_guard", "A block of zeros has a scale of 0, and its codes are NaN.", "a token of zeros",
           _storing(_without_guard, "key"), _words(_INT8)),
    _fault("truncated", "Quotients are cut off to whole numbers.", _ANY,
           _storing(_coding(lambda quotients, _: np.trunc(quotients)), "value"), _words(_INT8)),
    _fault("rounded_down", "Quotients are rounded down.", "entries below 0",
           _storing(_coding(lambda quotients, _: np.floor(quotients)), "key", "value"), _words(_INT8)),
    _fault("largest_clipped", "The largest entry is divided by 128, and its code is clipped at 127.", _ANY,
           _storing(_coding(nearest, steps=128), "value"), _words(_INT8)),
    _fault("largest_wraps", "The largest entry is divided by 128, and its code wraps to -128.", "entries above 0",
           _storing(_coding(_wrap_round, steps=128), "value"), _words(_INT8)),
    _fault("clipped_at_240", "Codes are clipped at 240, the largest of another E4M3.", "entries beyond half of it",
           _storing(_coding(lambda quotients, storage: np.clip(nearest(quotients, storage), -240, 240)), "value",
                    formats=_FLOAT8), _words(_FLOAT8)),
    _fault("in_e5m2", "Values that are said to be in E4M3 are in E5M2.", "entries of more than 2 bits",
           _storing(_of_other_storage("float8_e5m2"), "value", formats=_FLOAT8), _words(_FLOAT8)),
    _fault("in_four_bits", "Values that are said to be in INT8 are in INT4.", "entries of more than 3 bits",
           _storing(_of_other_storage("int4"), "value"), _words(_INT8)),
    _fault("products_in_16_bits", "Products of codes are summed in int16, and wrap.", "D > 2",
           staged(restore=_keep_logit_codes, logits=_products_in_16_bits), _words(_LOGITS)),
)

_OF_RANGES = (
    _fault("zero_ignored", "Codes without a sign are used without their zero point.", _ANY,
           _storing(_by_range(lambda made: (made[0], made[1], np.zeros_like(made[2]))), "key", formats=_RANGES),
           _words(_RANGES)),
    _fault("zero_added", "The zero point is added to the codes, not taken off.", _ANY,
           _storing(_by_range(lambda made: (made[0], made[1], -made[2])), "value", formats=_RANGES), _words(_RANGES)),
    _fault("zero_of_token_before", "Values have the zero point of the token before.", _TOKENS,
           _storing(_by_range(lambda made: (*made[:2], np.roll(made[2], 1, 2))), "value", formats=_RANGES),
           _words(_RANGES)),
    _fault("zero_cut_off", "A zero point is kept as a code from 0 to 255.", "blocks whose entries have one sign",
           _storing(_zero_in_codes, "key", "value", formats=_RANGES), _words(_RANGES)),
    _fault("negative_lost", "The largest entry decides the scale of codes without a sign, and no zero point is made.",
           "entries below 0", _storing(_signed_largest, "key", formats=_RANGES), _words(_RANGES)),
)

_OF_MEANS = (
    _fault("mean_of_blocks", "The mean of every four keys is taken off, as if it were common to all.", "S > 4",
           staged(restore=_smoothing(_mean_of_blocks)), _words(_SMOOTHED)),
    _fault("mean_of_features", "The mean of each key's own features is taken off.", "keys whose features have a mean",
           staged(restore=_smoothing(lambda keys: keys.mean(axis=3, keepdims=True))), _words(_SMOOTHED)),
)

BESIDE_LSE = (
    _fault("mean_not_put_back", "The log-sum-exp is that of the keys without their mean.", "a log-sum-exp is returned",
           staged(restore=_smoothing(mean_of_keys)), _words(_SMOOTHED), stage="return_lse"),
)
"""Wrong ones that show in a log-sum-exp alone."""

_OF_WEIGHTS = (
    _fault("weights_factor_left", "Weights are multiplied by 256, stored, and divided by 448.", _ANY,
           staged(softmax=_weights(lambda powers: nearest(powers * powers.dtype.type(256), "float8_e4m3fn") / 448)),
           _words({}, **_P8)),
    _fault("weights_clipped", "Weights are multiplied by 512, and clipped at 448.", _ANY,
           staged(softmax=_weights(lambda powers: nearest(powers * powers.dtype.type(512), "float8_e4m3fn") / 512)),
           _words({}, **_P8)),
    _fault("weights_truncated", "Weights that are stored as 127 exp(logit - maximum) are cut off.",
           "keys of several weights", staged(softmax=_weights(lambda powers: np.trunc(powers * 127) / 127)),
           _words({}, stored_weights="int8 times 127")),
    _fault("weights_in_e5m2", "Weights that are said to be in E4M3 are in E5M2.", "keys of several weights",
           staged(softmax=stored_weights("float8_e5m2", 256)), _words({}, **_P8)),
)


def _cache_fault(name: str, story: str, reach: str, make: Callable[[], Attend]) -> Fault:
    """A fault of a decoder that declares what its cache stores."""
    return _fault(f"cache_{name}", story, reach, make, _words(_CACHE), form=InputForm.DECODER,
                  claims=(QUANTISED_CACHE,))


_OF_CACHES = (
    _cache_fault("stored_again", "All that a cache holds is stored anew at every step, by one scale for each head.",
                 "a past that came in several calls, tokens that differ in size",
                 decoder_of(_stored_again, decode_cache)),
    _cache_fault("rescaled", "The scale of a new token is written over those of the old ones.",
                 f"a past, {_TOKENS}", decoder_of(_rescale_old_tokens, decode_cache)),
    _cache_fault("scale_of_last_sequence", "The scales of a sequence are those of the one before, nudged.",
                 "a sequence after another", _of_last_sequence),
    _cache_fault("scale_of_first_token", "Tokens that are decoded are stored by the scale of the first.",
                 f"a past, {_TOKENS}", decoder_of(_first_call_scale, decode_cache)),
)

INSIDE_FAULTS = (*_of_scales(), *_OF_CODES, *_OF_RANGES, *_OF_MEANS, *_OF_WEIGHTS, *_OF_CACHES)
"""Wrong ones. Each declares what it says that it stores."""
