"""Judge mutants: attnspec with one weakening each, and how the test is found that notices it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import judge_mutants
import pytest
from judge_mutants import TreeCopy, chosen_mutants, staged_tests
from mutation import weakenings
from mutation.weakenings import JudgeMutant, named_mutants

RIGHT = "def largest(numbers):\n    return max(numbers)\n"
WRONG = JudgeMutant("wrong", "chosen.py", RIGHT.replace("max", "min"), "the least for the largest")
SAME = JudgeMutant("same", "chosen.py", RIGHT.replace("max(", "max(*[], "), "nothing")
DIAGNOSIS = "conformance/tests/test_diagnosis.py"
KILLER = "conformance/tests/test_chosen.py::test_largest"
TESTS = """
from pathlib import Path
import attnspec.chosen

def test_text():
    assert Path(attnspec.chosen.__file__).read_text() == TEXT

def test_largest():
    assert attnspec.chosen.largest([1, 2]) == 2
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one module, with a test of its text, which any change breaks, and one of what it does."""
    package, tests = tmp_path / "conformance" / "attnspec", tmp_path / "conformance" / "tests"
    package.mkdir(parents=True)
    tests.mkdir()
    (package / "__init__.py").touch()
    (package / "chosen.py").write_text(RIGHT, encoding="utf-8")
    (tests / "test_chosen.py").write_text(f"TEXT = {RIGHT!r}\n{TESTS}", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.setattr(judge_mutants, "CHECKOUT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a start takes a third of the time
    return tmp_path


@pytest.mark.nightly
def test_a_mutant_is_not_killed_by_a_test_of_its_text(checkout: Path) -> None:
    copy = checkout.parent / "a copy"
    copy.mkdir()
    tree, tests = TreeCopy(copy, 0), ["conformance/tests/test_chosen.py"]
    assert tree.killer(WRONG, tests) == KILLER
    assert tree.killer(SAME, tests) == ""
    assert (copy / "conformance/attnspec/chosen.py").read_text(encoding="utf-8") == RIGHT


@pytest.mark.nightly
def test_the_named_mutants_come_first_and_a_seed_draws_the_others() -> None:
    named = [each.id for each in named_mutants()]
    first, again, other = ([each.id for each in chosen_mutants(len(named) + 3, seed)] for seed in (0, 0, 1))
    assert first == again
    assert first[:-3] == other[:-3] == named
    assert set(first).isdisjoint(other[-3:])


def test_a_weakening_whose_code_is_gone_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "weakenings.yaml"
    table.write_text("mutants: [{id: a, path: core/nouns.py, says: b, before: no such code, after: c}]\n",
                     encoding="utf-8")
    monkeypatch.setattr(weakenings, "TABLE", table)
    with pytest.raises(ValueError, match=r"a: `no such code` stands 0 times in core/nouns\.py"):
        named_mutants()


@pytest.mark.nightly
def test_tests_that_import_a_module_come_before_those_of_what_imports_it() -> None:
    plain, named = (JudgeMutant("any", "diagnosis/candidate.py", "", "", tests)
                    for tests in ((), ("test_diagnosis.py",)))
    own, near, further, rest = staged_tests(plain)
    assert (own, near) == ([], [DIAGNOSIS])
    assert "conformance/tests/test_causes.py" in further
    assert "conformance/tests/test_sinks.py" in rest
    assert staged_tests(named)[0] == [DIAGNOSIS]
