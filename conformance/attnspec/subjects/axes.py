"""A function that is written for fewer axes than (B, H, T, D): noticed with small inputs, before it is judged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnspec.ground.errors import TargetError
from attnspec.ground.nouns import DType, Kind
from attnspec.problems.problem import Array, Problem, Sizes, numpy_dtype
from attnspec.subjects.call import Call, SubjectRaised, UnusableAnswer, perform
from attnspec.subjects.signature import SOMEWHERE
from attnspec.subjects.subject import Subject

_SIZES = (Sizes(B=2, H=4, Hkv=4, T=16, S=16, D=8, Dv=8), Sizes(B=1, H=1, Hkv=1, T=16, S=16, D=8, Dv=8))
_FEWER = {(2, 16, 8): ("(B, T, D)", "`torch.bmm` or `key.transpose(0, 2, 1)`"), (16, 8): ("(T, D)", "`key.T`")}
"""Shapes of all three inputs and of the output: their axes, and how such code turns the key."""


def check_axes(subject: Subject, *, target: str = SOMEWHERE) -> None:
    """Raise TargetError for a function that answers on (T, D) or (B, T, D) alone. `target`: for `attnspec init`.

    Nothing is concluded of one that answers on four axes, or that raises on fewer axes too.
    """
    if subject.declaration.kind is Kind.LAYER:
        return
    said = [_four(subject, dtype, sizes, causal=causal) for dtype in subject.declaration.dtypes for sizes in _SIZES
            for causal in (False, True)]
    complaints = [each for each in said if each is not None]
    taken = next(_taken(subject), None) if complaints and all(complaints) else None
    if taken:
        axes, turned = taken
        place = subject.source if subject.source.file else None
        raise TargetError(
            f"{subject.id} takes arrays with the axes {axes}. attnspec gives it four, (B, H, T, D), and then "
            f"{complaints[0]}. Have a wrapper written (attnspec init {target}), or let the function take any leading "
            f"axes: write `query @ key.swapaxes(-1, -2)`, not {turned}, and sum over axis -1.", where=place)


def _four(subject: Subject, dtype: DType, sizes: Sizes, *, causal: bool) -> str | None:
    """What goes wrong on four axes; empty where nothing does, None where that cannot be asked."""
    keys = _array((sizes.B, sizes.H, sizes.S, sizes.D), dtype)
    problem = Problem(dtype, keys, keys, keys, causal=causal)
    if subject.refuses(problem):
        return None
    try:
        subject.answer(problem)
    except SubjectRaised as raised:
        return f"it raises {raised.summary}"
    except UnusableAnswer as unusable:
        return unusable.sentence[0].lower() + unusable.sentence[1:].rstrip(".")
    return ""


def _taken(subject: Subject) -> Iterator[tuple[str, str]]:
    """The fewer axes on which the function answers in the right shape."""
    causal = {"causal": True} if subject.declaration.limits.causal_only else {}
    for dtype in subject.declaration.dtypes:
        for shape, told in _FEWER.items():
            inputs = {name: _array(shape, dtype) for name in ("query", "key", "value")}
            try:
                perform(subject.function, subject.lift, Call(inputs, causal, dtype, (shape,)))
            except (SubjectRaised, UnusableAnswer):
                continue
            yield told


def _array(shape: tuple[int, ...], dtype: DType) -> Array:
    """Small whole numbers."""
    return (np.arange(np.prod(shape)).reshape(shape) % 3 - 1).astype(numpy_dtype(dtype))
