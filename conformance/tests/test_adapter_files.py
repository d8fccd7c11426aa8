"""The files of adapters: they run in processes that know nothing of attnspec, under the oldest Python and NumPy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers.places import CHECKOUT
from helpers.sources import JUDGES, imported_packages, newer

IMPLEMENTATIONS = CHECKOUT / "implementations"
ADAPTERS = {f"{path.parent.name}/{path.stem}": path for path in sorted(IMPLEMENTATIONS.glob("*/*.py"))}


@pytest.mark.parametrize("text", ["import numpy, attnspec.core", "from attnspec.adapters.torch import mha",
                                  "def attend(query, key, value):\n    import pytest"])
def test_an_import_of_the_judge_is_seen_wherever_it_stands(text: str) -> None:
    assert JUDGES & {*imported_packages(text)}


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_imports_nothing_of_the_judge(name: str) -> None:
    assert not JUDGES & {*imported_packages(ADAPTERS[name].read_text(encoding="utf-8"))}


NEWER: Mapping[str, str] = {
    "Window = tuple[int, int]": "tuple[..]",
    "from collections.abc import Mapping\nParams = Mapping[str, int]": "collections.abc.Mapping[..]",
    "Scale = float | None": "X | Y",
    "ALL = {} | {}": "dict union",
    "from functools import cache": "functools.cache",
    "NAME = 'w_query'.removeprefix('w_')": "str.removeprefix",
    "PAIRS = zip('ab', 'cd', strict=True)": "zip(strict)",
    "from dataclasses import dataclass\n@dataclass(slots=True)\nclass Node: ...": "dataclass(slots)",
}
"""A module, and what vermin calls it that is newer than Python 3.8 in it."""


@pytest.mark.parametrize(("text", "called"), NEWER.items(), ids=NEWER.values())
def test_what_python_3_8_cannot_run_is_seen(text: str, called: str) -> None:
    assert called in newer(f"from __future__ import annotations\n{text}\n")


@pytest.mark.parametrize("text", ["match 1:\n    case 1: ...", "with (open('a') as a, open('b') as b): ..."])
def test_what_python_3_8_cannot_parse_is_seen(text: str) -> None:
    with pytest.raises(SyntaxError):
        newer(text)


def test_an_annotation_that_nothing_evaluates_may_be_newer() -> None:
    text = "def attend(query: list[int], scale: float | None = None) -> dict[str, int]: ...\nheads: int | None\n"
    assert newer(f"from __future__ import annotations\n{text}") == ""
    assert "X | Y" in newer(text)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_runs_under_python_3_8(name: str) -> None:
    assert newer(ADAPTERS[name].read_text(encoding="utf-8")) == ""


def test_adapters_are_found_under_any_package_name(tmp_path: Path) -> None:
    """As a process without attnspec imports them: neither their siblings nor other libraries' lead back to it."""
    for library in ("numpy", "onnx"):
        shutil.copytree(IMPLEMENTATIONS / library, tmp_path / "anything" / library)
    program = ("import sys; from anything.numpy import attention, msa, paper; from anything.onnx import attention; "
               f"print({JUDGES} & set(sys.modules), attention.node_of.__module__)")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "set() anything.onnx.model\n", done.stderr
