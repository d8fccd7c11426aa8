"""YAML that remembers where everything stands, and readers for the fields of a mapping.

It is a small, safe part of YAML 1.2: mappings, sequences and plain values (so `on`, `no` and
`2024-03-28` are text, `1e-9` is a number). Tags, anchors, aliases, duplicate keys and second
documents are refused with file and line. PyYAML parses, with libyaml where it can.

Each reader knows the type of its field: it returns a value of that type, or raises an error with
file and line.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from attnspec.core import paths
from attnspec.core.errors import AttnspecError, FileLocation, SpecError, quote_value

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 24  # no file of ours nests half as deep; without a limit Python's own stack would be it
_LONGEST = 30  # digits of a whole number: more than we ever count, fewer than Python refuses
_LONGEST_KEY = 100  # characters; no name of ours is half as long
# control characters; tab, line feed, carriage return apart
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
                     # ends of lines that no editor counts, and of direction
                     "\u2028\u2029\u202a-\u202e\u2066-\u2069"
                     "\ud800-\udfff\ufeff\ufffe\uffff]")
"""What no text may contain: it is invisible, changes the display, or cannot be written down."""
_WORDS: dict[str, object] = {"": None, "~": None, "null": None, "true": True, "false": False,
                             ".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"),
                             ".nan": float("nan")}
_NUMBERS_BEGIN = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class Located(dict[str, Any]):
    """A mapping that knows its place and the place of each key."""

    def __init__(self, place: FileLocation) -> None:
        super().__init__()
        self.place = place
        self.places: dict[str, FileLocation] = {}

    def place_of(self, key: str) -> FileLocation:
        """Where `key` stands; without such a key, where the mapping stands."""
        return self.places.get(key, self.place)


class LocatedList(list[Any]):
    """A sequence that knows its place and the place of each entry."""

    def __init__(self, place: FileLocation) -> None:
        super().__init__()
        self.place = place
        self.places: list[FileLocation] = []

    def place_of(self, index: int) -> FileLocation:
        """Where an entry stands; without such an entry, where the sequence stands."""
        return self.places[index] if 0 <= index < len(self.places) else self.place


def load_yaml(path: Path, *, error: type[AttnspecError] = SpecError) -> Located:
    """The mapping in the file. Raises `error` with file, line and cause."""
    return parse_yaml(read_bytes(path, error=error), shown_path(path), error=error)


def read_bytes(path: Path, *, error: type[AttnspecError] = SpecError) -> bytes:
    """The bytes of a file. Raises `error` if it is missing, a folder or unreadable."""
    where = FileLocation(shown_path(path))
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise error("there is no such file.", where=where) from None
    except IsADirectoryError:
        raise error("is a folder; a YAML file is expected.", where=where) from None
    except (OSError, ValueError) as cause:
        raise error(f"cannot be read: {getattr(cause, 'strerror', None) or cause}.",
                    where=where) from None


def parse_yaml(data: bytes, file: str, *, error: type[AttnspecError] = SpecError,
               wanted: str = "a mapping is expected") -> Located:
    """The mapping in `data`. Raises `error`, which names `file` and asks for `wanted`."""
    text = _decode_text(data, file, error)
    try:
        document = _Builder(text, file, error).document()
    except yaml.YAMLError as cause:
        raise _complaint(cause, text, file, error) from None
    if document is None:
        raise error(f"is empty; {wanted}.", where=FileLocation(file, 1))
    if not isinstance(document, Located):
        raise error(f"holds {describe(document)}; {wanted}.", where=FileLocation(file, 1))
    return document


def shown_path(path: Path) -> str:
    """The path as the user knows it.

    It is relative to the parent of the data folders or to the working folder, if it lies there.
    """
    full = path.absolute()
    for base in (paths.folder("spec").parent, Path.cwd()):
        if full.is_relative_to(base):
            return full.relative_to(base).as_posix()
    return path.as_posix()


def describe(value: object) -> str:
    """What a value is, for a message: `a list`, `text ('abc')`, `a whole number (3)`."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    names = {str: "text", int: "a whole number", float: "a number"}
    return f"{names.get(type(value), type(value).__name__)} ({quote_value(value)})"


def _decode_text(data: bytes, file: str, error: type[AttnspecError]) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        where = FileLocation(file, data.count(b"\n", 0, cause.start) + 1)
        raise error(f"is not UTF-8 text: byte 0x{data[cause.start]:02x} cannot be read.",
                    where=where) from None
    if hidden := _HIDDEN.search(text):
        raise error(_show_hidden_character(hidden[0]),
                    where=FileLocation(file, text.count("\n", 0, hidden.start()) + 1))
    return text


def _show_hidden_character(character: str) -> str:
    return f"holds the character U+{ord(character):04X}, which is invisible. Leave it out."


def _complaint(cause: yaml.YAMLError, text: str, file: str,
               error: type[AttnspecError]) -> AttnspecError:
    """The parser's error in our words."""
    if not isinstance(cause, yaml.MarkedYAMLError) or cause.problem_mark is None:
        return error("is not YAML.", where=FileLocation(file, 1))
    where = FileLocation(file, cause.problem_mark.line + 1)
    line = "".join(text.split("\n")[where.line - 1 : where.line])
    if plain := _in_plain_words(str(cause.problem), line, cause.problem_mark.column):
        return error(f"is not YAML: {plain}", where=where)
    context = f" {cause.context}" if cause.context else ""
    if context and cause.context_mark:
        context += f" begun on line {cause.context_mark.line + 1}"
    return error(f"is not YAML: {cause.problem}{context}.", where=where)


def _in_plain_words(problem: str, line: str, column: int) -> str:
    """A common mistake and how to mend it, else "". column: where the parser stopped."""
    if "\t" in line[: column + 1]:
        return "a tab indents this line. Indent with spaces."
    if problem.startswith("mapping values are not allowed") and ": " in line[:column]:
        return "this line has a second colon. Put the text behind the first one in quotes."
    if problem.startswith("found character that cannot start any token"):
        return f"a text cannot begin with {line[column : column + 1]!r}. Put it in quotes."
    return ""


class _Builder:
    """Makes located values of the parser's events."""

    def __init__(self, text: str, file: str, error: type[AttnspecError]) -> None:
        self._parser = _PARSER(text)
        self._file = file
        self._error = error
        self._places: dict[int, FileLocation] = {}  # by line, on which a key and its value stand

    def document(self) -> object:
        """The only document of the stream; None if it is empty."""
        try:
            self._next()  # the stream's start
            if isinstance(self._next(), yaml.StreamEndEvent):
                return None
            value = self._value(self._next(), depth=0)
            self._next()  # the document's end
            if not isinstance(event := self._next(), yaml.StreamEndEvent):
                raise self._complain("a second document begins here; a file holds one.", event)
            return value
        finally:
            self._parser.dispose()

    def _next(self) -> yaml.Event:
        try:
            event: yaml.Event = self._parser.get_event()
        except (ValueError, OverflowError):  # without libyaml: an escape that names no character
            where = FileLocation(self._file, self._parser.get_mark().line + 1)
            raise self._error("is not YAML: an escape of this text names no character.",
                              where=where) from None
        return event

    def _value(self, event: yaml.Event, *, depth: int) -> object:
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise self._complain(f"{quote_value(event.anchor)} is an anchor or alias; "
                                 "write the value out.", event)
        if (tag := getattr(event, "tag", None)) is not None:
            raise self._complain(f"the tag {quote_value(tag)} is not allowed; write a plain value.", event)
        if depth > _DEEPEST:
            raise self._complain(f"nests deeper than {_DEEPEST} levels.", event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, depth)
        return self._sequence(event, depth)

    def _mapping(self, start: yaml.Event, depth: int) -> Located:
        mapping = Located(self._place(start))
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            if key in mapping:
                first = mapping.places[key].line
                raise self._complain(f"the key {key!r} is given twice; first on line {first}.",
                                     event)
            mapping.places[key] = self._place(event)
            mapping[key] = value = self._value(self._next(), depth=depth + 1)
            if isinstance(value, Located | LocatedList):
                # a block begins where its key stands, not on the line below
                value.place = mapping.places[key]
        return mapping

    def _key(self, event: yaml.Event) -> str:
        key = (self._value(event, depth=0) if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent)
               else None)
        if not isinstance(key, str):
            text = (quote_value(event.value) if isinstance(event, yaml.ScalarEvent)
                    else "a list or mapping")
            raise self._complain(f"{text} cannot be a key: keys are text. "
                                 "Quote it if text is meant.", event)
        if len(key) > _LONGEST_KEY:
            raise self._complain(f"{quote_value(key)} cannot be a key: "
                                 f"at most {_LONGEST_KEY} characters are.", event)
        return key

    def _sequence(self, start: yaml.Event, depth: int) -> LocatedList:
        sequence = LocatedList(self._place(start))
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            sequence.places.append(self._place(event))
            sequence.append(self._value(event, depth=depth + 1))
        return sequence

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        if event.style:  # quoted or a block: text, whatever it looks like
            # an escape, as in "\x1b": what is written out was looked at as a whole
            if event.style == '"' and (found := _HIDDEN.search(text)):
                raise self._complain(_show_hidden_character(found[0]), event)
            return text
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if text[0] not in _NUMBERS_BEGIN:
            return text
        if _INTEGER.fullmatch(text):
            if len(text) > _LONGEST:
                raise self._complain("this number is too long. Quote it if text is meant.", event)
            return int(text)
        return float(text) if _NUMBER.fullmatch(text) else text

    def _place(self, event: yaml.Event) -> FileLocation:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if line not in self._places:
            self._places[line] = FileLocation(self._file, line)
        return self._places[line]

    def _complain(self, message: str, event: yaml.Event) -> AttnspecError:
        return self._error(message, where=self._place(event))


E = TypeVar("E", bound=enum.Enum)


# Typed readers for the fields of a located mapping


class _Missing(enum.Enum):
    """Stands for "this field is required"."""

    REQUIRED = enum.auto()


REQUIRED = _Missing.REQUIRED

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
NAME_SAYS = "letters, digits, _, . and -, at most 80"
_OUTSIDE_URLS = re.compile(r"[\s<>\"'`\\^{|}]")


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a mapping.

    description: the mapping with its article (`a clause`, `the subject 'sdpa'`), for errors. A
    reader raises `error` if its field has the wrong type, or is missing and has no default. An
    empty field (`says:`) is wrong, not missing.
    """

    mapping: Located
    description: str
    error: type[AttnspecError] = SpecError

    def refuse_other_keys(self, known: Iterable[str]) -> None:
        """Raises `error` for each key that is not known."""
        names = frozenset(known)
        for key in self.mapping:
            if key not in names:
                self._refuse_torn_text(key)
                raise self.error.unknown(f"key of {self.description}", key, names,
                                         where=self.place(key))

    def place(self, key: str = "") -> FileLocation:
        """Where a field stands; without that key, where the mapping stands."""
        return self.mapping.place_of(key)

    def complain(self, key: str, message: str) -> AttnspecError:
        """An error about the field, to be raised: `file:line: 'key' message`."""
        return self.error(f"{key!r} of {self.description} {message}", where=self.place(key))

    def text(self, key: str, default: str | _Missing = REQUIRED) -> str:
        """Text that is not empty."""
        if self.absent(key, default):
            assert isinstance(default, str)
            return default
        return self._text(self.mapping[key], key, self.place(key))

    def texts(self, key: str, default: tuple[str, ...] | _Missing = REQUIRED) -> tuple[str, ...]:
        """A list of different texts."""
        if self.absent(key, default):
            assert isinstance(default, tuple)
            return default
        entries = tuple(self._text(value, f"{key}[{index}]", place)
                        for index, value, place in self.entries(key, "texts"))
        if twice := sorted({entry for entry in entries if entries.count(entry) > 1}):
            raise self.complain(key, f"names {twice[0]!r} twice.")
        return entries

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        for index, value, place in self.entries(key, "whole numbers"):
            if not isinstance(value, int) or isinstance(value, bool):
                message = (f"'{key}[{index}]' of {self.description} should be a whole number, "
                           f"not {describe(value)}.")
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
            assert isinstance(default, int)
            return default
        value = self._read_typed(key, int, "a whole number")
        assert isinstance(value, int)
        return value

    def number(self, key: str, default: float | _Missing = REQUIRED) -> float:
        """A finite number."""
        if self.absent(key, default):
            assert isinstance(default, float)
            return default
        value = self._read_typed(key, (int, float), "a number")
        assert isinstance(value, int | float)
        if not math.isfinite(value):
            raise self.complain(key, f"should be a finite number, not {value}.")
        return float(value)

    def url(self, key: str, default: str | _Missing = REQUIRED) -> str:
        """An http or https address."""
        address = self.text(key, default)
        if address and (wrong := _unusable(address)):
            raise self.complain(key, f"should be an address {wrong}, not {quote_value(address)}.")
        return address

    def name(self, key: str) -> str:
        """The name of a subject or finding; commands, ids and file names contain it."""
        name = self.text(key)
        if not NAME.fullmatch(name):
            raise self.complain(key, f"should be a name of {NAME_SAYS}, not {quote_value(name)}.")
        return name

    def one_of(self, key: str, known: Collection[str], default: str | _Missing = REQUIRED, *,
               kind: str = "") -> str:
        """A text from a closed list. kind: what the texts are; default: the key."""
        value = self.text(key, default)
        if value not in known and not self.absent(key, default):
            raise self.error.unknown(kind or key, value, known, where=self.place(key))
        return value

    def choice(self, key: str, enumeration: type[E], default: E | _Missing = REQUIRED, *,
               kind: str = "") -> E:
        """A member of an enumeration whose values are texts."""
        if not isinstance(default, _Missing) and key not in self.mapping:
            return default
        return enumeration(self.one_of(key, tuple(str(member.value) for member in enumeration),
                                       kind=kind))

    def choices(self, key: str, enumeration: type[E], default: tuple[E, ...] | _Missing = REQUIRED,
                *, kind: str = "") -> tuple[E, ...]:
        """A list of members of an enumeration whose values are texts."""
        if not isinstance(default, _Missing) and key not in self.mapping:
            return default
        known = tuple(str(member.value) for member in enumeration)
        for index, value in enumerate(self.texts(key)):
            if value not in known:
                raise self.error.unknown(kind or key, value, known,
                                         where=self.mapping[key].place_of(index))
        return tuple(map(enumeration, self.texts(key)))

    def inner(self, key: str, what: str = "", *, optional: bool = False) -> Fields:
        """The fields of a mapping in this one. An optional one that is missing is empty."""
        what = what or f"{key!r}"
        if optional and key not in self.mapping:
            return Fields(Located(self.place()), what, self.error)
        self.absent(key)
        return self._fields(self.mapping[key], key, what, self.place(key))

    def read_each(self, key: str, what: str, *, optional: bool = False) -> Iterator[Fields]:
        """The fields of each mapping in a list."""
        if not (optional and self.absent(key, ())):
            self.absent(key)
            for index, value, place in self.entries(key, "mappings"):
                yield self._fields(value, f"{key}[{index}]", what, place)

    def read_named(self, what: str) -> Iterator[tuple[str, Fields]]:
        """The name and fields of each entry, all mappings. Errors say `what` and the name."""
        for name, value in self.mapping.items():
            yield name, self._fields(value, name, f"{what} {name!r}", self.place(name))

    def absent(self, key: str, default: object = REQUIRED) -> bool:
        """Whether the field is missing. Raises `error` if it is required."""
        if key in self.mapping:
            return False
        if default is REQUIRED:
            present = f" It has: {', '.join(self.mapping)}." if self.mapping else ""
            raise self.error(f"{self.description} needs {key!r}.{present}", where=self.place())
        return True

    def _refuse_torn_text(self, key: str) -> None:
        """`{quote: one, two}` makes a key `two`, which contains nothing."""
        if self.mapping[key] is None and not (key.isascii() and key.isidentifier()):
            message = (f"{key!r} is not a key of {self.description}: within {{…}} a text with a "
                       "comma needs quotes.")
            raise self.error(message, where=self.place(key))

    def _read_typed(self, key: str, kind: type | tuple[type, ...], name: str) -> object:
        value = self.mapping[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.complain(key, f"should be {name}, not {describe(value)}.")
        return value

    def _text(self, value: object, key: str, place: FileLocation) -> str:
        if not isinstance(value, str):
            quote = " Quote it if text is meant." if isinstance(value, bool | int | float) else ""
            raise self.error(f"{key!r} of {self.description} should be text, "
                             f"not {describe(value)}.{quote}", where=place)
        if not value.strip():
            raise self.error(f"{key!r} of {self.description} is empty.", where=place)
        return value.strip()

    def entries(self, key: str, of: str) -> Iterator[tuple[int, object, FileLocation]]:
        """The entries of a list: (index, value, place). Errors say that they should be `of`."""
        values = self.mapping[key]
        if not isinstance(values, LocatedList):
            raise self.complain(key, f"should be a list of {of}, not {describe(values)}.")
        for index, value in enumerate(values):
            yield index, value, values.place_of(index)

    def _fields(self, value: object, key: str, what: str, place: FileLocation) -> Fields:
        if not isinstance(value, Located):
            raise self.error(f"{key!r} of {self.description} should be a mapping, "
                             f"not {describe(value)}.", where=place)
        return Fields(value, what, self.error)


def _unusable(address: str) -> str:
    """What a bad address should be like; empty for a good one."""
    if not address.startswith(("https://", "http://")):
        return "that begins with https:// or http://"
    if character := _OUTSIDE_URLS.search(address):
        return f"without {character[0]!r} in it"
    try:
        parts = urlsplit(address)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        is_whole = False
    return "" if is_whole else "whose host can be read"
