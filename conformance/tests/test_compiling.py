"""Where each new shape is compiled a quick run puts fewer cases, and says so; the seconds are those of processors."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.effort import EFFORTS, OWN_SIZES, RESHAPING, explain_left_out, is_cut_short, is_left_out
from attnspec.core.forms import AS_DECLARED
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import SubjectRun
from attnspec.engine.summon import compiling_time
from attnspec.faults.subject import own_subject
from attnspec.hosting.client import processor_seconds
from attnspec.problems.problem import Array, Sizes
from attnspec.problems.size_plan import SizePlan
from attnspec.record.outcome import Outcome
from attnspec.runner.judge import ENGINE_CLASS, TrialJobs, with_engine
from attnspec.subjects.call import Call, SubjectAnswer
from attnspec.subjects.callee import InProcess
from attnspec.subjects.refusals import expected_seconds
from attnspec.subjects.subject import Subject
from attnspec.subjects.watching import ShapeTimes, with_compiling
from attnspec.trials.covering_cases import FIXED_KINDS
from attnspec.trials.paths import CompilingTime
from attnspec.vocabulary.tables import TRANSFORMS
from helpers.law import checks

CLAUSES = ("attention.definition", "attention.batch_is_independent", "causal.one_query", "attention.one_key",
           "attention.shape", "attention.features_together")


@dataclass(frozen=True)
class Compiled(InProcess):
    """A right function whose process has worked as many seconds as its calls cost: more for shapes that are new."""

    new: float = 0.4
    old: float = 0.001
    shapes: list[object] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        shape = tuple(array.shape for array in call.named_arrays.values())
        self.worked.append(self.old if shape in self.shapes else self.new)
        self.shapes.append(shape)
        return super().perform(call, rows)

    def cpu_seconds(self) -> float:
        return sum(self.worked)


def compiled(new: float = 0.4, old: float = 0.001, own: str = "sound/naive") -> tuple[Subject, Compiled]:
    sound = own_subject(own)
    assert isinstance(sound.callee, InProcess)
    callee = Compiled(sound.callee.function, new=new, old=old)
    return replace(sound, id="mine.py:attend", callee=callee), callee


def outcomes(subject: Subject, effort: Effort = Effort.QUICK) -> list[Outcome]:
    run = SubjectRun(subject, Plan((subject.id,), effort=effort), lambda _: None, checks)
    return [run.try_clause(checks()[name], DType.FLOAT32) for name in CLAUSES]


@pytest.mark.parametrize(("new", "old", "is_found"), [
    (0.4, 0.001, True), (0.4, 0.03, False), (0.4, 0.1, False), (0.001, 0.001, False)])
def test_what_compiles_is_told_by_what_a_new_shape_costs(*, new: float, old: float, is_found: bool) -> None:
    subject, callee = compiled(new=new, old=old)
    assert with_compiling(subject).declaration.is_compiled is is_found
    assert len(callee.worked) <= 44
    said = replace(subject, declaration=replace(subject.declaration, compiles=False))
    assert with_compiling(said) is said


def test_each_clause_is_put_a_case_and_dear_ones_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnspec.trials.paths.SHARE", 8)
    subject, callee = compiled()
    found, seconds = outcomes(with_compiling(subject)), callee.cpu_seconds()
    assert seconds < EFFORTS[Effort.QUICK].compiling
    assert {outcome.verdict for outcome in found} == {Verdict.HELD}
    assert all(outcome.cases for outcome in found)
    short = [outcome for outcome in found if is_cut_short(outcome.reason)]
    assert short
    assert len(short) < len(found)
    whole = {outcome.clause: outcome.cases for outcome in outcomes(subject)}
    assert all(outcome.cases < whole[outcome.clause] for outcome in short)
    assert {explain_left_out(outcome.reason) for outcome in short} == {"each new shape takes 0.4 s to compile"}


def test_what_is_beyond_the_time_is_left_out_and_says_why() -> None:
    subject, _ = compiled(new=30.0)
    found = outcomes(replace(subject, declaration=replace(subject.declaration, compiles=True)))
    left = [outcome for outcome in found if is_left_out(outcome.reason)]
    assert [outcome.verdict for outcome in left] == [Verdict.NO_CLAIM] * len(left)
    assert found[0].verdict is Verdict.HELD
    assert len(left) == len(found) - sum(outcome.cases > 0 for outcome in found) > 0


def test_what_a_diagnosis_compiles_counts_too() -> None:
    subject, callee = compiled(new=1.0, own="fault/accumulated_bfloat16")
    found = outcomes(with_compiling(subject))
    assert Verdict.VIOLATED in {outcome.verdict for outcome in found}
    assert callee.cpu_seconds() < 2 * EFFORTS[Effort.QUICK].compiling


def test_what_asking_compiled_counts_up_to_a_quarter() -> None:
    subject, callee = compiled()
    callee.worked.append(30.0)
    dear = with_compiling(subject)
    assert callee.cpu_seconds() > EFFORTS[Effort.QUICK].compiling / 4
    found = compiling_time(Plan((subject.id,), effort=Effort.QUICK), dear)
    assert found
    assert found.seconds_left == 0.75 * EFFORTS[Effort.QUICK].compiling


@pytest.mark.parametrize(("taken", "expected"), [
    ([], 0.0), ([(5, 0.4)], 0.0), ([(5, 0.4), (33, 0.4)], 0.4), ([(5, 0.4), (33, 0.35)], 0.35),
    ([(5, 0.3), (33, 1.0)], 13.0)])
def test_a_longer_question_is_expected_to_take_as_much_more_as_one_before(
        taken: list[tuple[int, float]], expected: float) -> None:
    assert expected_seconds(taken, 513) == pytest.approx(expected)


def test_at_effort_thorough_and_of_what_does_not_compile_all_is_put() -> None:
    subject, _ = compiled()
    dear = replace(subject, declaration=replace(subject.declaration, compiles=True))
    everything = Plan((subject.id,), effort=Effort.QUICK)
    assert compiling_time(everything, dear)
    assert compiling_time(everything, subject) is None
    for asked in (replace(everything, effort=Effort.THOROUGH), replace(everything, clauses=("causal.*",)),
                  replace(everything, sizes=("B1 H1 T8 S8 D8",)), replace(everything, baseline="known.yaml"),
                  replace(everything, diagnosed=1),
                  replace(everything, variants=(AS_DECLARED,))):
        assert compiling_time(asked, dear) is None


def test_in_a_hurry_clauses_share_three_sizes_of_other_kinds() -> None:
    demand = checks()["attention.definition"].demand(projects=False)
    for hurries, count in ((True, 3), (False, 9)):
        rows = SizePlan((demand,), own_subject("sound/naive").declaration.limits, Effort.QUICK, compiles=True,
                        hurries=hurries).rows(demand)
        assert len(rows) == count
        assert {(sizes.T > sizes.S) - (sizes.T < sizes.S) for sizes in rows} == {-1, 0, 1}
        assert any(sizes.Hkv < sizes.H for sizes in rows)


def test_where_compilers_have_little_time_what_is_dear_comes_last(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import jax\ndef attend(query, key, value): ...\n", encoding="utf-8")
    plan = Plan((f"{tmp_path}/mine.py:attend",), effort=Effort.QUICK, dtypes=(DType.FLOAT32,))
    sources = [TrialJobs(with_engine(each, engine=ENGINE_CLASS, recipe=""))
               for each in (plan, replace(plan, diagnosed=1))]
    hurried, plain = ([item.part for item in source.items()] for source in sources)
    assert sorted(hurried) == sorted(plain)
    last = [hurried.index(name) for name in ("purity.no_memory", "attention.features_together", "gradients.of_key")]
    assert last == sorted(last)
    as_written = [plain.index(name) for name in ("attention.features_together", "gradients.of_key", "purity.no_memory")]
    assert as_written == sorted(as_written)


def test_what_is_called_dear_exists() -> None:
    assert TRANSFORMS.keys() >= RESHAPING
    assert OWN_SIZES == FIXED_KINDS


def test_processors_are_asked_what_a_process_has_taken() -> None:
    before = processor_seconds(os.getpid())
    while processor_seconds(os.getpid()) == before:
        pass
    assert before < processor_seconds(os.getpid()) < before + 1
    assert processor_seconds(2**22 + 1) == 0  # no process has so high a number


@pytest.mark.parametrize(("at_80", "expected"), [(0.4, 0.0), (4.0, 100.0)])
def test_compiling_that_grows_with_the_keys_is_expected_to_go_on(at_80: float, expected: float) -> None:
    compiling = CompilingTime()
    for S, seconds in ((9, 0.4), (79, at_80)):
        compiling.count(Sizes(1, 1, 1, 1, S, 4, 4), frozenset(), seconds)
    assert compiling.expected_seconds(Sizes(1, 1, 1, 1, 1999, 4, 4)) == pytest.approx(expected, rel=0.05)


def test_nothing_far_longer_is_compiled_before_it_is_known_how_that_grows() -> None:
    compiling = CompilingTime()
    compiling.count(Sizes(1, 1, 1, 9, 9, 4, 4), frozenset(), 0.4)
    assert compiling.expected_seconds(Sizes(1, 1, 1, 1, 99, 4, 4)) == 0
    assert compiling.expected_seconds(Sizes(1, 1, 1, 1, 999, 4, 4)) == math.inf


@pytest.mark.parametrize(("again", "seconds"), [((0.001, 0.001, 0.3), 6.3), ((0.001, 0.2, 0.3), 0.0), ((), 0.0)])
def test_what_is_slow_at_new_shapes_alone_is_compiling(again: tuple[float, ...], seconds: float) -> None:
    times = ShapeTimes()
    calls = [Call({"query": np.zeros((1, 1, length, 4))}, {}, DType.FLOAT32, ()) for length in range(1, 5)]
    for call, first in zip(calls, (2.0, 2.0, 0.3, 2.0), strict=True):
        times.count(0, call, first)
    for call, taken in zip(calls, again, strict=False):
        times.count(0, call, taken)
    assert times.compiling == pytest.approx(seconds)


def test_calls_of_a_variant_or_with_another_flag_are_other_calls() -> None:
    call = Call({"query": np.zeros((1, 1, 2, 4))}, {}, DType.FLOAT32, ())
    times = ShapeTimes()
    for whose, each in ((0, call), (1, call), (0, replace(call, keywords={"causal": True}))):
        times.count(whose, each, 2.0)
    assert times.compiling == 0.0
