"""One bug breaks many clauses, and is looked into once: what explains one failure is asked first of a later one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.diagnosis import arithmetic, whereabouts
from attnspec.diagnosis.boundaries import find_boundary
from attnspec.diagnosis.conditions import Boundary
from attnspec.diagnosis.diagnose import Examiner
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults.subject import fault_subject
from attnspec.problems.choices import menu_of
from attnspec.problems.problem import Recipe, Sizes
from attnspec.record.outcome import Outcome
from attnspec.spec.clause import read_refutations
from attnspec.spec.load import load_spec
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import compile_spec
from attnspec.trials.covering_cases import deal_openings
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.sizes import Resizer
from attnspec.trials.trial import EXPLAINED_ATTEMPTS, Trial, shrink_to_handy

SPEC = load_spec()
CHECKS, REFUTATIONS = compile_spec(SPEC), read_refutations(SPEC)
FAULT = fault_subject("fault/key_first_dropped")


def judge_all(subject: Subject, *put: tuple[str, DType]) -> list[Outcome]:
    """What comes of these clauses, one after the other, at effort quick."""
    plan = Plan((subject.id,), effort=Effort.QUICK)
    run = SubjectRun(subject, plan, lambda _: None, lambda: CHECKS, lambda: REFUTATIONS)
    return [run.try_clause(CHECKS[clause], dtype) for clause, dtype in put]


def likeness(outcome: Outcome) -> list[str]:
    assert outcome.evidence is not None
    return [each.fault for each in outcome.evidence.like]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clauses for which a boundary is looked for, or an arithmetic."""
    of, explain = list[str](), arithmetic.ArithmeticExplainer.explain

    def noting_begins(resizer: Resizer) -> Boundary | None:
        of.append("boundary")
        return find_boundary(resizer)

    def noting_explain(*put: object, **more: object) -> object:
        of.append("arithmetic")
        return explain(*put, **more)  # type: ignore[arg-type]  # as it is called

    monkeypatch.setattr(whereabouts, "find_boundary", noting_begins)
    monkeypatch.setattr(arithmetic.ArithmeticExplainer, "explain", noting_explain)
    return of


def test_what_a_known_fault_explains_is_not_looked_into_anew(searched: list[str]) -> None:
    outcomes = judge_all(
        FAULT, ("attention.definition", DType.FLOAT32), ("attention.weights_definition", DType.FLOAT32))
    assert [likeness(each) for each in outcomes] == [["key_first_dropped"]] * 2
    assert searched == ["boundary", "arithmetic"]


def test_what_a_known_fault_does_not_show_is_not_known() -> None:
    examiner, mine, other = Examiner(), trial_of(FAULT), trial_of(fault_subject("fault/scale_none"))
    case = Recipe.parse("B1,H1,Hkv1,T3,S4,D2,Dv2;mask=none;families=normal;seed=0")
    assert not examiner.is_known_fault(mine, case)
    assert [each.fault for each in examiner.diagnose(mine, case).likely_faults] == ["key_first_dropped"]
    assert examiner.is_known_fault(mine, replace(case, seed=1))
    assert not examiner.is_known_fault(other, case)


def test_at_a_further_dtype_the_same_case_shows_what_is_known() -> None:
    subject = fault_subject("fault/blocks_sum_not_rescaled")
    outcomes = judge_all(subject, ("attention.definition", DType.FLOAT32), ("attention.definition", DType.BFLOAT16))
    assert len({each.evidence.recipe for each in outcomes if each.evidence}) == 1


def trial_of(subject: Subject, *, is_explained: bool = False) -> Trial:
    return Trial(CHECKS["attention.definition"], Evaluator(subject, DType.FLOAT32), Effort.QUICK, 0, lambda _: None,
                 is_explained=lambda *_: is_explained)


def test_what_is_explained_is_shrunk_by_few_cases() -> None:
    subject = fault_subject("fault/blocks_sum_not_rescaled")
    whole, brief = (trial_of(subject, is_explained=is_so).hold() for is_so in (False, True))
    assert whole.first_failing == brief.first_failing
    assert whole.tried_count - EXPLAINED_ATTEMPTS > brief.tried_count > EXPLAINED_ATTEMPTS
    assert brief.failure is not None


def test_sizes_at_which_another_clause_fails_are_small_enough() -> None:
    trial = trial_of(FAULT)
    menu = menu_of(trial.check.domain, FAULT.declaration.keywords, FAULT.declaration.limits, Effort.QUICK)
    assert menu is not None
    tallies = ((trial.judge_recipe(menu.recipe(*choices)), choices) for choices in deal_openings(menu, 0, 8))
    tally, choices = next(each for each in tallies if each[0].failure)
    put = list[Recipe]()

    def noting_put(recipe: Recipe) -> Tally:
        put.append(recipe)
        return trial.judge_recipe(recipe)

    known = Sizes(B=1, H=1, Hkv=1, T=5, S=7, D=3, Dv=2)
    small, _ = shrink_to_handy(noting_put, menu, choices, tally, small=[known])
    assert small.shapes == (known,)
    assert {each.sizes for each in put} == {known}
