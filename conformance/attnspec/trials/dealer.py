"""The sizes at which a clause is tried: those that it is dealt, and those that a user names.

Each clause is dealt its part of a subject's sizes, among all clauses of the spec that can be put to the subject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from attnspec.core.declaration import Limits
from attnspec.core.made_variants import POOL as MADE
from attnspec.core.made_variants import SHAPES
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.core.sizes import read_sizes, sizes_beside
from attnspec.problems.choices import Menu, menu_of
from attnspec.problems.demand import Demand, count_logits, nearest_sizes
from attnspec.problems.domain import ANY_FAMILY, Domain
from attnspec.problems.problem import Sizes
from attnspec.problems.size_plan import SizePlan, plan_for
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import FIXED_KINDS, Choices, deal_openings

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


LARGEST_ARRAYS = 2**26
"""Scores (B·H·T·S) up to which a problem has a mask or a bias, which have an entry for each."""

DEFINITION = "agrees_with_definition"


# The cases of a clause at sizes that a user names, and why it has none at others


@dataclass(frozen=True, slots=True)
class RequestedSizes:
    """Sizes that a user names, as a clause is put them.  why_not: why it cannot be; empty if it can."""

    sizes: Sizes
    why_not: str = ""


def is_of_one_call(check: Check) -> bool:
    """Whether a clause holds the answer of one call to the definition, whatever the entries: it may be large."""
    relations = [(step.bound.name, step.bound.values.get("observe")) for step in check.then]
    return (relations == [(DEFINITION, "output")] and check.domain.kind == "attention" and not any(check.runs.values())
            and check.domain.families == ANY_FAMILY and check.demand(projects=False).is_plain)


def asked_of(check: Check, subject: Subject, texts: Iterable[str]) -> tuple[RequestedSizes, ...]:
    """What a clause is put of the sizes that these texts name: they themselves, and those beside."""
    if not is_of_one_call(check):
        return ()
    lengths = (each for text in texts for own in [Sizes(**read_sizes(text))] for each in (own, _one_more(own, subject)))
    grouped = (_grouped(each, check.domain, subject) for each in lengths)
    return tuple(RequestedSizes(sizes, _why_not(sizes, check, subject)) for sizes in dict.fromkeys(grouped))


def _one_more(own: Sizes, subject: Subject) -> Sizes:
    """One more query and one more key, or as many more as it takes for the subject to take them."""
    longer = Sizes(**sizes_beside(own.by_axis))
    least = {"T": longer.T, "S": longer.S}
    taken = nearest_sizes(longer, subject.declaration.limits, is_square=own.T == own.S, least=least)
    return replace(longer, T=taken.T, S=taken.S)


def _grouped(sizes: Sizes, domain: Domain, subject: Subject) -> Sizes:
    """With a key/value head for each query head, unless clause and subject speak of grouped ones."""
    limits = subject.declaration.limits
    grouping = Demand(domain).grouping(limits)
    is_grouped = grouping == "always" or (grouping == "maybe" and limits.grouped)
    return sizes if is_grouped else replace(sizes, Hkv=sizes.H)


def _why_not(sizes: Sizes, check: Check, subject: Subject) -> str:
    """Why a clause is not put at these sizes; empty if it is."""
    arrays = check.domain.always & {"mask", "bias"}
    if subject.declaration.kind is Kind.LAYER:
        return f"{subject.id} is a layer, and layers are tested at drawn sizes only"
    if refused := subject.refuses_sizes(sizes, check.domain.always):
        return refused
    if not check.demand(projects=False).suits(sizes, subject.declaration.limits):
        return "the clause is about other sizes"
    if arrays and count_logits(sizes) > LARGEST_ARRAYS:
        return f"a {min(arrays)} would have {count_logits(sizes):.1e} entries; up to {LARGEST_ARRAYS:.1e} are made"
    return ""


def menu_at(check: Check, subject: Subject, sizes: Sizes) -> Menu:
    """What a case there is chosen from: beside the keywords that the clause needs, the causal flag alone."""
    limits = subject.declaration.limits
    takes_causal = limits.takes_lengths(sizes.T, sizes.S, causal=True)
    offered = frozenset({"causal"} if takes_causal and "causal" in subject.declaration.keywords else ())
    menu = menu_of(check.domain, offered, limits, Effort.DEFAULT,
                   tuple(check.clause.draw), shapes=(sizes,))
    assert menu is not None  # it has a shape, whatever the effort
    return menu


def cases_at(menu: Menu, seed: int) -> Iterator[Choices]:
    """The cases with the causal flag and without it, or the one case of a clause that knows no flag."""
    yield from deal_openings(menu, seed, 1 + len(menu.optional))
