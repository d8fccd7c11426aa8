"""`attnspec init path/to/file.py:name`: the adapter imports what lies in a file, wherever the file is."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from attnspec.core.errors import TargetError
from attnspec.scaffold.callee_process import TargetLocation, locate_target
from helpers.commands import Cli

ATTENTION = """
import numpy as np
from {root} import root

def attend(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / root(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value
"""
ROOT = "def root(number):\n    return number ** 0.5\n"


def write_package(folder: Path, *, is_package: bool = False) -> None:
    """A file of attention, beside one that it imports."""
    folder.mkdir(parents=True)
    (folder / "roots.py").write_text(ROOT, encoding="utf-8")
    (folder / "layer.py").write_text(ATTENTION.format(root=".roots" if is_package else "roots"), encoding="utf-8")
    if is_package:
        (folder / "__init__.py").touch()


def printed_command(out: str) -> list[str]:
    """The words of the command that `init` prints, after its own name."""
    line = next(line for line in out.splitlines() if line.startswith("Next: attnspec "))
    return shlex.split(line)[2:]


def test_a_file_in_a_folder_is_judged_by_the_printed_command(here: Path, cli: Cli, bare: Path) -> None:
    write_package(here / "kernels")
    code, out, err = cli("init", "kernels/layer.py:attend", "--python", str(bare))
    assert (code, err) == (0, "")
    code, out, _ = cli(*printed_command(out), "--clause", "attention.one_key", "--dtype", "float32", "--no-record")
    assert (code, out.splitlines()[-1]) == (0, "Conforms. (exit code 0)")


def test_a_file_outside_of_the_working_directory_is_found_from_the_adapter(
        here: Path, tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> None:
    folder = tmp_path_factory.mktemp("elsewhere") / "kernels"
    write_package(folder)
    assert cli("init", f"{folder / 'layer.py'}:attend")[0] == 0
    adapter = (here / "implementations/layer/attend.py").read_text(encoding="utf-8")
    assert 'sys.path.insert(0, str((Path(__file__).parent / "../../../' in adapter
    assert "from layer import attend as theirs  # noqa: E402" in adapter


@pytest.mark.usefixtures("here")
def test_a_file_is_a_module_of_its_package() -> None:
    write_package(Path("models/blocks"), is_package=True)
    Path("models/__init__.py").touch()
    assert locate_target("models/blocks/layer.py:attend") == TargetLocation("models.blocks.layer:attend")


def test_a_file_of_a_folder_that_is_no_package_stands_beside_its_siblings(here: Path) -> None:
    write_package(here / "kernels")
    assert locate_target("kernels/layer.py:attend") == TargetLocation("layer:attend", str(here / "kernels"))


@pytest.mark.usefixtures("here")
def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(TargetError, match=r"none\.py: there is no such file"):
        locate_target("none.py:attend")


@pytest.mark.parametrize(("name", "module"), [
    ("my-layer.py", "my_layer"), ("2d.py", "file_2d"), ("random.py", "random_file")])
def test_a_file_whose_name_is_no_modules_gets_a_name(here: Path, name: str, module: str) -> None:
    (here / name).touch()
    assert locate_target(f"{name}:attend") == TargetLocation(f"{module}:attend", str(here), str(here / name))


@pytest.mark.usefixtures("here")
def test_a_made_name_is_not_that_of_a_file_beside() -> None:
    Path("my-layer.py").touch()
    Path("my_layer.py").touch()
    assert locate_target("my-layer.py:attend").target == "my_layer_file:attend"


def test_a_file_that_no_import_finds_is_judged_by_the_printed_command(here: Path, cli: Cli) -> None:
    write_package(here / "kernels")
    (here / "kernels/layer.py").rename(here / "kernels/my-layer.py")
    code, out, err = cli("init", "kernels/my-layer.py:attend")
    assert (code, err) == (0, "")
    code, out, _ = cli(*printed_command(out), "--clause", "attention.one_key", "--dtype", "float32", "--no-record")
    assert (code, out.splitlines()[-1]) == (0, "Conforms. (exit code 0)")


@pytest.mark.usefixtures("here")
def test_a_file_that_no_import_finds_cannot_be_handed_to_another_machine(cli: Cli) -> None:
    Path("my-layer.py").write_text(ROOT, encoding="utf-8")
    code, _, err = cli("init", "my-layer.py:root", "--host", f"{sys.executable}")
    assert code != 0
    assert "no module can have the name of this file, and elsewhere it is imported by its name. Rename it" in err
