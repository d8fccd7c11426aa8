"""Where subjects are probed: in a worker, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import summon
from attnspec.probing.probe import probe
from attnspec.probing.subjects import first
from attnspec.record.measurements import Found, SubjectProbed
from attnspec.subjects.subject import Subject

Note = Callable[[Sequence[Found], str, str], None]
"""Takes what is found so far, and the name and text of the next question."""


class ProbeWorker:
    """Remembers the subjects that it has loaded."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._subjects: dict[str, Subject] = {}

    def subject(self, target: str) -> Subject:
        """The subject of this name. Raises AttnspecError where it cannot be had."""
        if target not in self._subjects:
            self._subjects[target] = summon(target, self._plan)
        return self._subjects[target]

    def probe(self, target: str, variant: str, dtype: DType, note: Note) -> SubjectProbed:
        """All that is found out at this dtype; nothing where the subject does not support it."""
        began = time.perf_counter()
        base = self.subject(target)
        subject = base.variant(variant) if variant else base
        found: list[Found] = []
        if dtype in subject.declaration.dtypes:
            is_first = dtype is first(base.declaration, self._plan)
            is_brief = self._plan.effort is Effort.GLANCE
            for step in probe(subject, dtype, base=base if variant else None, whole=is_first, brief=is_brief):
                note(found, step.name, step.asks)
                found += filter(None, [step.take()])
        seconds = round(time.perf_counter() - began, 3)
        return SubjectProbed(target, variant, dtype, tuple(found), seconds)
