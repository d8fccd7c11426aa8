"""Where the function behind a target is, and how a host is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnspec.core.errors import TargetError
from attnspec.core.plan import HANDED
from attnspec.host import loading
from attnspec.spec.yaml_lines import shown
from attnspec.subjects.manifest import Library
from attnspec.subjects.outline import by_name, no_such_subject
from attnspec.subjects.signature import SOMEWHERE


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """Where a function comes from: a module of that name, or the one in a file; and its name there.

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
    def registered(cls, library: Library, function: str) -> FunctionSource:
        """The function of a manifest: `adapter:name`, or what the library's program calls it."""
        if library.program:
            return cls(library.folder, function, is_program=True)
        adapter, _, name = function.partition(":")
        return cls(f"{loading.PACKAGE}.{library.folder}.{adapter}", name)

    @property
    def header(self) -> Mapping[str, Any]:
        """What a host is told."""
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


def shown_path(file: str) -> str:
    """The path of a file as messages have it; empty for none."""
    return shown(Path(file)) if file else ""
