"""What the tests keep to themselves: their names are short, and no helper stands in two files."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from helpers.places import TESTS

LONGEST_NAME = 70
FILES = sorted([*TESTS.glob("*.py"), *TESTS.glob("helpers/*.py")])


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    """The functions of a file, but for those inside of others."""
    return (each for each in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(each, ast.FunctionDef))


def is_test(function: ast.FunctionDef) -> bool:
    """Whether pytest calls it."""
    return function.name.startswith("test_")


def long_names(paths: Iterable[Path]) -> list[str]:
    """The tests whose names are too long."""
    return [each.name for path in paths for each in functions(path) if is_test(each) and len(each.name) > LONGEST_NAME]


def body_of(function: ast.FunctionDef) -> str:
    """What a function does: neither its name nor its docstring."""
    statements = function.body[ast.get_docstring(function) is not None:]
    return "\n".join(map(ast.unparse, statements))


def copied_helpers(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """The helpers of two files that do the same, as file:name; a copy may have another name."""
    helpers = [(path.name, each.name, body_of(each)) for path in paths for each in functions(path) if not is_test(each)]
    return [(f"{file}:{name}", f"{other_file}:{other}")
            for (file, name, body), (other_file, other, again) in itertools.combinations(helpers, 2)
            if body == again and file != other_file]


def test_names_of_tests_are_at_most_70_characters_long() -> None:
    assert long_names(FILES) == []


def test_a_helper_of_several_files_stands_in_one_place() -> None:
    assert copied_helpers(FILES) == [], "what several files need belongs into helpers/, a fixture into conftest.py"


def test_the_guide_to_the_tests_names_files_that_exist() -> None:
    named = set(re.findall(r"`((?:test_\w+|\w+)(?:\.py|/))`", (TESTS / "README.md").read_text(encoding="utf-8")))
    assert named > {"test_clauses.py", "helpers/"}
    assert {name for name in named - {"spec/"} if not (TESTS / name).exists()} == set()


def test_these_tests_can_fail(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    names = "".join(f"def test_{letter * length}(): ...\n" for letter, length in (("a", 65), ("b", 66)))
    one.write_text(f"{names}def double(x):\n    return 2 * x\n", encoding="utf-8")
    other.write_text("def twice(x: int) -> int:\n    'Two times x.'\n    return 2 * x\n", encoding="utf-8")
    assert long_names([one, other]) == [f"test_{'b' * 66}"]
    assert copied_helpers([one, other]) == [("one.py:double", "other.py:twice")]
