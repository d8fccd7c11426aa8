"""A function of tensors that was handed arrays of NumPy: the likeliest reason why it raises."""

from __future__ import annotations

from types import ModuleType

from attnspec.record.outcome import Explanation
from attnspec.subjects.lifts import LIFTS
from attnspec.subjects.subject import Subject


def missing_lift(subject: Subject) -> Explanation | None:
    """What to say where a function of one's own raises on arrays, and its module imports a framework."""
    if ":" not in subject.id or subject.declaration.lift:
        return None
    name = subject.id.rpartition(":")[2]
    used = frameworks_of(subject)
    return next((Explanation(cause=f"it is handed arrays of NumPy, and its module imports {lift}",
                             advice=f"Hand it tensors, with --lift {lift}", declare=f'{name}.lift = "{lift}"')
                 for lift in LIFTS if lift in used), None)


def frameworks_of(subject: Subject) -> frozenset[str]:
    """The packages that the module of the subject's function imports by name, and the framework it is handed."""
    used = {value.__name__.partition(".")[0] for value in getattr(subject.function, "__globals__", {}).values()
            if isinstance(value, ModuleType)}
    return frozenset({subject.declaration.lift, *used} - {""})
