"""What may carry out the jobs of a run elsewhere: a session needs to know no more of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attnspec.core.plan import Job, Plan
from attnspec.runner.listener import Listener


class Carrier(Protocol):
    """Other processes, on whatever machines. The listener is told what came of each job, and of an interruption."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the header of a record says of where the jobs are carried out."""

    def carry_out(self, listener: Listener, plan: Plan, source: str, jobs: Sequence[Job]) -> None:
        """Have every job of this source of jobs done. Raises AttnspecError where nothing can be begun."""
