"""The action for GitHub: the shell of its steps is run as a runner runs it, and what it promises is there."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from attnspec.runner.gate import gate
from helpers.places import CHECKOUT

ACTION: Mapping[str, Any] = yaml.safe_load((CHECKOUT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"].partition(" ")[0]: step for step in ACTION["runs"]["steps"]}
GIVEN = {"EFFORT": "quick", "BASELINE": "", "OPTIONS": "", "ARTIFACT": "attention", "JOB_INDEX": "0",
         "GITHUB_JOB": "conformance"}
MINE = """import numpy as np


def attend(query, key, value):
    logits = query @ np.swapaxes(key, -1, -2)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value
"""  # without a scale


def step(name: str, folder: Path, **given: str) -> tuple[int, dict[str, str], str]:
    """Runs the shell of a step: its exit code, its outputs, and what it printed."""
    outputs = folder / "outputs"
    outputs.touch()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                   "GITHUB_OUTPUT": str(outputs), **given}
    ran = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]], cwd=folder,
                         env=environment, text=True, capture_output=True, check=False)
    told = dict(line.partition("=")[::2] for line in outputs.read_text(encoding="utf-8").splitlines())
    return ran.returncode, told, ran.stdout + ran.stderr


def python_that_tells(folder: Path, *, code: int = 0) -> str:
    """A program in the place of Python that prints what it is given, and leaves the baseline of a first run."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@"\ntouch known.yaml\nexit {code}\n')
    program.chmod(0o755)
    return str(program)


def test_the_checkout_itself_is_installed(tmp_path: Path) -> None:
    python = python_that_tells(tmp_path)
    code, _, printed = step("Install", tmp_path, PYTHON=python, GITHUB_ACTION_PATH="/the check/out")
    assert (code, printed.splitlines()) == (0, ["-m", "pip", "install", "--quiet", "/the check/out"])


@pytest.mark.parametrize("code", [0, 1])
def test_the_action_leaves_stars_to_attnspec_and_keeps_the_baseline(tmp_path: Path, code: int) -> None:
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault" / "file").touch()
    given = {**GIVEN, "PYTHON": python_that_tells(tmp_path, code=code), "TARGETS": "fault/* mine:f",
             "BASELINE": "known.yaml", "OPTIONS": "--clause causal.*\n--strict"}
    ended, told, printed = step("Judge", tmp_path, **given)
    folder = told["folder"]
    assert (ended, told["exit-code"]) == (code, str(code))
    assert printed.split() == [
        "-m", "attnspec", "check", "fault/*", "mine:f", "--effort", "quick", "--clause", "causal.*", "--strict",
        "--baseline", "known.yaml", "--record", f"{folder}/record.jsonl", "--html", f"{folder}/page.html", "--junit",
        f"{folder}/junit.xml", "--badge", f"{folder}/badge.json"]
    assert (tmp_path / folder / "known.yaml").is_file()


def test_names_of_artifacts_never_collide(tmp_path: Path) -> None:
    python = python_that_tells(tmp_path)
    names = [step("Judge", tmp_path, **GIVEN, PYTHON=python, TARGETS="mine:f")[1]["artifact"] for _ in range(3)]
    names.append(step("Judge", tmp_path, **{**GIVEN, "JOB_INDEX": "1"}, PYTHON=python, TARGETS="mine:f")[1]["artifact"])
    assert len(set(names)) == 4
    assert re.fullmatch(r"attention-conformance-0-\w{6}", names[0])
    assert names[3].startswith("attention-conformance-1-")


def test_no_artifact_is_kept_where_none_is_wanted(tmp_path: Path) -> None:
    given = {**GIVEN, "ARTIFACT": "", "PYTHON": python_that_tells(tmp_path), "TARGETS": "mine:f"}
    assert step("Judge", tmp_path, **given)[1]["artifact"] == ""
    assert STEPS["Keep"]["if"] == "always() && steps.judge.outputs.artifact != ''"


def test_the_action_judges_and_tells_github(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    given = {**GIVEN, "EFFORT": "glance", "PYTHON": sys.executable, "TARGETS": "mine.py:attend",
             "OPTIONS": "--clause attention.definition --dtype float32 -n 1", "GITHUB_ACTIONS": "true",
             "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    code, told, printed = step("Judge", tmp_path, **given)
    folder = tmp_path / told["folder"]
    assert code == 1, printed
    assert {each.name for each in folder.iterdir()} == {"record.jsonl", "page.html", "junit.xml", "badge.json"}
    assert json.loads((folder / "badge.json").read_text(encoding="utf-8"))["message"] == "does not conform"
    assert "mine.py:attend does not conform" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "\n::error file=mine.py,line=4,title=" in printed


def test_outputs_and_steps_speak_of_each_other(tmp_path: Path) -> None:
    told = step("Judge", tmp_path, **GIVEN, PYTHON=python_that_tells(tmp_path), TARGETS="mine:f")[1]
    assert {name: each["value"] for name, each in ACTION["outputs"].items()} == {
        name: f"${{{{ steps.judge.outputs.{name} }}}}" for name in told}
    assert set(STEPS["Keep"]["with"].values()) == {
        "${{ steps.judge.outputs.artifact }}", "${{ steps.judge.outputs.folder }}", "ignore"}


def test_each_input_reaches_the_shell() -> None:
    text = " ".join(str(value) for each in STEPS.values() for value in each.get("env", {}).values())
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])


def test_the_action_looks_as_hard_as_a_gate() -> None:
    assert ACTION["inputs"]["effort"]["default"] == inspect.signature(gate).parameters["effort"].default
