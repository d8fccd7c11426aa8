"""Has a function loaded, in its own process or in this one, and tells what is known of it or why it cannot be had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attnspec.core.errors import EndedError, TargetError
from attnspec.core.gradient_keywords import BACKWARD
from attnspec.host import loading
from attnspec.hosting.client import Client, HostDied, Loaded, NotLoadedThere
from attnspec.subjects.callee import Callee, hosted
from attnspec.subjects.described import Described, described_of, read_description
from attnspec.subjects.in_process import InProcess
from attnspec.subjects.not_loaded import not_ended, not_loaded
from attnspec.subjects.source import FunctionSource, shown_path


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A function that was found: what is known of it, and how it is called once its lift is known.

    backward: what is known of the function beside it that has the name of its backward pass.
    """

    described: Described
    called: Callable[[str], Callee]
    versions: Mapping[str, str]
    backward: Described | None = None


def there(source: FunctionSource, target: str, client: Client, versions: Iterable[str] = ()) -> FoundFunction:
    """The function in its own process."""
    loaded = loaded_there(source, target, client, versions)
    described = _description(loaded.described, source.name)
    backward = None if loaded.backward is None else _description(loaded.backward, source.name + BACKWARD)
    return FoundFunction(described, lambda lift: hosted(client, loaded.number, lift), loaded.versions, backward)


def loaded_there(source: FunctionSource, target: str, client: Client, versions: Iterable[str] = ()) -> Loaded:
    """What the client tells of a callable that it has loaded. Raises TargetError."""
    client.begin_item()
    try:
        where = source.header if client.surroundings.is_here else source.header_elsewhere
        named = {"backward": source.backward} if source.backward else {}
        return client.load({"from": where, "name": source.name, "versions": list(versions), **named})
    except NotLoadedThere as cause:
        raise not_loaded(cause.told, shown_path(source.file) or source.module, target) from None
    except HostDied as died:
        raise EndedError(not_ended(f"importing {source.module!r}", died.death, client.surroundings.deadline)) from None


def _description(told: Mapping[str, Any], name: str) -> Described:
    """What a host tells of a function, if it is in order. Raises TargetError."""
    try:
        return read_description(told)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise TargetError(f"the host does not describe {name!r} as docs/protocol.md says: {wrong!r}.") from None


def in_process(source: FunctionSource, target: str) -> FoundFunction:
    """The function in this process."""
    try:
        function, backward = loading.pair(source.header, source.name, source.backward)
    except loading.NotLoaded as cause:
        raise not_loaded(cause.told, shown_path(source.file) or source.module, target) from None
    beside = None if backward is None else described_of(backward)
    return FoundFunction(described_of(function), lambda lift: InProcess(function, lift, backward), {}, beside)
