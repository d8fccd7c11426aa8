"""A record, or an event of one, with its hidden characters shown: what every console and page tells of."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from attnspec.core import characters

T = TypeVar("T")


def show_hidden(thing: T) -> T:
    """The same with every text in it as `characters.escape_hidden` shows it; the very same where nothing is hidden."""
    shown: T = _with_visible_text(thing)
    return shown


def _with_visible_text(thing: Any) -> Any:  # noqa: ANN401  (whatever a record holds)
    if thing is None or isinstance(thing, int | float | enum.Enum):
        return thing
    if isinstance(thing, str):
        return characters.escape_hidden(thing)
    if isinstance(thing, tuple | list):
        parts = [_with_visible_text(each) for each in thing]
        return type(thing)(parts) if _differ(parts, thing) else thing
    if isinstance(thing, Mapping):
        parts = [part for pair in thing.items() for part in map(_with_visible_text, pair)]
        is_changed = _differ(parts, [part for pair in thing.items() for part in pair])
        return dict(zip(parts[::2], parts[1::2], strict=True)) if is_changed else thing
    kind: type = type(thing)
    names = _fields(kind)
    changed = {name: new for name in names if (new := _with_visible_text(old := getattr(thing, name))) is not old}
    return dataclasses.replace(thing, **changed) if changed else thing


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; none of anything else."""
    return tuple(each.name for each in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def _differ(new: list[Any], old: Any) -> bool:  # noqa: ANN401  (whatever a record holds)
    return any(one is not other for one, other in zip(new, old, strict=True))
