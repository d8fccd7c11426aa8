"""A foreign callable as its own process tells of it: what its author wrote down, read without importing it here."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnspec.scaffold.lookup import REQUIRED, TheirParameter
from attnspec.subjects.signature import read_value

Parameters = tuple[TheirParameter, ...]

_CALL_METHODS: Mapping[str, str] = {"keras": "call", "torch": "forward"}  # Keras has layers that are modules of PyTorch
"""By package of a base, the method that a layer's author writes."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A NamedTuple or a dataclass, `module:name`, and its fields."""

    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExaminedFunction:
    """A function as it is written. calls: by name, the places of the functions that it calls, among its like."""

    source: str
    parameters: Parameters
    calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExaminedCallable:
    """What is known of a callable. home: the module whose names it uses; packages: those that this module imports.

    Of a class: bases (`package.module.Name`); methods with their parameters, without self; annotated, by parameter of
    the constructor, and beside, by their name in its module: classes, as `module:name`; backend: of Keras.
    module_numbers: whole numbers of its module that a function, or one that it calls, names.  docs: its docstring, and
    those of its methods.  source: its Python; empty where there is none. Of a function, if asked for: functions, itself
    first; holders, by parameter; makers, by name.
    """

    target: str
    name: str
    home: str
    module: str
    is_class: bool
    parameters: Parameters
    packages: frozenset[str]
    bases: tuple[str, ...] = ()
    methods: Mapping[str, Parameters] = field(default_factory=dict)
    annotated_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    neighbours: tuple[tuple[str, str], ...] = ()
    backend: str = ""
    module_numbers: Mapping[str, int] = field(default_factory=dict)
    docs: tuple[str, ...] = ()
    source: str = ""
    functions: tuple[ExaminedFunction, ...] = ()
    holders: Mapping[str, Holder] = field(default_factory=dict)
    makers: Mapping[str, Parameters] = field(default_factory=dict)

    @property
    def constructor_parameters(self) -> Parameters:
        """Of a class, the parameters of its constructor; those of `__init__` where a metaclass hides them."""
        return self.parameters or self.methods.get("__init__", ())

    @property
    def call_parameters(self) -> Parameters:
        """Of a class, the parameters of the call of what it makes."""
        return self.methods.get(self.call_method, ())

    @property
    def call_method(self) -> str:
        """Of a class, the method by which what it makes is called: of no framework, the first that takes something."""
        roots = {base.partition(".")[0] for base in self.bases}
        usual = next((name for base, name in _CALL_METHODS.items() if base in roots), "__call__")
        return next((name for name in (usual, "forward", "call") if self.methods.get(name)), usual)


def read_callable(target: str, described: Mapping[str, Any], told: Mapping[str, Any]) -> ExaminedCallable:
    """What a host tells of a callable that it has described. Raises what reading something else may raise."""
    return ExaminedCallable(
        target=target, name=str(told["name"]), home=str(told["home"]), module=str(described["module"]),
        is_class=bool(described["is_class"]), parameters=_read_parameters(told["signature"]),
        packages=frozenset(map(str, told["packages"])), bases=tuple(map(str, told.get("bases", ()))),
        methods={str(name): _read_parameters(each)[1:] for name, each in told.get("methods", {}).items()},
        annotated_classes={str(name): tuple(map(str, each)) for name, each in told.get("annotated", {}).items()},
        module_numbers={str(name): int(number) for name, number in told.get("numbers", {}).items()},
        docs=tuple(map(str, told.get("docs", ()))), source=str(told.get("source", "")),
        neighbours=tuple((str(name), str(each)) for name, each in told.get("beside", ())),
        backend=str(told.get("backend", "")), functions=tuple(map(_read_function, told.get("functions", ()))),
        holders={str(name): Holder(str(each["class"]), tuple(map(str, each["fields"])))
                 for name, each in told.get("holders", {}).items()},
        makers={str(name): _read_parameters(each) for name, each in told.get("makers", {}).items()})


def _read_function(told: Mapping[str, Any]) -> ExaminedFunction:
    calls = {str(name): int(place) for name, place in told["calls"].items()}
    return ExaminedFunction(str(told["source"]), _read_parameters(told["signature"]), calls)


def _read_parameters(told: Mapping[str, Any]) -> Parameters:
    """Without stars; empty if nobody can tell."""
    listed = told["parameters"]
    return _parse_doc_signature(str(told["doc"])) if listed is None else tuple(map(_read_parameter, listed))


def _read_parameter(told: Mapping[str, Any]) -> TheirParameter:
    default = read_value(told["default"]) if "default" in told else REQUIRED
    kind = getattr(inspect.Parameter, str(told["kind"]))
    return TheirParameter(str(told["name"]), default, kind, str(told.get("annotation", "")))


def _parse_doc_signature(doc: str) -> Parameters:
    """From a docstring that begins with the signature, as those of PyTorch's functions in C do."""
    text = re.match(r"\s*\w+\((.*?)\)\s*(?:->|:|\n)", doc, re.DOTALL)
    if text is None:
        return ()
    try:
        made = ast.parse(f"def f({text[1]}): pass").body[0]
    except SyntaxError:
        return ()
    assert isinstance(made, ast.FunctionDef)  # that is what was parsed
    given, only = made.args, made.args.kwonlyargs
    defaults = [None] * (len(given.args) - len(given.defaults)) + given.defaults
    return (*(TheirParameter(each.arg, _evaluate_default(default)) for each,
              default in zip(given.args, defaults, strict=True)),
            *(TheirParameter(each.arg, _evaluate_default(default), inspect.Parameter.KEYWORD_ONLY)
              for each, default in zip(only, given.kw_defaults, strict=True)))


def _evaluate_default(node: ast.expr | None) -> object:
    if node is None:
        return REQUIRED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return node
