"""Functions that are sound, but not in a form that a framework makes of them: compiled, exported, mapped, recomputed."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.made_variants import MadeForm
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
    """A maker of functions that see another mask, where they are given one."""
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


def _lengths_of_first(call: HandedOver) -> Answer:
    return attention(call if call.key_lengths is None else call.but(key_lengths=_of_first(call.key_lengths)))


def _mask_of_first(mask: Array) -> Array:
    return _of_first(mask) if mask.ndim == len("BHTS") else mask


def _fault(form: MadeForm, name: str, stage: Stage, story: str, reach: str, make: Callable[[], Attend],
           link: str = "") -> Fault:
    return Fault(name, stage, story, reach, staged(), link, made=WrongForm(form, make))


def _of_gradients(form: MadeForm, name: str, story: str, reach: str, reread: Reread, link: str = "") -> Fault:
    """The forward pass is sound in every form, and so is the backward pass of the plain function."""
    return Fault(name, Stage.GRAD_OUTPUT, story, reach, staged(), link, backward=as_backward,
                 made=WrongForm(form, staged(), lambda: as_backward(reread=reread)))


def _dropped_anew(call: HandedOver) -> HandedOver:
    """Every other key is dropped, and the rest doubled, as another draw would have it."""
    kept = (np.arange(call.value.shape[2]) % 2 == 0)[:, None]
    return call.but(value=(call.value * kept * 2).astype(call.value.dtype))


_LSG = "https://github.com/ccdv-ai/convert_checkpoint_to_lsg/issues/15"

FAULTS: tuple[Fault, ...] = (
    _fault("compile", "compiled_for_first_shape", Stage.STATE,
           "The compiled program is that of the first shape, and is used for the next one.",
           "a second shape, compiled", around(_at_first_length), link="https://github.com/pytorch/pytorch/issues/148545"),
    _fault("compile", "compiled_value_kept", Stage.STATE,
           "The values are a constant of the compiled program: those with which it was traced.", "compiled",
           around(_value_of_trace)),
    _fault("compile", "compiled_mask_dropped", Stage.MASK,
           "A branch for the case that a compiler traces the function leaves the mask out.", "a mask, compiled",
           staged(masked=lambda work: np.ones(work.shape, bool))),
    _of_gradients("compile", "compiled_backward_unmasked", "The compiled backward pass does not see the mask.",
                  "gradients of a mask, compiled", edit.without("mask")),
    _fault("export", "exported_branch_taken_once", Stage.CAUSAL,
           "A branch on the number of keys is taken once, at the export.", "causal with more keys, exported",
           around(_branch_of_trace), link=_LSG),
    _fault("export", "exported_mask_constant", Stage.MASK,
           "The mask is a constant of the exported program: that with which it was traced.", "a mask, exported",
           _with_mask(_traced)),
    _fault("onnx", "onnx_scale_constant", Stage.SCALE,
           "The exported operator has no scale, so that its default is used.", "an explicit scale, in ONNX",
           around(_scale_of_trace)),
    _fault("vmap", "mapped_first_entry", Stage.HEADS,
           "The rule for the mapped axis gives all entries the keys and values of the first.", "B > 1, mapped",
           around(_first_entry)),
    _fault("vmap", "mapped_mask_of_first", Stage.MASK,
           "The mask is not mapped along with the queries: all entries have that of the first.",
           "masks that differ along the batch, mapped", _with_mask(_mask_of_first),
           link="https://github.com/pytorch/pytorch/issues/151561"),
    _fault("vmap", "mapped_lengths_of_first", Stage.KEY_LENGTHS,
           "The lengths are not mapped along with the queries.", "lengths that differ, mapped",
           around(_lengths_of_first)),
    _of_gradients("checkpoint", "recomputed_dropout_drawn_anew",
                  "What is computed again for the backward pass has another draw of dropout.",
                  "gradients, recomputed", _dropped_anew,
                  link="https://github.com/allenai/OLMo-core/pull/828"),
    _of_gradients("checkpoint", "recomputed_without_mask",
                  "The mask is not handed over to what is computed again.", "gradients of a mask, recomputed",
                  edit.without("mask")),
)
