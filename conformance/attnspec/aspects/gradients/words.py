"""Words of the spec language about gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from attnspec.core.nouns import Kind
from attnspec.problems.problem import heads_last, with_gaps
from attnspec.record.outcome import Measured
from attnspec.subjects.call import PARAMS
from attnspec.subjects.subject import SubjectAnswer
from attnspec.vocabulary.observables import verdict, with_parameters
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Posed, Scene
from attnspec.vocabulary.signature import ORIGINAL, RunName
from attnspec.vocabulary.transforms.axes import Attention


def forget_grad(posed: Attention) -> Attention:
    """Ask for the output alone."""
    return replace(posed.but(grad_output=None), fresh=True)


def expand_grad(posed: Attention) -> Attention:
    """Hand over the output's gradient as one number in memory, at stride 0, as the gradient of a sum is."""
    grad = posed.one.grad_output
    if grad is None or grad.tobytes() != np.broadcast_to(grad[:1, :1, :1, :1], grad.shape).tobytes():
        raise NoClaim("the entries of the output's gradient are not all one number")
    return replace(posed.but(grad_output=np.broadcast_to(grad[:1, :1, :1, :1].copy(), grad.shape)), fresh=True)


def lay_out_grad(posed: Attention, *, layout: Literal["strided", "transposed"]) -> Attention:
    """Hand over the output's gradient, and nothing else, in another memory layout, as `lay_out`
    does.

    No claim where an array of such sizes can lie in one way only.
    """
    grad = posed.one.grad_output
    if grad is None:
        raise NoClaim("the output has no gradient")
    laid = {"strided": with_gaps, "transposed": heads_last}[layout](grad)
    if laid.flags.c_contiguous:
        raise NoClaim("an array of these sizes has one layout")
    return replace(posed.but(grad_output=laid), fresh=True)


def share_bias(posed: Attention, *, over: Literal["batch", "heads", "queries"]) -> Attention:
    """Give all entries of an axis the bias of the first, with that axis of length 1, to be broadcast."""
    bias = posed.one.bias
    if bias is None:
        raise NoClaim("there is no bias")
    axis = {"batch": 0, "heads": 1, "queries": 2}[over]
    return posed.but(bias=np.ascontiguousarray(np.take(bias, [0], axis=axis)))


def grad_of(posed: Attention, *, entries: Literal["first", "others"]) -> Attention:
    """Leave the output a gradient in the first entry of the batch alone, or in all others alone."""
    grad = posed.one.grad_output
    if grad is None or len(grad) == 1:
        raise NoClaim("the batch has one entry, or the output has no gradient")
    kept = (np.arange(len(grad)) == 0) == (entries == "first")
    return posed.but(grad_output=np.where(kept[:, None, None, None], grad, np.zeros((), grad.dtype)))


def scale_grad(posed: Attention, *, by: float) -> Attention:
    """Multiply the output's gradient by a power of two, as a loss is scaled; no claim where that is not exact."""
    grad = posed.one.grad_output
    if grad is None:
        raise NoClaim("the output has no gradient")
    factor = grad.dtype.type(by)
    with np.errstate(over="ignore"):  # what overflows is told
        scaled = grad * factor
    if not np.array_equal(scaled / factor, grad):
        raise NoClaim("the output's gradient does not fit its dtype once it is scaled")
    return posed.but(grad_output=scaled)


def gradients_have_input_dtypes(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Each gradient has the dtype of its input."""
    posed, wrong = scene.runs[run], set[str]()
    for part, answer in _parts_with_gradients(scene, posed):
        for name, array in answer.by_input.items():
            if array.dtype != getattr(part, name, part.query).dtype:
                wrong.add(f"{name.removeprefix(f'{PARAMS}.')}: {array.dtype.name}")
    text = "each gradient has the dtype of its input"
    if wrong:
        text = f"gradients that have not the dtype of their input: {', '.join(sorted(wrong))}"
    return verdict("gradients_have_input_dtypes", text, broken=bool(wrong))


def _parts_with_gradients(scene: Scene, posed: Posed[Any]) -> Iterator[tuple[Any, SubjectAnswer]]:
    """Each part with the gradients of its inputs, and with those of parameters.

    A layer's own backward pass may return those of parameters, in the dtype of the query.
    Frameworks give gradients the dtype of what they are of.
    """
    yield from zip(posed.parts, scene.answers(posed), strict=True)
    if scene.subject.declaration.kind is Kind.LAYER and scene.subject.backward:
        try:
            yield from zip(posed.parts, scene.answers(with_parameters(posed)), strict=True)
        except OutsideLimits:  # it returns none
            return


TRANSFORMS = (forget_grad, expand_grad, lay_out_grad, share_bias, grad_of, scale_grad)
RELATIONS = (gradients_have_input_dtypes,)
