"""These faults lose zero points, subtract them twice, confuse or overflow them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from attnspec.aspects.quantised.arrays import ZEROS
from attnspec.aspects.quantised.keyword import POOL
from attnspec.aspects.quantised.stage import (
    Change,
    Restore,
    drop_if,
    has_one_query,
    keep_stale,
    leave_tail,
    read_changed,
    read_changed_codes,
    repeat_to,
    scale_codes,
    shift_codes,
    take_before,
    take_first,
)
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import INPUTS, Array

_ZERO_KEYWORDS = tuple(f"{name}_zero" for name in INPUTS)


def _with_difference(change: Change) -> Restore:
    """A `restore` stage that changes codes less zero points (B,H,S,D) before they are scaled."""
    def restore(work: PreparedCall) -> PreparedCall:
        for name, keyword in zip(INPUTS, _ZERO_KEYWORDS, strict=True):
            codes, zero = getattr(work, name), getattr(work, keyword)
            if zero is not None:
                work = work.but(**{name: change(shift_codes(codes, zero)).astype(codes.dtype), keyword: None})
        return sound.restore(work)
    return restore


def _subtract_unscaled(*names: str) -> Restore:
    """A `restore` stage that subtracts the zero points of some arrays after these are scaled."""
    def restore(work: PreparedCall) -> PreparedCall:
        scaled = sound.restore(work.but(**{f"{name}_zero": None for name in names}))
        for name in names:
            scaled = scaled.but(**{name: shift_codes(getattr(scaled, name), getattr(work, f"{name}_zero"))})
        return scaled
    return restore


def _of_other(name: str, other: str) -> Restore:
    """A `restore` stage in which an array has the zero points of another one."""
    def restore(work: PreparedCall) -> PreparedCall:
        own, zero = getattr(work, f"{name}_zero"), getattr(work, f"{other}_zero")
        if own is not None and zero is not None:
            work = work.but(**{f"{name}_zero": repeat_to(zero, getattr(work, name).shape)})
        return sound.restore(work)
    return restore


def _wrap_difference(difference: Array) -> Array:
    """A difference of any shape that is formed in 8 bits comes out of the other end."""
    return np.where(difference < 0, difference + 256, difference)


def _saturate_difference(difference: Array) -> Array:
    """A difference of any shape that is kept in int8 is clipped to its ends."""
    return np.clip(difference, -128, 127)


def _read_signed(codes: Array) -> Array:
    """Unsigned codes of any shape from 128 on are read as int8."""
    return np.where(codes >= 128, codes - 256, codes)


def _nibble_read_signed(codes: Array) -> Array:
    """Codes of any shape from 8 on are read as int4, if none is above 15."""
    return codes if codes.max(initial=0) > 15 else np.where(codes >= 8, codes - 16, codes)


_ANY = "{} zero points other than 0"
_BY_TOKEN, _BY_HEAD = "{} zero points by token", "{} zero points by head, more heads"
_OF_ZEROS: Mapping[str, tuple[str, str, Change]] = {
    "ignored": ("The {} zero point is accepted and never taken off.", _ANY, np.zeros_like),
    "twice": ("The {} zero point is taken off by the caller and by the kernel.", _ANY, lambda zero: 2 * zero),
    "added": ("The {} zero point is added: its sign is that of another convention.", _ANY, np.negative),
    "of_first_head": ("The {} zero point of the first head serves all heads.", _BY_HEAD, take_first(1)),
    "of_first_entry": (
        "The {} zero point of the first batch entry serves all.", "{} zero points by batch entry, B > 1",
        take_first(0)),
    "of_first_token": ("The {} zero point of the first token serves all.", _BY_TOKEN, take_first(2)),
    "of_head_before": ("Each head has the {} zero point of the head before.", _BY_HEAD, take_before(1)),
    "of_token_before": ("Each token has the {} zero point of the token before.", _BY_TOKEN, take_before(2)),
    "truncated": ("The {} zero point is converted to a whole number.", "{} zero points that are not whole", np.trunc),
    "lost_in_tail": (
        "The last tokens, which fill no block of four, have no {} zero point.",
        "{} zero points, a length that is no multiple of 4", leave_tail(0)),
}
"""By name: story, reach and what becomes of the zero points; {} is the array."""

_OF_CHANNELS: Mapping[str, tuple[str, str, Change]] = {
    "of_first_channel": (
        "The {} zero point of the first feature serves all.", "{} zero points by channel", take_first(3)),
    "of_channel_before": (
        "Each feature has the {} zero point of the feature before.", "{} zero points by channel", take_before(3)),
}
"""The same of queries and values. A zero point that all keys share moves no weight."""


def _of_zeros() -> Iterator[Fault]:
    """Each mistake with the zero points of each array."""
    for keyword, array in ZEROS.items():
        mistakes = _OF_ZEROS if array == "key" else {**_OF_ZEROS, **_OF_CHANNELS}
        for name, (story, reach, change) in mistakes.items():
            yield Fault(f"{keyword}_{name}", keyword, story.format(array), reach.format(array),
                        staged(restore=read_changed(change, f"{array}_zero")))
        yield Fault(f"{keyword}_unscaled", keyword, f"The {array} zero point is taken off of what is scaled already.",
                    f"{array} zero points other than 0, scales other than 1", staged(restore=_subtract_unscaled(array)))


_WHERE: Mapping[str, tuple[str, Callable[[PreparedCall], bool]]] = {
    "with_mask": ("where there is a mask", lambda work: work.mask is not None),
    "with_causal": ("where the causal flag is set", lambda work: work.causal),
    "for_one_query": ("on the decoding path (T = 1)", has_one_query),
}


_IN_BOTH = ("ignored", "twice", "added", "of_first_head", "of_first_token", "of_token_before", "truncated",
            "lost_in_tail")
"""Those that keys and values have alike where one helper dequantises both."""


def _of_both_zeros() -> Iterator[Fault]:
    """Mistakes with the zero points of keys and of values alike."""
    for name in _IN_BOTH:
        story, reach, change = _OF_ZEROS[name]
        yield Fault(f"both_zeros_{name}", "value_zero", story.format("key and value"), reach.format("key or value"),
                    staged(restore=read_changed(change, "key_zero", "value_zero")))
    yield Fault("both_zeros_unscaled", "value_zero", "Zero points of keys and values are taken off of what is scaled.",
                "key or value zero points other than 0, scales other than 1",
                staged(restore=_subtract_unscaled("key", "value")))


def _of_paths() -> Iterator[Fault]:
    """Zero points that are dropped beside another keyword, or for a single query."""
    for array in ("key", "value"):
        for name, (words, condition) in _WHERE.items():
            yield Fault(f"{array}_zero_dropped_{name}", f"{array}_zero", f"The {array} zero point is dropped {words}.",
                        f"{array} zero points other than 0, {words}",
                        staged(restore=drop_if(condition, f"{array}_zero")))
        yield Fault(f"{array}_zero_stale", f"{array}_zero", f"The {array} zero point of the call before is kept.",
                    "a call after another", keep_stale(f"{array}_zero"))


ZERO_FAULTS = (
    *_of_zeros(), *_of_both_zeros(), *_of_paths(),
    Fault("difference_wraps", "value_zero", "Code and zero point are subtracted in 8 bits without a sign.",
          "codes below their zero point", staged(restore=_with_difference(_wrap_difference))),
    Fault("difference_saturates", "value_zero", "The difference of code and zero point is kept in int8.",
          "codes far from their zero point", staged(restore=_with_difference(_saturate_difference))),
    Fault("unsigned_read_as_signed", "value_zero", "Unsigned codes are read as signed ones.",
          "codes of uint8 above 127", staged(restore=read_changed_codes(_read_signed, *_ZERO_KEYWORDS))),
    Fault("unsigned_nibble_read_as_signed", "value_zero", "Unsigned codes of four bits are read as signed ones.",
          "codes of uint4 above 7", staged(restore=read_changed_codes(_nibble_read_signed, *_ZERO_KEYWORDS))),
    Fault("value_zero_of_keys", "value_zero", "Values have the zero points of the keys.", "both with zero points",
          staged(restore=_of_other("value", "key"))),
    Fault("key_zero_of_values", "key_zero", "Keys have the zero points of the values.", "both with zero points",
          staged(restore=_of_other("key", "value"))),
)

def _scaled_zero(work: PreparedCall, name: str) -> Array | None:
    """Zero points (B,H,S,D) of an array, or ones that broadcast, times its scales."""
    zero, dtype = getattr(work, f"{name}_zero"), getattr(work, name).dtype
    return None if zero is None else scale_codes(np.asarray(zero).astype(dtype), getattr(work, f"{name}_scale"))


def _by_products(work: PreparedCall) -> PreparedCall:
    """Two products an entry: code · scale less zero · scale."""
    for name in INPUTS:
        offset = _scaled_zero(work, name)
        if offset is not None:
            numbers = scale_codes(getattr(work, name), getattr(work, f"{name}_scale")) - offset
            work = work.but(**{name: numbers, f"{name}_scale": None, f"{name}_zero": None})
    return sound.restore(work)


def _behind_sums(work: PreparedCall) -> PreparedCall:
    """Keys and values are codes times scales; sums subtract zero points times scales."""
    offsets = {}
    for name in ("key", "value"):
        offset = _scaled_zero(work, name)
        if offset is not None:
            offsets[f"{name}_zero"] = np.broadcast_to(offset, getattr(work, name).shape)
    return sound.restore(work.but(**dict.fromkeys(offsets))).but(**offsets)


def _logits_less_zeros(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of code · scale, less the sum of products of the query and zero · scale."""
    logits = sound.logits(work, factor)
    if work.key_zero is None:
        return logits
    offset = work.query @ sound.group(work.key_zero, work.query.shape[1]).swapaxes(-1, -2)
    return logits - offset * logits.dtype.type(factor)


def _values_less_zeros(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,Dv): the mean of code · scale, less that of zero · scale."""
    mean = sound.mix(weights, work)
    return mean if work.value_zero is None else mean - weights @ sound.group(work.value_zero, work.query.shape[1])


SOUND_ZEROS = (
    SoundFormulation("zeros_by_products", "code · scale less zero · scale, entry by entry",
                     staged(restore=_by_products), POOL),
    SoundFormulation("zeros_behind_sums", "zero points are taken off of logits and output",
                     staged(restore=_behind_sums, logits=_logits_less_zeros, mix=_values_less_zeros), POOL),
)
