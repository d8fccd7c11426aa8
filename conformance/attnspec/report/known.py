"""Known and new apart: each run beside the list of known failures that it was held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from attnspec.core.nouns import Novelty, Verdict
from attnspec.record.outcome import ClauseText, Outcome
from attnspec.report.figures import SHORT
from attnspec.report.joined import Joined, JoinedRun

UNEXPLAINED = "No finding explains these."


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """A subject under a clause, at these dtypes. `says`: how it differs from what is listed; empty if it does not."""

    subject: str
    clause: ClauseText
    dtypes: str
    says: str


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """Entries of one kind: what changed in one way, or what one finding explains. `says`: that finding's words."""

    name: str
    says: str
    items: int
    entries: tuple[KnownEntry, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A run that was held against a baseline. `libraries`: name and version of those that were judged."""

    run: JoinedRun
    libraries: tuple[str, ...]
    known: tuple[KnownGroup, ...]
    changes: tuple[KnownGroup, ...]

    @property
    def baseline(self) -> str:
        """The file of known failures."""
        return self.run.record.header.baseline

    @property
    def python(self) -> str:
        """The Python that the run was made with."""
        return self.run.record.header.environment.get("python", "")

    @property
    def items(self) -> int:
        """How many known failures are as listed."""
        return sum(group.items for group in self.known)

    @property
    def tally(self) -> Mapping[str, int]:
        """How many are new, mended, changed: all three, in this order."""
        found = {group.name: group.items for group in self.changes}
        return {each.value: found.get(each.value, 0) for each in Novelty}

    @property
    def changed(self) -> int:
        """How many are so in all."""
        return sum(self.tally.values())


def held(joined: Joined) -> tuple[Held, ...]:
    """The runs that were held against a baseline."""
    clauses = {clause.id: clause for clause in joined.clauses}
    return tuple(_held(run, clauses) for run in joined.runs if run.record.header.baseline)


def _held(run: JoinedRun, clauses: Mapping[str, ClauseText]) -> Held:
    outcomes, cards = run.record.outcomes, [known.card for known in run.record.subjects]
    told = {finding.id: finding.says for card in cards for finding in card.findings}
    known: dict[str, list[Outcome]] = defaultdict(list)
    changed: dict[Novelty, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict is Verdict.EXPECTED:
            known[outcome.finding].append(outcome)
        elif outcome.change:
            changed[outcome.change.novelty].append(outcome)
    libraries = dict.fromkeys(f"{card.library or card.distribution} {card.version}".strip() for card in cards)
    return Held(
        run, tuple(filter(None, libraries)),
        tuple(_group(name, told.get(name, UNEXPLAINED), known[name], clauses)
              for name in sorted(known, key=lambda name: -len(known[name]))),
        tuple(_group(each.value, "", changed[each], clauses) for each in Novelty if each in changed))


def _group(name: str, says: str, outcomes: Sequence[Outcome], clauses: Mapping[str, ClauseText]) -> KnownGroup:
    entries = [_entry(list(group), clauses) for _, group in groupby(sorted(outcomes, key=_key), key=_key)]
    return KnownGroup(name, says, len(outcomes), tuple(entries))


def _entry(outcomes: Sequence[Outcome], clauses: Mapping[str, ClauseText]) -> KnownEntry:
    first = outcomes[0]
    says = first.change.says if first.change else ""
    return KnownEntry(first.subject, clauses[first.clause], _dtypes(outcomes), says)


def _dtypes(outcomes: Iterable[Outcome]) -> str:
    return " ".join(SHORT[each.dtype] for each in outcomes)


def _key(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.subject, outcome.clause, outcome.change.says if outcome.change else ""
