"""Faults and sound formulations as subjects: `fault/NAME` and `sound/NAME`."""

from __future__ import annotations

from attnspec.faults.catalogue import declaration_of, fault_named
from attnspec.ground.errors import Place
from attnspec.subjects.manifest import Library
from attnspec.subjects.subject import Subject

FAULTS = "fault/"
_LIBRARY = Library("attnspec's own faults", distribution="attnspec", homepage="")


def is_fault(target: str) -> bool:
    """Whether a target names a fault."""
    return target.startswith(FAULTS)


def fault_subject(target: str) -> Subject:
    """The fault as a subject. Raises TargetError, with the nearest name, where there is none."""
    fault = fault_named(target.removeprefix(FAULTS))
    return Subject(target, fault.story, fault.function, declaration_of(fault), Place(f"faults/{fault.stage.value}"), _LIBRARY)
