"""What is installed is asked of the environment in which subjects live: this one, or the one that is audited."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attnspec.cli.digest import format_opening
from attnspec.core.plan import Plan
from attnspec.record.read import read_record
from attnspec.runner.session import describe_environment
from attnspec.subjects.installed import audited_environment, distribution_of, installed_version, is_installed, look_in
from attnspec.subjects.registry import process_of
from helpers.commands import Cli
from helpers.records import run_started


@pytest.fixture
def audited(bare: Path) -> Iterator[None]:
    """The questions go to that environment; afterwards to this one again."""
    look_in(Plan((), python=str(bare)).surroundings({}))
    yield
    look_in(Plan(()).surroundings({}))


@pytest.mark.usefixtures("audited")
def test_what_is_installed_is_asked_of_the_audited_environment() -> None:
    assert installed_version("numpy") == np.__version__
    assert is_installed("numpy.linalg")
    assert installed_version("hypothesis") == ""
    assert not is_installed("pytest")
    assert not is_installed("hypothesis.strategies")


def test_it_is_asked_of_this_one_again_once_nothing_is_audited(audited: None) -> None:  # noqa: ARG001  (what it sets)
    assert not installed_version("hypothesis")
    look_in(Plan(()).surroundings({}))
    assert installed_version("hypothesis") == importlib.metadata.version("hypothesis")


@pytest.mark.usefixtures("audited")
def test_the_record_tells_of_the_audited_environment_and_of_the_judge() -> None:
    told = describe_environment(1)
    own = f"{platform.python_implementation()} {platform.python_version()}"
    assert audited_environment(("numpy", "torch")) == {
        "python": own, "numpy": np.__version__, "machine": platform.machine()}
    assert told["judge"] == f"{own}, NumPy {np.__version__}"
    assert {"torch", "jax", "jaxlib", "ml_dtypes"} & set(told) == set()
    assert told["hypothesis"] == importlib.metadata.version("hypothesis")  # the judge draws by it


def test_console_and_page_tell_which_python_and_which_versions(cli: Cli, bare: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, out, _ = cli("check", "numpy/msa", "--python", str(bare), "--clause", "attention.shape", "--dtype", "float32",
                       "--effort", "glance", "-n", "1", "--no-record", "--html", str(page), "--device", "cpu")
    told = f"{platform.python_implementation()} {platform.python_version()} with numpy {np.__version__}"
    assert code == 0, out
    assert out.splitlines()[0].endswith(f"1 worker; subjects live in {told} on cpu")
    assert f"<dt>lived in</dt><dd>{told}</dd>" in page.read_text(encoding="utf-8")


def test_a_run_where_all_is_one_environment_says_nothing_of_another() -> None:
    assert run_started(environment=describe_environment(1)).elsewhere == ""
    assert format_opening(run_started(environment=describe_environment(1))).endswith("1 worker")


def test_a_header_claims_no_device_that_nobody_named() -> None:
    assert describe_environment(1)["device"] == "the framework's own"
    assert describe_environment(1, "cuda:1")["device"] == "cuda:1"


def test_a_record_names_no_judge_where_all_is_one_environment() -> None:
    look_in(Plan(()).surroundings({}))
    assert audited_environment(("numpy",)) == {}
    assert "judge" not in describe_environment(1)


def test_the_distribution_of_a_package_is_asked_there(bare: Path) -> None:
    assert distribution_of("pytest") == "pytest"
    look_in(Plan((), python=str(bare)).surroundings({}))
    assert distribution_of("pytest") == ""
    assert distribution_of("numpy") == "numpy"
    look_in(Plan(()).surroundings({}))


def test_what_makes_a_library_faster_is_asked_there(bare: Path) -> None:
    pytest.importorskip("jaxlib", "0.6")
    assert "XLA_FLAGS" in process_of("flax/linen_function")
    look_in(Plan((), python=str(bare)).surroundings({}))
    assert "XLA_FLAGS" not in process_of("flax/linen_function")
    look_in(Plan(()).surroundings({}))


def test_a_library_that_is_not_in_the_audited_environment_cannot_be_judged(cli: Cli, bare: Path) -> None:
    code, _, err = cli("check", "torch/sdpa", "--python", str(bare), "--no-record")
    assert code == 2
    assert err == "attnspec: torch/sdpa cannot be judged here: torch is not installed. Install it: pip install torch\n"


@pytest.mark.nightly
def test_an_audit_judges_what_is_in_the_audited_environment(cli: Cli, bare: Path, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    code, out, _ = cli("audit", "--python", str(bare), "--without", "numpy/msa", "--clause", "attention.shape",
                       "--dtype", "float32", "--effort", "glance", "-n", "1", "--record", str(path))
    record = read_record(path)
    assert code == 0, out
    assert {name.partition("/")[0] for name in record.header.planned} == {"numpy"}
    assert {known.card.lives_in["numpy"] for known in record.subjects} == {np.__version__}
    assert "torch" not in record.header.environment
