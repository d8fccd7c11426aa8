"""Which parts a function takes of the trees that it is handed, read in its source and in that of what it calls."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnspec.forms.form import Path
from attnspec.forms.lookup import parameters_of

_ARRAY = frozenset({"T", "mT", "shape", "dtype", "ndim", "size", "reshape", "transpose", "astype", "swapaxes", "view",
                    "dot", "permute", "to", "mean", "sum", "copy", "at", "flatten", "ravel"})
"""Attributes that an array has, so that they take nothing apart."""
_DEEPEST = 4


def parts_taken(function: Callable[..., Any], names: Mapping[str, Path], deepest: int = _DEEPEST) -> Mapping[
        Path, tuple[str, ...]]:
    """The parts that a function takes of what these names stand for, without those that it takes further apart; with
    each, the names that it and what holds it are given on the way.
    """
    plain = inspect.unwrap(function)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    except (OSError, TypeError, SyntaxError):
        return {}
    reader = _Reader(getattr(plain, "__globals__", {}), dict(names), deepest)
    reader.visit(tree)
    return {path: reader.called(path) for path in reader.found if not any(
        other[:len(path)] == path and other != path for other in reader.found)}


@dataclass(slots=True)
class _Reader(ast.NodeVisitor):
    """Follows names. names: by name, the part that it stands for.  found: the parts that were taken.  given: by part,
    the name that it was given.
    """

    scope: Mapping[str, Any]
    names: dict[str, Path]
    deepest: int
    found: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    given: dict[Path, str] = field(default_factory=dict)

    def called(self, path: Path) -> tuple[str, ...]:
        """The names that a part and what holds it were given."""
        own = tuple(self.given[path[:at]] for at in range(1, len(path) + 1) if path[:at] in self.given)
        return (*own, *self.found[path])

    def path_of(self, node: ast.AST) -> Path | None:
        """The part that an expression stands for; None if it is none."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            inner, name = self.path_of(node.value), node.slice.value
            return None if inner is None else (*inner, f'["{name}"]' if isinstance(name, str) else f"[{name!r}]")
        if isinstance(node, ast.Attribute) and node.attr not in _ARRAY:
            inner = self.path_of(node.value)
            return None if inner is None else (*inner, f".{node.attr}")
        return None

    def generic_visit(self, node: ast.AST) -> None:
        """Keep what is taken, and go on where it is no part."""
        path = self.path_of(node) if isinstance(node, ast.expr) else None
        if path is None:
            ast.NodeVisitor.generic_visit(self, node)
        else:
            self.found.setdefault(path, ())

    def visit_Assign(self, node: ast.Assign) -> None:
        """`p = params["attn"]` and `wq, wk = params` give names to parts."""
        path = self.path_of(node.value)
        for target in node.targets if path is not None else ():
            self._name(target, path or ())
        if path is None:
            self.generic_visit(node)

    def _name(self, target: ast.expr, path: Path) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id], self.given[path] = path, target.id
        elif isinstance(target, ast.Tuple | ast.List):
            for at, each in enumerate(target.elts):
                self._name(each, (*path, f"[{at}]"))

    def visit_Call(self, node: ast.Call) -> None:
        """A part that is handed on is taken apart there, if that is a function of the same module."""
        callee = self.scope.get(node.func.id) if isinstance(node.func, ast.Name) else None
        handed = self._handed(node, callee) if isinstance(callee, types.FunctionType) and self.deepest else {}
        if callee is not None and handed:
            for path, names in parts_taken(callee, handed, self.deepest - 1).items():
                self.found[path] = names
        for part in (*node.args, *(each.value for each in node.keywords)):
            if self.path_of(part) is None or not handed:
                self.visit(part)
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func)

    def _handed(self, node: ast.Call, callee: Callable[..., Any]) -> dict[str, Path]:
        """By parameter of the function that is called, the part that it is handed."""
        names = [each.name for each in parameters_of(callee)]
        by_name: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
        by_name |= {each.arg: each.value for each in node.keywords if each.arg is not None}
        handed = {name: path for name, part in by_name.items() if (path := self.path_of(part)) is not None}
        for each in node.keywords:
            if each.arg is None and (path := self.path_of(each.value)) is not None:
                # `linear(x, **part)`: whatever is left of its parameters
                handed |= {name: (*path, f'["{name}"]') for name in names if name not in by_name}
        return handed
