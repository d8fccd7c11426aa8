"""One subject at one dtype and seed before the suite and before the rules of today, and what the diagnosis says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnspec.court.compile import Check
from attnspec.court.naming import named
from attnspec.ground.nouns import DType, Effort
from attnspec.peers.rules import RULES, Rule
from attnspec.power.conviction import Found, convict
from attnspec.power.shelf import shared_archive
from attnspec.record.power import SUITE, Conviction, SubjectPut
from attnspec.subjects.subject import Subject

Summon = Callable[[], Subject]  # makes the subject anew


@dataclass(frozen=True, slots=True)
class Rules:
    """What a subject is put to. names: of rules, the suite among them.  first: the clauses that name the fault.

    diagnoses: whether the suite's counterexample is put to the diagnosis.
    """

    checks: Mapping[str, Check]
    effort: Effort
    names: Sequence[str]
    first: Sequence[str] = ()
    diagnoses: bool = True


def put(blank: SubjectPut, rules: Rules, summon: Summon) -> SubjectPut:
    """The measurement on one subject. `blank` says which, at which dtype and seed."""
    said = replace(blank, convictions=tuple(_peers(blank, rules, summon)))
    if SUITE not in rules.names:
        return said
    subject = summon()
    found = convict(subject, blank.dtype, checks=rules.checks, effort=rules.effort, seed=blank.seed,
                    first=rules.first, archive=shared_archive(subject, blank.dtype))
    if not blank.is_fault:
        return replace(said, convictions=(found.conviction, *said.convictions))
    brief = replace(found.conviction, sentence="")  # a thousand of them would be most of a record
    said = replace(said, convictions=(brief, *said.convictions))
    return _diagnosed(said, found, rules.effort, summon) if rules.diagnoses else replace(said, undiagnosed=True)


def _peers(blank: SubjectPut, rules: Rules, summon: Summon) -> Iterator[Conviction]:
    for name, rule in RULES.items():
        if name in rules.names and blank.dtype in rule.dtypes:
            yield judged(rule, summon(), blank.dtype, blank.seed)


def judged(rule: Rule, subject: Subject, dtype: DType, seed: int) -> Conviction:
    """What a rule of today says: it stops at the first case that it calls wrong."""
    cases = 0
    for is_wrong in rule.judge(subject, dtype, seed):
        cases += 1
        if is_wrong:
            return Conviction(rule.name, convicted=True, cases=cases)
    return Conviction(rule.name, convicted=False, cases=cases)


def _diagnosed(said: SubjectPut, found: Found, effort: Effort, summon: Summon) -> SubjectPut:
    """With what the diagnosis says of the suite's counterexample, where another arithmetic makes the same mistake."""
    if found.check is None or found.recipe is None:
        return said
    like = named(summon(), said.dtype, found.check, found.recipe, effort=effort, seed=said.seed).like
    ties = [each.fault for each in like if (each.agreed, each.tried) == (like[0].agreed, like[0].tried)]
    return replace(said, named=ties[0], like=tuple(ties[1:])) if ties else said
