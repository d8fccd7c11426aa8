"""A keyword is defined in one place: few files of the package name it, and a further one is told."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import attnspec
import pytest

PACKAGE = Path(attnspec.__file__).parent


def spoken(path: Path) -> Iterator[str]:
    """Every identifier, attribute, argument, module and text of a file, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                  and node.body and isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname", "module"))
        yield from (name for name in names if isinstance(name, str))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def naming(keyword: str, package: Path = PACKAGE) -> set[str]:
    """The files of the package that name a keyword, or a word that holds it."""
    return {path.relative_to(package).as_posix() for path in package.rglob("*.py")
            if any(keyword in word.lower() for word in spoken(path))}


LIMIT = {"softcap": 36, "window": 45}


@pytest.mark.parametrize("keyword", LIMIT)
def test_few_files_name_a_keyword(keyword: str) -> None:
    found = sorted(naming(keyword))
    print(*found, sep="\n")
    assert len(found) <= LIMIT[keyword], found
