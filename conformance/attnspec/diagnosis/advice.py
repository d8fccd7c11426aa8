"""What a finding says first where the likeliest reason is how the function is declared: tensors, a flag's default."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attnspec.host.lifts import LIFTS
from attnspec.record.outcome import Explanation, Likeness
from attnspec.subjects.signature import default_of
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
    used = subject.described.uses if subject.described else ()
    return frozenset({subject.declaration.lift, *used} - {""})


ALWAYS = "causal_always"


def causal_by_default(subject: Subject, like: Sequence[Likeness]) -> Explanation | None:
    """Of a subject that is most like one that is always causal: the default, where that is what makes it so."""
    if not like or like[0].fault != ALWAYS or not subject.described or \
            default_of(subject.described, "causal") is not True:
        return None
    name = subject.id.rpartition(":")[2]
    wrapper = "wrapped" if name == "attend" else "attend"
    is_own = ":" in subject.id
    wrap = (f", or wrap it: def {wrapper}(query, key, value, *, causal=False): "
            f"return {name}(query, key, value, causal=causal)") if is_own else ""
    return Explanation(
        cause=f"its default, causal=True, hides later keys where no flag is given (`{ALWAYS}`)",
        advice=f"Write causal=False{wrap}",
        declare=f"{name}.causal_only = True" if is_own else manifest_line(subject, "limits", {"causal_only": True}))


def manifest_line(subject: Subject, key: str, entries: Mapping[str, object]) -> str:
    """`under 'precision' of mine/attend (FILE:LINE) write: float16: {…}`. The key may be there already, with others."""
    place = f" ({subject.entry})" if subject.entry else ""
    return f"under {key!r} of {subject.id}{place} write: {', '.join(f'{k}: {_yaml(v)}' for k, v in entries.items())}"


def _yaml(value: object) -> str:
    """The value as one writes it in YAML on one line; texts are quoted as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
