"""These faults of kernels that make MX and NVFP4 inside change, lose or confuse scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from attnspec.aspects.quantised.inside import (
    Store,
    codes_under,
    largest_of,
    narrow_scale,
    one_for_zero,
    power_below,
    quantise_entries,
    read_back,
    second_scale,
    storing,
)
from attnspec.aspects.quantised.stage import Change
from attnspec.aspects.quantised.storage import STORAGES
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.problems.problem import Array

FEATURES = 3
"""The axis of (B,H,S,D) along which blocks of features lie."""


def _read_by_scale(change: Change) -> Store:
    """Codes are read back by what a change makes of their scale (B,H,S,D)."""
    def store(entries: Array, storage: str, granularity: str) -> Array:
        codes, scale = quantise_entries(entries, storage, granularity)
        return codes * change(np.broadcast_to(scale, entries.shape)).astype(codes.dtype)
    return store


def _lower_exponent(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): the exponent of the largest code is taken to be one more than it is."""
    scale = power_below(largest_of(np.abs(entries), granularity), storage) / entries.dtype.type(2)
    return codes_under(entries, storage, scale) * scale


def _take_block_before(scale: Array) -> Array:
    """(B,H,S,D): each block of 16 features or 32 has the scale of the block before."""
    size = scale.shape[FEATURES]
    differs = (scale[..., 1:] != scale[..., :-1]).any(axis=(0, 1, 2))
    length = int(differs.argmax()) + 1 if differs.any() else size
    return scale.take(np.maximum(np.arange(size) - length, 0), FEATURES)


def _leave_tail_unscaled(block: int) -> Change:
    """(B,H,S,D): a last block of features that is not full is read back without a scale."""
    def change(scale: Array) -> Array:
        size = scale.shape[FEATURES]
        return np.where(np.arange(size) >= size // block * block, scale.dtype.type(1), scale)
    return change


def _without_second(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): scales are rounded to E4M3 as they are: small ones become 0, large ones 448."""
    scale = largest_of(np.abs(entries), granularity) / entries.dtype.type(STORAGES[storage].largest)
    scale = narrow_scale(scale, np.ones((1, 1, 1, 1), entries.dtype))
    return codes_under(entries, storage, scale) * scale


def _second_of_first_head(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): the second scale is that of the first head; scales beyond 448 are clipped."""
    scale = largest_of(np.abs(entries), granularity) / entries.dtype.type(STORAGES[storage].largest)
    scale = narrow_scale(scale, second_scale(np.abs(entries[:, :1]), storage))
    return codes_under(entries, storage, scale) * scale


def _second_left_out(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): codes are read back by their scales in E4M3, without the second one."""
    second = second_scale(np.abs(entries), storage)
    return read_back(entries, storage, granularity) / one_for_zero(second)


def _lose_halves(entries: Array, storage: str, granularity: str) -> Array:
    """(B,H,S,D): the subnormal code of 1/2 is lost: what is nearest to it becomes 0 or 1."""
    codes, scale = quantise_entries(entries, storage, granularity)
    whole = np.rint(np.abs(entries / one_for_zero(scale)))
    codes = np.where(np.abs(codes) == 0.5, np.copysign(whole, codes), codes)
    return codes.astype(entries.dtype) * scale


_MX8 = {"query": "mxfp8", "key": "mxfp8"}
_MX4 = {"key": "mxfp4", "value": "mxfp4"}
_NV4 = {"key": "nvfp4", "value": "nvfp4"}


def _block_format_fault(
        name: str, story: str, reach: str, store: Store, formats: Mapping[str, str], *names: str) -> Fault:
    """A fault of a kernel that stores some arrays of those that it declares in another way."""
    words = {**{f"stored_{array}": text for array, text in formats.items()}, "reason": "it quantises inside"}
    make = staged(restore=storing(store, formats, *names))
    return Fault(f"inside_{name}", Stage.PRECISION, story, reach, make, words=words)


def _power_scale_faults() -> Iterator[Fault]:
    """Mistakes with scales that are powers of two."""
    yield _block_format_fault(
        "mx_exponent_low",
        "The largest entry is divided by half of its scale, and clipped.", "any entries",
        _lower_exponent, _MX8, "key")
    yield _block_format_fault(
        "mx_values_exponent_low",
        "The largest value is divided by half of its scale, and clipped.",
        "any entries", _lower_exponent, _MX4, "value")
    yield _block_format_fault(
        "mx_scale_of_block_before",
        "Keys are read back by the scale of the block of features before.",
        "D > 32, blocks that differ in size", _read_by_scale(_take_block_before), _MX8, "key")
    yield _block_format_fault(
        "mx_tail_unscaled",
        "A last block of features that is not full is read back without its scale.",
        "D that is no multiple of 32", _read_by_scale(_leave_tail_unscaled(32)), _MX8, "query")
    yield _block_format_fault(
        "mx_scale_dropped",
        "Codes of the values are used without their scale.", "any entries",
        _read_by_scale(np.ones_like), _MX4, "value")


def _second_scale_faults() -> Iterator[Fault]:
    """Mistakes with scales that have a second one."""
    yield _block_format_fault(
        "nvfp4_without_second_scale",
        "Scales are E4M3 without a second one, and underflow or are clipped.",
        "entries below 2^-8, or above 2688", _without_second, _NV4, "key", "value")
    yield _block_format_fault(
        "nvfp4_second_scale_of_first_head",
        "The second scale of the first head is for all.",
        "heads that differ in size, more key/value heads than one", _second_of_first_head, _NV4, "value")
    yield _block_format_fault(
        "nvfp4_second_scale_left_out", "Values are read back without their second scale.",
        "any entries", _second_left_out, _NV4, "value")
    yield _block_format_fault(
        "nvfp4_scale_of_block_before",
        "Values are read back by the scale of the block of features before.",
        "Dv > 16, blocks that differ in size", _read_by_scale(_take_block_before), _NV4, "value")
    yield _block_format_fault(
        "nvfp4_without_halves", "The subnormal code of E2M1 is not made.",
        "entries below a 12th of the largest", _lose_halves, _NV4, "value")


INSIDE_BLOCK_FAULTS = (*_power_scale_faults(), *_second_scale_faults())
"""Wrong ones. Each declares what it says that it stores."""
