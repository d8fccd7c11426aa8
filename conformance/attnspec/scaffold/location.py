"""Where a target of `init` is imported from: a module by its name, or the one that a file is."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError
from attnspec.subjects.outline import near_file


@dataclass(frozen=True, slots=True)
class Location:
    """A target as it is imported. target: `package.module:name`.

    folder: what has to be on Python's path for that, in full; empty where it is found without.
    """

    target: str
    folder: str = ""

    def folder_from(self, place: Path) -> str:
        """The folder, as one goes there from another; empty where there is none."""
        return Path(os.path.relpath(self.folder, place)).as_posix() if self.folder else ""


def locate(target: str) -> Location:
    """`package.module:name` as it is; `path/to/file.py:name` by the module that the file is.

    A file in a package (`__init__.py`) is a module of that package, so that it may import relatively; any other is one
    of its own folder, where its siblings are found. Raises TargetError.
    """
    written, _, name = target.rpartition(":")
    if not (written.endswith(".py") or "/" in written or "\\" in written):
        return Location(target)
    file = Path(written).absolute()
    if not file.is_file():
        raise TargetError(f"there is no such file.{near_file(Path(written))}", where=FileLocation(written))
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    _check_name(written, parts)
    is_here = folder.resolve() == Path.cwd().resolve()
    return Location(f"{'.'.join(parts)}:{name}", "" if is_here else str(folder))


def _check_name(written: str, parts: list[str]) -> None:
    """Raise TargetError for a file that no adapter could import."""
    for part in parts:
        if not part.isidentifier():
            raise TargetError(f"an adapter has to import it, and {part!r} is no name of a module. Rename it, with "
                              "letters, digits and `_` only.", where=FileLocation(written))
    if parts[0] in sys.stdlib_module_names:
        raise TargetError(f"Python has a module {parts[0]!r} itself, which an adapter would import in its place. "
                          "Rename it.", where=FileLocation(written))
