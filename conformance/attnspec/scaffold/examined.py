"""Describes a foreign callable as its own process reports it, without importing it here.

Inputs that come together, in a dict or a tuple, are each taken for a parameter of its own.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    """A function as it is written, and the places of those that it calls in the list, by name."""

    source: str
    parameters: Parameters
    calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExaminedCallable:
    """What is known of a callable.

    home: the module whose names it uses.  packages: those that this module imports.
    module_numbers: whole numbers of its module that a function, or one that it calls, names.
    docs: its docstring, and those of its methods.  source: its Python; empty where there is none.

    Of a class: bases (`package.module.Name`).  methods: by name, their parameters without self.
    annotated_classes: by parameter of the constructor, classes as `module:name`.  neighbours:
    classes of its module.  backend: of Keras.

    Of a function, if asked for: functions, itself first.  holders: by parameter.  makers: by name.
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
        """Returns the constructor's parameters, also where a metaclass hides them."""
        return self.parameters or self.methods.get("__init__", ())

    @property
    def call_parameters(self) -> Parameters:
        """Returns the parameters by which an object of the class is called."""
        return self.methods.get(self.call_method, ())

    @property
    def call_method(self) -> str:
        """Returns the method that calls an object: its base's, or the first with inputs."""
        roots = {base.partition(".")[0] for base in self.bases}
        usual = next((name for base, name in _CALL_METHODS.items() if base in roots), "__call__")
        return next((name for name in (usual, "forward", "call") if self.methods.get(name)), usual)


def read_callable(target: str, described: Mapping[str, Any],
                  told: Mapping[str, Any]) -> ExaminedCallable:
    """Reads a host's answer about a callable. Raises what reading a malformed answer may raise."""
    return ExaminedCallable(
        target=target, name=str(told["name"]), home=str(told["home"]),
        module=str(described["module"]),
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
    """Reads parameters without stars; empty if they are not known."""
    listed = told["parameters"]
    return _parse_doc_signature(str(told["doc"])) if listed is None else tuple(map(_read_parameter, listed))


def _read_parameter(told: Mapping[str, Any]) -> TheirParameter:
    default = read_value(told["default"]) if "default" in told else REQUIRED
    kind = getattr(inspect.Parameter, str(told["kind"]))
    return TheirParameter(str(told["name"]), default, kind, str(told.get("annotation", "")))


def _parse_doc_signature(doc: str) -> Parameters:
    """Parses a docstring that begins with the signature, as those of PyTorch's C functions do."""
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
    return (*(TheirParameter(each.arg, _evaluate_default(default))
              for each, default in zip(given.args, defaults, strict=True)),
            *(TheirParameter(each.arg, _evaluate_default(default), inspect.Parameter.KEYWORD_ONLY)
              for each, default in zip(only, given.kw_defaults, strict=True)))


def _evaluate_default(node: ast.expr | None) -> object:
    if node is None:
        return REQUIRED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return node


@dataclass(frozen=True, slots=True)
class GatheredInputs:
    """The parameter that takes all inputs in a dict or a tuple, and their names."""

    parameter: str
    names: tuple[str, ...]
    is_dict: bool

    @property
    def says(self) -> str:
        """Says how the inputs come."""
        kind = "dict" if self.is_dict else "tuple"
        return f"Its inputs come in one {kind}, {self.parameter}: {', '.join(self.names)}."


def spread_inputs(callee: ExaminedCallable) -> tuple[ExaminedCallable, GatheredInputs | None]:
    """Spreads the inputs that a class takes in one dict or tuple into parameters of their own.
    Also returns how they are gathered; None, with the callee as it is, where each is a parameter
    already.
    """
    called = callee.call_parameters
    required = [each for each in called if each.is_required]
    if not callee.is_class or len(required) != 1 or called[0] != required[0]:
        return callee, None
    method = _find_method(callee.source, callee.call_method)
    found = _find_gathered(method, required[0].name) if method else None
    if found is None:
        return callee, None
    gathered, needed = found
    inputs = tuple(TheirParameter(name) if name in needed else TheirParameter(name, None) for name in gathered.names)
    others = tuple(replace(each, kind=inspect.Parameter.KEYWORD_ONLY) for each in called[1:])
    return replace(callee, methods={**callee.methods, callee.call_method: (*inputs, *others)}), gathered


def _find_method(source: str, name: str) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return None
    return next((each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _find_gathered(method: ast.FunctionDef, parameter: str) -> tuple[GatheredInputs, frozenset[str]] | None:
    """Returns how a parameter holds several inputs, and the required ones; else None."""
    read = list(dict.fromkeys(_list_keys_read(method, parameter)))
    if names := tuple(dict.fromkeys(name for name, _ in read)):
        needed = frozenset(name for name, is_needed in read if is_needed)
        return GatheredInputs(parameter, names, is_dict=True), needed
    for node in method.body:  # below an `if`, it is one way of several in which the input may come
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == parameter and (
                isinstance(node.targets[0], ast.Tuple)):
            parts = [each.id for each in node.targets[0].elts if isinstance(each, ast.Name)]
            if len(parts) == len(node.targets[0].elts):
                return GatheredInputs(parameter, tuple(parts), is_dict=False), frozenset(parts)
    return None


def _list_keys_read(method: ast.FunctionDef, parameter: str) -> Iterator[tuple[str, bool]]:
    """Lists the keys by which a dict is read, and whether a call without each fails."""
    for node in sorted((each for each in ast.walk(method) if hasattr(each, "lineno")),
                       key=lambda each: (each.lineno, each.col_offset)):  # type: ignore[attr-defined]  # they have it
        if isinstance(node, ast.Subscript) and _is_named(node.value, parameter):
            for name in _list_texts(node.slice):
                yield name, True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and (
                _is_named(node.func.value, parameter) and node.args):
            for name in _list_texts(node.args[0]):
                yield name, False


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _list_texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        yield node.value
