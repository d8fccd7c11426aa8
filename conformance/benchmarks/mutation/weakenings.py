"""Weakenings of attnspec itself: named ones from a table, and changes of the modules that decide, drawn by seed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from mutation.kernel_mutants import Change, is_python
from mutation.operators import OPERATORS

PACKAGE = Path(__file__).resolve().parents[2] / "attnspec"
TABLE = Path(__file__).with_suffix(".yaml")

DECIDING: Sequence[str] = (
    "numerics/*.py", "vocabulary/relations.py", "vocabulary/observables.py", "vocabulary/observables.py", "trials/*.py",
    "engine/*.py", "subjects/refusals.py", "subjects/exceptions.py", "subjects/baseline*.py", "kernels/*.py",
    "diagnosis/*.py", "record/*.py", "report/bugs.py", "runner/jobs.py", "runner/listener.py", "cli/conclusion.py",
    "core/nouns.py")
"""The modules in which a verdict, its cause or an exit code is decided."""

WEAKENING: Sequence[str] = ("compare", "operand", "count", "sign", "function", "range", "bound", "calculate")
"""The operators that draw: a slip that still runs. A statement or an argument left out mostly raises, and is found."""


@dataclass(frozen=True, slots=True)
class JudgeMutant:
    """attnspec with one file changed.

    id: a name of the table, or `numerics/bound/compare@47:19 column < row`.  path: of the file, in the package.
    text: what it holds then.  says: what is wrong with it.  tests: the files of tests that most likely notice it.
    """

    id: str
    path: str
    text: str
    says: str
    tests: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """`attnspec.numerics.bound`."""
        return module_of(self.path)


def module_of(path: str) -> str:
    """The name by which a file of the package is imported."""
    parts = Path(path).with_suffix("").parts
    return ".".join(("attnspec", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def named_mutants() -> Sequence[JudgeMutant]:
    """Those of the table. Raises ValueError where what one changes is not there once, or is the same afterwards."""
    return tuple(map(_mutant_of, yaml.safe_load(TABLE.read_text(encoding="utf-8"))["mutants"]))


def known_survivors() -> Mapping[str, str]:
    """By id, why no test can kill a mutant: its answers are those of the code as it is."""
    return yaml.safe_load(TABLE.read_text(encoding="utf-8"))["survivors"] or {}


def _mutant_of(row: Mapping[str, Any]) -> JudgeMutant:
    text, before, after = _text_of(row["path"]), row["before"], row["after"]
    if text.count(before) != 1:
        raise ValueError(f"{row['id']}: `{before}` stands {text.count(before)} times in {row['path']}. Quote more or "
                         "less of it, so that it is there once.")
    changed = text.replace(before, after)
    if _code(changed) == _code(text):
        raise ValueError(f"{row['id']} changes no code of {row['path']}.")
    return JudgeMutant(row["id"], row["path"], changed, row["says"], tuple(row.get("tests", ())))


def drawn_mutants(count: int, seed: int) -> Sequence[JudgeMutant]:
    """So many, drawn by seed from all modules that decide: one of a module in turn, so that long ones count no more."""
    random = Random(seed)
    turns = [_in_turn(path, random) for path in random.sample(deciding_files(), len(deciding_files()))]
    chosen: list[JudgeMutant] = []
    while turns and len(chosen) < count:
        for turn in list(turns):
            mutant = next(turn, None)
            if mutant is None:
                turns.remove(turn)
            elif len(chosen) < count:
                chosen.append(mutant)
    return chosen


def deciding_files() -> list[str]:
    """The files of DECIDING that have code, from the package's folder."""
    found = {path for pattern in DECIDING for path in PACKAGE.glob(pattern) if path.name != "__init__.py"}
    return sorted(path.relative_to(PACKAGE).as_posix() for path in found)


def _in_turn(path: str, random: Random) -> Iterator[JudgeMutant]:
    """The mutants of a file in an order that is drawn; what changes no code is passed over."""
    text, changes = _text_of(path), list(_changes(_text_of(path)))
    for change in random.sample(changes, len(changes)):
        changed = change.made_in(text)
        if change.is_one and is_python(changed) and _code(changed) != _code(text):
            says = f"`{change.line_in(text)}` became `{change.line_in(changed)}`"
            yield JudgeMutant(f"{path.removesuffix('.py')}/{change.name}", path, changed, says)


def _changes(text: str) -> Iterator[Change]:
    """Every change of the bodies of functions, outermost functions and methods alike, on lines in ASCII."""
    lines, seen = text.splitlines(), set[ast.AST]()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in (node for statement in function.body for node in ast.walk(statement) if node not in seen):
            seen.add(node)
            of_node = lines[getattr(node, "lineno", 0) - 1:getattr(node, "end_lineno", 0)]
            if of_node and all(map(str.isascii, of_node)):  # columns are counted in bytes
                for operator in WEAKENING:
                    yield from (Change(operator, node, now) for now in OPERATORS[operator](node))


@cache
def _text_of(path: str) -> str:
    return (PACKAGE / path).read_text(encoding="utf-8")


@cache
def _code(text: str) -> str:
    """What is run of a module: its syntax tree without docstrings and the hints of variables."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)
