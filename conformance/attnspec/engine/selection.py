"""What a plan asks for by name, and what is said where there is nothing of that name."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence

from attnspec.core.compiling import SECONDS
from attnspec.core.errors import LISTINGS, UsageError, near_misses, quoted
from attnspec.core.made_variants import AS_DECLARED
from attnspec.core.plan import Plan
from attnspec.spec.clause import hint_of_theme, themes_of
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
    return SECONDS[plan.effort] < math.inf and not (is_named or is_compared)


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
