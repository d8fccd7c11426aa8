"""Kernels that quantise inside make codes of their entries; those here do so in right ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.aspects.quantised.arrays import round_to
from attnspec.aspects.quantised.keyword import QUANTISED_CACHE
from attnspec.aspects.quantised.stage import Restore
from attnspec.aspects.quantised.storage import STORAGES, scale_axes
from attnspec.core.forms import InputForm
from attnspec.faults import staged as sound
from attnspec.faults.fault import SoundFormulation
from attnspec.faults.staged import Attend, around, attention, staged
from attnspec.faults.staged_forms import with_cache
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

Coded = tuple[Array, Array]
"""Codes (B,H,S,D) and what they are multiplied by, which broadcasts to them."""
Softmax = Callable[[Array, PreparedCall], Array]
Store = Callable[[Array, str, str], Array]
"""Stores entries (B,H,S,D) in a storage by a granularity, and reads them back."""


def largest_of(numbers: Array, granularity: str) -> Array:
    """Return the largest of the numbers (B,H,S,D) that share a scale, 0 where there is none. An
    axis along which all share it has length 1.
    """
    shared = scale_axes(granularity)
    alike = tuple(axis for axis in range(4) if axis not in shared)
    largest = numbers.max(axis=alike, keepdims=True, initial=-np.inf if numbers.size else 0.0)
    for axis, length in shared.items():
        size = numbers.shape[axis]
        if length > 1 and size:
            of_blocks = np.maximum.reduceat(largest, np.arange(0, size, length), axis=axis)
            largest = of_blocks.take(np.arange(size) // length, axis)
    return largest


def quantise_entries(entries: Array, storage: str, granularity: str) -> Coded:
    """Return codes of entries (B,H,S,D) and their scale, the largest entry of a block over the
    largest code, 1 for zeros; a format of blocks rounds it.
    """
    size, codes = np.abs(entries), STORAGES[storage]
    largest = largest_of(size, granularity)
    scale = largest / entries.dtype.type(codes.largest)
    if codes.has_power_scales:
        scale = power_below(largest, storage)
    elif codes.has_narrow_scales:
        scale = narrow_scale(scale, second_scale(size, storage))
    scale = np.where(largest == 0, scale.dtype.type(1), scale)
    return codes_under(entries, storage, scale), scale


def codes_under(entries: Array, storage: str, scale: Array) -> Array:
    """Return codes of entries (B,H,S,D) under scales that broadcast to them; 0 counts as 1."""
    return nearest(entries / one_for_zero(scale), storage)


def one_for_zero(scale: Array) -> Array:
    """Put 1 in the place of scales of 0, of any shape, so that entries can be divided by them."""
    return np.where(scale == 0, scale.dtype.type(1), scale)


def power_below(largest: Array, storage: str) -> Array:
    """Return the power of two that gives entries of any shape the largest code's exponent."""
    exponent = np.frexp(largest)[1] - np.frexp(STORAGES[storage].largest)[1]
    return np.where(largest == 0, 0, np.ldexp(np.ones_like(largest), exponent)).astype(largest.dtype)


def power_above(largest: Array, storage: str) -> Array:
    """Return the least power of two by which the largest entry, of any shape, is not clipped."""
    below = power_below(largest, storage)
    return np.where(largest > below * largest.dtype.type(STORAGES[storage].largest), 2 * below, below)


def second_scale(size: Array, storage: str) -> Array:
    """Return the second scale (1,1,1,1) of entries of these sizes (B,H,S,D)."""
    return size.max(initial=0, keepdims=True) / size.dtype.type(STORAGES[storage].largest) / size.dtype.type(448)


def narrow_scale(scale: Array, second: Array) -> Array:
    """Round scales of any shape to E4M3 in units of a second one (1,1,1,1)."""
    return nearest(scale / one_for_zero(second), "float8_e4m3fn") * second


def nearest(numbers: Array, storage: str) -> Array:
    """Return the nearest codes of numbers of any shape, in their dtype."""
    return round_to(STORAGES[storage], numbers.astype(np.float64)).astype(numbers.dtype)


def read_back(entries: Array, storage: str, granularity: str) -> Array:
    """Store entries (B,H,S,D) in a storage by a granularity, and read them back."""
    if STORAGES[storage].is_unsigned:
        codes, scale, zero = coded_range(entries, storage, granularity)
        return (codes - zero) * scale
    codes, scale = quantise_entries(entries, storage, granularity)
    return codes * scale


def coded_range(entries: Array, storage: str, granularity: str) -> tuple[Array, Array, Array]:
    """Return unsigned codes of entries (B,H,S,D), their scale and their zero point.

    The scale is the range of a block over the largest code, 1 for a block of one number. The zero
    point is the least entry in codes, with the sign turned.
    """
    least, largest = -largest_of(-entries, granularity), largest_of(entries, granularity)
    scale = one_for_zero((largest - least) / entries.dtype.type(STORAGES[storage].largest))
    zero = -least / scale
    return nearest(entries / scale + zero, storage), scale, zero


def stored_by(**formats: str) -> Restore:
    """A `restore` stage that stores arrays and reads them back: `key="int8 by token"`."""
    return storing(read_back, formats, *formats)


def storing(store: Store, formats: Mapping[str, str], *names: str) -> Restore:
    """A `restore` stage that stores some arrays in another way than the rest, and reads them back.

    formats: by array, what is declared.  names: the arrays that are stored so.
    """
    def restore(work: PreparedCall) -> PreparedCall:
        work = sound.restore(work)
        with np.errstate(all="ignore"):  # a block that holds NaN
            for name, text in formats.items():
                way = store if name in names else read_back
                work = work.but(**{name: way(getattr(work, name), *split(text))})
        return work
    return restore


def split(text: str) -> tuple[str, str]:
    """Split `int8 by token`, or `mxfp8`, into the storage and the granularity."""
    storage, _, granularity = text.partition(" by ")
    return storage, granularity or STORAGES[storage].usual_granularity


def keep_codes(work: PreparedCall, storage: str, **granularities: str) -> PreparedCall:
    """Put codes in the place of arrays (B,H,S,D), by granularities, with scales beside them."""
    for name, granularity in granularities.items():
        codes, scale = quantise_entries(getattr(work, name), storage, granularity)
        work = work.but(**{name: codes, f"{name}_scale": scale})
    return work


def _keep_all_codes(work: PreparedCall) -> PreparedCall:
    """Codes stand in the place of all three arrays, their scales beside them."""
    return keep_codes(sound.restore(work), "int8", query="token", key="token", value="head")


def _scaled_logits(work: PreparedCall, factor: float) -> Array:
    """Products of codes (B,H,T,S), times the scales of their tokens."""
    return _with_scales(sound.logits(work, factor), work)


def _with_scales(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) of codes, times the scales of query (B,H,T,1) and key (B,Hkv,S,1)."""
    assert work.query_scale is not None
    assert work.key_scale is not None
    return logits * work.query_scale * sound.group(work.key_scale, work.shape[1]).swapaxes(-1, -2)


def _whole_products(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) whose products are those of whole numbers, in int32."""
    query, key = (np.where(np.isfinite(array), array, 0).astype(np.int32) for array in (work.query, work.key))
    dots = (query @ key.swapaxes(-1, -2)).astype(work.query.dtype)
    return _with_scales(dots * dots.dtype.type(factor), work)


def _scaled_output(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) of codes of values, times the scale of each head."""
    assert work.value_scale is not None
    scale = np.broadcast_to(work.value_scale, (1, work.value_scale.shape[1], 1, 1))
    return sound.finish(output, work) * sound.group(scale, work.shape[1])


def _keep_key_range(work: PreparedCall) -> PreparedCall:
    """Codes of keys stand with scale and zero point by token; values are read back."""
    work = stored_by(value="uint8 by token")(work)
    with np.errstate(all="ignore"):  # a token that holds NaN
        codes, scale, zero = coded_range(work.key, "uint8", "token")
    return work.but(key=codes, key_scale=scale, key_zero=zero)


def _zeros_off_products(work: PreparedCall, factor: float) -> Array:
    """Products (B,H,T,S) with codes of keys, less those with zero points, times the scales."""
    assert work.key_scale is not None
    assert work.key_zero is not None
    scale, zero = (sound.group(each, work.shape[1]).swapaxes(-1, -2) for each in (work.key_scale, work.key_zero))
    sums = work.query.sum(axis=-1, keepdims=True)
    return (sound.logits(work, factor) - sums * zero * work.query.dtype.type(factor)) * scale


def _into_query(work: PreparedCall) -> PreparedCall:
    """Codes of keys, whose scale by head is multiplied into the query."""
    work = sound.restore(work)
    codes, scale = quantise_entries(work.key, "int8", "head")
    return work.but(key=codes, query=work.query * sound.group(scale, work.query.shape[1]))


def _cast(work: PreparedCall) -> PreparedCall:
    """Keys and values as they are in E5M2, without a scale."""
    work = sound.restore(work)
    return work.but(key=nearest(work.key, "float8_e5m2"), value=nearest(work.value, "float8_e5m2"))


def _without_mean(work: PreparedCall) -> PreparedCall:
    """The mean of all keys is subtracted before they are stored, and stands beside them."""
    work = stored_by(query="int8 by token")(work)
    mean = mean_of_keys(work.key)
    return work.but(key=read_back(work.key - mean, "int8", "token"), key_scale=mean)


def mean_of_keys(keys: Array) -> Array:
    """Return the mean (B,Hkv,1,D) of all keys (B,Hkv,S,D), 0 without any."""
    return keys.mean(axis=2, keepdims=True) if keys.shape[2] else keys.sum(axis=2, keepdims=True)


def _mean_put_back(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of smoothed keys, and the mean's own product, which all keys share."""
    assert work.key_scale is not None
    mean = sound.group(work.key_scale, work.shape[1])
    return sound.logits(work, factor) + (work.query @ mean.swapaxes(-1, -2)) * work.query.dtype.type(factor)


def stored_weights(storage: str, factor: float, *, sums_codes: bool = False) -> Softmax:
    """A `softmax` stage that stores exponentials of logits (B,H,T,S), times a factor, as weights.

    They are divided by the sum of the exponentials, or of their codes.
    """
    def softmax(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
        powers = sound.exponentials(logits)
        stored = nearest(powers * powers.dtype.type(factor), storage) / powers.dtype.type(factor)
        total = (stored if sums_codes else powers).sum(axis=-1, keepdims=True)
        return stored / np.where(total == 0, 1, total)
    return softmax


def _in_blocks(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Weights (B,H,T,S) of one pass over 16 keys at a time, relative to the maximum so far."""
    top = np.full((*logits.shape[:3], 1), -np.inf, logits.dtype)
    weights, total, factor = np.zeros_like(logits), np.zeros_like(top), logits.dtype.type(256)
    for start in range(0, logits.shape[3], 16):
        block = slice(start, start + 16)
        larger = np.maximum(top, logits[..., block].max(axis=-1, keepdims=True))
        shift = np.where(np.isneginf(larger), 0, larger)
        powers, rescale = np.exp(logits[..., block] - shift), np.exp(top - shift)
        weights[..., :start] *= rescale
        weights[..., block] = nearest(powers * factor, "float8_e4m3fn") / factor
        total = total * rescale + powers.sum(axis=-1, keepdims=True)
        top = larger
    return weights / np.where(total == 0, 1, total)


def _under_powers_above(entries: Array, storage: str, granularity: str) -> Array:
    """Entries (B,H,S,D) are read back under the least powers of two that clip nothing."""
    scale = power_above(largest_of(np.abs(entries), granularity), storage)
    return codes_under(entries, storage, scale) * scale


def _scaled_query_in_blocks(work: PreparedCall) -> PreparedCall:
    """Codes of query and key in MXFP8 stand with their scales; log2(e) is in the query."""
    work = sound.restore(work)
    with np.errstate(all="ignore"):  # a block that holds NaN
        work = work.but(query=work.query * work.query.dtype.type(np.log2(np.e)))
        return keep_codes(work, "mxfp8", query="block(32)", key="block(32)")


def _block_by_block(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S): products of 32 features each, times both scales, over log2(e)."""
    assert work.query_scale is not None
    assert work.key_scale is not None
    scale, wide = sound.group(work.key_scale, work.shape[1]), work.query.dtype
    keys = np.where(np.isfinite(work.key), work.key, 0)
    total = np.zeros(work.shape, wide)
    for start in range(0, work.query.shape[3], 32):
        part, first = slice(start, start + 32), slice(start, start + 1)
        products = work.query[..., part] @ keys[..., part].swapaxes(-1, -2)
        total = total + products * work.query_scale[..., first] * scale[..., first].swapaxes(-1, -2)
    return total * wide.type(factor / np.log2(np.e))


@dataclass(frozen=True, slots=True, eq=False)
class CodedCache:
    """Codes and scales of keys (B,Hkv,S,D) and values (B,Hkv,S,Dv), by token."""

    key: Coded
    value: Coded


def coded_cache(held: CodedCache | None, call: HandedOver) -> CodedCache:
    """Append the keys and values (B,Hkv,S,D) of a call to a cache, which stays as it is."""
    wide = np.result_type(np.float32, call.key.dtype)
    new = (quantise_entries(array.astype(wide), "int8", "token") for array in (call.key, call.value))
    if held is None:
        return CodedCache(*new)
    return CodedCache(*(_append(old, each) for old, each in zip((held.key, held.value), new, strict=True)))


def _append(old: Coded, new: Coded) -> Coded:
    """Codes (B,Hkv,S,D) and scales (B,Hkv,S,1) behind others."""
    return np.concatenate([old[0], new[0]], axis=2), np.concatenate([old[1], new[1]], axis=2)


def decode_cache(cache: CodedCache) -> dict[str, Array]:
    """Read back the keys (B,Hkv,S,D) and values (B,Hkv,S,Dv) that a cache holds."""
    return {"key": cache.key[0] * cache.key[1], "value": cache.value[0] * cache.value[1]}


def decoder_of(keep: Callable[[Any, HandedOver], Any], read: Callable[[Any], Mapping[str, Array]],
               ) -> Callable[[], Attend]:
    """A maker of decoders that attend to the keys (B,Hkv,S,D) and values that they have stored."""
    def answer(call: HandedOver) -> Answer:
        cache = keep(call.cache, call)
        numbers = read(cache)
        past = numbers["key"].shape[2] - call.key.shape[2]
        arrays: dict[str, Array] = {name: array[:, :, past:] for name, array in numbers.items()}
        if call.cache is not None:
            arrays |= {f"past_{name}": array[:, :, :past] for name, array in numbers.items()}
        return with_cache(attention(call.but(cache=None, **arrays)), cache)
    return around(answer)


_RANGES = {"stored_key": "uint8 by token", "stored_value": "uint8 by token"}
_BY_TOKEN = {"stored_query": "int8 by token", "stored_key": "int8 by token"}
_CACHE = {"stored_key": "int8 by token", "stored_value": "int8 by token"}
_FLOAT8 = {"stored_query": "float8_e4m3fn by head", "stored_key": "float8_e4m3fn by head"}
_BLOCKS = {"stored_query": "int8 by tokens(16)", "stored_key": "int8 by tokens(16)"}
_WEIGHTS = "float8_e4m3fn times 256"
_MX8 = {"stored_query": "mxfp8", "stored_key": "mxfp8", "stored_value": "mxfp8 by channel_tokens(32)"}
_MX4 = {"stored_key": "mxfp4", "stored_value": "mxfp4 by channel_tokens(32)"}
_NV4 = {"stored_key": "nvfp4", "stored_value": "nvfp4 by channel_tokens(16)"}


def _kernel(name: str, meaning: str, make: Callable[[], Attend], words: Mapping[str, str],
            form: InputForm = InputForm.DENSE) -> SoundFormulation:
    """A kernel that quantises what it is given. words: of its precision class, at every dtype."""
    declared = {**words, "reason": "it quantises inside"}
    claims = (QUANTISED_CACHE,) if form is InputForm.DECODER else ()
    return SoundFormulation(f"inside_{name}", meaning, make, words=declared, form=form, claims=claims)


INSIDE = (
    _kernel("dequantised_first", "codes are read back before anything else",
            staged(restore=stored_by(query="int8 by token", key="int8 by token", value="float8_e4m3fn by head")),
            {**_BY_TOKEN, "stored_value": "float8_e4m3fn by head"}),
    _kernel("scales_folded", "codes attend; scales are multiplied into logits and output",
            staged(restore=_keep_all_codes, logits=_scaled_logits, finish=_scaled_output),
            {**_BY_TOKEN, "stored_value": "int8 by head"}),
    _kernel("scale_in_query", "codes of keys attend; their scale is multiplied into the query",
            staged(restore=_into_query), {"stored_key": "int8 by head"}),
    _kernel("in_blocks", "blocks of 16 tokens; weights in E4M3, stored relative to the maximum so far",
            staged(restore=stored_by(query="int8 by tokens(16)", key="int8 by tokens(16)"), softmax=_in_blocks),
            {**_BLOCKS, "stored_weights": _WEIGHTS}),
    _kernel("whole_products", "products of codes are whole numbers in int32",
            staged(restore=_keep_all_codes, logits=_whole_products, finish=_scaled_output),
            {**_BY_TOKEN, "stored_value": "int8 by head"}),
    _kernel("weights_in_float8", "E4M3 throughout; weights are stored as 256 exp(logit - maximum)",
            staged(restore=stored_by(query="float8_e4m3fn by head", key="float8_e4m3fn by head",
                                     value="float8_e4m3fn by channel"), softmax=stored_weights("float8_e4m3fn", 256)),
            {**_FLOAT8, "stored_value": "float8_e4m3fn by channel", "stored_weights": _WEIGHTS}),
    _kernel("codes_summed", "the same; a row is divided by the sum of its codes",
            staged(restore=stored_by(query="float8_e4m3fn by head", key="float8_e4m3fn by head"),
                   softmax=stored_weights("float8_e4m3fn", 256, sums_codes=True)),
            {**_FLOAT8, "stored_weights": f"{_WEIGHTS} summed"}),
    _kernel("weights_in_int8", "INT8 throughout; weights are stored as 127 exp(logit - maximum)",
            staged(restore=stored_by(query="int8 by token", key="int8 by token", value="int8 by head"),
                   softmax=stored_weights("int8", 127)),
            {**_BY_TOKEN, "stored_value": "int8 by head", "stored_weights": "int8 times 127"}),
    _kernel("smoothed_keys", "the mean of the keys is taken off before, and put back",
            staged(restore=_without_mean, logits=_mean_put_back),
            {"stored_query": "int8 by token", "stored_key": "int8 by token smoothed"}),
    _kernel("cast", "keys and values in E5M2, without a scale", staged(restore=_cast),
            {"stored_key": "float8_e5m2", "stored_value": "float8_e5m2"}),
    _kernel("four_bits", "keys and values in INT4, by token",
            staged(restore=stored_by(key="int4 by token", value="int4 by token")),
            {"stored_key": "int4 by token", "stored_value": "int4 by token"}),
    _kernel("ranges", "keys and values in UINT8, each token with its range: codes less a zero point, times a scale",
            staged(restore=stored_by(key="uint8 by token", value="uint8 by token")), _RANGES),
    _kernel("zeros_off_products", "the same; the query's sum times the zero point is taken off the products of codes",
            staged(restore=_keep_key_range, logits=_zeros_off_products), _RANGES),
    _kernel("four_bit_ranges", "keys and values in UINT4, each channel of keys and each token of values with its range",
            staged(restore=stored_by(key="uint4 by channel", value="uint4 by token")),
            {"stored_key": "uint4 by channel", "stored_value": "uint4 by token"}),
    _kernel("mxfp8", "MXFP8 throughout, values in blocks of tokens; scales are rounded down, as the specification says",
            staged(restore=stored_by(query="mxfp8", key="mxfp8", value="mxfp8 by channel_tokens(32)")), _MX8),
    _kernel("mxfp8_by_products", "products of MXFP8, block by block, times both scales; log2(e) is in the query",
            staged(restore=_scaled_query_in_blocks, logits=_block_by_block),
            {"stored_query": "mxfp8", "stored_key": "mxfp8"}),
    _kernel("mxfp4_rounded_up", "keys and values in MXFP4, whose scales are rounded up, so that nothing is clipped",
            staged(restore=storing(_under_powers_above, {"key": "mxfp4", "value": "mxfp4 by channel_tokens(32)"},
                                   "key", "value")), _MX4),
    _kernel("nvfp4", "keys and values in NVFP4, with a second scale for each array",
            staged(restore=stored_by(key="nvfp4", value="nvfp4 by channel_tokens(16)")), _NV4),
    _kernel("decoder", "a decoder stores its keys and values in INT8, each token with its scale",
            decoder_of(coded_cache, decode_cache), _CACHE, InputForm.DECODER),
)
"""Right ones. Each declares what it stores."""
