"""What source files say of targets before anything is imported.

The file behind a module, the functions that it defines, where each stands, whether it is Python at all, and whether its
parameters are those of attention.
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
"""So many functions of a file are named in a message."""

BY_HAND = "docs/writing-an-adapter.md"
"""How one writes it."""

_ARRAYS = 3
"""Parameters that attention has at least: query, key and value."""

FORM = "A function of your own is named package.module:function or path/to/file.py:function."


def no_such_subject(target: str, known: Iterable[str]) -> TargetError:
    """Makes the error for a target that is no registered id: perhaps a file or a module, whose functions are then
    named.
    """
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
    return TargetError(f"{target!r} is not a known subject.{listed}{'' if near_misses(target, names) else f' {FORM}'}")


def no_such_function(target: str) -> TargetError | None:
    """Makes the error for `mine.py:atend` where the file binds no such name in any way, and so no import could find it;
    else None.
    """
    written, _, name = target.rpartition(":")
    if written.endswith(":"):
        return TargetError(f"{target!r} has two colons. Did you mean {written.rstrip(':')}:{name}?")
    file = file_of(written)
    if file is None or not file.is_file() or name.partition(".")[0] in (bound := names_in(file)) or not bound:
        return None
    return TargetError(f"there is no {name!r} in it (target {target!r}).{hint(name, public_functions(file))}",
                       where=FileLocation(shown_path(file)))


def is_anywhere(target: str) -> bool:
    """Whether a module or a file of this name is here that may hold the function."""
    written = target.rpartition(":")[0]
    is_there = Path(written).is_file() if written.endswith(".py") else _find_spec(written) is not None
    return is_there and no_such_function(target) is None


def guess_meant_target(target: str, known: Iterable[str]) -> list[str]:
    """Guesses which of these targets a function of one's own was meant to be that is nowhere; nothing where it is
    somewhere, or where they are nowhere either: then it may be elsewhere.
    """
    near = near_misses(target, [each for each in known if is_bare(each) and each != target]) if is_bare(target) else []
    return [] if not near or is_anywhere(target) else [each for each in near if is_anywhere(each)]


def class_for_function(target: str) -> TargetError | None:
    """Makes the error for `mine.py:Layer` where the file binds this name by a class statement alone; else None."""
    written, _, name = target.rpartition(":")
    file = file_of(written)
    match only_binding(file, name) if file else None:
        case ast.ClassDef(decorator_list=[], bases=bases) as binding if file:
            where = FileLocation(shown_path(file), binding.lineno)
            importable = importable_by_name(file, name) if written.endswith(".py") else target
            return no_function(target, name, importable if bases else "", where)
    return None


def only_binding(file: Path, name: str) -> ast.stmt | None:
    """The statement of a file that binds a name, where it stands in no other and nothing else binds it, in whatever
    scope; None also where the file cannot be read: the import says it better.
    """
    tree = parse_file(file)
    binding = [node for node in ast.walk(tree) if name in _list_bound_names(node)]
    return binding[0] if len(binding) == 1 and isinstance(binding[0], ast.stmt) and binding[0] in tree.body else None


def no_function(target: str, name: str, importable: str, where: FileLocation | None) -> TargetError:
    """Makes the error for a target that is the class of this name.

    importable: the class as `attnspec init` asks for it; "" for one without a base, which is no framework's.
    """
    way = f"let an adapter be written: attnspec init {importable}" if importable else f"write an adapter: {BY_HAND}"
    return TargetError(f"{target!r} is a class. Name a function, or a module-level instance that can be called: "
                       f"attend = {name}(...); or {way}", where=where)


def importable_by_name(file: Path, name: str) -> str:
    """`folder.module:name` for a name of a file, as one imports it from the working directory; else a stand-in."""
    path, here = file.absolute(), Path.cwd()
    parts = path.relative_to(here).with_suffix("").parts if path.is_relative_to(here) else ("",)
    return f"{'.'.join(parts)}:{name}" if all(part.isidentifier() for part in parts) else UNKNOWN_PLACE


def file_of(written: str) -> Path | None:
    """The file that the part of a target before the colon means."""
    return Path(written) if written.endswith(".py") else file_of_module(written)


def _list_bound_names(node: ast.AST) -> set[str]:
    """The names that a node binds, in whatever scope."""
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
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def names_in(file: Path) -> set[str]:
    """Every name that stands in a file; none where it cannot be read, or where names may come about unseen."""
    nodes = list(ast.walk(parse_file(file)))
    names = {name for node in nodes for name in (getattr(node, "id", None), getattr(node, "name", None),
                                                 getattr(node, "asname", None)) if isinstance(name, str)}
    is_dynamic = names & {"*", "__getattr__", "globals", "setattr", "exec", "vars"}
    return set() if is_dynamic else names


def keywords_given_by(file: Path, function: str) -> set[str]:
    """The names of the keyword arguments that a function of a file gives in its calls; none if it cannot be read."""
    tree = parse_file(file)
    bodies = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return {node.arg for body in bodies for node in ast.walk(body) if isinstance(node, ast.keyword) and node.arg}


def near_file(path: Path) -> str:
    """The Python files that stand beside a path where there is no file, as a hint; empty if none does."""
    beside = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
    return hint(path.name, beside) if beside else ""


def public_functions(file: Path) -> list[str]:
    """The public names that the file defines and that can be called; none if it cannot be read. In its order, but
    functions with too few parameters for attention come last.

    Functions, and what is made of them (`attend = jax.jit(_attend)`) or of the file's own classes.
    """
    return [name for names in _list_public(file) for name in names]


def only_function(file: Path) -> str:
    """The one public function of a file that takes enough for attention, a backward pass beside it aside; where none
    does, the one that there is, so that what it lacks is said. "" where there is none, or a choice.
    """
    taking, others = _list_public(file)
    meant = [name for name in taking if name.removesuffix(BACKWARD) not in set(taking) - {name}] or others
    return meant[0] if len(meant) == 1 else ""


def spelled_out(target: str) -> str:
    """`mine.py` as `mine.py:attend` where that is the only function that can be meant; any other target as it is."""
    only = only_function(Path(target)) if target.endswith(".py") else ""
    return f"{target}:{only}" if only else target


def _list_public(file: Path) -> tuple[list[str], list[str]]:
    """The file's public names that can be called: what may be attention, and functions with too few parameters."""
    tree = parse_file(file)
    names = [name for name in dict.fromkeys(_list_callables(tree)) if not name.startswith("_")]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    helpers = {node.name for node in functions if node.args.vararg is None
               and len(node.args.posonlyargs) + len(node.args.args) < _ARRAYS}  # fewer than attention has
    return [name for name in names if name not in helpers], [name for name in names if name in helpers]


def _list_callables(tree: ast.Module) -> Iterator[str]:
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if made & _list_names(call):
                yield name


def _list_names(call: ast.Call) -> set[str]:
    return {node.id for node in (call.func, *call.args) if isinstance(node, ast.Name)}


def _describe_functions(file: Path, name: str) -> str:
    functions = public_functions(file)
    if not functions:
        return _find_mistake(file) or f"{name} defines no public function. {FORM}"
    more = f" and {len(functions) - SHOWN} more" if len(functions) > SHOWN else ""
    return f"{name} has: {', '.join(functions[:SHOWN])}{more}. Write {name}:{functions[0]}."


def _find_mistake(file: Path) -> str:
    """Where the file is no valid Python, and why; empty if it is."""
    try:
        ast.parse(file.read_bytes())
    except SyntaxError as mistake:
        return f"{file.name}:{mistake.lineno}: {file.name!r} is no valid Python: {mistake.msg}."
    except (OSError, ValueError):
        return ""
    return ""


def _list_candidates(name: str) -> Iterator[tuple[str, Path | None]]:
    """How a file or a module would be written in a target, and the file behind it."""
    yield name, file_of_module(name)
    for path in (name, f"{name}.py"):
        if path.endswith(".py"):
            yield path, Path(path)


def file_of_module(name: str) -> Path | None:
    """The file that an import of the module would run; its packages are not imported either."""
    spec = _find_spec(name)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _find_spec(name: str) -> ModuleSpec | None:
    """What an import of the module would find."""
    path: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    spec, parts = None, name.split(".")
    for end in range(1, len(parts) + 1):
        known = all(part.isidentifier() for part in parts) and path
        spec = PathFinder.find_spec(".".join(parts[:end]), path) if known else None
        path = spec.submodule_search_locations if spec else None
    return spec


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
    if function := _describe_function(file, written, name):
        signature_of(function, name, target=importable_by_name(file, name) if written.endswith(".py") else target)


def _check_valid(file: Path, written: str) -> None:
    try:
        compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as wrong:
        raise TargetError(f"{written!r} is no valid Python: {wrong.msg}.",
                          where=FileLocation(shown_path(file), wrong.lineno or 0)) from None
    except (OSError, ValueError):  # the import says it better
        pass


def loads_at_once(target: str) -> bool:
    """Whether the file behind a target imports nothing but the standard library, NumPy and what is nowhere."""
    file = file_of(target.rpartition(":")[0])
    if file is None or _parse_tree(file) is None:
        return False
    packages = imports_of(target) - _PLAIN
    path = [str(file.parent), str(Path.cwd()), *sys.path]
    return all(package and PathFinder.find_spec(package, path) is None for package in packages)  # "" is a sibling


def imports_of(target: str) -> frozenset[str]:
    """The packages that the file behind a target imports anywhere, as far as it can be read; "" for its siblings."""
    file = file_of(target.rpartition(":")[0])
    tree = _parse_tree(file) if file else None
    return frozenset(_list_imported(tree)) if tree else frozenset()


def _parse_tree(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _list_imported(tree: ast.AST) -> Iterator[str]:
    """The packages of all import statements."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    yield each.name.partition(".")[0]
            case ast.ImportFrom(module=module, level=level):
                yield "" if level else str(module).partition(".")[0]


def _describe_function(file: Path, module: str, name: str) -> FunctionDescription | None:
    """The function of this name as its `def` tells; None where only the import can say what it is."""
    function = only_binding(file, name)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or not names_in(file):
        return None
    try:
        parameters = tuple(_read_parameters(function.args))
    except (ValueError, TypeError):  # a default that is worked out
        return None
    return FunctionDescription("function", name, module, "",
                               FileLocation(shown_path(file), function.lineno),
                               parameters, {})


def _read_parameters(given: ast.arguments) -> Iterator[Parameter]:
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
