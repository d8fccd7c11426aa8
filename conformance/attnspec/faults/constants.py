"""Hidden keys that are only pushed down by a finite constant, or counted after all; fully hidden rows."""

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

LOWEST_HALF = -65504.0
_EMPTY = "a row that sees no key"
_ATTACK = f"visible logits far below zero, at the constant or below it; or {_EMPTY}"
_HIDDEN = "a hidden key"
_HALF = "https://github.com/google/flax/issues/982"


def _replaced_by(constant: float) -> Callable[[Array, PreparedCall], Array]:
    """A `hide` stage: logits (B,H,T,S), hidden ones replaced by a finite constant."""
    return lambda logits, work: np.where(work.visible, logits, logits.dtype.type(constant))


def _lowered_by(constant: float) -> Callable[[Array, PreparedCall], Array]:
    """A `hide` stage: logits (B,H,T,S), a finite constant added to hidden ones."""
    return lambda logits, work: logits + np.where(work.visible, 0, constant).astype(logits.dtype)


def _multiplied(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) times what is visible: hidden ones become 0."""
    return logits * work.visible


def _added_as_number(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus what is visible as a number: 1 for a visible key, 0 for a hidden one."""
    return logits + work.visible.astype(logits.dtype)


def _unmasked(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Logits (B,H,T,S) with nothing hidden."""
    return logits


def _cut(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), those of hidden keys set to 0 and the others not scaled up."""
    return np.where(work.visible, weights, 0)


def _hidden_counted_as_one(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): hidden keys count as logit 0 in the denominator, and are zeroed after."""
    grown = sound.normalise(sound.exponentials(np.where(work.visible, logits, 0)))
    return np.where(work.visible, grown, 0)


def _overflowing(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the dtype's lowest number, once for the mask and once for the triangle."""
    lowest = np.finfo(logits.dtype).min
    for allowed in (sound.masked(work), sound.past(work)):
        logits = logits + np.where(allowed, 0, lowest).astype(logits.dtype)
    return logits


def over_zero(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Exponentials (B,H,T,S) divided by their row's sum, even where that is 0."""
    grown = sound.exponentials(logits)
    return grown / grown.sum(axis=-1, keepdims=True)


def _uniform_if_hidden(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S); a row without a visible key weighs all keys alike."""
    return np.where(work.visible.any(axis=-1, keepdims=True), weights, 1 / work.shape[3]).astype(weights.dtype)


def _first_key_if_hidden(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S); a row without a visible key takes the first one."""
    is_empty = ~work.visible.any(axis=-1, keepdims=True)
    return np.where(is_empty, np.arange(work.shape[3]) == 0, weights).astype(weights.dtype)


def _leaking(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) times values (B,H,S,Dv) as they are: 0 · NaN of a hidden key is NaN."""
    return weights @ work.value


def _added(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) with -inf added to hidden ones: +inf and NaN among them become NaN."""
    return logits + np.where(work.visible, 0, -np.inf).astype(logits.dtype)


FAULTS = (
    Fault("mask_constant_100", Stage.MASK, "Masked logits are set to -100, which looks low enough.", _ATTACK,
          staged(hide=_replaced_by(-100.0))),
    Fault("mask_constant_1e4", Stage.MASK, "Masked logits are set to -1e4, chosen for float16.", _ATTACK,
          staged(hide=_replaced_by(-1e4)), link=_HALF),
    Fault("mask_constant_1e9", Stage.MASK, "Masked logits are set to -1e9, as in the annotated Transformer.", _ATTACK,
          staged(hide=_replaced_by(-1e9)), link=_HALF),
    Fault("mask_constant_half_lowest", Stage.MASK, "Masked logits are set to float16's lowest number in any dtype.",
          _ATTACK, staged(hide=_replaced_by(LOWEST_HALF))),
    Fault("mask_adds_100", Stage.MASK, "-100 is added to masked logits.",
          f"masked logits about 100 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(-100.0))),
    Fault("mask_adds_1e4", Stage.MASK, "(1 - mask) · -1e4 is added, as in the first BERT.",
          f"masked logits about 1e4 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(-1e4))),
    Fault("mask_adds_1e9", Stage.MASK, "(1 - mask) · -1e9 is added.",
          f"masked logits about 1e9 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(-1e9))),
    Fault("mask_adds_half_lowest", Stage.MASK, "float16's lowest number is added in any dtype.",
          f"masked logits about 65,500 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(LOWEST_HALF))),
    Fault("mask_added_as_number", Stage.MASK, "A boolean mask is added to the logits: True counts as +1.",
          _HIDDEN, staged(hide=_added_as_number),
          link="https://github.com/huggingface/transformers/pull/41443"),
    Fault("mask_multiplied_into_logits", Stage.MASK, "Logits are multiplied by the mask: 0 instead of -inf.",
          _HIDDEN, staged(hide=_multiplied),
          link="https://github.com/HKUSTDial/flash-sparse-attention/issues/146"),
    Fault("mask_after_softmax", Stage.MASK, "The weights are masked after the softmax and not normalised again.",
          _HIDDEN, staged(hide=_unmasked, weigh=_cut)),
    Fault("mask_hidden_counted_as_one", Stage.MASK, "Masked keys stay in the denominator with logit 0.",
          _HIDDEN, staged(softmax=_hidden_counted_as_one)),
    Fault("mask_overflows_twice", Stage.MASK, "The lowest number is added for the mask and again for the triangle.",
          _EMPTY, staged(hide=_overflowing),
          link="https://github.com/NVIDIA-NeMo/Automodel/pull/2658"),
    Fault("hidden_row_nan", Stage.MASK,
          "A fully masked row is divided by its sum, 0, and becomes NaN; zeros are declared.",
          "a fully masked row", staged(softmax=over_zero), link="https://github.com/pytorch/pytorch/issues/103963"),
    Fault("hidden_row_uniform", Stage.MASK, "A fully masked row attends to all keys, while zeros are declared.",
          "a fully masked row", staged(weigh=_uniform_if_hidden), link="https://github.com/NVIDIA/apex/pull/1444"),
    Fault("hidden_row_first_key", Stage.MASK, "A fully masked row attends to the first key, to avoid NaN.",
          "a fully masked row", staged(weigh=_first_key_if_hidden),
          link="https://github.com/huggingface/transformers/issues/32390"),
    Fault("hidden_value_leaks", Stage.MASK, "NaN and infinities in masked values reach the output: 0 · inf is NaN.",
          "NaN or infinity in a masked value", staged(mix=_leaking)),
    Fault("hidden_key_leaks", Stage.MASK, "-inf is added to a logit that is NaN.", "NaN or infinity in a masked key",
          staged(hide=_added)),
)
