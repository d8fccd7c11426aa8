"""A run beside an earlier one: what is new, fixed, still failing or otherwise, and the history of a folder."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Level, Novelty, Verdict
from attnspec.record.events import ItemFinished
from attnspec.record.outcome import Change, Outcome
from attnspec.record.read import RunRecord
from attnspec.report.comparison import (
    TALLEST_BAR,
    RunComparison,
    compare_runs,
    comparison_text,
    has_moved,
    make_history,
)
from attnspec.report.page import render_page
from helpers.commands import Cli
from helpers.outcomes import SUBJECT, evidence, outcome, run
from helpers.records import write_record

HELD, VIOLATED, ERRORED = Verdict.HELD, Verdict.VIOLATED, Verdict.ERRORED
LATER = "2026-02-03T04:05:06+00:00"


def of(now: Outcome | None, before: Outcome | None) -> RunComparison:
    """Two runs that both have an item that holds, and this one."""
    base = outcome(HELD, "core.base")
    return compare_runs([run(base, *([now] if now else []))], [run(base, *([before] if before else []))])


def told(compared: RunComparison) -> list[tuple[str, str]]:
    return [(group.name, entry.says) for group in compared.groups for entry in group.entries]


@pytest.mark.parametrize(("now", "before", "status", "says", "code"), [
    (VIOLATED, HELD, "new", "violated now, held before", 1),
    (ERRORED, Verdict.NO_CLAIM, "new", "errored now, no claim before", 1),
    (VIOLATED, None, "new", "violated now, not asked before", 1),
    (Verdict.EXPECTED, HELD, "new", "known deviation now, held before", 1),
    (HELD, VIOLATED, "fixed", "held now, violated before", 0),
    (ERRORED, VIOLATED, "changed", "errored now, violated before", 0),
    (VIOLATED, VIOLATED, "still failing", "violated", 0),
    (Verdict.EXPECTED, VIOLATED, "still failing", "known deviation", 0),
    (Verdict.INAPPLICABLE, VIOLATED, "not judged now", "inapplicable now, violated before", 0),
    (None, VIOLATED, "not judged now", "not asked now, violated before", 0),
    (Verdict.NOT_RUN, VIOLATED, "not judged now", "not run now, violated before", 2),
])
def test_an_item_stands_to_what_it_was(
    now: Verdict | None, before: Verdict | None, status: str, says: str, code: int,
) -> None:
    compared = of(outcome(now) if now else None, outcome(before) if before else None)
    assert (told(compared), compared.exit_code) == ([(status, says)], code)


def test_what_holds_in_both_runs_is_not_told() -> None:
    compared = of(outcome(HELD), outcome(HELD))
    assert (told(compared), compared.headline, compared.notes, compared.exit_code) == ([], "no new failure", (), 0)


def test_a_new_failure_of_advice_gates_under_strict_alone() -> None:
    before, now = outcome(HELD, level=Level.SHOULD), outcome(VIOLATED, level=Level.SHOULD)
    lax, strict = (compare_runs([run(now, strict=each)], [run(before)]) for each in (False, True))
    assert (lax.exit_code, lax.headline) == (0, "no new failure, 1 new (advised)")
    assert (strict.exit_code, strict.headline) == (1, "1 new failure")


def test_a_known_failure_that_is_mended_is_fixed() -> None:
    change = Change(Novelty.MENDED, "holds now", HELD)
    assert told(of(replace(outcome(Verdict.UNEXPECTED), change=change), outcome(Verdict.EXPECTED))) == [
        ("fixed", "held now, known deviation before")]


@pytest.mark.parametrize(("margin", "was", "moved"), [
    (35.0, 33.0, False), (35.0, 32.9, True), (3.0, 35.0, True), (math.inf, math.inf, False),
    (math.nan, math.inf, False), (math.inf, 35.0, True), (35.0, math.nan, True),
])
def test_a_margin_moves_where_rounding_cannot_move_it(margin: float, was: float, moved: bool) -> None:
    assert has_moved(margin, was) is moved


def test_rounding_moves_no_margin_further_than_that() -> None:
    """One wrong formula, whose answer is off by any gap, rounded to either side of what it gives by one allowance."""
    allowance = 0.25
    for gap in (0.5, 3.0, 100.0):
        margins = [abs(gap + rounding) / allowance for rounding in (-allowance, 0.0, allowance)]
        assert not has_moved(max(margins), min(margins))


def test_a_changed_margin_is_told_with_both_numbers() -> None:
    compared = of(outcome(VIOLATED, seen=evidence(7e5)), outcome(VIOLATED, seen=evidence(35.0)))
    assert told(compared) == [("changed", "margin 7.00×10⁵ now, 35 before")]
    assert compared.headline == "no new failure, 1 changed"


def test_margins_of_different_cases_are_not_compared() -> None:
    compared = of(outcome(VIOLATED, seen=evidence(7e5, "B1;T9")), outcome(VIOLATED, seen=evidence(35.0)))
    assert told(compared) == [("still failing", "violated")]
    assert compared.notes == ("1 failure now shows on another case, so the margins are not compared.",)


def test_a_failure_of_another_relation_has_changed() -> None:
    now = outcome(VIOLATED, seen=evidence(3.0, relation="rows_sum_to_one"))
    compared = of(now, outcome(VIOLATED, seen=evidence(3.0)))
    assert told(compared) == [("changed", "now: rows_sum_to_one; before: agree")]


def test_dtypes_that_fare_alike_are_one_entry() -> None:
    both = [[outcome(each, dtype=dtype) for dtype in (DType.FLOAT32, DType.FLOAT16)] for each in (VIOLATED, HELD)]
    [group] = compare_runs([run(*both[0])], [run(*both[1])]).groups
    assert [(group.items, entry.dtypes) for entry in group.entries] == [(2, "f32 f16")]


def test_what_was_lost_is_told() -> None:
    held = outcome(HELD, "core.lost")
    other = outcome(VIOLATED, subject="lib/other")
    compared = compare_runs([run(outcome(HELD))], [run(outcome(HELD), held, other)])
    assert compared.notes == ("1 item held before and has no verdict now.", "Only the old run judged lib/other.")
    assert (told(compared), compared.exit_code) == ([], 0)


def test_an_interrupted_run_cannot_say_that_nothing_is_new() -> None:
    compared = compare_runs([run(outcome(HELD), is_whole=False)], [run(outcome(HELD))])
    assert compared.notes == ("The new run was not judged to its end, so more may be new.",)
    assert compared.exit_code == 2


def test_runs_of_different_things_say_nothing() -> None:
    compared = compare_runs([run(outcome(HELD))], [run(outcome(HELD, "core.other"))])
    assert compared.notes[0] == "The two runs have no verdict on the same item."
    assert compared.exit_code == 2


def test_what_the_runs_were_made_with_is_compared() -> None:
    compared = compare_runs([run(outcome(HELD), version="1.3", seed=8)], [run(outcome(HELD))])
    assert [(each.name, each.old, each.new) for each in compared.differences] == [
        ("lib", "1.2", "1.3"), ("seed", "7", "8")]


def test_a_subject_in_several_environments_is_not_compared() -> None:
    runs = [replace(each, header=replace(each.header, environment={"python": python}))
            for python, each in zip("ab", [run(outcome(HELD))] * 2, strict=True)]
    with pytest.raises(UsageError, match=r"the old record has lib/attend in several environments"):
        compare_runs([run(outcome(HELD))], runs)


def test_the_comparison_as_markdown() -> None:
    text = comparison_text(compare_runs([run(outcome(VIOLATED), version="1|3")], [run(outcome(HELD))]))
    assert text.startswith("## Against the earlier run: 1 new failure\n\n| the runs differ in |")
    assert r"| lib | 1.2 | 1\|3 |" in text
    assert "### New: 1 item" in text
    assert "| `lib/attend` | `core.agrees` | must | f32 | violated now, held before |" in text
    assert text.endswith("A margin has changed if it moved by more than 2, because rounding alone can move it by that "
                         "much.\n")


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.partition('<main id="main">')[2]))


def test_the_page_shows_the_comparison_and_links_to_what_it_has() -> None:
    new = run(outcome(VIOLATED))
    page = render_page([new], compared=compare_runs([new], [run(outcome(HELD), outcome(VIOLATED, "core.gone"))]))
    section = page.partition('<section id="against">')[2].partition("</section>")[0]
    assert "New: 1 item" in section
    assert 'href="#clause-core.agrees"' in section
    assert 'href="#clause-core.gone"' not in section
    assert "core.gone" in section
    assert 'href="#against"' not in render_page([new])


def test_the_history_goes_from_the_oldest_run_to_the_newest() -> None:
    runs = [run(outcome(HELD), outcome(VIOLATED, "core.gone"), started="2026-01-02T00:00:00+00:00"),
            run(outcome(VIOLATED), outcome(VIOLATED, "core.gone"), started="2026-01-01T00:00:00+00:00")]
    new = run(outcome(VIOLATED), started=LATER)
    drawn = make_history([[each] for each in (*runs, new)], [new])
    assert [(each.number, each.violated, each.height) for each in drawn.runs] == [
        (1, 2, TALLEST_BAR), (2, 1, TALLEST_BAR / 2), (3, 1, TALLEST_BAR / 2)]
    assert [(row.clause.id, [cell.sign.sign if cell.sign else "" for cell in row.cells]) for row in drawn.rows] == [
        ("core.agrees", ["✗", "✓", "✗"]), ("core.gone", ["✗", "✗", ""])]


def test_runs_of_one_second_are_two_and_one_given_twice_is_one() -> None:
    new = run(outcome(VIOLATED))
    assert [each.violated for each in make_history([[run(outcome(HELD))], [new]], [new]).runs] == [0, 1]


def test_the_history_leaves_out_runs_of_others() -> None:
    new = run(outcome(VIOLATED), started=LATER)
    assert len(make_history([[run(outcome(VIOLATED, subject="lib/other"))]], [new]).runs) == 1


def test_the_page_draws_the_history() -> None:
    new = run(outcome(VIOLATED), started=LATER)
    page = render_page([new], past=make_history([[run(outcome(HELD))], [new]], [new]))
    assert 'aria-label="violated clauses by run: 0, 1"' in page
    assert "run 2, 2026-02-03 04:05 UTC: 1 clause violated" in page
    assert "lib/ attend core. agrees ✓ ✗" in plain(page)


def written(path: Path, record: RunRecord) -> str:
    """Writes a record as a run does."""
    ends = [record.footer] if record.footer else []
    return str(write_record(path, record.header, *record.subjects, *map(ItemFinished, record.outcomes), *ends))


def test_the_command_tells_what_is_new_and_ends_with_one(cli: Cli, here: Path) -> None:
    new = written(here / "new.jsonl", run(outcome(VIOLATED), started=LATER))
    old = written(here / "runs" / "old.jsonl", run(outcome(HELD), seed=3))
    code, out, _ = cli("report", new, "--against", old, "--history", "runs", "--markdown", "new.md", "--badge",
                       "badge.json")
    assert code == 1
    assert out == (f"page: {here}/new.html\nmarkdown: new.md\nbadge: badge.json\n"
                   f"Against {old}: 1 new failure.\n  The runs differ in seed (3 → 7).\n"
                   f"  new: {SUBJECT} core.agrees (f32) violated now, held before\n1 new failure. (exit code 1)\n")
    assert "### New: 1 item" in (here / "new.md").read_text(encoding="utf-8")
    page = (here / "new.html").read_text(encoding="utf-8")
    assert 'id="against"' in page
    assert 'id="history"' in page


@pytest.mark.parametrize(("record", "code", "last"), [
    (run(outcome(HELD)), 0, "No new failure. (exit code 0)"),
    (run(outcome(HELD), is_whole=False), 2, "It is not known whether anything is new. (exit code 2)"),
])
def test_the_command_says_when_nothing_is_new(
    record: RunRecord, code: int, last: str, cli: Cli, here: Path,
) -> None:
    new = written(here / "new.jsonl", record)
    old = written(here / "old.jsonl", run(outcome(VIOLATED, "core.b"), outcome(HELD)))
    ended, out, _ = cli("report", new, "--against", old)
    assert (ended, out.splitlines()[-1]) == (code, last)


def test_more_entries_than_fit_are_counted(cli: Cli, here: Path) -> None:
    many = run(*(outcome(VIOLATED, f"core.c{number:02}") for number in range(23)))
    new, old = written(here / "new.jsonl", many), written(here / "old.jsonl", run(outcome(HELD)))
    assert "  new: and 3 more, on the page\n" in cli("report", new, "--against", old)[1]
    assert "  still failing: and 20 more, on the page\n" in cli("report", new, "--against", new)[1]


def test_records_without_verdicts_are_refused(cli: Cli, here: Path) -> None:
    new, empty = written(here / "new.jsonl", run(outcome(HELD))), written(here / "old.jsonl", run())
    for words in ((new, "--against", empty), (empty, "--against", new), (empty, "--history", str(here))):
        code, _, err = cli("report", *words)
        assert code == 2
        assert "there are no verdicts to compare: `attnspec check` and `attnspec audit` write records" in err


def test_a_history_without_records_is_told(cli: Cli, here: Path) -> None:
    (here / "empty").mkdir()
    new = written(here / "new.jsonl", run(outcome(HELD)))
    code, _, err = cli("report", new, "--history", "empty")
    assert (code, err) == (2, "attnspec: empty: there is no record (*.jsonl, *.jsonl.gz, *.jsonl.xz) in this folder. "
                              "Keep one of each run there: attnspec check … --record FOLDER/NAME.jsonl\n")


def test_a_history_passes_over_a_record_without_a_line(cli: Cli, here: Path) -> None:
    new = written(here / "new.jsonl", run(outcome(HELD)))
    (here / "killed.jsonl").touch()
    code, _, err = cli("report", new, "--history", str(here))
    assert (code, err) == (0, "")


def test_a_record_that_is_compared_is_not_written_over(cli: Cli, here: Path) -> None:
    new, old = (written(here / name, run(outcome(HELD))) for name in ("new.jsonl", "old.jsonl"))
    code, _, err = cli("report", new, "--against", old, "--html", old)
    assert code == 2
    assert "would write over" in err
