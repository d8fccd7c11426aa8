"""Runs the process in which a foreign callable is examined, and locates what it imports.

That is a module by its name, or the module that a file is.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnspec.core.errors import FileLocation, TargetError
from attnspec.host.frames import MAX_HEADER_BYTES
from attnspec.hosting.client import Client, HostDied
from attnspec.scaffold.examined import ExaminedCallable, read_callable
from attnspec.subjects.call import Call, ReturnedTree, SubjectDied, SubjectRaised
from attnspec.subjects.callee import Hosted
from attnspec.subjects.exceptions import not_ended
from attnspec.subjects.outline import near_file
from attnspec.subjects.subject import Subject
from attnspec.subjects.target import FunctionSource, describe_loaded, load_text


@dataclass(frozen=True, slots=True)
class TargetLocation:
    """A target as it is imported.

    target: `package.module:name`.  folder: what has to be on Python's path, in full; empty where
    it is found without.  file: the file, in full, where no import finds a module of that name; it
    is loaded by its path, under the name that the target has.
    """

    target: str
    folder: str = ""
    file: str = ""

    def path_from(self, place: Path) -> str:
        """Returns the file, else the folder, relative to a place; empty where none is needed."""
        told = self.file or self.folder
        return Path(os.path.relpath(told, place)).as_posix() if told else ""

    @property
    def preload_source(self) -> str:
        """Returns Python that loads the file; empty where it is imported."""
        if not self.file:
            return ""
        module = self.target.partition(":")[0]
        return "\n".join([*LOADING_IMPORTS, *write_loading(module, f"Path({self.file!r})"), ""])


def locate_target(target: str) -> TargetLocation:
    """Locates `package.module:name`, or `path/to/file.py:name` by the module that the file is. A
    file in a package (`__init__.py`) is a module of that package, so that it may import
    relatively; any other is one of its own folder, where its siblings are found. A file whose name
    is no module's, or one of Python's own, gets a name. Raises TargetError.
    """
    written, _, name = target.rpartition(":")
    if not (written.endswith(".py") or "/" in written or "\\" in written):
        return TargetLocation(target)
    file = Path(written).absolute()
    if not file.is_file():
        raise TargetError(f"there is no such file.{near_file(Path(written))}",
                          where=FileLocation(written))
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if not all(part.isidentifier() for part in parts) or parts[0] in sys.stdlib_module_names:
        return TargetLocation(f"{_make_module_name(file)}:{name}", str(file.parent), str(file))
    is_here = folder.resolve() == Path.cwd().resolve()
    return TargetLocation(f"{'.'.join(parts)}:{name}", "" if is_here else str(folder))


def _make_module_name(file: Path) -> str:
    """Makes a module name for such a file: `my-attn.py` is my_attn, `2d.py` is file_2d."""
    name = re.sub(r"\W", "_", file.stem)
    name = f"file_{name}" if name[:1].isdigit() else name
    is_taken = name in sys.stdlib_module_names or keyword.iskeyword(name) or file.with_name(f"{name}.py").exists()
    return f"{name}_file" if is_taken else name


def write_loading(module: str, file: str) -> list[str]:
    """Writes Python that loads a file, given as an expression for its path, as a module."""
    return [f"_FILE = {file}", "sys.path.insert(0, str(_FILE.parent))",
            f'if "{module}" not in sys.modules:',
            f'    _spec = spec_from_file_location("{module}", _FILE)',
            f'    sys.modules["{module}"] = module_from_spec(_spec)',
            f'    _spec.loader.exec_module(sys.modules["{module}"])']


LOADING_IMPORTS = ("import sys",
                   "from importlib.util import module_from_spec, spec_from_file_location",
                   "from pathlib import Path")


class OutOfTime(TargetError):  # noqa: N818  (named for what happened)
    """Raised when the search takes longer than it may."""


@dataclass(slots=True)
class CalleeProcess:
    """One process, and what was loaded in it.

    end_time: when the search has to be over, by `time.monotonic`.  preload_source: Python that
    runs before anything else there, and loads a callee that no import finds.
    """

    client: Client
    end_time: float = float("inf")
    preload_source: str = ""
    _loaded: dict[tuple[str, str], Subject] = field(default_factory=dict)
    _has_modules: dict[str, bool] = field(default_factory=dict)

    def examine(self, target: str, *, sources: bool = False) -> ExaminedCallable:
        """Examines `package.module:name`, with its sources if asked for. Raises TargetError."""
        if self.preload_source:
            self.load_source("def preloaded(query, key, value): ...\n", "preloaded", "")
        module, _, name = target.rpartition(":")
        if not module or not name or module.endswith(".py") or "/" in module:
            raise TargetError(f"{target!r} names nothing in a module. Write package.module:name "
                              "or path/to/file.py:name.")
        loaded = describe_loaded(FunctionSource.from_target(target), target, self.client)
        if not loaded.description["is_callable"]:
            raise TargetError(f"{target!r} is {loaded.description['type']} and cannot be called.")
        header = {"do": "examine", "of": loaded.number, "sources": sources}
        try:
            told, _ = self.client.request(header, most=MAX_HEADER_BYTES)
            return read_callable(target, loaded.description, told)
        except HostDied as died:
            deadline = self.client.surroundings.deadline
            raise TargetError(not_ended(f"looking at {target!r}", died.death, deadline)) from None
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
            raise TargetError(f"the host does not describe {target!r} as docs/protocol.md says: {wrong!r}.") from None

    def load_source(self, text: str, name: str, lift: str) -> Subject:
        """Loads the function from this text, once. Raises TargetError; OutOfTime."""
        if time.monotonic() > self.end_time:
            raise OutOfTime(f"it had not returned after {self.client.surroundings.deadline:g} s. "
                            "Give it longer: --deadline.")
        if (text, lift) not in self._loaded:
            self._loaded[text, lift] = load_text(self._add_preload(text), name, self.client, lift=lift)
        return self._loaded[text, lift]

    def call_text(self, text: str, name: str, call: Call, lift: str = "") -> ReturnedTree | None:
        """Calls the function of this name in this text; returns None where it raises."""
        callee = self.load_source(text, name, lift).callee
        assert isinstance(callee, Hosted)  # it was loaded there
        try:
            return callee.call_whole(call)
        except (SubjectRaised, SubjectDied):
            return None

    def _add_preload(self, text: str) -> str:
        """Adds what loads the callee before all that the text imports."""
        future, line, rest = text.rpartition("from __future__ import annotations\n")
        return f"{future}{line}{self.preload_source}{rest}"

    def has_module(self, module: str) -> bool:
        """Says whether a module can be imported there."""
        if module not in self._has_modules:
            told: Mapping[str, Any] = self.client.request({"do": "find", "modules": [module], "distributions": []})[0]
            self._has_modules[module] = bool(told["modules"][module])
        return self._has_modules[module]
