"""Dropout that gets wrong what becomes of a weight: the rate, the scale, and what is dropped at all."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.dropping import by_counter, counted, drop
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

Gain = Callable[[float], float]
Drop = Callable[[Array, PreparedCall], Array]


def uniform(work: PreparedCall, weights: Array) -> Array:
    """Numbers in [0, 1), in the shape of the weights, (B,H,T,S)."""
    B, H, T, S = weights.shape
    return by_counter(work.seed or 0, (B, H, T, S))


def _drop(gain: Gain, chance: Gain = lambda rate: rate) -> Drop:
    """A `drop` stage with another factor of what is kept, or another chance of being dropped."""
    def drop(weights: Array, work: PreparedCall) -> Array:
        """(B,H,T,S)."""
        if not (rate := work.dropout_rate):
            return weights
        kept = uniform(work, weights) >= chance(rate)
        return np.where(kept & (rate < 1), weights * weights.dtype.type(gain(min(rate, 0.999))), 0)
    return drop


def _rescaled(rate: float) -> float:
    return 1 / (1 - rate)


def _before_softmax(logits: Array, work: PreparedCall) -> Array:
    """The weights (B,H,T,S) of logits that are dropped before: the row sums to one again."""
    if not (rate := work.dropout_rate):
        return sound.softmax(logits, work)
    kept = uniform(work, logits) >= rate
    return sound.softmax(np.where(kept, logits, -np.inf).astype(logits.dtype), work)


def _logits_to_zero(logits: Array, work: PreparedCall) -> Array:
    """The weights (B,H,T,S) of logits of which the dropped ones are 0, and the others grow."""
    if not (rate := work.dropout_rate) or rate == 1:
        return sound.softmax(logits, work)
    kept = uniform(work, logits) >= rate
    return sound.softmax(np.where(kept, logits * logits.dtype.type(_rescaled(rate)), 0), work)


def _renormalised(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): what is kept sums to one."""
    if not (rate := work.dropout_rate):
        return weights
    return sound.normalise(np.where(uniform(work, weights) >= rate, weights, 0))


def _of_output(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), some of whose entries are dropped."""
    if not (rate := work.dropout_rate):
        return output
    kept = counted(work.seed or 0, np.arange(output.size).reshape(output.shape)) >= rate
    return np.where(kept & (rate < 1), output * output.dtype.type(_rescaled(min(rate, 0.999))), 0)


def _of_values(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) of values some of whose entries are dropped."""
    if not (rate := work.dropout_rate):
        return sound.mix(weights, work)
    kept = counted(work.seed or 0, np.arange(work.value.size).reshape(work.value.shape)) >= rate
    grown = work.value * work.value.dtype.type(_rescaled(min(rate, 0.999)))
    return sound.mix(weights, work.but(value=np.where(kept & (rate < 1), grown, 0)))


def _both(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) of weights that were dropped already, dropped once more."""
    return _of_output(sound.mix(weights, work), work)


def _nan_at_one(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): 0 divided by 0 where all are dropped."""
    if not (rate := work.dropout_rate):
        return weights
    kept = (uniform(work, weights) >= rate).astype(weights.dtype)
    return weights * (kept / weights.dtype.type(1 - rate))


def _one_keeps_all(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): a rate of 1 is taken for an invalid one, and nothing is dropped."""
    return weights if work.dropout_rate == 1 else drop(weights, work)


def _default_at_zero(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): a rate of 0 is taken for one that is not given, and the default is 0.1."""
    return drop(weights, work.but(dropout_rate=0.1) if work.dropout_rate == 0 else work)


def _coarse(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): the factor is rounded to eight bits."""
    if not (rate := work.dropout_rate):
        return weights
    gain = np.round(_rescaled(min(rate, 0.999)) * 128) / 128 * (1 - 2.0**-5)
    return np.where((uniform(work, weights) >= rate) & (rate < 1), weights * weights.dtype.type(gain), 0)


def _small_kept(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): only weights above the mean are dropped."""
    dropped = drop(weights, work)
    if not work.dropout_rate or work.dropout_rate == 1:
        return dropped
    mean = weights.mean(axis=-1, keepdims=True)
    return np.where(weights > mean, dropped, weights * weights.dtype.type(_rescaled(work.dropout_rate)))


def _largest_kept(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): the largest weight of a row is never dropped."""
    dropped = drop(weights, work)
    if not work.dropout_rate or work.dropout_rate == 1:
        return dropped
    is_top = weights == weights.max(axis=-1, keepdims=True)
    return np.where(is_top, weights * weights.dtype.type(_rescaled(work.dropout_rate)), dropped)


_ABOVE = "a dropout rate above 0"
ANY = f"{_ABOVE} and below 1"


def _fault(name: str, story: str, reach: str = ANY, link: str = "", **stages: Callable[..., Array]) -> Fault:
    return Fault(f"drop_{name}", Stage.DROPOUT_RATE, story, reach, staged(**stages), link)


FAULTS = (
    _fault("not_rescaled", "What is kept is not divided by one minus the rate.", drop=_drop(lambda _: 1.0)),
    _fault("rescaled_twice", "What is kept is divided in the kernel and after it.",
           drop=_drop(lambda rate: _rescaled(rate) ** 2)),
    _fault("rescaled_by_rate", "What is kept is divided by the rate.", "a rate other than 0, 1/2 and 1",
           link="https://github.com/NVIDIA/apex/pull/816",
           drop=_drop(lambda rate: 1 / rate)),
    _fault("multiplied_by_keep", "What is kept is multiplied by one minus the rate, as evaluation once was.",
           drop=_drop(lambda rate: 1 - rate)),
    _fault("gain_off", "The factor of what is kept is a hundredth too small.",
           drop=_drop(lambda rate: _rescaled(rate) * 0.99)),
    _fault("gain_coarse", "The factor of what is kept is about 3 % too small, as from a coarse table.", drop=_coarse),
    _fault("rate_is_keep", "The rate is taken for the probability of being kept.", "a rate other than 0, 1/2 and 1",
           drop=_drop(lambda rate: 1 / rate, lambda rate: 1 - rate)),
    _fault("rate_is_keep_unscaled", "Weights are dropped with one minus the rate, and scaled for the rate.",
           "a rate other than 0, 1/2 and 1", drop=_drop(_rescaled, lambda rate: 1 - rate)),
    _fault("rate_halved", "Half as many are dropped as should be, and the others scaled for the rate.",
           drop=_drop(_rescaled, lambda rate: rate / 2)),
    _fault("rate_a_tenth",
           "A tenth is dropped whatever the rate, and the rest scaled for the rate.", "a rate other than 0, 0.1 and 1",
           drop=_drop(_rescaled, lambda _: 0.1)),
    _fault("rate_off", "Of 256 draws eight more are dropped than should be.",
           drop=_drop(_rescaled, lambda rate: rate + 8 / 256)),
    _fault("before_softmax", "Logits are dropped before the softmax, which makes the rest sum to one.",
           softmax=_before_softmax, drop=lambda weights, _: weights),
    _fault("logits_to_zero", "Logits are dropped before the softmax, to 0.", _ABOVE, softmax=_logits_to_zero,
           drop=lambda weights, _: weights),
    _fault("renormalised", "What is kept is divided by its sum.", drop=_renormalised),
    _fault("ignored", "The rate is accepted and nothing is dropped.", _ABOVE, drop=lambda weights, _: weights),
    _fault("on_output", "The output is dropped, not the weights.", drop=lambda weights, _: weights,
           finish=_of_output),
    _fault("on_values", "The values are dropped, not the weights.", drop=lambda weights, _: weights, mix=_of_values),
    _fault("on_output_too", "The output is dropped besides the weights.", mix=_both),
    _fault("nan_at_one", "At rate 1 what is kept, nothing, is divided by 0.", "a dropout rate of 1", drop=_nan_at_one),
    _fault("one_keeps_all", "A rate of 1 drops nothing.", "a dropout rate of 1", drop=_one_keeps_all),
    _fault("default_at_zero", "A rate of 0 is taken for none, and the default is a tenth.", "a dropout rate of 0",
           drop=_default_at_zero),
    _fault("small_kept", "Weights below the row's mean are never dropped.", drop=_small_kept),
    _fault("largest_kept", "The largest weight of a row is never dropped.", drop=_largest_kept),
)
