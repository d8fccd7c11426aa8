"""How the code is built, in figures: what a newcomer has to know, find and follow. Prints a table in Markdown.

    python conformance/benchmarks/house.py conformance/attnspec                # of this checkout
    python conformance/benchmarks/house.py OTHER/conformance/attnspec --names  # of another, and which names are meant

It knows no module of the package by name, so that figures from before and after a move can be compared. Only the case
that is traced is judged through the adapter of that checkout's golden tests (tests/golden beside the package).

What is counted: modules without `__init__.py`, their lines all of them. A file knows a keyword that stands in an
identifier, an attribute, an argument or a string that is no docstring. An importer is another file of the package, also
one that imports in a function or names `package.module:attribute` in a string. An array function has NDArray, ndarray
or Array in its annotations; a shape is a list of the legend's letters in parentheses, as (B,H,T,Dv), or the words "any
shape". Comments that only speak to a tool (noqa, type: ignore) are none.

A name is bare if it is one word, and that is a preposition or a participle (`of`, `told`, `_judged`): it says neither
what the function does nor what it holds. Methods and properties are functions, too, and what stands inside of others.
What `check` runs is traced in the process of the command and in those of its workers, and not in the subject's.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click

LONG = 100
WHY = ("numerics", "diagnosis", "problems")
"""Packages whose lines follow from measurements and proofs, so that comments say why."""
KEYWORDS = ("softcap", "window")
SMALL = 40
_AXIS = r"(?:[BTHSPDMR]|2R|Hkv|Dv|\d+|·|…|\.\.\.)"
_PRODUCT = rf"{_AXIS}(?:[·*+]{_AXIS})*"
SHAPE = re.compile(rf"\((?=[^)]*[BTHSDMR]){_PRODUCT}(?:, ?{_PRODUCT})*,?\)|\b[Aa]ny\s+shape\b")
ARRAY = re.compile(r"\b(?:NDArray|ndarray|Array)\b")
FOR_TOOLS = re.compile(r"#\s*(?:noqa|type: ignore|pragma|mypy:|ruff:)")
Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PREPOSITIONS = (
    "of at by in on to with within without beside besides from for beyond behind between before after under over "
    "through again apart alone among along against across around above below near per as than like inside outside "
    "until since while so also rather together anew else towards upon")
_PARTICIPLES = (
    "told found put kept made given seen known held done gone said sent met left lost cut shut begun taken chosen "
    "drawn grown worn written broken thrown shown spoken fallen hidden bent built bought brought caught felt meant "
    "paid spent stood taught understood won laid led heard asked")
BARE_WORDS = frozenset([*_PREPOSITIONS.split(), *_PARTICIPLES.split()])
NO_PARTICIPLES = frozenset({"need", "seed", "feed", "speed", "embed", "exceed", "proceed", "indeed", "shed"})


def is_bare(name: str) -> bool:
    """Whether a name is one word alone, which is a preposition or a participle."""
    word = name.strip("_")
    return word in BARE_WORDS or ("_" not in word and word.endswith("ed") and word not in NO_PARTICIPLES)


# judged once before, so that what is imported and compiled on first use is not counted
TRACED = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from golden import adapter
adapter.judge({arguments})
seen = set()
def profile(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith({package!r}) and not code.co_name.startswith("<"):
        seen.add((code.co_filename, code.co_qualname))
case = adapter.judging({arguments})
sys.setprofile(profile)
case()
sys.setprofile(None)
for file, name in sorted(seen):
    print(file[len({package!r}) + 1:], name)
"""
# every Python process of the command finds this file first, and notes what it calls of the package
WATCH = """
import os, sys, threading
notes = os.open(os.path.join({folder!r}, str(os.getpid())), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
seen = set()
def profile(frame, event, _):
    code = frame.f_code
    # bodies of classes and modules, which run when they are imported, do not have this flag
    if event == "call" and code.co_flags & 1 and code not in seen:
        seen.add(code)
        if code.co_filename.startswith({package!r}) and not code.co_name.startswith("<"):
            os.write(notes, f"{{code.co_filename[len({package!r}) + 1:]}} {{code.co_qualname}}\\n".encode())
threading.setprofile(profile)
sys.setprofile(profile)
"""
MINE = """
import numpy as np

def attend(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

attend.dtypes = ["float32"]
attend.grouped = False
"""
CHECK = ("check", "mine.py:attend", "--clause", "attention.definition", "--effort", "glance", "--html", "page.html")
CASE = ("numpy/attention", "attention.definition", "float32",
        "B2,H4,Hkv2,T5,S7,D8,Dv8;mask=random;families=normal+integers;with=bias+causal+mask+scale+softcap+window;"
        "bias=normal;scale=0.3;window=2+1;softcap=8.0;seed=91")


@dataclass(frozen=True)
class Module:
    """One file of the package, parsed."""

    path: Path
    name: str  # dotted, with the package's own

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")

    @cached_property
    def long_lines(self) -> int:
        """How many of its lines are longer than a reader takes in at once."""
        return sum(len(line) >= LONG for line in self.text.splitlines())

    def count_nodes(self, *kinds: type[ast.AST]) -> int:
        """How many expressions of these kinds it has."""
        return sum(isinstance(node, kinds) for node in ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[str]:
        """The names of its functions, but for those that Python calls (`__init__`)."""
        return [node.name for node in ast.walk(self.tree)
                if isinstance(node, Function) and not node.name.startswith("__")]

    @property
    def is_init(self) -> bool:
        """Whether it is an `__init__.py`."""
        return self.path.name == "__init__.py"

    @cached_property
    def docstrings(self) -> frozenset[int]:
        """The nodes that are docstrings, also those of attributes, by id."""
        return frozenset(id(node.value) for node in ast.walk(self.tree)
                         if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))

    def words(self) -> Iterator[str]:
        """Every identifier, attribute, argument and string, docstrings left out."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str) and id(node) not in self.docstrings:
                    yield node.value
                continue
            yield from (value for field in ("id", "attr", "arg", "name", "module", "asname")
                        if isinstance(value := getattr(node, field, None), str))

    def knows(self, keyword: str) -> bool:
        """Whether the keyword stands in its code."""
        return any(keyword in word.casefold() for word in self.words())

    def imports_among(self, modules: Iterable[str]) -> set[str]:
        """Which of these modules it imports, or names as `module:attribute`."""
        known = set(modules)
        return {name for name in self._imported_names() if name in known} - {self.name}

    def _imported_names(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
                yield node.value.partition(":")[0]

    @property
    def array_functions(self) -> Iterator[Function]:
        """Its functions that take or return arrays."""
        if not ARRAY.search(self.text):
            return
        for node in ast.walk(self.tree):
            if isinstance(node, Function) and any(map(ARRAY.search, _annotations(node))):
                yield node

    @property
    def comments(self) -> int:
        """How many lines have a comment for people."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(token.type == tokenize.COMMENT and not FOR_TOOLS.match(token.string) for token in tokens)


def _annotations(function: Function) -> Iterator[str]:
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    for annotation in (*(argument.annotation for argument in every if argument), function.returns):
        if annotation is not None:
            yield ast.unparse(annotation)


def has_shape(function: Function) -> bool:
    """Whether the docstring gives a shape."""
    return bool(SHAPE.search(ast.get_docstring(function) or ""))


@dataclass(frozen=True)
class Figure:
    """A row of the table, and the names behind it."""

    what: str
    figure: str
    names: Sequence[str] = ()


class House:
    """A package, measured."""

    def __init__(self, package: Path) -> None:
        self.package = package.resolve()
        self.files = [Module(path, self._dotted_name(path)) for path in sorted(self.package.rglob("*.py"))
                      if "_data" not in path.parts]
        self.modules = [module for module in self.files if not module.is_init]

    def _dotted_name(self, path: Path) -> str:
        parts = path.relative_to(self.package.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def figures(self) -> Iterator[Figure]:
        """The whole table."""
        yield from self._size()
        yield from map(self._knowing, KEYWORDS)
        yield from self._path()
        yield from self._rooms()
        yield self._names_twice()
        yield self._shapes()
        yield from self._comments()
        yield from self._dense_lines()
        yield from self._function_names()
        yield self._checked()

    def _size(self) -> Iterator[Figure]:
        lines = [module.lines for module in self.modules]
        longest = max(self.modules, key=lambda module: module.lines)
        folders = {module.path.parent for module in self.files}
        yield Figure("modules (`__init__.py` not counted); lines; folders",
                     f"{len(lines)}; {sum(lines)}; {len(folders)}")
        yield Figure("lines of a module: mean, most", f"{sum(lines) / len(lines):.0f}, {longest.lines}", [longest.name])

    def _knowing(self, keyword: str) -> Figure:
        names = [module.name for module in self.files if module.knows(keyword)]
        return Figure(f"files that know `{keyword}`", str(len(names)), names)

    def _path(self) -> Iterator[Figure]:
        passed = trace_case(self.package)
        files = sorted({file for file, _ in passed})
        yield Figure("functions and files that one case passes in a trial", f"{len(passed)}, {len(files)}", files)

    def _rooms(self) -> Iterator[Figure]:
        small = [module.name for module in self.modules if module.lines <= SMALL]
        yield Figure(f"modules of {SMALL} lines or less", str(len(small)), small)
        importers: Counter[str] = Counter()
        known = [module.name for module in self.modules]
        for module in self.files:
            importers.update(module.imports_among(known))
        alone = [name for name in known if importers[name] == 1]
        yield Figure("modules with one importer", f"{len(alone)} of {len(known)}", alone)

    def repeated_class_names(self) -> list[str]:
        """Each top-level class name that stands in two modules or more, with these modules: `Answer: a.b, a.c`."""
        places: Mapping[str, list[str]] = defaultdict(list)
        for module in self.files:
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(module.name)
        return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]

    def _names_twice(self) -> Figure:
        repeated = self.repeated_class_names()
        return Figure("top-level class names used twice or more", str(len(repeated)), repeated)

    def _shapes(self) -> Figure:
        functions = [(module, function) for module in self.files for function in module.array_functions]
        without = [f"{module.name}.{function.name}" for module, function in functions if not has_shape(function)]
        given = len(functions) - len(without)
        share = 100 * given / max(1, len(functions))
        return Figure("array functions whose docstring gives a shape", f"{given} of {len(functions)} ({share:.0f} %)",
                      without)

    @cached_property
    def lines(self) -> int:
        """How many lines the package has, those of `__init__.py` among them."""
        return sum(module.lines for module in self.files)

    def why_comments(self, *packages: str) -> float:
        """Comments per 100 lines of these packages; of all if none is named."""
        modules = [module for module in self.files
                   if not packages or module.path.relative_to(self.package).parts[0] in packages]
        lines = sum(module.lines for module in modules)
        return 100 * sum(module.comments for module in modules) / max(1, lines)

    def _comments(self) -> Iterator[Figure]:
        yield Figure("why-comments per 100 lines", f"{self.why_comments():.1f}")
        yield Figure(f"why-comments per 100 lines of {', '.join(WHY)}", f"{self.why_comments(*WHY):.1f}")

    def share_of_long_lines(self) -> float:
        """Percent of the lines."""
        return 100 * sum(module.long_lines for module in self.files) / self.lines

    def per_100_lines(self, *kinds: type[ast.AST]) -> float:
        """How many expressions of these kinds stand in 100 lines."""
        return 100 * sum(module.count_nodes(*kinds) for module in self.files) / self.lines

    def _dense_lines(self) -> Iterator[Figure]:
        yield Figure(f"lines of {LONG} characters and more", f"{self.share_of_long_lines():.1f} %",
                     _most_first((module.long_lines, module.name) for module in self.files))
        for what, kinds in (("ternaries", (ast.IfExp,)), ("comprehensions", COMPREHENSIONS)):
            yield Figure(f"{what} per 100 lines", f"{self.per_100_lines(*kinds):.2f}",
                         _most_first((module.count_nodes(*kinds), module.name) for module in self.files))

    def bare_names(self) -> list[str]:
        """Each function whose name is a preposition or a participle alone, with its module."""
        return [f"{module.name}.{name}" for module in self.files for name in module.functions if is_bare(name)]

    def repeated_functions(self) -> Mapping[str, set[str]]:
        """Each function name that stands in several files, with these modules."""
        places: Mapping[str, set[str]] = defaultdict(set)
        for module in self.files:
            for name in module.functions:
                places[name].add(module.name)
        return {name: modules for name, modules in places.items() if len(modules) > 1}

    def share_of_functions(self, names: Collection[str]) -> float:
        """Percent of the functions that have one of these names."""
        every = [name for module in self.files for name in module.functions]
        return 100 * sum(name in names for name in every) / max(1, len(every))

    def _function_names(self) -> Iterator[Figure]:
        bare, repeated = self.bare_names(), self.repeated_functions()
        share = self.share_of_functions({name.rpartition(".")[2] for name in bare})
        yield Figure("functions whose name is a preposition or participle alone", f"{share:.1f} %", bare)
        yield Figure("functions whose name stands in several files", f"{self.share_of_functions(repeated):.0f} %",
                     _most_first((len(modules), name) for name, modules in repeated.items()))

    def _checked(self) -> Figure:
        called = trace_check(self.package)
        files = sorted({file for file, _ in called})
        return Figure(f"functions and files that `attnspec {' '.join(CHECK)}` runs", f"{len(called)}, {len(files)}",
                      files)


def _most_first(counts: Iterable[tuple[int, str]]) -> list[str]:
    """`12 attnspec.cli.check`: what has most first."""
    return [f"{count} {name}" for count, name in sorted(counts, key=lambda each: (-each[0], each[1])) if count]


def trace_check(package: Path) -> set[tuple[str, str]]:
    """File and function of everything in the package that one command calls for a function that conforms."""
    with tempfile.TemporaryDirectory() as folder:
        notes, first = Path(folder, "notes"), Path(folder, "first")
        notes.mkdir()
        first.mkdir()
        watch = WATCH.format(folder=str(notes), package=str(package))
        (first / "sitecustomize.py").write_text(watch, encoding="utf-8")
        Path(folder, "mine.py").write_text(MINE, encoding="utf-8")
        done = subprocess.run([sys.executable, "-m", package.name, *CHECK], cwd=folder, capture_output=True, text=True,
                              check=False,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join((str(first), str(package.parent)))})
        if done.returncode:
            raise click.ClickException(f"the command could not be traced:\n{done.stdout}{done.stderr}")
        lines = [line for file in notes.iterdir() for line in file.read_text(encoding="utf-8").splitlines()]
    return {(file, name) for file, _, name in (line.partition(" ") for line in lines)}


def trace_case(package: Path) -> list[tuple[str, str]]:
    """File and function of everything in the package that judging one case calls."""
    script = TRACED.format(root=str(package.parent), tests=str(package.parent / "tests"), package=str(package),
                           arguments=", ".join(map(repr, CASE)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"the case could not be traced:\n{done.stderr}")
    return [(file, name) for file, _, name in (line.partition(" ") for line in done.stdout.splitlines())]


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.argument("package", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--names", is_flag=True, help="Name what each figure counts, below the table.")
def house(package: Path, *, names: bool) -> None:
    """Print the table."""
    figures = list(House(package).figures())
    click.echo("| measured | figure |\n|---|---|")
    for figure in figures:
        click.echo(f"| {figure.what} | {figure.figure} |")
    for figure in figures if names else ():
        if figure.names:
            click.echo(f"\n## {figure.what}: {figure.figure}\n\n" + "\n".join(f"- {name}" for name in figure.names))


if __name__ == "__main__":
    house()
