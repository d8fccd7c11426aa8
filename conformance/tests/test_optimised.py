"""`python -OO` leaves out docstrings and assertions; nothing that the command tells or decides hangs on them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attnspec.cli.group import FURTHER_COMMANDS, LISTED_COMMANDS
from attnspec.core import texts
from attnspec.core.paths import folder
from attnspec.record.events import RunStarted
from attnspec.record.read import read_record

PACKAGE = Path(texts.__file__).parents[1]
EFFECTS = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def command(*words: str, optimise: str = "2") -> tuple[int, str, str]:
    """The command, and its workers, in processes that leave them out."""
    done = subprocess.run([sys.executable, "-m", "attnspec", *words], env={**os.environ, "PYTHONOPTIMIZE": optimise},
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("words", ["--help", *(f"{name} --help" for name in ("check", "report")), "schema",
                                   "schema --record", "list words", "explain causal.no_lookahead"])
def test_what_is_told_is_the_same(here: Path, words: str) -> None:  # noqa: ARG001
    assert command(*words.split()) == command(*words.split(), optimise="0")


@pytest.mark.nightly
def test_the_generated_files_are_fresh(here: Path) -> None:  # noqa: ARG001
    assert command("schema", "--check") == (0, "The schemas match the code.\n", "")


@pytest.mark.nightly
@pytest.mark.parametrize(("subject", "code"), [("sound/naive", 0), ("fault/causal_ignored", 1)])
def test_a_verdict_is_the_same(here: Path, subject: str, code: int) -> None:
    words = ("check", subject, "--clause", "causal.is_not_ignored", "--dtype", "float32", "--effort", "glance",
             "-n", "1")
    verdicts = []
    for optimise in ("2", "0"):
        assert command(*words, "--record", f"{optimise}.jsonl", "--html", "page.html", optimise=optimise)[0] == code
        outcomes = read_record(here / f"{optimise}.jsonl").outcomes
        verdicts.append({(each.clause, each.verdict, each.cases) for each in outcomes})
    assert verdicts[0] == verdicts[1] != set()


def test_a_docstring_is_read_from_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain() -> None:
        pass

    things = (RunStarted, read_record, plain, len)
    usual = [texts.docstring(thing) for thing in things]
    monkeypatch.setattr("attnspec.core.texts.sys.flags", type("Flags", (), {"optimize": 2}))
    assert [texts.docstring(thing) for thing in things[:3]] == usual[:3]
    assert usual[2] == ""
    assert texts.docstring(len) == ""  # there is no source to read


def test_every_command_has_help() -> None:
    code, out, _ = command("--help")
    assert code == 0
    table, _, further = out.partition("\nCommands:\n")[2].partition("\nFurther commands: ")
    lines = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.split()}
    assert [name for name in LISTED_COMMANDS if not lines.get(name)] == []
    assert further.strip().rstrip(".").split(", ") == list(FURTHER_COMMANDS)


@pytest.mark.nightly
@pytest.mark.parametrize("root", [PACKAGE, PACKAGE.parent / "evaluation", folder("implementations")],
                         ids=["attnspec", "evaluation", "implementations"])
def test_no_assertion_does_anything(root: Path) -> None:
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                assert not any(isinstance(part, EFFECTS) for part in ast.walk(node.test)), f"{file}:{node.lineno}"
