"""The figures of benchmarks/house.py on a package of which they are known."""

from __future__ import annotations

import ast
from pathlib import Path

import attnspec
import pytest
from house import COMPREHENSIONS, House, is_bare, trace_check

FIRST = """
def told(x):
    return 1 if x else 2  # the ternary

class Answer:
    @property
    def held(self):
        return [each for each in (1, 2) if each]

    def __init__(self):
        def of(): ...
        self.numbers = {number: number for number in range(3)}  # noqa: C416
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    package = tmp_path / "mine"
    (package / "numerics").mkdir(parents=True)
    (package / "first.py").write_text(FIRST, encoding="utf-8")
    (package / "numerics" / "second.py").write_text(
        f"def told(): ...\ndef read_header(): ...\n\nvalue = {'1' * 92}\n", encoding="utf-8")
    return House(package)


@pytest.mark.parametrize("name", ["told", "_told", "of", "_judged", "beside"])
def test_a_preposition_or_participle_alone_is_a_bare_name(name: str) -> None:
    assert is_bare(name)


@pytest.mark.parametrize("name", ["read_header", "_told_by", "seed", "_speed", "red_feed", "shape", "offset"])
def test_a_noun_and_several_words_are_no_bare_name(name: str) -> None:
    assert not is_bare(name)


def test_bare_names_are_told_with_their_modules(house: House) -> None:
    assert sorted(house.bare_names()) == ["mine.first.held", "mine.first.of", "mine.first.told",
                                          "mine.numerics.second.told"]


def test_a_name_that_stands_in_several_files_is_told_with_them(house: House) -> None:
    assert house.repeated_functions() == {"told": {"mine.first", "mine.numerics.second"}}
    assert house.share_of_functions({"told"}) == pytest.approx(100 * 2 / 5)


def test_long_lines_ternaries_and_comprehensions_are_counted(house: House) -> None:
    assert house.lines == 16
    assert house.share_of_long_lines() == pytest.approx(100 / 16)
    assert house.per_100_lines(ast.IfExp) == pytest.approx(100 / 16)
    assert house.per_100_lines(*COMPREHENSIONS) == pytest.approx(100 * 2 / 16)


def test_comments_for_tools_are_none(house: House) -> None:
    assert house.why_comments() == pytest.approx(100 / 16)
    assert house.why_comments("numerics") == 0


@pytest.mark.workers
def test_the_trace_of_check_has_the_command_its_workers_and_the_page() -> None:
    called = trace_check(Path(attnspec.__file__).parent)
    assert {("cli/check.py", "check"), ("runner/worker.py", "JobItem.runtest"), ("trials/trial.py", "Trial.hold"),
            ("report/page.py", "write_page")} <= called
    assert len(called) <= MOST_CHECK_FUNCTIONS
    assert len({file for file, _ in called}) <= MOST_CHECK_FILES


MOST_CHECK_FUNCTIONS, MOST_CHECK_FILES = 1280, 116
"""What one clause and a page for a function that conforms call. It was 1,360 functions in 233 files once."""
