"""What docs/what-is-protected.md says no test can tell from right, shown; and what helps against it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.behaviours import CALL, SOUND

IS_WATCHED = '''
def is_watched():
    number = os.getpid()
    while number > 1:
        with open(f"/proc/{number}/cmdline") as words, open(f"/proc/{number}/stat") as told:
            if "attnspec" in words.read():
                return True
            number = int(told.read().rpartition(")")[2].split()[1])
    return False
'''
KNOWN = '''
import hashlib
KNOWN = os.path.join(os.path.dirname(__file__), "known")

def digest(*arrays):
    return hashlib.sha256(b"".join(each.tobytes() for each in arrays)).hexdigest() + "\\n"
'''
NOTHING = "np.zeros((*query.shape[:3], value.shape[-1]), query.dtype)"
CONTAINER = f"unshare --user --map-root-user --pid --fork --kill-child --mount-proc {shlex.quote(sys.executable)}"


def code(target: Path, *words: str) -> int:
    """The exit code of a run over a few clauses."""
    clauses = ["--clause", "attention.definition", "--clause", "attention.permuting_keys", "--effort", "glance"]
    command = [sys.executable, "-m", "attnspec", "check", f"{target}:attend", *clauses, "--dtype", "float32", "-n", "1"]
    ended = subprocess.run([*command, "--no-record", *words], cwd=target.parent, check=False, capture_output=True)
    return ended.returncode


@pytest.mark.nightly
def test_who_sees_the_judge_among_its_ancestors_is_caught_in_a_container(tmp_path: Path) -> None:
    if not Path("/proc/self/stat").exists() or not shutil.which("unshare") or subprocess.run(
            [*shlex.split(CONTAINER)[:-1], "true"], check=False, capture_output=True).returncode:
        pytest.skip("no process namespace can be had here")
    cheat = tmp_path / "cheat.py"
    cheat.write_text(f"{SOUND}{IS_WATCHED}{CALL}    return sound(query, key, value) if is_watched() else {NOTHING}\n")
    assert code(cheat) == 0
    assert code(cheat, "--host", CONTAINER) == 1


@pytest.mark.nightly
def test_who_knows_the_cases_of_one_seed_is_caught_by_another(tmp_path: Path) -> None:
    learner, cheat = tmp_path / "learner.py", tmp_path / "cheat.py"
    learner.write_text(f"{SOUND}{KNOWN}{CALL}    with open(KNOWN, 'a') as file:\n        "
                       "file.write(digest(query, key, value))\n    return sound(query, key, value)\n")
    cheat.write_text(f"{SOUND}{KNOWN}ANSWERED = set(open(KNOWN))\n{CALL}    is_known = digest(query, key, value) in "
                     f"ANSWERED\n    return sound(query, key, value) if is_known else {NOTHING}\n")
    assert code(learner) == 0
    assert code(cheat) == 0
    assert code(cheat, "--seed", "1") == 1
