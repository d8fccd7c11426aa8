"""The JSON Schema of a line of a record, made from the dataclasses that are written."""

from __future__ import annotations

import dataclasses
import enum
import json
import typing
from collections.abc import Mapping
from typing import Any

from attnspec.core.docstrings import docstring
from attnspec.record.codec import EVENTS, NON_FINITE, Hint, hints, is_brief, is_union, required

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
    """The schema of one line (JSON Schema 2020-12). A record is a file of such lines, `run_started` first."""
    definitions: dict[str, Any] = {}
    lines = [_event(name, kind, definitions) for name, kind in EVENTS.items()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of an attnspec record",
        "description": "A record is a file of JSON Lines: run_started first, run_finished last; without it the run was "
                       "interrupted. Numbers that JSON cannot write are the strings nan, inf and -inf.",
        "oneOf": lines,
        "$defs": definitions,
    }


def schema_text() -> str:
    """The published file, to the byte."""
    return json.dumps(record_schema(), indent=2, ensure_ascii=False) + "\n"


def _event(name: str, kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    table = _fields(kind, definitions)
    table["properties"] = {"event": {"const": name}, **table["properties"]}
    table["required"] = ["event", *table["required"]]
    return table


def _fields(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": " ".join(docstring(kind).split()),
        "properties": {name: _schema(hint, definitions) for name, hint in hints(kind).items()},
        # defaults are written, too, but of what comes by the thousand: whoever reads a record need not know ours
        "required": [each.name for each in dataclasses.fields(kind) if not is_brief(kind) or required(each)],
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
        definitions[hint.__name__] = _fields(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}
