"""What is installed: a wheel in an environment of its own, an editable install, a checkout that is not installed."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import attnspec
import pytest
from attnspec.subjects.registry import registered_subjects
from helpers.places import CHECKOUT

DATA = ("spec", "implementations", "reports/page")
EXAMPLE = ("numpy/attention", "--clause", "attention.definition", "--dtype", "float32", "--effort", "quick", "-n", "1")
ORIGIN = "import attnspec, attnspec.core.paths as home; print(attnspec.__file__); print(home.folder('spec'))"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What the command prints, in an environment that says nothing of where Python finds packages."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=inherited | environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, CHECKOUT, cwd=folder)
    [built] = folder.glob("attnspec-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel in it.

    The dependencies need no download: the environment also looks where this one keeps its packages, after its own, and
    without the .pth files that would lead to an editable attnspec.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False, symlinks=True)
    binary = folder / "bin" / "python"
    own = Path(run(binary, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    run(sys.executable, "-m", "pip", "--python", binary, "install", "--no-deps", "--no-index", "--ignore-installed",
        wheel, cwd=folder)
    return binary


def test_the_wheel_carries_the_data_folders_whole(wheel: Path) -> None:
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", *DATA, cwd=CHECKOUT).splitlines()
    there = [name for name in tracked if (CHECKOUT / name).is_file()]
    carried = {name.removeprefix("attnspec/_data/") for name in zipfile.ZipFile(wheel).namelist() if "/_data/" in name}
    assert carried == set(there)
    assert len(carried) > 20


def test_the_wheel_puts_one_name_into_site_packages(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert names == {"attnspec", f"attnspec-{attnspec.__version__}.dist-info"}


def test_the_wheel_carries_nothing_that_a_run_leaves_behind(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    leftovers = [name for name in names if name.endswith(".pyc") or re.search(r"(^|/)\.|__pycache__/", name)]
    assert leftovers == []


def test_attnspec_and_its_spec_come_from_the_wheel(python: Path, tmp_path: Path) -> None:
    module, spec = run(python, "-c", ORIGIN, cwd=tmp_path).splitlines()
    environment = python.parents[1]
    assert Path(module).is_relative_to(environment)
    assert Path(spec).is_relative_to(environment)


def test_the_installed_command_lists_and_explains(python: Path, tmp_path: Path) -> None:
    command = python.parent / "attnspec"
    assert "numpy/attention" in run(command, "list", cwd=tmp_path)
    assert "no_lookahead" in run(command, "explain", "causal.no_lookahead", cwd=tmp_path)


def test_what_measures_attnspec_is_not_installed(python: Path, tmp_path: Path) -> None:
    command = [str(python.parent / "attnspec"), "power"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 2)
    assert done.stderr.endswith("In a checkout with an editable install: python -m evaluation power\n")
    assert run(python, "-c", "import importlib.util; print(importlib.util.find_spec('evaluation'))",
               cwd=tmp_path) == "None\n"


def test_the_installed_command_judges_and_leaves_a_record_and_a_page(python: Path, tmp_path: Path) -> None:
    command = python.parent / "attnspec"
    run(command, "check", *EXAMPLE, "--record", "run.jsonl", "--html", "page.html", cwd=tmp_path)
    assert '"held"' in (tmp_path / "run.jsonl").read_text(encoding="utf-8").casefold()
    assert "attention.definition" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_installed_command_judges_a_function_of_the_working_directory(python: Path, tmp_path: Path) -> None:
    attention = (CHECKOUT / "implementations/numpy/attention.py").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(attention, encoding="utf-8")
    command = python.parent / "attnspec"
    printed = run(command, "check", "mine.py:attention", *EXAMPLE[1:], "--no-record", cwd=tmp_path)
    assert "mine.py:attention" in printed


def test_a_checkout_needs_no_installation(tmp_path: Path) -> None:
    path = str(CHECKOUT / "conformance")
    module, spec = run(sys.executable, "-c", ORIGIN, cwd=tmp_path, PYTHONPATH=path).splitlines()
    assert Path(module).is_relative_to(CHECKOUT / "conformance")
    assert Path(spec) == CHECKOUT / "spec"


def test_an_editable_install_reads_the_folders_of_the_checkout(tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
        "--target", tmp_path / "site", "--editable", CHECKOUT, cwd=tmp_path)
    read = f"import site; site.addsitedir('site'); {ORIGIN}"
    module, spec = run(sys.executable, "-S", "-c", read, cwd=tmp_path).splitlines()
    assert Path(module).is_relative_to(CHECKOUT / "conformance")
    assert Path(spec) == CHECKOUT / "spec"


def test_every_library_is_judged_by_the_matrix_or_by_the_audit() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(CHECKOUT / "tox.ini", encoding="utf-8")
    matrix = {word.removesuffix("/*") for words in tox["matrix"].values() for word in words.split() if "/*" in word}
    audits = " ".join([*(value for name in tox.sections() if name.startswith(("testenv:audit", "testenv:tm"))
                         for value in tox[name].values()),
                       (CHECKOUT / "constraints-audit.txt").read_text(encoding="utf-8")])
    libraries = {each.library.folder: each.library for each in registered_subjects(()).values() if not each.cannot_run}
    missed = [name for name, library in libraries.items() if name not in matrix
              and f"--library {name}" not in audits and library.distribution.casefold() not in audits.casefold()]
    assert missed == []


def test_the_constraints_meet_every_requirement() -> None:
    from packaging.requirements import Requirement

    pinned = {name: version for file in ("constraints-audit.txt", "constraints.txt")
              for name, version in (line.split("==") for line in _lines(CHECKOUT / file))}
    known = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [*known["project"]["optional-dependencies"].values(), *known["dependency-groups"].values()]
    wanted = [Requirement(line) for group in [known["project"]["dependencies"], *groups] for line in group
              if not line.startswith("attnspec[")]
    names = {name.casefold().replace("_", "-"): version for name, version in pinned.items()}
    unmet = [str(one) for one in wanted if names.get(one.name.casefold().replace("_", "-"), "0") not in one.specifier]
    assert unmet == []


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8").splitlines()
    return [line for line in text if line and not line.startswith("#")]
