"""Attention as people write it, with one plain mistake in each: no fault of the catalogue, each of a kind that got
through once. TRUTHS says by function what a first line has to contain that names the mistake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TRUTHS = {
    "mask_meets_grouped_scores": r"raises .*where mask is given and Hkv < H and Hkv ≠ B",
    "causal_whatever_is_asked": r"causal_always|causal flag is ignored|always causal",
    "lengths_end_at_the_past": r"right once (key_lengths or past_key|past_key or key_lengths) is left out",
    "last_block_forgotten": r"S is not a multiple of 16|keys after the last whole block are lost",
    "mask_of_the_first_entry": r"mask.*(B ≥ 2|first batch entry)|(B ≥ 2).*mask|mask_of_first_batch",
    "buffer_of_keys": r"raises .*where S (> 128|≥ 129)",
    "scale_of_the_values": r"scale_by_value_width|D ≠ Dv",
    "bottom_right_when_longer": r"causal.*(T ≠ S|T < S|S > T)|(T ≠ S|T < S|S > T).*causal|causal_bottom_right",
}


def attend(query: Array, key: Array, value: Array, *, visible: Array | bool, scale: float | None = None) -> Array:
    """(B,H,T,Dv): what all of them share, and what is right: attention over the visible keys, (B,H,T,S) or its like."""
    B, H, T, D = query.shape
    _, Hkv, S, Dv = value.shape
    wide = np.promote_types(query.dtype, np.float32)
    q, k, v = (each.astype(wide) for each in (query, key, value))
    scores = q.reshape(B, Hkv, H // Hkv, T, D) @ k[:, :, None].swapaxes(-1, -2)
    scores = scores.reshape(B, H, T, S) * wide.type(D**-0.5 if scale is None else scale)
    scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    mixed = weights.reshape(B, Hkv, H // Hkv, T, S) @ v[:, :, None]
    return np.asarray(mixed.reshape(B, H, T, Dv).astype(query.dtype))


def keys_up_to(T: int, S: int, first: int = 0) -> Array:
    """(T,S): the keys up to each query; query 0 stands at key `first`."""
    return np.arange(S) <= np.arange(T)[:, None] + first


def mask_meets_grouped_scores(query: Array, key: Array, value: Array, *, mask: Array | None = None) -> Array:
    """(B,H,T,Dv), where a mask (B,1,T,S) meets scores (B,Hkv,G,T,S) of one more axis: right where B is 1, or no heads
    are grouped.
    """
    B, H, T, _ = query.shape
    Hkv, S = value.shape[1:3]
    visible = np.ones((B, H, T, S), bool)
    if mask is not None:
        visible = visible & mask if Hkv == H else (
            visible.reshape(B, Hkv, H // Hkv, T, S) & mask[:, :1]).reshape(B, H, T, S)
    return attend(query, key, value, visible=visible)


def causal_whatever_is_asked(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:  # noqa: ARG001  (that is the mistake)
    """The flag is never read."""
    return attend(query, key, value, visible=keys_up_to(query.shape[2], key.shape[2]))


def lengths_end_at_the_past(query: Array, key: Array, value: Array, *, key_lengths: Array | None = None,
                            past_key: Array | None = None, past_value: Array | None = None) -> Array:
    """Lengths count the new keys alone, though a past stands before them."""
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        key, value = np.concatenate([past_key, key], axis=2), np.concatenate([past_value, value], axis=2)
    S = key.shape[2]
    visible = np.ones((query.shape[0], 1, 1, S), bool)
    if key_lengths is not None:
        visible = np.arange(S) < np.asarray(key_lengths)[:, None, None, None] - past
    return attend(query, key, value, visible=visible)


def last_block_forgotten(query: Array, key: Array, value: Array, *, scale: float | None = None) -> Array:
    """Whole blocks of 16 keys alone are read."""
    S = key.shape[2]
    visible = np.arange(S) < (S // 16 * 16 if S >= 16 else S)
    return attend(query, key, value, visible=np.asarray(visible), scale=scale)


def mask_of_the_first_entry(query: Array, key: Array, value: Array, *, mask: Array | None = None) -> Array:
    """Every batch entry gets the mask of the first."""
    return attend(query, key, value, visible=True if mask is None else mask[:1])


def buffer_of_keys(query: Array, key: Array, value: Array, *, scale: float | None = None) -> Array:
    """Keys are copied into a buffer of 128."""
    kept = np.zeros((*key.shape[:2], 128, key.shape[3]), key.dtype)
    kept[:, :, : key.shape[2]] = key
    return attend(query, kept[:, :, : key.shape[2]], value, visible=True, scale=scale)


def scale_of_the_values(query: Array, key: Array, value: Array, *, scale: float | None = None) -> Array:
    """The default scale is by the width of the values."""
    return attend(query, key, value, visible=True, scale=value.shape[3]**-0.5 if scale is None else scale)


def bottom_right_when_longer(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """The last query sees all keys, though the diagonal is declared to begin at the first."""
    T, S = query.shape[2], key.shape[2]
    return attend(query, key, value, visible=keys_up_to(T, S, max(0, S - T)) if causal else True)


mask_meets_grouped_scores.mask_axes = "BTS"  # type: ignore[attr-defined]
causal_whatever_is_asked.conventions = {"causal_alignment": "top_left"}  # type: ignore[attr-defined]
bottom_right_when_longer.conventions = {"causal_alignment": "top_left"}  # type: ignore[attr-defined]
