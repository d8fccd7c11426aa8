"""What a file says of a function before anything is imported: whether it is Python, and whether the parameters fit."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from inspect import Parameter
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError
from attnspec.spec.yaml_lines import shown
from attnspec.subjects.described import Described
from attnspec.subjects.outline import by_name, file_of, names_in, only_binding
from attnspec.subjects.signature import signature_of

_PLAIN = frozenset({"numpy", *sys.stdlib_module_names})
"""What is imported in no time."""


def check_unloaded(target: str) -> None:
    """Raise TargetError where the file behind a target is no valid Python, or where its function takes no query, key
    and value, as far as this is told by a `def` that nothing else binds or decorates.
    """
    written, _, name = target.rpartition(":")
    file = file_of(written)
    if file is None or not file.is_file():
        return
    _check_valid(file, written)
    if function := _described(file, written, name):
        signature_of(function, name, target=by_name(file, name) if written.endswith(".py") else target)


def _check_valid(file: Path, written: str) -> None:
    try:
        compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as wrong:
        raise TargetError(f"{written!r} is no valid Python: {wrong.msg}.",
                          where=FileLocation(shown(file), wrong.lineno or 0)) from None
    except (OSError, ValueError):  # the import says it better
        pass


def loads_at_once(target: str) -> bool:
    """Whether the file behind a target imports nothing but the standard library, NumPy and what is nowhere."""
    file = file_of(target.rpartition(":")[0])
    if file is None or _tree(file) is None:
        return False
    return not any(_is_found(name, file.parent) for name in imports_of(target) - _PLAIN)


def imports_of(target: str) -> frozenset[str]:
    """The packages that the file behind a target imports anywhere, as far as it can be read; "" for its siblings."""
    file = file_of(target.rpartition(":")[0])
    tree = _tree(file) if file else None
    return frozenset(_imported(tree)) if tree else frozenset()


def _tree(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _is_found(package: str, beside: Path) -> bool:
    """Whether an import finds the package, also beside the file that imports it; "" is a sibling."""
    return not package or PathFinder.find_spec(package, [str(beside), str(Path.cwd()), *sys.path]) is not None


def _imported(tree: ast.AST) -> Iterator[str]:
    """The packages of all import statements."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=module, level=level):
                yield "" if level else str(module).partition(".")[0]


def _described(file: Path, module: str, name: str) -> Described | None:
    """The function of this name as its `def` tells; None where only the import can say what it is."""
    function = only_binding(file, name)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or not names_in(file):
        return None
    try:
        parameters = tuple(_parameters(function.args))
    except (ValueError, TypeError):  # a default that is worked out
        return None
    return Described("function", name, module, "", FileLocation(shown(file), function.lineno), parameters, {})


def _parameters(given: ast.arguments) -> Iterator[Parameter]:
    """The parameters, with their defaults. Raises ValueError or TypeError for one that is worked out."""
    by_position, defaults = [*given.posonlyargs, *given.args], list(map(ast.literal_eval, given.defaults))
    of_position = [*[Parameter.empty] * (len(by_position) - len(defaults)), *defaults]
    for each, default in zip(by_position, of_position, strict=True):
        is_bare = each in given.posonlyargs
        yield Parameter(each.arg, Parameter.POSITIONAL_ONLY if is_bare else Parameter.POSITIONAL_OR_KEYWORD,
                        default=default)
    if given.vararg:
        yield Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL)
    for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield Parameter(each.arg, Parameter.KEYWORD_ONLY,
                        default=Parameter.empty if value is None else ast.literal_eval(value))
    if given.kwarg:
        yield Parameter(given.kwarg.arg, Parameter.VAR_KEYWORD)
