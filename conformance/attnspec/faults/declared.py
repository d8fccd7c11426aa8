"""What is declared of a target, whoever it is; finding that out loads nobody else's code."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.core.declaration import Declaration
from attnspec.core.plan import is_own
from attnspec.subjects.manifest import Registered


def declaration_of(target: str, known: Mapping[str, Registered]) -> Declaration:
    """Of a fault or a sound formulation its own, of a registered subject its manifest's; of a bare function nothing."""
    if is_own(target):
        from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)

        return own_subject(target).declaration
    return known[target].as_installed.declaration if target in known else Declaration()
