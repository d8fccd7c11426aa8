"""A bare function's declaration: its attributes, read by the same rules as a manifest."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from attnspec.ground.declaration import Declaration
from attnspec.ground.errors import Place, TargetError
from attnspec.law.fields import Fields
from attnspec.law.yaml_lines import Located, LocatedList
from attnspec.subjects.declared import DECLARED, LIMITS, read_declaration
from attnspec.subjects.signature import keywords_of, kind_of, place_of

_KNOWN = tuple(name for name in (*DECLARED, *LIMITS) if name not in ("kind", "limits"))
_MISTYPED = 0.8  # how alike an attribute and a known one must be to be taken for a slip of the pen


def declaration_of(function: Callable[..., object], name: str) -> Declaration:
    """What signature and attributes say: `attend.dtypes = ["float32"]`, `attend.ties_value_width = True`, …

    Raises TargetError for a value that makes no sense and for an attribute that looks like a known one mistyped.
    """
    place = place_of(function)
    keywords = keywords_of(function, name)
    _refuse_mistyped(function, name, place)
    fields = Fields(_located(_given(function), place), f"the attributes of {name}", TargetError)
    return replace(read_declaration(fields), keywords=keywords, kind=kind_of(keywords, function, name))


def _given(function: Callable[..., object]) -> Mapping[str, object]:
    """The declared attributes, limits under their own key, as a manifest has them."""
    given = {name: getattr(function, name) for name in _KNOWN if hasattr(function, name)}
    limits = {name: given.pop(name) for name in LIMITS if name in given}
    return {**given, "limits": limits}


def _located(value: object, place: Place) -> Located:
    located = _at(value, place)
    assert isinstance(located, Located)
    return located


def _at(value: object, place: Place) -> object:
    """The value as if it had been read from a file, at this place."""
    if isinstance(value, Mapping):
        mapping = Located(place)
        mapping.update({str(_plain(key)): _at(inner, place) for key, inner in value.items()})
        return mapping
    if isinstance(value, list | tuple | set | frozenset):
        sequence = LocatedList(place)
        sequence.extend(_at(inner, place) for inner in value)
        return sequence
    return _plain(value)


def _plain(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else value


def _refuse_mistyped(function: Callable[..., object], name: str, place: Place) -> None:
    for attribute in _own_attributes(function):
        near = difflib.get_close_matches(attribute, _KNOWN, n=1, cutoff=_MISTYPED)
        if near and attribute not in _KNOWN:
            raise TargetError(f"{name} has an attribute {attribute!r}; did you mean {near[0]!r}? "
                              f"What can be declared: {', '.join(_KNOWN)}.", where=place)


def _own_attributes(function: Callable[..., object]) -> Iterable[str]:
    """The attributes that somebody set on a function. An object has attributes of its own, not ours to read."""
    return vars(function) if hasattr(function, "__code__") else ()
