"""Whether it is the default of a flag that breaks a clause: then a finding says so, and how to change or declare it."""

from __future__ import annotations

from collections.abc import Sequence

from attnspec.record.outcome import Explanation, Likeness
from attnspec.subjects.signature import default_of
from attnspec.subjects.subject import Subject

ALWAYS = "causal_always"


def causal_by_default(subject: Subject, like: Sequence[Likeness]) -> Explanation | None:
    """Of a subject that is most like one that is always causal: the default, where that is what makes it so."""
    if not like or like[0].fault != ALWAYS or default_of(subject.function, "causal") is not True:
        return None
    name = subject.id.rpartition(":")[2]
    wrapper = "wrapped" if name == "attend" else "attend"
    is_own = ":" in subject.id
    wrap = (f", or wrap it: def {wrapper}(query, key, value, *, causal=False): "
            f"return {name}(query, key, value, causal=causal)") if is_own else ""
    return Explanation(
        cause=f"its default, causal=True, hides later keys where no flag is given (`{ALWAYS}`)",
        advice=f"Write causal=False{wrap}",
        declare=f"{name}.causal_only = True" if is_own else "limits: {causal_only: true}")
