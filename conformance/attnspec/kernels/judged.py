"""One function, judged in this process until it fails: what an evaluator of somebody else's asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attnspec.core.errors import TargetError
from attnspec.core.nouns import Effort, Level, Verdict, gates
from attnspec.core.plan import Plan
from attnspec.record.outcome import Outcome
from attnspec.runner.environment import one_thread
from attnspec.runner.gate import target_of
from attnspec.runner.judge import clause_of, distinct_items, pronounce, summon
from attnspec.runner.texts import violation


@dataclass(frozen=True, slots=True)
class KernelJudgement:
    """What the clauses say of a kernel.

    held: how many `must` clauses hold.  failure: the first that does not.  told: in words.
    """

    held: int
    failure: Outcome | None = None
    told: str = ""


def judged(function: Callable[..., object], *, effort: Effort = Effort.QUICK, seed: int = 0) -> KernelJudgement:
    """Judge the function by every `must` clause that applies, up to the first that it violates.

    The function is called in this process, which it takes along if it crashes. Raises AttnspecError where it cannot be
    judged, since it declares what makes no sense.
    """
    target = target_of(function)
    plan = Plan((target,), effort=effort, seed=seed, in_process=(target,))
    judge, held = summon(plan), 0
    for item in distinct_items(judge):
        clause = clause_of(judge.spec, item.clause)
        if clause.level is not Level.MUST:
            continue
        with one_thread():
            outcome = pronounce(judge, item, plan=plan)
        if outcome.verdict is Verdict.NOT_RUN:
            raise TargetError(outcome.reason)
        if gates(outcome.verdict, outcome.level, strict=False):
            return KernelJudgement(held, outcome, violation(outcome, says=clause.says, where=str(clause.where)))
        held += outcome.verdict is Verdict.HELD
    return KernelJudgement(held)
