"""Exponentials that are approximated or cut, logits that are bounded, weights that are pruned."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array


def _grown_by(change: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax whose exponentials are changed, given logits (B,H,T,S) less their row's maximum."""
    def softmax(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
        """Weights (B,H,T,S) by the changed exponential; hidden keys weigh nothing."""
        top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), np.finfo(logits.dtype).min)
        return sound.normalise(np.where(np.isneginf(logits), 0, change(logits - top)).astype(logits.dtype))
    return softmax


def _polynomial(lowered: Array) -> Array:
    """Exponentials (B,H,T,S) as 2^x by a cubic in the fraction: some 1e-4 off."""
    power = np.maximum(lowered * np.log2(np.e), -126)  # the least exponent of a normal float32
    whole = np.floor(power)
    part = power - whole
    return np.exp2(whole) * (1 + part * (0.6951 + part * (0.2276 + part * 0.0773)))


def _bits(lowered: Array) -> Array:
    """Schraudolph's trick, (B,H,T,S): the exponent field is filled with a linear function, up to some 4 % off."""
    power = np.maximum(lowered * np.log2(np.e), -126)
    whole = np.floor(power)
    return np.exp2(whole) * (1 + power - whole)


def _floored(lowered: Array) -> Array:
    """Exponentials (B,H,T,S), 0 where the argument is below -20."""
    return np.where(lowered < -20, 0, np.exp(lowered))


def _clamped(lowered: Array) -> Array:
    """Exponentials (B,H,T,S), none below that of -20."""
    return np.exp(np.maximum(lowered, -20))


def _oscillating(lowered: Array) -> Array:
    """Exponentials (B,H,T,S) that are up to 1e-4 off, to both sides."""
    return np.exp(lowered) * (1 + 1e-4 * np.sin(100 * lowered))


def _top(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): all but the 32 largest of a row are dropped."""
    if work.shape[3] <= 32:
        return weights
    least = np.sort(weights, axis=-1)[..., -32, None]
    return sound.normalise(np.where(weights < least, 0, weights))


def _without_small(weights: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Weights (B,H,T,S), those below 1e-3 set to 0."""
    return np.where(weights < 1e-3, 0, weights)


def _clipped(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) clipped to ±50."""
    return np.clip(sound.logits(work, factor), -50, 50)


def _squared(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) squared, their signs kept."""
    dots = sound.logits(work, factor)
    return dots * np.abs(dots)


def _cosine(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of queries and keys that are normalised first."""
    query, key = (array / np.maximum(np.linalg.norm(array, axis=-1, keepdims=True), 1e-12)
                  for array in (work.query, work.key))
    return sound.logits(work.but(query=query, key=key), factor)


def _distance(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) as minus half the squared distance: the keys' norms are left in."""
    return sound.logits(work, factor) - factor * (work.key ** 2).sum(axis=-1)[:, :, None, :] / 2


def _ties(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): among equal largest logits only the first counts."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    is_later = (logits == top) & (np.cumsum(logits == top, axis=-1) > 1)
    return sound.softmax(np.where(is_later, -np.inf, logits).astype(logits.dtype), work)


FAULTS = (
    Fault("exp_polynomial", Stage.SOFTMAX, "exp by a cubic on the fraction, for speed.", "logits that differ",
          staged(softmax=_grown_by(_polynomial))),
    Fault("exp_bit_trick", Stage.SOFTMAX, "exp by writing into the exponent field, for speed.", "logits that differ",
          staged(softmax=_grown_by(_bits))),
    Fault("exp_oscillating", Stage.SOFTMAX, "exp from a small table without interpolation, off by up to ±1e-4.",
          "logits that differ", staged(softmax=_grown_by(_oscillating))),
    Fault("exp_zero_below_20", Stage.SOFTMAX, "Exponentials of less than -20 are flushed to zero.",
          "weights below 2e-9 on large values, or read out", staged(softmax=_grown_by(_floored))),
    Fault("exp_clamped_at_20", Stage.SOFTMAX, "The argument of exp is clamped at -20, so small weights stay up.",
          "weights below 2e-9 on large values, or read out", staged(softmax=_grown_by(_clamped))),
    Fault("weights_top_32", Stage.WEIGHTS, "Only the 32 largest weights are kept.", "more than 32 visible keys",
          staged(weigh=_top)),
    Fault("weights_small_dropped", Stage.WEIGHTS, "Weights below 1e-3 are skipped to save work.",
          "rows with small weights", staged(weigh=_without_small)),
    Fault("logits_clipped_50", Stage.LOGITS, "Logits are clipped to ±50 against overflow.", "logits beyond 50",
          staged(logits=_clipped)),
    Fault("logits_squared", Stage.LOGITS, "A sharpening power is left on.", "logits other than 0 and ±1",
          staged(logits=_squared)),
    Fault("logits_cosine", Stage.LOGITS,
          "Queries and keys are normalised (QK-norm), although the caller did not ask for it.",
          "queries or keys whose norm is not 1", staged(logits=_cosine)),
    Fault("logits_distance", Stage.LOGITS, "Squared distances are used instead of dot products.",
          "keys of different norms", staged(logits=_distance)),
    Fault("softmax_first_of_ties", Stage.SOFTMAX, "Of keys with the same largest logit, only the first counts.",
          "two keys with the same largest logit", staged(softmax=_ties)),
)
