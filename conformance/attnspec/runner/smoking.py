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
    """The lines, or why there are none."""

    lines: tuple[SmokedInput, ...] = ()
    death: str = ""


def smoked(target: str, plan: Plan) -> Smoked:
    """The five fixed inputs. The subject lives in a process of its own, which has the plan's deadline for each."""
    from attnspec.engine.summon import summon  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import smoke  # noqa: PLC0415  (weight: see above)

    try:
        lines = smoke(summon(target, replace(plan, targets=(target,))))
    except AttnspecError as problem:
        return Smoked(death=str(problem))
    return Smoked(tuple(SmokedInput(line.sentence, line.passed, line.detail) for line in lines))
