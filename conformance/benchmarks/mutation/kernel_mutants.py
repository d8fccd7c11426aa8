"""The mutants of a kernel: its text with one change each, and an id that stays as long as the kernel does."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from mutation.operators import OPERATORS, take_another_name

KERNELS = Path(__file__).parent / "kernels"
WRAPPED = (ast.BinOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.UnaryOp)
"""What needs parentheses where it may stand beside an operator."""


@dataclass(frozen=True, slots=True)
class KernelMutant:
    """A kernel with one change.

    id: `dense/compare@47:19 column < row`: kernel, operator, line and column, and what stands there now.
    before, after: the changed line, in the kernel and in the mutant.
    """

    kernel: str
    id: str
    text: str
    before: str
    after: str

    @property
    def digest(self) -> str:
        """Of its text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def kernel_files() -> Mapping[str, Path]:
    """The kernels that are changed, by name."""
    return {path.stem: path for path in sorted(KERNELS.glob("*.py"))}


def chosen_mutants(count: int, seed: int, kernels: Sequence[str] = ()) -> Sequence[KernelMutant]:
    """So many mutants, drawn by seed: as many of one kernel as of another, and of each operator that a kernel has in
    turn, since a kernel has more names than comparisons.
    """
    random, names = Random(seed), kernels or tuple(kernel_files())
    turns = {name: _in_turn(mutants_of(name), random) for name in names}
    chosen: list[KernelMutant] = []
    while turns and len(chosen) < count:
        for name in list(turns):
            mutant = next(turns[name], None)
            if mutant is None:
                del turns[name]
            elif len(chosen) < count:
                chosen.append(mutant)
    return chosen


def _in_turn(mutants: Sequence[KernelMutant], random: Random) -> Iterator[KernelMutant]:
    """One of each operator, then another of each, in an order that is drawn."""
    by_operator: dict[str, list[KernelMutant]] = {}
    for mutant in random.sample(mutants, len(mutants)):
        by_operator.setdefault(mutant.id.partition("/")[2].partition("@")[0], []).append(mutant)
    while by_operator:
        for operator in list(by_operator):
            yield by_operator[operator].pop()
            if not by_operator[operator]:
                del by_operator[operator]


@cache
def mutants_of(kernel: str) -> Sequence[KernelMutant]:
    """All mutants of a kernel, in the order of its text; what two operators make alike is there once."""
    text = kernel_files()[kernel].read_text(encoding="utf-8")
    found: dict[str, KernelMutant] = {}
    for change in _changes(text):
        changed = change.made_in(text)
        if changed not in found and change.is_one and is_python(changed):
            found[changed] = KernelMutant(kernel, f"{kernel}/{change.name}", changed, change.line_in(text),
                                          change.line_in(changed))
    return tuple(found.values())


def is_python(text: str) -> bool:
    """Whether it can be read: an assignment to a call, say, cannot, and nobody would run it."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Change:
    """A node of a syntax tree, and what stands in its place."""

    operator: str
    node: ast.AST
    now: ast.AST

    @property
    def is_one(self) -> bool:
        """Whether it changes anything: `H, H` may be swapped."""
        return ast.dump(self.node) != ast.dump(self.now)

    @property
    def name(self) -> str:
        """`compare@47:19 column < row`."""
        what = ast.unparse(ast.fix_missing_locations(self.now)).splitlines()[0]
        return f"{self.operator}@{_place(self.node).first}:{_place(self.node).begins} {what}"

    def made_in(self, text: str) -> str:
        """The text with it. Kernels are ASCII, so that columns are characters."""
        lines, at = text.splitlines(keepends=True), _place(self.node)
        before, after = lines[at.first - 1][:at.begins], lines[at.last - 1][at.ends:]
        return "".join([*lines[:at.first - 1], before, _source(self.now, at.begins), after, *lines[at.last:]])

    def line_in(self, text: str) -> str:
        """The first line that it is about."""
        return text.splitlines()[_place(self.node).first - 1].strip()


@dataclass(frozen=True, slots=True)
class _Place:
    """Lines from 1, columns from 0, as the syntax tree counts them."""

    first: int
    begins: int
    last: int
    ends: int


def _place(node: ast.AST) -> _Place:
    return _Place(*(getattr(node, each) for each in ("lineno", "col_offset", "end_lineno", "end_col_offset")))


def _source(node: ast.AST, indent: int) -> str:
    written = ast.unparse(ast.fix_missing_locations(node))
    if isinstance(node, ast.stmt):
        return written.replace("\n", "\n" + " " * indent)
    return f"({written})" if isinstance(node, WRAPPED) else written


def _changes(text: str) -> Iterator[Change]:
    """Every change of the bodies of functions.

    What a signature has as defaults is a declaration and no computation, as is what is said behind the function.
    """
    for function in ast.parse(text).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        names = frozenset(node.id for node in ast.walk(function) if isinstance(node, ast.Name)) | {
            each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
        for statement in function.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):  # the docstring
                continue
            for node in ast.walk(statement):
                for operator, change in OPERATORS.items():
                    yield from (Change(operator, node, now) for now in change(node))
                yield from (Change("name", node, now) for now in take_another_name(node, names))
