"""Why a target cannot be had, in words for whoever typed it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnspec.core import paths
from attnspec.core.errors import FileLocation, ImportingError, MissingNameError, TargetError, either, hint, near_misses
from attnspec.core.nouns import Verdict
from attnspec.core.paths import portable_text
from attnspec.hosting.process import DIED, ProcessDeath
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.described import FunctionDescription
from attnspec.subjects.installed import how_to_install
from attnspec.subjects.manifest import FILE, read_manifest
from attnspec.subjects.outline import near_file, no_function

_OF_PYTHON = re.compile(r"(site|dist)-packages|/python3?[\d.]*(\.zip|/lib-dynload)?/?$")


def not_loaded(told: Mapping[str, Any], name: str, target: str) -> TargetError:
    """The error for what `host.loading` tells. name: of the module or the file."""
    kind = told.get("kind")
    if kind == "missing":
        inner = "." in str(told["absent"])  # a part of a package that is there, in another release perhaps
        return (ImportingError if inner else TargetError)(_explain_missing_name(told, name))
    if kind == "syntax":
        return TargetError(f"{name!r} is no valid Python: {told['message']}.", where=_place(told))
    if kind == "no_file":
        path = Path(name)
        return TargetError(f"there is no such file.{near_file(path)}", where=FileLocation(str(path)))
    if kind == "no_python":
        return TargetError("is not a Python file; its name should end in .py.", where=FileLocation(name))
    if kind == "member":
        place = FileLocation(shown_path(Path(told["file"])) if "/" in told["file"] else str(told["file"]))
        return MissingNameError(f"there is no {told['part']!r} in it (target {target!r}).{_nearest_callable(told)}",
                                where=place)
    return ImportingError(f"importing {name!r} raises {portable_text(str(told.get('summary', kind)))}",
                         where=_place(told) if told.get("file") else None)


def _place(told: Mapping[str, Any]) -> FileLocation:
    return FileLocation(shown_path(Path(str(told["file"]))), int(told["line"]))


def _explain_missing_name(told: Mapping[str, Any], name: str) -> str:
    absent = str(told["absent"])
    top, _, inner = absent.partition(".")
    if told["is_asked"]:
        return f"there is no module {absent!r}.{hint(absent.rpartition('.')[2], told['siblings'])}"
    if not inner and (command := _install(top)):
        return f"importing {name!r} needs {absent!r}, which is not installed. Install it: {command}"
    near = near_misses(absent.rpartition(".")[2], list(map(str, told["siblings"])))
    return (f"importing {name!r} needs the module {absent!r}, which was not found in {_looked(told)}."
            f"{f' Did you mean {either(near)}?' if near else ''}")


def _install(module: str) -> str:
    """The command that installs what attnspec knows: a framework, or what a registered library is imported as.

    Empty for any other module: a distribution of the same name may be a stranger's.
    """
    for manifest in sorted(paths.folder("implementations").glob(f"*/{FILE}")):
        library = next(iter(read_manifest(manifest.parent))).library
        if module in library.requires.split()[:1]:
            return library.install or (f"pip install {library.distribution}" if library.distribution else "")
    return how_to_install(module)


def _looked(told: Mapping[str, Any]) -> str:
    """Where a module was looked for: `the current folder, scratch or the installed packages`."""
    folders = [Path(str(folder)) for folder in told.get("looked", ())]
    own = ["the current folder" if folder == Path.cwd() else portable_text(paths.typed_here(str(folder)))
           for folder in folders if not _OF_PYTHON.search(str(folder))]
    *others, last = [*dict.fromkeys(own), *(["the installed packages"] if len(own) < len(folders) or not own else [])]
    return f"{', '.join(others)} or {last}" if others else last


def _nearest_callable(told: Mapping[str, Any]) -> str:
    """A hint: the nearest public callable of a module or class, or those that it defines itself."""
    name, public = str(told["part"]), list(map(str, told["members"]))
    return hint(name, public if near_misses(name, public) else list(map(str, told["own"])))


def not_callable(function: FunctionDescription, target: str, importable: str) -> TargetError:
    """Makes the error for a class, or for what cannot be called at all. importable: the class as `attnspec init` is
    told it.
    """
    if function.is_class:
        return no_function(target, function.qualname.rpartition(".")[2], importable, function.where)
    return TargetError(f"{target!r} is {function.type_name} and cannot be called; a function is expected: "
                       "attend(query, key, value, *, ...).")


def not_ended(doing: str, death: ProcessDeath, deadline: float) -> str:
    """Why `importing 'mine'` or `trying torch` did not come to its end, and what to do where it took too long.

    deadline: in seconds.
    """
    if death.verdict is Verdict.TIMED_OUT:
        return f"{doing} had not ended after {deadline:g} s. Give it longer: --deadline."
    if death.reason.startswith(DIED):
        return f"{doing} ends the process{death.reason.removeprefix(DIED)}.{_last_words(death)}"
    return f"{doing} ends the process: {death.reason}."


def _last_words(death: ProcessDeath) -> str:
    """The last line that the process printed."""
    lines = death.printed.strip().splitlines()
    return f" Its last words: {portable_text(lines[-1])}" if lines else ""
