"""Known and new apart: each run beside the list of known failures that it was held against."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from attnspec.core.nouns import EXCUSED, FAILURES, Novelty, Verdict
from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import Outcome
from attnspec.report.figures import SHORT, count_noun
from attnspec.report.joined import JoinedRecords, JoinedRun

UNEXPLAINED = "No finding explains these."
Told = tuple[Outcome, str]  # with the rest of a sentence about its clause


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
class BaselineComparison:
    """A run compared with a baseline of known failures. `libraries`: name and version of those that were judged."""

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
        """How many are new, a regression, … changed: all kinds, in this order."""
        found = {group.name: group.items for group in self.changes}
        return {each.value: found.get(each.value, 0) for each in Novelty}

    @property
    def changed(self) -> int:
        """How many failures have changed in all."""
        return sum(self.tally.values())


def is_gone(outcome: Outcome) -> bool:
    """Whether an entry is no failure: a known one that is none any more, or a convention that has changed."""
    return outcome.change is not None and (bool(outcome.change.convention) or outcome.change.verdict not in FAILURES)


def but_for(outcomes: Iterable[Outcome], choices: Sequence[str] = ()) -> str:
    """What goes with "conforms": `, but for 3 known failures and 1 documented choice (torch/this)`, and what of the
    list is mended; empty if nothing does. choices: the findings of what a library documents that it does.
    """
    told = tuple(outcomes)
    known = sum(each.verdict is Verdict.EXPECTED and each.finding not in choices for each in told)
    novelties = Counter(each.change.novelty for each in told if each.change and not each.change.convention)
    unknowable = sum(novelties[each] for each in EXCUSED)
    exceptions = [count_noun(known, "known failure")] if known else []
    exceptions += [f"{count_noun(unknowable, 'failure')} that the list could not know"] if unknowable else []
    exceptions += [f"{count_noun(len(choices), 'documented choice')} ({', '.join(choices)})"] if choices else []
    exceptions_told = f", but for {' and '.join(exceptions)}" if exceptions else ""
    return f"{exceptions_told}{_good_news(novelties[Novelty.MENDED], known)}"


def _good_news(mended: int, known: int) -> str:
    """`; all 3 listed failures are mended: renew the list (--update-baseline)`; empty if nothing is mended."""
    if not mended:
        return ""
    which = count_noun(mended, "listed failure") if known or mended == 1 else f"all {mended} listed failures"
    which = f"the only {which.removeprefix('1 ')}" if mended == 1 and not known else which
    return f"; {which} {'is' if mended == 1 else 'are'} mended: renew the list (--update-baseline)"


def compared_runs(joined: JoinedRecords) -> tuple[BaselineComparison, ...]:
    """The runs that were held against a baseline."""
    clauses = {clause.id: clause for clause in joined.clauses}
    return tuple(_compare_with_baseline(run, clauses) for run in joined.runs if run.record.header.baseline)


def _compare_with_baseline(run: JoinedRun, clauses: Mapping[str, ClauseText]) -> BaselineComparison:
    outcomes, cards = run.record.outcomes, [known.card for known in run.record.subjects]
    told = {finding.id: finding.says for card in cards for finding in card.findings}
    known: dict[str, list[Outcome]] = defaultdict(list)
    changed: dict[Novelty, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict is Verdict.EXPECTED:
            known[outcome.finding].append(outcome)
        elif outcome.change:
            changed[outcome.change.novelty].append(outcome)
    libraries = dict.fromkeys(card.release for card in cards)
    return BaselineComparison(
        run, tuple(filter(None, libraries)),
        tuple(group_of(name, told.get(name, UNEXPLAINED), _told_outcomes(known[name]), clauses)
              for name in sorted(known, key=lambda name: -len(known[name]))),
        tuple(group_of(each.value, "", _told_outcomes(changed[each]), clauses) for each in Novelty if each in changed))


def _told_outcomes(outcomes: Iterable[Outcome]) -> list[Told]:
    return [(outcome, outcome.change.says if outcome.change else "") for outcome in outcomes]


def group_of(name: str, says: str, told: Sequence[Told], clauses: Mapping[str, ClauseText]) -> KnownGroup:
    """A group of outcomes, each with what is said of it: one entry a subject, a clause and what is said."""
    entries = [_entry(list(group), clauses) for _, group in groupby(sorted(told, key=_key), key=_key)]
    return KnownGroup(name, says, len(told), tuple(entries))


def _entry(told: Sequence[Told], clauses: Mapping[str, ClauseText]) -> KnownEntry:
    first, says = told[0]
    return KnownEntry(first.subject, clauses[first.clause], " ".join(SHORT[each.dtype] for each, _ in told), says)


def _key(told: Told) -> tuple[str, str, str]:
    outcome, says = told
    return outcome.subject, outcome.clause, says
