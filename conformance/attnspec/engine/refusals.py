"""What a function of one's own turns out to refuse while it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from attnspec.core.nouns import DType, Kind
from attnspec.core.targets import is_bare
from attnspec.record.outcome import Outcome
from attnspec.subjects.causes import WordedRefusal
from attnspec.subjects.exceptions import refusal_words
from attnspec.subjects.plain import case_of
from attnspec.subjects.refusals import Begun, begin
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.subjects.watching import Asking, asking


@dataclass(slots=True)
class Refusals:
    """Of one subject. What it said of plain problems is remembered, by the dtype."""

    subject: Subject
    _begun: dict[DType, Begun | None] = field(default_factory=dict)

    @property
    def is_asked(self) -> bool:
        """Whether it is a function that has no manifest, which would say what it takes."""
        return is_bare(self.subject.id) and self.subject.declaration.kind is not Kind.LAYER

    def met(self, dtype: DType) -> Callable[[SubjectRaised], tuple[WordedRefusal, ...]]:
        """For one trial: what an exception refuses. Words that were no refusal once are not asked about again."""
        failures = set[str]()

        def found(raised: SubjectRaised) -> tuple[WordedRefusal, ...]:
            if not self.is_asked or raised.asked is None or raised.gist in failures:
                return ()
            is_clear = bool(refusal_words(raised, raised.asked, home=self.subject.home))
            with asking(self.subject, Asking.TAKES):
                begun = self._at(dtype) if is_clear else None
                refused = begun.refused(case_of(raised.asked)) if begun else ()
            failures.update(() if refused else (raised.gist,))
            return refused

        return found

    def _at(self, dtype: DType) -> Begun | None:
        if dtype not in self._begun:
            self._begun[dtype] = begin(self.subject, dtype)
        return self._begun[dtype]

    def told(self, outcome: Outcome, within: Subject) -> Outcome:
        """The outcome of a trial within narrower limits, with what was found out on the way."""
        found = {name: words for name, words in within.refused.items() if name not in self.subject.refused}
        return replace(outcome, refused=found) if found else outcome
