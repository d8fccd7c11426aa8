"""What is recorded names no folder of the machine that it was recorded on."""

from __future__ import annotations

import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pytest
from attnspec.cli.options import typed_command
from attnspec.core import paths
from attnspec.core.nouns import DType
from attnspec.core.paths import portable_argument, portable_text
from attnspec.problems.problem import Array, Problem
from attnspec.subjects.subject import SubjectRaised
from helpers.subjects import subject_of


@pytest.mark.parametrize(("full", "shown"), [
    (f"{sysconfig.get_path('purelib')}/torch/nn.py", "torch/nn.py"),
    (f"{sysconfig.get_path('stdlib')}/inspect.py", "inspect.py"),
    (f"{paths.folder('implementations')}/numpy/naive.py", "implementations/numpy/naive.py"),
    (f"{Path.cwd()}/kernel.py", "kernel.py"),
    (f"{Path.home()}/work/kernel.py", "~/work/kernel.py"),
    (f"{tempfile.gettempdir()}/torchinductor/x.py", "torchinductor/x.py"),
    ("/usr/share/elsewhere.py", "/usr/share/elsewhere.py"),
])
def test_a_path_is_shown_from_the_folder_that_a_reader_knows(full: str, shown: str) -> None:
    assert portable_text(f'File "{full}", line 3') == f'File "{shown}", line 3'


@pytest.mark.parametrize(("argument", "shown"), [
    ("audit", "audit"), ("/data/runs/a.jsonl.gz", "a.jsonl.gz"), ("--record=/data/a.jsonl", "--record=a.jsonl"),
    (f"{Path.cwd()}/reports/a.jsonl", "reports/a.jsonl"), ("--seed=3", "--seed=3"), ("../a.jsonl", "../a.jsonl"),
    ("/home/me/kernel.py:attend", "kernel.py:attend"), ("/data/envs/torch214/bin/python", "…/torch214/bin/python"),
    ("--python=/bin/python3", "--python=…/bin/python3"),
])
def test_an_argument_of_the_command_keeps_no_folder(argument: str, shown: str) -> None:
    assert portable_argument(argument) == shown


def test_the_recorded_command_is_what_was_typed_without_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/attnspec", "check", "kernel:attend", "--html", "/data/page.html"])
    assert typed_command() == ("attnspec", "check", "kernel:attend", "--html", "page.html")


def test_what_a_subject_raises_is_kept_without_folders() -> None:
    def raising(query: Array, key: Array, value: Array) -> Array:  # noqa: ARG001  (a subject's signature)
        raise RuntimeError(f"no such file: {Path.cwd()}/weights.npz")

    one = np.ones((1, 1, 1, 1), np.float32)
    with pytest.raises(SubjectRaised) as caught:
        subject_of(raising).answer(Problem(DType.FLOAT32, one, one, one))
    assert caught.value.summary == "RuntimeError: no such file: weights.npz"
    assert str(Path(__file__)) not in caught.value.traceback
    assert 'File "conformance/tests/test_places.py"' in caught.value.traceback
