"""Where a target of `init` is imported from: a module by its name, or the one that a file is."""

from __future__ import annotations

import keyword
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError
from attnspec.subjects.outline import near_file


@dataclass(frozen=True, slots=True)
class TargetLocation:
    """A target as it is imported. target: `package.module:name`.

    folder: what has to be on Python's path for that, in full; empty where it is found without.
    file: where no import finds a module of that file's name, the file itself, in full: it is loaded by its path, under
    the name that the target has.
    """

    target: str
    folder: str = ""
    file: str = ""

    def path_from(self, place: Path) -> str:
        """The file that is loaded by its path, else the folder, as one goes there; empty where neither is needed."""
        told = self.file or self.folder
        return Path(os.path.relpath(told, place)).as_posix() if told else ""

    @property
    def preload_source(self) -> str:
        """Python that loads the file; empty where it is imported."""
        if not self.file:
            return ""
        module = self.target.partition(":")[0]
        return "\n".join([*LOADING_IMPORTS, *write_loading(module, f"Path({self.file!r})"), ""])


def locate_target(target: str) -> TargetLocation:
    """`package.module:name` as it is; `path/to/file.py:name` by the module that the file is.

    A file in a package (`__init__.py`) is a module of that package, so that it may import relatively; any other is one
    of its own folder, where its siblings are found. A file whose name is no module's, or one of Python's own, gets a
    name. Raises TargetError.
    """
    written, _, name = target.rpartition(":")
    if not (written.endswith(".py") or "/" in written or "\\" in written):
        return TargetLocation(target)
    file = Path(written).absolute()
    if not file.is_file():
        raise TargetError(f"there is no such file.{near_file(Path(written))}", where=FileLocation(written))
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if not all(part.isidentifier() for part in parts) or parts[0] in sys.stdlib_module_names:
        return TargetLocation(f"{_make_module_name(file)}:{name}", str(file.parent), str(file))
    is_here = folder.resolve() == Path.cwd().resolve()
    return TargetLocation(f"{'.'.join(parts)}:{name}", "" if is_here else str(folder))


def _make_module_name(file: Path) -> str:
    """A name for the module of a file that has none: `my-attn.py` is my_attn, `2d.py` is file_2d."""
    name = re.sub(r"\W", "_", file.stem)
    name = f"file_{name}" if name[:1].isdigit() else name
    is_taken = name in sys.stdlib_module_names or keyword.iskeyword(name) or file.with_name(f"{name}.py").exists()
    return f"{name}_file" if is_taken else name


def write_loading(module: str, file: str) -> list[str]:
    """Python that loads a file under the name of a module; file: an expression for its path."""
    return [f"_FILE = {file}", "sys.path.insert(0, str(_FILE.parent))", f'if "{module}" not in sys.modules:',
            f'    _spec = spec_from_file_location("{module}", _FILE)',
            f'    sys.modules["{module}"] = module_from_spec(_spec)',
            f'    _spec.loader.exec_module(sys.modules["{module}"])']


LOADING_IMPORTS = ("import sys", "from importlib.util import module_from_spec, spec_from_file_location",
                   "from pathlib import Path")
"""What these lines import."""
