"""The signature is the schema: the words of the spec are held against the types of the functions that carry them out.

A word is a function whose positional parameters belong to the machinery and whose keyword-only parameters are the
arguments that YAML gives. Their types may be: bool, int, float, str, `Literal`, enumerations (by value), `Drawn`,
`RunName`, `tuple[X, ...]`, `tuple[X, Y]`, `frozenset[X]`, `Mapping[str, X]`, `X | Y`, `X | None`, and
`Annotated[number, Between(low, high)]`.
"""

from __future__ import annotations

import enum
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NewType

from attnspec.ground.errors import Place, SpecError
from attnspec.law.clause import Word
from attnspec.law.yaml_lines import Located, LocatedList, describe

Drawn = NewType("Drawn", int)      # in Python the drawn number; in YAML the name it has under `given: draw:`
RunName = NewType("RunName", str)  # the name of one of the clause's runs
Function = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Between:
    """The range of a number, ends included: `Annotated[float, Between(0, 1)]`."""

    low: float = -math.inf
    high: float = math.inf


class DrawnName(str):
    """The name of a drawn value, where its number will stand once a case is drawn."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A word's arguments, checked and converted: lists are tuples, choices are enumeration members, defaults are in.

    Arguments typed `Drawn` are still names (`DrawnName`); `arguments` puts the numbers in.
    """

    name: str
    values: Mapping[str, object]

    def arguments(self, drawn: Mapping[str, int]) -> dict[str, object]:
        """The keyword arguments of the function for a case whose drawn values are these."""
        return {name: _filled(value, drawn) for name, value in self.values.items()}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword-only parameter of a word: what YAML may give."""

    name: str
    hint: object
    default: object
    required: bool


def parameters_of(function: Function) -> dict[str, Parameter]:
    """The arguments that a word takes in YAML, by name."""
    return dict(_parameters(function))


def look_up(name: str, table: Mapping[str, Function], kind: str, where: Place) -> Function:
    """The function behind a word; raises SpecError with the nearest word if there is none."""
    if name not in table:
        raise SpecError.unknown(kind, name, table, where=where)
    return table[name]


def check_word(word: Word, function: Function, kind: str, *, drawn: Collection[str] = (),
               runs: Collection[str] = ()) -> Bound:
    """The word's arguments as `function` takes them.

    kind: what the word is, for messages ("transform").  drawn, runs: the names that the clause gives its drawn values
    and its runs.  Raises SpecError with the place of the argument for one that is unknown, missing or of a wrong type.
    """
    wanted = parameters_of(function)
    title = f"the {kind} {word.name!r}"
    for name in word.args:
        if name not in wanted:
            where = _place_of(word, name)
            if not wanted:
                raise SpecError(f"{title} takes no arguments; {name!r} is given.", where=where)
            raise SpecError.unknown(f"argument of {title}", name, wanted, where=where)
    return Bound(word.name, {name: _bind(parameter, word, _Reader(title, name, _place_of(word, name), drawn, runs))
                             for name, parameter in wanted.items()})


def expected(hint: object) -> str:
    """What a type asks for, in words: `a whole number`, `a list of …`."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return f"one of {', '.join(choices(hint))}"
    if typing.get_origin(hint) is Literal:
        return f"one of {', '.join(choices(hint))}"
    options = typing.get_args(hint)
    match kind_of(hint):
        case "annotated":
            return expected(options[0])
        case "union":
            return " or ".join(expected(option) for option in options if option is not type(None))
        case "list":
            return f"a list, each entry {expected(options[0])}"
        case "pair":
            return f"a list of {len(options)}: {', then '.join(expected(option) for option in options)}"
        case "mapping":
            return f"a mapping, each value {expected(options[1])}"
    return _NAMES[hint]


def kind_of(hint: object) -> str:
    """How a type is built: plain, annotated, union, choice, list, pair or mapping."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return "choice"
    if origin is typing.Annotated:
        return "annotated"
    if origin in (typing.Union, types.UnionType):
        return "union"
    if origin is tuple:
        return "list" if options[-1] is Ellipsis else "pair"
    if origin is frozenset:
        return "list"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if hint in _NAMES:
        return "plain"
    raise TypeError(f"{hint} cannot be an argument of a word; see {__name__}")


def choices(hint: Any) -> tuple[str, ...]:  # noqa: ANN401  (a Literal is no type to the type checker)
    """The values of a closed list as YAML spells them."""
    if typing.get_origin(hint) is Literal:
        return tuple(str(option) for option in typing.get_args(hint))
    return tuple(str(member.value) for member in hint)


_NAMES: Mapping[object, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text",
    Drawn: "the name of a drawn value", RunName: "the name of a run", type(None): "nothing"}


@cache
def _parameters(function: Function) -> Mapping[str, Parameter]:
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return {p.name: Parameter(p.name, hints[p.name], p.default, p.default is p.empty)
            for p in parameters if p.kind is p.KEYWORD_ONLY}


def _place_of(word: Word, name: str) -> Place:
    return word.args.place_of(name) if isinstance(word.args, Located) else word.where


def _bind(parameter: Parameter, word: Word, reader: _Reader) -> object:
    if parameter.name in word.args:
        return reader.read(parameter.hint, word.args[parameter.name])
    if parameter.required:
        message = f"{reader.title} needs {parameter.name!r}: {expected(parameter.hint)}."
        raise SpecError(message, where=word.where)
    return parameter.default


def _filled(value: object, drawn: Mapping[str, int]) -> object:
    if isinstance(value, DrawnName):
        return drawn[value]
    return tuple(_filled(entry, drawn) for entry in value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one argument; knows what it is called and where it stands."""

    title: str
    name: str
    where: Place
    drawn: Collection[str]
    runs: Collection[str]

    def read(self, hint: Any, value: object) -> object:  # noqa: ANN401  (hints have no common type)
        """The value as the type wants it, or SpecError."""
        options = typing.get_args(hint)
        match kind_of(hint):
            case "annotated":
                return self._ranged(hint, self.read(options[0], value))
            case "union":
                return self._union(hint, value)
            case "choice":
                return self._choice(hint, value)
            case "list":
                entries = (entry.read(options[0], item) for entry, item in self._entries(hint, value))
                return frozenset(entries) if typing.get_origin(hint) is frozenset else tuple(entries)
            case "pair":
                return self._pair(hint, value)
            case "mapping":
                return self._mapping(hint, value)
        return self._plain(hint, value)

    def _plain(self, hint: object, value: object) -> object:
        if hint is Drawn:
            return DrawnName(self._name("drawn value of the clause", value, self.drawn, hint))
        if hint is RunName:
            return self._name("run of the clause", value, self.runs, hint)
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if type(value) is not hint or (isinstance(value, float) and not math.isfinite(value)):
            raise self._wrong(hint, value)
        return value

    def _name(self, kind: str, value: object, known: Collection[str], hint: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(hint, value)
        if value not in known:
            raise SpecError.unknown(kind, value, known, where=self.where)
        return value

    def _choice(self, hint: Any, value: object) -> object:  # noqa: ANN401  (hints have no common type)
        members = typing.get_args(hint) if typing.get_origin(hint) is Literal else tuple(hint)
        for spelled, member in zip(choices(hint), members, strict=True):
            if isinstance(value, str | int) and str(value) == spelled and not isinstance(value, bool):
                return member
        if not isinstance(value, str):
            raise self._wrong(hint, value)
        raise SpecError.unknown(f"choice for {self.name!r} of {self.title}", value, choices(hint), where=self.where)

    def _union(self, hint: object, value: object) -> object:
        options = [option for option in typing.get_args(hint) if _takes(option, value)]
        if not options:
            raise self._wrong(hint, value)
        for option in options[:-1]:
            try:
                return self.read(option, value)
            except SpecError:
                continue  # the last option that takes such values is the one whose complaint is shown
        return self.read(options[-1], value)

    def _ranged(self, hint: object, value: object) -> object:
        for limit in typing.get_args(hint)[1:]:
            if isinstance(limit, Between) and isinstance(value, int | float) and not limit.low <= value <= limit.high:
                message = f"{self.name!r} of {self.title} should lie between {limit.low} and {limit.high}, not at {value}."
                raise SpecError(message, where=self.where)
        return value

    def _entries(self, hint: object, value: object) -> Iterator[tuple[_Reader, object]]:
        if not isinstance(value, list):
            raise self._wrong(hint, value)
        for index, item in enumerate(value):
            yield replace(self, where=value.place_of(index)) if isinstance(value, LocatedList) else self, item

    def _pair(self, hint: object, value: object) -> tuple[object, ...]:
        options, entries = typing.get_args(hint), tuple(self._entries(hint, value))
        if len(entries) != len(options):
            message = f"{self.name!r} of {self.title} should be {expected(hint)}; found a list of {len(entries)}."
            raise SpecError(message, where=self.where)
        return tuple(entry.read(option, item) for option, (entry, item) in zip(options, entries, strict=True))

    def _mapping(self, hint: object, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self._wrong(hint, value)
        inner = typing.get_args(hint)[1]
        return {key: replace(self, name=key).read(inner, item) for key, item in value.items()}

    def _wrong(self, hint: object, value: object) -> SpecError:
        message = f"{self.name!r} of {self.title} should be {expected(hint)}, not {describe(value)}."
        return SpecError(message, where=self.where)


def _takes(hint: object, value: object) -> bool:
    """Whether the YAML kind of `value` (text, number, list, mapping …) is what the type is spelled with."""
    kind = kind_of(hint)
    if kind == "annotated":
        return _takes(typing.get_args(hint)[0], value)
    if kind == "union":
        return any(_takes(option, value) for option in typing.get_args(hint))
    wanted: dict[object, tuple[type, ...]] = {
        bool: (bool,), int: (int,), float: (int, float), type(None): (type(None),)}
    spelled = {"list": (list,), "pair": (list,), "mapping": (dict,), "choice": (str,)}.get(kind, wanted.get(hint, (str,)))
    return isinstance(value, spelled) and (bool in spelled or not isinstance(value, bool))
