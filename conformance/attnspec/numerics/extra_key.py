"""One more key of each head, which an aspect may ask for: its logit is given, its value is zero, every query sees it.

Definition and bounds know nothing of what it is for: it stands behind the other keys.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnspec.numerics.aspect import extra_key
from attnspec.numerics.operands import Magnitudes, Operands
from attnspec.problems.problem import Array, Problem, joined


def with_extra_key(operands: Operands, extra: Array) -> Operands:
    """The operands with one more key for each head: a key and a value of zeros, whose logit is given, `extra` (H,).

    A logit of -inf is a key that nobody sees.
    """
    B, H, T, S = operands.shape
    is_there = np.broadcast_to(np.isfinite(extra)[:, None, None], (B, H, T, 1))
    bias = np.zeros((B, H, T, S + 1))
    bias[..., :S] = 0.0 if operands.bias is None else operands.bias
    bias[..., S] = np.where(np.isfinite(extra), extra, 0.0)[:, None]
    sizes, held = (_one_more(each) for each in (operands.sizes, operands.held))
    return replace(
        operands, key=_with_zeros(operands.key), value=_with_zeros(operands.value), bias=bias,
        visible=np.concatenate([operands.seen(), is_there], axis=-1), counts=operands.counts + is_there[..., 0],
        sizes=sizes, held=held, held_key=_with_zeros(operands.held_key), has_sink=True,
        only_sink=operands.bias is None, reach=None if operands.reach is None else _with_zero(operands.reach))


def _one_more(sizes: Magnitudes) -> Magnitudes:
    return replace(sizes, key=_with_zeros(sizes.key), value=_with_zeros(sizes.value),
                   key_norms=_with_zeros(sizes.key_norms), key_sums=_with_zeros(sizes.key_sums))


def _with_zero(array: Array) -> Array:
    """(B,H,T,S), with a zero behind each row."""
    return np.pad(array, [(0, 0)] * 3 + [(0, 1)])


def _with_zeros(array: Array) -> Array:
    """(B,H,S,D), (B,H,S,Dv) or (B,H,S), with one more along S that is zero."""
    return np.pad(array, [(0, int(axis == 2)) for axis in range(array.ndim)])


def extra_over_lse(problem: Problem) -> float | None:
    """How far the logit of an extra key lies above the log-sum-exp of its row at most, whether or not keys are visible;
    None without one.

    Query (B,H,T,D) and key (B,Hkv,S,D) make logits (B,H,T,S); the extra key's (H,).
    """
    extra = extra_key(problem)
    if extra is None:
        return None
    whole = joined(problem)
    key = np.repeat(whole.key.astype(np.float64), whole.query.shape[1] // whole.key.shape[1], axis=1)
    scale = problem.scale if problem.scale is not None else problem.query.shape[-1] ** -0.5
    logits = whole.query.astype(np.float64) @ key.swapaxes(-1, -2) * scale
    return float((np.asarray(extra, np.float64)[:, None] - np.logaddexp.reduce(logits, axis=-1)).max())
