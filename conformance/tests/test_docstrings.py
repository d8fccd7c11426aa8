"""Docstrings: a function that takes or returns arrays says their shapes in the legend's letters, and a dataclass
explains fields that it has."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import Function, House, has_shape

PACKAGES = [Path(__file__).parents[1] / name for name in ("attnspec", "evaluation")]
DUE = 0.95
"""The share of array functions that say a shape; the rest is for what a shape would not make clearer."""


@functools.cache
def array_functions() -> tuple[tuple[str, Function], ...]:
    """Every function with arrays in its annotations, and its place."""
    return tuple((f"{module.name}:{function.lineno} {function.name}", function)
                 for package in PACKAGES for module in House(package).files for function in module.array_functions)


def function_with(docstring: str) -> Function:
    [function] = ast.parse(f'def f(array: Array) -> Array:\n    """{docstring}"""\n').body
    assert isinstance(function, Function)
    return function


def test_array_functions_say_their_shapes() -> None:
    known = array_functions()
    silent = [place for place, function in known if not has_shape(function)]
    said = len(known) - len(silent)
    is_enough = said >= DUE * len(known)
    assert is_enough, (
        f"{said} of {len(known)} array functions say a shape, and {DUE:.0%} should. Give these docstrings one, as "
        "(B,H,T,S) in the legend's letters, or say 'any shape':\n" + "\n".join(silent))


def test_array_functions_are_found_at_all() -> None:
    names = {place.partition(" ")[2] for place, _ in array_functions()}
    assert {"expect", "visible_keys", "relative_logits"} <= names


@pytest.mark.parametrize("docstring", [
    "(B,H,T,S): the weights.", "The output (B,T,M).", "w_query (M,H·D).", "Rows (…,T,·).", "An array of any shape.",
    "Any shape.", "As many entries as it has, any\n    shape."])
def test_a_shape_is_a_list_of_letters_or_the_words_any_shape(docstring: str) -> None:
    assert has_shape(function_with(docstring))


@pytest.mark.parametrize("docstring", [
    "The weights.", "The weights (per head).", "Of shape (2, 3).", "Its shape is told.", "Many shapes.", "f(x)."])
def test_words_and_numbers_in_parentheses_are_no_shape(docstring: str) -> None:
    assert not has_shape(function_with(docstring))


EXPLAINED = re.compile(r"(?:^|\.  |\n\n|\n)([a-z_]+(?:, [a-z_]+)*): ")
"""`name: ` or `name, other: `, where a sentence may begin."""


def unknown_fields(tree: ast.AST) -> Iterator[str]:
    """What the docstrings of dataclasses without a base explain, and what is no attribute of theirs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.bases and (docstring := ast.get_docstring(node)):
            if not any("dataclass" in ast.unparse(each) for each in node.decorator_list):
                continue
            known = {target.id for each in node.body if isinstance(each, ast.AnnAssign | ast.Assign)
                     for target in ([each.target] if isinstance(each, ast.AnnAssign) else each.targets)
                     if isinstance(target, ast.Name)}
            known |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            named = {name for found in EXPLAINED.finditer(docstring) for name in found[1].split(", ")}
            yield from (f"{node.name}: {name}" for name in sorted(named - known))


def test_dataclasses_explain_fields_that_they_have() -> None:
    gone = [f"{path.relative_to(package)} {field}" for package in PACKAGES for path in sorted(package.rglob("*.py"))
            for field in unknown_fields(ast.parse(path.read_text(encoding="utf-8")))]
    assert gone == [], "These docstrings name fields that have other names now:\n" + "\n".join(gone)


def test_a_field_that_was_renamed_is_found() -> None:
    docstring = '"""What was met.  held: cases.  last, first: one.\n\n    kept: all.\n    """'
    text = f"@dataclass\nclass Tally:\n    {docstring}\n    last: int\n    kept: int\n"
    assert list(unknown_fields(ast.parse(text))) == ["Tally: first", "Tally: held"]
