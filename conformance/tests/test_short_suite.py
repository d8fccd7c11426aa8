"""The short suite runs some cases of a family of tests, the same ones always, and the nightly suite the others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.places import TESTS

CONFTEST = """
import pytest
from helpers.short_suite import leave_for_the_night

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    leave_for_the_night(items)
"""
FAMILIES = """
import pytest

@pytest.mark.family(2)
@pytest.mark.parametrize("number", range({numbers}))
def test_numbers(number): ...

@pytest.mark.family(1, each="letter")
@pytest.mark.parametrize("letter", "abc")
@pytest.mark.parametrize("number", range(4))
def test_letters(letter, number): ...

@pytest.mark.family(1)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.nightly) for kind in "pqr"] + ["s"])
def test_kinds(kind): ...

@pytest.mark.nightly
def test_dear(): ...

def test_cheap(): ...
"""


def collected(folder: Path, expression: str, numbers: int = 9) -> list[str]:
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(FAMILIES.format(numbers=numbers), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "--collect-only", "-q", "-m",
               expression, "-p", "no:cacheprovider", str(folder)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder,
                           env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    return re.findall(r"::(\S+)$", ended.stdout, re.MULTILINE)


def test_the_two_parts_are_the_whole_and_each_family_is_in_the_short_one(tmp_path: Path) -> None:
    short, nightly, whole = (collected(tmp_path, each) for each in ("not nightly", "nightly", ""))
    assert sorted([*short, *nightly]) == sorted(whole)
    assert sum(name.startswith("test_numbers") for name in short) == 2
    assert sorted(letter for name in short for letter in re.findall(r"letters\[\d-(\w)\]", name)) == ["a", "b", "c"]
    assert [name for name in short if name.startswith("test_kinds")] == ["test_kinds[s]"]
    assert "test_cheap" in short
    assert "test_dear" in nightly


@pytest.mark.nightly
def test_a_new_case_takes_the_place_of_one_at_most(tmp_path: Path) -> None:
    before, after = (set(collected(tmp_path, "not nightly", numbers)) for numbers in (9, 10))
    assert len(before - after) <= 1


def test_without_options_pytest_runs_the_short_suite(pytestconfig: pytest.Config) -> None:
    options = pytestconfig.getini("addopts")
    assert options[options.index("-m") + 1] == "not nightly"
