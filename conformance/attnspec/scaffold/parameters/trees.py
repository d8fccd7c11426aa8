"""The parameters of a function that is handed them in trees: dicts, tuples, objects, one in another, and which of
them it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.scaffold.examined import ExaminedCallable, Holder
from attnspec.scaffold.lookup import SYNONYMS, TheirParameter, find_role, normalise_name
from attnspec.scaffold.parameters.asking import call_initialiser
from attnspec.scaffold.parameters.reading import find_parts
from attnspec.scaffold.there import CalleeProcess
from attnspec.subjects.call import ReturnedTree
from attnspec.subjects.call import ValuePath as Path


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
        return Tree(tuple(Leaf(path, shape) for path, shape in made[0].items()), {}, {}) if made else None
    shapes = next((each for each in made if sum(_lies_under(leaf, taken) for leaf in each) > 1), {})
    others, holders = dict(_find_head_counts(taken)), dict(_list_holders(function, roots))
    leaves = tuple(Leaf(leaf, shapes.get(leaf), names) for leaf,
                   names in _list_taken_leaves(taken, shapes) if leaf not in others)
    return Tree(leaves, others | dict(_list_unused_fields(function, roots, taken)), holders)


def _list_taken_leaves(taken: Mapping[Path, tuple[str, ...]],
                       shapes: Iterable[Path]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """What is taken; in the place of a part that is taken further apart by keys that nobody can read, what an
    initialiser makes of it.
    """
    for path, names in taken.items():
        below = [leaf for leaf in shapes if _lies_under(leaf, [path]) and leaf not in taken]
        yield from ((leaf, names) for leaf in below)
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


def _find_head_counts(taken: Mapping[Path, object]) -> Iterator[tuple[Path, str]]:
    """What stands in a tree and is no array: the number of heads."""
    yield from ((path, "heads") for path in taken if normalise_name(path[-1].strip('[]".')) in SYNONYMS["heads"])


def _list_holders(function: ExaminedCallable, roots: Sequence[str]) -> Iterator[tuple[Path, str]]:
    yield from (((root,), kind.name) for root, kind in _list_annotations(function, roots))


def _list_unused_fields(function: ExaminedCallable, roots: Sequence[str],
                        taken: Mapping[Path, object]) -> Iterator[tuple[Path, str]]:
    """The fields of an annotated class that the function does not look at."""
    for root, kind in _list_annotations(function, roots):
        seen = {path[1] for path in taken if path[0] == root and len(path) > 1}
        yield from (((root, f".{name}"), "None") for name in kind.fields if f".{name}" not in seen)


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
