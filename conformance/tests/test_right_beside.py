"""What is right beside what is wrong is said; what answers nothing at all is said to raise, and to be like no fault."""

from __future__ import annotations

from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.diagnosis.beside import right_beside
from attnspec.diagnosis.diagnose import RAISES_ALWAYS
from attnspec.engine.engine import Engine
from attnspec.problems.problem import Array
from attnspec.report.bugs import likely_words
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.planted import lse_off, planted


def raising(query: Array, key: Array, value: Array) -> Array:
    """Has a mistake that no call gets past."""
    raise AttributeError(f"'Kernel' object has no attribute 'launch' of {len((query, key, value))} arrays")


raising.dtypes = ["float32"]  # type: ignore[attr-defined]  # as users declare it


def test_only_the_log_sum_exp_is_said_to_be_wrong() -> None:
    trial = Trial(checks()["lse.definition"], Evaluator(planted(lambda _: True, lse_off), DType.FLOAT32), Effort.GLANCE,
                  0, lambda _: None)
    failing = trial.hold().failing
    assert failing
    assert right_beside(trial.scene(failing), failing) == "Only the log-sum-exp is wrong; the output is right."


def test_what_raises_on_every_call_is_told_so_with_the_exception() -> None:
    target = f"{__name__}:raising"
    engine = Engine(Plan((target,), clauses=("attention.definition", "attention.one_key"), effort=Effort.QUICK,
                         in_process=(target,)))
    failed = [each for each in (engine.try_item(item) for item in engine.items()) if each.verdict is Verdict.ERRORED]
    assert len(failed) > 1
    said = likely_words(failed)
    assert said.startswith(f"Likely one bug: {RAISES_ALWAYS}")
    assert "no attribute 'launch'" in said
