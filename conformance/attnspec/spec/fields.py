"""Typed readers for the fields of a located mapping: right type, known name, or a complaint with file and line."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from attnspec.core.errors import AttnspecError, FileLocation, SpecError, quoted
from attnspec.spec.yaml_lines import Located, LocatedList, describe

E = TypeVar("E", bound=enum.Enum)


class _Missing(enum.Enum):
    """Stands for "this field must be given"."""

    REQUIRED = enum.auto()


REQUIRED = _Missing.REQUIRED

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
NAME_SAYS = "letters, digits, _, . and -, at most 80"
_OUTSIDE_URLS = re.compile(r"[\s<>\"'`\\^{|}]")


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one mapping. `what` names it with its article (`a clause`, `the subject 'sdpa'`) in complaints.

    A reader with no default raises `error` where its field is missing; every reader raises it for a wrong type.
    A field given as nothing (`says:`) counts as wrong, not as missing.
    """

    mapping: Located
    description: str
    error: type[AttnspecError] = SpecError

    def refuse_other_keys(self, known: Iterable[str]) -> None:
        """Refuse every key that is not among the known ones."""
        names = frozenset(known)
        for key in self.mapping:
            if key not in names:
                self._refuse_torn_text(key)
                raise self.error.unknown(f"key of {self.description}", key, names, where=self.place(key))

    def place(self, key: str = "") -> FileLocation:
        """Where a field stands; without a key, or for a field not given, where the mapping stands."""
        return self.mapping.place_of(key)

    def complain(self, key: str, message: str) -> AttnspecError:
        """An error about the field, to be raised: `file:line: 'key' message`."""
        return self.error(f"{key!r} of {self.description} {message}", where=self.place(key))

    def text(self, key: str, default: str | _Missing = REQUIRED) -> str:
        """Text that is not empty."""
        if self.absent(key, default):
            return default if isinstance(default, str) else ""
        return self._text(self.mapping[key], key, self.place(key))

    def texts(self, key: str, default: tuple[str, ...] | _Missing = REQUIRED) -> tuple[str, ...]:
        """A list of texts, none twice."""
        if self.absent(key, default):
            return default if isinstance(default, tuple) else ()
        entries = tuple(self._text(value, f"{key}[{index}]", place)
                        for index, value, place in self.entries(key, "texts"))
        if twice := sorted({entry for entry in entries if entries.count(entry) > 1}):
            raise self.complain(key, f"names {twice[0]!r} twice.")
        return entries

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        for index, value, place in self.entries(key, "whole numbers"):
            if not isinstance(value, int) or isinstance(value, bool):
                message = f"'{key}[{index}]' of {self.description} should be a whole number, not {describe(value)}."
                raise self.error(message, where=place)
        return tuple(self.mapping[key])

    def flag(self, key: str, default: bool | _Missing = REQUIRED) -> bool:
        """True or false."""
        if self.absent(key, default):
            return default is True
        return bool(self._read_typed(key, bool, "true or false"))

    def integer(self, key: str, default: int | _Missing = REQUIRED) -> int:
        """A whole number."""
        if self.absent(key, default):
            return default if isinstance(default, int) else 0
        value = self._read_typed(key, int, "a whole number")
        assert isinstance(value, int)
        return value

    def number(self, key: str, default: float | _Missing = REQUIRED) -> float:
        """A number."""
        if self.absent(key, default):
            return default if isinstance(default, float) else 0.0
        value = self._read_typed(key, (int, float), "a number")
        assert isinstance(value, int | float)
        if not math.isfinite(value):
            raise self.complain(key, f"should be a finite number, not {value}.")
        return float(value)

    def url(self, key: str, default: str | _Missing = REQUIRED) -> str:
        """An http or https address."""
        address = self.text(key, default)
        if address and (wrong := _unusable(address)):
            raise self.complain(key, f"should be an address {wrong}, not {quoted(address)}.")
        return address

    def name(self, key: str) -> str:
        """What a subject or a finding is called: part of commands, of ids and of file names."""
        name = self.text(key)
        if not NAME.fullmatch(name):
            raise self.complain(key, f"should be a name of {NAME_SAYS}, not {quoted(name)}.")
        return name

    def one_of(self, key: str, known: Collection[str], default: str | _Missing = REQUIRED, *, kind: str = "") -> str:
        """A text from a closed list. `kind` names what it is one of, the key itself if not said."""
        value = self.text(key, default)
        if value not in known and not self.absent(key, default):
            raise self.error.unknown(kind or key, value, known, where=self.place(key))
        return value

    def choice(self, key: str, enumeration: type[E], default: E | _Missing = REQUIRED, *, kind: str = "") -> E:
        """A member of an enumeration whose values are texts."""
        if not isinstance(default, _Missing) and key not in self.mapping:
            return default
        return enumeration(self.one_of(key, tuple(str(member.value) for member in enumeration), kind=kind))

    def choices(self, key: str, enumeration: type[E], default: tuple[E, ...] | _Missing = REQUIRED, *,
                kind: str = "") -> tuple[E, ...]:
        """A list of members of an enumeration whose values are texts."""
        if not isinstance(default, _Missing) and key not in self.mapping:
            return default
        known = tuple(str(member.value) for member in enumeration)
        for index, value in enumerate(self.texts(key)):
            if value not in known:
                raise self.error.unknown(kind or key, value, known, where=self.mapping[key].place_of(index))
        return tuple(enumeration(value) for value in self.texts(key))

    def inner(self, key: str, what: str = "", *, optional: bool = False) -> Fields:
        """The fields of a mapping within; an optional one that is not given reads as empty."""
        what = what or f"{key!r}"
        if optional and key not in self.mapping:
            return Fields(Located(self.place()), what, self.error)
        self.absent(key)
        return self._fields(self.mapping[key], key, what, self.place(key))

    def read_each(self, key: str, what: str, *, optional: bool = False) -> Iterator[Fields]:
        """The fields of each mapping in a list of mappings."""
        if not (optional and self.absent(key, ())):
            self.absent(key)
            for index, value, place in self.entries(key, "mappings"):
                yield self._fields(value, f"{key}[{index}]", what, place)

    def read_named(self, what: str) -> Iterator[tuple[str, Fields]]:
        """The mapping's own entries, each of which must be a mapping: (name, fields). `what` is said with the name."""
        for name, value in self.mapping.items():
            yield name, self._fields(value, name, f"{what} {name!r}", self.place(name))

    def absent(self, key: str, default: object = REQUIRED) -> bool:
        """Whether the field is not given; raises `error` if it must be."""
        if key in self.mapping:
            return False
        if default is REQUIRED:
            raise self.error(f"{self.description} needs {key!r}.{self._present()}", where=self.place())
        return True

    def _refuse_torn_text(self, key: str) -> None:
        """`{quote: one, two}` makes a key of `two`: such a key has a space or no plain letters, and holds nothing."""
        if self.mapping[key] is None and not (key.isascii() and key.isidentifier()):
            message = f"{key!r} is not a key of {self.description}: within {{…}} a text with a comma needs quotes."
            raise self.error(message, where=self.place(key))

    def _present(self) -> str:
        return f" It has: {', '.join(self.mapping)}." if self.mapping else ""

    def _read_typed(self, key: str, kind: type | tuple[type, ...], name: str) -> object:
        value = self.mapping[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.complain(key, f"should be {name}, not {describe(value)}.")
        return value

    def _text(self, value: object, key: str, place: FileLocation) -> str:
        if not isinstance(value, str):
            quote = " Quote it if text is meant." if isinstance(value, bool | int | float) else ""
            raise self.error(f"{key!r} of {self.description} should be text, not {describe(value)}.{quote}",
                             where=place)
        if not value.strip():
            raise self.error(f"{key!r} of {self.description} is empty.", where=place)
        return value.strip()

    def entries(self, key: str, of: str) -> Iterator[tuple[int, object, FileLocation]]:
        """The entries of a list as they stand: (index, value, place). `of` says what they should be."""
        values = self.mapping[key]
        if not isinstance(values, LocatedList):
            raise self.complain(key, f"should be a list of {of}, not {describe(values)}.")
        for index, value in enumerate(values):
            yield index, value, values.place_of(index)

    def _fields(self, value: object, key: str, what: str, place: FileLocation) -> Fields:
        if not isinstance(value, Located):
            raise self.error(f"{key!r} of {self.description} should be a mapping, not {describe(value)}.", where=place)
        return Fields(value, what, self.error)


def _unusable(address: str) -> str:
    """What an address should be that nobody can follow; empty for a good one."""
    if not address.startswith(("https://", "http://")):
        return "that begins with https:// or http://"
    if found := _OUTSIDE_URLS.search(address):
        return f"without {found[0]!r} in it"
    try:
        parts = urlsplit(address)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        is_whole = False
    return "" if is_whole else "whose host can be read"
