"""What a call returned, part by part, where nobody knows yet what it is: arrays in tuples, mappings and objects."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .frames import Entries

DEEPEST = 6
MOST = 1000  # parts that are told
LARGEST = 2**18
"""Bytes of all arrays together that are sent; what does not fit is told by its shape."""

READABLE = frozenset({"float64", "float32", "float16", "bfloat16"})


def parts_of(returned: Any, lift: Any) -> Tuple[Dict[str, Any], List[Entries]]:
    """Its type; of each array in it path, type and shape; and the arrays of floating-point numbers, of any shape."""
    told: List[Dict[str, Any]] = []
    sent: List[Entries] = []
    room = LARGEST
    for path, value in itertools.islice(_arrays(returned, ()), MOST):
        part: Dict[str, Any] = {"path": list(path), "type": type(value).__name__, "shape": _shape(value)}
        entries = _read(value, lift)
        if entries is not None and entries.array.nbytes <= room:
            room -= entries.array.nbytes
            part["array"] = len(sent)
            sent.append(entries)
        told.append(part)
    return {"type": type(returned).__name__, "parts": told}, sent


def _arrays(value: Any, path: Tuple[str, ...]) -> Iterator[Tuple[Tuple[str, ...], Any]]:
    """Every array, of any shape, with its path; what is neither an array nor holds any is passed over."""
    if _has(value, "shape") and _has(value, "dtype"):
        yield path, value
    elif len(path) < DEEPEST:
        for step, part in _inside(value):
            yield from _arrays(part, (*path, step))


def _inside(value: Any) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from (('["{}"]'.format(name), part) for name, part in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((".{}".format(name), getattr(value, name)) for name in value._fields)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((".{}".format(field.name), getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        yield from (("[{}]".format(at), part) for at, part in enumerate(value))


def _has(value: Any, name: str) -> bool:
    """Whether it has the attribute. One that raises anything else than that it is not there is one that is there."""
    try:
        return hasattr(value, name)
    except Exception:  # a parameter of PyTorch whose shape nobody knows before the first call
        return True


def _shape(value: Any) -> Optional[List[int]]:
    """None where it cannot tell."""
    try:
        return [int(length) for length in value.shape]
    except Exception:  # see above; and what has a `shape` of its own that is none
        return None


def _read(value: Any, lift: Any) -> Optional[Entries]:
    """The array's numbers, of any shape; None for what holds none, or cannot be read."""
    try:
        entries: Entries = lift.read(value)
        return Entries(entries.dtype, entries.array.copy()) if entries.dtype in READABLE else None
    except Exception:  # whatever a framework says to that
        return None
