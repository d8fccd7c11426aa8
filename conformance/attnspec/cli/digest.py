"""What the console knows of a run so far: the events, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.ground.nouns import FAILURES, Verdict, gates
from attnspec.record.events import Event, ItemFinished, ItemStarted, RunFinished, RunStarted, SubjectKnown
from attnspec.record.outcome import Outcome
from attnspec.record.probed import Found, SubjectProbed

ALARMING = FAILURES | {Verdict.UNEXPECTED}


@dataclass(slots=True)
class Digest:
    """`on_trial` are the items that workers have taken up and not finished, oldest first."""

    header: RunStarted | None = None
    footer: RunFinished | None = None
    cards: dict[str, SubjectKnown] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    on_trial: dict[tuple[str, str, str], ItemStarted] = field(default_factory=dict)
    counts: dict[str, Counter[Verdict]] = field(default_factory=dict)
    probes: list[SubjectProbed] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Take an event into account."""
        match event:
            case RunStarted():
                self.header = event
                self.counts = {subject: Counter() for subject in event.planned}
            case SubjectKnown():
                self.cards[event.card.id] = event
            case ItemStarted():
                self.on_trial[event.subject, event.clause, event.dtype] = event
            case ItemFinished():
                self._finish(event.outcome)
            case SubjectProbed():
                self.on_trial.pop((event.subject, event.part, event.dtype.value), None)
                self.probes.append(event)
            case RunFinished():
                self.footer = event

    def _finish(self, outcome: Outcome) -> None:
        self.on_trial.pop((outcome.subject, outcome.clause, outcome.dtype.value), None)
        self.outcomes.append(outcome)
        self.counts.setdefault(outcome.subject, Counter())[outcome.verdict] += 1

    def planned(self, subject: str) -> int:
        """How many items the subject has in this run."""
        return self.header.planned.get(subject, 0) if self.header else 0

    def done(self, subject: str) -> int:
        """How many of them are finished."""
        return self.counts[subject].total() + sum(probe.subject == subject for probe in self.probes)

    @property
    def contradictions(self) -> list[tuple[SubjectProbed, Found]]:
        """What was found against what a manifest claims."""
        return [(probe, found) for probe in self.probes for found in probe.found if found.is_contradiction]

    def gates(self, outcome: Outcome) -> bool:
        """Whether the outcome makes the exit code 1 in this run."""
        return gates(outcome.verdict, outcome.level, strict=bool(self.header and self.header.strict))

    def clause(self, name: str) -> Mapping[str, object]:
        """What the header says of a clause."""
        clauses = self.header.clauses if self.header else ()
        return next((clause for clause in clauses if clause["id"] == name), {})
