"""How one of many kernels fared: a line of a ranking."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

RANK = "rank"
"""The part of a kernel that is on trial: all of it."""


class KernelStanding(enum.Enum):
    """The verdict on a kernel as a whole. NOT_JUDGED: it could not be had, or nothing applied to it."""

    CONFORMS = "conforms"
    VIOLATED = "violated"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first `must` clause that failed, and what is known of that failure.

    seen: what went wrong, in a sentence.  cause: what is likely behind it; "" where nobody knows.  fault: the fault of
    the catalogue that it is like, if it is like one.  boundary: at which sizes it fails, and beside which it holds.
    repeat: the command that repeats the case.
    """

    clause: str
    dtype: str
    seen: str = ""
    cause: str = ""
    fault: str = ""
    boundary: str = ""
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class KernelRanked:
    """One kernel was judged.

    score: the share of applicable `must` clauses that held at every dtype; what was dropped before its turn did not.
    held, failed, untried: how many of these clauses did so, did not, and were dropped.  failing: those that failed.
    first: the first of them.  margin, closest: the largest gap as a share of what is allowed, and on which clause and
    dtype.  grade: by dtype, how precise it is.  refused: what it refuses, and so is not judged on.  death: how its
    process ended, if it did.  stopped: why clauses were dropped.  reason: why it could not be judged.  digest: of its
    file, to tell whether it has changed since.  lost: what went wrong with attnspec itself.
    """

    subject: str
    verdict: KernelStanding
    score: float = 0.0
    held: int = 0
    failed: int = 0
    untried: int = 0
    failing: tuple[str, ...] = ()
    first: FirstFailure | None = None
    margin: float = 0.0
    closest: str = ""
    grade: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    seconds: float = 0.0
    death: str = ""
    stopped: str = ""
    reason: str = ""
    digest: str = ""
    lost: str = ""

    @property
    def part(self) -> str:
        """What of the subject this is."""
        return RANK
