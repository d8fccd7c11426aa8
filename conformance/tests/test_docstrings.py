"""Docstrings: a function of the package that takes or returns arrays says their shapes in the legend's letters."""

from __future__ import annotations

import ast
import functools
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
