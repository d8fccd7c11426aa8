"""Effort glance: many subjects in minutes, by few dealt cases of few shapes, and no more shrinking than pays."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
from attnspec.core.declaration import Limits
from attnspec.core.effort import EFFORTS
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import MAX_SUBJECTS, Engine
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.subject import own_subject
from attnspec.probing.probe import SWITCH_FLIPS, probe_subject
from attnspec.problems.choices import shapes_for
from attnspec.problems.problem import Array, Recipe, count_logits
from attnspec.record.outcome import Outcome
from attnspec.subjects.callee import InProcess
from attnspec.trials.covering_cases import fixed_recipes, seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.trial import GLANCE_ATTEMPTS, SPARE_OPENINGS, Trial
from helpers.law import checks

MASKED = "masking.is_not_ignored"
LIMITS = {"plain": Limits(), "grouped": Limits(grouped=True), "one input": Limits(self_attention_only=True),
          "one head": Limits(single_head=True)}


def trial(clause: str, target: str, *, before: Recipe | None = None) -> Trial:
    check = checks()[clause]
    evaluator = Evaluator(own_subject(target), DType.FLOAT32)
    return Trial(check, evaluator, Effort.GLANCE, seed_of(0, check.domain), lambda _: None, failed_before=before)


def test_a_sound_subject_is_tried_on_the_dealt_cases_and_no_others() -> None:
    tally = trial("attention.definition", "sound/naive").hold()
    assert (tally.tried_count, tally.failure) == (EFFORTS[Effort.GLANCE].cases, None)


def test_openings_of_which_nothing_is_claimed_do_not_count() -> None:
    held = trial("attention.definition", "sound/naive")

    def judge(_trial: Trial, _recipe: Recipe, tally: Tally) -> None:
        is_silent = tally.no_claims < SPARE_OPENINGS
        tally.no_claims += is_silent
        tally.cases += not is_silent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "judge", judge)
        tally = held.hold()
    assert (tally.no_claims, tally.cases, tally.tried_count) == (SPARE_OPENINGS, EFFORTS[Effort.GLANCE].cases,
                                                                 SPARE_OPENINGS + 1)


def shrunk(tally: Tally) -> Recipe:
    assert isinstance(tally.failure, Violated)
    return tally.failure.recipe


def test_a_failure_is_shrunk_by_a_few_attempts_among_smaller_shapes() -> None:
    tally = trial(MASKED, "fault/mask_ignored").hold()
    assert tally.tried_count <= EFFORTS[Effort.GLANCE].cases + GLANCE_ATTEMPTS
    dealt = shapes_for(checks()[MASKED].domain, Limits(), Effort.GLANCE)
    assert count_logits(shrunk(tally).sizes) <= min(map(count_logits, dealt))
    assert shrunk(tally).features == {"mask"}


def test_a_case_that_failed_at_another_dtype_serves_again() -> None:
    small = shrunk(trial(MASKED, "fault/mask_ignored").hold())
    tally = trial(MASKED, "fault/mask_ignored", before=small).hold()
    assert shrunk(tally) == small
    assert tally.tried_count <= EFFORTS[Effort.GLANCE].cases + 1


def test_a_case_that_fails_no_more_is_no_evidence() -> None:
    small = shrunk(trial(MASKED, "fault/mask_ignored").hold())
    harmless = replace(small, mask="none")  # hides nothing
    assert shrunk(trial(MASKED, "fault/mask_ignored", before=harmless).hold()) != harmless


def test_a_case_of_another_dtype_convicts_nobody_that_dealt_cases_clear() -> None:
    """Which dtype a worker has met before is chance: no verdict may hang on it."""
    failing = shrunk(trial(MASKED, "fault/mask_ignored").hold())
    assert trial(MASKED, "sound/naive", before=failing).hold().tried_count == EFFORTS[Effort.GLANCE].cases


def outcome(effort: Effort) -> Outcome:
    plan = Plan(("fault/mask_ignored",), effort=effort)
    subject_run = SubjectRun(own_subject("fault/mask_ignored"), plan, lambda _: None)
    return subject_run.try_clause(checks()[MASKED], DType.FLOAT32)


def test_nothing_is_diagnosed_but_the_case_can_be_repeated() -> None:
    quick, glance = outcome(Effort.QUICK), outcome(Effort.GLANCE)
    assert quick.verdict is glance.verdict is Verdict.VIOLATED
    assert quick.evidence is not None
    assert glance.evidence is not None
    assert quick.evidence.like
    assert not glance.evidence.like
    assert glance.evidence.recipe


def due(target: str, effort: Effort, *dtypes: DType, clauses: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """The clauses that are put at each dtype."""
    found: dict[str, set[str]] = {}
    for item in Engine(Plan((target,), effort=effort, dtypes=dtypes, clauses=clauses)).items():
        found.setdefault(item.dtype, set()).add(item.clause)
    return found


def test_clauses_are_put_at_float32_and_those_of_numbers_at_every_dtype() -> None:
    glance, quick = (due("numpy/attention", effort) for effort in (Effort.GLANCE, Effort.QUICK))
    assert glance["float32"] == quick["float32"] == quick["float16"]
    for dtype in ("float64", "float16", "bfloat16"):
        assert {"attention.definition", "masking.definition", "numerics.precision_grade",
                "masking.constant_is_low_enough"} <= glance[dtype]
        assert len(glance[dtype]) < len(glance["float32"]) / 3


def test_without_float32_the_first_dtype_is_judged_in_full() -> None:
    glance = due("numpy/attention", Effort.GLANCE, DType.BFLOAT16, DType.FLOAT16)
    assert "attention.heads_are_independent" in glance["float16"]
    assert "attention.heads_are_independent" not in glance["bfloat16"]


def test_a_clause_that_is_asked_for_is_put_at_every_dtype() -> None:
    asked = due("numpy/attention", Effort.GLANCE, clauses=("attention.heads_are_independent",))
    assert set(asked) == {dtype.value for dtype in DType}


def test_a_variant_is_probed_only_where_it_differs() -> None:
    subject = own_subject("sound/naive")
    whole = [step.name for step in probe_subject(subject, DType.FLOAT32, base=subject)]
    brief = [step.name for step in probe_subject(subject, DType.FLOAT32, base=subject, brief=True)]
    implied = {f"switch.{flip.name}" for flip in SWITCH_FLIPS if flip.is_implied}
    assert brief == [name for name in whole if name.startswith("switch.") and name not in implied]
    assert len(list(probe_subject(subject, DType.FLOAT32, brief=True))) > len(brief)


def test_an_engine_of_many_subjects_forgets_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = Mock()
    monkeypatch.setattr(InProcess, "forget", forget)
    targets = ("sound/naive", *(f"fault/{name}" for name in list(CATALOGUE)[:MAX_SUBJECTS]))
    engine = Engine(Plan(targets, effort=Effort.GLANCE))
    for target in targets:
        engine.card(target)
    assert forget.call_count == MAX_SUBJECTS
    assert engine.card("sound/naive").id == "sound/naive"  # whoever comes again is heard again


def test_a_law_of_chance_has_fewer_problems_that_share_its_rate() -> None:
    for check in checks().values():
        counts = [len(fixed_recipes(check.domain, Limits(), effort, 0)) for effort in (Effort.GLANCE, Effort.QUICK)]
        if check.domain.kind in {"generic", "long", "gaussian", "score"}:
            assert 0 < counts[0] < counts[1], check.clause.id


def refusing(query: Array, key: Array, value: Array, **_: object) -> Array:  # noqa: ARG001  (a subject's signature)
    raise ValueError(f"cannot do {query.shape}")


def test_the_same_refusal_is_shrunk_under_one_clause_only() -> None:
    subject = replace(own_subject("sound/naive"), callee=InProcess(refusing))
    subject_run = SubjectRun(subject, Plan((), effort=Effort.GLANCE), lambda _: None)
    first, second = (subject_run.try_clause(checks()[clause], DType.FLOAT32)
                     for clause in ("attention.definition", "attention.queries_are_independent"))
    assert first.verdict is second.verdict is Verdict.ERRORED
    assert first.cases > second.cases == 1
    assert first.evidence is not None
    assert first.evidence.recipe
