"""Writes dataclasses as JSON and reads them back without a loss.

NaN and the infinities are the strings "nan", "inf" and "-inf" where a float is expected. An event
is one line, with its name first, under `event`. The JSON Schema of a line is made from the same
dataclasses.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from attnspec.core.errors import RecordError, hint
from attnspec.core.nouns import LARGEST_INTEGER
from attnspec.core.texts import HIDDEN, docstring
from attnspec.record.events import (
    BlockJudged,
    Event,
    ItemFinished,
    ItemStarted,
    KernelRanked,
    RunFinished,
    RunStarted,
    SubjectKnown,
    SubjectProbed,
    SubjectPut,
)

T = TypeVar("T")
Json: TypeAlias = Any  # what the json module takes and gives
Hint: TypeAlias = Any  # a type hint: not always a class
Way: TypeAlias = Callable[[Hint, object, str], Json]  # type, data, path: how a type is decoded

NON_FINITE: Mapping[str, float] = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(thing: object) -> Json:
    """Makes what `json.dumps(..., allow_nan=False)` takes. Raises TypeError for other objects."""
    if type(thing) in _AS_THEY_ARE:  # most of a record
        return thing
    kind: type = type(thing)
    if fields := _encoded_fields(kind):
        found = ((name, getattr(thing, name), left_out) for name, left_out in fields)
        return {name: value if type(value) in _AS_THEY_ARE else encode(value)
                for name, value, left_out in found if value != left_out}
    if isinstance(thing, Mapping):
        return {str(encode(key)): encode(value) for key, value in thing.items()}
    if isinstance(thing, (tuple, list)):
        return [encode(each) for each in thing]
    if isinstance(thing, (frozenset, set)):
        return sorted(encode(each) for each in thing)
    return _encode_plain(thing)


_AS_THEY_ARE = frozenset({str, bool, int, type(None)})


_NEVER = object()
"""What no field holds."""


@functools.cache
def _encoded_fields(kind: type) -> tuple[tuple[str, object], ...]:
    """The fields of a dataclass, each with the value at which it is left out; none of anything else."""
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple((each.name, each.default if is_brief(kind, each.name) else _NEVER)
                 for each in dataclasses.fields(kind))


@functools.cache
def is_brief(kind: type, name: str) -> bool:
    """Whether a field of a dataclass is left out if it has its default. `BRIEF` of the class says
    so: of all fields, or of the named ones.
    """
    brief = getattr(kind, "BRIEF", False)
    if isinstance(brief, frozenset):
        return name in brief
    return bool(brief)


def _encode_plain(thing: object) -> Json:
    if isinstance(thing, enum.Enum):
        return thing.value
    if thing is None or isinstance(thing, (str, bool, int)):
        return thing
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else str(float(thing))
    raise TypeError(f"a record cannot hold {type(thing).__name__}")


def decode(kind: type[T], data: object) -> T:
    """The `kind` that `data` was encoded from. Raises a RecordError that names the field."""
    decoded: T = _decode(kind, data, kind.__name__)
    return decoded


def is_union(kind: object) -> bool:
    """Whether a type hint is `A | B`."""
    return typing.get_origin(kind) in (types.UnionType, typing.Union)


@functools.cache
def type_hints_of(kind: type) -> Mapping[str, Any]:
    """The resolved type of every field of a dataclass."""
    hints = typing.get_type_hints(kind)  # also of class variables, which are no fields
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


def _decode(kind: Hint, data: object, path: str) -> Json:
    return _decoder_of(kind)(kind, data, path)


@functools.cache
def _decoder_of(kind: Hint) -> Way:
    """The function that decodes a type, looked up once: records have many thousand lines."""
    if kind is Any or kind is object:
        return _decode_anything
    if is_union(kind):
        return _decode_union
    origin: object = typing.get_origin(kind)
    if origin is None:
        origin = kind
    if origin in _BY_ORIGIN:
        return _BY_ORIGIN[origin]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _decode_enum
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _decode_fields
    return _decode_plain


DEEPEST_NESTING = 20
"""Levels of whatever a field may hold: precision words have three."""


def _decode_anything(_kind: Hint, data: object, path: str) -> Json:
    level, parts = 0, [data]
    while parts := [part for each in parts for part in _items_of(each)]:
        level += 1
        if level > DEEPEST_NESTING:
            raise RecordError(f"{path} nests too deeply for a record.")
    return data


def _items_of(data: object) -> Iterable[object]:
    if isinstance(data, dict):
        return data.values()
    return data if isinstance(data, list) else ()


def _decode_union(kind: Hint, data: object, path: str) -> Json:
    members = typing.get_args(kind)
    if data is None and type(None) in members:
        return None
    if isinstance(data, str) and str in members:
        return data
    others = [member for member in members if member not in (type(None), str)]
    return _decode(others[0] if others else str, data, path)


def _decode_tuple(kind: Hint, data: object, path: str) -> tuple[Any, ...]:
    inner = typing.get_args(kind)[0]
    if not isinstance(data, list):
        raise _misfit_error(path, "a list", data)
    return tuple(_decode(inner, each, f"{path}[{number}]") for number, each in enumerate(data))


def _decode_frozenset(kind: Hint, data: object, path: str) -> frozenset[Any]:
    return frozenset(_decode_tuple(kind, data, path))


def _decode_mapping(kind: Hint, data: object, path: str) -> dict[Any, Any]:
    key, value = typing.get_args(kind)
    if not isinstance(data, dict):
        raise _misfit_error(path, "an object", data)
    return {_decode(key, k, path): _decode(value, v, f"{path}.{k}") for k, v in data.items()}


def _decode_float(_kind: Hint, data: object, path: str) -> float:
    if isinstance(data, str) and data in NON_FINITE:
        return NON_FINITE[data]
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError:
            raise _misfit_error(path, "a number that a float can hold", data) from None
    raise _misfit_error(path, "a number", data)


_BY_ORIGIN: Mapping[Any, Way] = {
    tuple: _decode_tuple,
    frozenset: _decode_frozenset,
    Mapping: _decode_mapping,
    dict: _decode_mapping,
    float: _decode_float,
}


def _decode_enum(kind: type[enum.Enum], data: object, path: str) -> enum.Enum:
    try:
        return kind(data)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise RecordError(f"{path}: {data!r:.60} is none of {known}.") from None


def _decode_fields(kind: type, data: object, path: str) -> object:
    if not isinstance(data, dict):
        raise _misfit_error(path, "an object", data)
    known = type_hints_of(kind)
    missing = [name for name in _required_fields(kind) if name not in data]
    if missing:
        raise RecordError(f"{path} lacks {missing[0]!r}.")
    if not data.keys() <= known.keys():
        stranger = min(data.keys() - known.keys())
        raise RecordError(f"{path} has {stranger!r}, which this version of attnspec does not know.")
    fields = {name: value if known[name] is str and type(value) is str  # most of a record
              else _decode(known[name], value, f"{path}.{name}") for name, value in data.items()}
    try:
        return kind(**fields)
    except ValueError as problem:
        raise RecordError(f"{path}: {problem}") from None


@functools.cache
def _required_fields(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind) if is_required(each))


def is_required(each: dataclasses.Field[Any]) -> bool:
    """Whether a field has no default."""
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


def _decode_plain(kind: type, data: object, path: str) -> Json:
    # bool is an int to Python, never to a record
    if not isinstance(data, kind) or (kind is not bool and isinstance(data, bool)):
        names = {str: "a string", int: "a whole number", bool: "true or false"}
        raise _misfit_error(path, names[kind], data)
    if isinstance(data, int) and abs(data) >= LARGEST_INTEGER:
        raise _misfit_error(path, "a whole number of at most 18 digits", data)
    return data


def _misfit_error(path: str, wanted: str, data: object) -> RecordError:
    return RecordError(f"{path} should be {wanted}, not {data!r:.60}.")


EVENTS: Mapping[str, type[Event]] = {
    "run_started": RunStarted,
    "subject_known": SubjectKnown,
    "item_started": ItemStarted,
    "item_finished": ItemFinished,
    "subject_put": SubjectPut,
    "block_judged": BlockJudged,
    "subject_probed": SubjectProbed,
    "kernel_ranked": KernelRanked,
    "run_finished": RunFinished,
}
EVENT_NAMES: Mapping[type[Event], str] = {kind: name for name, kind in EVENTS.items()}


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def to_line(event: Event) -> str:
    """Writes an event as one line without its end. Hidden characters are escaped."""
    line = _ENCODER.encode({"event": EVENT_NAMES[type(event)], **encode(event)})
    if line.isascii() and line.isprintable():  # most lines, and to see that takes a fifth of the search
        return line
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], line)


def from_line(line: str) -> Event:
    """The event of a line. Raises RecordError without a place, which the reader adds."""
    data = _parse_line(line)
    if not isinstance(data, dict) or "event" not in data:
        raise RecordError("this line is not an event: a JSON object with a member 'event' is "
                          "expected.")
    name = data.pop("event")
    if not isinstance(name, str) or name not in EVENTS:
        raise RecordError(f"{name!r:.60} is not a known event.{hint(name, EVENTS)}")
    return decode(EVENTS[name], data)


def _parse_line(line: str) -> Json:
    try:
        return _DECODER.decode(line)
    except json.JSONDecodeError as problem:
        raise RecordError(f"this line is not JSON ({problem.msg} at column {problem.colno}); "
                          "it may have been cut off or edited.") from None
    except RecursionError:
        raise RecordError("this line nests too deeply for a record.") from None
    except ValueError:  # Python's guard against numbers that take for ever to read
        raise RecordError("a number of this line has too many digits.") from None


def _refuse(name: str) -> Json:
    raise RecordError(f"this line is not JSON: {name} is written as a string.")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


_NUMBER = {"anyOf": [{"type": "number"}, {"enum": sorted(NON_FINITE)}]}
_PLAIN: Mapping[Any, Mapping[str, object]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: _NUMBER,
    object: {},
    type(None): {"type": "null"},
}


def record_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line. A record has such lines, `run_started` first."""
    definitions: dict[str, Any] = {}
    lines = [_event(name, kind, definitions) for name, kind in EVENTS.items()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of an attnspec record",
        "description": "A record is a file of JSON Lines: run_started first, run_finished last; without it the run "
                       "was interrupted. Numbers that JSON cannot write are the strings nan, inf and -inf.",
        "oneOf": lines,
        "$defs": definitions,
    }


def schema_text() -> str:
    """The text of the published schema file."""
    return json.dumps(record_schema(), indent=2, ensure_ascii=False) + "\n"


def _event(name: str, kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    table = _schema_fields(kind, definitions)
    table["properties"] = {"event": {"const": name}, **table["properties"]}
    table["required"] = ["event", *table["required"]]
    return table


def _schema_fields(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": " ".join(docstring(kind).split()),
        "properties": {name: _schema(hint, definitions)
                       for name, hint in type_hints_of(kind).items()},
        # defaults are written, too, except of brief fields: readers need not know ours
        "required": [each.name for each in dataclasses.fields(kind)
                     if not is_brief(kind, each.name) or is_required(each)],
        "additionalProperties": False,
    }


def _schema(hint: Hint, definitions: dict[str, Any]) -> Mapping[str, Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    arguments = typing.get_args(hint)
    origin: object = typing.get_origin(hint)
    if is_union(hint):
        return {"anyOf": [_schema(each, definitions) for each in arguments]}
    if origin is tuple or origin is frozenset:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is not None:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}
        definitions[hint.__name__] = _schema_fields(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}
