"""How much of a clause is put to a subject at a dtype: all cases, a sample of them, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from attnspec.core.declaration import Declaration
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.engine.known_failures import listed
from attnspec.spec.clause import Clause, first_of, is_due, is_put_whole

PUT_ONCE = "it is tested at {} only; to test it at all dtypes, name them or use effort default"
"""Why a gate, or a glance, does not put a clause that does not depend on the dtype."""


@dataclass(frozen=True, slots=True)
class Portions:
    """Of one subject in a run: which dtype is its first, it says itself."""

    plan: Plan
    declaration: Declaration

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Those at which it is judged."""
        asked = self.plan.dtypes or tuple(DType)
        return tuple(dtype for dtype in self.declaration.dtypes if dtype in asked)

    def spares(self, clause: Clause, dtype: DType) -> bool:
        """Whether a glance, or a quick gate, does not put the clause at this dtype. A listed failure is looked at."""
        plan = self.plan
        if is_due(clause, dtype, plan.effort, self.dtypes, is_brief=plan.is_brief):
            return False
        is_asked = clause.id in plan.clauses or listed(self.declaration.deviations, clause.id, dtype)
        return not (plan.effort is Effort.GLANCE and is_asked)

    def why_spared(self) -> str:
        """What is said of a clause that is spared."""
        return PUT_ONCE.format(first_of(self.dtypes).value)

    def sample(self, clause: Clause, dtype: DType) -> int:
        """How many cases stand for all; 0 where all are tried. A listed failure is looked for in all."""
        is_whole = is_put_whole(clause, dtype, self.dtypes) or listed(self.declaration.deviations, clause.id, dtype)
        return 0 if is_whole else self.plan.sample
