"""Whether clauses of one's own detect the faults that they name, and hold of what is right: the spec's are put to both
by its tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from attnspec.core.errors import SpecError
from attnspec.core.nouns import DType, Level
from attnspec.core.plan import FAULT, SOUND
from attnspec.faults.size_family import SEEDED
from attnspec.faults.sizes.families import FAMILIES
from attnspec.spec.clause import Clause, Spec
from attnspec.spec.refutations import CASES, EFFORT, SEED

if TYPE_CHECKING:
    from attnspec.trials.compile import Check


def of_own_clauses(law: Spec) -> Iterator[SpecError]:
    """What is wrong with clauses of one's own that mean something."""
    own = [clause for clause in law.clauses if clause.where.file in law.added]
    checks = _checks(law) if own else {}
    yield from _false(own, checks)
    yield from _undetected(own, checks)


def _undetected(own: Iterable[Clause], checks: Mapping[str, Check]) -> Iterator[SpecError]:
    """A fault that an own clause names and that violates it at no dtype. Faults whose sizes a seed draws are not tried:
    the first cases do not show them.
    """
    named = [(clause, fault) for clause in own for fault in clause.refuted_by
             if fault.partition(SEEDED)[0] not in FAMILIES]
    for clause, fault in named:
        if why := _why_not(checks, clause.id, fault):
            yield SpecError(f"{clause.id!r} does not detect {fault!r}, which it names: {why}. Name one that it does: "
                            f"attnspec check 'fault/*' --spec-add {clause.where.file} --clause {clause.id} tells.",
                            where=clause.place_of("refuted_by"))


def _false(own: Iterable[Clause], checks: Mapping[str, Check]) -> Iterator[SpecError]:
    """An own `must` clause that a sound formulation violates: it would accuse whoever is right."""
    for clause in own:
        if clause.level is Level.MUST and (sound := _accused(checks, clause.id)):
            yield SpecError(f"{clause.id!r} is false: {SOUND}{sound}, whose answers are right by the definition, "
                            f"violates it. Mend it, or say under `given` where it holds: attnspec check {SOUND}{sound} "
                            f"--spec-add {clause.where.file} --clause {clause.id} shows a case.", where=clause.where)


def _accused(checks: Mapping[str, Check], clause: str) -> str:
    """The sound formulation, the first that the clause can be put to, if it violates the clause; else empty."""
    from attnspec.faults.sound import EVERY  # noqa: PLC0415  (weight: NumPy)
    from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.dealer import Dealer  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.own_subjects import try_first_cases  # noqa: PLC0415  (weight: NumPy)

    check, dtype = checks[clause], DType.FLOAT32
    for name in EVERY:
        subject = own_subject(SOUND + name)
        if not check.lacking(subject):
            tally = try_first_cases(check, SOUND + name, dtype, Dealer(subject, lambda: checks, EFFORT, SEED))
            return name if tally.failure is not None else ""
    return ""


def _checks(law: Spec) -> Mapping[str, Check]:
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: NumPy)

    return compile_spec(law, faults=CATALOGUE.keys())


def _why_not(checks: Mapping[str, Check], clause: str, fault: str) -> str:
    """Why the clause does not detect the fault; empty if it does."""
    from attnspec.faults.catalogue import fault_named  # noqa: PLC0415  (weight: NumPy)
    from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.dealer import Dealer  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.own_subjects import try_first_cases  # noqa: PLC0415  (weight: NumPy)

    subject, check = own_subject(FAULT + fault), checks[clause]
    if lacking := check.lacking(subject):
        return f"it cannot be put to it ({lacking})"
    dealer = Dealer(subject, lambda: checks, EFFORT, SEED)
    dtypes = (dtype for dtype in DType if dtype not in fault_named(fault).equivalents)
    tallies = (try_first_cases(check, FAULT + fault, dtype, dealer) for dtype in dtypes)
    return "" if any(tally.failure is not None for tally in tallies) else f"its first {CASES} cases hold at every dtype"
