"""Has a function loaded, in its own process or in this one.

It tells what is known of the function, where it is, or why it cannot be had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnspec.core.errors import EndedError, TargetError
from attnspec.core.keyword_nouns import BACKWARD
from attnspec.core.plan import HANDED
from attnspec.host import loading
from attnspec.hosting.client import Client, HostDied, LoadedFunction, NotLoadedThere
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.callee import Callee, InProcess, hosted_function
from attnspec.subjects.described import FunctionDescription, described_of, read_description
from attnspec.subjects.manifest import Library
from attnspec.subjects.not_loaded import not_ended, not_loaded
from attnspec.subjects.outline import by_name, no_such_subject
from attnspec.subjects.signature import SOMEWHERE


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """Tells where a function comes from: a module of that name, or the one in a file; and its name there.

    is_program: whether a program has it, which is named in the place of the module.  text: that of a module which no
    file holds.  backward: the name of its backward pass in the same module, where that is told.
    """

    module: str
    name: str
    file: str = ""
    is_program: bool = False
    text: str = ""
    backward: str = ""

    @classmethod
    def of(cls, target: str) -> FunctionSource:
        """`package.module:function` or `path/to/file.py:function`. Raises TargetError."""
        module, _, name = target.rpartition(":")
        if not module or not name:
            raise no_such_subject(target, ())
        if module.endswith(".py") or "/" in module or "\\" in module:
            return cls(module, name, str(Path(module).absolute()))
        if not all(part.isidentifier() for part in module.split(".")):
            raise TargetError(f"{module!r} is not a module name. Write package.module:function.")
        return cls(module, name)

    @classmethod
    def from_manifest(cls, library: Library, function: str) -> FunctionSource:
        """The function of a manifest: `adapter:name`, or what the library's program calls it."""
        if library.program:
            return cls(library.folder, function, is_program=True)
        adapter, _, name = function.partition(":")
        return cls(f"{loading.PACKAGE}.{library.folder}.{adapter}", name)

    @property
    def header(self) -> Mapping[str, Any]:
        """What a host is told of the function's source."""
        if self.is_program:
            return {}
        if self.text:
            return {"text": self.text}
        return {**({"file": self.file} if self.file else {"module": self.module}), "first": [str(Path.cwd())]}

    @property
    def header_elsewhere(self) -> Mapping[str, Any]:
        """What a host is told that does not see this machine's files."""
        if self.text:
            return self.header
        return {"file": Path(self.file).name} if self.file else {"module": self.module, "first": []}

    @property
    def importable(self) -> str:
        """As `attnspec init` wants it; what stands for it where no import finds it."""
        if self.module == HANDED:
            return SOMEWHERE
        if not self.file:
            return f"{self.module}:{self.name}"
        return by_name(Path(self.file), self.name)


def _shown_file(file: str) -> str:
    """The path of a file as messages have it; empty for none."""
    return shown_path(Path(file)) if file else ""


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A function that was found: what is known of it, and how it is called once its lift is known.

    backward: what is known of the function beside it that has the name of its backward pass.
    """

    description: FunctionDescription
    make_callee: Callable[[str], Callee]
    versions: Mapping[str, str]
    backward: FunctionDescription | None = None


def load_in_host(source: FunctionSource, target: str, client: Client, versions: Iterable[str] = ()) -> FoundFunction:
    """The function in its own process."""
    loaded = loaded_there(source, target, client, versions)
    described = _description(loaded.described, source.name)
    backward = None if loaded.backward is None else _description(loaded.backward, source.name + BACKWARD)
    return FoundFunction(described, lambda lift: hosted_function(client, loaded.number, lift), loaded.versions,
                         backward)


def loaded_there(source: FunctionSource, target: str, client: Client, versions: Iterable[str] = ()) -> LoadedFunction:
    """What the client tells of a callable that it has loaded. Raises TargetError."""
    client.begin_item()
    try:
        where = source.header if client.surroundings.is_here else source.header_elsewhere
        named = {"backward": source.backward} if source.backward else {}
        return client.load({"from": where, "name": source.name, "versions": list(versions), **named})
    except NotLoadedThere as cause:
        raise not_loaded(cause.told, _shown_file(source.file) or source.module, target) from None
    except HostDied as died:
        raise EndedError(not_ended(f"importing {source.module!r}", died.death, client.surroundings.deadline)) from None


def _description(told: Mapping[str, Any], name: str) -> FunctionDescription:
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
        raise not_loaded(cause.told, _shown_file(source.file) or source.module, target) from None
    beside = None if backward is None else described_of(backward)
    return FoundFunction(described_of(function), lambda lift: InProcess(function, lift, backward), {}, beside)
