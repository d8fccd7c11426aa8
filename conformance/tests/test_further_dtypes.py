"""Further dtypes: of each clause whose verdict does not depend on the dtype a sample is tried, at a glance nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.declaration import Declaration, Deviation, Variant
from attnspec.core.effort import EFFORTS
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.engine.expectations import Portions
from attnspec.faults.subject import own_subject
from attnspec.problems.choices import Menu, menu_of
from attnspec.problems.domain import domain
from attnspec.problems.problem import Sizes
from attnspec.record.events import SUITE
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record
from attnspec.spec.clause import DtypeCoverage
from attnspec.subjects.baseline import read_entries
from attnspec.trials.covering_cases import deal_openings, sample_openings, spread_cards
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from evaluation.power.jobs import PowerJobs, with_power
from evaluation.power.measure import convict
from helpers.commands import Cli
from helpers.law import checks

FUNCTION = '''
import numpy as np

def attend(query, key, value, *, causal=False, scale=None):
    q, k, v = (x.astype(np.float32) for x in (query, key, value))
    default = q.shape[-1] ** -0.5
    logits = q @ np.swapaxes(k, -1, -2) * np.float32(default if scale is None else {scale})
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
    file.write_text(FUNCTION.format(causal="True", scale="scale"), encoding="utf-8")
    return file


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A function that takes float16 alone, and drops the sign of the scale that it is given."""
    file = tmp_path / "half.py"
    text = FUNCTION.format(causal="True", scale="abs(scale)")
    file.write_text(f"{text}attend.dtypes = ['float16']\n", encoding="utf-8")
    return file


@pytest.mark.family(1)
@pytest.mark.parametrize("effort", [each for each, numbers in EFFORTS.items() if numbers.sample])
def test_a_sample_is_tried_where_the_verdict_does_not_depend_on_the_dtype(right: Path, effort: Effort) -> None:
    cases = {dtype: judged(right, dtype, effort=effort).cases for dtype in DType}
    numbers = EFFORTS[effort]
    of_float64 = 0 if effort is Effort.QUICK else numbers.sample
    assert cases == {DType.FLOAT64: of_float64, DType.FLOAT32: numbers.cases, DType.FLOAT16: numbers.sample,
                     DType.BFLOAT16: numbers.sample}


@pytest.mark.nightly
def test_effort_quick_spends_no_sample_on_float64(right: Path) -> None:
    told = judged(right, DType.FLOAT64)
    assert (told.verdict, told.reason) == (
        Verdict.INAPPLICABLE, "it is not tested at float64, in which models do not compute; to test it there, name the "
        "dtype or use effort default")
    assert judged(right, DType.FLOAT64, OF_NUMBERS).verdict is Verdict.VIOLATED  # it computes in float32
    assert judged(right, DType.FLOAT64, OF_FLAGS, Effort.QUICK, DType.FLOAT32, DType.FLOAT64).cases == 8


def test_effort_quick_looks_for_what_is_listed_at_float64() -> None:
    clause = checks()[OF_FLAGS].clause
    declared = Declaration(deviations=(Deviation(OF_FLAGS, "violated", "so", "", "", (DType.FLOAT64,)),))
    assert Portions(Plan((), effort=Effort.QUICK), Declaration()).spares(clause, DType.FLOAT64)
    assert not Portions(Plan((), effort=Effort.QUICK), declared).spares(clause, DType.FLOAT64)
    assert not Portions(Plan((), effort=Effort.QUICK, clauses=(OF_FLAGS,)), Declaration()).spares(clause, DType.FLOAT64)


def test_effort_quick_puts_all_to_what_takes_float64_alone() -> None:
    portions = Portions(Plan((), effort=Effort.QUICK), Declaration(dtypes=(DType.FLOAT64,)))
    assert not portions.spares(checks()[OF_FLAGS].clause, DType.FLOAT64)


def test_all_cases_are_tried_where_it_does(right: Path) -> None:
    assert judged(right, DType.FLOAT16, OF_NUMBERS).cases == EFFORTS[Effort.QUICK].cases


def test_of_dtypes_that_are_named_each_is_judged_whole(right: Path) -> None:
    named = DType.FLOAT16, DType.FLOAT32
    assert judged(right, DType.FLOAT16, OF_FLAGS, Effort.QUICK, *named).cases == EFFORTS[Effort.QUICK].cases


def test_what_only_a_further_dtype_does_wrong_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(FUNCTION.format(causal="query.dtype != np.float16", scale="scale"), encoding="utf-8")
    assert [judged(file, dtype).verdict for dtype in (DType.FLOAT32, DType.FLOAT16)] == [
        Verdict.HELD, Verdict.VIOLATED]


def test_why_a_recommendation_is_not_followed_is_told_at_the_main_dtype(tmp_path: Path) -> None:
    file = tmp_path / "promoting.py"
    text = FUNCTION.format(causal="True", scale="scale").replace(".astype(query.dtype)", ".astype(np.float64)")
    file.write_text(text, encoding="utf-8")
    first, further = (judged(file, dtype, "attention.dtype").evidence for dtype in (DType.FLOAT32, DType.FLOAT16))
    assert first
    assert further
    assert [each.fault for each in first.like][:1] == ["output_promoted"]
    assert not further.like


def test_cases_of_which_nothing_is_claimed_do_not_count(monkeypatch: pytest.MonkeyPatch, right: Path) -> None:
    def judge(_trial: Trial, _recipe: object, tally: Tally) -> None:
        is_silent = tally.no_claims < EFFORTS[Effort.QUICK].sample
        tally.no_claims += is_silent
        tally.cases += not is_silent

    monkeypatch.setattr(Trial, "judge", judge)
    outcome = judged(right, DType.FLOAT16)
    assert (outcome.no_claims, outcome.cases) == (EFFORTS[Effort.QUICK].sample, EFFORTS[Effort.QUICK].sample)


# --- which cases

def menu() -> Menu:
    chosen = domain(sometimes=KEYWORDS)
    found = menu_of(chosen, frozenset(KEYWORDS), own_subject("sound/naive").declaration.limits, Effort.QUICK, ())
    assert found is not None
    return found


def test_a_sample_has_sizes_of_every_length_the_largest_opening_among_them() -> None:
    dealt, count = menu(), EFFORTS[Effort.QUICK].openings
    sizes = [dealt.recipe(*choices).sizes for choices in sample_openings(dealt, 0, count, 4)]
    opened = [dealt.recipe(*choices).sizes for choices in deal_openings(dealt, 0, count)]
    assert sizes == [opened[place] for place in (1, 3, 5, 7)]


def test_a_sample_begins_with_all_keywords_together() -> None:
    first, *others = (menu().recipe(*choices).features for choices in sample_openings(menu(), 0, 8, 4))
    assert first == frozenset(KEYWORDS)
    assert all(each < first for each in others)


def test_a_sample_has_each_size_once_also_where_clauses_share_few() -> None:
    shapes = tuple(Sizes(1, 1, 1, length, length, 8, 8) for length in (64, 2, 16))
    dealt = replace(menu(), shapes=shapes)
    assert [dealt.recipe(*choices).sizes.T for choices in sample_openings(dealt, 0, 8, 4)] == [2, 16, 64]


def test_a_listed_failure_is_looked_for_in_all_cases() -> None:
    check = checks()[OF_FLAGS].clause
    declared = Declaration(deviations=(Deviation(OF_FLAGS, "violated", "so", "", "", (DType.FLOAT16,)),))
    portions = Portions(Plan((), effort=Effort.QUICK), declared)
    sample = EFFORTS[Effort.QUICK].sample
    assert [portions.sample(check, dtype) for dtype in (DType.FLOAT16, DType.BFLOAT16)] == [0, sample]


@pytest.mark.parametrize(("compiles", "sizes"), [(True, [1, 2, 3, 4]), (False, [2, 4, 6, 8])])
def test_where_variants_compile_a_sample_has_the_sizes_that_are_shared(*, compiles: bool, sizes: list[int]) -> None:
    subject = own_subject("sound/naive")
    declared = replace(subject.declaration, variants={"jit": Variant("jit", "jit", compiles=compiles)})
    check = checks()["layers.switches"]
    trial = Trial(check, Evaluator(replace(subject, declaration=declared), DType.FLOAT16), Effort.QUICK, 0,
                  lambda _: None, sample=4)
    dealt = replace(menu(), shapes=tuple(Sizes(1, 1, 1, length, 8, 8, 8) for length in range(1, 9)))
    assert [dealt.recipe(*choices).sizes.T for choices in trial._deal_openings(dealt)][:4] == sizes


@pytest.mark.parametrize(("cards", "count", "some"), [
    ("abcdefgh", 4, "bdfh"), ("abcdefgh", 3, "beh"), ("abc", 4, "abc"), ("abc", 1, "c"), ("", 4, "")])
def test_cards_are_spread_evenly_with_the_last_among_them(cards: str, count: int, some: str) -> None:
    assert "".join(spread_cards(cards, count)) == some


# --- a glance

def test_a_glance_puts_every_clause_at_the_first_dtype_that_is_taken(half: Path) -> None:
    assert judged(half, DType.FLOAT16, "scale.negative_is_negated_query", Effort.GLANCE).verdict is Verdict.VIOLATED


def test_a_glance_of_a_fault_that_takes_no_float32_puts_every_clause() -> None:
    items = Engine(Plan(("fault/output_truncated",), effort=Effort.GLANCE, profiles=("core",))).items()
    put = {item.dtype for item in items if item.clause == "attention.heads_are_independent"}
    assert put & {dtype.value for dtype in own_subject("fault/output_truncated").declaration.dtypes} == {"float16"}


@pytest.mark.nightly
def test_a_glance_that_writes_a_baseline_anew_keeps_what_it_does_not_put(tmp_path: Path, cli: Cli) -> None:
    file, known = tmp_path / "wrong.py", tmp_path / "known.yaml"
    file.write_text(FUNCTION.format(causal="query.dtype != np.float16", scale="scale"), encoding="utf-8")
    words = "check", str(file), "--no-record", "--baseline", str(known)
    cli(*words, "--effort", "quick", "--clause", OF_FLAGS)
    assert [each.dtype for each in read_entries(known)] == ["float16"]
    cli(*words, "--effort", "glance", "--clause", "causal.*", "--update-baseline")
    assert (OF_FLAGS, "float16") in {(each.clause, each.dtype) for each in read_entries(known)}


def test_a_glance_puts_at_further_dtypes_what_depends_on_them(right: Path) -> None:
    glance = Effort.GLANCE
    told = judged(right, DType.FLOAT16, effort=glance)
    assert (told.verdict, told.reason) == (Verdict.INAPPLICABLE, "it is tested at float32 only; to test it at all "
                                           "dtypes, name them or use effort default")
    assert judged(right, DType.FLOAT16, OF_NUMBERS, glance).verdict is Verdict.HELD
    assert judged(right, DType.FLOAT16, OF_FLAGS, glance, DType.BFLOAT16, DType.FLOAT16).verdict is Verdict.HELD


@pytest.mark.nightly
def test_a_function_that_takes_one_dtype_is_ranked_by_every_clause(half: Path, cli: Cli) -> None:
    record = half.with_suffix(".jsonl")
    assert cli("rank", str(half), "--record", str(record))[0] == 1
    [ranked] = read_record(record).ranks
    of_numbers = [each for each in checks().values() if each.clause.glance is DtypeCoverage.EVERY_DTYPE]
    assert ranked.held + len(ranked.failing) > len(of_numbers)
    assert "scale.negative_is_negated_query" in ranked.failing


def test_a_dropped_kernel_lacks_no_clause_that_a_glance_spares(right: Path) -> None:
    engine = Engine(Plan((f"{right}:attend",), effort=Effort.GLANCE))
    items = [Item(f"{right}:attend", OF_FLAGS, dtype) for dtype in ("float32", "float16")]
    assert [engine.applies(item) for item in items] == [True, False]


# --- power

def test_power_measures_what_a_sample_detects() -> None:
    def cases(sample: int) -> int:
        plan = with_power(Plan(("sound/naive",), dtypes=(DType.FLOAT16,), effort=Effort.QUICK), seeds=(0,),
                          rules=(SUITE,), sample=sample)
        jobs = PowerJobs(plan)
        check = checks()[OF_FLAGS]
        return convict(own_subject("sound/naive"), DType.FLOAT16, checks={OF_FLAGS: check}, effort=Effort.QUICK, seed=0,
                       sample=int(jobs.plan.more["sample"][0])).conviction.problems

    assert (cases(0), cases(4)) == (EFFORTS[Effort.QUICK].cases, 4)


# --- what is told of it

@pytest.mark.nightly
def test_the_console_says_what_was_tried_at_further_dtypes(right: Path, cli: Cli) -> None:
    line = ("further dtypes: 3 cases of each clause whose verdict does not depend on the dtype{} "
            "(--dtype NAME tries all)")
    asked = "check", str(right), "--effort", "quick", "--clause", OF_FLAGS, "--no-record"
    assert line.format("") in cli(*asked)[1].splitlines()
    assert line.format(", none at float64") in cli(*asked[:-2], f"{OF_FLAGS[:-1]}*", "--no-record")[1].splitlines()
    assert "further dtypes" not in cli(*asked, "--dtype", "float16")[1]
    assert "further dtypes" not in cli(*asked[:-2], OF_NUMBERS, "--no-record")[1]  # of which all cases are tried


@pytest.mark.nightly
def test_why_a_clause_does_not_apply_is_said_of_a_dtype_that_is_judged(half: Path, cli: Cli) -> None:
    two = half.with_name("two.py")
    two.write_text(half.read_text(encoding="utf-8").replace("'float16'", "'bfloat16', 'float16'"), encoding="utf-8")
    for file in (half, two):
        out = cli("check", str(file), "--effort", "glance", "--clause", "masking.*", "--clause", OF_NUMBERS,
                  "--no-record")[1]
        assert "do not apply: it takes no mask, no return_weights, no bias (-v lists them)" in out
