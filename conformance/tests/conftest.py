"""What every test starts from, and what tests of several files ask for."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import evaluation.cli
import numpy as np
import pytest
from attnspec.cli import main
from attnspec.core.surroundings import Surroundings
from attnspec.hosting import client
from attnspec.runner.session import Session
from attnspec.subjects.installed import audited_command, look_in
from attnspec.trials.evaluator import release_free_pages
from helpers.browser import chromium
from helpers.commands import Cli, capturing
from helpers.gradient_rules import little_work
from helpers.jobs_here import WORK_OF_WORKERS, work_here
from helpers.places import CHECKOUT, SMALL_SPEC, STUBS
from helpers.short_suite import leave_for_the_night

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


# Modules are compiled once and not by each of the hundreds of processes that tests start, also where the checkout is to
# stay free of compiled files
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(CHECKOUT / ".hypothesis" / "compiled")
    sys.dont_write_bytecode = False
# Hypothesis reads every module of a checkout for its constants: the processes that tests start, once and not each anew
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(CHECKOUT / ".hypothesis"))
os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_for_the_night(items)


def pytest_collection_finish() -> None:
    """What is collected stays: no garbage is looked for among ten thousand tests (as in a worker, runner/worker.py)."""
    gc.freeze()


@pytest.fixture(autouse=True)
def path_of_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target in a file makes its folder importable: in a run of the command for good, in a test for that test."""
    monkeypatch.setattr("sys.path", [*sys.path])


@pytest.fixture(autouse=True)
def environment_of_subjects() -> Iterator[None]:
    """What a command was told by --python or --host holds for that command."""
    yield
    if audited_command():
        look_in(Surroundings())


@pytest.fixture(autouse=True)
def not_on_github(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of tests tell GitHub nothing, also where the tests themselves run there."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True, scope="module")
def jobs_here() -> Iterator[None]:
    """Runs of the command start no workers: their jobs are carried out in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_work", work_here)
        yield


@pytest.fixture(autouse=True)
def own_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """But in a test of the workers themselves they do."""
    if request.node.get_closest_marker("workers"):
        monkeypatch.setattr(Session, "_work", WORK_OF_WORKERS)


@pytest.fixture(autouse=True, scope="module")
def memory_of_a_file() -> Iterator[None]:
    """What a file of tests has worked out and compiled is let go of after it: a worker runs dozens of files."""
    yield
    client.close_all()
    if own_subjects := sys.modules.get("attnspec.trials.own_subjects"):
        own_subjects.forget_archives()
    if jax := sys.modules.get("jax"):
        jax.clear_caches()
    release_free_pages()


@pytest.fixture(scope="module")
def small_archives() -> Iterator[None]:
    """What subjects share of problems and truths, in a quarter of the memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnspec.trials.own_subjects.MAX_BYTES", 2**26)
        yield


@pytest.fixture(scope="module")
def little_work_of_rules() -> Iterator[None]:
    """Rules on gradients deal little work."""
    with little_work():
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kernels(here: Path, request: pytest.FixtureRequest) -> Path:
    """The KERNELS of the test's file as a module of this name in the working directory."""
    (here / "kernels.py").write_text(request.module.KERNELS, encoding="utf-8")
    return here


@pytest.fixture
def spec(here: Path) -> Path:
    """A small sound spec that a test may spoil; it is `spec/` of the working directory."""
    return Path(shutil.copytree(SMALL_SPEC, here / "spec"))


@pytest.fixture
def cli(here: Path, capfd: pytest.CaptureFixture[str]) -> Cli:  # noqa: ARG001  (the folder)
    """The command in the folder `here`: exit code, standard output, standard error."""
    return capturing(main, capfd)


@pytest.fixture
def evaluation_cli(here: Path, capfd: pytest.CaptureFixture[str]) -> Cli:  # noqa: ARG001  (the folder)
    """The same of `python -m evaluation`."""
    return capturing(evaluation.cli.main, capfd)


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of courts and dockets that know no attention: a session can name them."""
    monkeypatch.syspath_prepend(str(STUBS))
    return STUBS


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds NumPy and nothing else."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=False, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    for part in Path(np.__file__).parents[1].glob("numpy*"):
        (site / part.name).symlink_to(part)
    return home / "bin" / "python"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Headless Chromium, for one file of tests."""
    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome
