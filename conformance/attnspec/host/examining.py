"""Collects what the author of a callable wrote about it, for `init`. Nothing is called."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from .describing import as_json, getattr_, hasattr_, quietly, short_repr, text_of, used_packages

MAX_DOC_CHARACTERS = 10_000  # characters of a docstring
MAX_TOLD = 200  # classes and functions that are told
MAX_SOURCE_CHARACTERS = 2**20  # characters of all sources together
# functions of the same module that a function hands its arguments to, one calling the next
MAX_CALL_DEPTH = 4
_METHODS = ("__init__", "__call__", "forward", "call")
_NO_CLASS = ("builtins", "inspect", "typing")


def examine_callable(thing: Any) -> Dict[str, Any]:
    """Describes a callable's signature and module, and for a class its constructor and call.

    A class also gets its bases, the classes that annotate its constructor, and the other classes
    of its module.
    """
    inner = _unwrap(thing)
    return {"name": text_of(getattr_(thing, "__name__", "")),
            "home": text_of(_scope(inner).get("__name__", "")), "signature": signature(thing),
            "packages": used_packages(inner), "numbers": _numbers(inner), "docs": _docs(thing),
            "source": _source_text(thing)[:MAX_SOURCE_CHARACTERS],
            **(_examine_class(thing) if isinstance(thing, type) else {})}


def examine_sources(function: Any) -> Dict[str, Any]:
    """Collects the sources of a function whose arguments hold the real arguments.

    It returns the source of the function and of the functions that it calls, the classes that
    annotate its parameters, and the functions of its module that initialise something.
    """
    inner = _unwrap(function)
    return {"functions": _function_sources(inner), "holders": _annotating_classes(inner),
            "makers": _makers(_scope(inner))}


def _unwrap(thing: Any) -> Any:
    return quietly(lambda: inspect.unwrap(thing)) or thing


def _examine_class(thing: Any) -> Dict[str, Any]:
    methods = {name: getattr_(thing, name, None) for name in _METHODS}
    return {"bases": ["{}.{}".format(base.__module__, base.__qualname__)
                      for base in thing.__mro__],
            "methods": {name: signature(_unwrap(each)) for name, each in methods.items()
                        if each is not None}, "annotated": _annotation_classes(thing),
            "beside": _module_classes(thing), "backend": _backend()}


def _docs(thing: Any) -> List[str]:
    """Lists the docstring of a callable and, for a class, those of its methods."""
    methods = [vars(thing).get(name) for name in _METHODS] if isinstance(thing, type) else []
    texts = (text_of(getattr_(each, "__doc__", ""))[:MAX_DOC_CHARACTERS]
             for each in (thing, *methods) if each is not None)
    return [each for each in texts if each]


def _scope(function: Any) -> Mapping[str, Any]:
    """Returns the names of the function's module."""
    return dict(getattr_(function, "__globals__", {}))


def _numbers(function: Any) -> Dict[str, int]:
    """Finds the integers of the module that the function, or a function it calls, names."""
    numbers: Dict[str, int] = {}
    for each in map(_unwrap, _reachable_functions(function)):
        names = frozenset(_looked_up_names(getattr_(each, "__code__", None)))
        numbers.update({name: value for name, value in _scope(each).items() if name in names
                        and type(value) is int})
    return numbers


def signature(function: Any) -> Dict[str, Any]:
    """Describes the parameters except starred ones; null with the docstring if there are none."""
    owner = getattr_(function, "__self__", None)
    if isinstance(owner, type) and hasattr_(owner, "forward") and hasattr_(owner, "backward"):
        # `attention = _Attention.apply`, of PyTorch, which takes no keywords
        description = signature(getattr_(owner, "forward", None))
        return {**description,
                "parameters": [{**each, "kind": "POSITIONAL_ONLY"}
                               for each in (description["parameters"] or ())[1:]]}
    parameters = quietly(lambda: list(inspect.signature(function).parameters.values()))
    if parameters is None:
        return {"parameters": None,
                "doc": text_of(getattr_(function, "__doc__", ""))[:MAX_DOC_CHARACTERS]}
    return {"parameters": [_signature_parameter(each) for each in parameters
                           if not each.kind.name.startswith("VAR_")], "doc": ""}


def _signature_parameter(parameter: inspect.Parameter) -> Dict[str, Any]:
    description: Dict[str, Any] = {"name": parameter.name, "kind": parameter.kind.name}
    if parameter.annotation is not inspect.Parameter.empty:
        annotation = parameter.annotation
        description["annotation"] = text_of(annotation if type(annotation) is str
                                            else getattr_(annotation, "__name__", ""))
    if parameter.default is not inspect.Parameter.empty:
        description["default"] = _default(parameter.default)
    return description


def _default(value: Any) -> Any:
    """Converts plain values, and tuples of such values, as they are; others become their repr."""
    if type(value) is tuple:
        return {"$tuple": [_default(each) for each in value]}
    if value is None or type(value) in (bool, int, float, str):
        return as_json(value)
    return {"$repr": short_repr(value), "type": type(value).__name__}


def _annotation_classes(thing: Any) -> Dict[str, List[str]]:
    """Lists, for each parameter of the constructor, the classes that its annotation names."""
    hints = quietly(lambda: typing.get_type_hints(thing.__init__)) or {}
    parameters = quietly(lambda: dict(inspect.signature(thing).parameters)) or {}
    return {name: _classes(hints.get(name, parameter.annotation))
            for name, parameter in parameters.items()}


def _classes(annotation: Any) -> List[str]:
    options = (annotation, *(quietly(lambda: typing.get_args(annotation)) or ()))
    return [_class_path(each) for each in options if isinstance(each, type)
            and each.__module__ not in _NO_CLASS]


def _class_path(thing: Any) -> str:
    return "{}:{}".format(thing.__module__, thing.__name__)


def _module_classes(thing: Any) -> List[List[str]]:
    """Lists the classes of a class's module, with their names there and their origins."""
    members = list(vars(sys.modules.get(thing.__module__, types)).items())
    return [[name, _class_path(each)] for name, each in members
            if isinstance(each, type) and each.__module__ not in _NO_CLASS][:MAX_TOLD]


def _backend() -> str:
    """Returns the framework that Keras computes with here, if Keras is imported."""
    keras = sys.modules.get("keras")
    return text_of(quietly(lambda: getattr_(keras, "backend", None).backend()))


def _function_sources(function: Any) -> List[Dict[str, Any]]:
    """Describes the function and those of its module that it calls, with the calls among them."""
    functions = _reachable_functions(function)
    place = {id(each): at for at, each in enumerate(functions)}
    sources, room = [], MAX_SOURCE_CHARACTERS
    for each in functions:
        source = _source_text(each)[:room]
        room -= len(source)
        calls = {name: place[id(callee)] for name, callee in _called_functions(_unwrap(each))
                 if id(callee) in place}
        sources.append({"source": source, "signature": signature(each), "calls": calls})
    return sources


def _reachable_functions(function: Any) -> List[Any]:
    """Lists the function, those of its module that it calls, and theirs; each once."""
    functions, depth = [function], {id(function): 0}
    for each in functions:  # grows meanwhile
        if depth[id(each)] >= MAX_CALL_DEPTH or len(functions) >= MAX_TOLD:
            continue
        for _, callee in _called_functions(_unwrap(each)):
            if id(callee) not in depth:
                depth[id(callee)] = depth[id(each)] + 1
                functions.append(callee)
    return functions


def _source_text(function: Any) -> str:
    return text_of(quietly(lambda: inspect.getsource(_unwrap(function))))


def _called_functions(function: Any) -> Iterator[Tuple[str, Any]]:
    scope = _scope(function)
    for name in _looked_up_names(getattr_(function, "__code__", None)):
        if isinstance(scope.get(name), types.FunctionType):
            yield name, scope[name]


def _looked_up_names(code: Any) -> Iterator[str]:
    """Yields the names that the code looks up, also in functions inside of it."""
    yield from getattr_(code, "co_names", ())
    for each in getattr_(code, "co_consts", ()):
        if isinstance(each, types.CodeType):
            yield from _looked_up_names(each)


def _annotating_classes(function: Any) -> Dict[str, Any]:
    """Lists the classes with fields (NamedTuple, dataclass) that annotate parameters."""
    hints = quietly(lambda: typing.get_type_hints(function)) or {}
    return {name: {"class": _class_path(kind), "fields": _field_names(kind)}
            for name, kind in hints.items() if isinstance(kind, type) and _field_names(kind)}


def _field_names(kind: Any) -> List[str]:
    return list(getattr_(kind, "_fields", ()) or getattr_(kind, "__dataclass_fields__", ()))


def _makers(scope: Mapping[str, Any]) -> Dict[str, Any]:
    """Finds the functions of the module that initialise something, by "init" in their names."""
    makers = [name for name, each in scope.items() if "init" in name.lower()
              and isinstance(each, types.FunctionType)]
    return {name: signature(scope[name]) for name in makers[:MAX_TOLD]}
