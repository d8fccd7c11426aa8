"""Inputs that come together, in a dict or a tuple: each is taken for a parameter of its own."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.lookup import TheirParameter


@dataclass(frozen=True, slots=True)
class GatheredInputs:
    """The parameter that takes all inputs, and their names. is_dict: whether it is a dict; else a tuple."""

    parameter: str
    names: tuple[str, ...]
    is_dict: bool

    @property
    def says(self) -> str:
        """What has to be known of it."""
        kind = "dict" if self.is_dict else "tuple"
        return f"Its inputs come in one {kind}, {self.parameter}: {', '.join(self.names)}."


def spread_inputs(callee: ExaminedCallable) -> tuple[ExaminedCallable, GatheredInputs | None]:
    """A class whose call takes its inputs in a dict or a tuple, as one whose call takes each by its name; and how they
    are gathered. As it is, and None, where each is a parameter already.
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
    """The method of this name of the class that is written there; None where it is not there."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return None
    return next((each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _find_gathered(method: ast.FunctionDef, parameter: str) -> tuple[GatheredInputs, frozenset[str]] | None:
    """How a parameter holds several inputs, and which of these have to be there; None where it holds one."""
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
    """The keys by which a dict is read, in order, and whether a call without them fails: `.get` and `in` do not."""
    for node in sorted((each for each in ast.walk(method) if hasattr(each, "lineno")),
                       key=lambda each: (each.lineno, each.col_offset)):  # type: ignore[attr-defined]  # they have it
        if isinstance(node, ast.Subscript) and _is_named(node.value, parameter):
            yield from ((name, True) for name in _list_texts(node.slice))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and (
                _is_named(node.func.value, parameter) and node.args):
            yield from ((name, False) for name in _list_texts(node.args[0]))


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _list_texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        yield node.value
