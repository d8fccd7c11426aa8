"""Smoke in a process of its own: a subject that crashes or hangs must not take the command with it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace

from attnspec.core.errors import AttnspecError
from attnspec.core.plan import Plan
from attnspec.record.codec import decode, encode
from attnspec.runner.child import apart
from attnspec.runner.jobs import plan_text
from attnspec.subjects.registry import process_of


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


def smoke_apart(target: str, plan: Plan) -> Smoked:
    """The five fixed inputs, in a child process that has the plan's deadline."""
    process = process_of(target, plan.implementations)
    answer = apart(__name__, plan_text(replace(plan, targets=(target,))), deadline=plan.deadline, process=process)
    return Smoked(death=answer.death) if answer.death else decode(Smoked, json.loads(answer.line))


def _smoke(plan: Plan) -> Smoked:
    from attnspec.engine.subject_run import summon  # noqa: PLC0415  (weight: only the child needs the subject)
    from attnspec.subjects.smoke import smoke  # noqa: PLC0415  (weight: see above)

    try:
        subject = summon(plan.targets[0], plan)
    except AttnspecError as problem:
        return Smoked(death=str(problem))
    return Smoked(tuple(SmokedInput(line.sentence, line.passed, line.detail) for line in smoke(subject)))


def main() -> None:
    """The child."""
    smoked = _smoke(decode(Plan, json.loads(sys.argv[1])))
    sys.stdout.write("\n" + json.dumps(encode(smoked)) + "\n")


if __name__ == "__main__":
    main()
