"""Lists all faults, the clauses that each is put to, and what is declared of a target.

Every command loads it, so it imports NumPy only when it is asked, and no code of a subject.
"""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.core.declaration import Declaration
from attnspec.core.plan import is_own
from attnspec.faults.size_family import SEEDED
from attnspec.spec.clause import Refutations, Spec, known_faults, witnesses
from attnspec.subjects.manifest import Registered


def all_faults(law: Spec, found: Refutations) -> tuple[str, ...]:
    """Every fault that a clause names or convicts, and every family of sizes, sorted."""
    from attnspec.faults.sizes.families import FAMILIES  # noqa: PLC0415  (weight: NumPy)

    return tuple(sorted({*known_faults(law, found), *FAMILIES}))


def clauses_for(law: Spec, found: Refutations, fault: str) -> tuple[str, ...]:
    """The clauses that a fault is put to by default, in the order of the spec.

    A family of sizes names them itself, whatever its seed: a few cases at a few sizes would not
    tell which clauses convict it.
    """
    from attnspec.faults.sizes.families import FAMILIES  # noqa: PLC0415  (weight: NumPy)

    family = FAMILIES.get(fault.partition(SEEDED)[0])
    if family is None:
        return witnesses(law, found, fault)
    return tuple(clause.id for clause in law.clauses if clause.id in family.clauses)


def declaration_of_target(target: str, known: Mapping[str, Registered]) -> Declaration:
    """The declaration of a target; one that declares nothing for a bare function."""
    if is_own(target):
        from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)

        return own_subject(target).declaration
    return known[target].as_installed.declaration if target in known else Declaration()
