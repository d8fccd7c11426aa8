"""What the type of a word's argument means: its form, its closed list, its name in words, its JSON Schema.

An argument's type may be: bool, int, float, str, `Literal` of texts, an enumeration (by value), `Drawn`, `RunName`,
`tuple[X, ...]`, `Sequence[X]`, `frozenset[X]`, `tuple[X, Y]`, `Mapping[str, X]`, `X | Y`, `X | None`,
`Annotated[number, Between(low, high)]`, `Annotated[float, PowerOfTwo()]` and `Annotated[Drawn, Meaning(…)]`. A function
typed otherwise is our mistake: TypeError.
"""

from __future__ import annotations

import enum
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType

from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS

Drawn = NewType("Drawn", int)      # in Python the drawn number; in YAML the name it has under `given: draw:`
RunName = NewType("RunName", str)  # the name of one of the clause's runs
ORIGINAL = RunName("original")     # the run of a clause that names none

Hint = Any  # types, NewTypes, Literals and unions have no common type


@dataclass(frozen=True, slots=True)
class Between:
    """The range of a number, ends included: `Annotated[float, Between(0, 1)]`."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class PowerOfTwo:
    """A number whose product with another is exact, and never 0: 2, 0.5, -4 …"""

    def has(self, number: float) -> bool:
        """Whether the number is one."""
        return abs(math.frexp(number)[0]) == 0.5


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a drawn number stands for: a word of `draw` gives it, an argument wants it."""

    noun: str


ROW, COUNT, HEAD = Meaning("a query row"), Meaning("how many to keep"), Meaning("a head")
SEED, STEP = Meaning("a seed"), Meaning("a number to add")
DrawnRow = Annotated[Drawn, ROW]
DrawnCount = Annotated[Drawn, COUNT]
DrawnSeed = Annotated[Drawn, SEED]
DrawnStep = Annotated[Drawn, STEP]


if TYPE_CHECKING:
    KeywordLeftOut = str
else:
    # what is seen and what logits are; of two that are given together, the first stands for both
    KeywordLeftOut = Literal[tuple(
        word.name for word in KEYWORDS.values() if word.acts in (Acts.VISIBILITY, Acts.KEYS, Acts.LOGITS)
        and list(KEYWORDS).index(word.beside or word.name) >= list(KEYWORDS).index(word.name))]
"""A keyword without which a call can be made again."""


def meaning_of(hint: Hint) -> Meaning | None:
    """What an argument that names a drawn value wants it to stand for; None of any other."""
    inner: tuple[object, ...] = typing.get_args(hint)
    found = next((each for each in inner if isinstance(each, Meaning)), None)
    return found or next(filter(None, map(meaning_of, inner)), None)


class TypeForm(enum.Enum):
    """How a type is built."""

    PLAIN = "plain"
    ANNOTATED = "annotated"
    UNION = "union"
    CHOICE = "choice"
    LIST = "list"
    PAIR = "pair"  # a list of fixed length
    MAPPING = "mapping"


_FORMS: Mapping[object, TypeForm] = {
    Literal: TypeForm.CHOICE, typing.Annotated: TypeForm.ANNOTATED, typing.Union: TypeForm.UNION,
    types.UnionType: TypeForm.UNION, frozenset: TypeForm.LIST, Sequence: TypeForm.LIST, Mapping: TypeForm.MAPPING}
_NAMES: Mapping[object, str] = {
    bool: "true or false", int: "a whole number", float: "a finite number", str: "text",
    Drawn: "the name of a drawn value", RunName: "the name of a run", type(None): "nothing"}
_SPELLED: Mapping[object, tuple[type, ...]] = {
    bool: (bool,), int: (int,), float: (int, float), str: (str,), Drawn: (str,), RunName: (str,),
    type(None): (type(None),), TypeForm.LIST: (list,), TypeForm.PAIR: (list,), TypeForm.MAPPING: (dict,),
    TypeForm.CHOICE: (str,)}
_NAMED = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}
_SCHEMAS: Mapping[object, Mapping[str, object]] = {
    bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}, str: {"type": "string"},
    type(None): {"type": "null"},
    Drawn: _NAMED | {"description": "the name of a value drawn under `given: draw:`"},
    RunName: _NAMED | {"description": "the name of one of this clause's runs"}}


def form_of(hint: Hint) -> TypeForm:
    """How the type is built."""
    origin: object = typing.get_origin(hint)
    if origin is tuple:
        return TypeForm.LIST if typing.get_args(hint)[-1] is Ellipsis else TypeForm.PAIR
    if origin in _FORMS:
        return _FORMS[origin]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return TypeForm.CHOICE
    if hint in _NAMES:
        return TypeForm.PLAIN
    raise TypeError(f"{hint} cannot be the type of a word's argument; see {__name__}")


def choices(hint: Hint) -> dict[str, object]:
    """A closed list: what YAML spells, and what it stands for."""
    origin: object = typing.get_origin(hint)
    if origin is Literal:
        return {str(option): option for option in typing.get_args(hint)}
    return {str(member.value): member for member in hint}


def is_spelled_by(hint: Hint, value: object) -> bool:
    """Whether the type is spelled with the YAML kind of `value` (text, number, list, mapping …)."""
    form = form_of(hint)
    if form in (TypeForm.ANNOTATED, TypeForm.UNION):
        options = typing.get_args(hint)
        return any(is_spelled_by(option, value) for option in (options[:1] if form is TypeForm.ANNOTATED else options))
    kinds = _SPELLED[hint if form is TypeForm.PLAIN else form]
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def expected(hint: Hint) -> str:
    """What the type asks for, in words: `a whole number`, `a list of …`."""
    options = typing.get_args(hint)
    words: Mapping[TypeForm, Callable[[], str]] = {
        TypeForm.PLAIN: lambda: _NAMES[hint],
        TypeForm.ANNOTATED: lambda: expected(options[0]),
        TypeForm.UNION: lambda: " or ".join(expected(option) for option in options if option is not type(None)),
        TypeForm.CHOICE: lambda: f"one of {', '.join(choices(hint))}",
        TypeForm.LIST: lambda: f"a list, each entry {expected(options[0])}",
        TypeForm.PAIR: lambda: f"a list of {len(options)}: {', then '.join(expected(option) for option in options)}",
        TypeForm.MAPPING: lambda: f"a mapping, each value {expected(options[1])}"}
    return words[form_of(hint)]()


def schema_of(hint: Hint) -> dict[str, object]:
    """The JSON Schema of the type."""
    options = typing.get_args(hint)
    schemas: Mapping[TypeForm, Callable[[], Mapping[str, object]]] = {
        TypeForm.PLAIN: lambda: _SCHEMAS[hint],
        TypeForm.ANNOTATED: lambda: schema_of(options[0]) | _limits(options[1:]),
        TypeForm.UNION: lambda: {"anyOf": [schema_of(option) for option in options]},
        TypeForm.CHOICE: lambda: {"enum": list(choices(hint))},
        TypeForm.LIST: lambda: {"type": "array", "items": schema_of(options[0])} | ({} if options[0] is str else
                                                                                {"minItems": 1}),
        TypeForm.PAIR: lambda: {"type": "array", "prefixItems": [schema_of(option) for option in options],
                            "minItems": len(options), "maxItems": len(options)},
        TypeForm.MAPPING: lambda: {"type": "object", "additionalProperties": schema_of(options[1])}}
    return dict(schemas[form_of(hint)]())


def _limits(annotations: tuple[object, ...]) -> dict[str, object]:
    limits: dict[str, object] = {}
    for between in annotations:
        if isinstance(between, Between):
            ends = {"minimum": between.low, "maximum": between.high}
            limits |= {name: end for name, end in ends.items() if math.isfinite(end)}
    return limits
