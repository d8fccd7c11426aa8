"""`python:` of a manifest names the interpreter in which its subjects live, as `--python` does for a run."""

from __future__ import annotations

import fcntl
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import ManifestError, TargetError
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.engine.engine import Engine
from attnspec.host import raised
from attnspec.hosting import client
from attnspec.hosting.client import close_all
from attnspec.record.read import read_record
from attnspec.subjects.installed import look_in
from attnspec.subjects.registry import load_target, registered_subjects
from helpers.commands import Cli

MANIFEST = """
library: Mine
distribution: {distribution}
requires: {requires}
python: {python}
subjects:
  - {{id: attention, title: Attention, function: adapter:attend, dtypes: [float32]}}
"""
ADAPTER = """
import numpy as np

def attend(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value
"""


def library(folder: Path, python: str, *, requires: str = "numpy", distribution: str = "numpy") -> str:
    """The folder of implementations, with one library whose manifest names this interpreter."""
    (folder / "mine").mkdir()
    (folder / "mine" / "adapter.py").write_text(ADAPTER, encoding="utf-8")
    manifest = MANIFEST.format(python=python, requires=requires, distribution=distribution)
    (folder / "mine" / "manifest.yaml").write_text(manifest, encoding="utf-8")
    return str(folder)


def check(cli: Cli, folder: str, *more: str) -> tuple[int, str, str]:
    return cli("check", "mine/attention", "--implementations", folder, "--clause", "attention.definition", "--effort",
               "glance", "-n", "1", *more)


def test_the_subjects_of_a_manifest_live_in_its_interpreter(cli: Cli, tmp_path: Path, bare: Path) -> None:
    record = tmp_path / "run.jsonl"
    code, out, _ = check(cli, library(tmp_path, os.path.relpath(bare, tmp_path / "mine")), "--record", str(record))
    assert code == 0, out
    lives_in = read_record(record).subjects[0].card.lives_in
    assert lives_in["interpreter"].endswith("/bin/python")
    assert lives_in["numpy"] == np.__version__


def test_the_process_that_begins_early_is_the_one_that_is_asked(tmp_path: Path, bare: Path) -> None:
    folder = library(tmp_path, str(bare))
    close_all()
    Engine(Plan(("mine/attention",), implementations=(folder,))).fetch("mine/attention")
    assert [client.surroundings.command for client in client._clients.values()] == [(str(bare),)]


def test_what_is_installed_is_asked_of_the_interpreter_of_a_manifest(tmp_path: Path, bare: Path) -> None:
    folder = library(tmp_path, str(bare), requires="pytest", distribution="pytest")
    subject = registered_subjects([folder])["mine/attention"]
    assert subject.why_missing == "pytest is not installed. Install it: pip install pytest"
    assert subject.library.version == ""


def test_a_python_of_the_command_line_comes_before_the_manifests(tmp_path: Path, bare: Path) -> None:
    folder = library(tmp_path, "../no/such/python", requires="pytest")
    look_in(Surroundings((sys.executable,)))
    assert registered_subjects([folder])["mine/attention"].why_missing == ""
    subject = load_target("mine/attention", Surroundings((str(bare),)), folders=[folder])
    assert subject.callee.place["interpreter"].endswith("/bin/python")


def test_a_home_directory_is_spelled_with_a_tilde(tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(bare.parents[1]))
    assert registered_subjects([library(tmp_path, "~/bin/python")])["mine/attention"].library.python == str(bare)


@pytest.mark.parametrize(("program", "words"), [
    ("", "there is no such program"), ("#!/bin/sh\necho no Python here >&2\nexit 3\n", "no Python here"),
])
def test_an_interpreter_that_is_none_is_told_with_its_place(tmp_path: Path, program: str, words: str) -> None:
    (tmp_path / "bin").mkdir()
    if program:
        (tmp_path / "bin/python").write_text(program, encoding="utf-8")
        (tmp_path / "bin/python").chmod(0o755)
    folder = library(tmp_path, "../bin/python")
    with pytest.raises(TargetError) as caught:
        load_target("mine/attention", Surroundings(), folders=[folder])
    told = str(caught.value)
    assert "mine/attention cannot be judged here: its manifest names the interpreter '../bin/python' (" in told
    assert f"{tmp_path}/mine/manifest.yaml:5): " in told
    assert words in told
    assert told.endswith("Correct `python:` there, or name another one: --python PATH")


@pytest.mark.parametrize(("python", "words"), [
    ("3", "should be text, not a whole number"), ("''", "is empty"),
    ("python3\nhost: node host.mjs", "says where the subjects run, and so does `host`. Leave one of them out."),
])
def test_a_python_that_makes_no_sense_is_an_error_with_its_line(tmp_path: Path, python: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words) as caught:
        registered_subjects([library(tmp_path, python)])
    assert str(caught.value).startswith(f"{tmp_path}/mine/manifest.yaml:5")


def test_scripts_of_findings_run_in_the_interpreter_of_the_manifest(cli: Cli, tmp_path: Path, bare: Path) -> None:
    folder = library(tmp_path, str(bare))
    (tmp_path / "mine" / "shows.py").write_text(
        f"import sys\nsys.exit(int(sys.prefix == {str(bare.parents[1])!r}))\n", encoding="utf-8")
    (tmp_path / "mine" / "findings.yaml").write_text(
        "findings:\n  - {id: one, says: S., subjects: ['*'], clauses: ['*'], script: shows.py, documented: 'no'}\n",
        encoding="utf-8")
    assert cli("confirm", "mine", "--implementations", folder)[1] == "confirmed  mine/one\n1 confirmed\n"


def test_what_is_said_is_kept_under_an_interpreter_that_lacks_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPy 3.9 has no fcntl.F_DUPFD_CLOEXEC."""
    monkeypatch.delattr(fcntl, "F_DUPFD_CLOEXEC")
    with runpy.run_path(raised.__file__)["SpeechRecorder"]() as spoken:
        os.write(2, b"hello")
    assert spoken.text == "hello"
