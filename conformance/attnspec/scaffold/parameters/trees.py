"""The parameters of a function that is handed them in trees: dicts, tuples, objects, one in another, and which of
them it takes.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnspec.scaffold.form import Path
from attnspec.scaffold.lookup import SYNONYMS, TheirParameter, parameters_of, plain, role_of

_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in a tree. shape: None where nobody knows.  names: what it and its holders are called where used."""

    path: Path
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()


def arrays_in(tree: object, deepest: int = _DEEPEST) -> Iterator[tuple[Path, object]]:
    """Every array with its path; what is neither an array nor holds any is passed over."""
    if hasattr(tree, "shape") and hasattr(tree, "dtype"):
        yield (), tree
    elif deepest:
        for step, part in _parts(tree):
            yield from (((step, *path), array) for path, array in arrays_in(part, deepest - 1))


def _parts(tree: object) -> Iterator[tuple[str, object]]:
    if isinstance(tree, Mapping):
        yield from ((f'["{name}"]', part) for name, part in tree.items())
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        yield from ((f".{name}", getattr(tree, name)) for name in tree._fields)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        yield from ((f".{field.name}", getattr(tree, field.name, None)) for field in dataclasses.fields(tree))
    elif isinstance(tree, Sequence) and not isinstance(tree, str | bytes):
        yield from ((f"[{at}]", part) for at, part in enumerate(tree))


def holders_in(tree: object, at: Path = ()) -> Iterator[tuple[Path, type]]:
    """The class of everything in a tree whose parts are attributes, by path."""
    for step, part in _parts(tree):
        if step.startswith("."):
            yield at, type(tree)
        yield from holders_in(part, (*at, step))


def leaves_in(tree: object) -> tuple[Leaf, ...]:
    """Its leaves with their shapes."""
    return tuple(Leaf(path, shape_of(array)) for path, array in arrays_in(tree))


def shape_of(array: object) -> tuple[int, ...]:
    """Of an array of any framework."""
    return tuple(int(length) for length in getattr(array, "shape", ()))


_ARRAYS = ("query", "key", "value", "packed", "packed_pair")


@dataclass(frozen=True, slots=True)
class Tree:
    """The arrays in all trees that a function is handed; what else stands in them, as Python; and by path `module:name`
    of the class of what has attributes.
    """

    leaves: tuple[Leaf, ...]
    others: Mapping[Path, str]
    holders: Mapping[Path, str]


def roots_of(parameters: Sequence[TheirParameter]) -> tuple[str, ...]:
    """The parameters that are trees of parameters, or matrices and biases themselves; none for attention on arrays."""
    named = [each.name for each in parameters if plain(each.name) in SYNONYMS["params"] and each.is_required]
    if named:
        return tuple(named[:1])
    own = {each.name: role_of((each.name,)) for each in parameters
           if each.is_required and not any(plain(each.name) in SYNONYMS[word] for word in _ARRAYS)}
    found = {name: role for name, role in own.items() if role}
    if "qkv" in found.values():  # what else is called after keys and values is something beside
        found = {name: role for name, role in found.items() if role in ("qkv", "out")}
    return tuple(found) if {"qkv", "out"} & set(found.values()) and len(found) > 1 else ()


def tree_of(function: Callable[..., Any], roots: Sequence[str], sizes: Mapping[str, object]) -> Tree | None:
    """What the function is handed. sizes: what an initialiser is given, by what its parameter means. None if nobody
    can tell.
    """
    taken = _taken(function, roots)
    made = list(_initialised(function, roots[0], sizes))
    if not taken:  # the source does not tell, or picks by names that it makes itself
        return Tree(tuple(Leaf(path, shape) for path, shape in made[0].items()), {}, {}) if made else None
    shapes = next((each for each in made if sum(path in each for path in taken) > 1), {})
    others, holders = dict(_numbers(taken)), dict(_annotated(function, roots))
    leaves = tuple(Leaf(path, shapes.get(path), names) for path, names in taken.items() if path not in others)
    return Tree(leaves, others | dict(_unused(function, roots, taken)), holders)


def _taken(function: Callable[..., Any], roots: Sequence[str]) -> Mapping[Path, tuple[str, ...]]:
    """What is taken of the trees; a parameter that is called after a matrix may be one, and then has methods."""
    found: dict[Path, tuple[str, ...]] = {}
    for path, names in parts_taken(function, {root: (root,) for root in roots}).items():
        is_array = bool(role_of(path[:1])) and any(step.startswith(".") for step in path[1:])
        found[path[:1] if is_array else path] = names
    kept = {path: names for path, names in found.items() if len(path) > 1 or role_of(path)}
    return dict(sorted(kept.items(), key=lambda each: roots.index(each[0][0])))


def _numbers(taken: Mapping[Path, object]) -> Iterator[tuple[Path, str]]:
    """What stands in a tree and is no array: the number of heads."""
    yield from ((path, "heads") for path in taken if plain(path[-1].strip('[]".')) in SYNONYMS["heads"])


def _annotated(function: Callable[..., Any], roots: Sequence[str]) -> Iterator[tuple[Path, str]]:
    for root, kind in _kinds(function, roots).items():
        yield (root,), f"{kind.__module__}:{kind.__name__}"


def _unused(function: Callable[..., Any], roots: Sequence[str], taken: Mapping[Path, object]) -> Iterator[
        tuple[Path, str]]:
    """The fields of an annotated class that the function does not look at."""
    for root, kind in _kinds(function, roots).items():
        seen = {path[1] for path in taken if path[0] == root and len(path) > 1}
        yield from (((root, f".{name}"), "None") for name in _fields(kind) if f".{name}" not in seen)


def _kinds(function: Callable[..., Any], roots: Sequence[str]) -> Mapping[str, type[Any]]:
    """The NamedTuples and dataclasses with which trees are annotated."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function))
    except Exception:  # an annotation may name what is not there
        return {}
    return {root: hints[root] for root in roots if inspect.isclass(hints.get(root)) and _fields(hints[root])}


def _fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(getattr(kind, "_fields", ()) or getattr(kind, "__dataclass_fields__", ()))


def _initialised(function: Callable[..., Any], root: str, sizes: Mapping[str, object]) -> Iterator[
        Mapping[Path, tuple[int, ...] | None]]:
    """The shapes of what the initialisers of the function's module make, those first whose names are like its own."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    makers = [each for name, each in scope.items() if "init" in name.lower() and isinstance(each, types.FunctionType)]
    own = function.__name__.lower()
    for each in sorted(makers, key=lambda each: -sum(word in own for word in each.__name__.lower().split("_"))):
        given = {parameter.name: value for parameter in parameters_of(each)
                 for word, value in sizes.items() if plain(parameter.name) in SYNONYMS[word]}
        try:
            yield {(root, *leaf.path): leaf.shape for leaf in leaves_in(each(**given))}
        except Exception:  # whatever somebody's initialiser may raise
            continue


_ARRAY = frozenset({"T", "mT", "shape", "dtype", "ndim", "size", "reshape", "transpose", "astype", "swapaxes", "view",
                    "dot", "permute", "to", "mean", "sum", "copy", "at", "flatten", "ravel"})
"""Attributes that an array has, so that they take nothing apart."""
_DEEPEST_CALL = 4


def parts_taken(function: Callable[..., Any], names: Mapping[str, Path], deepest: int = _DEEPEST_CALL) -> Mapping[
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
