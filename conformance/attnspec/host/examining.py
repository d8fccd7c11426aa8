"""What the author of a callable wrote down of it, as `init` asks. Nothing is called."""

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
    """Its signature and its module. Of a class: its constructor and its call too, its bases, what
    its constructor's annotations name, and the classes beside it.
    """
    inner = _unwrap(thing)
    return {"name": text_of(getattr_(thing, "__name__", "")),
            "home": text_of(_scope(inner).get("__name__", "")), "signature": signature(thing),
            "packages": used_packages(inner), "numbers": _numbers(inner), "docs": _docs(thing),
            "source": _source_text(thing)[:MAX_SOURCE_CHARACTERS],
            **(_examine_class(thing) if isinstance(thing, type) else {})}


def examine_sources(function: Any) -> Dict[str, Any]:
    """Of a function that takes its arguments apart: its source and that of those that it hands
    them to, the classes that annotate its parameters, and the functions of its module that make
    something.
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
    """Its docstring, and of a class those of its methods."""
    methods = [vars(thing).get(name) for name in _METHODS] if isinstance(thing, type) else []
    told = (text_of(getattr_(each, "__doc__", ""))[:MAX_DOC_CHARACTERS]
            for each in (thing, *methods) if each is not None)
    return [each for each in told if each]


def _scope(function: Any) -> Mapping[str, Any]:
    """The names of its module."""
    return dict(getattr_(function, "__globals__", {}))


def _numbers(function: Any) -> Dict[str, int]:
    """The whole numbers of its module that it names, or a function that it calls."""
    found: Dict[str, int] = {}
    for each in map(_unwrap, _reachable_functions(function)):
        named = frozenset(_looked_up_names(getattr_(each, "__code__", None)))
        found.update({name: value for name, value in _scope(each).items() if name in named
                      and type(value) is int})
    return found


def signature(function: Any) -> Dict[str, Any]:
    """Its parameters without stars; null with its docstring, where it tells none."""
    owner = getattr_(function, "__self__", None)
    if isinstance(owner, type) and hasattr_(owner, "forward") and hasattr_(owner, "backward"):
        # `attention = _Attention.apply`, of PyTorch, which takes no keywords
        told = signature(getattr_(owner, "forward", None))
        return {**told,
                "parameters": [{**each, "kind": "POSITIONAL_ONLY"}
                               for each in (told["parameters"] or ())[1:]]}
    found = quietly(lambda: list(inspect.signature(function).parameters.values()))
    if found is None:
        return {"parameters": None,
                "doc": text_of(getattr_(function, "__doc__", ""))[:MAX_DOC_CHARACTERS]}
    return {"parameters": [_signature_parameter(each) for each in found
                           if not each.kind.name.startswith("VAR_")], "doc": ""}


def _signature_parameter(parameter: inspect.Parameter) -> Dict[str, Any]:
    told: Dict[str, Any] = {"name": parameter.name, "kind": parameter.kind.name}
    if parameter.annotation is not inspect.Parameter.empty:
        annotation = parameter.annotation
        told["annotation"] = text_of(annotation if type(annotation) is str
                                     else getattr_(annotation, "__name__", ""))
    if parameter.default is not inspect.Parameter.empty:
        told["default"] = _default(parameter.default)
    return told


def _default(value: Any) -> Any:
    """What can be written down as it is, tuples of such values too; else how Python writes it."""
    if type(value) is tuple:
        return {"$tuple": [_default(each) for each in value]}
    if value is None or type(value) in (bool, int, float, str):
        return as_json(value)
    return {"$repr": short_repr(value), "type": type(value).__name__}


def _annotation_classes(thing: Any) -> Dict[str, List[str]]:
    """By parameter of the constructor, the classes that its annotation names."""
    hints = quietly(lambda: typing.get_type_hints(thing.__init__)) or {}
    found = quietly(lambda: dict(inspect.signature(thing).parameters)) or {}
    return {name: _classes(hints.get(name, parameter.annotation))
            for name, parameter in found.items()}


def _classes(annotation: Any) -> List[str]:
    options = (annotation, *(quietly(lambda: typing.get_args(annotation)) or ()))
    return [_class_path(each) for each in options if isinstance(each, type)
            and each.__module__ not in _NO_CLASS]


def _class_path(thing: Any) -> str:
    return "{}:{}".format(thing.__module__, thing.__name__)


def _module_classes(thing: Any) -> List[List[str]]:
    """The classes of its module: the name that each has there, and where it is from."""
    members = list(vars(sys.modules.get(thing.__module__, types)).items())
    return [[name, _class_path(each)] for name, each in members
            if isinstance(each, type) and each.__module__ not in _NO_CLASS][:MAX_TOLD]


def _backend() -> str:
    """The framework that Keras computes with here, if it is imported."""
    keras = sys.modules.get("keras")
    return text_of(quietly(lambda: getattr_(keras, "backend", None).backend()))


def _function_sources(function: Any) -> List[Dict[str, Any]]:
    """The function, and those of its module that it calls; of each, the places of those."""
    found = _reachable_functions(function)
    place = {id(each): at for at, each in enumerate(found)}
    told, room = [], MAX_SOURCE_CHARACTERS
    for each in found:
        source = _source_text(each)[:room]
        room -= len(source)
        calls = {name: place[id(callee)] for name, callee in _called_functions(_unwrap(each))
                 if id(callee) in place}
        told.append({"source": source, "signature": signature(each), "calls": calls})
    return told


def _reachable_functions(function: Any) -> List[Any]:
    """The function, those of its module that it calls, and theirs; each once."""
    found, depth = [function], {id(function): 0}
    for each in found:  # grows meanwhile
        if depth[id(each)] >= MAX_CALL_DEPTH or len(found) >= MAX_TOLD:
            continue
        for _, callee in _called_functions(_unwrap(each)):
            if id(callee) not in depth:
                depth[id(callee)] = depth[id(each)] + 1
                found.append(callee)
    return found


def _source_text(function: Any) -> str:
    return text_of(quietly(lambda: inspect.getsource(_unwrap(function))))


def _called_functions(function: Any) -> Iterator[Tuple[str, Any]]:
    scope = _scope(function)
    for name in _looked_up_names(getattr_(function, "__code__", None)):
        if isinstance(scope.get(name), types.FunctionType):
            yield name, scope[name]


def _looked_up_names(code: Any) -> Iterator[str]:
    """The names that it looks up outside of itself, those inside it too."""
    yield from getattr_(code, "co_names", ())
    for each in getattr_(code, "co_consts", ()):
        if isinstance(each, types.CodeType):
            yield from _looked_up_names(each)


def _annotating_classes(function: Any) -> Dict[str, Any]:
    """Classes with fields (NamedTuple, dataclass) that annotate parameters, by parameter."""
    hints = quietly(lambda: typing.get_type_hints(function)) or {}
    return {name: {"class": _class_path(kind), "fields": _field_names(kind)}
            for name, kind in hints.items() if isinstance(kind, type) and _field_names(kind)}


def _field_names(kind: Any) -> List[str]:
    return list(getattr_(kind, "_fields", ()) or getattr_(kind, "__dataclass_fields__", ()))


def _makers(scope: Mapping[str, Any]) -> Dict[str, Any]:
    """The functions of its module that are called after making something anew."""
    makers = [name for name, each in scope.items() if "init" in name.lower()
              and isinstance(each, types.FunctionType)]
    return {name: signature(scope[name]) for name in makers[:MAX_TOLD]}
