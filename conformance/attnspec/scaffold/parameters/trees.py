"""Finds the parameters of a function that takes them in trees: nested dicts, tuples and objects.

Which parts it takes is read from its source. The reader follows names, loops over written keys,
and the functions that it calls, inner ones too.
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

_ARRAY_ATTRIBUTES = frozenset({"T", "mT", "shape", "dtype", "ndim", "size", "reshape", "transpose",
                               "astype", "swapaxes", "view", "dot", "permute", "to", "mean", "sum",
                               "copy", "at", "flatten", "ravel"})
"""The attributes of arrays, which take no tree apart."""
_DEEPEST_CALL = 4

Key = str | int
Inner = ast.FunctionDef | ast.Lambda


def find_parts(functions: Sequence[ExaminedFunction], at: int, names: Mapping[str, Path],
               keys: Mapping[str, Key] | None = None,
               deepest: int = _DEEPEST_CALL) -> Mapping[Path, tuple[str, ...]]:
    """Finds the parts of trees that a function takes, by path, with the names that each is given.
    A part that is taken further apart by readable keys is left out.  at: the place of the function
    among `functions`.  names: by name in the function, the part that it stands for.  keys: by
    name, a key that the function is passed.
    """
    try:
        top = ast.parse(textwrap.dedent(functions[at].source)).body[0]
    except (IndexError, SyntaxError, ValueError):
        return {}
    reader = _Reader(functions, functions[at].calls, dict(names), dict(keys or {}), deepest)
    reader.read(top.body if isinstance(top, ast.FunctionDef) else [top])
    found = reader.found_parts

    def is_last(path: Path) -> bool:
        """Says whether nothing that is taken lies further inside."""
        return not any(other != path and other[:len(path)] == path for other in found)

    return {path: reader.find_given_names(path) for path in found
            if path in reader.unread_parts or is_last(path)}


@dataclass(slots=True)
class _Reader(ast.NodeVisitor):
    """Reads a function and follows its names.

    call_places: by name of a called function, its place in `functions`.  names: by name, the part
    that it stands for.  keys: by name, the key.  found_parts: the parts that are taken.
    unread_parts: those taken apart by unreadable keys.  given_names: by part, its name.
    inner_functions: by name, a function inside.  followed_functions: the inner ones that were read
    at a call.
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
        """Reads a function, and last those inside of it that no readable call reaches."""
        self._visit_all(statements)
        for name in self.inner_functions.keys() - self.followed_functions:
            self._visit_all(_list_statements(self.inner_functions[name]))

    def find_given_names(self, path: Path) -> tuple[str, ...]:
        """Returns the names that a part and what holds it were given."""
        holders = (path[:end] for end in range(1, len(path) + 1))
        own = (self.given_names[holder] for holder in holders if holder in self.given_names)
        return (*own, *self.found_parts[path])

    def path_of(self, node: ast.AST) -> Path | None:
        """Returns the part that an expression stands for, or None."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        step = ""
        if isinstance(node, ast.Subscript) and (key := self.key_of(node.slice)) is not None:
            step = f'["{key}"]' if isinstance(key, str) else f"[{key!r}]"
        elif isinstance(node, ast.Attribute) and node.attr not in _ARRAY_ATTRIBUTES:
            step = f".{node.attr}"
        if not step or not isinstance(node, ast.Subscript | ast.Attribute):
            return None
        holder = self.path_of(node.value)
        return None if holder is None else (*holder, step)

    def key_of(self, node: ast.AST) -> Key | None:
        """Returns the key that an expression such as `"w_" + name` stands for, or None."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str | int) else None
        if isinstance(node, ast.Name):
            return self.keys.get(node.id)
        if isinstance(node, ast.FormattedValue):
            return self.key_of(node.value)
        parts: Sequence[ast.expr] = []
        if isinstance(node, ast.JoinedStr):
            parts = node.values
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [node.left, node.right]
        found = [self.key_of(part) for part in parts]
        return "".join(map(str, found)) if found and None not in found else None

    def generic_visit(self, node: ast.AST) -> None:
        """Keeps a part that is taken, and visits what is inside of anything else."""
        path = self.path_of(node) if isinstance(node, ast.expr) else None
        if path is None:
            if isinstance(node, ast.Subscript) and (whole := self.path_of(node.value)) is not None:
                self.unread_parts.add(whole)
            ast.NodeVisitor.generic_visit(self, node)
        else:
            self.found_parts.setdefault(path, ())

    def visit_Assign(self, node: ast.Assign) -> None:
        """Names parts by `p = params["attn"]` and `wq, wk = params`."""
        for target in node.targets:
            self._bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Names a part by `p: Linear = params["attn"]`."""
        if node.value is not None:
            self._bind(node.target, node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Keeps an inner function; it is read at its calls, where its arguments are known."""
        self.inner_functions[node.name] = node

    def visit_For(self, node: ast.For) -> None:
        """Reads the body of `for name in ("query", "key")` once for each key or part."""
        for _ in self._rounds([(node.target, node.iter)]):
            self._visit_all(node.body)

    def visit_ListComp(self, node: (ast.ListComp | ast.GeneratorExp | ast.SetComp
                                    | ast.DictComp)) -> None:
        """Reads a comprehension once for each key or part."""
        taken = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for _ in self._rounds([(each.target, each.iter) for each in node.generators]):
            self._visit_all([*taken, *(test for each in node.generators for test in each.ifs)])

    visit_GeneratorExp = visit_SetComp = visit_DictComp = visit_ListComp  # noqa: N815  (ast names them)

    def _rounds(self, loops: Sequence[tuple[ast.expr, ast.expr]]) -> Iterator[None]:
        """Yields once for each round of nested loops; once for a loop over unknown elements."""
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
        """Names the part, key or function that a value is, and visits any other value."""
        path, key = self.path_of(value), self.key_of(value)
        if path is not None:
            self._name(target, path)
        elif isinstance(target, ast.Name) and key is not None:
            self.keys[target.id] = key
        elif isinstance(target, ast.Name) and isinstance(value, ast.Lambda):
            self.inner_functions[target.id] = value
        elif (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
              and len(target.elts) == len(value.elts)):
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
        """Follows a part into the function that is called, if that is in the same module."""
        calls = _expand_map(node) or [node]
        followed = [self._follow(each) for each in calls] if self.deepest else [False]
        if not all(followed):
            self._visit_all(_list_call_arguments(node))
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func)

    def _follow(self, node: ast.Call) -> bool:
        """Reads the function that is called and its other arguments; False if it is not known."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        inner = node.func if isinstance(node.func, ast.Lambda) else self.inner_functions.get(name)
        callee = self.call_places.get(name)
        names: tuple[str, ...] = ()
        if inner:
            names = _list_own_parameters(inner)
        elif callee is not None:
            names = tuple(each.name for each in self.functions[callee].parameters)
        handed, keys = self._match_parts(node, names), self._match_keys(node, names)
        if inner:
            self._read_inside(name, inner, handed, keys)
        elif callee is not None and handed:
            self.found_parts |= find_parts(self.functions, callee, handed, keys, self.deepest - 1)
        else:
            return False
        self._visit_all([part for part in _list_call_arguments(node) if self.path_of(part) is None])
        return True

    def _read_inside(self, name: str, inner: Inner, handed: Mapping[str, Path],
                     keys: Mapping[str, Key]) -> None:
        """Reads an inner function, which also sees the names around it."""
        self.followed_functions.add(name)
        replace(self, names={**self.names, **handed}, keys={**self.keys, **keys},
                deepest=self.deepest - 1)._visit_all(_list_statements(inner))

    def _match_parts(self, node: ast.Call, names: Sequence[str]) -> dict[str, Path]:
        """Returns, by parameter of the called function, the part that it is passed."""
        given = _match_arguments(node, names)
        paths = {name: self.path_of(part) for name, part in given.items()}
        handed = {name: path for name, path in paths.items() if path is not None}
        for each in node.keywords:
            if each.arg is None and (path := self.path_of(each.value)) is not None:
                # `linear(x, **part)`: whatever is left of its parameters
                handed |= {name: (*path, f'["{name}"]') for name in names if name not in given}
        return handed

    def _match_keys(self, node: ast.Call, names: Sequence[str]) -> dict[str, Key]:
        """Returns, by parameter of the called function, the key that it is passed."""
        given = _match_arguments(node, names)
        keys = {name: self.key_of(part) for name, part in given.items()}
        return {name: key for name, key in keys.items() if key is not None}

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _expand_map(node: ast.Call) -> Sequence[ast.Call]:
    """Lists the calls that `map(project, ("query", "key"))` makes; none of any other call."""
    match node:
        case ast.Call(func=ast.Name(id="map"), args=[function, over]):
            return [ast.Call(function, [each], []) for each in _list_elements(over) or ()]
    return ()


def _list_call_arguments(node: ast.Call) -> Sequence[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def _match_arguments(node: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    return {**dict(zip(names, node.args, strict=False)),
            **{each.arg: each.value for each in node.keywords if each.arg is not None}}


def _list_elements(over: ast.expr) -> Sequence[ast.expr] | None:
    """Lists the elements of a written loop: `("q", "k")`, or the letters of `"qkv"`."""
    if isinstance(over, ast.Tuple | ast.List):
        return over.elts
    if isinstance(over, ast.Constant) and isinstance(over.value, str):
        return [ast.Constant(letter) for letter in over.value]
    return None


def _list_own_parameters(inner: Inner) -> tuple[str, ...]:
    arguments = inner.args
    return tuple(each.arg for each in (*arguments.posonlyargs, *arguments.args,
                                       *arguments.kwonlyargs))


def _list_statements(inner: Inner) -> Sequence[ast.AST]:
    return inner.body if isinstance(inner, ast.FunctionDef) else [inner.body]


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in a tree. shape: if known. names: those of it and its holders where it is used."""

    path: Path
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()


def list_tree_leaves(tree: ReturnedTree) -> tuple[Leaf, ...]:
    """Lists the leaves of a tree with their shapes."""
    return tuple(Leaf(part.path, part.shape or ()) for part in tree.parts)


_ARRAY_ROLES = ("query", "key", "value", "packed", "packed_pair")


@dataclass(frozen=True, slots=True)
class Tree:
    """All that a function takes in trees.

    leaves: the arrays.  other_values: by path, the Python of anything else.  holders: by path of
    an object with attributes, its class as `module:name`.
    """

    leaves: tuple[Leaf, ...]
    other_values: Mapping[Path, str]
    holders: Mapping[Path, str]


def find_roots(parameters: Sequence[TheirParameter]) -> tuple[str, ...]:
    """Lists the parameters that are trees of parameters, or matrices and biases themselves."""
    required = [each.name for each in parameters if each.is_required]
    for name in required:
        if normalise_name(name) in SYNONYMS["params"]:
            return (name,)
    array_names = {name for word in _ARRAY_ROLES for name in SYNONYMS[word]}
    own = {name: find_role((name,)) for name in required
           if normalise_name(name) not in array_names}
    found = {name: role for name, role in own.items() if role}
    if "qkv" in found.values():  # what else is called after keys and values is something beside
        found = {name: role for name, role in found.items() if role in ("qkv", "out")}
    return tuple(found) if {"qkv", "out"} & set(found.values()) and len(found) > 1 else ()


def find_tree(function: ExaminedCallable, roots: Sequence[str], sizes: Mapping[str, str],
              process: CalleeProcess) -> Tree | None:
    """Finds what a function takes in its trees, or None if that cannot be found out.  sizes: by
    what its parameter means, the Python of what an initialiser is given.
    """
    taken = _find_taken_parts(function, roots)
    made = list(_list_initialised_shapes(function, roots[0], sizes, process))
    if not taken:  # the source does not tell, or picks by names that it makes itself
        if not made:
            return None
        return Tree(tuple(Leaf(path, shape) for path, shape in made[0].items()), {}, {})
    fitting = (each for each in made if sum(_lies_under(leaf, taken) for leaf in each) > 1)
    shapes = next(fitting, {})
    others = {path: "heads" for path in taken
              if normalise_name(path[-1].strip('[]".')) in SYNONYMS["heads"]}
    holders: dict[Path, str] = {}
    for root, kind in _list_annotations(function, roots):
        holders[(root,)] = kind.name
    leaves = tuple(Leaf(leaf, shapes.get(leaf), names)
                   for leaf, names in _list_taken_leaves(taken, shapes) if leaf not in others)
    return Tree(leaves, others | dict(_list_unused_fields(function, roots, taken)), holders)


def _list_taken_leaves(taken: Mapping[Path, tuple[str, ...]],
                       shapes: Iterable[Path]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Lists the taken parts with names; a part of unreadable keys as an initialiser makes it."""
    for path, names in taken.items():
        below = [leaf for leaf in shapes if _lies_under(leaf, [path]) and leaf not in taken]
        for leaf in below:
            yield leaf, names
        if not below and not any(other != path and _lies_under(other, [path]) for other in taken):
            yield path, names


def _lies_under(leaf: Path, taken: Iterable[Path]) -> bool:
    return any(leaf[:len(path)] == path for path in taken)


def _find_taken_parts(function: ExaminedCallable,
                      roots: Sequence[str]) -> Mapping[Path, tuple[str, ...]]:
    """Finds the parts taken of the trees; a parameter named after a matrix may have methods."""
    found: dict[Path, tuple[str, ...]] = {}
    parts = find_parts(function.functions, 0, {root: (root,) for root in roots})
    for path, names in parts.items():
        is_array = bool(find_role(path[:1])) and any(step.startswith(".") for step in path[1:])
        found[path[:1] if is_array else path] = names
    kept = {path: names for path, names in found.items() if len(path) > 1 or find_role(path)}
    return dict(sorted(kept.items(), key=lambda each: roots.index(each[0][0])))


def _list_unused_fields(function: ExaminedCallable, roots: Sequence[str],
                        taken: Mapping[Path, object]) -> Iterator[tuple[Path, str]]:
    """Lists the fields of annotated classes that the function does not read."""
    for root, kind in _list_annotations(function, roots):
        seen = {path[1] for path in taken if path[0] == root and len(path) > 1}
        for name in kind.fields:
            if f".{name}" not in seen:
                yield (root, f".{name}"), "None"


def _list_annotations(function: ExaminedCallable,
                      roots: Sequence[str]) -> Iterator[tuple[str, Holder]]:
    """Lists the NamedTuples and dataclasses with which trees are annotated."""
    return ((root, function.holders[root]) for root in roots if root in function.holders)


def _list_initialised_shapes(
    function: ExaminedCallable, root: str, sizes: Mapping[str, str], process: CalleeProcess,
) -> Iterator[Mapping[Path, tuple[int, ...] | None]]:
    """Lists the shapes that the module's initialisers make, the likeliest initialiser first."""
    def count_words(name: str) -> int:
        """Counts the words of a name that stand in the function's own."""
        return sum(word in function.name.lower() for word in name.lower().split("_"))

    for name in sorted(function.makers, key=count_words, reverse=True):
        given = {parameter.name: text for parameter in function.makers[name]
                 for word, text in sizes.items()
                 if normalise_name(parameter.name) in SYNONYMS[word]}
        if (made := call_initialiser(f"{function.home}:{name}", given, process)) is not None:
            yield {(root, *leaf.path): leaf.shape for leaf in list_tree_leaves(made)}
