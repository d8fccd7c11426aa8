"""What clauses have to say of a fault that is suspected: which keywords it needs, and whether it breaks what is held.

The matrix of the law (`spec/refutations.json`) chooses the clauses; each is then put to the subject and, in its place,
to the suspects, on the same few cases. The matrix alone would speak of another subject: one that takes every keyword.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Effort
from attnspec.diagnosis.candidate import as_candidate
from attnspec.faults.fault import Fault
from attnspec.spec.refutations import CASES, Refutations
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial

ASKED = 4
"""To so many clauses the suspects of one failure are put at most."""

PURSE = 1e8
"""What the cases of one clause may cost, in multiply-adds."""

_GIVEN_ANYHOW = frozenset(name for name, word in KEYWORDS.items() if word.acts in (Acts.ANSWER, Acts.LAYER)) | {"scale"}
"""Keywords that no fault is said to need: without them, too, there are weights, parameters and a scale."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The clauses by id, and the faults that each convicts: of one law. Both are asked for where needed."""

    checks: Callable[[], Mapping[str, Check]] = dict
    refutations: Callable[[], Refutations] = Refutations
    _needs: dict[str, frozenset[str]] = field(default_factory=dict)

    def needs(self, fault: Fault) -> frozenset[str]:
        """The keywords without which a fault does not show: what all clauses need that convict it, and the keyword that
        it gets wrong if all of them may draw it.
        """
        name = _base(fault)
        if name not in self._needs:
            own = {fault.stage} & KEYWORDS.keys()
            checks = self.checks()
            # a clause that puts every keyword beside every other says of none that it is needed
            convicting = [checks[clause] for clause in self.refutations().of_fault(name)
                          if clause in checks and checks[clause].domain.kind != "features"]
            of_clauses = [check.needs - _GIVEN_ANYHOW | own & (check.needs | check.domain.sometimes)
                          for check in convicting]
            self._needs[name] = frozenset.intersection(*of_clauses) if of_clauses else frozenset()
        return self._needs[name]

    def measure_remoteness(self, fault: Fault, check: Check, given: frozenset[str]) -> tuple[int, int]:
        """How far a fault is from what a clause is about that fails with these keywords given.

        First comes what the clause names as an example, then what it convicts: but a clause that puts every keyword
        beside every other is about none. Of these, what needs most of the keywords that were given: a case is shrunk,
        so that it would have been left without those that it does not need.
        """
        name, clause = _base(fault), check.clause
        convicted = self.refutations().convictions.get(clause.id, {})
        nearest = 0 if name in clause.refuted_by else 1 if name in convicted else 2
        is_of_one_thing = check.domain.kind != "features"
        return nearest if is_of_one_thing else 0, len(given - _GIVEN_ANYHOW - self.needs(fault))

    def may_convict(self, clause: str, fault: Fault) -> bool:
        """Whether a clause convicts a fault at some dtype, on the cases that it is put first; True of a clause that is
        none of the law's.
        """
        known = self.refutations().convictions.get(clause)
        return known is None or _base(fault) in known


@dataclass(frozen=True, slots=True)
class Witnesses:
    """What the clauses have to say of one subject. seed: of the run."""

    matrix: Matrix = field(default_factory=Matrix)
    seed: int = 0
    _fared: dict[tuple[str, DType], Tally] = field(default_factory=dict)

    def fit(self, suspects: Sequence[Fault], trial: Trial, subject: Subject) -> Mapping[str, int]:
        """Finds the suspects that break no clause which the subject holds: by name, how many that it violates each
        leaves whole.
        """
        left, missed = list(suspects), dict.fromkeys((each.name for each in suspects), 0)
        for check in self._telling_clauses(left, trial):
            fared = self._of_subject(check, trial, subject)
            if not fared.cases:
                continue
            for fault in list(left):
                candidate = as_candidate(fault, subject, trial.evaluator.conventions)
                breaks = self._try_first_cases(check, trial, candidate).failure is not None
                if breaks and fared.failure is None:
                    left.remove(fault)
                missed[fault.name] += not breaks and fared.failure is not None
        return {fault.name: missed[fault.name] for fault in left}

    def _telling_clauses(self, suspects: Sequence[Fault], trial: Trial) -> Iterator[Check]:
        """The clauses for the subject that convict some of the suspects, and first those that convict half of them; one
        of those that convict the same ones before a second.
        """
        dtype, checks = trial.evaluator.dtype, self.matrix.checks()
        convicted = {clause: frozenset(fault.name for fault in suspects if dtype in faults.get(_base(fault), ()))
                     for clause, faults in self.matrix.refutations().convictions.items() if clause in checks}
        useful = [clause for clause, those in convicted.items() if those
                  and (len(those) < len(suspects) or len(suspects) == 1) and clause != trial.check.clause.id
                  and not checks[clause].lacking(trial.evaluator.subject)]
        ranked = sorted(useful, key=lambda clause: abs(2 * len(convicted[clause]) - len(suspects)))
        each_once = {convicted[clause]: clause for clause in reversed(ranked)}.values()
        in_turn = sorted(ranked, key=lambda clause: clause not in each_once)
        yield from (checks[clause] for clause in in_turn[:ASKED])

    def _of_subject(self, check: Check, trial: Trial, subject: Subject) -> Tally:
        place = check.clause.id, trial.evaluator.dtype
        if place not in self._fared:
            self._fared[place] = self._try_first_cases(check, trial, subject)
        return self._fared[place]

    def _try_first_cases(self, check: Check, trial: Trial, subject: Subject) -> Tally:
        """What comes of the clause's first cases."""
        known = trial.evaluator
        evaluator = Evaluator(subject, known.dtype, known.conventions, archive=known.archive)
        return Trial(check, evaluator, Effort.QUICK, seed_of(self.seed, check.domain), lambda _: None, shrinks=False,
                     cases=CASES, purse=PURSE).hold()


def _base(fault: Fault) -> str:
    """The name in the catalogue of a fault with blocks of another size."""
    return fault.name.partition("@")[0]
