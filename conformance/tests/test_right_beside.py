"""What is right beside what is wrong is said; what answers nothing at all is said to raise, and to be like no fault."""

from __future__ import annotations

import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.diagnosis.boundaries import describe_right_quantities
from attnspec.diagnosis.diagnose import RAISES_ALWAYS, Examiner
from attnspec.diagnosis.locate import locate_stage
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard
from attnspec.faults import staged
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Recipe
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.planted import Wrong, lse_off, plant_mistake
from helpers.subjects import subject_of
from mistakes import lengths_end_at_the_past


def raising(query: Array, key: Array, value: Array) -> Array:
    """Has a mistake that no call gets past."""
    raise AttributeError(f"'Kernel' object has no attribute 'launch' of {len((query, key, value))} arrays")


def lse_off_in_the_first_row(call: HandedOver) -> Answer:
    """The sound output, and a log-sum-exp with 1 added in one row."""
    answer = staged.attention(call)
    if isinstance(answer, tuple):
        answer[1][:, :, :1] += 1
    return answer


@pytest.mark.parametrize("wrong", [lse_off, lse_off_in_the_first_row])
def test_only_the_log_sum_exp_is_said_to_be_wrong(wrong: Wrong) -> None:
    trial = Trial(checks()["lse.definition"], Evaluator(plant_mistake(lambda _: True, wrong), DType.FLOAT32),
                  Effort.GLANCE,
                  0, lambda _: None, shrinks=False)
    failing = trial.hold().failing_recipe
    assert failing
    assert failing.sizes.T > 1
    assert describe_right_quantities(trial.scene(failing),
                                     failing) == "Only the log-sum-exp is wrong; the output is right."


def test_what_raises_on_every_call_is_told_so_and_is_like_no_fault() -> None:
    subject = subject_of(raising, frozenset(), dtypes=(DType.FLOAT32,))
    trial = Trial(checks()["attention.definition"], Evaluator(subject, DType.FLOAT32), Effort.GLANCE, 0, lambda _: None)
    found = Examiner().diagnose(trial, Recipe.parse("B1,H1,Hkv1,T2,S3,D4,Dv4;mask=none;families=normal;seed=0"))
    assert found.likely_faults == ()
    assert found.located_stage.startswith(f"{RAISES_ALWAYS}AttributeError")


def test_a_past_without_which_the_answer_is_right_is_told() -> None:
    keywords = frozenset({"past_key", "past_value", "key_lengths"})
    subject = subject_of(lengths_end_at_the_past, keywords, dtypes=(DType.FLOAT32,))
    evaluator = Evaluator(subject, DType.FLOAT32)
    case = make_problem(Recipe.parse(
        "B2,H1,Hkv1,T2,S4,D4,Dv4;mask=none;families=normal;with=key_lengths+past_key+past_value;key_lengths=ragged;"
        "past_key=half;seed=3"), DType.FLOAT32)
    said = locate_stage(ComparisonStandard(subject, evaluator.precision, evaluator.conventions, Aspect.NONE),
                        DType.FLOAT32, [case])
    assert said == "the answer is wrong here, and right once key_lengths or past_key is left out"
