"""How soon the suite convicts a subject: on the very cases that `attnspec check` would try, and no more than needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.court.bench import Archive, SubjectBench
from attnspec.court.compile import Check
from attnspec.court.due import is_due
from attnspec.court.openings import seed_of
from attnspec.court.tally import Tally, Violated
from attnspec.court.trial import Trial
from attnspec.faults.subject import is_fault, own_subject
from attnspec.ground.nouns import DType, Effort, Level
from attnspec.problems.recipe import Recipe
from attnspec.record.power import SUITE, Conviction
from attnspec.subjects.subject import Subject


@dataclass(frozen=True, slots=True)
class Found:
    """The suite's conviction of a subject, and what it rests on: a clause and the recipe of the case; None if none."""

    conviction: Conviction
    check: Check | None = None
    recipe: Recipe | None = None


def convict(subject: Subject, dtype: DType, *, checks: Mapping[str, Check], effort: Effort, seed: int,
            first: Sequence[str] = (), archive: Archive | None = None) -> Found:
    """The smallest number of cases in which a clause convicts the subject, among the clauses that may.

    checks: the law, in its own order.  first: the clauses to begin with; those that name the fault. They convict at
    any level, all others only where they say `must`.  Once a clause has convicted in k cases, the others are tried on
    k - 1, so that the search ends at the first clause that convicts in one. Cases are counted whether or not they lay
    in the domain of the bound. Where nothing convicts, `cases` is what the most patient clause tried.
    archive: what is known of the problems, for subjects of one class and convention to share.
    """
    dock = _Dock(subject, dtype, archive or Archive())
    best, most, problems, patience = Found(Conviction(SUITE, convicted=False, cases=0)), 0, 0, 0
    for check in _in_order(checks, first, subject):
        if not is_due(check.clause, dtype, effort, tuple(DType)):
            continue
        trial = Trial(check, dock.bench(), effort, seed_of(seed, check.domain), lambda _: None, shrinks=False,
                      most=most)
        tally = trial.hold()
        problems, patience = problems + tally.tried, max(patience, tally.tried)
        if tally.failure is not None:
            best, most = _found(check, tally), tally.tried - 1
            if not most:
                break
    return _counted(best, problems, patience)


def _in_order(checks: Mapping[str, Check], first: Sequence[str], subject: Subject) -> Iterator[Check]:
    rest = (name for name, check in checks.items() if name not in first and check.clause.level is Level.MUST)
    for name in (*first, *rest):
        if not checks[name].lacking(subject):
            yield checks[name]


@dataclass(frozen=True, slots=True)
class _Dock:
    """Where the subject stands: what the clauses have in common is worked out once."""

    subject: Subject
    dtype: DType
    archive: Archive
    _benches: list[SubjectBench] = field(default_factory=list)

    def bench(self) -> SubjectBench:
        """For the next clause. A fault is made anew: what one clause asked of one with a memory must not serve it."""
        if is_fault(self.subject.id):
            return SubjectBench(own_subject(self.subject.id), self.dtype, archive=self.archive)
        if not self._benches:
            self._benches.append(SubjectBench(self.subject, self.dtype, archive=self.archive))
        return self._benches[0]


def _found(check: Check, tally: Tally) -> Found:
    sentence = tally.failure.measured.sentence if isinstance(tally.failure, Violated) else str(tally.failure)
    conviction = Conviction(SUITE, convicted=True, cases=tally.tried, clause=check.clause.id,
                            instrument=check.instrument, sentence=sentence)
    return Found(conviction, check, tally.failing)


def _counted(found: Found, problems: int, patience: int) -> Found:
    was = found.conviction
    cases = was.cases if was.convicted else patience
    return replace(found, conviction=replace(was, cases=cases, problems=problems))
