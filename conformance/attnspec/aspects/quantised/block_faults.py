"""These faults confuse the scales of blocks, or lose that of a last one which is not full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import numpy as np

from attnspec.aspects.quantised.arrays import NAMES
from attnspec.aspects.quantised.keyword import POOL
from attnspec.aspects.quantised.stage import Restore, look_up_transposed, scale_codes
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Outside, SoundFormulation, panel_recipe
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import Array, Sizes

Change = Callable[[Array, int], Array]

TOKENS, FEATURES = 2, 3
"""The axes of (B,H,S,D) along which blocks lie."""

LEAST = 2
"""The shortest block: a single token or feature is none."""


def block_length(scale: Array, axis: int) -> int:
    """Count the neighbours that share each of the scales (B,H,S,D) along an axis."""
    moved = np.moveaxis(scale, axis, 0)
    differs = (moved[1:] != moved[:-1]).any(axis=(1, 2, 3))
    return int(differs.argmax()) + 1 if differs.any() else scale.shape[axis]


def _in_blocks(axis: int, change: Change, *names: str) -> Restore:
    """A `restore` stage that changes scales (B,H,S,D) which blocks along an axis share."""
    def restore(work: PreparedCall) -> PreparedCall:
        for name in names:
            scale = getattr(work, f"{name}_scale")
            if scale is not None:
                whole = np.broadcast_to(scale, getattr(work, name).shape)
                length = block_length(whole, axis)
                if LEAST <= length < whole.shape[axis]:
                    work = work.but(**{f"{name}_scale": change(whole, length)})
        return sound.restore(work)
    return restore


def _of_block_before(axis: int) -> Change:
    """Each block but the first has the scale of the one before it; of scales (B,H,S,D)."""
    return lambda scale, length: scale.take(np.maximum(np.arange(scale.shape[axis]) - length, 0), axis)


def _of_first_block(axis: int) -> Change:
    """The first block's scale serves all; of scales (B,H,S,D)."""
    return lambda scale, _: np.broadcast_to(scale.take([0], axis), scale.shape)


def _of_longer_blocks(axis: int) -> Change:
    """Blocks are taken to be twice as long; of scales (B,H,S,D)."""
    return lambda scale, length: scale.take(np.arange(scale.shape[axis]) // (2 * length) * (2 * length), axis)


def _of_shorter_blocks(axis: int) -> Change:
    """Blocks are taken to be half as long, and the last scale serves the rest; (B,H,S,D)."""
    def change(scale: Array, length: int) -> Array:
        size = scale.shape[axis]
        return scale.take(np.minimum(np.arange(size) // max(1, length // 2) * length, size - 1), axis)
    return change


def _tail_unscaled(axis: int) -> Change:
    """A last block that is not full has no scale; of scales (B,H,S,D)."""
    def change(scale: Array, length: int) -> Array:
        size = scale.shape[axis]
        is_tail = np.expand_dims(np.arange(size) >= size // length * length, tuple(range(1, scale.ndim - axis)))
        return np.where(is_tail, 1, scale)
    return change


def _tail_of_block_before(axis: int) -> Change:
    """A last block that is not full has the scale of the one before; of scales (B,H,S,D)."""
    def change(scale: Array, length: int) -> Array:
        size = scale.shape[axis]
        return scale.take(np.minimum(np.arange(size), size // length * length - 1), axis)
    return change


def _borders_shifted(axis: int) -> Change:
    """Each block begins one entry late; of scales (B,H,S,D)."""
    return lambda scale, _: scale.take(np.maximum(np.arange(scale.shape[axis]) - 1, 0), axis)


def _swizzle_scales(scale: Array, _: int) -> Array:
    """(B,H,S,D): the scales of 16 tokens are read four by four, in the order of another unit."""
    S = scale.shape[TOKENS]
    places = np.arange(S)
    whole = S // 16 * 16
    places[:whole] = places[:whole].reshape(-1, 4, 4).swapaxes(1, 2).ravel()
    return scale.take(places, TOKENS)


_FEATURE_BLOCKS = "{} scales of blocks of features"
_TOKEN_BLOCKS = "{} scales of blocks of tokens"
_OF_BLOCKS: Mapping[str, tuple[str, str, int, Change]] = {
    "of_feature_block_before": ("Each block of features has the {} scale of the block before.", _FEATURE_BLOCKS,
                                FEATURES, _of_block_before(FEATURES)),
    "of_token_block_before": ("Each block of tokens has the {} scale of the block before.", _TOKEN_BLOCKS, TOKENS,
                              _of_block_before(TOKENS)),
    "of_first_token_block": ("The {} scale of the first block of tokens serves all.", _TOKEN_BLOCKS, TOKENS,
                             _of_first_block(TOKENS)),
    "of_feature_blocks_twice_as_long": ("Blocks of features are taken to be twice as long for the {} scale.",
                                        _FEATURE_BLOCKS, FEATURES, _of_longer_blocks(FEATURES)),
    "of_token_blocks_twice_as_long": ("Blocks of tokens are taken to be twice as long for the {} scale.", _TOKEN_BLOCKS,
                                      TOKENS, _of_longer_blocks(TOKENS)),
    "of_feature_blocks_half_as_long": ("Blocks of features are taken to be half as long for the {} scale.",
                                       _FEATURE_BLOCKS, FEATURES, _of_shorter_blocks(FEATURES)),
    "lost_in_feature_tail": ("A last block of features that is not full has no {} scale.",
                             f"{_FEATURE_BLOCKS}, the last one not full", FEATURES, _tail_unscaled(FEATURES)),
    "lost_in_token_tail": ("A last block of tokens that is not full has no {} scale.",
                           f"{_TOKEN_BLOCKS}, the last one not full", TOKENS, _tail_unscaled(TOKENS)),
    "of_full_feature_block": ("A last block of features that is not full has the {} scale of the last full one.",
                              f"{_FEATURE_BLOCKS}, the last one not full", FEATURES, _tail_of_block_before(FEATURES)),
    "of_full_token_block": ("A last block of tokens that is not full has the {} scale of the last full one.",
                            f"{_TOKEN_BLOCKS}, the last one not full", TOKENS, _tail_of_block_before(TOKENS)),
    "one_feature_late": ("Each block of features begins one feature late for the {} scale.", _FEATURE_BLOCKS, FEATURES,
                         _borders_shifted(FEATURES)),
    "one_token_late": ("Each block of tokens begins one token late for the {} scale.", _TOKEN_BLOCKS, TOKENS,
                       _borders_shifted(TOKENS)),
    "swizzled": ("The {} scales of 16 tokens are read in the order of another layout.",
                 f"{_FEATURE_BLOCKS}, 16 tokens and more", FEATURES, _swizzle_scales),
    "transposed": ("Token and feature change places where the {} scale is looked up.", _FEATURE_BLOCKS, FEATURES,
                   look_up_transposed),
}
"""By name: story, reach, the axis of the blocks, and what becomes of the scales; {} is the array."""

_LINKS: Mapping[str, str] = {
    "key_scale_lost_in_feature_tail": "https://github.com/pytorch/FBGEMM/issues/6159",
    "value_scale_swizzled": "https://github.com/vllm-project/vllm/pull/55976",
}


def _of_blocks() -> Iterator[Fault]:
    """Each mistake with blocks of keys, of values and of both; of queries, some."""
    for keyword, array in NAMES.items():
        for name, (story, reach, axis, change) in _OF_BLOCKS.items():
            if array != "query" or name.endswith(("block_before", "_tail")):
                yield Fault(f"{keyword}_{name}", keyword, story.format(array), reach.format(array),
                            staged(restore=_in_blocks(axis, change, array)), link=_LINKS.get(f"{keyword}_{name}", ""))
    for name, (story, reach, axis, change) in _OF_BLOCKS.items():  # where one helper dequantises both
        yield Fault(f"both_scales_{name}", "value_scale", story.format("key and value"), reach.format("key or value"),
                    staged(restore=_in_blocks(axis, change, "key", "value")))


BLOCK_FAULTS = tuple(_of_blocks())

BLOCK_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "scales of blocks": {
        "pytorch/FBGEMM/issues/6159": "key_scale_lost_in_feature_tail value_scale_lost_in_feature_tail",
        "vllm-project/vllm/pull/55976": "value_scale_swizzled",
    },
}

_CUT = Sizes(1, 4, 2, 19, 40, 40, 24)
_CUT_QUERIES = Sizes(1, 2, 2, 40, 5, 40, 4)
BLOCK_PANEL = tuple(
    panel_recipe(sizes, features, seed=180, **dict.fromkeys(features.split(), f"{storage}/{granularity}/odd"))  # type: ignore[arg-type]  # by keyword
    for storage in ("int8", "float8_e4m3fn", "int4")
    for granularity in ("block(16)", "tokens(16)", "channel_tokens(16)")
    for sizes, features in ((_CUT, "key_scale"), (_CUT, "value_scale"), (_CUT_QUERIES, "query_scale"),
                            (_CUT, "key_scale value_scale")))


def _by_blocks(work: PreparedCall) -> PreparedCall:
    """Key codes stay where scales are of blocks of features: their products are scaled."""
    scale, zero = work.key_scale, work.key_zero
    if scale is None or zero is not None or len(_borders(scale)) <= LEAST:
        return sound.restore(work)
    return sound.restore(work.but(key_scale=None)).but(key_scale=scale)


def _borders(scale: Array) -> list[int]:
    """Where blocks of features begin, and their end, of scales (B,H,S,D)."""
    differs = (scale[..., 1:] != scale[..., :-1]).any(axis=(0, 1, 2))
    return [0, *(int(at) + 1 for at in np.flatnonzero(differs)), scale.shape[-1]]


def _logits_by_blocks(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S): the products of each block of features, times its scale, added up."""
    if work.key_scale is None:
        return sound.logits(work, factor)
    H, dots = work.query.shape[1], np.zeros(work.shape, work.query.dtype)
    for start, stop in pairwise(_borders(work.key_scale)):
        scale = sound.group(work.key_scale[..., start], H)[:, :, None].astype(dots.dtype)
        dots = dots + (work.query[..., start:stop] @ work.key[..., start:stop].swapaxes(-1, -2)) * scale
    return dots * dots.dtype.type(factor)


def _tokens_by_blocks(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,Dv): 16 keys at a time, whose values are dequantised when their turn comes."""
    if work.value_scale is None:
        return sound.mix(weights, work)
    shape = (*work.value_scale.shape[:2], *work.value.shape[2:])
    scale = sound.group(np.broadcast_to(work.value_scale, shape), weights.shape[1])
    total = np.zeros((*weights.shape[:3], work.value.shape[-1]), weights.dtype)
    for start in range(0, weights.shape[-1], 16):
        block = slice(start, start + 16)
        total = total + weights[..., block] @ scale_codes(work.value[:, :, block], scale[:, :, block])
    return total


def _keep_value_codes(work: PreparedCall) -> PreparedCall:
    """Value codes stay codes, where they are finite and have no zero point."""
    if work.value_scale is None or work.value_zero is not None or not np.isfinite(work.value).all():
        return sound.restore(work)
    whole = np.broadcast_to(work.value_scale, work.value.shape)
    return sound.restore(work.but(value_scale=None)).but(value_scale=whole)


SOUND_BLOCKS = (
    SoundFormulation("scales_by_feature_blocks", "products of each block of features are scaled, then added up",
                     staged(restore=_by_blocks, logits=_logits_by_blocks), POOL),
    SoundFormulation("values_by_token_blocks", "values are dequantised 16 keys at a time",
                     staged(restore=_keep_value_codes, mix=_tokens_by_blocks), POOL),
)
