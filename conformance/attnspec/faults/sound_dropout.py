"""Correct attentions with dropout that compute, and draw, in different ways."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.faults import staged as stage
from attnspec.faults.dropping import by_counter, by_generator, by_tile, counted, drop_by
from attnspec.faults.staged import Attend, around, staged
from attnspec.faults.work import Answer, HandedOver, PreparedCall, wide_dtype
from attnspec.problems.problem import Array

BLOCK = 16


def in_blocks(call: HandedOver) -> Answer:
    """Everything in the dtype of the computation."""
    return _in_one_pass(call, wide_dtype(call.query.dtype))


def fused(call: HandedOver) -> Answer:
    """Weights meet the values in the dtype of the inputs."""
    return _in_one_pass(call, call.query.dtype)


def _in_one_pass(call: HandedOver, stored: np.dtype[Any]) -> Answer:
    """One pass over blocks of 16 keys, each of which draws its own numbers; the sum is of all weights, and the output
    is multiplied by 1/(1 - rate) at the end.
    """
    work = stage.prepare(call)
    hidden = stage.hide(stage.add_bias(stage.bend(stage.logits(work, stage.scale(work)), work), work), work)
    value, rate = np.where(np.asarray(work.visible.any(axis=-2))[..., None], work.value, 0), call.dropout_rate or 0.0
    B, H, T, S = work.shape
    top = np.full((B, H, T, 1), -np.inf, hidden.dtype)
    total, output = np.zeros_like(top), np.zeros((B, H, T, value.shape[-1]), hidden.dtype)
    for first in range(0, S, BLOCK):
        block = slice(first, min(S, first + BLOCK))
        higher = np.maximum(top, hidden[..., block].max(axis=-1, keepdims=True))
        shift = np.where(np.isneginf(higher), 0, higher)
        grown, factor = np.exp(hidden[..., block] - shift), np.exp(top - shift)
        total = total * factor + grown.sum(axis=-1, keepdims=True)
        kept = (grown * _kept_weights(work, block, rate)).astype(stored).astype(grown.dtype)
        output = output * factor + kept @ value[:, :, block]
        top = higher
    output = output / np.where(total == 0, 1, total) * output.dtype.type(1 / (1 - rate) if rate < 1 else 0)
    return output.astype(call.query.dtype)


def _kept_weights(work: PreparedCall, keys: slice, rate: float) -> Array:
    """(B,H,T,·): which weights of these keys are kept, by their places."""
    B, H, T, S = work.shape
    if not rate:
        return np.ones((), bool)
    rows = np.arange(B * H * T).reshape(B, H, T, 1)
    return counted(work.seed or 0, rows * S + np.arange(S)[keys]) >= rate


FORMULATIONS: tuple[tuple[str, str, Callable[[], Attend], str], ...] = (
    ("dropout_by_counter", "each weight has its place as the counter of a generator", staged(drop=drop_by(by_counter)),
     "G0"),
    ("dropout_by_generator", "one generator of NumPy draws a number for each weight",
     staged(drop=drop_by(by_generator)), "G0"),
    ("dropout_by_tile", "each tile of 16 queries and 16 keys has a generator of its own",
     staged(drop=drop_by(by_tile)), "G0"),
    ("dropout_in_blocks", "one pass over blocks of 16 keys, rescaled at the end", around(in_blocks), "G0"),
    ("dropout_fused", "the same, with weights in the dtype of the inputs where they meet the values", around(fused),
     "G1"),
)
"""Name, meaning, maker and grade of each."""
