"""`attnspec confirm` runs the scripts of findings and says which are so, here and now."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.cli.manifests import confirm_findings
from attnspec.core.errors import TargetError
from attnspec.core.surroundings import Surroundings
from attnspec.subjects.findings import read_findings

SCRIPTS = {
    "is_so": "import sys\nprint('the sum is', 3)\nsys.exit(1)\n",
    "is_not": "print('the sum is', 2)\n",
    "elsewhere": "import no_such_library_anywhere\n",
    "breaks": "{}['weights']\n",
    "needs_backend": "import os, sys\nsys.exit(int(os.environ['BACKEND'] == 'mine'))\n",
}
MANIFEST = """
library: Mine
subjects:
  - {id: away, title: Away, function: adapter:attend, requires: no_such_library_anywhere}
  - {id: here, title: Here, function: adapter:attend, process: {BACKEND: mine}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    library = tmp_path / "mine"
    library.mkdir()
    (library / "adapter.py").write_text("attend = None\n", encoding="utf-8")
    (library / "manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    return tmp_path


def confirm(folder: Path, names: list[str], *options: str, subjects: str = "'*'") -> int:
    entries = []
    for name in names:
        (folder / "mine" / f"{name}.py").write_text(SCRIPTS[name], encoding="utf-8")
        entries.append(f"  - {{id: {name}, says: S., subjects: [{subjects}], clauses: ['*'], script: {name}.py, "
                       "documented: 'no'}\n")
    (folder / "mine" / "findings.yaml").write_text("findings:\n" + "".join(entries), encoding="utf-8")
    return main(["confirm", "mine", "--implementations", str(folder), *options])


def test_a_script_that_exits_with_1_confirms_its_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(folder, ["is_so"]) == 0
    assert capsys.readouterr().out == "confirmed  mine/is_so\n    the sum is 3\n1 confirmed\n"


def test_quiet_keeps_what_confirmed_scripts_print_to_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(folder, ["is_so", "is_not"], "-q", "-n", "2") == 1
    assert capsys.readouterr().out == ("confirmed  mine/is_so\nnot so here  mine/is_not\n    the sum is 2\n"
                                       "1 confirmed, 1 not so here\n")


def test_a_finding_of_another_device_cannot_be_confirmed_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(folder, ["is_so"], subjects="here], device: cuda, dtypes: [float32") == 2  # a field more
    assert capsys.readouterr().out == (
        "cannot run here  mine/is_so\n    it shows on cuda alone; name a device: attnspec confirm --device cuda\n"
        "1 cannot run here\n")


def test_a_finding_that_is_not_so_makes_the_exit_code_1(folder: Path) -> None:
    assert confirm(folder, ["is_so", "is_not"]) == 1


def test_a_library_that_is_not_installed_is_no_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(folder, ["is_so", "elsewhere"]) == 0
    shown = capsys.readouterr().out
    assert "cannot run here  mine/elsewhere\n    ModuleNotFoundError: No module named 'no_such_lib" in shown


def test_a_script_that_breaks_is_not_taken_for_a_confirmation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python exits with 1 when it raises, too."""
    assert confirm(folder, ["is_so", "breaks"]) == 2
    assert "broken  mine/breaks\n    KeyError: 'weights'" in capsys.readouterr().out


def test_a_script_runs_in_the_surroundings_of_a_subject_that_it_concerns(folder: Path) -> None:
    assert confirm(folder, ["needs_backend"]) == 0


def test_a_finding_of_subjects_that_are_not_here_is_not_tried(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(folder, ["is_so"], subjects="away") == 2
    assert "cannot run here  mine/is_so\n    no_such_library_anywhere is not installed" in capsys.readouterr().out


WHERE = "import os, sys\nprint(os.environ['BACKEND'], '__file__' in vars())\nsys.exit(int(sys.prefix == {!r}))\n"


@pytest.fixture
def is_there(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that confirms where it runs in that environment."""
    monkeypatch.setitem(SCRIPTS, "is_there", WHERE.format(str(bare.parents[1])))


@pytest.mark.usefixtures("is_there")
@pytest.mark.parametrize(("option", "told"), [("--python", "mine True"), ("--host", "mine False")])
def test_scripts_run_in_the_environment_that_is_asked_for(folder: Path, bare: Path, option: str, told: str,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    """With the variables of a subject; as text where no file of this machine is seen."""
    assert confirm(folder, ["is_there"], option, str(bare), subjects="here") == 0
    assert capsys.readouterr().out == f"confirmed  mine/is_there\n    {told}\n1 confirmed\n"


def test_scripts_at_the_same_time_ask_one_host_in_turn(folder: Path, bare: Path,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    """Each finding concerns all subjects, so each asks for forty modules."""
    away = "".join(f"  - {{id: away{n}, title: Away, function: adapter:attend, requires: no_such_library_{n}}}\n"
                   for n in range(40))
    (folder / "mine" / "manifest.yaml").write_text(f"library: Mine\nsubjects:\n{away}", encoding="utf-8")
    assert confirm(folder, list(SCRIPTS), "-n", "8", "--python", str(bare)) == 2
    assert capsys.readouterr().out.count("no_such_library_0 is not installed") == len(SCRIPTS)


def test_a_command_that_starts_nothing_ends_the_confirming(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(folder, ["is_so"], "--python", "/no/such/python") == 2
    assert "--python: '/no/such/python' cannot be started: No such file" in capsys.readouterr().err
    with pytest.raises(TargetError, match=r"the command '/no/such/python' cannot be started: No such file"):
        list(confirm_findings(read_findings(folder / "mine"), {}, there=Surroundings(("/no/such/python",))))


def test_nothing_that_could_run_is_no_answer(folder: Path) -> None:
    assert confirm(folder, ["elsewhere"]) == 2


def test_a_mistyped_library_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", "keras3"]) == 2
    assert "'keras3' is not a known library. Did you mean 'keras'?" in capsys.readouterr().err


KNOWN = "known:\n- {subject: mine/here, clause: a.b, dtype: float32, verdict: violated, finding: mine/is_so}\n"


@pytest.mark.parametrize(("known", "told"), [
    (KNOWN, "confirmed  mine/is_so\n1 confirmed\n"),
    ("known: []", "known.yaml: no entry of this list of known failures names a finding, so no script was run. Give an "
     "entry `finding: ID` where a finding explains it, or leave out --baseline to run them all.\n")])
def test_a_baseline_says_which_findings(
    folder: Path, capsys: pytest.CaptureFixture[str], known: str, told: str,
) -> None:
    baseline = folder / "known.yaml"
    baseline.write_text(known, encoding="utf-8")
    assert confirm(folder, ["is_so", "is_not"], "-q", "--baseline", str(baseline)) == 0
    assert capsys.readouterr().out.endswith(told)


def test_a_baseline_that_is_explained_by_what_is_not_so_is_red(folder: Path) -> None:
    baseline = folder / "known.yaml"
    baseline.write_text(KNOWN.replace("is_so", "is_not"), encoding="utf-8")
    assert confirm(folder, ["is_so", "is_not"], "-q", "--baseline", str(baseline)) == 1
