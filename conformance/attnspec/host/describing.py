"""Describes a callable without calling it, as plain data."""

from __future__ import annotations

import enum
import functools
import inspect
import sys
from typing import Any, Dict, List, Mapping, Optional

MAX_CHARACTERS = 1000  # characters of a default or an attribute that is told by its repr
_DEEPEST = 6


def describe_callable(function: Any) -> Dict[str, Any]:
    """Describes a callable. If its own code raises, only one part of the description is lost."""
    return {"type": type(function).__name__, "is_class": isinstance(function, type),
            "is_callable": callable(function),
            "is_function": hasattr_(function, "__code__")
            or isinstance(function, functools.partial),
            "is_module_of_torch": any(base.__module__ == "torch.nn.modules.module"
                                      for base in type(function).__mro__),
            "is_deferred": quietly(lambda: inspect.iscoroutinefunction(function)
                                   or inspect.isgeneratorfunction(function)),
            "qualname": text_of(getattr_(function, "__qualname__", "")),
            "module": text_of(getattr_(function, "__module__", "")),
            "doc": text_of(getattr_(function, "__doc__",
                                    "")).strip().partition("\n")[0][:MAX_CHARACTERS],
            "place": _find_place(function), "parameters": _describe_parameters(function),
            "attributes": _plain_attributes(function), "uses": used_packages(function),}


def hasattr_(thing: Any, name: str) -> bool:
    """Does what `hasattr` does, whatever `__getattr__` raises."""
    return quietly(lambda: hasattr(thing, name)) is True


def getattr_(thing: Any, name: str, otherwise: Any) -> Any:
    """Does what `getattr` does, whatever `__getattr__` raises."""
    value = quietly(lambda: getattr(thing, name, otherwise))
    if value is None:
        return otherwise
    return value


def quietly(ask: Any) -> Any:
    """Calls `ask`, and returns None if it raises anything."""
    try:
        return ask()
    except BaseException:
        return None


def text_of(value: Any) -> str:
    """Returns the value if it is a plain string, else an empty string."""
    if type(value) is str:
        return value
    return ""


def _find_place(function: Any) -> Optional[List[Any]]:
    """Finds the file and line of the callable's definition or its class; None if unknown."""
    things = (quietly(lambda: inspect.unwrap(function)), getattr_(function, "func", None),
              type(function))
    return next(filter(None, map(_find_source, things)), None)


def _find_source(thing: Any) -> Optional[List[Any]]:
    place = quietly(lambda: [inspect.getsourcefile(thing), inspect.getsourcelines(thing)[1]])
    if place and place[0]:
        return list(place)
    return None


def _describe_parameters(function: Any) -> Optional[List[Dict[str, Any]]]:
    """Describes each parameter: name, kind, default. None where there is no signature. For a
    module of PyTorch, whose call hides its parameters, it describes those of `forward`.
    """
    parameters = quietly(lambda: list(inspect.signature(function).parameters.values()))
    forward = getattr_(function, "forward", None)
    is_hidden = parameters is not None and {each.kind for each in parameters} <= {
        inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if is_hidden and callable(forward):
        parameters = quietly(lambda: list(inspect.signature(forward).parameters.values()))
    if parameters is None:
        return None
    return [_describe_parameter(each) for each in parameters]


def _describe_parameter(parameter: inspect.Parameter) -> Dict[str, Any]:
    description: Dict[str, Any] = {"name": parameter.name, "kind": parameter.kind.name}
    if parameter.default is not inspect.Parameter.empty:
        description["default"] = as_json(parameter.default)
    return description


def _plain_attributes(function: Any) -> Dict[str, Any]:
    """Lists what was set on a function, or the plain attributes of an object."""
    if isinstance(function, type):
        return {}
    own = quietly(lambda: dict(vars(function))) or {}
    of_class = {} if hasattr_(function, "__code__") else _class_attributes(function)
    return {name: as_json(value) for name, value in {**of_class, **own}.items()
            if type(name) is str and not name.startswith("_")}


def _class_attributes(function: Any) -> Dict[str, Any]:
    attributes: Dict[str, Any] = {}
    for base in reversed(type(function).__mro__[:-1]):
        if base.__module__.partition(".")[0] not in ("torch", "builtins", "functools"):
            attributes.update({name: value for name, value in vars(base).items()
                               if not callable(value)})
    return attributes


def as_json(value: Any, depth: int = _DEEPEST) -> Any:
    """Converts the value to JSON; what cannot be converted becomes its repr."""
    if isinstance(value, enum.Enum):
        return as_json(value.value, depth)
    is_finite = type(value) is float and value - value == 0
    if value is None or type(value) in (bool, int, str) or is_finite:
        return value
    if type(value) is float:
        return {"$float": repr(value)}
    if depth and isinstance(value, Mapping):
        pairs = list(value.items())[:MAX_CHARACTERS]
        return {"$map": [[as_json(key, depth - 1), as_json(inner, depth - 1)]
                         for key, inner in pairs]}
    if depth and isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(inner, depth - 1) for inner in list(value)[:MAX_CHARACTERS]]
    return {"$repr": short_repr(value), "type": type(value).__name__}


def short_repr(value: Any) -> str:
    """Returns a short repr, or the name of the type where the repr raises."""
    text = quietly(lambda: repr(value))
    if type(text) is str:
        return text[:MAX_CHARACTERS]
    return type(value).__name__


def used_packages(function: Any) -> List[str]:
    """Lists the packages that the callable's module imports: for `jnp`, it lists "jax"."""
    return sorted({value.__name__.partition(".")[0]
                   for value in dict(getattr_(function, "__globals__", {})).values()
                   if type(value) is type(sys)})
