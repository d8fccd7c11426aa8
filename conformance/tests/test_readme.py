"""The README is short, its example is judged as it says, and its figures of power are those of the records."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import storages
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.record.events import SUITE, Conviction, RunFinished, SubjectPut
from attnspec.record.read import RunRecord, read_record, read_records
from evaluation.report.drawing import write_power_picture
from evaluation.report.power_view import markdown_table
from helpers.places import CHECKOUT
from helpers.records import run_started
from paired_commands import read_functions
from resumed_record import read_lines

POWER, PICTURE = CHECKOUT / "reports" / "power", CHECKOUT / "docs" / "images" / "power.svg"
RECORD, AT_SIZES, TODAY = (POWER / f"{name}.jsonl" for name in ("rules", "rules_sizes", "quick"))
"""The suite beside the rules of others, these on faults of sizes, and the suite alone as CI measures it."""
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
SOURCE, MENDED = read_functions(README)
DEFINITION = "attention.definition"
TABLE = re.compile(r"^\| detected by \|.*\n(?:\|.*\n)+", re.MULTILINE)


def tables(text: str) -> list[str]:
    """The tables of rules in a text in Markdown."""
    return TABLE.findall(text)


def made_up() -> RunRecord:
    put = SubjectPut("fault/a", DType.FLOAT32, 0, True, "scale", "", (Conviction(SUITE, convicted=True, cases=1),))
    return RunRecord(run_started(), (), (), RunFinished("", 1.0, {}, 0), puts=(put,))


def verdict_on(source: str, path: Path) -> tuple[Verdict, list[str]]:
    """What the definition says of the README's function, and the likely causes."""
    path.write_text(source, encoding="utf-8")
    target = f"{path}:attend"
    engine = Engine(Plan((target,), clauses=(DEFINITION,), dtypes=(DType.FLOAT32,), effort=Effort.QUICK))
    outcome = engine.try_item(Item(target, DEFINITION, "float32"))
    return outcome.verdict, [like.fault for like in outcome.evidence.like] if outcome.evidence else []


def test_the_readme_has_at_most_1200_words() -> None:
    assert len(README.split()) <= 1200


def test_the_readme_s_function_has_the_bug_that_is_printed(tmp_path: Path) -> None:
    verdict, like = verdict_on(SOURCE, tmp_path / "mine.py")
    assert (verdict, like) == (Verdict.VIOLATED, re.findall(r"^  like: (\w+) ", README, re.MULTILINE))


def test_the_readme_s_function_conforms_with_the_line_that_mends_it(tmp_path: Path) -> None:
    assert [was != now for was, now in zip(SOURCE.splitlines(), MENDED.splitlines(), strict=True)].count(True) == 1
    assert verdict_on(MENDED, tmp_path / "mended.py") == (Verdict.HELD, [])


@pytest.mark.parametrize(("page", "records"), [("README.md", [TODAY]), ("docs/power.md", [RECORD, AT_SIZES])])
def test_the_tables_of_rules_are_those_of_the_records(page: str, records: list[Path]) -> None:
    given = [markdown_table(read_record(record)) for record in records if record.exists()]
    assert tables((CHECKOUT / page).read_text(encoding="utf-8")) == given, (
        f"python -m evaluation report reports/power/NAME.jsonl --table prints the tables that belong into {page}")


@pytest.mark.parametrize("group", ["gradients", "serving"])
def test_the_table_of_a_group_of_rules_is_that_of_its_record(group: str) -> None:
    page = CHECKOUT / "docs" / f"{group}.md"
    assert tables(page.read_text(encoding="utf-8")) == [markdown_table(*read_records(POWER / f"{group}.jsonl"))], (
        f"python -m evaluation report reports/power/{group}.jsonl --table prints the one that belongs into {page.name}")


def test_the_figures_of_codes_are_those_of_their_records() -> None:
    page = (CHECKOUT / "docs" / "quantised.md").read_text(encoding="utf-8")
    [alone] = read_records(POWER / "quantised.jsonl")
    found = sum(said.convicted for put in alone.puts for said in put.convictions)
    assert f"Of {len(alone.puts)} faults, {found} are found" in page
    beside = [put for part in (1, 2) for record in read_records(POWER / f"quantised_rules_{part}_of_2.jsonl")
              for put in record.puts if put.convictions]
    counts = Counter(said.rule for put in beside for said in put.convictions if said.convicted)
    rows = re.findall(r"^\| (?:\*\*|\[)[^|]+ \| (\d+) \| ([\d.]+) % \| [\d, ]+\|$", page, re.MULTILINE)
    assert sorted(rows) == sorted((str(count), f"{100 * count / len(beside):.1f}") for count in counts.values())


def test_the_table_of_storages_is_that_of_its_record() -> None:
    page = (CHECKOUT / "docs" / "quantised.md").read_text(encoding="utf-8")
    assert "\n".join(storages.table(read_lines(POWER / "storages.jsonl"))) in page


@pytest.mark.parametrize(("group", "count"), [("gradients", 16), ("serving", 9)])
def test_the_suite_accuses_nothing_sound_of_a_group(group: str, count: int) -> None:
    [suite] = read_records(POWER / f"{group}_sound.jsonl")
    assert [said.convicted for put in suite.puts for said in put.convictions] == [False] * count


def test_the_picture_is_drawn_from_the_record(tmp_path: Path) -> None:
    assert PICTURE.exists() == RECORD.exists()
    if RECORD.exists():
        write_power_picture(read_record(RECORD), tmp_path / "power.svg")
        assert (tmp_path / "power.svg").read_bytes() == PICTURE.read_bytes(), (
            f"python -m evaluation report {RECORD.relative_to(CHECKOUT)} --picture {PICTURE.relative_to(CHECKOUT)} "
            "draws it anew")


def test_a_table_is_found_whole_wherever_it_stands() -> None:
    table = markdown_table(made_up())
    assert tables(f"text\n\n{table}\n| command | does |\n|---|---|\n") == [table]
    assert tables(f"text\n\n{table.replace('100 %', '99 %')}\n") != [table]
    assert tables("| command | does |\n|---|---|\n") == []
