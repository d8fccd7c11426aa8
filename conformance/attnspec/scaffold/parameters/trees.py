"""The parameters of a function that is handed them in trees: dicts, tuples, objects, one in another.

Which of them it takes is read from its source, followed through names, through loops over keys that are written down,
and through the functions that it calls, those inside of it too.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.examined import ExaminedCallable, ExaminedFunction, Holder
from attnspec.scaffold.lookup import SYNONYMS, TheirParameter, find_role, normalise_name
from attnspec.scaffold.parameters.configs import call_initialiser
from attnspec.subjects.call import ReturnedTree
from attnspec.subjects.call import ValuePath as Path

_ARRAY_ATTRIBUTES = frozenset({"T", "mT", "shape", "dtype", "ndim", "size", "reshape", "transpose", "astype",
                               "swapaxes", "view",
                               "dot", "permute", "to", "mean", "sum", "copy", "at", "flatten", "ravel"})
"""Attributes that an array has, so that they take nothing apart."""
_DEEPEST_CALL = 4

Key = str | int
Inner = ast.FunctionDef | ast.Lambda


def find_parts(functions: Sequence[ExaminedFunction], at: int, names: Mapping[str, Path],
               keys: Mapping[str, Key] | None = None, deepest: int = _DEEPEST_CALL) -> Mapping[Path, tuple[str, ...]]:
    """The parts that the function at this place takes of what these names stand for, without those that it takes
    further apart by keys that can be read; with each, the names that it and what holds it are given on the way. keys:
    by name, a key that the function is handed.
    """
    try:
        top = ast.parse(textwrap.dedent(functions[at].source)).body[0]
    except (IndexError, SyntaxError, ValueError):
        return {}
    reader = _Reader(functions, functions[at].calls, dict(names), dict(keys or {}), deepest)
    reader.read(top.body if isinstance(top, ast.FunctionDef) else [top])
    return {path: reader.find_given_names(path) for path in reader.found_parts if path in reader.unread_parts
            or not any(
        other[:len(path)] == path and other != path for other in reader.found_parts)}


@dataclass(slots=True)
class _Reader(ast.NodeVisitor):
    """Follows names.

    call_places: by name, the place among the functions of one that is called.  names: by name, the part that it stands
    for; keys: the key.  found_parts: the parts that were taken; unread_parts: those taken apart by a key that nobody
    can read. given_names: by part, the name that it was given.  inner_functions: by name, a function inside of the one
    that is read; followed_functions: those of them that were read where they are called.
    """

    functions: Sequence[ExaminedFunction]
    call_places: Mapping[str, int]
    names: dict[str, Path]
    keys: dict[str, Key]
    deepest: int
    found_parts: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    unread_parts: set[Path] = field(default_factory=set)
    given_names: dict[Path, str] = field(default_factory=dict)
    inner_functions: dict[str, Inner] = field(default_factory=dict)
    followed_functions: set[str] = field(default_factory=set)

    def read(self, statements: Sequence[ast.AST]) -> None:
        """All of a function; last what stands in it and is called by nobody who can be followed."""
        self._visit_all(statements)
        for name in self.inner_functions.keys() - self.followed_functions:
            self._visit_all(_list_statements(self.inner_functions[name]))

    def find_given_names(self, path: Path) -> tuple[str, ...]:
        """The names that a part and what holds it were given."""
        own = tuple(self.given_names[path[:at]] for at in range(1, len(path) + 1) if path[:at] in self.given_names)
        return (*own, *self.found_parts[path])

    def path_of(self, node: ast.AST) -> Path | None:
        """The part that an expression stands for; None if it is none."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Subscript) and (key := self.key_of(node.slice)) is not None:
            inner = self.path_of(node.value)
            return None if inner is None else (*inner, f'["{key}"]' if isinstance(key, str) else f"[{key!r}]")
        if isinstance(node, ast.Attribute) and node.attr not in _ARRAY_ATTRIBUTES:
            inner = self.path_of(node.value)
            return None if inner is None else (*inner, f".{node.attr}")
        return None

    def key_of(self, node: ast.AST) -> Key | None:
        """The key that an expression stands for, `"w_" + name` and `f"w_{name}"` too; None if nobody can tell."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str | int) else None
        if isinstance(node, ast.Name):
            return self.keys.get(node.id)
        if isinstance(node, ast.FormattedValue):
            return self.key_of(node.value)
        parts = node.values if isinstance(node, ast.JoinedStr) else (
            [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else [])
        found = [self.key_of(part) for part in parts]
        return "".join(map(str, found)) if found and None not in found else None

    def generic_visit(self, node: ast.AST) -> None:
        """Keep what is taken, and go on where it is no part."""
        path = self.path_of(node) if isinstance(node, ast.expr) else None
        if path is None:
            if isinstance(node, ast.Subscript) and (whole := self.path_of(node.value)) is not None:
                self.unread_parts.add(whole)
            ast.NodeVisitor.generic_visit(self, node)
        else:
            self.found_parts.setdefault(path, ())

    def visit_Assign(self, node: ast.Assign) -> None:
        """`p = params["attn"]` and `wq, wk = params` give names to parts."""
        for target in node.targets:
            self._bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`p: Linear = params["attn"]`."""
        if node.value is not None:
            self._bind(node.target, node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function inside is read where it is called: there it is known what it is handed."""
        self.inner_functions[node.name] = node

    def visit_For(self, node: ast.For) -> None:
        """`for name in ("query", "key")`: once a key, or a part."""
        for _ in self._rounds([(node.target, node.iter)]):
            self._visit_all(node.body)

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> None:
        """The same in a comprehension."""
        taken = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for _ in self._rounds([(each.target, each.iter) for each in node.generators]):
            self._visit_all([*taken, *(test for each in node.generators for test in each.ifs)])

    visit_GeneratorExp = visit_SetComp = visit_DictComp = visit_ListComp  # noqa: N815  (ast names them)

    def _rounds(self, loops: Sequence[tuple[ast.expr, ast.expr]]) -> Iterator[None]:
        """The rounds of these loops, one in another; one round of a loop over what is not written down."""
        if not loops:
            yield
            return
        (target, over), *rest = loops
        elements = _list_elements(over)
        if elements is None:
            self.visit(over)
            yield from self._rounds(rest)
        for element in elements or ():
            self._bind(target, element)
            yield from self._rounds(rest)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        """Give the name to the part, key or function that the value is; what is none of them is visited."""
        path, key = self.path_of(value), self.key_of(value)
        if path is not None:
            self._name(target, path)
        elif isinstance(target, ast.Name) and key is not None:
            self.keys[target.id] = key
        elif isinstance(target, ast.Name) and isinstance(value, ast.Lambda):
            self.inner_functions[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for each, part in zip(target.elts, value.elts, strict=True):
                self._bind(each, part)
        else:
            self.visit(value)

    def _name(self, target: ast.expr, path: Path) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id], self.given_names[path] = path, target.id
        elif isinstance(target, ast.Tuple | ast.List):
            for at, each in enumerate(target.elts):
                self._name(each, (*path, f"[{at}]"))

    def visit_Call(self, node: ast.Call) -> None:
        """A part that is handed on is taken apart there, if that is a function of the same module or of this one."""
        followed = [self._follow(each) for each in _expand_map(node) or [node]] if self.deepest else [False]
        if not all(followed):
            self._visit_all(_list_call_arguments(node))
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func)

    def _follow(self, node: ast.Call) -> bool:
        """Read the function that is called, and what it is not handed as a part; False if it is none of ours."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        inner = node.func if isinstance(node.func, ast.Lambda) else self.inner_functions.get(name)
        callee = self.call_places.get(name)
        names = _list_own_parameters(inner) if inner else self._list_callee_parameters(callee)
        handed, keys = self._match_parts(node, names), self._match_keys(node, names)
        if inner:
            self._read_inside(name, inner, handed, keys)
        elif callee is not None and handed:
            self.found_parts |= find_parts(self.functions, callee, handed, keys, self.deepest - 1)
        else:
            return False
        self._visit_all([part for part in _list_call_arguments(node) if self.path_of(part) is None])
        return True

    def _list_callee_parameters(self, callee: int | None) -> tuple[str, ...]:
        return () if callee is None else tuple(each.name for each in self.functions[callee].parameters)

    def _read_inside(self, name: str, inner: Inner, handed: Mapping[str, Path],
                     keys: Mapping[str, Key]) -> None:
        """Read a function inside, which sees the names around it, too."""
        self.followed_functions.add(name)
        replace(self, names={**self.names, **handed}, keys={**self.keys, **keys},
                deepest=self.deepest - 1)._visit_all(_list_statements(inner))

    def _match_parts(self, node: ast.Call, names: Sequence[str]) -> dict[str, Path]:
        """By parameter of the function that is called, the part that it is handed."""
        given = _match_arguments(node, names)
        handed = {name: path for name, part in given.items() if (path := self.path_of(part)) is not None}
        for each in node.keywords:
            if each.arg is None and (path := self.path_of(each.value)) is not None:
                # `linear(x, **part)`: whatever is left of its parameters
                handed |= {name: (*path, f'["{name}"]') for name in names if name not in given}
        return handed

    def _match_keys(self, node: ast.Call, names: Sequence[str]) -> dict[str, Key]:
        """By parameter of the function that is called, the key that it is handed."""
        return {name: key
                for name, part in _match_arguments(node, names).items() if (key := self.key_of(part)) is not None}

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _expand_map(node: ast.Call) -> Sequence[ast.Call]:
    """The calls of `map(project, ("query", "key"))`; none of another call."""
    match node:
        case ast.Call(func=ast.Name(id="map"), args=[function, over]):
            return [ast.Call(function, [each], []) for each in _list_elements(over) or ()]
    return ()


def _list_call_arguments(node: ast.Call) -> Sequence[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def _match_arguments(node: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    """By parameter, what a call gives it."""
    return {**dict(zip(names, node.args, strict=False)),
            **{each.arg: each.value for each in node.keywords if each.arg is not None}}


def _list_elements(over: ast.expr) -> Sequence[ast.expr] | None:
    """What a loop runs over, where it is written down: `("q", "k")`, or the letters of `"qkv"`."""
    if isinstance(over, ast.Tuple | ast.List):
        return over.elts
    if isinstance(over, ast.Constant) and isinstance(over.value, str):
        return [ast.Constant(letter) for letter in over.value]
    return None


def _list_own_parameters(inner: Inner) -> tuple[str, ...]:
    return tuple(each.arg for each in (*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs))


def _list_statements(inner: Inner) -> Sequence[ast.AST]:
    return inner.body if isinstance(inner, ast.FunctionDef) else [inner.body]


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in a tree. shape: None where nobody knows.  names: what it and its holders are called where used."""

    path: Path
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()


def list_tree_leaves(tree: ReturnedTree) -> tuple[Leaf, ...]:
    """Its leaves with their shapes."""
    return tuple(Leaf(part.path, part.shape or ()) for part in tree.parts)


_ARRAY_ROLES = ("query", "key", "value", "packed", "packed_pair")


@dataclass(frozen=True, slots=True)
class Tree:
    """The arrays in all trees that a function is handed; what else stands in them, as Python; and by path `module:name`
    of the class of what has attributes.
    """

    leaves: tuple[Leaf, ...]
    other_values: Mapping[Path, str]
    holders: Mapping[Path, str]


def find_roots(parameters: Sequence[TheirParameter]) -> tuple[str, ...]:
    """The parameters that are trees of parameters, or matrices and biases themselves; none for attention on arrays."""
    named = [each.name for each in parameters if normalise_name(each.name) in SYNONYMS["params"] and each.is_required]
    if named:
        return tuple(named[:1])
    own = {each.name: find_role((each.name,)) for each in parameters
           if each.is_required and not any(normalise_name(each.name) in SYNONYMS[word] for word in _ARRAY_ROLES)}
    found = {name: role for name, role in own.items() if role}
    if "qkv" in found.values():  # what else is called after keys and values is something beside
        found = {name: role for name, role in found.items() if role in ("qkv", "out")}
    return tuple(found) if {"qkv", "out"} & set(found.values()) and len(found) > 1 else ()


def find_tree(function: ExaminedCallable, roots: Sequence[str], sizes: Mapping[str, str],
              process: CalleeProcess) -> Tree | None:
    """What the function is handed. sizes: what an initialiser is given, as Python, by what its parameter means. None if
    nobody can tell.
    """
    taken = _find_taken_parts(function, roots)
    made = list(_list_initialised_shapes(function, roots[0], sizes, process))
    if not taken:  # the source does not tell, or picks by names that it makes itself
        return Tree(tuple(Leaf(path, shape) for path, shape in made[0].items()), {},
                    {}) if made else None
    shapes = next((each for each in made if sum(_lies_under(leaf, taken) for leaf in each) > 1),
                  {})
    others = {path: "heads" for path in taken if normalise_name(path[-1].strip('[]".')) in SYNONYMS["heads"]}
    holders: dict[Path, str] = {(root,): kind.name for root, kind in _list_annotations(function, roots)}
    leaves = tuple(Leaf(leaf, shapes.get(leaf), names)
                   for leaf, names in _list_taken_leaves(taken, shapes) if leaf not in others)
    return Tree(leaves, others | dict(_list_unused_fields(function, roots, taken)), holders)


def _list_taken_leaves(taken: Mapping[Path, tuple[str, ...]],
                       shapes: Iterable[Path]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """What is taken; in the place of a part that is taken further apart by keys that nobody can read, what an
    initialiser makes of it.
    """
    for path, names in taken.items():
        below = [leaf for leaf in shapes if _lies_under(leaf, [path]) and leaf not in taken]
        for leaf in below:
            yield leaf, names
        if not below and not any(other != path and _lies_under(other, [path]) for other in taken):
            yield path, names


def _lies_under(leaf: Path, taken: Iterable[Path]) -> bool:
    return any(leaf[:len(path)] == path for path in taken)


def _find_taken_parts(function: ExaminedCallable, roots: Sequence[str]) -> Mapping[Path, tuple[str, ...]]:
    """What is taken of the trees; a parameter that is called after a matrix may be one, and then has methods."""
    found: dict[Path, tuple[str, ...]] = {}
    for path, names in find_parts(function.functions, 0, {root: (root,) for root in roots}).items():
        is_array = bool(find_role(path[:1])) and any(step.startswith(".") for step in path[1:])
        found[path[:1] if is_array else path] = names
    kept = {path: names for path, names in found.items() if len(path) > 1 or find_role(path)}
    return dict(sorted(kept.items(), key=lambda each: roots.index(each[0][0])))


def _list_unused_fields(function: ExaminedCallable, roots: Sequence[str],
                        taken: Mapping[Path, object]) -> Iterator[tuple[Path, str]]:
    """The fields of an annotated class that the function does not look at."""
    for root, kind in _list_annotations(function, roots):
        seen = {path[1] for path in taken if path[0] == root and len(path) > 1}
        for name in kind.fields:
            if f".{name}" not in seen:
                yield (root, f".{name}"), "None"


def _list_annotations(function: ExaminedCallable, roots: Sequence[str]) -> Iterator[tuple[str, Holder]]:
    """The NamedTuples and dataclasses with which trees are annotated."""
    return ((root, function.holders[root]) for root in roots if root in function.holders)


def _list_initialised_shapes(function: ExaminedCallable, root: str, sizes: Mapping[str, str],
                             process: CalleeProcess) -> Iterator[
        Mapping[Path, tuple[int, ...] | None]]:
    """The shapes of what the initialisers of the function's module make, those first whose names are like its own."""
    own = function.name.lower()
    for name in sorted(function.makers, key=lambda name: -sum(word in own for word in name.lower().split("_"))):
        given = {parameter.name: text for parameter in function.makers[name]
                 for word, text in sizes.items() if normalise_name(parameter.name) in SYNONYMS[word]}
        if (made := call_initialiser(f"{function.home}:{name}", given, process)) is not None:
            yield {(root, *leaf.path): leaf.shape for leaf in list_tree_leaves(made)}
