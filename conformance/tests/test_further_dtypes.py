"""Further dtypes: of each clause whose verdict does not depend on the dtype a sample is tried, at a glance nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import SAMPLE, Item, Plan
from attnspec.engine.engine import Engine
from attnspec.faults.subject import own_subject
from attnspec.problems.choices import Menu, menu_of
from attnspec.problems.domain import domain
from attnspec.record.outcome import Outcome
from attnspec.trials.covering_cases import openings, sampled, spread
from attnspec.trials.judging import Tally
from attnspec.trials.trial import CASES, Trial
from helpers.commands import Cli

FUNCTION = '''
import numpy as np

def attend(query, key, value, *, causal=False):
    q, k, v = (x.astype(np.float32) for x in (query, key, value))
    logits = q @ np.swapaxes(k, -1, -2) / np.float32(np.sqrt(q.shape[-1]))
    if causal and {causal}:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ v).astype(query.dtype)
'''
OF_NUMBERS, OF_FLAGS = "attention.definition", "causal.no_lookahead"
KEYWORDS = ("bias", "causal", "mask", "scale")


def judged(file: Path, dtype: DType, clause: str = OF_FLAGS, effort: Effort = Effort.QUICK,
           *named: DType) -> Outcome:
    target = f"{file}:attend"
    return Engine(Plan((target,), effort=effort, dtypes=named)).try_item(Item(target, clause, dtype.value))


@pytest.fixture
def right(tmp_path: Path) -> Path:
    file = tmp_path / "right.py"
    file.write_text(FUNCTION.format(causal="True"), encoding="utf-8")
    return file


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A function that takes float16 alone, and ignores the causal flag."""
    file = tmp_path / "half.py"
    file.write_text(FUNCTION.format(causal="False") + "attend.dtypes = ['float16']\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("effort", SAMPLE)
def test_a_sample_is_tried_where_the_verdict_does_not_depend_on_the_dtype(right: Path, effort: Effort) -> None:
    cases = {dtype: judged(right, dtype, effort=effort).cases for dtype in DType}
    assert cases == {dtype: CASES[effort] if dtype is DType.FLOAT32 else SAMPLE[effort] for dtype in DType}


def test_all_cases_are_tried_where_it_does(right: Path) -> None:
    assert judged(right, DType.FLOAT16, OF_NUMBERS).cases == CASES[Effort.QUICK]


def test_of_dtypes_that_are_named_each_is_judged_whole(right: Path) -> None:
    named = DType.FLOAT16, DType.FLOAT32
    assert judged(right, DType.FLOAT16, OF_FLAGS, Effort.QUICK, *named).cases == CASES[Effort.QUICK]


def test_what_only_a_further_dtype_does_wrong_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(FUNCTION.format(causal="query.dtype != np.float16"), encoding="utf-8")
    assert [judged(file, dtype).verdict for dtype in (DType.FLOAT32, DType.FLOAT16)] == [
        Verdict.HELD, Verdict.VIOLATED]


def test_cases_of_which_nothing_is_claimed_do_not_count(monkeypatch: pytest.MonkeyPatch, right: Path) -> None:
    def judge(_trial: Trial, _recipe: object, tally: Tally) -> None:
        is_silent = tally.no_claims < SAMPLE[Effort.QUICK]
        tally.no_claims += is_silent
        tally.cases += not is_silent

    monkeypatch.setattr(Trial, "judge", judge)
    outcome = judged(right, DType.FLOAT16)
    assert (outcome.no_claims, outcome.cases) == (SAMPLE[Effort.QUICK], SAMPLE[Effort.QUICK])


# --- which cases

def menu() -> Menu:
    chosen = domain(sometimes=KEYWORDS)
    found = menu_of(chosen, frozenset(KEYWORDS), own_subject("sound/naive").declaration.limits, Effort.QUICK, ())
    assert found is not None
    return found


def test_a_sample_has_sizes_of_every_length_the_largest_opening_among_them() -> None:
    dealt, count = menu(), (CASES[Effort.QUICK] + 1) // 2
    sizes = [dealt.recipe(*choices).sizes for choices in sampled(dealt, 0, count, 4)]
    opened = [dealt.recipe(*choices).sizes for choices in openings(dealt, 0, count)]
    assert sizes == [opened[place] for place in (1, 3, 5, 7)]


def test_a_sample_begins_with_all_keywords_together() -> None:
    first, *others = (menu().recipe(*choices).features for choices in sampled(menu(), 0, 8, 4))
    assert first == frozenset(KEYWORDS)
    assert all(each < first for each in others)


@pytest.mark.parametrize(("cards", "count", "some"), [
    ("abcdefgh", 4, "bdfh"), ("abcdefgh", 3, "beh"), ("abc", 4, "abc"), ("abc", 1, "c"), ("", 4, "")])
def test_cards_are_spread_evenly_with_the_last_among_them(cards: str, count: int, some: str) -> None:
    assert "".join(spread(cards, count)) == some


# --- a glance

def test_a_glance_puts_every_clause_at_the_first_dtype_that_is_taken(half: Path) -> None:
    outcome = judged(half, DType.FLOAT16, effort=Effort.GLANCE)
    assert outcome.verdict is Verdict.VIOLATED


def test_a_glance_puts_at_further_dtypes_what_depends_on_them(right: Path) -> None:
    glance = Effort.GLANCE
    told = judged(right, DType.FLOAT16, effort=glance)
    assert (told.verdict, told.reason) == (Verdict.INAPPLICABLE, "it is tested at float32 only; to test it at all "
                                           "dtypes, name them or use effort default")
    assert judged(right, DType.FLOAT16, OF_NUMBERS, glance).verdict is Verdict.HELD
    assert judged(right, DType.FLOAT16, OF_FLAGS, glance, DType.BFLOAT16, DType.FLOAT16).verdict is Verdict.HELD


def test_a_function_that_takes_one_dtype_is_ranked_by_every_clause(half: Path, cli: Cli) -> None:
    code, out, _ = cli("rank", str(half), "--record", str(half.with_suffix(".jsonl")), "--stop-after", "1")
    assert code == 1
    assert "0." in out.splitlines()[0]
    assert "causal" in out


# --- what is told of it

def test_the_console_says_what_was_tried_at_further_dtypes(right: Path, cli: Cli) -> None:
    line = "further dtypes: 4 cases of each clause whose verdict does not depend on the dtype (--dtype NAME tries all)"
    asked = "check", str(right), "--effort", "quick", "--clause", OF_FLAGS, "--no-record"
    assert line in cli(*asked)[1].splitlines()
    assert "further dtypes" not in cli(*asked, "--dtype", "float16")[1]


def test_why_a_clause_does_not_apply_is_said_of_a_dtype_that_is_judged(half: Path, cli: Cli) -> None:
    out = cli("check", str(half), "--effort", "glance", "--clause", OF_FLAGS, "--clause",
              "masking.definition", "--no-record")[1]
    assert "1 clause does not apply: it takes no mask (-v lists them)" in out.splitlines()
