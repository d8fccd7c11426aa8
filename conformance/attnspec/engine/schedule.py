"""Which clauses are due at which dtype: all of them, but at a glance and in a gate that looks at all dtypes quickly.

What a library does with masks, heads and keywords it does at every dtype; what depends on the dtype is how it rounds,
where it overflows, and whether the constant that hides a key is low enough. So a glance puts every clause at one dtype,
float32 where it is offered, and at the others those whose `glance` in YAML is "every dtype". So does a gate, which
runs in one process beside somebody's other tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnspec.core.nouns import DType, Effort
from attnspec.spec.clause import Clause, Glance


def first_of(dtypes: Sequence[DType]) -> DType:
    """The dtype at which every clause is put."""
    return DType.FLOAT32 if DType.FLOAT32 in dtypes else dtypes[0]


def is_due(clause: Clause, dtype: DType, effort: Effort, dtypes: Sequence[DType], *, is_brief: bool = False) -> bool:
    """Whether a clause is put at this dtype to a subject that is judged at these.

    is_brief: further dtypes are put what depends on the dtype, whatever the effort.
    """
    is_whole = effort is not Effort.GLANCE and not is_brief
    if is_whole or dtype not in dtypes or dtype is first_of(dtypes):
        return True
    return clause.glance is Glance.EVERY_DTYPE
