"""Completion in a shell: what is offered, in bash also behind a colon, without NumPy and without a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attnspec.cli.completion import rejoin_words

HEAVY = ("numpy", "hypothesis", "torch", "jax", "pytest")
MINE = "def attend(q, k, v): ...\ndef attend_fast(q, k, v): ...\ndef _hidden(q): ...\n"


@pytest.fixture(autouse=True)
def here(here: Path) -> Path:
    """A user's folder, as the working directory."""
    (here / "mine.py").write_text(MINE, encoding="utf-8")
    (here / "inner").mkdir()
    (here / "inner" / "deep.py").write_text(MINE, encoding="utf-8")
    return here


def asked(instruction: str, **words: str) -> str:
    """What the command answers a shell."""
    done = subprocess.run([sys.executable, "-m", "attnspec"], capture_output=True, text=True, check=False,
                          env={**os.environ, "_ATTNSPEC_COMPLETE": instruction, **words})
    assert done.stderr == ""
    return done.stdout


def offered(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    answer = asked("bash_complete", COMP_WORDS="\n".join(("attnspec", *words)), COMP_CWORD=str(len(words)))
    return [line.partition(",")[2] for line in answer.splitlines() if line.startswith("plain,")]


@pytest.mark.family(3)
@pytest.mark.parametrize(("words", "offers"), [
    (["ch"], ["check"]),
    (["check", "mine.py:attend_"], ["attend_fast"]),
    (["check", "mine.py", ":", "attend_"], ["attend_fast"]),
    (["check", "mine.py", ":"], ["attend", "attend_fast"]),
    (["check", "mine", ":", "attend_"], ["attend_fast"]),
    (["check", "min"], ["mine.py:attend", "mine.py:attend_fast", "mindspore/layer"]),
    (["check", "inner/"], ["inner/deep.py:attend", "inner/deep.py:attend_fast"]),
    (["check", "nowhere.py", ":", "at"], []),
    (["check", "numpy/m"], ["numpy/msa"]),
    (["check", "fault/causal_off"], ["fault/causal_off_by_one"]),
    (["check", "a:b", "--effort", "t"], ["thorough"]),
    (["check", "a:b", "--dtype", "b"], ["bfloat16"]),
    (["check", "a:b", "--profile", "ca"], ["causal"]),
    (["check", "a:b", "--clause", "causal.is"], ["causal.is_not_ignored"]),
    (["explain", "causal_off"], ["causal_off_by_one"]),
    (["explain", "causal.is"], ["causal.is_not_ignored"]),
    (["explain", "permute_q"], ["permute_queries"]),
    (["audit", "--library", "torcht"], ["torchtune"]),
    (["list", "cl"], ["clauses"]),
    (["check", "--verb"], ["--verbose"]),
], ids=" ".join)
def test_a_shell_is_offered_what_fits(words: list[str], offers: list[str]) -> None:
    assert offered(*words) == offers


@pytest.mark.nightly
def test_a_theme_is_offered_as_a_pattern_that_the_shell_leaves_alone() -> None:
    assert offered("check", "a:b", "--clause", "causal.")[:2] == [r"causal.\*", "causal.no_lookahead"]
    assert offered("check", "a:b", "--clause", "'causal.")[0] == "causal.*"


@pytest.mark.nightly
def test_a_folder_of_many_files_is_offered_by_file(here: Path) -> None:
    for number in range(21):
        (here / f"many_{number:02}.py").write_text(MINE, encoding="utf-8")
    assert offered("check", "many_0")[:2] == ["many_00.py:attend", "many_00.py:attend_fast"]
    assert offered("check", "many_")[:2] == ["many_00.py:", "many_01.py:"]


def test_own_folders_and_another_law_are_heeded(here: Path) -> None:
    (here / "own" / "lib").mkdir(parents=True)
    (here / "own" / "lib" / "manifest.yaml").write_text(
        'library: Lib\nsubjects:\n  - {id: layer, title: A layer, function: "adapter:attend"}\n', encoding="utf-8")
    (here / "own" / "lib" / "adapter.py").write_text(MINE, encoding="utf-8")
    assert offered("check", "--implementations", "own", "lib/") == ["lib/layer"]
    assert offered("check", "a:b", "--spec", "nowhere", "--clause", "causal.") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_ask(shell: str) -> None:
    source = asked(f"{shell}_source")
    assert f"_ATTNSPEC_COMPLETE={shell}_complete" in source
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=source, text=True, check=False).returncode == 0


def test_zsh_and_fish_are_offered_the_same() -> None:
    assert "attend_fast" in asked("zsh_complete", COMP_WORDS="attnspec check mine.py:attend_", COMP_CWORD="2")
    assert "attend_fast" in asked("fish_complete", COMP_WORDS="attnspec check ", COMP_CWORD="mine.py:attend_")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_puts_the_offers_where_it_looks_for_them() -> None:
    words = '(attnspec check mine.py : attend_)'
    script = (f'attnspec() {{ "{sys.executable}" -m attnspec "$@"; }}; compopt() {{ :; }}\n{asked("bash_source")}\n'
              f'COMP_WORDS={words}; COMP_CWORD=4; _attnspec_completion attnspec; printf "%s\\n" "${{COMPREPLY[@]}}"')
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "attend_fast\n"


def test_words_that_a_colon_broke_are_put_together() -> None:
    assert rejoin_words(["check", "a.py", ":", "f", "--effort", "quick"]) == ["check", "a.py:f", "--effort", "quick"]
    assert rejoin_words(["check", "a.py", ":"]) == ["check", "a.py:"]


@pytest.mark.family(1)
@pytest.mark.parametrize("words", [
    ["check", "nu"], ["check", "fault/c"], ["check", "a:b", "--clause", "c"]], ids=" ".join)
def test_completing_imports_nothing_heavy(words: list[str]) -> None:
    code = ("import sys\nfrom attnspec.cli import main\ntry: main([])\nexcept SystemExit: pass\n"
            f"print('heavy', *(set(sys.modules) & set({HEAVY})))")
    environment = {**os.environ, "_ATTNSPEC_COMPLETE": "bash_complete", "COMP_WORDS": "\n".join(("attnspec", *words)),
                   "COMP_CWORD": str(len(words))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == "heavy"
    assert done.stdout.count("\n") > 1
