"""What a plan asks for by name, and how much of a clause is put at a dtype: all cases, a sample of them, or nothing."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.declaration import Declaration
from attnspec.core.effort import EFFORTS
from attnspec.core.errors import LISTINGS, UsageError, near_misses, quoted
from attnspec.core.forms import AS_DECLARED
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import GRADIENTS_ONCE, NOT_AT_FLOAT64, PUT_ONCE, Plan
from attnspec.engine.known_failures import find_deviation
from attnspec.spec.clause import Clause, first_of, hint_of_theme, is_due, is_put_whole, themes_of
from attnspec.spec.load import OWN
from attnspec.subjects.manifest import Registered


def match_ids(patterns: Sequence[str], ids: Sequence[str]) -> frozenset[str]:
    """The ids that are asked for by name or by pattern (`causal.*`). Raises UsageError where one fits none."""
    for pattern in patterns:
        if not fnmatch.filter(ids, pattern):
            raise no_clause(pattern, [*ids, *themes_of(ids)])
    return frozenset(name for pattern in patterns for name in fnmatch.filter(ids, pattern))


def is_hurried(plan: Plan) -> bool:
    """Whether compilers have little time. Everything is put of clauses, profiles or sizes that somebody names, in an
    audit, and where a run is held against others.
    """
    is_named = plan.clauses or plan.narrowing or plan.sizes
    is_compared = plan.variants == (AS_DECLARED,) or plan.baseline or plan.diagnosed
    return EFFORTS[plan.effort].compiling < math.inf and not (is_named or is_compared)


def no_clause(name: str, known: Sequence[str]) -> UsageError:
    """Makes the error that there is no such clause; if its theme is like none that there is, it says where to look."""
    theme, dot, _ = name.partition(".")
    if of_theme := hint_of_theme(name, known):
        return UsageError(f"{quoted(name)} is not a known clause.{of_theme} `{LISTINGS['clause']}` names them all.")
    is_bare = dot and not near_misses(theme, sorted({each.partition(".")[0] for each in known}))
    return UsageError(f"{UsageError.unknown('clause', name, known)}{OWN if is_bare else ''}")


def check_known(kind: str, names: tuple[str, ...], known: Mapping[str, object] | list[str]) -> None:
    """Raise UsageError for a name that there is not."""
    for name in names:
        if name not in known:
            raise UsageError.unknown(kind, name, known)


def no_dtype(plan: Plan, known: Mapping[str, Registered | None]) -> UsageError:
    """Makes the error that no subject takes a dtype that was asked for, and says which those that were named take."""
    takes = {target: found.declaration.dtypes for target, found in known.items() if found}
    told = "; ".join(f"{target} takes {', '.join(each.value for each in dtypes)}" for target, dtypes in takes.items())
    return UsageError(f"nothing is tested at {' and '.join(each.value for each in plan.dtypes)}: {told}.")


# How much of a clause is put


@dataclass(frozen=True, slots=True)
class Portions:
    """Says how much of a clause is put to one subject in a run: which dtype is its first, it says itself.

    samples_gradients: a sample of the cases of clauses about gradients is tried, at the first dtype alone.
    """

    plan: Plan
    declaration: Declaration
    samples_gradients: bool = False

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes at which the subject is judged."""
        asked = self.plan.dtypes or tuple(DType)
        return tuple(dtype for dtype in self.declaration.dtypes if dtype in asked)

    def spares(self, clause: Clause, dtype: DType) -> bool:
        """Whether a glance, or effort quick at float64, does not put the clause at this dtype, or it is about gradients
        that are sampled at another one. A listed failure is looked at.
        """
        plan, is_seldom = self.plan, self._is_seldom(dtype)
        if self._samples(clause) and dtype is not first_of(self.dtypes):
            return not find_deviation(self.declaration.deviations, clause.id, dtype)
        if is_due(clause, dtype, plan.effort, self.dtypes, is_brief=is_seldom):
            return False
        is_asked = clause.id in plan.clauses or find_deviation(self.declaration.deviations, clause.id, dtype)
        return not ((plan.effort is Effort.GLANCE or is_seldom) and is_asked)

    def _is_seldom(self, dtype: DType) -> bool:
        """Whether a quick run spends no sample on the dtype: the truth for float64 costs most, and is needed least."""
        plan = self.plan
        is_quick = plan.effort is Effort.QUICK and bool(plan.sample)
        return is_quick and dtype not in self.declaration.main_dtypes

    def _samples(self, clause: Clause) -> bool:
        return self.samples_gradients and GRAD in clause.needs

    def why_spared(self, clause: Clause, dtype: DType) -> str:
        """What is said of a clause that is spared at a dtype."""
        if self._samples(clause):
            return GRADIENTS_ONCE.format(first_of(self.dtypes).value)
        return NOT_AT_FLOAT64 if self._is_seldom(dtype) else PUT_ONCE.format(first_of(self.dtypes).value)

    def is_further(self, dtype: DType) -> bool:
        """Whether samples are tried at this dtype, if anything is sampled in this run."""
        return bool(self.plan.sample) and dtype is not first_of(self.dtypes)

    def sample(self, clause: Clause, dtype: DType) -> int:
        """How many cases stand for all; 0 where all are tried. A listed failure is looked for in all."""
        if find_deviation(self.declaration.deviations, clause.id, dtype):
            return 0
        if self._samples(clause):
            return EFFORTS[self.plan.effort].sample
        return 0 if is_put_whole(clause, dtype, self.dtypes) else self.plan.sample
