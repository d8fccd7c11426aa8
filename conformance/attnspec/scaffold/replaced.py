"""What turns queries and keys inside of a layer, or adds places to logits, by the calls in its source; and what hands
back what it is handed in the place of that.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TURNING_NAME = re.compile(r"rope|rotary|rotat|(^|_)rot(_|$)")
"""What the name of a call has in it that turns."""
PLACE_ADDING_NAME = re.compile(r"alibi|slope|(rel|pos)[a-z]*_?(bias|pos|emb)")
"""The same of one that adds a bias by places to what it is handed."""
_PAIR = 2


@dataclass(frozen=True, slots=True)
class _TurningCall:
    """A call that turns. name: of what is called.  is_own: whether that belongs to the layer: a method or a submodule.
    arrays: the places of the arguments that come back turned.
    """

    name: str
    is_own: bool
    arrays: tuple[int, ...]


def list_replacements(source: str, name: str, named: re.Pattern[str] = TURNING_NAME) -> Iterator[Mapping[str, str]]:
    """Every set of replacements after which a class, of this Python and name, may turn nothing: what is called by its
    name alone and its own methods, then its submodules. By place (`patch.object` takes it so), the Python of it.
    named: what the name of such a call has in it.
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
    """The class that is written there; None where nothing is, or something else."""
    try:
        body = ast.parse(textwrap.dedent(source)).body
    except SyntaxError:
        return None
    return next((each for each in body if isinstance(each, ast.ClassDef)), None)


def _list_turning_calls(layer: ast.ClassDef, named: re.Pattern[str]) -> Iterator[_TurningCall]:
    """The calls of what is named for turning, whose arguments come back: assigned to one name, or to several."""
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
    """What an assignment gives, and the names that take it."""
    target, value = node.targets[0], node.value
    listed = [each.id if isinstance(each, ast.Name) else "" for each in target.elts] if isinstance(
        target, ast.Tuple) else [target.id] if isinstance(target, ast.Name) else []
    if isinstance(value, ast.Tuple) and len(value.elts) == len(listed):
        for each, name in zip(value.elts, listed, strict=True):
            yield each, (name,)
    elif listed:
        yield value, tuple(listed)


def _find_called(func: ast.expr) -> tuple[str, bool]:
    """What is called: a name, or a part of the layer itself; "" for anything else."""
    if isinstance(func, ast.Name):
        return func.id, False
    is_own = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
    return (func.attr, True) if is_own and isinstance(func, ast.Attribute) else ("", False)


def _write_place(turning: _TurningCall, name: str, methods: Mapping[str, ast.FunctionDef]) -> str:
    """Where it is looked up: the class, or the module of the class."""
    owner = name if turning.name in methods else f"sys.modules[{name}.__module__]"
    return f'{owner}, "{turning.name}"'


def _write_replacement(turning: _TurningCall, methods: Mapping[str, ast.FunctionDef]) -> str:
    """What hands back what it is handed, called in the same way."""
    same = _write_identity(turning.arrays)
    if turning.name not in methods:
        return f"lambda {same}"
    marks = [each.id for each in methods[turning.name].decorator_list if isinstance(each, ast.Name)]
    return f"staticmethod(lambda {same})" if "staticmethod" in marks else f"lambda _, {same}"


def _write_identity(arrays: tuple[int, ...]) -> str:
    """`x, *_, **__: x`: the parameters and the body of a function that hands back arguments at these places."""
    first = [f"a{at}" for at in range(max(arrays) + 1)]
    back = ", ".join(first[at] for at in arrays)
    return f"{', '.join(first)}, *_more, **_named: {f'({back})' if len(arrays) >= _PAIR else back}"
