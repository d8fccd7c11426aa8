"""Nothing of a run is lost or mistaken: closed pipes, full disks, one name for two files, folders that are gone."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest
from attnspec.cli import main, outputs
from attnspec.cli.options import keep_apart
from attnspec.core import paths
from attnspec.core.errors import UsageError
from attnspec.core.paths import write_whole
from attnspec.record.events import ItemStarted
from attnspec.record.read import read_record
from attnspec.record.write import RecordWriter, WriteMode, reopen_record
from helpers.commands import Cli
from helpers.records import run_started, write_record

ALL = ("check", "mine.py:attend", "--dtype", "float32", "--effort", "glance", "-n", "1")
CHECK = (*ALL, "--clause", "attention.shape")
ATTENTION = """
import numpy as np

def attend(query, key, value):
    return np.zeros((*query.shape[:-1], value.shape[-1]), query.dtype)
"""


def command(
    *words: str, stdout: int | IO[str] = subprocess.DEVNULL, stderr: int = subprocess.PIPE,
    preexec_fn: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a shell starts it."""
    return subprocess.run([sys.executable, "-m", "attnspec", *words], text=True, check=False, stdout=stdout,
                          stderr=stderr, preexec_fn=preexec_fn)


@pytest.fixture
def mine(here: Path) -> Path:
    """A folder with an attention that keeps to its shape and to little else."""
    (here / "mine.py").write_text(ATTENTION, encoding="utf-8")
    return here


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.family(1)
@pytest.mark.parametrize("words", ["list", "--help", "explain causal.no_lookahead", "schema"])
def test_what_nobody_reads_is_exit_code_2_in_silence(unread: int, words: str) -> None:
    done = command(*words.split(), stdout=unread)
    assert (done.returncode, done.stderr) == (2, "")


def test_a_report_that_nobody_reads_is_exit_code_2(unread: int, here: Path) -> None:
    write_record(here / "run.jsonl", run_started())
    assert command("report", "run.jsonl", stdout=unread).returncode == 2
    assert Path("run.html").is_file()


@pytest.mark.family(1)
@pytest.mark.parametrize("stderr", ["open", "closed"])
def test_a_run_that_nobody_listens_to_finishes_its_record(unread: int, mine: Path, stderr: str) -> None:
    other = unread if stderr == "closed" else subprocess.PIPE
    done = command(*CHECK, "--record", "run.jsonl", "--html", "page.html", stdout=unread, stderr=other)
    record = read_record(mine / "run.jsonl")
    assert done.returncode == 2
    assert record.footer is not None
    assert (record.is_interrupted, record.footer.exit_code) == (False, 0)
    assert "attention.shape" in Path("page.html").read_text(encoding="utf-8")
    assert done.stderr in (None,
                           "attnspec: standard output was closed before the verdict was printed. The record has it. "
                                 "(exit code 2)\n")


@pytest.mark.nightly
def test_json_that_nobody_reads_costs_no_record(unread: int, mine: Path) -> None:
    done = command(*CHECK, "--json", "--record", "run.jsonl", stdout=unread)
    assert done.returncode == 2
    assert not read_record(mine / "run.jsonl").is_interrupted


@pytest.mark.parametrize("words", [("list",), pytest.param(CHECK, marks=pytest.mark.nightly)])
def test_a_full_disk_under_standard_output_is_told(mine: Path, words: tuple[str, ...]) -> None:  # noqa: ARG001
    with Path("/dev/full").open("w") as full:
        done = command(*words, stdout=full)
    assert done.returncode == 2
    assert done.stderr == "attnspec: standard output cannot be written: No space left on device. (exit code 2)\n"


def test_a_mistake_that_nobody_reads_is_exit_code_2(unread: int) -> None:
    assert command("chek", stdout=unread, stderr=unread).returncode == 2


@pytest.mark.nightly
def test_a_stream_that_was_closed_before_is_no_error(mine: Path) -> None:  # noqa: ARG001
    for words, closed in ((("list",), ">&-"), (("list",), "<&- 2>&- >/dev/null"), (CHECK, "<&- >&- 2>&-")):
        line = f"{shlex.quote(sys.executable)} -m attnspec {' '.join(words)} {closed}"
        assert subprocess.run(["bash", "-c", line], check=False).returncode == 0, closed
    [record] = Path("reports/run").iterdir()
    assert json.loads(record.read_text(encoding="utf-8").splitlines()[-1])["exit_code"] == 0


ONE_FILE = [
    (CHECK, "--record", "--html"), (CHECK, "--record", "--junit"), (CHECK, "--html", "--junit"),
    (CHECK, "--record", "--baseline"), (CHECK, "--html", "--baseline"), (("audit",), "--record", "--junit"),
    (("probe", "mine.py:attend"), "--record", "--html"),
    (("report", "run.jsonl"), "--html", "--markdown"),
    (("report", "run.jsonl"), "--html", "--junit"),
    (("report", "run.jsonl"), "--html", "--baseline")]


@pytest.mark.parametrize(("words", "one", "other"), ONE_FILE, ids=[f"{words[0]} {a} {b}" for words, a, b in ONE_FILE])
def test_two_options_that_name_one_file_are_refused(
    cli: Cli, here: Path, words: tuple[str, ...], one: str, other: str,
) -> None:
    code, out, err = cli(*words, one, "same", other, "./same")
    assert (code, out) == (2, "")
    assert err.replace("./", "") == f"attnspec: {one} same and {other} same are one file. Name two.\n"
    assert list(here.iterdir()) == []


def test_other_spellings_and_links_are_seen_through(here: Path) -> None:
    (here / "file").touch()
    (here / "soft").symlink_to("file")
    os.link("file", "hard")
    (here / "dangling").symlink_to("new")
    (here / "folder").symlink_to(".")
    for one, other in (("file", "./file"), ("file", str(here / "file")), ("file", "soft"), ("file", "hard"),
                       ("new", "dangling"), ("new", "folder/new"), ("new", "folder/./folder/new")):
        with pytest.raises(UsageError, match=f"--record {one} and --html .* are one file. Name two"):
            keep_apart({"--record": one, "--html": other})


@pytest.mark.parametrize(("option", "what", "own"), [
    ("--record", "a record", '{"event": "run_started"}\n'), ("--html", "a page", "<!doctype html>"),
    ("--junit", "a JUnit file", "<?xml version='1.0'?>"), ("--badge", "a badge", "{}")])
def test_a_file_of_the_users_own_is_not_written_over(here: Path, option: str, what: str, own: str) -> None:
    path = here / "mine.py"
    path.write_text(ATTENTION, encoding="utf-8")
    refusal = f"{option} .*mine.py would write over a file that is not {what}. Name another, or delete it."
    with pytest.raises(UsageError, match=refusal):
        keep_apart({option: path})
    for mine in (own, ""):
        path.write_text(mine, encoding="utf-8")
        keep_apart({option: path})


def test_different_files_and_devices_may_be_named() -> None:
    keep_apart({"--record": "one", "--html": "two", "--junit": None})
    keep_apart({"--html": os.devnull, "--junit": os.devnull}, [os.devnull])


@pytest.mark.parametrize("words", ["report run.jsonl --html run.jsonl", "report run.jsonl --junit ./run.jsonl",
                                   "combine run.jsonl -o new.jsonl --html run.jsonl",
                                   "combine run.jsonl -o run.jsonl",
                                   "combine run.jsonl -o new.jsonl --html new.jsonl"])
def test_what_is_read_is_not_written_over(cli: Cli, here: Path, words: str) -> None:
    before = write_record(here / "run.jsonl", run_started()).read_bytes()
    code, _, err = cli(*words.split())
    assert code == 2
    assert "which is read. Name another file." in err
    assert [(path.name, path.read_bytes()) for path in here.iterdir()] == [("run.jsonl", before)]


def test_runs_that_begin_at_one_moment_have_names_of_their_own() -> None:
    kept = {outputs.Outputs.from_options(record=None, no_record=False, html=None, as_json=False).record
            for _ in range(100)}
    assert len(kept) == 100


def test_a_name_that_is_taken_all_the_same_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_default_record", lambda: here / "run.jsonl")
    for _ in range(2):
        [first] = outputs.Outputs.from_options(record=None, no_record=False, html=None, as_json=False).kept_handlers
        if not (here / "run.jsonl").exists():
            first.start()
            first.handle(run_started())
            first.shutdown()
    with pytest.raises(UsageError, match=r"the record .*run\.jsonl cannot be written: File exists\."):
        first.start()


def test_of_many_that_open_one_new_record_at_once_one_has_it(here: Path) -> None:
    def is_opened(number: int) -> bool:
        writer = RecordWriter(here / "run.jsonl", WriteMode.NEW)
        try:
            writer.start()
        except UsageError:
            return False
        writer.handle(run_started(seed=number))
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(is_opened, range(64))) == 1
    read_record(here / "run.jsonl")


@pytest.mark.nightly
def test_commands_that_begin_at_one_moment_keep_a_record_each(mine: Path) -> None:
    words = [sys.executable, "-m", "attnspec", *CHECK]
    runs = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert [read_record(path).is_interrupted for path in (mine / "reports" / "run").iterdir()] == [False] * 3


def test_a_record_that_another_run_writes_is_left_alone(here: Path) -> None:
    path = here / "run.jsonl"
    first = RecordWriter(path)
    first.start()
    first.handle(run_started())
    for attempt in (RecordWriter(path).start, RecordWriter(path, WriteMode.GO_ON).start, lambda: reopen_record(path)):
        with pytest.raises(UsageError, match=r"another run writes to the record .*run\.jsonl\. Wait for its end"):
            attempt()
    first.shutdown()
    assert read_record(path).header == run_started()
    RecordWriter(path).start()


def limited() -> None:
    """From here on no file may grow beyond 450 kB, which is what a full disk looks like."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (450_000, 450_000))


@pytest.mark.nightly
def test_a_disk_that_fills_up_costs_a_run_what_did_not_fit(mine: Path) -> None:
    words = [*ALL, "--record", "run.jsonl", "--html", "/dev/full"]
    done = command(*words, stdout=subprocess.PIPE, preexec_fn=limited)
    record = read_record(mine / "run.jsonl")
    assert done.returncode == 2
    lines = len((mine / "run.jsonl").read_text(encoding="utf-8").split("\n")) - 1
    assert done.stderr.splitlines()[-2:] == [
        f"attnspec: the record run.jsonl ends early: File too large. Its {lines} lines can be read. (exit code 2)",
        "attnspec: the page /dev/full cannot be written: No space left on device."]
    assert record.is_interrupted
    assert 0 < record.finished_count < record.header.items
    assert "Does not conform" in done.stdout
    assert done.stdout.endswith("But not all of it could be written. (exit code 2)\n")
    assert main(["report", "run.jsonl"]) == 0


@pytest.mark.parametrize(("option", "what"), [("--html", "page"), ("--junit", "JUnit file"), ("--markdown", "audit")])
def test_a_page_on_a_full_disk_is_told(cli: Cli, here: Path, option: str, what: str) -> None:
    write_record(here / "run.jsonl", run_started())
    code, _, err = cli("report", "run.jsonl", option, "/dev/full")
    assert (code, err) == (2, f"attnspec: the {what} /dev/full cannot be written: No space left on device.\n")


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "known.yaml").write_text("before", encoding="utf-8")
    monkeypatch.setattr(Path, "write_bytes", lambda *_: fail())

    def fail() -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match=r"the baseline known\.yaml cannot be written: No space left on device"):
        write_whole(Path("known.yaml"), "after", "baseline")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in here.iterdir()] == [("known.yaml", "before")]


def test_a_link_stays_a_link_to_what_is_written(here: Path) -> None:
    (here / "link").symlink_to("file")
    write_whole(here / "link", "text", "page")
    assert (here / "link").is_symlink()
    assert [path.name for path in sorted(here.iterdir())] == ["file", "link"]


def test_a_file_in_a_folder_that_is_guarded_is_written_in_place(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "file").write_text("before", encoding="utf-8")
    number = (here / "file").stat().st_ino
    monkeypatch.setattr("attnspec.core.paths.os.access", lambda *_: False)
    write_whole(here / "file", "after", "page")
    assert ((here / "file").read_text(encoding="utf-8"), (here / "file").stat().st_ino) == ("after", number)


GUARDED = [("--record", "record"), ("--html", "page"), ("--junit", "JUnit file")]


@pytest.mark.parametrize(("option", "what"), GUARDED, ids=[row[1] for row in GUARDED])
def test_a_folder_that_cannot_be_written_is_told_before_the_run(cli: Cli, mine: Path, option: str, what: str) -> None:
    (mine / "file").touch()  # where a folder should be: root may write to what is guarded
    code, out, err = cli(*CHECK, option, "file/it")
    assert (code, out) == (2, "")
    assert err == f"attnspec: the {what} file/it cannot be written: File exists.\n"


def test_a_working_directory_that_was_deleted_is_told(here: Path) -> None:
    (here / "gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    done = command("list")
    assert done.returncode == 2
    assert done.stderr == ("attnspec: the working directory cannot be used: No such file or directory. Go to a folder "
                           "that exists.\n")


def test_paths_are_portable_where_the_working_directory_is_gone(here: Path) -> None:
    (here / "gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    assert paths.portable_text("in /some/file.py") == "in /some/file.py"
    assert paths.portable_argument("--html=/some/page.html") == "--html=page.html"


def test_a_line_that_was_cut_within_a_letter_costs_that_line(here: Path) -> None:
    path = write_record(here / "run.jsonl", run_started(), ItemStarted("ü", "c", "float32"))
    whole = path.read_bytes()
    path.write_bytes(whole[:whole.index("ü".encode()) + 1])
    assert read_record(path).is_interrupted


def test_another_system_is_told_in_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnspec.cli.SYSTEM", "nt")
    assert cli("list") == (2, "", "attnspec: this system is not supported. Use Linux, macOS or WSL.\n")
