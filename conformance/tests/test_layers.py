"""What may import what: the contracts of .importlinter hold, and they can be broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import attnspec
import pytest
from helpers.places import CHECKOUT

PACKAGE = Path(attnspec.__file__).parent
LINT = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Hold the package in this folder to the contracts; import-linter looks in the working directory first."""
    contracts = str(CHECKOUT / ".importlinter")
    return subprocess.run([sys.executable, "-c", LINT, "--config", contracts, "--no-cache", "--no-logo", *options],
                          cwd=folder, capture_output=True, text=True, check=False)


def test_the_imports_of_the_package_keep_every_contract() -> None:
    done = lint(PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


VIOLATIONS = {
    "layers": ("attnspec/core/nouns.py", "import attnspec.spec.clause"),
    "installed": ("attnspec/cli/report.py", "def later():\n    import evaluation.report.page"),
    "evaluation": ("evaluation/report/curves.py", "import evaluation.power.against"),
    "keywords": ("attnspec/aspects/window/keyword.py", "import numpy"),
    "definition": ("attnspec/aspects/softcap/mathematics.py", "import attnspec.aspects.softcap.faults"),
    "circles": ("attnspec/numerics/precision.py", "import attnspec.numerics.expectation"),
    "report": ("attnspec/report/page.py", "import attnspec.spec.load"),
    "host": ("attnspec/host/calling.py", "import attnspec.core.nouns"),
    "light": ("attnspec/record/outcome.py", "def later():\n    import numpy"),
    "frameworks": ("attnspec/numerics/precision.py", "import torch"),
    "hypothesis": ("attnspec/questions/undeclared.py", "import hypothesis"),
}
"""By contract: a file, and the import in it that breaks the contract."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the packages."""
    folder = tmp_path_factory.mktemp("copy")
    leave_out = shutil.ignore_patterns("__pycache__", ".*", "_data")
    for name in ("attnspec", "evaluation"):
        shutil.copytree(PACKAGE.parent / name, folder / name, ignore=leave_out)
    return folder


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_a_forbidden_import_breaks_its_contract(copy: Path, contract: str) -> None:
    name, statement = VIOLATIONS[contract]
    path = copy / name
    lawful = path.read_text(encoding="utf-8")
    path.write_text(f"{lawful}\n{statement}\n", encoding="utf-8")
    try:
        done = lint(copy, "--contract", contract)
    finally:
        path.write_text(lawful, encoding="utf-8")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "0 kept, 1 broken" in done.stdout
    assert f".{path.stem} -> " in done.stdout


def test_a_new_package_must_be_given_its_place(copy: Path) -> None:
    stray = copy / "attnspec" / "stray.py"
    stray.touch()
    try:
        done = lint(copy, "--contract", "layers")
    finally:
        stray.unlink()
    assert done.returncode == 1
    assert "stray" in done.stdout


def test_every_contract_has_a_violation_here() -> None:
    text = (CHECKOUT / ".importlinter").read_text(encoding="utf-8")
    contracts = [line.rpartition(":")[2].rstrip("]") for line in text.splitlines() if line.startswith("[importlinter:")]
    assert contracts == list(VIOLATIONS)
