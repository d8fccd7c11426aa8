"""Reads a word's arguments by the signature of its function, which is their schema.

Positional parameters of a word belong to the machinery, keyword-only ones are the arguments that
YAML gives. Their types may be: bool, int, float, str, `Literal` of texts, an enumeration (by
value), `Drawn`, `RunName`, `tuple[X, ...]`, `Sequence[X]`, `frozenset[X]`, `tuple[X, Y]`,
`Mapping[str, X]`, `X | Y`, `X | None`, `Annotated[number, Between(low, high)]`, `Annotated[float,
PowerOfTwo()]`.
"""

from __future__ import annotations

import enum
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType

from attnspec.core.errors import LONGEST_SHOWN, FileLocation, SpecError, near_misses
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS
from attnspec.core.texts import docstring
from attnspec.spec.clause import Word
from attnspec.spec.yaml_lines import Located, LocatedList, describe

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
    """A power of two, positive or negative, whose product with a number is exact: 2, 0.5, -4 …"""

    def has(self, number: float) -> bool:
        """Whether the number is a power of two, or minus one."""
        return abs(math.frexp(number)[0]) == 0.5


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a drawn number stands for: a word of `draw` gives it, an argument asks for it."""

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
    """What an argument that names a drawn value wants it to stand for; None for any other."""
    inner: tuple[object, ...] = typing.get_args(hint)
    meanings = (each if isinstance(each, Meaning) else None for each in inner)
    return next(filter(None, meanings), None) or next(filter(None, map(meaning_of, inner)), None)


class TypeForm(enum.Enum):
    """The ways in which a type is built."""

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
    """The way in which the type is built. Raises TypeError for one that no argument may have."""
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
    """The members of a closed list, by how YAML spells them."""
    origin: object = typing.get_origin(hint)
    if origin is Literal:
        return {str(option): option for option in typing.get_args(hint)}
    return {str(member.value): member for member in hint}


def is_spelled_by(hint: Hint, value: object) -> bool:
    """Whether the type is spelled with the YAML kind of `value` (text, number, list, mapping)."""
    form = form_of(hint)
    options = typing.get_args(hint)
    if form is TypeForm.ANNOTATED:
        return is_spelled_by(options[0], value)
    if form is TypeForm.UNION:
        return any(is_spelled_by(option, value) for option in options)
    kinds = _SPELLED[hint if form is TypeForm.PLAIN else form]
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def describe_expected(hint: Hint) -> str:
    """The type in words: `a whole number`, `a list of …`."""
    options = typing.get_args(hint)
    words: Mapping[TypeForm, Callable[[], str]] = {
        TypeForm.PLAIN: lambda: _NAMES[hint],
        TypeForm.ANNOTATED: lambda: describe_expected(options[0]),
        TypeForm.UNION: lambda: " or ".join(
            describe_expected(option) for option in options if option is not type(None)),
        TypeForm.CHOICE: lambda: f"one of {', '.join(choices(hint))}",
        TypeForm.LIST: lambda: f"a list, each entry {describe_expected(options[0])}",
        TypeForm.PAIR: lambda: f"a list of {len(options)}: {', then '.join(map(describe_expected, options))}",
        TypeForm.MAPPING: lambda: f"a mapping, each value {describe_expected(options[1])}"}
    return words[form_of(hint)]()


def schema_of(hint: Hint) -> dict[str, object]:
    """The JSON Schema of the type."""
    options = typing.get_args(hint)
    schemas: Mapping[TypeForm, Callable[[], Mapping[str, object]]] = {
        TypeForm.PLAIN: lambda: _SCHEMAS[hint],
        TypeForm.ANNOTATED: lambda: schema_of(options[0]) | _limits(options[1:]),
        TypeForm.UNION: lambda: {"anyOf": [*map(schema_of, options)]},
        TypeForm.CHOICE: lambda: {"enum": list(choices(hint))},
        TypeForm.LIST: lambda: _list_schema(options[0]),
        TypeForm.PAIR: lambda: {"type": "array", "prefixItems": [*map(schema_of, options)],
                            "minItems": len(options), "maxItems": len(options)},
        TypeForm.MAPPING: lambda: {"type": "object", "additionalProperties": schema_of(options[1])}}
    return dict(schemas[form_of(hint)]())


def _list_schema(entry: Hint) -> dict[str, object]:
    """A list of such entries; of keywords, which are text, there may be none."""
    schema: dict[str, object] = {"type": "array", "items": schema_of(entry)}
    return schema if entry is str else schema | {"minItems": 1}


def _limits(annotations: tuple[object, ...]) -> dict[str, object]:
    limits: dict[str, object] = {}
    for between in annotations:
        if isinstance(between, Between):
            ends = {"minimum": between.low, "maximum": between.high}
            limits |= {name: end for name, end in ends.items() if math.isfinite(end)}
    return limits


Function = Callable[..., object]


class DrawnName(str):
    """The name of a drawn value, in the place of its number until a case is drawn."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A word's arguments, checked and converted, with defaults.

    Lists are tuples, choices are what they stand for. Arguments typed `Drawn` are names
    (`DrawnName`) until a case is drawn.
    """

    name: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword-only parameter of a word, which YAML may give."""

    name: str
    hint: Hint
    default: object
    required: bool


@cache
def parameters_of(function: Function) -> Mapping[str, Parameter]:
    """The arguments that a word takes in YAML, by name."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    own = {p.name: Parameter(p.name, hints[p.name], p.default, p.default is p.empty)
           for p in parameters if p.kind is p.KEYWORD_ONLY}
    for table in (typing.get_args(hints[p.name])[0] for p in parameters if p.kind is p.VAR_KEYWORD):
        for name, hint in typing.get_type_hints(table, include_extras=True).items():
            own[name] = Parameter(name, hint, _first_choice(hint), required=False)
    return own


def _first_choice(hint: Hint) -> object:
    """A table argument's default (`**lists: Unpack[Lists]`): its first choice, `any`."""
    options = next(option for option in typing.get_args(hint) if form_of(option) is TypeForm.CHOICE)
    return next(iter(choices(options).values()))


def look_up(name: str, table: Mapping[str, Function], kind: str, where: FileLocation) -> Function:
    """The function behind a word. Raises SpecError, with the nearest word, if there is none."""
    if name not in table:
        raise SpecError.unknown(kind, name, table, where=where)
    return table[name]


def check_word(word: Word, function: Function, kind: str, *, drawn: Collection[str] = (),
               runs: Collection[str] = ()) -> Bound:
    """The word's arguments as `function` takes them.

    kind: what the word is, for messages ("transform").  drawn, runs: the names that the clause
    gives its drawn values and its runs.  Raises SpecError, with the place of the argument, for one
    that is unknown, missing or of a wrong type.
    """
    wanted = parameters_of(function)
    title = f"the {kind} {word.name!r}"
    for name in word.args:
        if not wanted:
            raise SpecError(f"{title} takes no arguments; {name!r} is given.", where=_place_of(word, name))
        if name not in wanted:
            raise SpecError.unknown(f"argument of {title}", name, wanted, where=_place_of(word, name))

    def reader_of(name: str) -> _ArgumentReader:
        return _ArgumentReader(title, name, _place_of(word, name), drawn, runs)

    return Bound(word.name, {name: _bind(parameter, word, reader_of) for name, parameter in wanted.items()})


def json_schema_of(function: Function) -> dict[str, object]:
    """The JSON Schema of a word's arguments, explained by its docstring."""
    parameters = parameters_of(function)
    required = [name for name, parameter in parameters.items() if parameter.required]
    schema: dict[str, object] = {
        "description": docstring(function),
        "type": "object" if required else ["object", "null"],
        "additionalProperties": False,
        "properties": {name: schema_of(p.hint) | _default(p) for name, p in parameters.items()}}
    return schema | ({"required": required} if required else {})


def _default(parameter: Parameter) -> dict[str, object]:
    """The default as YAML would spell it, if it is something simple."""
    value = getattr(parameter.default, "value", parameter.default)
    is_simple = isinstance(value, str | int | float) and not parameter.required
    return {"default": value} if is_simple else {}


def _place_of(word: Word, name: str) -> FileLocation:
    return word.args.place_of(name) if isinstance(word.args, Located) else word.where


def _bind(parameter: Parameter, word: Word, reader_of: Callable[[str], _ArgumentReader]) -> object:
    if parameter.name in word.args:
        return reader_of(parameter.name).read(parameter.hint, word.args[parameter.name])
    if parameter.required:
        message = f"{reader_of(parameter.name).title} needs {parameter.name!r}: {describe_expected(parameter.hint)}."
        raise SpecError(message, where=word.where)
    if parameter.hint is RunName:  # a default names a run that this clause may not have
        return reader_of(parameter.name).read(RunName, parameter.default)
    return parameter.default


def _is_entry_of_a_list(hint: Hint, value: object) -> bool:
    """Whether text may be an entry of a list: then its brackets are missing."""
    options = typing.get_args(hint) if form_of(hint) is TypeForm.UNION else ()
    lists = (typing.get_args(option)[0] for option in options if form_of(option) is TypeForm.LIST)
    return any(form_of(entry) is TypeForm.CHOICE and value in choices(entry)
               for entry in lists if isinstance(value, str))


@dataclass(frozen=True, slots=True)
class _ArgumentReader:
    """Reads one argument, knowing its name and its place."""

    title: str
    name: str
    where: FileLocation
    drawn: Collection[str]
    runs: Collection[str]

    def read(self, hint: Hint, value: object) -> object:
        """The value as the type wants it. Raises SpecError if it is of another type."""
        return _READERS[form_of(hint)](self, hint, value)

    def _plain(self, hint: Hint, value: object) -> object:
        if hint is Drawn:
            return DrawnName(self._known_word("drawn value of the clause", value, self.drawn, hint))
        if hint is RunName:
            return self._known_word("run of the clause", value, self.runs, hint)
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if type(value) is not hint or (isinstance(value, float) and not math.isfinite(value)):
            raise self._wrong(hint, value)
        return value

    def _known_word(self, kind: str, value: object, known: Collection[str], hint: Hint) -> str:
        if not isinstance(value, str):
            raise self._wrong(hint, value)
        if value not in known:
            is_undeclared = hint is Drawn and not near_misses(value, list(known))
            declare = " Declare it under `given: draw:`." if is_undeclared else ""
            raise SpecError(f"{SpecError.unknown(kind, value, known)}{declare}", where=self.where)
        return value

    def _choice(self, hint: Hint, value: object) -> object:
        known = choices(hint)
        if not isinstance(value, str):
            raise self._wrong(hint, value)
        if value not in known:
            raise SpecError.unknown(f"choice for {self.name!r} of {self.title}", value, known, where=self.where)
        return known[value]

    def _union(self, hint: Hint, value: object) -> object:
        """The value as the first type that takes it; else the error of the last one spelled so."""
        options = [option for option in typing.get_args(hint) if is_spelled_by(option, value)]
        if not options or _is_entry_of_a_list(hint, value):
            raise self._wrong(hint, value)
        for option in options[:-1]:
            try:
                return self.read(option, value)
            except SpecError:
                continue
        return self.read(options[-1], value)

    def _ranged(self, hint: Hint, value: object) -> object:
        kind, *limits = typing.get_args(hint)
        number = self.read(kind, value)
        for limit in limits:
            if isinstance(limit, Between) and isinstance(number, int | float) and not limit.low <= number <= limit.high:
                span = f"should lie between {limit.low} and {limit.high}"
                raise SpecError(f"{self.name!r} of {self.title} {span}, not at {number}.", where=self.where)
            if isinstance(limit, PowerOfTwo) and isinstance(number, float) and not limit.has(number):
                raise SpecError(f"{self.name!r} of {self.title} should be a power of two, as 2, 0.5 or -4, not "
                                f"{number:g}.", where=self.where)
        return number

    def _list(self, hint: Hint, value: object) -> object:
        kind = typing.get_args(hint)[0]
        entries = tuple(reader.read(kind, item) for reader, item in self._entries(hint, value))
        if not entries and kind is not str:  # keywords are text, and using none of them means something
            raise SpecError(f"{self.name!r} of {self.title} is empty, so there is nothing to choose from. Leave it "
                            f"out, or give at least {describe_expected(kind)}.", where=self.where)
        origin: object = typing.get_origin(hint)
        return frozenset(entries) if origin is frozenset else entries

    def _pair(self, hint: Hint, value: object) -> tuple[object, ...]:
        options, entries = typing.get_args(hint), tuple(self._entries(hint, value))
        if len(entries) != len(options):
            meant = f"{self.name!r} of {self.title} should be {describe_expected(hint)}"
            raise SpecError(f"{meant}; found a list of {len(entries)}.", where=self.where)
        return tuple(reader.read(option, item) for option, (reader, item) in zip(options, entries, strict=True))

    def _mapping(self, hint: Hint, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self._wrong(hint, value)
        kind = typing.get_args(hint)[1]
        return {key: replace(self, name=f"{self.name}.{key}").read(kind, item) for key, item in value.items()}

    def _entries(self, hint: Hint, value: object) -> Iterator[tuple[_ArgumentReader, object]]:
        if not isinstance(value, list):
            raise self._wrong(hint, value)
        for index, item in enumerate(value):
            where = value.place_of(index) if isinstance(value, LocatedList) else self.where
            yield replace(self, name=f"{self.name}[{index}]", where=where), item

    def _wrong(self, hint: Hint, value: object) -> SpecError:
        is_list = form_of(hint) is TypeForm.LIST or _is_entry_of_a_list(hint, value)
        listed = f" Write [{value}]." if is_list and isinstance(value, str) and len(value) <= LONGEST_SHOWN else ""
        message = f"{self.name!r} of {self.title} should be {describe_expected(hint)}, not {describe(value)}.{listed}"
        return SpecError(message, where=self.where)


_READERS: Mapping[TypeForm, Callable[[_ArgumentReader, Hint, object], object]] = {
    TypeForm.PLAIN: _ArgumentReader._plain, TypeForm.ANNOTATED: _ArgumentReader._ranged,
    TypeForm.UNION: _ArgumentReader._union, TypeForm.CHOICE: _ArgumentReader._choice,
    TypeForm.LIST: _ArgumentReader._list, TypeForm.PAIR: _ArgumentReader._pair,
    TypeForm.MAPPING: _ArgumentReader._mapping}
"""How a value is read, by the form of its type."""
