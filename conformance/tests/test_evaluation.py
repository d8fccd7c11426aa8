"""What measures attnspec itself is beside the package that users install, and says so where it was before."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from attnspec.cli.group import FURTHER_COMMANDS, LISTED_COMMANDS, MOVED_COMMANDS
from attnspec.core.nouns import DType
from attnspec.record.events import HISTOGRAM_BINS, BlockJudged, Event, SubjectPut
from evaluation.cli import COMMANDS
from helpers.commands import Cli
from helpers.records import run_started, write_record

PUT = SubjectPut("fault/late", DType.FLOAT32, 0, is_fault=True, stage="mask")
BLOCK = BlockJudged("sound/naive", DType.FLOAT32, 0, 9, 9, 0, 0, (0,) * HISTOGRAM_BINS)


def test_help_lists_ten_commands_and_names_the_others(cli: Cli) -> None:
    code, out, _ = cli("--help")
    assert code == 0
    table, _, further = out.partition("\nCommands:\n")[2].partition("\n\nFurther commands: ")
    assert [line.split()[0] for line in table.splitlines()] == list(LISTED_COMMANDS)
    assert len(LISTED_COMMANDS) <= 10
    assert further == f"{', '.join(FURTHER_COMMANDS)}.\n"


@pytest.mark.parametrize("name", FURTHER_COMMANDS)
def test_a_further_command_has_its_own_help(cli: Cli, name: str) -> None:
    code, out, _ = cli(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: attnspec {name} ")


@pytest.mark.parametrize("name", MOVED_COMMANDS)
def test_a_command_that_moved_says_where_it_is(cli: Cli, name: str) -> None:
    assert name in COMMANDS
    assert cli(name, "--record", "a b.jsonl") == (
        2, "", f"attnspec: `{name}` measures attnspec itself, and is no command of the installed package.\n"
               f"In a checkout with an editable install: python -m evaluation {name} --record 'a b.jsonl'\n")


def test_it_is_a_program_of_a_checkout(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "evaluation", "--help"], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": str(Path(__file__).parents[1])}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: python -m evaluation ")
    assert set(COMMANDS) == set(re.findall(r"^  (\w+)  ", done.stdout.partition("Commands:")[2], flags=re.MULTILINE))


@pytest.mark.parametrize("event", [PUT, BLOCK], ids=["power", "campaign"])
def test_the_installed_package_names_what_makes_a_page_of_a_measurement(
    cli: Cli, evaluation_cli: Cli, here: Path, event: Event,
) -> None:
    write_record(here / "run.jsonl", run_started(items=1), event)
    code, _, err = cli("report", "run.jsonl")
    assert (code, err.rpartition(": ")[2]) == (2, "python -m evaluation report run.jsonl\n")
    assert not (here / "run.html").exists()
    assert evaluation_cli("report", "run.jsonl")[0] == 0
    assert (here / "run.html").exists()


def test_records_of_measurements_are_joined_without_a_page(cli: Cli, here: Path) -> None:
    write_record(here / "run.jsonl", run_started(items=1), PUT)
    code, _, err = cli("combine", "run.jsonl", "-o", "all.jsonl", "--html", "page.html")
    assert code == 2
    assert err.endswith("Leave out --html; then, in a checkout: python -m evaluation report all.jsonl\n")
    assert [path.name for path in here.iterdir()] == ["run.jsonl"]
    assert cli("combine", "run.jsonl", "-o", "all.jsonl")[0] == 0


@pytest.mark.parametrize(("typed", "answer"), [
    ("powr", "Error: 'powr' is not a command. Did you mean 'power'?"),
    ("campaign --deadline nan", "Error: Invalid value for '--deadline': nan is not a number of seconds."),
    ("power --seeds nan", "Error: Invalid value for '--seeds': 'nan' is not a valid integer."),
    ("campaign --cases 0", "Error: Invalid value for '--cases': 0 is not in the range 1<=x<=1000000000."),
])
def test_a_mistyped_command_says_why(evaluation_cli: Cli, typed: str, answer: str) -> None:
    code, _, err = evaluation_cli(*typed.split())
    assert (code, err.splitlines()[-1]) == (2, answer)


@pytest.mark.parametrize(("words", "one", "other"), [
    ("power", "--record", "--html"), ("campaign", "--record", "--html"), ("report run.jsonl", "--html", "--picture"),
])
def test_two_options_that_name_one_file_are_refused(
    evaluation_cli: Cli, here: Path, words: str, one: str, other: str,
) -> None:
    code, _, err = evaluation_cli(*words.split(), one, "same", other, "./same")
    assert (code, err.replace("./", "")) == (2, f"attnspec: {one} same and {other} same are one file. Name two.\n")
    assert list(here.iterdir()) == []


def test_the_record_that_is_held_against_is_not_written_over(evaluation_cli: Cli, here: Path) -> None:
    before = write_record(here / "run.jsonl", run_started()).read_bytes()
    code, _, err = evaluation_cli("power", "--against", "run.jsonl", "--record", "run.jsonl")
    assert code == 2
    assert "which is read. Name another file." in err
    assert (here / "run.jsonl").read_bytes() == before
