"""Which clauses a fault is put to, and which faults there are. Every command loads it: NumPy comes when it is asked."""

from __future__ import annotations

from attnspec.faults.size_family import SEEDED
from attnspec.spec.clause import Spec
from attnspec.spec.refutations import Refutations, known_faults, witnesses


def all_faults(law: Spec, found: Refutations) -> tuple[str, ...]:
    """Every fault that a clause names or convicts, and every family of sizes, by the alphabet."""
    from attnspec.faults.sizes.families import FAMILIES  # noqa: PLC0415  (weight: NumPy)

    return tuple(sorted({*known_faults(law, found), *FAMILIES}))


def clauses_for(law: Spec, found: Refutations, fault: str) -> tuple[str, ...]:
    """The clauses that a fault is put to unless others are asked for, in the order of the law.

    A family of sizes says so itself, whatever its seed: a few cases at a few sizes would not tell which convict it.
    """
    from attnspec.faults.sizes.families import FAMILIES  # noqa: PLC0415  (weight: NumPy)

    family = FAMILIES.get(fault.partition(SEEDED)[0])
    if family is None:
        return witnesses(law, found, fault)
    return tuple(clause.id for clause in law.clauses if clause.id in family.clauses)
