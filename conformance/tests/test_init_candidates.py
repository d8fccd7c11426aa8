"""`attnspec init --candidates`: files of a kernel generator in the place of the reference that they are written for."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.errors import TargetError
from attnspec.record.read import read_record
from attnspec.scaffold.written_adapter import WrittenAdapter, candidates_for
from helpers.commands import Cli

pytestmark = pytest.mark.usefixtures("here")

REFERENCE = '''
import numpy as np


def Model(Q, K, V):
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1]).astype(Q.dtype)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ V
'''
RIGHT = REFERENCE.replace("Model", "ModelNew")
MEAN = "def Model(Q, K, V):\n    return Q[..., :1] * 0 + V.mean(2, keepdims=True)\n"


@pytest.fixture
def generated(here: Path) -> Path:
    """A reference, and a folder of candidates: one is right, one never reads query and key."""
    (here / "reference.py").write_text(REFERENCE, encoding="utf-8")
    folder = here / "generated"
    folder.mkdir()
    for name, text in {"0-right": RIGHT, "mean_of_v": MEAN, "_notes": "no Python"}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def test_each_file_of_a_folder_is_judged_as_the_reference_is_called(cli: Cli, generated: Path) -> None:
    code, out, _ = cli("init", "reference:Model", "--candidates", str(generated))
    assert code == 0
    assert out.endswith("wrote implementations/reference/model.py and implementations/reference/manifest.yaml\n"
                        "and 2 adapters beside it, of its candidates.\n"
                        "Next: attnspec rank 'reference/*' --implementations implementations\n")
    cli("rank", "reference/*", "--implementations", "implementations", "--clause", "attention.*", "--dtype", "float32",
        "--record", "ranked.jsonl")
    found = {rank.subject: rank.verdict.value for rank in read_record(Path("ranked.jsonl")).ranks}
    assert found == {"reference/model": "conforms", "reference/_0_right": "conforms",
                     "reference/mean_of_v": "violated"}


@pytest.mark.family(1)
@pytest.mark.parametrize(("text", "says"), [
    ("def attend(Q, K, V):\n    return V\n",
     "odd.py: has no 'ModelNew' or 'Model'. It has: attend."),
    ("def ModelNew(Q, K, V)\n", "odd.py:1: is no Python: expected ':'"),
    ("", "odd.py: there is no such file.")])
def test_a_file_that_is_no_candidate_is_told(cli: Cli, generated: Path, text: str, says: str) -> None:
    if text:
        (generated / "odd.py").write_text(text, encoding="utf-8")
    code, _, err = cli("init", "reference:Model", "--candidates", str(generated / "odd.py"))
    assert code == 2
    assert says in err
    assert not Path("implementations").exists()


def test_two_candidates_of_one_name_are_told(cli: Cli, generated: Path) -> None:
    (generated / "mean-of-v.py").write_text(MEAN, encoding="utf-8")
    _, _, err = cli("init", "reference:Model", "--candidates", str(generated))
    assert "mean_of_v.py and " in err
    assert "mean-of-v.py would both be 'mean_of_v'. Rename one of them." in err


@pytest.mark.parametrize(("written", "turned"), [
    ("from reference import attend as theirs\n", "from .a_candidate import attendNew as theirs\n"),
    ("import numpy\nfrom reference import Config, attend\n",
     "import numpy\nfrom reference import Config\nfrom .a_candidate import attendNew as attend\n")])
def test_only_the_reference_is_imported_from_the_candidate(tmp_path: Path, written: str, turned: str) -> None:
    (tmp_path / "a.py").write_text("def attendNew(query, key, value):\n    return value\n", encoding="utf-8")
    of_reference = WrittenAdapter("reference", "attend", written, "", "")
    [candidate] = candidates_for("reference:attend", of_reference, [tmp_path])
    assert candidate.written.adapter == turned


def test_an_adapter_that_does_not_import_the_reference_by_its_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def attendNew(query, key, value):\n    return value\n", encoding="utf-8")
    of_reference = WrittenAdapter("reference", "attend", "import reference\n", "", "")
    with pytest.raises(TargetError, match="no candidate can take the place of reference:attend: the adapter does not "
                                          "import it by that name"):
        list(candidates_for("reference:attend", of_reference, [tmp_path]))
