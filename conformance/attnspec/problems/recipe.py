"""A recipe is all that Hypothesis draws: sizes, families, mask, features, a seed and a few integers.

Its text is one line, and the arrays of the case can be made again from it anywhere:
`B2,H4,Hkv2,T5,S7,D8,Dv8;mask=random;families=normal+integers;with=causal+mask;seed=91;cut=3`
Fields that are not in use are left out; a name that is no field of a recipe is a drawn value. How the value of a
keyword is written stands in its definition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, get_args

from attnspec.core.errors import UsageError, hint
from attnspec.core.keywords import VALUES
from attnspec.core.rotary import EVERY_KEYWORD, EVERY_VALUED
from attnspec.core.sizes import MOST_ENTRIES, MOST_HEADS
from attnspec.problems.domain import BiasName, FamilyName, Inputs, MaskName
from attnspec.problems.problem import Sizes

_AXES = tuple(axis.name for axis in fields(Sizes))
FIELDS = ("mask", "families", "with", "bias", "scale", *EVERY_VALUED, "M", "inputs", "seed")
"""The names that a drawn value cannot have."""

MOST_FEATURES = 2**12
"""A layer's features (H·D, M): far above what is drawn."""


@dataclass(frozen=True)
class Recipe:
    """What a case is made from. `features` are the optional keywords in use; `drawn` are the clause's drawn values.

    mask is `none` unless it is a feature; bias, scale and `values` (of the other keywords that have one, by name) count
    only where they are features. M (the model width) and `inputs` (separate, memory: key = value, one: query = key =
    value) belong to layers; M is 0 elsewhere.
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
        return ";".join([self._sizes_text, *(f"{name}={value}" for name, value in self._items())])

    @property
    def undrawn(self) -> Recipe:
        """The recipe of the problem alone."""
        return replace(self, drawn={}) if self.drawn else self

    def value(self, keyword: str) -> Any:  # noqa: ANN401  (by the keyword)
        """The value of a keyword that has one, where it is in use."""
        return self.values.get(keyword, EVERY_VALUED[keyword].unsaid)

    @property
    def _sizes_text(self) -> str:
        return ",".join(f"{axis}{getattr(self.sizes, axis)}" for axis in _AXES)

    def _items(self) -> Iterable[tuple[str, object]]:
        yield "mask", self.mask
        yield "families", "+".join(self.families)
        if self.features:
            yield "with", "+".join(sorted(self.features))
        if "bias" in self.features:
            yield "bias", self.bias
        if "scale" in self.features:
            yield "scale", VALUES["scale"].write(self.scale)
        used = ((name, values) for name, values in EVERY_VALUED.items() if name in self.features)
        yield from ((name, values.write(self.value(name))) for name, values in used)
        if self.M:
            yield "M", self.M
            yield "inputs", self.inputs
        yield "seed", self.seed
        yield from self.drawn.items()

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Read a recipe back from its text.

        Raises UsageError that says which part is wrong, and what could stand there.
        """
        first, *rest = text.strip().split(";")
        given = _parse_fields(rest)
        known = {name: given.pop(name) for name in FIELDS if name in given}
        for needed in ("mask", "families", "seed"):
            if needed not in known:
                raise _broken_recipe_error(f"{needed}=… is missing")
        features = _names(known.get("with", ""), "keyword", EVERY_KEYWORD)
        return cls(
            _sizes(first, is_layer="M" in known),
            _names(known["families"], "value family", get_args(FamilyName)),
            _names(known["mask"], "mask recipe", ("none", *get_args(MaskName)))[0],
            frozenset(features),
            _read_whole_number("seed", known["seed"]),
            {name: _parse_number(name, value) for name, value in given.items()},
            _names(known.get("bias", "normal"), "bias recipe", get_args(BiasName))[0],
            _read_value(VALUES["scale"].read, known.get("scale", "1.0")),
            _read_whole_number("M", known.get("M", "0"), most=MOST_FEATURES),
            _names(known.get("inputs", "separate"), "kind of inputs", get_args(Inputs))[0],
            {name: _read_value(values.read, known[name]) for name, values in EVERY_VALUED.items() if name in known})


def _broken_recipe_error(why: str) -> UsageError:
    end = "" if why.endswith(("?", ".")) else "."
    return UsageError(f"this is no recipe: {why}{end}")


def _parse_fields(parts: Iterable[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name or not value:
            raise _broken_recipe_error(f"{part!r} should read name=value")
        if name in given:
            raise _broken_recipe_error(f"{name} is given twice")
        given[name] = value
    return given


def _sizes(text: str, *, is_layer: bool) -> Sizes:
    pattern = ",".join(rf"{axis}([1-9]\d{{0,6}})" for axis in _AXES)
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise _broken_recipe_error(f"it should begin with sizes like {'2,'.join(_AXES)}2, and begins with {text!r}")
    sizes = Sizes(*map(int, match.groups()))
    if sizes.H % sizes.Hkv:
        raise _broken_recipe_error(f"Hkv={sizes.Hkv} does not divide H={sizes.H}")
    heads = sizes.B * sizes.H
    entries = heads * max(sizes.T * sizes.S, (sizes.T + sizes.S) * max(sizes.D, sizes.Dv))
    features = sizes.H * max(sizes.D, sizes.Dv) if is_layer else 0
    if heads > MOST_HEADS or entries > MOST_ENTRIES or features > MOST_FEATURES:
        raise _broken_recipe_error(f"it has {heads} head slices (at most {MOST_HEADS}), {entries} entries "
                                   f"(at most {MOST_ENTRIES}) and {features} features (at most {MOST_FEATURES})")
    return sizes


def _names(text: str, kind: str, known: Iterable[str]) -> tuple[str, ...]:
    names = tuple(text.split("+")) if text else ()
    for name in names:
        if name not in tuple(known):
            raise _broken_recipe_error(f"{name!r} is not a known {kind}.{hint(name, known)}".rstrip("."))
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
        why = f"{name}={text} is neither a field nor a drawn whole number.{hint(name, FIELDS)}"
        raise _broken_recipe_error(why.rstrip("."))
    return int(text)


def _read_value(reader: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401  (by the keyword)
    try:
        return reader(text)
    except ValueError as error:
        raise _broken_recipe_error(str(error)) from error
