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
from attnspec.core.errors import AttnspecError, Place, SpecError

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 24  # no file of ours nests half as deep; without a limit Python's own stack would be it
_LONGEST = 30  # digits of a whole number: far beyond what we count, far below what Python refuses to read
_WORDS: dict[str, object] = {"": None, "~": None, "null": None, "true": True, "false": False,
                             ".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class Located(dict[str, Any]):
    """A mapping that knows its own place and that of each key."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.places: dict[str, Place] = {}

    def place_of(self, key: str) -> Place:
        """Where `key` stands; the mapping's own place if it has no such key."""
        return self.places.get(key, self.place)


class LocatedList(list[Any]):
    """A sequence that knows its own place and that of each entry."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.places: list[Place] = []

    def place_of(self, index: int) -> Place:
        """Where the entry `index` stands; the sequence's own place if it has no such entry."""
        return self.places[index] if 0 <= index < len(self.places) else self.place


def load_yaml(path: Path, *, error: type[AttnspecError] = SpecError) -> Located:
    """The mapping that the file holds. Raises `error` with file, line and cause for anything else."""
    return parse_yaml(read_bytes(path, error=error), shown(path), error=error)


def read_bytes(path: Path, *, error: type[AttnspecError] = SpecError) -> bytes:
    """The bytes of a file; raises `error` where it is missing, a folder, or not ours to read."""
    where = Place(shown(path))
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
        raise error(f"is empty; {wanted}.", where=Place(file))
    if not isinstance(document, Located):
        raise error(f"holds {describe(document)}; {wanted}.", where=Place(file, 1))
    return document


def shown(path: Path) -> str:
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
    return f"{names.get(type(value), type(value).__name__)} ({value!r})"


def _decoded(data: bytes, file: str, error: type[AttnspecError]) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        where = Place(file, data.count(b"\n", 0, cause.start) + 1)
        raise error(f"is not UTF-8 text: byte 0x{data[cause.start]:02x} cannot be read.", where=where) from None


def _complaint(cause: yaml.YAMLError, text: str, file: str, error: type[AttnspecError]) -> AttnspecError:
    """The parser's complaint in our form."""
    if not isinstance(cause, yaml.MarkedYAMLError) or cause.problem_mark is None:
        position = getattr(cause, "position", 0)  # a forbidden character: the reader knows its place, not its line
        where = Place(file, text.count("\n", 0, position) + 1)
        return error("is no YAML: a control character is not allowed.", where=where)
    where = Place(file, cause.problem_mark.line + 1)
    line = "".join(text.split("\n")[where.line - 1 : where.line])
    if "\t" in line[: cause.problem_mark.column + 1]:
        return error("is no YAML: a tab indents this line. Indent with spaces.", where=where)
    begun = f" begun on line {cause.context_mark.line + 1}" if cause.context_mark else ""
    context = f" {cause.context}{begun}" if cause.context else ""
    return error(f"is no YAML: {cause.problem}{context}.", where=where)


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
        event: yaml.Event = self._parser.get_event()
        return event

    def _value(self, event: yaml.Event, *, depth: int) -> object:
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise self._complain(f"{event.anchor!r} is an anchor or alias; write the value out.", event)
        if getattr(event, "tag", None) is not None:
            raise self._complain(f"the tag {getattr(event, 'tag', '')!r} is not allowed; write a plain value.", event)
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
            spelled = repr(event.value) if isinstance(event, yaml.ScalarEvent) else "a list or mapping"
            raise self._complain(f"{spelled} cannot be a key: keys are text. Quote it if text is meant.", event)
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
            return text
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if _INTEGER.fullmatch(text):
            if len(text) > _LONGEST:
                raise self._complain("this number is too long. Quote it if text is meant.", event)
            return int(text)
        return float(text) if _NUMBER.fullmatch(text) else text

    def _place(self, event: yaml.Event) -> Place:
        return Place(self._file, event.start_mark.line + 1 if event.start_mark else 0)

    def _complain(self, message: str, event: yaml.Event) -> AttnspecError:
        return self._error(message, where=self._place(event))
