"""Right ways to turn pairs of features that differ in arithmetic, and what they declare."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from attnspec.core.declaration import Declaration, Limits, within_form
from attnspec.core.nouns import DType, Kind
from attnspec.core.rotary import DEFAULT_BASE, FARTHEST, PROFILE, ROTARY
from attnspec.faults import rotary_work as stage
from attnspec.faults.rotary_work import Rotate, Rotation, staged_rotation, taken_in
from attnspec.faults.work import wide_dtype
from attnspec.problems.problem import Array

Turned = Callable[[Rotation], Array]


def _whole(turned: Turned) -> Callable[[], Rotate]:
    """Makes a rotary embedding of what turns the features that are to be turned (B,H,T,2R); the others are kept."""
    def rotate(x: Array, positions: Array, *, base: float = DEFAULT_BASE, rotary_width: int | None = None,
               interleaved: bool = False) -> Array:
        """An answer (B,H,T,D) to x (B,H,T,D) and positions (B,T)."""
        work = taken_in(x, positions, base, rotary_width, interleaved)
        return np.concatenate([turned(work).astype(x.dtype), x[..., work.width:]], axis=-1)
    return lambda: rotate


def _angle(work: Rotation) -> Array:
    """(B,1,T,R)."""
    return stage.angles(work, stage.places(work), stage.frequency(work))[:, None]


def _complex(work: Rotation) -> Array:
    """(B,H,T,2R): each pair is a complex number, multiplied by one of norm 1."""
    first, second = (work.x[..., at] for at in stage.paired(work))
    turned = (first + 1j * second).astype(np.result_type(work.real, np.complex64)) * np.exp(1j * _angle(work))
    return _join_pairs(work, np.real(turned), np.imag(turned))


def _join_pairs(work: Rotation, first: Array, second: Array) -> Array:
    """(B,H,T,2R): both features of each pair (B,H,T,R) in their places, by stacking or one half behind the other."""
    if work.interleaved:
        return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], work.width)
    return np.concatenate([first, second], axis=-1)


def _rotate_half(work: Rotation) -> Array:
    """(B,H,T,2R): x·cos + rotate_half(x)·sin, with every cosine and sine there twice."""
    first, second = (work.x[..., at] for at in stage.paired(work))
    angle = _join_pairs(work, *(_angle(work),) * 2)
    return _join_pairs(work, first, second) * np.cos(angle) + _join_pairs(work, -second, first) * np.sin(angle)


def _cached(work: Rotation, *, through: Callable[[Array, Rotation], Array]) -> Array:
    """(B,H,T,2R): cos and sin are read from a table of all places up to the farthest one that is asked for."""
    first, second = (work.x[..., at] for at in stage.paired(work))
    most = int(work.positions.max(initial=0)) + 1
    assert most <= FARTHEST + 1
    angle = np.arange(most, dtype=work.real)[:, None] * stage.frequency(work)
    cos, sin = (through(function(angle), work)[work.positions][:, None] for function in (np.cos, np.sin))
    return _join_pairs(work, through(through(first * cos, work) - through(second * sin, work), work),
                       through(through(second * cos, work) + through(first * sin, work), work))


def _stored(array: Array, work: Rotation) -> Array:
    """An array of any shape, rounded to the dtype of the input."""
    return array.astype(work.io).astype(work.real)


def _as_it_is(array: Array, work: Rotation) -> Array:  # noqa: ARG001  (as `_stored`)
    """An array of any shape."""
    return array


def _by_logarithm(work: Rotation) -> Array:
    """(R,): the frequencies as an exponential of a product with the base's logarithm."""
    exponent = np.arange(0, work.width, 2).astype(work.real) * -(np.log(work.real(work.base)) / work.real(work.width))
    return np.exp(exponent)


def _in_float64(work: Rotation) -> Array:
    """(B,H,T,2R), in float64 throughout."""
    wide = Rotation(work.x.astype(np.float64), work.positions, work.base, work.width, work.interleaved, work.io)
    return _rotate_half(wide).astype(wide_dtype(work.io))


FORMULATIONS: tuple[tuple[str, str, Callable[[], Rotate], str], ...] = (
    ("rotary_staged", "a rotary embedding, pair by pair", staged_rotation(), "G0"),
    ("rotary_complex", "a rotary embedding by complex multiplication", _whole(_complex), "G0"),
    ("rotary_rotate_half", "a rotary embedding as x·cos + rotate_half(x)·sin", _whole(_rotate_half), "G0"),
    ("rotary_cached", "a rotary embedding from tables of cos and sin", _whole(partial(_cached, through=_as_it_is)),
     "G0"),
    ("rotary_by_logarithm", "a rotary embedding whose frequencies are an exponential",
     staged_rotation(frequency=_by_logarithm), "G0"),
    ("rotary_float64_inside", "a rotary embedding in float64, rounded once", _whole(_in_float64), "G0"),
    ("rotary_eager", "a rotary embedding with tables and products in the dtype of x",
     _whole(partial(_cached, through=_stored)), "G3"),
)
"""Name, meaning, what makes it, and the grade in half dtypes."""


def declaration_of_rotary(grade: str) -> Declaration:
    """All keywords of a rotary embedding, and the grade in half dtypes."""
    return Declaration(
        kind=Kind.ROTARY, keywords=frozenset(ROTARY), limits=within_form(Limits()), claims=(PROFILE,),
        precision={dtype: {"grade": grade, "systematic": "accumulator"} for dtype in (DType.FLOAT16, DType.BFLOAT16)})
