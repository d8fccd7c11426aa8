"""Finds the calls inside a layer that turn queries and keys or add places to logits, by its
source.

What replaces such a call returns its arguments unchanged.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TURNING_NAME = re.compile(r"rope|rotary|rotat|(^|_)rot(_|$)")
PLACE_ADDING_NAME = re.compile(r"alibi|slope|(rel|pos)[a-z]*_?(bias|pos|emb)")
"""Matches the name of a call that adds a bias by places to its argument."""
_PAIR = 2


@dataclass(frozen=True, slots=True)
class _TurningCall:
    """A call that turns.  name: of what is called.  is_own: whether that is a method or a
    submodule of the layer.  arrays: the places of the arguments that come back turned.
    """

    name: str
    is_own: bool
    arrays: tuple[int, ...]


def list_replacements(source: str, name: str, named: re.Pattern[str] = TURNING_NAME) -> Iterator[Mapping[str, str]]:
    """Lists every set of replacements after which a class, of this Python and name, may turn
    nothing. First come functions and its own methods, then its submodules. Each set has, by place
    (as `patch.object` takes it), Python.  named: matches the name of such a call.
    """
    layer = _find_class(source)
    if layer is None:
        return
    methods = {each.name: each for each in layer.body if isinstance(each, ast.FunctionDef)}
    turning = list(dict.fromkeys(_list_turning_calls(layer, named)))
    written = {_write_place(each, name, methods): _write_replacement(each, methods) for each in turning
               if not each.is_own or each.name in methods}
    inside = {f'type(layer.{each.name}), "__call__"': f"lambda _, {_write_identity(each.arrays)}" for each in turning
              if each.is_own and each.name not in methods}
    for found in (written, inside):
        if found:
            yield found


def _find_class(source: str) -> ast.ClassDef | None:
    try:
        body = ast.parse(textwrap.dedent(source)).body
    except SyntaxError:
        return None
    return next((each for each in body if isinstance(each, ast.ClassDef)), None)


def _list_turning_calls(layer: ast.ClassDef, named: re.Pattern[str]) -> Iterator[_TurningCall]:
    """Lists the calls with such names whose arguments come back, assigned to one name or more."""
    targets = {call: names for node in ast.walk(layer) if isinstance(node, ast.Assign)
               for call, names in _list_assigned(node)}
    for node in ast.walk(layer):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, is_own = _find_called(node.func)
        if not named.search(called.lower()) or called.lower().endswith("half"):
            continue
        given = [each.id if isinstance(each, ast.Name) else "" for each in node.args]
        names = targets.get(node, ("",))
        arrays = tuple(given.index(each) if each in given else at for at, each in enumerate(names))
        if max(arrays) < len(given):
            yield _TurningCall(called, is_own, arrays)


def _list_assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    """Lists what an assignment gives, and the names that take it."""
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Tuple | ast.Name):
        return
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    names = tuple(each.id if isinstance(each, ast.Name) else "" for each in targets)
    if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
        for each, name in zip(value.elts, names, strict=True):
            yield each, (name,)
    else:
        yield value, names


def _find_called(func: ast.expr) -> tuple[str, bool]:
    """Returns the name of what is called, and whether it is the layer's own; else ""."""
    if isinstance(func, ast.Name):
        return func.id, False
    is_own = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
    return (func.attr, True) if is_own and isinstance(func, ast.Attribute) else ("", False)


def _write_place(turning: _TurningCall, name: str, methods: Mapping[str, ast.FunctionDef]) -> str:
    """Writes where it is looked up: the class, or the module of the class."""
    owner = name if turning.name in methods else f"sys.modules[{name}.__module__]"
    return f'{owner}, "{turning.name}"'


def _write_replacement(turning: _TurningCall, methods: Mapping[str, ast.FunctionDef]) -> str:
    """Writes what returns its arguments, called in the same way."""
    same = _write_identity(turning.arrays)
    if turning.name not in methods:
        return f"lambda {same}"
    marks = [each.id for each in methods[turning.name].decorator_list if isinstance(each, ast.Name)]
    return f"staticmethod(lambda {same})" if "staticmethod" in marks else f"lambda _, {same}"


def _write_identity(arrays: tuple[int, ...]) -> str:
    """Writes `x, *_, **__: x`: parameters and body of a function that returns these arguments."""
    first = [f"a{at}" for at in range(max(arrays) + 1)]
    back = ", ".join(first[at] for at in arrays)
    return f"{', '.join(first)}, *_more, **_named: {f'({back})' if len(arrays) >= _PAIR else back}"
