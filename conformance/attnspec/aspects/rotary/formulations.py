"""Right rotary embeddings: one of exchangeable stages, and others that differ in form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attnspec.core.forms import DEFAULT_BASE, FARTHEST
from attnspec.core.nouns import Kind
from attnspec.faults.fault import SoundFormulation
from attnspec.faults.staged_forms import Rotate
from attnspec.faults.staged_work import wide_dtype
from attnspec.problems.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """The arguments of a rotary embedding: x (B,H,T,D) in the dtype of the computation, positions
    (B,T), and the rest.

    width: how many features are turned.  io: the dtype of the input.
    """

    x: Array
    positions: Array
    base: float
    width: int
    interleaved: bool
    io: np.dtype[Any]

    @property
    def real(self) -> type[np.floating]:
        """The number type of the computation."""
        return self.x.dtype.type


RotationStage = Callable[[Rotation], Array]


def frequency(work: Rotation) -> Array:
    """The frequency of each pair, (R,): base^(-2i/r)."""
    exponent = np.arange(0, work.width, 2).astype(work.real) / work.real(work.width)
    return work.real(1) / work.real(work.base) ** exponent


def places(work: Rotation) -> Array:
    """The place of each token, (B,T)."""
    return work.positions.astype(work.real)


def halves_of(width: int, *, interleaved: bool) -> tuple[slice, slice]:
    """Where the first and the second feature of each pair stand."""
    if interleaved:
        return slice(0, width, 2), slice(1, width, 2)
    return slice(width // 2), slice(width // 2, width)


def pair_slices(work: Rotation) -> tuple[slice, slice]:
    """Where the first and the second feature of each pair stand, as the call says."""
    return halves_of(work.width, interleaved=work.interleaved)


def pair_features(work: Rotation) -> tuple[Array, Array]:
    """The first and the second feature of each pair, (B,H,T,R) twice, as the call says."""
    first, second = pair_slices(work)
    return work.x[..., first], work.x[..., second]


def angles(work: Rotation, places: Array, frequency: Array) -> Array:  # noqa: ARG001  (wrong angles need the call)
    """The angle of each pair, (B,T,R): the products of places (B,T) and frequencies (R,)."""
    return places[..., None] * frequency


def turn(first: Array, second: Array, angle: Array) -> tuple[Array, Array]:
    """Both features of each pair (B,H,T,R), turned by its angle (B,1,T,R)."""
    cos, sin = np.cos(angle), np.sin(angle)
    return first * cos - second * sin, second * cos + first * sin


def take_rotation(x: Array, positions: Array, base: float, rotary_width: int | None, interleaved: bool) -> Rotation:
    """Take x (B,H,T,D) into the dtype of the computation; positions (B,T)."""
    width = x.shape[-1] if rotary_width is None else rotary_width
    return Rotation(x.astype(wide_dtype(x.dtype)), positions, base, width, interleaved, x.dtype)


def staged_rotation(*, take: Callable[[Rotation], Rotation] = lambda work: work,
                    frequency: RotationStage = frequency, places: RotationStage = places,
                    angles: Callable[[Rotation, Array, Array], Array] = angles,
                    paired: Callable[[Rotation], tuple[slice, slice]] = pair_slices,
                    turn: Callable[[Array, Array, Array], tuple[Array, Array]] = turn) -> Callable[[], Rotate]:
    """Make rotary embeddings of these stages; a stage that is left out is right."""
    def rotate(x: Array, positions: Array, *, base: float = DEFAULT_BASE, rotary_width: int | None = None,
               interleaved: bool = False) -> Array:
        """Rotate x (B,H,T,D) by positions (B,T) -> (B,H,T,D)."""
        work = take(take_rotation(x, positions, base, rotary_width, interleaved))
        angle = angles(work, places(work), frequency(work))[:, None]
        first, second = paired(work)
        output = work.x.copy()
        output[..., first], output[..., second] = turn(work.x[..., first], work.x[..., second], angle)
        return output.astype(work.io)
    return lambda: rotate


def _whole(turn_features: RotationStage) -> Callable[[], Rotate]:
    """Make rotary embeddings that turn the first features, as (B,H,T,2R), and keep the others."""
    def rotate(x: Array, positions: Array, *, base: float = DEFAULT_BASE, rotary_width: int | None = None,
               interleaved: bool = False) -> Array:
        """Rotate x (B,H,T,D) by positions (B,T) -> (B,H,T,D)."""
        work = take_rotation(x, positions, base, rotary_width, interleaved)
        return np.concatenate([turn_features(work).astype(x.dtype), x[..., work.width:]], axis=-1)
    return lambda: rotate


def _angle(work: Rotation) -> Array:
    """The angle of each pair, (B,1,T,R)."""
    return angles(work, places(work), frequency(work))[:, None]


def _multiply_complex(work: Rotation) -> Array:
    """(B,H,T,2R): each pair is a complex number, multiplied by one of norm 1."""
    first, second = pair_features(work)
    turned = (first + 1j * second).astype(np.result_type(work.real, np.complex64)) * np.exp(1j * _angle(work))
    return _join_pairs(work, np.real(turned), np.imag(turned))


def _join_pairs(work: Rotation, first: Array, second: Array) -> Array:
    """(B,H,T,2R): both features of each pair (B,H,T,R), side by side or in two halves."""
    if work.interleaved:
        return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], work.width)
    return np.concatenate([first, second], axis=-1)


def _rotate_half(work: Rotation) -> Array:
    """(B,H,T,2R): x·cos + rotate_half(x)·sin, with every cosine and sine there twice."""
    first, second = pair_features(work)
    angle = _join_pairs(work, *(_angle(work),) * 2)
    return _join_pairs(work, first, second) * np.cos(angle) + _join_pairs(work, -second, first) * np.sin(angle)


def _rotate_by_table(work: Rotation, *, store: Callable[[Array, Rotation], Array]) -> Array:
    """(B,H,T,2R): cos and sin are read from a table of all places up to the farthest one that is
    asked for. store: an intermediate result of any shape as it is stored.
    """
    first, second = pair_features(work)
    most = int(work.positions.max(initial=0)) + 1
    assert most <= FARTHEST + 1
    angle = np.arange(most, dtype=work.real)[:, None] * frequency(work)
    cos = store(np.cos(angle), work)[work.positions][:, None]
    sin = store(np.sin(angle), work)[work.positions][:, None]
    turned_first = store(first * cos, work) - store(second * sin, work)
    turned_second = store(second * cos, work) + store(first * sin, work)
    return _join_pairs(work, store(turned_first, work), store(turned_second, work))


def _round_to_input(array: Array, work: Rotation) -> Array:
    """An array of any shape, rounded to the dtype of the input."""
    return array.astype(work.io).astype(work.real)


def _by_logarithm(work: Rotation) -> Array:
    """(R,): the frequencies as an exponential of a product with the base's logarithm."""
    step = np.log(work.real(work.base)) / work.real(work.width)
    return np.exp(np.arange(0, work.width, 2).astype(work.real) * -step)


def _in_float64(work: Rotation) -> Array:
    """(B,H,T,2R), in float64 throughout."""
    wide = replace(work, x=work.x.astype(np.float64))
    return _rotate_half(wide).astype(wide_dtype(work.io))


def _formulation(name: str, meaning: str, make: Callable[[], Rotate], grade: str = "G0") -> SoundFormulation:
    return SoundFormulation(name, meaning, make, grade=grade, kind=Kind.ROTARY)


FORMULATIONS: tuple[SoundFormulation, ...] = (
    _formulation("rotary_staged", "a rotary embedding, pair by pair", staged_rotation()),
    _formulation("rotary_complex", "a rotary embedding by complex multiplication", _whole(_multiply_complex)),
    _formulation("rotary_rotate_half", "a rotary embedding as x·cos + rotate_half(x)·sin", _whole(_rotate_half)),
    _formulation("rotary_cached", "a rotary embedding from tables of cos and sin",
                 _whole(partial(_rotate_by_table, store=lambda array, _: array))),
    _formulation("rotary_by_logarithm", "a rotary embedding whose frequencies are an exponential",
                 staged_rotation(frequency=_by_logarithm)),
    _formulation("rotary_float64_inside", "a rotary embedding in float64, rounded once", _whole(_in_float64)),
    _formulation("rotary_eager", "a rotary embedding with tables and products in the dtype of x",
                 _whole(partial(_rotate_by_table, store=_round_to_input)), grade="G3"),
)
