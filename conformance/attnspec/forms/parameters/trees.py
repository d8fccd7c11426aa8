"""The parameters of a function that is handed them in trees: dicts, tuples, objects, one in another.

Which there are is read in the function's own source, where it takes the trees apart; their shapes are those of what an
initialiser of the same module makes (`init_attention`), if there is one.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnspec.forms.form import Path
from attnspec.forms.lookup import Parameter, parameters_of
from attnspec.forms.parameters.leaves import Leaf, leaves_in
from attnspec.forms.parameters.taken import parts_taken
from attnspec.forms.words import SYNONYMS, plain, role_of

_ARRAYS = ("query", "key", "value", "packed", "packed_pair")


@dataclass(frozen=True, slots=True)
class Tree:
    """The arrays in all trees that a function is handed; what else stands in them, as Python; and by path `module:name`
    of the class of what has attributes.
    """

    leaves: tuple[Leaf, ...]
    others: Mapping[Path, str]
    holders: Mapping[Path, str]


def roots_of(parameters: Sequence[Parameter]) -> tuple[str, ...]:
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
