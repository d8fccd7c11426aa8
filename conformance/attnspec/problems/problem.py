"""Defines problems, the inputs of attention, and recipes, from which they are made.

A recipe is all that Hypothesis draws: sizes, families, mask, features, a seed and a few integers.
Its text is one line, and the arrays of the case can be made again from it anywhere:
`B2,H4,Hkv2,T5,S7,D8,Dv8;mask=random;families=normal+integers;with=causal+mask;seed=91;cut=3`

Fields that are not in use are left out; a name that is no field of a recipe is a drawn value. How
the value of a keyword is written stands in its definition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, get_args, overload

import numpy as np
from numpy.typing import NDArray

from attnspec.core.dtype import DTYPES
from attnspec.core.errors import UsageError, hint
from attnspec.core.forms import EVERY_KEYWORD, EVERY_VALUED
from attnspec.core.keywords import CACHED, VALUES, KeywordArguments
from attnspec.core.nouns import DType
from attnspec.core.sizes import MOST_ENTRIES, MOST_HEADS
from attnspec.problems.domain import BiasName, FamilyName, Inputs, MaskName

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    """B batch, H query heads, Hkv key/value heads, T queries, S keys (past ones included), D head
    width, Dv value head width.
    """

    B: int
    H: int
    Hkv: int
    T: int
    S: int
    D: int
    Dv: int

    @property
    def by_axis(self) -> dict[str, int]:
        """The lengths by the names of the axes."""
        return {"B": self.B, "H": self.H, "Hkv": self.Hkv, "T": self.T, "S": self.S, "D": self.D,
                "Dv": self.Dv}

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.by_axis.items())


_WORK_PER_LOGIT = 100
"""Multiply-adds for a logit beside its products with D and Dv: an exponential, and the bound."""

_WORK_PER_ENTRY = 40
"""What an entry of query, key or value costs: it is drawn, rounded and copied."""


def count_work(sizes: Sizes) -> int:
    """About how many multiply-adds a call costs, with what is computed beside it.

    B·H·(T·S·(D + Dv + 100) + 40·(T + S)·(D + Dv)).
    """
    widths, T, S = sizes.D + sizes.Dv, sizes.T, sizes.S
    work_of_head = T * S * (widths + _WORK_PER_LOGIT) + _WORK_PER_ENTRY * (T + S) * widths
    return sizes.B * sizes.H * work_of_head


def count_logits(sizes: Sizes) -> int:
    """The number of dot products of a problem of these sizes: B·H·T·S."""
    return sizes.B * sizes.H * sizes.T * sizes.S


@lru_cache(maxsize=256)
def _measure_sizes(query: tuple[int, ...], value: tuple[int, ...], past: int) -> Sizes:
    """The sizes of a problem with these shapes of arrays; a case asks some thirty times."""
    B, H, T, D = query
    Hkv, S, Dv = value[1:]
    return Sizes(B, H, Hkv, T, S + past, D, Dv)


@dataclass(frozen=True, slots=True, eq=False)
class Problem(KeywordArguments[Array]):
    """The input of attention: query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv).

    All are in the dtype under test and private to the holder. Where P keys are past, key and value
    have S - P.  of_parameters: the gradients of a layer's parameters are asked for, with those of
    the inputs.
    """

    dtype: DType
    query: Array
    key: Array
    value: Array
    of_parameters: bool = field(default=False, kw_only=True)

    @property
    def sizes(self) -> Sizes:
        """The lengths of the axes."""
        return _measure_sizes(self.query.shape, self.value.shape, self.past)

    @property
    def past(self) -> int:
        """How many keys are past ones."""
        return int(getattr(self, CACHED[0]).shape[2]) if self.has_past else 0

    @property
    def has_past(self) -> bool:
        """Whether past keys are handed over, be it an empty array of them."""
        return getattr(self, CACHED[0]) is not None

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} {self.dtype.value}{used}"


@dataclass(frozen=True, slots=True, eq=False)
class LayerProblem(KeywordArguments[Array]):
    """The input of a layer: query (B,T,M), key and value (B,S,M), and its parameters (x @ W + b).

    Every projection is exact in the dtype: what is left to judge is attention itself and the
    output projection.
    """

    dtype: DType
    query: Array
    key: Array
    value: Array
    params: Mapping[str, Array]
    heads: int
    kv_heads: int

    @property
    def sizes(self) -> Sizes:
        """The lengths of the axes; M is `query.shape[-1]`."""
        B, T, _ = self.query.shape
        D = self.params["w_query"].shape[1] // self.heads
        Dv = self.params["w_value"].shape[1] // self.kv_heads
        return Sizes(B, self.heads, self.kv_heads, T, self.key.shape[1], D, Dv)

    @property
    def has_past(self) -> bool:
        """False: a layer projects its own keys, and is handed no past ones."""
        return False

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} M={self.query.shape[-1]} {self.dtype.value}{used}"


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of a dtype, from ml_dtypes where NumPy has none."""
    if DTYPES[dtype].is_of_numpy:
        return np.dtype(dtype.value)
    import ml_dtypes  # noqa: PLC0415  (weight: only such a dtype needs it)

    kind: type = getattr(ml_dtypes, dtype.value)
    return np.dtype(kind)


CACHED_INPUTS = ("key", "value")
"""The inputs that follow the arrays of earlier calls."""

INPUTS = ("query", *CACHED_INPUTS)

Lays = Mapping[str, Callable[[Array], Array]]
"""By input, how its entries lie in the form of a call: from (B,H,T,·), or of keys (B,Hkv,S,·).

Heads and features are the last axes there. Inputs that lie as in a problem are left out.
"""

DENSE: Lays = MappingProxyType({})
"""Every input lies as in a problem."""


@overload
def join_past(problem: Problem) -> Problem: ...
@overload
def join_past(problem: Problem | LayerProblem) -> Problem | LayerProblem: ...
def join_past(problem: Problem | LayerProblem) -> Problem | LayerProblem:
    """The problem with past and new keys and values in one array each, and nothing handed over as
    past.

    What counts from a query's own place does not change.
    """
    if getattr(problem, CACHED[0]) is None:
        return problem
    arrays = {name: np.concatenate((getattr(problem, past), getattr(problem, name)), axis=2)
              for name, past in zip(CACHED_INPUTS, CACHED, strict=True)}
    return problem.but(**dict.fromkeys(CACHED), **arrays)


def with_gaps(array: Array) -> Array:
    """The array, of any shape, as every second entry along every axis of a larger memory."""
    # zeros in the gaps: who ignores strides then misreads the same each time
    memory = np.zeros([2 * length for length in array.shape], array.dtype)
    view = memory[tuple(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def heads_last(array: Array) -> Array:
    """An array (B,H,T,D), or alike, as a view of memory that lies (B,T,H,D)."""
    return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)


# Recipes


_SIZE_AXES = tuple(axis.name for axis in fields(Sizes))
RECIPE_FIELDS = ("mask", "families", "with", "bias", "scale", *EVERY_VALUED, "M", "inputs", "seed")
"""The names that a drawn value cannot have."""

MOST_FEATURES = 2**12
"""Upper limit of a layer's features (H·D, M) in a recipe: far above what is drawn."""


@dataclass(frozen=True)
class Recipe:
    """What a case is made from.

    features: the optional keywords in use.  drawn: the clause's drawn values.
    mask: `none` unless it is a feature.
    bias, scale, values: used only where they are features; `values` has those of other keywords by
    name.
    M: the model width of a layer, else 0.
    inputs: of a layer: separate, memory (key = value), or one (query = key = value).
    """

    sizes: Sizes
    families: tuple[str, ...]
    mask: str
    features: frozenset[str]
    seed: int
    drawn: Mapping[str, int] = field(default_factory=dict)
    bias: str = "normal"
    scale: float = 1.0
    M: int = 0
    inputs: str = "separate"
    values: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """The recipe on one line; `Recipe.parse` reads it back."""
        items: dict[str, object] = {"mask": self.mask, "families": "+".join(self.families)}
        if self.features:
            items["with"] = "+".join(sorted(self.features))
        if "bias" in self.features:
            items["bias"] = self.bias
        if "scale" in self.features:
            items["scale"] = VALUES["scale"].write(self.scale)
        for name, values in EVERY_VALUED.items():
            if name in self.features:
                items[name] = values.write(self.value(name))
        if self.M:
            items |= {"M": self.M, "inputs": self.inputs}
        items |= {"seed": self.seed, **self.drawn}
        sizes = ",".join(f"{axis}{getattr(self.sizes, axis)}" for axis in _SIZE_AXES)
        return ";".join([sizes, *(f"{name}={value}" for name, value in items.items())])

    @property
    def without_drawn(self) -> Recipe:
        """The recipe of the problem alone."""
        return replace(self, drawn={}) if self.drawn else self

    def value(self, keyword: str) -> Any:  # noqa: ANN401  (by the keyword)
        """The value of a keyword that has one, where it is in use."""
        return self.values.get(keyword, EVERY_VALUED[keyword].unsaid)

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Reads a recipe back from its text.

        Raises UsageError that says which part is wrong, and what could stand there.
        """
        first, *rest = text.strip().split(";")
        texts = _parse_fields(rest)
        own = {name: texts.pop(name) for name in RECIPE_FIELDS if name in texts}
        for required in ("mask", "families", "seed"):
            if required not in own:
                raise _broken_recipe_error(f"{required}=… is missing")
        features = _read_names(own.get("with", ""), "keyword", EVERY_KEYWORD)
        return cls(
            _read_sizes(first, is_layer="M" in own),
            _read_names(own["families"], "value family", get_args(FamilyName)),
            _read_names(own["mask"], "mask recipe", ("none", *get_args(MaskName)))[0],
            frozenset(features),
            _read_whole_number("seed", own["seed"]),
            {name: _parse_number(name, value) for name, value in texts.items()},
            _read_names(own.get("bias", "normal"), "bias recipe", get_args(BiasName))[0],
            _read_value(VALUES["scale"].read, own.get("scale", "1.0")),
            _read_whole_number("M", own.get("M", "0"), most=MOST_FEATURES),
            _read_names(own.get("inputs", "separate"), "kind of inputs", get_args(Inputs))[0],
            {name: _read_value(values.read, own[name]) for name, values in EVERY_VALUED.items()
             if name in own})


def _broken_recipe_error(why: str) -> UsageError:
    end = "" if why.endswith(("?", ".")) else "."
    return UsageError(f"this is no recipe: {why}{end}")


def _parse_fields(parts: Iterable[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name or not value:
            raise _broken_recipe_error(f"{part!r} should read name=value")
        if name in texts:
            raise _broken_recipe_error(f"{name} is given twice")
        texts[name] = value
    return texts


def _read_sizes(text: str, *, is_layer: bool) -> Sizes:
    # seven digits: what is longer is a mistake, and would take all memory
    pattern = ",".join(rf"{axis}([1-9]\d{{0,6}})" for axis in _SIZE_AXES)
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise _broken_recipe_error(f"it should begin with sizes like {'2,'.join(_SIZE_AXES)}2, "
                                   f"and begins with {text!r}")
    sizes = Sizes(*map(int, match.groups()))
    if sizes.H % sizes.Hkv:
        raise _broken_recipe_error(f"Hkv={sizes.Hkv} does not divide H={sizes.H}")
    # a recipe may come from outside, so that its cost is bounded before anything is made
    heads = sizes.B * sizes.H
    entries = heads * max(sizes.T * sizes.S, (sizes.T + sizes.S) * max(sizes.D, sizes.Dv))
    features = sizes.H * max(sizes.D, sizes.Dv) if is_layer else 0
    if heads > MOST_HEADS or entries > MOST_ENTRIES or features > MOST_FEATURES:
        raise _broken_recipe_error(
            f"it has {heads} head slices (at most {MOST_HEADS}), {entries} entries (at most "
            f"{MOST_ENTRIES}) and {features} features (at most {MOST_FEATURES})")
    return sizes


def _read_names(text: str, kind: str, known: Iterable[str]) -> tuple[str, ...]:
    names = tuple(text.split("+")) if text else ()
    for name in names:
        if name not in tuple(known):
            raise _broken_recipe_error(
                f"{name!r} is not a known {kind}.{hint(name, known)}".rstrip("."))
    return names


def _read_whole_number(name: str, text: str, *, most: int = 10**20) -> int:
    if not re.fullmatch(r"\d{1,20}", text, re.ASCII):
        raise _broken_recipe_error(f"{name} should be a whole number, not {text!r}")
    if int(text) > most:
        raise _broken_recipe_error(f"{name} can be {most} at most, not {text}")
    return int(text)


def _parse_number(name: str, text: str) -> int:
    # a mistyped field name lands here, so name the fields too
    if not name.isidentifier() or not re.fullmatch(r"\d{1,20}", text, re.ASCII):
        why = (f"{name}={text} is neither a field nor a drawn whole "
               f"number.{hint(name, RECIPE_FIELDS)}")
        raise _broken_recipe_error(why.rstrip("."))
    return int(text)


def _read_value(reader: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401  (by the keyword)
    try:
        return reader(text)
    except ValueError as error:
        raise _broken_recipe_error(str(error)) from error
