"""YAML that remembers where everything stands.

A small, safe part of YAML is read: mappings, sequences and plain values as YAML 1.2 means them (so `on`, `no` and
`2024-03-28` are text, `1e-9` is a number). Tags, anchors, aliases, duplicate keys and several documents in one file are
refused, each with file and line. libyaml does the parsing where PyYAML was built with it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from attnspec.core import paths
from attnspec.core.errors import AttnspecError, FileLocation, SpecError, quoted

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 24  # no file of ours nests half as deep; without a limit Python's own stack would be it
_LONGEST = 30  # digits of a whole number: far beyond what we count, far below what Python refuses to read
_LONGEST_KEY = 100  # characters; no name of ours is half as long
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters; tab, line feed, carriage return apart
                     "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # ends of lines that no editor counts, and of direction
                     "\ud800-\udfff\ufeff\ufffe\uffff]")
"""What no text of ours holds: it does not show, changes what a terminal or a page shows, or cannot be written down."""
_WORDS: dict[str, object] = {"": None, "~": None, "null": None, "true": True, "false": False,
                             ".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class Located(dict[str, Any]):
    """A mapping that knows its own place and that of each key."""

    def __init__(self, place: FileLocation) -> None:
        super().__init__()
        self.place = place
        self.places: dict[str, FileLocation] = {}

    def place_of(self, key: str) -> FileLocation:
        """Where `key` stands; the mapping's own place if it has no such key."""
        return self.places.get(key, self.place)


class LocatedList(list[Any]):
    """A sequence that knows its own place and that of each entry."""

    def __init__(self, place: FileLocation) -> None:
        super().__init__()
        self.place = place
        self.places: list[FileLocation] = []

    def place_of(self, index: int) -> FileLocation:
        """Where the entry `index` stands; the sequence's own place if it has no such entry."""
        return self.places[index] if 0 <= index < len(self.places) else self.place


def load_yaml(path: Path, *, error: type[AttnspecError] = SpecError) -> Located:
    """The mapping that the file holds. Raises `error` with file, line and cause for anything else."""
    return parse_yaml(read_bytes(path, error=error), shown_path(path), error=error)


def read_bytes(path: Path, *, error: type[AttnspecError] = SpecError) -> bytes:
    """Reads the bytes of a file; raises `error` where it is missing, a folder, or not ours to read."""
    where = FileLocation(shown_path(path))
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise error("there is no such file.", where=where) from None
    except IsADirectoryError:
        raise error("is a folder; a YAML file is expected.", where=where) from None
    except (OSError, ValueError) as cause:
        raise error(f"cannot be read: {getattr(cause, 'strerror', None) or cause}.", where=where) from None


def parse_yaml(data: bytes, file: str, *, error: type[AttnspecError] = SpecError,
               wanted: str = "a mapping is expected") -> Located:
    """The mapping that `data` spells; `file` is the name that complaints give, `wanted` what they ask for.

    Raises `error`.
    """
    text = _decoded(data, file, error)
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
    """The path as the user knows it: from the data folders' parent, else from the working directory, else in full."""
    full = path.absolute()
    for base in (paths.folder("spec").parent, Path.cwd()):
        if full.is_relative_to(base):
            return full.relative_to(base).as_posix()
    return path.as_posix()


def describe(value: object) -> str:
    """What a loaded value is, for a message: `a list`, `text ('abc')`, `a whole number (3)`."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {str: "text", int: "a whole number", float: "a number"}
    return f"{names.get(type(value), type(value).__name__)} ({quoted(value)})"


def _decoded(data: bytes, file: str, error: type[AttnspecError]) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        where = FileLocation(file, data.count(b"\n", 0, cause.start) + 1)
        raise error(f"is not UTF-8 text: byte 0x{data[cause.start]:02x} cannot be read.", where=where) from None
    if found := _HIDDEN.search(text):
        raise error(_hidden(found[0]), where=FileLocation(file, text.count("\n", 0, found.start()) + 1))
    return text


def _hidden(character: str) -> str:
    return f"holds the character U+{ord(character):04X}, which is invisible. Leave it out."


def _complaint(cause: yaml.YAMLError, text: str, file: str, error: type[AttnspecError]) -> AttnspecError:
    """The parser's complaint in our form."""
    if not isinstance(cause, yaml.MarkedYAMLError) or cause.problem_mark is None:
        return error("is not YAML.", where=FileLocation(file, 1))
    where = FileLocation(file, cause.problem_mark.line + 1)
    line = "".join(text.split("\n")[where.line - 1 : where.line])
    if plain := _in_plain_words(str(cause.problem), line, cause.problem_mark.column):
        return error(f"is not YAML: {plain}", where=where)
    begun = f" begun on line {cause.context_mark.line + 1}" if cause.context_mark else ""
    context = f" {cause.context}{begun}" if cause.context else ""
    return error(f"is not YAML: {cause.problem}{context}.", where=where)


def _in_plain_words(problem: str, line: str, column: int) -> str:
    """What the commonest mistakes are, and the way out; "" for others. column: where the parser stopped."""
    if "\t" in line[: column + 1]:
        return "a tab indents this line. Indent with spaces."
    if problem.startswith("mapping values are not allowed") and ": " in line[:column]:
        return "this line has a second colon. Put the text behind the first one in quotes."
    if problem.startswith("found character that cannot start any token"):
        return f"a text cannot begin with {line[column : column + 1]!r}. Put it in quotes."
    return ""


class _Builder:
    """From the parser's events to located values."""

    def __init__(self, text: str, file: str, error: type[AttnspecError]) -> None:
        self._parser = _PARSER(text)
        self._file = file
        self._error = error

    def document(self) -> object:
        """The one document of the stream; None for an empty one."""
        try:
            self._next()  # the stream's start
            if isinstance(self._next(), yaml.StreamEndEvent):
                return None
            value = self._value(self._next(), depth=0)
            self._next()  # the document's end
            if not isinstance(after := self._next(), yaml.StreamEndEvent):
                raise self._complain("a second document begins here; a file holds one.", after)
            return value
        finally:
            self._parser.dispose()

    def _next(self) -> yaml.Event:
        try:
            event: yaml.Event = self._parser.get_event()
        except (ValueError, OverflowError):  # PyYAML without libyaml: an escape that names no character
            where = FileLocation(self._file, self._parser.get_mark().line + 1)
            raise self._error("is not YAML: an escape of this text names no character.", where=where) from None
        return event

    def _value(self, event: yaml.Event, *, depth: int) -> object:
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise self._complain(f"{quoted(event.anchor)} is an anchor or alias; write the value out.", event)
        if (tag := getattr(event, "tag", None)) is not None:
            raise self._complain(f"the tag {quoted(tag)} is not allowed; write a plain value.", event)
        if depth > _DEEPEST:
            raise self._complain(f"nests deeper than {_DEEPEST} levels.", event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        return (self._mapping if isinstance(event, yaml.MappingStartEvent) else self._sequence)(event, depth)

    def _mapping(self, start: yaml.Event, depth: int) -> Located:
        mapping = Located(self._place(start))
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            if key in mapping:
                first = mapping.places[key].line
                raise self._complain(f"the key {key!r} is given twice; first on line {first}.", event)
            mapping.places[key] = self._place(event)
            mapping[key] = value = self._value(self._next(), depth=depth + 1)
            if isinstance(value, Located | LocatedList):
                value.place = mapping.places[key]  # a block begins where its key stands, not on the line below
        return mapping

    def _key(self, event: yaml.Event) -> str:
        key = self._value(event, depth=0) if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) else None
        if not isinstance(key, str):
            spelled = quoted(event.value) if isinstance(event, yaml.ScalarEvent) else "a list or mapping"
            raise self._complain(f"{spelled} cannot be a key: keys are text. Quote it if text is meant.", event)
        if len(key) > _LONGEST_KEY:
            raise self._complain(f"{quoted(key)} cannot be a key: at most {_LONGEST_KEY} characters are.", event)
        return key

    def _sequence(self, start: yaml.Event, depth: int) -> LocatedList:
        sequence = LocatedList(self._place(start))
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            sequence.places.append(self._place(event))
            sequence.append(self._value(event, depth=depth + 1))
        return sequence

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        if found := _HIDDEN.search(text):  # an escape, as in "\x1b"
            raise self._complain(_hidden(found[0]), event)
        if event.style:  # quoted or a block: text, whatever it looks like
            return text
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if _INTEGER.fullmatch(text):
            if len(text) > _LONGEST:
                raise self._complain("this number is too long. Quote it if text is meant.", event)
            return int(text)
        return float(text) if _NUMBER.fullmatch(text) else text

    def _place(self, event: yaml.Event) -> FileLocation:
        return FileLocation(self._file, event.start_mark.line + 1 if event.start_mark else 0)

    def _complain(self, message: str, event: yaml.Event) -> AttnspecError:
        return self._error(message, where=self._place(event))
