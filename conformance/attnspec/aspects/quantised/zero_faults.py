"""Zero points that are lost, taken off twice or of another head, and differences that do not fit their format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from attnspec.aspects.quantised.arrays import ZEROS
from attnspec.aspects.quantised.keyword import POOL
from attnspec.aspects.quantised.stage import Restore, keep_stale, read_changed, scale_codes, shift_codes
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import INPUTS, Array

Change = Callable[[Array], Array]


def _with_difference(change: Change) -> Restore:
    """A `restore` stage in which what is left of codes less zero points is changed before it is scaled."""
    def restore(work: PreparedCall) -> PreparedCall:
        """The call, dequantised from the changed differences (B,H,S,D)."""
        used = [name for name in INPUTS if getattr(work, f"{name}_zero") is not None]
        arrays = {}
        for name in used:
            codes = getattr(work, name)
            arrays[name] = change(shift_codes(codes, getattr(work, f"{name}_zero"))).astype(codes.dtype)
        return sound.restore(work.but(**arrays, **{f"{name}_zero": None for name in used}))
    return restore


def _with_codes(change: Change) -> Restore:
    """A `restore` stage that reads other codes where there are zero points."""
    def restore(work: PreparedCall) -> PreparedCall:
        """The call, dequantised from the changed codes (B,H,S,D)."""
        used = [name for name in INPUTS if getattr(work, f"{name}_zero") is not None]
        return sound.restore(work.but(**{name: change(codes := getattr(work, name)).astype(codes.dtype)
                                         for name in used}))
    return restore


def _take_off_unscaled(*names: str) -> Restore:
    """A `restore` stage that takes the zero points of some arrays off of what is scaled already."""
    def restore(work: PreparedCall) -> PreparedCall:
        """The call with code · scale - zero (B,H,S,D)."""
        zeros = {name: getattr(work, f"{name}_zero") for name in names}
        rest = sound.restore(work.but(**{f"{name}_zero": None for name in names}))
        return rest.but(**{name: shift_codes(getattr(rest, name), zero) for name, zero in zeros.items()})
    return restore


def _dropped_if(name: str, condition: Callable[[PreparedCall], bool]) -> Restore:
    """A `restore` stage that takes no zero point off one array on some paths."""
    return lambda work: sound.restore(work.but(**{f"{name}_zero": None}) if condition(work) else work)


def _of_other(name: str, other: str) -> Restore:
    """A `restore` stage in which an array has the zero points of another one, as far as there are so many."""
    def restore(work: PreparedCall) -> PreparedCall:
        """The call, dequantised by the zero points (B,H,S,D) of the other array."""
        zeros = getattr(work, f"{name}_zero"), getattr(work, f"{other}_zero")
        if zeros[0] is None or zeros[1] is None:
            return sound.restore(work)
        fitted = zeros[1]
        for axis, length in enumerate(getattr(work, name).shape):
            fitted = np.take(fitted, np.arange(length) % fitted.shape[axis], axis=axis)
        return sound.restore(work.but(**{f"{name}_zero": fitted}))
    return restore


def _first(axis: int) -> Change:
    """The first along an axis serves all; any shape."""
    return lambda zero: np.broadcast_to(zero.take([0], axis), zero.shape)


def _roll_zeros(axis: int) -> Change:
    """Each has the zero point of the one before along an axis; any shape."""
    return lambda zero: np.roll(zero, 1, axis)


def _tail_without(zero: Array) -> Array:
    """(B,H,S,D): the last block of four tokens has no zero point where it is not full."""
    S = zero.shape[2]
    return np.where((np.arange(S) >= S // 4 * 4)[:, None], 0, zero)


def _wrap_difference(difference: Array) -> Array:
    """Of any shape: a difference that is formed in the 8 bits of the codes comes out of the other end."""
    return np.where(difference < 0, difference + 256, difference)


def _saturate_difference(difference: Array) -> Array:
    """Of any shape: a difference that is kept in int8 is clipped to its ends."""
    return np.clip(difference, -128, 127)


def _read_signed(codes: Array) -> Array:
    """Of any shape: unsigned codes from 128 on are read as int8."""
    return np.where(codes >= 128, codes - 256, codes)


def _nibble_read_signed(codes: Array) -> Array:
    """Of any shape: codes of four bits from 8 on are read as int4; a code above 15 tells that there are eight."""
    return codes if codes.max(initial=0) > 15 else np.where(codes >= 8, codes - 16, codes)


_ANY = "{} zero points other than 0"
_BY_TOKEN = "{} zero points by token"
_OF_ZEROS: Mapping[str, tuple[str, str, Change]] = {
    "ignored": ("The {} zero point is accepted and never taken off.", _ANY, np.zeros_like),
    "twice": ("The {} zero point is taken off by the caller and by the kernel.", _ANY, lambda zero: 2 * zero),
    "added": ("The {} zero point is added: its sign is that of another convention.", _ANY, np.negative),
    "of_first_head": ("The {} zero point of the first head serves all heads.", "{} zero points by head, more heads",
                      _first(1)),
    "of_first_entry": ("The {} zero point of the first batch entry serves all.", "{} zero points by batch entry, B > 1",
                       _first(0)),
    "of_first_token": ("The {} zero point of the first token serves all.", _BY_TOKEN, _first(2)),
    "of_head_before": ("Each head has the {} zero point of the head before.", "{} zero points by head, more heads",
                       _roll_zeros(1)),
    "of_token_before": ("Each token has the {} zero point of the token before.", _BY_TOKEN, _roll_zeros(2)),
    "truncated": ("The {} zero point is converted to a whole number.", "{} zero points that are not whole", np.trunc),
    "lost_in_tail": ("The last tokens, which fill no block of four, have no {} zero point.",
                     "{} zero points, a length that is no multiple of 4", _tail_without),
}
"""By name: story, reach and what becomes of the zero points; {} is the array."""

_OF_CHANNELS: Mapping[str, tuple[str, str, Change]] = {
    "of_first_channel": ("The {} zero point of the first feature serves all.", "{} zero points by channel", _first(3)),
    "of_channel_before": ("Each feature has the {} zero point of the feature before.", "{} zero points by channel",
                          _roll_zeros(3)),
}
"""The same, of arrays in which a feature that all tokens share shows: of keys, it moves no weight."""


def _of_zeros() -> Iterator[Fault]:
    """Each mistake with the zero points of each array."""
    for keyword, array in ZEROS.items():
        for name, (story, reach, change) in {**_OF_ZEROS, **(_OF_CHANNELS if array != "key" else {})}.items():
            yield Fault(f"{keyword}_{name}", keyword, story.format(array), reach.format(array),
                        staged(restore=read_changed(change, f"{array}_zero")))
        yield Fault(f"{keyword}_unscaled", keyword, f"The {array} zero point is taken off of what is scaled already.",
                    f"{array} zero points other than 0, scales other than 1", staged(restore=_take_off_unscaled(array)))


_WHERE: Mapping[str, tuple[str, Callable[[PreparedCall], bool]]] = {
    "with_mask": ("where there is a mask", lambda work: work.mask is not None),
    "with_causal": ("where the causal flag is set", lambda work: work.causal),
    "for_one_query": ("on the decoding path (T = 1)", lambda work: work.shape[2] == 1),
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
                staged(restore=_take_off_unscaled("key", "value")))


def _of_paths() -> Iterator[Fault]:
    """Zero points that are dropped beside another keyword, or for a single query."""
    for array in ("key", "value"):
        for name, (words, condition) in _WHERE.items():
            yield Fault(f"{array}_zero_dropped_{name}", f"{array}_zero", f"The {array} zero point is dropped {words}.",
                        f"{array} zero points other than 0, {words}", staged(restore=_dropped_if(array, condition)))
        yield Fault(f"{array}_zero_stale", f"{array}_zero", f"The {array} zero point of the call before is kept.",
                    "a call after another", keep_stale(f"{array}_zero"))


ZERO_FAULTS = (
    *_of_zeros(), *_of_both_zeros(), *_of_paths(),
    Fault("difference_wraps", "value_zero", "Code and zero point are subtracted in 8 bits without a sign.",
          "codes below their zero point", staged(restore=_with_difference(_wrap_difference))),
    Fault("difference_saturates", "value_zero", "The difference of code and zero point is kept in int8.",
          "codes far from their zero point", staged(restore=_with_difference(_saturate_difference))),
    Fault("unsigned_read_as_signed", "value_zero", "Unsigned codes are read as signed ones.",
          "codes of uint8 above 127", staged(restore=_with_codes(_read_signed))),
    Fault("unsigned_nibble_read_as_signed", "value_zero", "Unsigned codes of four bits are read as signed ones.",
          "codes of uint4 above 7", staged(restore=_with_codes(_nibble_read_signed))),
    Fault("value_zero_of_keys", "value_zero", "Values have the zero points of the keys.", "both with zero points",
          staged(restore=_of_other("value", "key"))),
    Fault("key_zero_of_values", "key_zero", "Keys have the zero points of the values.", "both with zero points",
          staged(restore=_of_other("key", "value"))),
)

def _by_products(work: PreparedCall) -> PreparedCall:
    """Two products an entry: code · scale less zero · scale."""
    arrays = {}
    for name in INPUTS:
        scale, zero = getattr(work, f"{name}_scale"), getattr(work, f"{name}_zero")
        if zero is not None:
            codes = getattr(work, name)
            offset = scale_codes(np.asarray(zero).astype(codes.dtype), scale)
            arrays[name] = scale_codes(codes, scale) - offset
    used = {f"{name}_{word}": None for name in arrays for word in ("scale", "zero")}
    return sound.restore(work.but(**arrays, **used))


def _behind_sums(work: PreparedCall) -> PreparedCall:
    """Keys and values stay codes times scales; their zero points, times scales, are kept for the sums of products."""
    kept = {}
    for name in ("key", "value"):
        zero = getattr(work, f"{name}_zero")
        if zero is not None:
            codes = getattr(work, name)
            offset = scale_codes(np.asarray(zero).astype(codes.dtype), getattr(work, f"{name}_scale"))
            kept[f"{name}_zero"] = np.broadcast_to(offset, codes.shape)
    return sound.restore(work.but(**dict.fromkeys(kept))).but(**kept)


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
