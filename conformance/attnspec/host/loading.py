"""Finds the function that a target names, or says in plain words why it cannot."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import itertools
import linecache
import pkgutil
import sys
import types
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .raised import describe_exception

# begins the name of a module that a path leads to, so that it hides no other
TARGET_PREFIX = "target_"
ADAPTER_PACKAGE = "implementations"
"""The package under which adapters are imported, from whatever folders a run names."""


class NotLoaded(Exception):  # noqa: N818  (named for what happened)
    """The target cannot be loaded; `details` say why: missing, syntax, raised, no_file …"""

    def __init__(self, kind: str, **details: Any) -> None:
        super().__init__(kind)
        self.details: Dict[str, Any] = {"kind": kind, **details}


def extend_adapters(folders: List[str]) -> None:
    """Adds folders in which adapters are found."""
    package = sys.modules.get(ADAPTER_PACKAGE)
    if package is None or not hasattr(package, "__path__"):
        package = sys.modules[ADAPTER_PACKAGE] = types.ModuleType(ADAPTER_PACKAGE)
        package.__path__ = []  # what makes it a package
    package.__path__ = list(dict.fromkeys([*package.__path__, *folders]))
    importlib.invalidate_caches()


def write_down(files: Mapping[str, str]) -> str:
    """Writes these files into a folder, which is deleted with the process; "" for no files."""
    if not files:
        return ""
    folder = Path(__file__).parents[1] / "handed"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder)


def is_there(module: str) -> bool:
    """Whether the module can be imported. The parent of a submodule is imported for that."""
    try:
        return importlib.util.find_spec(module) is not None
    except BaseException:
        return False


BACKWARD_SUFFIX = "_backward"
"""How the name of a function's backward pass ends."""


def load_member(where: Mapping[str, Any], name: str) -> Any:
    """Loads the member with that dotted name from a module. Raises NotLoaded."""
    return _find_member(_import_module(where), name)


def load_with_backward(where: Mapping[str, Any], name: str, backward: str = "") -> Tuple[Any, Any]:
    """Loads a function and its backward pass; None if there is none.

    The backward pass has a name of its own, or that of the function with a suffix. Raises
    NotLoaded, also for a backward pass that is named and missing.
    """
    module = _import_module(where)
    function = _find_member(module, name)
    if backward:
        return function, _find_member(module, backward)
    try:
        beside = _find_member(module, name + BACKWARD_SUFFIX)
    except NotLoaded:
        return function, None
    return function, beside if callable(beside) else None


def _find_member(module: Any, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        value = _find_part(value, part, getattr(module, "__file__", None) or module.__name__)
    return value


def _find_part(value: Any, part: str, file: str) -> Any:
    try:
        return getattr(value, part)
    except AttributeError:
        raise NotLoaded("member", part=part, file=file, members=_public_members(value),
                        own=_own_members(value)) from None
    except BaseException as raised:
        raise NotLoaded("raised", **_describe_raised(raised)) from None


def _import_module(where: Mapping[str, Any]) -> Any:
    if "text" in where:
        return _module_from_text(where["text"])
    first = where.get("first", ())  # where the user stands
    if "file" in where:
        _put_first(first)
        # an absolute path stays as it is
        return _module_from_file(Path(__file__).parents[1] / "handed" / where["file"])
    name = where["module"]
    top = name.partition(".")[0]
    _put_first([each for each in first if (Path(each) / top).is_dir()
                or (Path(each) / (top + ".py")).is_file()])
    return _run_import(lambda: importlib.import_module(name), name)


def _put_first(folders: Sequence[str]) -> None:
    """Puts these folders at the front of the path, unless they are on it."""
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    importlib.invalidate_caches()


def _module_from_text(text: str) -> Any:
    """Runs the text as a module that has no file and that no import finds."""
    module = types.ModuleType(TARGET_PREFIX + "text")
    name = "<text {}>".format(next(_numbers))
    # for tracebacks, and who asks for a source
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    _run_import(lambda: exec(compile(text, name, "exec"), module.__dict__), name)
    return module


_numbers = itertools.count()


def _module_from_file(path: Path) -> Any:
    """Runs the file as a module. Its folder is put last on the path, so that it hides nothing."""
    if not path.is_file():
        raise NotLoaded("no_file", file=str(path))
    name = TARGET_PREFIX + path.stem
    specification = importlib.util.spec_from_file_location(name, str(path),
                                                           loader=_source_reader(name, path))
    if specification is None or specification.loader is None:
        raise NotLoaded("no_python", file=str(path))
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    loader = specification.loader
    try:
        _run_import(lambda: loader.exec_module(module), str(path))
    except NotLoaded:
        del sys.modules[name]
        raise
    return module


class _AsItStands(importlib.machinery.SourceFileLoader):
    """Runs a file's text. Python's own loader may run the compiled copy of another text that is as
    long and was written within the same second.
    """

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _source_reader(name: str, path: Path) -> Optional[_AsItStands]:
    """Makes the loader of a Python file; None lets Python choose (an extension module)."""
    if path.suffix == ".py":
        return _AsItStands(name, str(path))
    return None


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Stops garbage collection during imports, which takes a tenth of a framework's import."""
    before = gc.get_threshold() if hasattr(gc, "get_threshold") else ()  # PyPy has none
    if before:
        gc.set_threshold(0)
    try:
        yield
    finally:
        if before and not gc.get_threshold()[0]:  # else a module has chosen for itself
            gc.set_threshold(*before)


def _run_import(load: Callable[[], Any], name: str) -> Any:
    """Runs an import, and describes in plain words whatever it raises."""
    try:
        with _no_garbage_collection():
            return load()
    except ModuleNotFoundError as missing:
        raise NotLoaded("missing", **_describe_absent(missing, name)) from None
    except SyntaxError as wrong:
        raise NotLoaded("syntax", message=wrong.msg, file=wrong.filename or name,
                        line=wrong.lineno or 0) from None
    except BaseException as raised:
        raise NotLoaded("raised", **_describe_raised(raised)) from None


def _describe_raised(raised: BaseException) -> Dict[str, Any]:
    description = describe_exception(raised)
    return {name: description[name] for name in ("summary", "file", "line", "traceback")}


def _describe_absent(missing: ModuleNotFoundError, name: str) -> Dict[str, Any]:
    """Describes which module is missing, and where it was sought. It says whether the module is
    the one that was asked for, and lists its siblings.
    """
    absent = missing.name or str(missing)
    parent = absent.rpartition(".")[0]
    looked = list(getattr(sys.modules.get(parent), "__path__", [])) if parent else sys.path
    is_asked = name == absent or name.startswith(absent + ".")
    paths = [str(Path.cwd())] if is_asked and not parent else looked
    siblings = [each.name for each in pkgutil.iter_modules(paths) if not each.name.startswith("_")]
    return {"absent": absent, "is_asked": is_asked, "siblings": siblings,
            "looked": [each for each in looked if each]}


def _public_members(value: Any) -> List[str]:
    members = getattr(value, "__dict__", {})
    return [name for name, each in list(members.items()) if not str(name).startswith("_")
            and callable(each)]


def _own_members(value: Any) -> List[str]:
    """Lists the members that a module or class defines itself."""
    home = getattr(value, "__module__", "") or getattr(value, "__name__", "")
    members = getattr(value, "__dict__", {})
    return [name for name in _public_members(value)
            if getattr(members[name], "__module__", "") == home]
