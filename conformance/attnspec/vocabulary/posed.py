"""How a problem is put to a subject: in one call or in parts, after other calls or afresh, and how answers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

import numpy as np

from attnspec.problems.problem import Array, LayerProblem, Problem

AnyProblem = Problem | LayerProblem
P = TypeVar("P", Problem, LayerProblem)
Axis = Literal["B", "H", "T", "S", "Dv"]


class NoClaim(Exception):  # noqa: N818  (no error: such cases are counted)
    """A case says nothing: a transform is not exact in the dtype, or there is nothing to draw from."""


@dataclass(frozen=True, slots=True, eq=False)
class Back:
    """Along `axis`, entry i of what is reported is entry `index[i]` of what was observed."""

    axis: Axis
    index: Array

    def read(self, array: Array, axes: tuple[str, ...]) -> Array:
        """The observed array in the order that the relation compares."""
        return np.take(array, self.index, axis=axes.index(self.axis)) if self.axis in axes else array


@dataclass(frozen=True, slots=True, eq=False)
class Posed(Generic[P]):
    """Problems that belong together: concatenated along `join` (or summed), read back through `back`.

    `before` are put to the subject first, and their answers thrown away; `fresh` forbids remembered answers;
    `key` names the run: recipe and transforms; `conventions` are those that the subject is held to.
    """

    parts: tuple[P, ...]
    join: Axis | Literal["sum"] = "B"
    back: tuple[Back, ...] = ()
    before: tuple[P, ...] = ()
    fresh: bool = False
    key: str = ""
    conventions: Mapping[str, str] = field(default_factory=dict)

    @property
    def one(self) -> P:
        """The problem, where there is one."""
        (problem,) = self.parts
        return problem

    def but(self, **changes: object) -> Posed[P]:
        """Every part with some fields replaced."""
        return replace(self, parts=tuple(part.but(**changes) for part in self.parts))

    def reading(self, axis: Axis, index: Array) -> Posed[P]:
        """The same, read back through one more reordering (the last one made is undone first)."""
        return replace(self, back=(Back(axis, np.asarray(index)), *self.back))

    def named(self, key: str) -> Posed[P]:
        """The same, remembered under a key."""
        return replace(self, key=key)
