"""How long a call of other sizes would take is told by large calls, and not by what compiles before them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.problems.problem import Sizes, count_work
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import TELLING_WORK, Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.planted import plant_mistake

CLAUSE = "attention.definition"
TOO_LONG = "a call of such sizes would take it more than 5 seconds"


@dataclass
class Clock:
    """Stands still but for the calls of a right function: their seconds by work, the part more that they take if T is
    odd, and those that sizes take when they are new.  share: of the time, what processors work for it.
    """

    seconds_of_work: float = 0.0
    unevenness: float = 0.0
    compiling: float = 0.0
    share: float = 0.0
    now: float = 0.0
    calls: list[Sizes] = field(default_factory=list)

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.share * self.now

    def passes(self, sizes: Sizes) -> bool:
        """A call of these sizes, which is right."""
        seconds_of_work = self.seconds_of_work * (1 + self.unevenness * (sizes.T % 2))
        self.now += seconds_of_work * count_work(sizes) + self.compiling * (sizes not in self.calls)
        self.calls.append(sizes)
        return False


def judged(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Tally:
    monkeypatch.setattr("attnspec.trials.evaluator.time", clock)
    monkeypatch.setattr("attnspec.subjects.callee.time", clock)
    check = checks()[CLAUSE]
    evaluator = Evaluator(plant_mistake(clock.passes), DType.FLOAT32)
    return Trial(check, evaluator, Effort.DEFAULT, seed_of(0, check.domain), lambda _: None).hold()


@pytest.mark.nightly
def test_a_call_that_compiled_first_leaves_out_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = judged(Clock(compiling=60.0), monkeypatch)
    assert tally.cases > 20
    assert TOO_LONG not in tally.outside_reasons


def test_a_slow_function_is_spared_its_largest_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(seconds_of_work=1.1 / TELLING_WORK)
    tally = judged(clock, monkeypatch)
    assert tally.outside_reasons[TOO_LONG] > 0
    assert max(map(count_work, clock.calls)) < 5 * TELLING_WORK / 1.1


@pytest.mark.parametrize(("share", "is_spared"), [(0.125, False), (1.0, True), (0.01, True)],
                         ids=["a busy machine", "an idle one", "one that waits for a device"])
def test_what_else_the_machine_does_leaves_out_nothing(
    *, share: float, is_spared: bool, monkeypatch: pytest.MonkeyPatch,
) -> None:
    tally = judged(Clock(seconds_of_work=5e-8, share=share), monkeypatch)
    assert (TOO_LONG in tally.outside_reasons) is is_spared


@pytest.mark.parametrize(("clock", "again"), [
    (Clock(), 0), (Clock(1.1 / TELLING_WORK), 1), (Clock(0.2 / TELLING_WORK, unevenness=3.0), 1)],
    ids=["quick", "slow", "uneven"])
def test_a_slow_call_is_made_again_once(clock: Clock, again: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = judged(clock, monkeypatch)
    assert len(clock.calls) - tally.cases - tally.no_claims == again
