"""The parameters of a function that is handed them in trees: dicts, tuples, objects, one in another, and which of
them it takes.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attnspec.scaffold.examined import Examined, Function, Holder
from attnspec.scaffold.lookup import SYNONYMS, TheirParameter, plain, role_of
from attnspec.scaffold.parameters.asking import called
from attnspec.scaffold.there import There
from attnspec.subjects.whole import Path, Whole


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in a tree. shape: None where nobody knows.  names: what it and its holders are called where used."""

    path: Path
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()


def leaves_in(tree: Whole) -> tuple[Leaf, ...]:
    """Its leaves with their shapes."""
    return tuple(Leaf(part.path, part.shape or ()) for part in tree.parts)


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


def tree_of(function: Examined, roots: Sequence[str], sizes: Mapping[str, str], there: There) -> Tree | None:
    """What the function is handed. sizes: what an initialiser is given, as Python, by what its parameter means. None if
    nobody can tell.
    """
    taken = _taken(function, roots)
    made = list(_initialised(function, roots[0], sizes, there))
    if not taken:  # the source does not tell, or picks by names that it makes itself
        return Tree(tuple(Leaf(path, shape) for path, shape in made[0].items()), {}, {}) if made else None
    shapes = next((each for each in made if sum(path in each for path in taken) > 1), {})
    others, holders = dict(_numbers(taken)), dict(_annotated(function, roots))
    leaves = tuple(Leaf(path, shapes.get(path), names) for path, names in taken.items() if path not in others)
    return Tree(leaves, others | dict(_unused(function, roots, taken)), holders)


def _taken(function: Examined, roots: Sequence[str]) -> Mapping[Path, tuple[str, ...]]:
    """What is taken of the trees; a parameter that is called after a matrix may be one, and then has methods."""
    found: dict[Path, tuple[str, ...]] = {}
    for path, names in parts_taken(function.functions, 0, {root: (root,) for root in roots}).items():
        is_array = bool(role_of(path[:1])) and any(step.startswith(".") for step in path[1:])
        found[path[:1] if is_array else path] = names
    kept = {path: names for path, names in found.items() if len(path) > 1 or role_of(path)}
    return dict(sorted(kept.items(), key=lambda each: roots.index(each[0][0])))


def _numbers(taken: Mapping[Path, object]) -> Iterator[tuple[Path, str]]:
    """What stands in a tree and is no array: the number of heads."""
    yield from ((path, "heads") for path in taken if plain(path[-1].strip('[]".')) in SYNONYMS["heads"])


def _annotated(function: Examined, roots: Sequence[str]) -> Iterator[tuple[Path, str]]:
    yield from (((root,), kind.name) for root, kind in _kinds(function, roots))


def _unused(function: Examined, roots: Sequence[str], taken: Mapping[Path, object]) -> Iterator[tuple[Path, str]]:
    """The fields of an annotated class that the function does not look at."""
    for root, kind in _kinds(function, roots):
        seen = {path[1] for path in taken if path[0] == root and len(path) > 1}
        yield from (((root, f".{name}"), "None") for name in kind.fields if f".{name}" not in seen)


def _kinds(function: Examined, roots: Sequence[str]) -> Iterator[tuple[str, Holder]]:
    """The NamedTuples and dataclasses with which trees are annotated."""
    return ((root, function.holders[root]) for root in roots if root in function.holders)


def _initialised(function: Examined, root: str, sizes: Mapping[str, str], there: There) -> Iterator[
        Mapping[Path, tuple[int, ...] | None]]:
    """The shapes of what the initialisers of the function's module make, those first whose names are like its own."""
    own = function.name.lower()
    for name in sorted(function.makers, key=lambda name: -sum(word in own for word in name.lower().split("_"))):
        given = {parameter.name: text for parameter in function.makers[name]
                 for word, text in sizes.items() if plain(parameter.name) in SYNONYMS[word]}
        if (made := called(f"{function.home}:{name}", given, there)) is not None:
            yield {(root, *leaf.path): leaf.shape for leaf in leaves_in(made)}


_ARRAY = frozenset({"T", "mT", "shape", "dtype", "ndim", "size", "reshape", "transpose", "astype", "swapaxes", "view",
                    "dot", "permute", "to", "mean", "sum", "copy", "at", "flatten", "ravel"})
"""Attributes that an array has, so that they take nothing apart."""
_DEEPEST_CALL = 4


def parts_taken(functions: Sequence[Function], at: int, names: Mapping[str, Path], deepest: int = _DEEPEST_CALL,
                ) -> Mapping[Path, tuple[str, ...]]:
    """The parts that the function at this place takes of what these names stand for, without those that it takes
    further apart; with each, the names that it and what holds it are given on the way.
    """
    try:
        tree = ast.parse(textwrap.dedent(functions[at].source))
    except (IndexError, SyntaxError, ValueError):
        return {}
    reader = _Reader(functions, functions[at].calls, dict(names), deepest)
    reader.visit(tree)
    return {path: reader.called(path) for path in reader.found if not any(
        other[:len(path)] == path and other != path for other in reader.found)}


@dataclass(slots=True)
class _Reader(ast.NodeVisitor):
    """Follows names. calls: by name, the place among the functions of one that is called.  names: by name, the part
    that it stands for.  found: the parts that were taken.  given: by part, the name that it was given.
    """

    functions: Sequence[Function]
    calls: Mapping[str, int]
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
        callee = self.calls.get(node.func.id) if isinstance(node.func, ast.Name) else None
        handed = self._handed(node, self.functions[callee]) if callee is not None and self.deepest else {}
        if callee is not None and handed:
            for path, names in parts_taken(self.functions, callee, handed, self.deepest - 1).items():
                self.found[path] = names
        for part in (*node.args, *(each.value for each in node.keywords)):
            if self.path_of(part) is None or not handed:
                self.visit(part)
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func)

    def _handed(self, node: ast.Call, callee: Function) -> dict[str, Path]:
        """By parameter of the function that is called, the part that it is handed."""
        names = [each.name for each in callee.parameters]
        by_name: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
        by_name |= {each.arg: each.value for each in node.keywords if each.arg is not None}
        handed = {name: path for name, part in by_name.items() if (path := self.path_of(part)) is not None}
        for each in node.keywords:
            if each.arg is None and (path := self.path_of(each.value)) is not None:
                # `linear(x, **part)`: whatever is left of its parameters
                handed |= {name: (*path, f'["{name}"]') for name in names if name not in by_name}
        return handed
