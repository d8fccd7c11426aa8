"""Finds which parameter of a layer is which matrix, and how that matrix lies in it.

Names and shapes say it; where they do not, every order is tried. The layouts of a matrix are data.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.scaffold.form import ArrayTemplates
from attnspec.scaffold.lookup import find_role
from attnspec.scaffold.parameters.trees import Leaf
from attnspec.subjects.call import ValuePath as Path

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParameterLayout:
    """How a matrix or bias lies in a parameter.

    axes: as einops writes them, with p for the parts of a fused one.  text: Python; `{w}` is the
    matrix or bias, `{n}` its number of heads, `{parts}` those of a fused one, `{d}` the width of a
    head, and `{at}` the head that it is for, where each head has its own.
    """

    axes: str
    text: str

    @property
    def has_heads(self) -> bool:
        """Says whether heads are an axis of their own."""
        return "h" in re.sub(r"\([^)]*\)", "", self.axes)

    @property
    def is_joined(self) -> bool:
        """Says whether the parts follow one another, each with its own number of heads."""
        return "(p h d)" in self.axes

    def shape(self, sizes: Mapping[str, int]) -> Shape:
        """Returns the shape at these lengths of m, h, d and p."""
        groups = re.findall(r"\([^)]*\)|\S+", self.axes)
        return tuple(math.prod(sizes.get(axis, 1) for axis in group.strip("()").split()) for group in groups)


_JOINED = '{concatenate}([params[f"w_{{part}}"] for part in {parts}], 1)'
_HEADS = 'params[f"w_{{part}}"].reshape(M, heads, -1)'
_BY_HEAD = f"{{stack}}([{_HEADS} for part in {{parts}}], 2)"
_BY_FEATURE = f"{{stack}}([{_HEADS} for part in {{parts}}], 1).swapaxes(1, 3).swapaxes(2, 3)"
_OF_ONE_HEAD = "{w}[:, {at} * {d}:({at} + 1) * {d}]"
_BIASES = 'params[f"b_{{part}}"]'
_BIAS_HEADS = f"{_BIASES}.reshape(heads, -1)"

PARAMETER_LAYOUTS: Mapping[str, tuple[ParameterLayout, ...]] = {
    "inner": (ParameterLayout("(h d) m", "{w}.T"), ParameterLayout("m (h d)", "{w}"),
              ParameterLayout("m h d", "{w}.reshape(M, {n}, -1)"),
              ParameterLayout("h m d", "{w}.reshape(M, {n}, -1).swapaxes(0, 1)"),
              ParameterLayout("h d m", "{w}.T.reshape({n}, -1, M)"),
              ParameterLayout("(h d) m 1", "{w}.T[..., None]"),
              ParameterLayout("(h d) m 1 1", "{w}.T[..., None, None]")),
    "out": (ParameterLayout("m (h d)", "{w}.T"), ParameterLayout("(h d) m", "{w}"),
            ParameterLayout("h d m", "{w}.reshape(heads, -1, {w}.shape[1])"),
            ParameterLayout("m h d", "{w}.T.reshape({w}.shape[1], heads, -1)"),
            ParameterLayout("m (h d) 1", "{w}.T[..., None]"),
            ParameterLayout("m (h d) 1 1", "{w}.T[..., None, None]")),
    "fused": (ParameterLayout("(p h d) m", f"{_JOINED}.T"), ParameterLayout("m (p h d)", _JOINED),
              ParameterLayout("(h p d) m", f"{_BY_HEAD}.reshape(M, -1).T"),
              ParameterLayout("m (h p d)", f"{_BY_HEAD}.reshape(M, -1)"),
              ParameterLayout("(d p h) m", f"{_BY_FEATURE}.reshape(M, -1).T"),
              ParameterLayout("p m (h d)", '{stack}([params[f"w_{{part}}"] for part in {parts}])'),
              ParameterLayout("p (h d) m", '{stack}([params[f"w_{{part}}"].T for part in {parts}])'),
              ParameterLayout("m p h d", f"{{stack}}([{_HEADS} for part in {{parts}}], 1)"),
              ParameterLayout("m h p d", _BY_HEAD),
              ParameterLayout("p m h d", f"{{stack}}([{_HEADS} for part in {{parts}}])"),
              ParameterLayout("p h m d", f"{{stack}}([{_HEADS}.swapaxes(0, 1) for part in {{parts}}])"),
              ParameterLayout("(p h d) m 1", f"{_JOINED}.T[..., None]"),
              ParameterLayout("(p h d) m 1 1", f"{_JOINED}.T[..., None, None]"),
              ParameterLayout("(h p d) m 1", f"{_BY_HEAD}.reshape(M, -1).T[..., None]")),
    "inner bias": (ParameterLayout("(h d)", "{w}"), ParameterLayout("h d", "{w}.reshape({n}, -1)")),
    "of one head": (ParameterLayout("d m", f"{_OF_ONE_HEAD}.T"), ParameterLayout("m d", _OF_ONE_HEAD)),
    "of one head bias": (ParameterLayout("d", "{w}[{at} * {d}:({at} + 1) * {d}]"),),
    "out bias": (ParameterLayout("m", "{w}"),),
    "fused bias": (ParameterLayout("(p h d)", f"{{concatenate}}([{_BIASES} for part in {{parts}}])"),
                   ParameterLayout("(h p d)", f"{{stack}}([{_BIAS_HEADS} for part in {{parts}}], 1).reshape(-1)"),
                   ParameterLayout("(d p h)", f"{{stack}}([{_BIAS_HEADS}.T for part in {{parts}}], 1).reshape(-1)"),
                   ParameterLayout("p (h d)", f"{{stack}}([{_BIASES} for part in {{parts}}])"),
                   ParameterLayout("p h d", f"{{stack}}([{_BIAS_HEADS} for part in {{parts}}])"),
                   ParameterLayout("h p d", f"{{stack}}([{_BIAS_HEADS} for part in {{parts}}], 1)")),
}
"""By what lies in it, the layouts, the usual one first."""

HEAD_PLACE = "{head}"
"""In a path, the place of a head in a list of them."""

_PARTS_BY_ROLE: Mapping[str, tuple[str, ...]] = {"qkv": ("query", "key", "value"), "kv": ("key", "value")}
_KINDS_BY_ROLE: Mapping[str, str] = {"qkv": "fused", "kv": "fused", "out": "out"}
PROJECTIONS = ("query", "key", "value", "out")
_ROLES_BY_LETTER: Mapping[str, str] = {"q": "query", "k": "key", "v": "value"}
_USUAL_PARTS = "PARTS"
"""What an adapter calls query, key and value, in this order."""
_UNNAMED_ROLES: Mapping[int, tuple[str, ...]] = {2: ("qkv", "out"), 3: PROJECTIONS[:3], 4: PROJECTIONS}
"""By number of unnamed matrices, what they may be, in the likeliest order."""


@dataclass(frozen=True, slots=True)
class FilledState:
    """The Python of each parameter of a layer.

    biased_projections: those with a bias.  projects_output: whether the layer projects its output.
    initial_paths: the parameters that keep their initial values.
    """

    expressions: Mapping[Path, str]
    biased_projections: tuple[str, ...]
    projects_output: bool
    initial_paths: tuple[Path, ...] = field(default=())


def is_bias(leaf: Leaf) -> bool:
    """Says whether a leaf is a bias, by its name, or by its shape where the name does not say."""
    last = re.split(r"[^A-Za-z0-9]+", " ".join((leaf.path[-1].strip('[]".'), *leaf.names[-1:])))
    return any(word.lower() in ("b", "bias", "biases") or re.fullmatch(r"b[qkvo]", word) for word in last) or (
        leaf.shape is not None and len(leaf.shape) == 1)


def list_states(leaves: Sequence[Leaf], sizes: Mapping[str, int], words: ArrayTemplates,
                kv_heads: str) -> Iterator[FilledState]:
    """Lists every state that is worth a try.  sizes: of m, h, d and kv, the heads of keys and
    values.  kv_heads: their number, as the adapter says it.
    """
    leaves = _join_heads(leaves, sizes["h"])
    for roles in _list_assignments(leaves):
        if {"query", "key", "value"} <= {part for role in roles.values() for part in _PARTS_BY_ROLE.get(role, (role,))}:
            yield from _fill_layouts(leaves, roles, sizes, replace(words, kv_heads=kv_heads))


def _join_heads(leaves: Sequence[Leaf], heads: int) -> Sequence[Leaf]:
    """Joins parameters that lie in a list with an entry for each head into one, at HEAD_PLACE."""
    common = {leaf.path: tuple(re.sub(r"(?<=[.\[])\d+(?=[.\]])", HEAD_PLACE, step) for step in leaf.path)
              for leaf in leaves}
    several = Counter(path for path in common.values() if HEAD_PLACE in "".join(path))
    if not several or set(several.values()) != {heads}:
        return leaves
    firsts = {common[leaf.path]: leaf for leaf in reversed(leaves)}
    return tuple(replace(firsts[path], path=path) for path in dict.fromkeys(common[leaf.path] for leaf in leaves))


def _list_assignments(leaves: Sequence[Leaf]) -> Iterator[Mapping[Path, str]]:
    """Lists which parameter is which matrix, by the names, or in every order of three or four."""
    kept = [leaf for leaf in leaves if not re.search(r"norm|\bln", " ".join(leaf.path))]
    named = {leaf.path: find_role((*leaf.path, *leaf.names)) for leaf in kept}
    matrices = [leaf.path for leaf in kept if not is_bias(leaf)]
    found = [named[path] for path in matrices if named[path]]
    if len(set(found)) == len(found) == len(matrices) and (len(found) > 1 or found == ["qkv"]):
        yield {path: role for path, role in named.items() if role}
    elif len(matrices) in _UNNAMED_ROLES:
        biases = [leaf.path for leaf in kept if is_bias(leaf)]
        alone = Counter(map(_find_holder, matrices))
        for order in _list_orders([named[path] for path in matrices],
                                  _UNNAMED_ROLES[len(matrices)]):
            of_matrices = dict(zip(matrices, order, strict=True))
            paired = dict(zip(biases, order, strict=True)) if len(biases) == len(matrices) else {}
            beside = {_find_holder(path): role for path, role in of_matrices.items() if alone[_find_holder(path)] == 1}
            yield of_matrices | paired | {path: beside[_find_holder(path)] for path in biases
                                          if _find_holder(path) in beside}
    if len(set(found)) == len(found) < len(matrices) and "out" in found:  # the rest keeps what it is born with
        yield {path: role for path, role in named.items() if role}


def _list_orders(named: Sequence[str], unnamed: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lists unnamed matrices' roles in every order; first as two or more different names say."""
    said = [role for role in named if role in unnamed]
    is_told = len(said) > 1 and len(set(said)) == len(said)
    for order in itertools.permutations(unnamed):
        if not is_told or all(name == role for name, role in zip(named, order, strict=True) if name in said):
            yield order


def _find_holder(path: Path) -> str:
    """Returns what holds a matrix and its bias: `.unify` of `.unify.weight`."""
    whole = "".join(path)
    return whole[:max(whole.rfind("."), whole.rfind("["))]


def _fill_layouts(leaves: Sequence[Leaf], roles: Mapping[Path, str], sizes: Mapping[str, int],
                  words: ArrayTemplates) -> Iterator[FilledState]:
    """Lists the matrices in every layout that fits; those of one kind lie alike."""
    by_kind: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        if role := roles.get(leaf.path):
            by_kind.setdefault(_find_kind(leaf, role), []).append(leaf)
    fitting = [[(kind, way) for way in PARAMETER_LAYOUTS[kind]
                if all(_fits_shape(leaf, way, roles, sizes) for leaf in alike)]
               for kind, alike in by_kind.items()]
    for order, chosen in itertools.product(_list_part_orders(roles),
                                           list(itertools.product(*fitting))):
        ways = dict(chosen)
        if all(leaf.shape for leaf in leaves) or _lie_alike(ways):
            yield _make_state(leaves, roles, ways, replace(words, parts=order))


def _list_part_orders(roles: Mapping[Path, str]) -> Sequence[str]:
    """Lists orders of the parts of a fused matrix: that of its name's letters, the usual one."""
    names = " ".join("".join(path).lower() for path, role in roles.items() if role == "qkv")
    orders = [order for order in itertools.permutations(_ROLES_BY_LETTER) if "".join(order) in names
              and order != (*_ROLES_BY_LETTER,)]
    return (*(str(tuple(_ROLES_BY_LETTER[letter] for letter in order)).replace("'", '"') for order in orders),
            _USUAL_PARTS)


def _lie_alike(ways: Mapping[str, ParameterLayout]) -> bool:
    """Says whether heads are an axis of each bias where they are one of its matrix, as usual."""
    return all(way.has_heads == ways[f"{kind} bias"].has_heads for kind, way in ways.items()
               if kind != "out" and f"{kind} bias" in ways)


def _find_kind(leaf: Leaf, role: str) -> str:
    kind = _KINDS_BY_ROLE.get(role, "inner")
    if kind == "inner" and HEAD_PLACE in "".join(leaf.path):
        kind = "of one head"
    return kind + " bias" * is_bias(leaf)


def _fits_shape(leaf: Leaf, way: ParameterLayout, roles: Mapping[Path, str],
                sizes: Mapping[str, int]) -> bool:
    """Says whether a layout fits a leaf's shape; an unknown shape fits only usual layouts."""
    role = roles[leaf.path]
    heads = [sizes["kv" if part in ("key", "value") else "h"] for part in _PARTS_BY_ROLE.get(role, (role,))]
    is_even = len(set(heads)) == 1
    if not is_even and not way.is_joined:
        return False
    lengths = {**sizes, **({"p": len(heads), "h": heads[0]} if is_even else {"p": 1, "h": sum(heads)})}
    if leaf.shape is None:
        return not way.axes.endswith(" 1") and (not is_bias(leaf) or not way.axes.startswith("p ("))
    return way.shape(lengths) == leaf.shape


def _make_state(leaves: Sequence[Leaf], roles: Mapping[Path, str],
                ways: Mapping[str, ParameterLayout], words: ArrayTemplates) -> FilledState:
    biased = {part for leaf in leaves if is_bias(leaf) and leaf.path in roles
              for part in _PARTS_BY_ROLE.get(roles[leaf.path], (roles[leaf.path],))}
    projects = "out" in roles.values()
    made = {leaf.path: _write_expression(leaf, roles[leaf.path], ways, words) for leaf in leaves if leaf.path in roles}
    left = tuple(leaf.path for leaf in leaves if leaf.path not in roles)
    return FilledState(made, tuple(part for part in PROJECTIONS if part in biased), projects, left)


def _write_expression(leaf: Leaf, role: str, ways: Mapping[str, ParameterLayout],
                      words: ArrayTemplates) -> str:
    letter, kind = "b" if is_bias(leaf) else "w", _find_kind(leaf, role)
    count = words.kv_heads if role in ("key", "value") else "heads"
    return ways[kind].text.format(w=f'params["{letter}_{role}"]', n=count, stack=words.stack,
                                  at="head", d="Dv" if role == "value" else "D",
                                  parts=words.parts if role == "qkv" else "PARTS[1:]",
                                  concatenate=words.concatenate)
