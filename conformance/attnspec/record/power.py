"""How each rule of judgement fared on one subject whose answer is known: a fault, or a sound formulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attnspec.ground.nouns import DType

SUITE = "attnspec"
"""The name under which the suite itself stands among the rules."""


@dataclass(frozen=True, slots=True)
class Conviction:
    """One rule on one subject at one seed.

    convicted: whether the rule called the subject wrong.  cases: how many cases it took; where it did not, how many
    were tried. For the suite a case is one problem put to one clause, and `cases` counts those of the clause that
    convicted soonest; `problems` counts every problem of every clause that was tried before, in the suite's own order.
    sentence: what was seen, kept where a sound subject is accused.
    """

    BRIEF: ClassVar[bool] = True

    rule: str
    convicted: bool = False
    cases: int = 0
    problems: int = 0
    clause: str = ""
    instrument: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class SubjectPut:
    """A subject was put to the rules. `fault`: whether it is wrong; `equivalent`: why it cannot be told apart here.

    named: what the diagnosis says first of the suite's counterexample: the name of a fault, or "" for none.
    like: the other faults that explain it as well.  undiagnosed: nobody asked for a diagnosis.
    """

    BRIEF: ClassVar[bool] = True

    subject: str
    dtype: DType
    seed: int
    is_fault: bool
    stage: str
    equivalent: str = ""
    convictions: tuple[Conviction, ...] = ()
    named: str = ""
    like: tuple[str, ...] = ()
    undiagnosed: bool = False
    seconds: float = 0.0
    lost: str = ""

    @property
    def part(self) -> str:
        """What tells this event from the others of its subject and dtype."""
        return part_of_seed(self.seed)


def part_of_seed(seed: int) -> str:
    """`seed 3`."""
    return f"seed {seed}"
