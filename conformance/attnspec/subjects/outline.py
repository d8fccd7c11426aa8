"""Reads source files of targets before anything is imported.

It finds the file behind a module, the functions that it defines and where, whether it is valid
Python, and whether its parameters are those of attention.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from inspect import Parameter
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError, hint, near_misses
from attnspec.core.keyword import BACKWARD
from attnspec.core.nouns import is_bare
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.signature import UNKNOWN_PLACE, FunctionDescription, signature_of

SHOWN = 8

BY_HAND = "docs/writing-an-adapter.md"

_ARRAYS = 3
"""The least number of attention's parameters: query, key and value."""

FORM = "A function of your own is named package.module:function or path/to/file.py:function."


def no_such_subject(target: str, known: Iterable[str]) -> TargetError:
    """Makes the error for an unknown target; of a file or a module it names the functions."""
    name = target.rstrip(":")
    for written, file in _list_candidates(name):
        if file and file.is_file():
            return TargetError(_describe_functions(file, written))
    if name.endswith(".py"):
        return TargetError(f"{name}: there is no such file.{near_file(Path(name))}")
    if Path(name).is_dir():
        return TargetError(f"{name} is a folder. {FORM}")
    names = sorted(known)
    listed = hint(target, names, "subject") if names else ""
    form = "" if near_misses(target, names) else f" {FORM}"
    return TargetError(f"{target!r} is not a known subject.{listed}{form}")


def no_such_function(target: str) -> TargetError | None:
    """Makes the error for `mine.py:atend` where the file binds no such name; else None."""
    written, _, name = target.rpartition(":")
    if written.endswith(":"):
        return TargetError(f"{target!r} has two colons. Did you mean {written.rstrip(':')}:{name}?")
    file = file_of(written)
    bound = names_in(file) if file and file.is_file() else set()
    if file is None or not bound or name.partition(".")[0] in bound:
        return None
    nearest = hint(name, public_functions(file))
    return TargetError(f"there is no {name!r} in it (target {target!r}).{nearest}",
                       where=FileLocation(shown_path(file)))


def is_anywhere(target: str) -> bool:
    """Says whether a module or a file of this name is here that may hold the function."""
    written = target.rpartition(":")[0]
    if written.endswith(".py"):
        is_there = Path(written).is_file()
    else:
        is_there = _find_spec(written) is not None
    return is_there and no_such_function(target) is None


def guess_meant_target(target: str, known: Iterable[str]) -> list[str]:
    """Guesses which of these existing targets a missing function of one's own meant."""
    if not is_bare(target):
        return []
    near = near_misses(target, [each for each in known if is_bare(each) and each != target])
    if not near or is_anywhere(target):
        return []
    return list(filter(is_anywhere, near))


def class_for_function(target: str) -> TargetError | None:
    """Makes the error for `mine.py:Layer` where only a class has this name; else None."""
    written, _, name = target.rpartition(":")
    file = file_of(written)
    match only_binding(file, name) if file else None:
        case ast.ClassDef(decorator_list=[], bases=bases) as binding if file:
            where = FileLocation(shown_path(file), binding.lineno)
            return no_function(target, name, _name_importable(target, file) if bases else "", where)
    return None


def only_binding(file: Path, name: str) -> ast.stmt | None:
    """Returns the statement that alone binds a name at the top of a file; else None. None also
    stands for a file that cannot be read: the import says it better.
    """
    tree = parse_file(file)
    binding = [node for node in ast.walk(tree) if name in _list_bound_names(node)]
    return next((node for node in tree.body if binding == [node]), None)


def no_function(target: str, name: str, importable: str,
                where: FileLocation | None) -> TargetError:
    """Makes the error for a target that is the class of this name.  importable: the class as
    `attnspec init` asks for it; "" for one without a base, which is no framework's.
    """
    way = f"write an adapter: {BY_HAND}"
    if importable:
        way = f"let an adapter be written: attnspec init {importable}"
    return TargetError(f"{target!r} is a class. Name a function, or a module-level instance that "
                       f"can be called: attend = {name}(...); or {way}", where=where)


def importable_by_name(file: Path, name: str) -> str:
    """Returns `folder.module:name` as imported from the working directory; else a stand-in."""
    path, here = file.absolute(), Path.cwd()
    if path.is_relative_to(here):
        parts = path.relative_to(here).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            return f"{'.'.join(parts)}:{name}"
    return UNKNOWN_PLACE


def _name_importable(target: str, file: Path) -> str:
    """Returns a target, whose file is this one, as one imports it."""
    written, _, name = target.rpartition(":")
    return importable_by_name(file, name) if written.endswith(".py") else target


def file_of(written: str) -> Path | None:
    """Returns the file that the part of a target before the colon means."""
    return Path(written) if written.endswith(".py") else file_of_module(written)


def _list_bound_names(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) \
                | ast.ClassDef(name=name):
            return {name}
        case ast.alias(name=name, asname=other):
            return {other or name.partition(".")[0]}
        case _:
            return set()


def parse_file(file: Path) -> ast.Module:
    """Parses a file; one that cannot be read counts as empty."""
    return _parse_tree(file) or ast.Module([], [])


def _parse_tree(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def names_in(file: Path) -> set[str]:
    """Returns every name in a file; none where it is unreadable, or may make names unseen."""
    nodes = list(ast.walk(parse_file(file)))
    found = {getattr(node, attribute, None) for node in nodes
             for attribute in ("id", "name", "asname")}
    names = {name for name in found if isinstance(name, str)}
    is_dynamic = names & {"*", "__getattr__", "globals", "setattr", "exec", "vars"}
    return set() if is_dynamic else names


def keywords_given_by(file: Path, function: str) -> set[str]:
    """Returns the keyword arguments that a function of a file passes in its calls."""
    tree = parse_file(file)
    bodies = (node for node in tree.body
              if isinstance(node, ast.FunctionDef) and node.name == function)
    return {node.arg for body in bodies for node in ast.walk(body)
            if isinstance(node, ast.keyword) and node.arg}


def near_file(path: Path) -> str:
    """Returns a hint with the Python files beside a path where there is no file, or ""."""
    beside = [other.name for other in path.parent.glob("*.py")]
    return hint(path.name, beside) if beside else ""


def public_functions(file: Path) -> list[str]:
    """Lists the public names of a file that can be called, those with too few parameters last.
    They are functions, and what is made of them (`attend = jax.jit(_attend)`) or of the file's own
    classes.
    """
    return [name for names in _list_public(file) for name in names]


def only_function(file: Path) -> str:
    """Returns the only function that may be attention, else the only one, else ""."""
    taking, others = _list_public(file)
    backward = {f"{name}{BACKWARD}" for name in taking}
    meant = [name for name in taking if name not in backward] or others
    return meant[0] if len(meant) == 1 else ""


def spelled_out(target: str) -> str:
    """Returns `mine.py` as `mine.py:attend` where only that can be meant; else the target."""
    only = only_function(Path(target)) if target.endswith(".py") else ""
    return f"{target}:{only}" if only else target


def _list_public(file: Path) -> tuple[list[str], list[str]]:
    """Lists a file's public callables: possible attention, and those with few parameters."""
    tree = parse_file(file)
    names = [name for name in dict.fromkeys(_list_callables(tree)) if not name.startswith("_")]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    helpers = {node.name for node in functions if node.args.vararg is None
               and len(node.args.posonlyargs) + len(node.args.args) < _ARRAYS}
    taking = [name for name in names if name not in helpers]
    return taking, [name for name in names if name in helpers]


def _list_callables(tree: ast.Module) -> Iterator[str]:
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function, args=args)):
                named = {node.id for node in (function, *args) if isinstance(node, ast.Name)}
                if made & named:
                    yield name


def _describe_functions(file: Path, name: str) -> str:
    functions = public_functions(file)
    if not functions:
        return _find_mistake(file) or f"{name} defines no public function. {FORM}"
    more = f" and {len(functions) - SHOWN} more" if len(functions) > SHOWN else ""
    return f"{name} has: {', '.join(functions[:SHOWN])}{more}. Write {name}:{functions[0]}."


def _find_mistake(file: Path) -> str:
    """Says where and why the file is no valid Python; empty if it is."""
    try:
        ast.parse(file.read_bytes())
    except SyntaxError as mistake:
        return f"{file.name}:{mistake.lineno}: {file.name!r} is no valid Python: {mistake.msg}."
    except (OSError, ValueError):
        return ""
    return ""


def _list_candidates(name: str) -> Iterator[tuple[str, Path | None]]:
    """Yields how a file or a module would be written in a target, and its file."""
    yield name, file_of_module(name)
    for path in (name, f"{name}.py"):
        if path.endswith(".py"):
            yield path, Path(path)


def file_of_module(name: str) -> Path | None:
    """Returns the file that an import of the module would run, without importing its packages."""
    spec = _find_spec(name)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _find_spec(name: str) -> ModuleSpec | None:
    path: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    spec, parts = None, name.split(".")
    for end in range(1, len(parts) + 1):
        known = all(part.isidentifier() for part in parts) and path
        spec = PathFinder.find_spec(".".join(parts[:end]), path) if known else None
        path = spec.submodule_search_locations if spec else None
    return spec


_PLAIN = frozenset({"numpy", *sys.stdlib_module_names})
"""The packages that are imported in no time."""


def check_unloaded(target: str) -> None:
    """Raises TargetError where a target's file is no valid Python or its function takes no query,
    key and value. It looks only at a `def` that nothing else binds or decorates.
    """
    written, _, name = target.rpartition(":")
    file = file_of(written)
    if file is None or not file.is_file():
        return
    _check_valid(file, written)
    if function := _describe_function(file, written, name):
        signature_of(function, name, target=_name_importable(target, file))


def _check_valid(file: Path, written: str) -> None:
    try:
        compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as wrong:
        raise TargetError(f"{written!r} is no valid Python: {wrong.msg}.",
                          where=FileLocation(shown_path(file), wrong.lineno or 0)) from None
    except (OSError, ValueError):  # the import says it better
        pass


def loads_at_once(target: str) -> bool:
    """Says whether a file imports only the standard library, NumPy and missing packages."""
    file = file_of(target.rpartition(":")[0])
    if file is None or _parse_tree(file) is None:
        return False
    packages = imports_of(target) - _PLAIN
    path = [str(file.parent), str(Path.cwd()), *sys.path]
    return "" not in packages and not any(PathFinder.find_spec(each, path) for each in packages)


def imports_of(target: str) -> frozenset[str]:
    """Returns the packages that a target's file imports anywhere; "" for its siblings."""
    file = file_of(target.rpartition(":")[0])
    return frozenset(_list_imported(parse_file(file))) if file else frozenset()


def _list_imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    yield each.name.partition(".")[0]
            case ast.ImportFrom(module=module, level=level):
                yield "" if level else str(module).partition(".")[0]


def _describe_function(file: Path, module: str, name: str) -> FunctionDescription | None:
    """Describes the function by its `def`; None where only the import can say what it is."""
    function = only_binding(file, name)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or not names_in(file):
        return None
    try:
        parameters = tuple(_read_parameters(function.args))
    except (ValueError, TypeError):  # a default that is worked out
        return None
    return FunctionDescription("function", name, module, "",
                               FileLocation(shown_path(file), function.lineno), parameters, {})


def _read_parameters(given: ast.arguments) -> Iterator[Parameter]:
    """Yields parameters with defaults. Raises ValueError or TypeError for computed ones."""
    by_position = [*given.posonlyargs, *given.args]
    defaults = list(map(ast.literal_eval, given.defaults))
    of_position = [*[Parameter.empty] * (len(by_position) - len(defaults)), *defaults]
    for each, default in zip(by_position, of_position, strict=True):
        is_bare = each in given.posonlyargs
        yield Parameter(each.arg,
                        Parameter.POSITIONAL_ONLY if is_bare else Parameter.POSITIONAL_OR_KEYWORD,
                        default=default)
    if given.vararg:
        yield Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL)
    for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield Parameter(each.arg, Parameter.KEYWORD_ONLY,
                        default=Parameter.empty if value is None else ast.literal_eval(value))
    if given.kwarg:
        yield Parameter(given.kwarg.arg, Parameter.VAR_KEYWORD)
