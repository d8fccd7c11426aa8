"""`attnspec init path/to/file.py:name`: the adapter imports what lies in a file, wherever the file is."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from attnspec.core.errors import TargetError
from attnspec.scaffold.location import Location, locate
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


def test_a_file_outside_of_the_working_directory_is_found_from_the_adapter(here: Path, tmp_path_factory:
                                                                           pytest.TempPathFactory, cli: Cli) -> None:
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
    assert locate("models/blocks/layer.py:attend") == Location("models.blocks.layer:attend")


def test_a_file_of_a_folder_that_is_no_package_stands_beside_its_siblings(here: Path) -> None:
    write_package(here / "kernels")
    assert locate("kernels/layer.py:attend") == Location("layer:attend", str(here / "kernels"))


@pytest.mark.parametrize(("name", "says"), [
    ("none.py", r"none\.py: there is no such file"),
    ("my-layer.py", r"my-layer\.py: an adapter has to import it, and 'my-layer' is no name of a module\. Rename it"),
    ("random.py", r"random\.py: Python has a module 'random' itself")])
def test_a_file_that_no_adapter_could_import_is_told(here: Path, name: str, says: str) -> None:
    if name != "none.py":
        (here / name).touch()
    with pytest.raises(TargetError, match=says):
        locate(f"{name}:attend")
