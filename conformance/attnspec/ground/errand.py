"""What a run carries out one by one, and what is known of one that came to nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from attnspec.ground.nouns import Verdict


class Errand(Protocol):
    """One thing to do in a worker. Errands are hashable; `id` is unique in a run.

    target: the subject.  part: what of it is on trial (a clause, a seed, a block of cases).
    """

    @property
    def id(self) -> str:
        """The errand's name in pytest's ids and in messages."""

    @property
    def target(self) -> str:
        """The id of the subject."""

    @property
    def part(self) -> str:
        """What tells the errand from the others of its subject and dtype."""

    @property
    def dtype(self) -> str:
        """The name of the number format."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why an errand has no result of its own: the worker died at it (CRASHED, TIMED_OUT), or it was NOT_RUN.

    recipe: the case on trial when the worker died.  traceback, stderr: what the worker left behind.
    """

    reason: str
    verdict: Verdict = Verdict.NOT_RUN
    recipe: str = ""
    traceback: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a run comes to: how often each thing happened, and the exit code."""

    exit_code: int
    counts: Mapping[str, int] = field(default_factory=dict)
