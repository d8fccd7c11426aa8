"""What faults answer to diagnostic calls is remembered for the next subject, within a bound."""

from __future__ import annotations

import pytest
from attnspec.core.nouns import DType
from attnspec.diagnosis.inputs import DiagnosticInputs, Panels
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.subject import own_subject
from attnspec.trials.evaluator import Evaluator

FAULT = CATALOGUE["scale_none"]


def panel(panels: Panels, aspect: Aspect, *, calls: int = 0) -> DiagnosticInputs:
    subject = own_subject("sound/naive")
    evaluator = Evaluator(subject, DType.FLOAT32)
    made = panels.panel(ComparisonStandard(subject, evaluator.precision, evaluator.conventions, aspect), DType.FLOAT32)
    if calls:
        made.candidate(FAULT).answer_call(calls - 1)
    return made


def test_a_panel_is_made_once_and_counts_the_answers_of_faults() -> None:
    panels = Panels(most=10)
    first = panel(panels, Aspect.NONE, calls=4)
    assert first.remembered_count == 4
    assert panel(panels, Aspect.NONE) is first
    next(first.candidate(FAULT).shake_call(2))
    assert first.remembered_count == 4 + 3  # those with rounding errors put in, too


def test_the_panel_that_was_asked_for_longest_ago_is_forgotten_first() -> None:
    panels = Panels(most=6)
    first, second = panel(panels, Aspect.NONE, calls=4), panel(panels, Aspect.DTYPE, calls=4)
    assert list(panels.values()) == [first, second]  # it is counted when a panel is asked for
    assert panel(panels, Aspect.NONE) is first
    assert list(panels.values()) == [first]


def test_one_panel_stays_however_much_it_remembers() -> None:
    panels = Panels(most=1)
    first = panel(panels, Aspect.NONE, calls=4)
    assert panel(panels, Aspect.NONE) is first


@pytest.mark.parametrize(("aspect", "is_held"), [(Aspect.NONE, False), (Aspect.KEPT, True)])
def test_a_faults_own_memory_is_held_only_where_it_is_looked_at(aspect: Aspect, *, is_held: bool) -> None:
    """It is as much again as its answers."""
    step = panel(Panels(), aspect).candidate(FAULT).answer_call(0)
    assert (step.answer_given.is_kept.__closure__ is not None) is is_held
