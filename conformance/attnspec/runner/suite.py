"""What the workers of the `attnspec` command collect and run: an item of pytest for each job of the plan's source.

They are no test functions: their setup and their fixtures took longer than most jobs, of which three in four say only
that a clause does not apply. `attnspec.gate` makes tests of the same items of the engine in anybody's test file.
"""

from __future__ import annotations

import functools
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnspec.core.errors import AttnspecError
from attnspec.core.plan import Job
from attnspec.record.codec import encode, to_line
from attnspec.record.outcome import SubjectCard
from attnspec.runner.jobs import CountsCompiling, JobSource

SUITE = Path(__file__)
"""The file that is handed to pytest."""


class JobItem(pytest.Item):
    """A job. Its end, the subject's card, where that has changed, and what a compiler has taken travel home in
    `user_properties`.
    """

    def __init__(self, *, job: Job, jobs: JobFile, **of_pytest: Any) -> None:  # noqa: ANN401  (pytest's own arguments)
        super().__init__(**of_pytest)
        self._job, self._jobs = job, jobs

    def runtest(self) -> None:
        """Carry out the job."""
        self.user_properties.append(("attnspec", to_line(self._jobs.source.carry_out(self._job))))
        _freeze_garbage()
        if seconds := self._jobs.newly_compiling(self._job.target):
            self.user_properties.append(("attnspec-compiling", f"{seconds:.1f}"))
        if card := self._jobs.new_card(self._job.target):
            self.user_properties.append(("attnspec-card", json.dumps(encode(card))))

    def reportinfo(self) -> tuple[Path, None, str]:
        """What a failure is headed with: it is one of attnspec's own."""
        return self.path, None, self.name


class JobFile(pytest.File):
    """All jobs of a source, as the one file that is collected."""

    def __init__(self, *, source: JobSource[Any], **of_pytest: Any) -> None:  # noqa: ANN401  (pytest's own arguments)
        super().__init__(**of_pytest)
        self.source = source
        self._sent: dict[str, SubjectCard | None] = {}  # the card of each subject, as this worker last reported it
        self._compiling: dict[str, float] = {}  # likewise

    def collect(self) -> Iterator[JobItem]:
        """One item a job, named by the job's id."""
        only = frozenset(json.loads(str(self.config.getoption("attnspec_only"))))
        for job in self.source.items():
            if not only or job.id in only:
                yield JobItem.from_parent(self, name=f"job[{job.id}]", job=job, jobs=self)

    def newly_compiling(self, target: str) -> float:
        """Seconds that a compiler has taken for the subject since this was last asked."""
        if not isinstance(self.source, CountsCompiling):
            return 0.0
        before, seconds = self._compiling.get(target, 0.0), self.source.seconds_compiling(target)
        self._compiling[target] = seconds
        return max(0.0, seconds - before)

    def new_card(self, target: str) -> SubjectCard | None:
        """The subject's card where it is new; None if it has been reported, or the subject cannot be had: its outcomes
        say why.
        """
        try:
            card = self.source.card(target)
        except AttnspecError:
            return None
        is_known = target in self._sent and self._sent[target] == card
        self._sent[target] = card
        return None if is_known else card


@functools.cache
def _freeze_garbage() -> None:
    """What the first job has imported stays: to look for garbage in it again and again took a twentieth of all time."""
    gc.freeze()
