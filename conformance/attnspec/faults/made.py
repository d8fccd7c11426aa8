"""Functions that are sound, but not in a form that a framework makes: compiled, exported, mapped, recomputed."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.keyword_nouns import GRAD
from attnspec.core.made_variants import MadeForm
from attnspec.core.nouns import DType
from attnspec.faults import backward_edits as edit
from attnspec.faults.backward import Reread, as_backward
from attnspec.faults.fault import Fault, Stage, WrongForm
from attnspec.faults.staged import Attend, around, attention, staged
from attnspec.faults.work import Answer, HandedOver
from attnspec.problems.problem import Array

_TRACED_LENGTH = 4
"""The number of keys with which a function was traced, once and for all."""


def _traced(array: Array) -> Array:
    """What stood there, of any shape, when the function was traced: it is traced on other numbers."""
    return np.roll(array, 1)


def _of_first(array: Array) -> Array:
    """The first entry of the batch, for all of it: (B,…) -> (B,…)."""
    return np.broadcast_to(array[:1], array.shape)


def _with_mask(change: Callable[[Array], Array]) -> Callable[[], Attend]:
    """A maker of functions that see another mask (B,H,T,S), where they are given one."""
    def answer(call: HandedOver) -> Answer:
        return attention(call if call.mask is None else call.but(mask=change(np.asarray(call.mask))))

    return around(answer)


def _at_first_length(call: HandedOver) -> Answer:
    """The program is one for a number of keys, and has no place for more."""
    seen = np.arange(call.key.shape[2]) < _TRACED_LENGTH
    mask = np.ones(1, bool) if call.mask is None else np.asarray(call.mask)
    return attention(call.but(mask=np.broadcast_to(mask & seen, (*call.query.shape[:3], call.key.shape[2]))))


def _branch_of_trace(call: HandedOver) -> Answer:
    """The causal flag is looked at where there are more than a few keys; at the export there were few."""
    return attention(call.but(causal=False) if call.key.shape[2] >= _TRACED_LENGTH else call)


def _value_of_trace(call: HandedOver) -> Answer:
    return attention(call.but(value=_traced(call.value)))


def _scale_of_trace(call: HandedOver) -> Answer:
    return attention(call.but(scale=None))


def _first_entry(call: HandedOver) -> Answer:
    return attention(call.but(key=_of_first(call.key), value=_of_first(call.value)))


def _mask_of_first(mask: Array) -> Array:
    """The first entry's mask (B,H,T,S) for all; one of fewer axes has no batch."""
    return _of_first(mask) if mask.ndim == len("BHTS") else mask


def _backward(form: MadeForm, reread: Reread) -> WrongForm:
    """The forward pass is sound in this form, too."""
    return WrongForm(form, staged(), lambda: as_backward(reread=reread))


def _dropped_anew(call: HandedOver) -> HandedOver:
    """Every other key is dropped, and the rest doubled, as another draw would have it."""
    kept = (np.arange(call.value.shape[2]) % 2 == 0)[:, None]
    return call.but(value=(call.value * kept * 2).astype(call.value.dtype))


_LSG = "https://github.com/ccdv-ai/convert_checkpoint_to_lsg/issues/15"

FAULTS: tuple[Fault, ...] = (
    Fault("compiled_for_first_shape", Stage.STATE,
          "The compiled program is that of the first shape, and is used for the next one.",
          "more than 4 keys, compiled", staged(), link="https://github.com/pytorch/pytorch/issues/148545",
          made=WrongForm("compile", around(_at_first_length))),
    Fault("compiled_value_kept", Stage.STATE,
          "The values are a constant of the compiled program: those with which it was traced.", "compiled", staged(),
          made=WrongForm("compile", around(_value_of_trace))),
    Fault("compiled_mask_dropped", Stage.MASK,
          "A branch for the case that a compiler traces the function leaves the mask out.", "a mask, compiled",
          staged(), made=WrongForm("compile", staged(masked=lambda work: np.ones(work.shape, bool)))),
    Fault("compiled_backward_unmasked", GRAD, "The compiled backward pass does not see the mask.",
          "gradients of a mask, compiled", staged(), backward=as_backward,
          made=_backward("compile", edit.without("mask"))),
    Fault("exported_branch_taken_once", Stage.CAUSAL, "A branch on the number of keys is taken once, at the export.",
          "causal with 4 keys and more, exported", staged(), link=_LSG,
          made=WrongForm("export", around(_branch_of_trace))),
    Fault("exported_mask_constant", Stage.MASK,
          "The mask is a constant of the exported program: that with which it was traced.", "a mask, exported",
          staged(), made=WrongForm("export", _with_mask(_traced))),
    Fault("onnx_scale_constant", Stage.SCALE, "The exported operator has no scale, so that its default is used.",
          "an explicit scale, in ONNX", staged(), made=WrongForm("onnx", around(_scale_of_trace)),
          equivalents=dict.fromkeys((DType.FLOAT16, DType.BFLOAT16), "ONNX is asked at float32 and float64 alone")),
    Fault("mapped_first_entry", Stage.HEADS,
          "The rule for the mapped axis gives all entries the keys and values of the first.", "B > 1, mapped",
          staged(), made=WrongForm("vmap", around(_first_entry))),
    Fault("mapped_mask_of_first", Stage.MASK,
          "The mask is not mapped along with the queries: all entries have that of the first.",
          "masks that differ along the batch, mapped", staged(),
          link="https://github.com/pytorch/pytorch/issues/151561",
          made=WrongForm("vmap", _with_mask(_mask_of_first))),
    Fault("recomputed_dropout_drawn_anew", GRAD,
          "The recomputation drops the values of every second key and doubles the others; the forward pass keeps all.",
          "gradients, recomputed", staged(), link="https://github.com/allenai/OLMo-core/pull/828", backward=as_backward,
          made=_backward("checkpoint", _dropped_anew)),
    Fault("recomputed_without_mask", GRAD,
          "The mask is not handed over to what is computed again.", "gradients of a mask, recomputed", staged(),
          backward=as_backward, made=_backward("checkpoint", edit.without("mask"))),
)
