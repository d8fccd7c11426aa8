"""Which clauses are due at which dtype: all of them, but at a glance.

What a library does with masks, heads and keywords it does at every dtype; what depends on the dtype is how it rounds,
where it overflows, and whether the constant that hides a key is low enough. So a glance puts every clause at one dtype,
float32 where it is offered, and at the others those that speak of numbers, and the definitions with all keywords.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnspec.ground.nouns import DType, Effort
from attnspec.law.clause import Clause

_THEMES = frozenset({"numerics", "drift"})
_PLACES = frozenset({"definition", "weights_definition", "typical_error"})
"""What a clause is called within its theme."""
_CLAUSES = frozenset({
    "attention.shape", "attention.dtype", "attention.finite", "scale.saturation", "masking.constant_is_low_enough",
    "masking.hidden_weight_is_zero", "purity.strided_inputs"})


def first_of(dtypes: Sequence[DType]) -> DType:
    """The dtype at which every clause is put."""
    return DType.FLOAT32 if DType.FLOAT32 in dtypes else dtypes[0]


def is_due(clause: Clause, dtype: DType, effort: Effort, dtypes: Sequence[DType]) -> bool:
    """Whether a clause is put at this dtype to a subject that is judged at these."""
    if effort is not Effort.GLANCE or dtype not in dtypes or dtype is first_of(dtypes):
        return True
    theme, _, place = clause.id.partition(".")
    return theme in _THEMES or place in _PLACES or clause.id in _CLAUSES
