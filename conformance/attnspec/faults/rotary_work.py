"""A rotary embedding in stages, each of which a fault replaces by a wrong one."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.core.rotary import DEFAULT_BASE
from attnspec.faults.work import wide_dtype
from attnspec.problems.problem import Array

Rotate = Callable[..., Array]


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """A call taken in: x (B,H,T,D) in the dtype of the computation, positions (B,T), and what else it was handed.

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
        """The type of the computation."""
        return self.x.dtype.type


Stage = Callable[[Rotation], Array]


def frequency(work: Rotation) -> Array:
    """(R,): base^(-2i/r)."""
    exponent = np.arange(0, work.width, 2).astype(work.real) / work.real(work.width)
    return work.real(1) / work.real(work.base) ** exponent


def places(work: Rotation) -> Array:
    """(B,T): the place of each token."""
    return work.positions.astype(work.real)


def halves_of(width: int, *, interleaved: bool) -> tuple[slice, slice]:
    """Where the first and the second feature of each pair stand."""
    return (slice(0, width, 2), slice(1, width, 2)) if interleaved else (slice(width // 2), slice(width // 2, width))


def paired(work: Rotation) -> tuple[slice, slice]:
    """Where the first and the second feature of each pair stand, as the call says."""
    return halves_of(work.width, interleaved=work.interleaved)


def angles(work: Rotation, places: Array, frequency: Array) -> Array:  # noqa: ARG001  (the stage's signature)
    """(B,T,R): the products of places (B,T) and frequencies (R,)."""
    return places[..., None] * frequency


def turn(first: Array, second: Array, angle: Array) -> tuple[Array, Array]:
    """Both features of each pair (B,H,T,R), turned by its angle (B,1,T,R)."""
    return (first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle))


def taken_in(x: Array, positions: Array, base: float, rotary_width: int | None, interleaved: bool) -> Rotation:
    """The call in the dtype of the computation; x (B,H,T,D), positions (B,T)."""
    width = x.shape[-1] if rotary_width is None else rotary_width
    return Rotation(x.astype(wide_dtype(x.dtype)), positions, base, width, interleaved, x.dtype)


def staged_rotation(*, take: Callable[[Rotation], Rotation] = lambda work: work, frequency: Stage = frequency,
                    places: Stage = places, angles: Callable[[Rotation, Array, Array], Array] = angles,
                    paired: Callable[[Rotation], tuple[slice, slice]] = paired,
                    turn: Callable[[Array, Array, Array], tuple[Array, Array]] = turn) -> Callable[[], Rotate]:
    """Makes a rotary embedding of these stages, each sound unless it is given."""
    def rotate(x: Array, positions: Array, *, base: float = DEFAULT_BASE, rotary_width: int | None = None,
               interleaved: bool = False) -> Array:
        """An answer (B,H,T,D) to x (B,H,T,D) and positions (B,T)."""
        work = take(taken_in(x, positions, base, rotary_width, interleaved))
        angle = angles(work, places(work), frequency(work))[:, None]
        output, places_of = work.x.copy(), paired(work)
        first, second = (work.x[..., at] for at in places_of)
        turned = turn(first, second, angle)
        for at, values in zip(places_of, turned, strict=True):
            output[..., at] = values
        return output.astype(work.io)
    return lambda: rotate
