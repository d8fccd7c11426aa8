"""The sizes that clauses are dealt on a subject: each its part, among all clauses of the law that can be put to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attnspec.core.declaration import Limits
from attnspec.core.made_variants import POOL as MADE
from attnspec.core.made_variants import SHAPES
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.problems.demand import Demand
from attnspec.problems.problem import Sizes
from attnspec.problems.size_plan import SizePlan, plan_for
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import FIXED_KINDS

COMPILED = SHAPES
"""Variants that compile are put the first cases of a trial: so many. In these all keywords stand together once and each
alone once, at sizes that clauses share; what comes later is put to other variants.
"""


@dataclass
class Dealer:
    """Deals sizes to the clauses that one subject is put. checks: the law, asked for when it is needed.  hurries:
    whether compilers have little time.
    """

    subject: Subject
    checks: Callable[[], Mapping[str, Check]]
    effort: Effort
    seed: int
    hurries: bool = False
    _demands: tuple[Demand, ...] | None = field(default=None, repr=False)

    def shapes(self, check: Check, dtype: DType, limits: Limits | None = None) -> tuple[Sizes, ...] | None:
        """The clause's sizes at a dtype; None where its kind of problem brings its own. A clause of another law is
        dealt them alone.  limits: within which they lie; None: those that the subject declares.
        """
        if check.domain.kind in FIXED_KINDS:
            return None
        demand = check.demand(projects=self._projects)
        pool = tuple(each for each in self.demands if each.pool == demand.pool)
        demands = pool if demand in pool else (demand,)
        return self._plan(demands, dtype, limits or self.subject.declaration.limits).rows(demand)

    @property
    def demands(self) -> tuple[Demand, ...]:
        """What all clauses ask of sizes that search for cases and can be put to the subject."""
        if self._demands is None:
            put = (check for check in self.checks().values()
                   if check.domain.kind not in FIXED_KINDS and not check.lacking(self.subject))
            self._demands = tuple(dict.fromkeys(check.demand(projects=self._projects) for check in put))
        return self._demands

    def _plan(self, demands: tuple[Demand, ...], dtype: DType, limits: Limits) -> SizePlan:
        declared = self.subject.declaration
        is_shared = declared.has_compiled_variant or demands[0].pool == MADE
        flipped = COMPILED if is_shared else 0
        return plan_for(demands, limits, self.effort, self.seed, dtype, compiles=declared.is_compiled,
                        flipped=flipped, blocks=tuple(declared.blocks.items()), hurries=self.hurries)

    @property
    def _projects(self) -> bool:
        return self.subject.declaration.kind is Kind.LAYER
