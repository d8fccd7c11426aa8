"""docs/architecture.md is true (drawing, glossary, the path of a case), and a class name stands in one module."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import attnspec
import pytest
from architecture import BEGINS, ENDS, drawing, with_drawing
from house import COMPREHENSIONS, SMALL, WHY, House, trace_case

CHECKOUT = Path(__file__).parents[2]
PACKAGE = Path(attnspec.__file__).parent
EVALUATION = PACKAGE.parent / "evaluation"
DOCUMENT = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
HOUSE = House(PACKAGE)  # each module is parsed once
FILE = re.compile(r"`(\w+(?:/\w+)+\.py)`")


def section(title: str) -> str:
    return DOCUMENT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def nouns() -> list[tuple[str, str]]:
    """Each noun of the glossary, and where it is said to be."""
    return re.findall(r"^\| (\w+) \| .* \| `([\w.]+)` \|$", section("Glossary"), flags=re.MULTILINE)


def is_there(where: str) -> bool:
    """Whether a package, a module or a class of attnspec has this name."""
    module, _, name = where.rpartition(".")
    try:
        return hasattr(importlib.import_module(f"attnspec.{module}"), name) or bool(find_spec(f"attnspec.{where}"))
    except ModuleNotFoundError:
        return False


def test_the_drawing_is_that_of_the_contracts() -> None:
    assert with_drawing(DOCUMENT, drawing()) == DOCUMENT


def test_the_drawing_names_every_package() -> None:
    packages = {path.parent.relative_to(root).as_posix() for root in (PACKAGE, EVALUATION)
                for path in root.rglob("__init__.py")} - {"."}
    assert set(re.findall(r"`([\w/]+)` \|", drawing())) >= packages


def test_a_document_without_a_place_for_the_drawing_is_told() -> None:
    with pytest.raises(ValueError, match=f"there should be a line {BEGINS} and a line {ENDS}"):
        with_drawing("# Architecture\n", "drawing")


def test_the_glossary_has_at_most_25_nouns_and_each_is_in_the_code() -> None:
    assert 20 <= len(nouns()) <= 25
    assert [noun for noun, where in nouns() if not is_there(where)] == []


def test_the_glossary_could_name_what_is_not_there() -> None:
    assert not is_there("engine.engine.Court")
    assert not is_there("court.engine.Engine")


@cache
def functions_of_a_case() -> list[tuple[str, str]]:
    return trace_case(PACKAGE)


def test_a_case_passes_the_files_that_the_document_names_and_at_most_18() -> None:
    passed = {file for file, _ in functions_of_a_case()}
    assert set(FILE.findall(section("The path of a case"))) == passed
    # the way to the subject apart, and the aspects that the case has
    assert len([file for file in passed if not file.startswith(("host/", "hosting/", "aspects/"))]) <= 18


MOST_MODULES, MOST_SMALL, MOST_OF_ONE_IMPORTER, MOST_KNOWING, MOST_FUNCTIONS, MOST_FILES = 292, 15, 50, 7, 160, 23
"""Figures of `benchmarks/house.py` that do not grow back: modules, those of 40 lines or less, those that one file alone
imports, files that know `window`, functions and files that one case passes.
"""


def test_the_figures_of_the_house_do_not_grow_back() -> None:
    known = [module.name for module in HOUSE.modules]
    importers = Counter(name for module in HOUSE.files for name in module.imports_among(known))
    assert len(known) <= MOST_MODULES, "merge files that are one concept"
    assert sum(module.lines <= SMALL for module in HOUSE.modules) <= MOST_SMALL
    assert sum(importers[name] == 1 for name in known) <= MOST_OF_ONE_IMPORTER
    assert sum(module.knows("window") for module in HOUSE.files) <= MOST_KNOWING
    passed = functions_of_a_case()
    assert len(passed) <= MOST_FUNCTIONS
    assert len({file for file, _ in passed}) <= MOST_FILES


MOST_LONG_LINES, MOST_TERNARIES, MOST_COMPREHENSIONS = 4.0, 2.0, 3.7
MOST_BARE_NAMES, MOST_REPEATED_NAMES, LEAST_WHY_COMMENTS = 0.5, 18.5, 4.0
"""Likewise, of lines: percent of 100 characters and more, ternaries and comprehensions per 100. Of functions: percent
with a bare name, and with a name that stands in several files. And comments per 100 lines of numerics, diagnosis and
problems.
"""


def test_the_lines_do_not_grow_denser_nor_the_names_barer() -> None:
    assert HOUSE.share_of_long_lines() <= MOST_LONG_LINES, "break lines of 100 characters and more"
    assert HOUSE.per_100_lines(ast.IfExp) <= MOST_TERNARIES, "write an if with two returns"
    assert HOUSE.per_100_lines(*COMPREHENSIONS) <= MOST_COMPREHENSIONS, "write a loop"
    bare = {name.rpartition(".")[2] for name in HOUSE.bare_names()}
    assert HOUSE.share_of_functions(bare) <= MOST_BARE_NAMES, "name functions by verb and noun"
    repeated = HOUSE.repeated_functions()
    assert HOUSE.share_of_functions(repeated) <= MOST_REPEATED_NAMES, "let each name say which"
    assert HOUSE.why_comments(*WHY) >= LEAST_WHY_COMMENTS, "say where a term comes from, and what was measured"


def test_no_class_name_stands_in_two_modules() -> None:
    repeated = [name for house in (HOUSE, House(EVALUATION)) for name in house.repeated_class_names()]
    assert repeated == [], (
        "A reader who searches for a class finds it alone. Rename one of each, to a noun of the field of two words or "
        "more, as WorkerAnswer and SubjectAnswer:\n" + "\n".join(repeated))


def test_a_class_name_in_two_modules_is_named_with_both(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    (package / "inner").mkdir(parents=True)
    (package / "first.py").write_text("class Answer: ...\nclass Question: ...\n", encoding="utf-8")
    (package / "inner" / "second.py").write_text("class Answer: ...\ndef Question(): ...\n", encoding="utf-8")
    assert House(package).repeated_class_names() == ["Answer: mine.first, mine.inner.second"]


LOADED = """
import sys
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
asked = Plan((sys.argv[1],), clauses=("attention.convex_hull",), dtypes=(DType.FLOAT32,), effort=Effort.QUICK)
engine = Engine(asked)
verdicts = [engine.try_item(item).verdict.value for item in engine.items()]
heavy = {"hypothesis", "attnspec.diagnosis", "attnspec.faults.catalogue"}
print(*verdicts, *sorted(heavy & sys.modules.keys()))
"""


@pytest.mark.parametrize(("implementation", "loaded"), [
    ("query @ key.mT @ value", "violated attnspec.diagnosis attnspec.faults.catalogue hypothesis"),
    ("value.mean(-2, keepdims=True) + 0 * query[..., :1]", "held")], ids=["wrong", "right"])
def test_the_faults_and_hypothesis_are_loaded_for_what_fails(tmp_path: Path, implementation: str, loaded: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"def attend(query, key, value):\n    return {implementation}\n", encoding="utf-8")
    told = subprocess.run([sys.executable, "-c", LOADED, f"{file}:attend"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == loaded
