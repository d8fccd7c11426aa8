"""A function that cannot be called as attention is turned away before clauses, pytest and a worker are loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.errors import TargetError
from attnspec.subjects.outline import check_unloaded, loads_at_once
from attnspec.subjects.registry import load_target

SIGNATURES = ["a, b", "query, key, mask", "query, key, value, more", "query, key, value, *, masc=None", "*args",
              "query, key, value, mask, /", "x, positions, *, bse=1.0", "query, key, value, *, heads"]
"""Parameters by which no function can be called as attention is, each for a reason of its own."""

FITTING = ["query, key, value", "q, k, v, /, *, causal=False", "query, key, value, *more, scale=None, **others",
           "query, key, value, *, causal=CAUSAL"]

WATCHED = """
import sys
from attnspec.cli import main
code = main(["check", sys.argv[1], "--no-record"])
print(code, [name for name in sys.argv[2:] if name in sys.modules])
"""


def checked(target: str, *modules: str) -> tuple[str, str]:
    """What a check says on standard error, and its exit code with those of these modules that it has imported."""
    done = subprocess.run([sys.executable, "-c", WATCHED, target, *modules], capture_output=True, text=True,
                          timeout=60, check=True)
    return done.stderr, done.stdout.strip()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_wrong_signature_is_told_without_any_import() -> None:
    Path("mine.py").write_text("import torch\nraise OSError\ndef attend(a, b):\n    return a\n", encoding="utf-8")
    assert checked("mine.py:attend", "numpy", "hypothesis", "_pytest", "attnspec.engine.engine") == (
        "attnspec: mine.py:3: attend takes (a, b); the first three should be query, key and value, given by position: "
        "attend(query, key, value, *, ...). To have a wrapper written: attnspec init mine:attend\n", "2 []")


def test_what_a_few_calls_tell_is_told_before_pytest_is_imported() -> None:
    Path("mine.py").write_text("""
import numpy as np
def attend(query, key, value):
    logits = np.einsum("bthd,bshd->bhts", query, key)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("bhts,bshd->bthd", weights / weights.sum(-1, keepdims=True), value)
attend.dtypes = ["float64"]
""", encoding="utf-8")
    said, rest = checked("mine.py:attend", "hypothesis", "_pytest", "attnspec.engine.engine")
    assert said.startswith("attnspec: mine.py:3: mine.py:attend seems to take arrays with the axes (B, T, H, D)")
    assert rest == "2 []"


@pytest.mark.parametrize("text", ["def attend(query, key, value)\n    return value\n", "return\n"])
def test_a_file_that_is_no_python_is_told_with_its_line(text: str) -> None:
    Path("mine.py").write_text(f"# mine\n{text}", encoding="utf-8")
    for target, written in (("mine.py:attend", "mine.py"), ("mine:attend", "mine")):
        with pytest.raises(TargetError, match=f"^mine.py:2: '{written}' is no valid Python: "):
            check_unloaded(target)


@pytest.mark.parametrize("parameters", SIGNATURES)
def test_the_text_of_a_function_tells_in_the_words_of_the_import(parameters: str) -> None:
    Path("mine.py").write_text(f"def attend({parameters}): ...\n", encoding="utf-8")
    for target in ("mine.py:attend", "mine:attend"):
        with pytest.raises(TargetError) as told:
            check_unloaded(target)
        with pytest.raises(TargetError) as of_import:
            load_target(target)
        assert str(told.value) == str(of_import.value)
        sys.modules.pop("mine", None)


@pytest.mark.parametrize("text", [
    *(f"def attend({each}): ...\n" for each in FITTING), "@made\ndef attend(a): ...\n",
    "def attend(a): ...\nattend = made(attend)\n", "if True:\n    def attend(a): ...\n", "from theirs import attend\n",
    "async def attend(a): ...\n", "def attend(a): ...\nfrom theirs import *\n", "def attend(a, b=made()): ...\n"])
def test_what_only_an_import_can_tell_is_left_to_it(text: str) -> None:
    Path("mine.py").write_text(text, encoding="utf-8")
    check_unloaded("mine.py:attend")


def test_a_function_is_called_early_if_its_file_imports_no_framework() -> None:
    Path("beside.py").write_text("", encoding="utf-8")
    texts = {"import numpy as np\nfrom collections import abc\n": True, "import jax.numpy as jnp\n": False,
             "def attend():\n    from torch import nn\n": False, "import beside\n": False,
             "from . import beside\n": False, "import nowhere_at_all\n": True}
    for text, is_at_once in texts.items():
        Path("mine.py").write_text(text, encoding="utf-8")
        assert loads_at_once("mine.py:attend") is is_at_once, text


def test_what_returns_no_array_is_told_at_once_and_judged_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text("def attend(query, key, value):\n    return value, None\n", encoding="utf-8")
    wanted = ["--clause", "attention.definition", "--dtype", "float32", "--effort", "glance", "-n", "1", "--no-record"]
    assert main(["check", "mine.py:attend", *wanted]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("mine.py:1: The subject returned a tuple of 2 where the output should be: an array of ")
    assert said.err.endswith("have a wrapper written: attnspec init mine:attend. Each clause will say so.\n")
    assert "attention.definition (spec/attention.yaml" in said.out


def test_where_a_record_is_asked_for_the_run_says_it_and_leaves_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text("def attend(a, b):\n    return a\n", encoding="utf-8")
    wanted = ["--clause", "attention.definition", "--dtype", "float32", "-n", "1", "--record", "mine.jsonl"]
    assert main(["check", "mine.py:attend", *wanted]) == 2
    assert "mine.py:attend cannot be judged: mine.py:1: attend takes (a, b);" in capsys.readouterr().out
    assert Path("mine.jsonl").is_file()
