"""What a function can take, read off its signature. A parameter is a capability."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from inspect import Parameter
from pathlib import Path
from typing import Any

from attnspec.ground.errors import Place, TargetError, hint
from attnspec.ground.keywords import KEYWORDS
from attnspec.ground.nouns import Kind
from attnspec.law.yaml_lines import shown

_FORM = "attend(query, key, value, *, ...)"
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_STARS = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def keywords_of(function: Callable[..., object], name: str) -> frozenset[str]:
    """The keywords that the function takes beyond query, key and value. Raises TargetError with file and line."""
    parameters = _parameters(function, name)
    inputs, rest = parameters[:3], parameters[3:]
    if len(inputs) < 3 or any(parameter.kind not in _POSITIONAL for parameter in inputs):
        raise _error(function, f"{name} takes ({', '.join(map(str, parameters))}); "
                               f"the first three should be query, key and value, given by position: {_FORM}.")
    for parameter in rest:
        _check_known(function, name, parameter)
    return frozenset(parameter.name for parameter in rest)


def kind_of(keywords: Iterable[str], function: Callable[..., object], name: str) -> Kind:
    """A layer takes what every layer must take (params, heads); an attention function takes none of it."""
    present = {word for word in keywords if Kind.LAYER in KEYWORDS[word].required}
    absent = {word.name for word in KEYWORDS.values() if Kind.LAYER in word.required} - present
    if present and absent:
        raise _error(function, f"{name} takes {', '.join(sorted(present))} but not {', '.join(sorted(absent))}; "
                               "a layer takes both, an attention function neither.")
    return Kind.LAYER if present else Kind.ATTENTION


def place_of(function: Callable[..., object]) -> Place:
    """Where the function is defined; the place of its type for a callable object; an empty place if nobody knows."""
    candidates: tuple[Any, ...] = (inspect.unwrap(function), getattr(function, "func", None), type(function))
    for thing in candidates:
        try:
            return Place(shown(Path(inspect.getsourcefile(thing) or "")), inspect.getsourcelines(thing)[1])
        except (TypeError, OSError):
            continue
    return Place("")


def _parameters(function: Callable[..., object], name: str) -> list[Parameter]:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise _error(function, f"{name} is a coroutine or generator function; a plain function is expected: {_FORM}.")
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise _error(function, f"{name} tells no signature, so what it can take is unknown. "
                               f"Wrap it in a function that names its keywords: {_FORM}.") from None


def _check_known(function: Callable[..., object], name: str, parameter: Parameter) -> None:
    if parameter.kind in _STARS:
        raise _error(function, f"{name} takes {_STARS[parameter.kind]}{parameter.name}, which hides what it can do. "
                               f"Name the keywords that it supports: {', '.join(KEYWORDS)}.")
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise _error(function, f"{name} takes {parameter.name!r} by position only; only query, key and value are "
                               "given by position.")
    if parameter.name not in KEYWORDS:
        raise _error(function, f"{name} takes {parameter.name!r}, which is not a known keyword."
                               f"{hint(parameter.name, KEYWORDS)} Bind it first, with functools.partial or a wrapper.")


def _error(function: Callable[..., object], message: str) -> TargetError:
    place = place_of(function)
    return TargetError(message, where=place if place.file else None)
