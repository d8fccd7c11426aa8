"""Smoke: five fixed inputs, before anybody takes the trouble to judge a subject."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attnspec.core.errors import AttnspecError
from attnspec.core.plan import Plan


@dataclass(frozen=True, slots=True)
class SmokedInput:
    """One input: what should happen, whether it did, and what happened instead."""

    sentence: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Smoked:
    """The lines, or why there are none.  advice: what to do where they tell; else empty."""

    lines: tuple[SmokedInput, ...] = ()
    death: str = ""
    advice: str = ""


def smoked(target: str, plan: Plan) -> Smoked:
    """The five fixed inputs. The subject lives in a process of its own, which has the plan's deadline for each."""
    from attnspec.diagnosis.advice import missing_lift  # noqa: PLC0415  (weight: NumPy)
    from attnspec.engine.summon import summon  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import smoke  # noqa: PLC0415  (weight: see above)

    try:
        subject = summon(target, replace(plan, targets=(target,)))
        lines = smoke(subject)
    except AttnspecError as problem:
        return Smoked(death=str(problem))
    lift = None if any(line.passed for line in lines) else missing_lift(subject, lines[0].detail)
    return Smoked(tuple(SmokedInput(line.sentence, line.passed, line.detail) for line in lines),
                  advice=f"{lift.advice}, or declare it: {lift.declare}" if lift else "")
