"""The arrays in a tree: of what came back from a call, and of parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.forms.form import Path

_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in a tree. shape: None where nobody knows.  names: what it and its holders are called where used."""

    path: Path
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()


def arrays_in(tree: object, deepest: int = _DEEPEST) -> Iterator[tuple[Path, object]]:
    """Every array with its path; what is neither an array nor holds any is passed over."""
    if hasattr(tree, "shape") and hasattr(tree, "dtype"):
        yield (), tree
    elif deepest:
        for step, part in _parts(tree):
            yield from (((step, *path), array) for path, array in arrays_in(part, deepest - 1))


def _parts(tree: object) -> Iterator[tuple[str, object]]:
    if isinstance(tree, Mapping):
        yield from ((f'["{name}"]', part) for name, part in tree.items())
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        yield from ((f".{name}", getattr(tree, name)) for name in tree._fields)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        yield from ((f".{field.name}", getattr(tree, field.name, None)) for field in dataclasses.fields(tree))
    elif isinstance(tree, Sequence) and not isinstance(tree, str | bytes):
        yield from ((f"[{at}]", part) for at, part in enumerate(tree))


def holders_in(tree: object, at: Path = ()) -> Iterator[tuple[Path, type]]:
    """The class of everything in a tree whose parts are attributes, by path."""
    for step, part in _parts(tree):
        if step.startswith("."):
            yield at, type(tree)
        yield from holders_in(part, (*at, step))


def leaves_in(tree: object) -> tuple[Leaf, ...]:
    """Its leaves with their shapes."""
    return tuple(Leaf(path, shape_of(array)) for path, array in arrays_in(tree))


def shape_of(array: object) -> tuple[int, ...]:
    """Of an array of any framework."""
    return tuple(int(length) for length in getattr(array, "shape", ()))
