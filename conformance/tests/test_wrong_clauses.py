"""Own clauses that are wrong themselves: the finding says so, and names no bug of the function."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.commands import Cli

CLAUSES = """\
clauses:
  - id: mine.twice_the_scale
    level: must
    profile: scale
    says: Doubling the scale changes nothing.
    because: [{cite: notes, note: wrong on purpose}]
    given: {problem: attention}
    needs: [scale]
    runs: {plain: [], doubled: [{with_scale: {to: doubled}}]}
    then: [{agree: {runs: [plain, doubled], observe: output, within: rounding}}]
  - id: mine.first_rows
    level: must
    profile: core
    says: The first queries keep their rows.
    because: [{cite: notes, note: runs of two lengths}]
    given: {problem: attention, draw: {cut: any_query}}
    runs: {whole: [], part: [{keep_queries: {cut: cut}}]}
    then: [{agree: {runs: [whole, part], observe: output, within: rounding}}]
  - id: mine.many_keys
    level: must
    profile: core
    says: A hundred thousand keys are weighed as few.
    because: [{cite: notes, note: nobody draws so many}]
    given: {problem: attention, min_keys: 100000}
    then: [{agrees_with_definition: {observe: output}}]
  - id: mine.empty_rows
    level: must
    profile: core
    says: A query without keys follows the convention.
    because: [{cite: notes, note: these problems have none}]
    given: {problem: attention}
    then: [{hidden_rows_follow_convention: {}}]
sources:
  notes: {title: Notes, kind: notes}
"""


@pytest.fixture(autouse=True)
def own(here: Path) -> None:
    """The clauses, in the working directory."""
    (here / "own.yaml").write_text(CLAUSES, encoding="utf-8")


def checked(cli: Cli, clause: str) -> tuple[int, str]:
    code, out, _ = cli("check", "numpy/attention", "--spec-add", "own.yaml", "--clause", f"mine.{clause}", "--dtype",
                       "float32", "--effort", "quick", "-n", "1", "-v")
    return code, out


def test_a_clause_that_right_answers_violate_is_said_to_be_wrong(cli: Cli) -> None:
    code, out = checked(cli, "twice_the_scale")
    assert code == 1
    assert "Likely one bug: the clause is wrong: each answer in this case is right by the definition" in out
    assert "Mend it (own.yaml:2), or say under `given` where it holds" in out
    assert "like:" not in out


@pytest.mark.nightly
def test_runs_of_different_shapes_are_the_clauses_mistake(cli: Cli) -> None:
    code, out = checked(cli, "first_rows")
    assert code == 2
    assert "own.yaml:11: 'mine.first_rows' compares runs of different shapes: whole (" in out
    assert "the first rows of a longer run are compared by `agree_on_prefix`." in out
    assert "Traceback" not in out


@pytest.mark.family(1)
@pytest.mark.parametrize(("clause", "reason"), [
    ("many_keys", "no size that is drawn at this effort has what the clause asks for under `given`"),
    ("empty_rows", "what the clause is about did not come up, or rounding or overflow may change that")])
def test_a_clause_that_asks_nothing_says_what_is_missing(cli: Cli, clause: str, reason: str) -> None:
    assert reason in checked(cli, clause)[1]


def test_a_transform_of_another_kind_says_whose_it_is(cli: Cli) -> None:
    text = CLAUSES.replace("{keep_queries: {cut: cut}}", "{indivisible_heads: {}}")
    Path("own.yaml").write_text(text, encoding="utf-8")
    assert ("own.yaml:17: the transform 'indivisible_heads' is for layers' problems. Give the clause a problem of such "
            "a kind.") in cli("lint", "--spec-add", "own.yaml")[1]
