"""Says what is expected of a plan's clauses: how much of each is put, and which failures are
known.

All cases of a clause are put, a sample of them, or nothing. A known deviation that fails as listed
is EXPECTED; one that fails otherwise or is over, UNEXPECTED. One that holds is mended: of a list
that is good news, of a manifest it is UNEXPECTED, for what it says is wrong.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from attnspec.core.declaration import Declaration, Deviation
from attnspec.core.effort import EFFORTS
from attnspec.core.errors import LISTINGS, ManifestError, UsageError, near_misses, quote_value
from attnspec.core.forms import AS_DECLARED
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import FAILURES, DType, Effort, Novelty, Verdict
from attnspec.core.plan import GRADIENTS_ONCE, NOT_AT_FLOAT64, PUT_ONCE, Plan
from attnspec.record.outcome import Change, KnownFinding, Outcome, does_explain, is_choice
from attnspec.spec.clause import Clause, first_of, hint_of_theme, is_due, is_put_whole, themes_of
from attnspec.spec.load import OWN
from attnspec.subjects.baseline import ConventionKey, changed_convention
from attnspec.subjects.manifest import Registered


def match_ids(patterns: Sequence[str], ids: Sequence[str]) -> frozenset[str]:
    """The ids that names and patterns (`causal.*`) ask for. Raises UsageError."""
    for pattern in patterns:
        if not fnmatch.filter(ids, pattern):
            raise no_clause(pattern, [*ids, *themes_of(ids)])
    return frozenset(name for pattern in patterns for name in fnmatch.filter(ids, pattern))


def is_hurried(plan: Plan) -> bool:
    """Whether compilers have little time.

    Everything is put of clauses, profiles or sizes that somebody names, in an audit, and where a
    run is compared with others.
    """
    is_named = plan.clauses or plan.narrowing or plan.sizes
    is_compared = plan.variants == (AS_DECLARED,) or plan.baseline or plan.diagnosed
    return EFFORTS[plan.effort].compiling < math.inf and not (is_named or is_compared)


def no_clause(name: str, ids: Sequence[str]) -> UsageError:
    """The error that there is no such clause, with where to look for an unknown theme."""
    theme, dot, _ = name.partition(".")
    if of_theme := hint_of_theme(name, ids):
        return UsageError(f"{quote_value(name)} is not a known clause.{of_theme} "
                          f"`{LISTINGS['clause']}` names them all.")
    message = str(UsageError.unknown("clause", name, ids))
    if dot and not near_misses(theme, sorted({each.partition(".")[0] for each in ids})):
        message += OWN
    return UsageError(message)


def check_known(kind: str, names: tuple[str, ...],
                names_known: Mapping[str, object] | list[str]) -> None:
    """Raises UsageError for a name that does not exist."""
    for name in names:
        if name not in names_known:
            raise UsageError.unknown(kind, name, names_known)


def no_dtype(plan: Plan, manifests: Mapping[str, Registered | None]) -> UsageError:
    """The error that no subject takes a dtype, with the dtypes that they take."""
    reasons = []
    for target, registered in manifests.items():
        if registered:
            dtypes = ", ".join(each.value for each in registered.declaration.dtypes)
            reasons.append(f"{target} takes {dtypes}")
    dtypes = " and ".join(each.value for each in plan.dtypes)
    return UsageError(f"nothing is tested at {dtypes}: {'; '.join(reasons)}.")


# How much of a clause is put


@dataclass(frozen=True, slots=True)
class Portions:
    """Says how much of a clause is put to one subject in a run.

    samples_gradients: a sample of the cases of clauses about gradients is tried, at the first
    dtype alone.
    """

    plan: Plan
    declaration: Declaration
    samples_gradients: bool = False

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes at which the subject is judged."""
        dtypes = self.plan.dtypes or tuple(DType)
        return tuple(dtype for dtype in self.declaration.dtypes if dtype in dtypes)

    def spares(self, clause: Clause, dtype: DType) -> bool:
        """Whether the clause is not put at this dtype.

        A glance, or effort quick at float64, does not put it, or it is about gradients that are
        sampled at another dtype. A listed failure is looked at.
        """
        plan, is_seldom = self.plan, self._is_seldom(dtype)
        if self._samples(clause) and dtype is not first_of(self.dtypes):
            return not find_deviation(self.declaration.deviations, clause.id, dtype)
        if is_due(clause, dtype, plan.effort, self.dtypes, is_brief=is_seldom):
            return False
        deviation = find_deviation(self.declaration.deviations, clause.id, dtype)
        is_named = clause.id in plan.clauses or deviation
        return not ((plan.effort is Effort.GLANCE or is_seldom) and is_named)

    def _is_seldom(self, dtype: DType) -> bool:
        """Whether a quick run leaves the dtype out: float64's truth costs most, and says least."""
        plan = self.plan
        is_quick = plan.effort is Effort.QUICK and bool(plan.sample)
        return is_quick and dtype not in self.declaration.main_dtypes

    def _samples(self, clause: Clause) -> bool:
        return self.samples_gradients and GRAD in clause.needs

    def why_spared(self, clause: Clause, dtype: DType) -> str:
        """What is said of a clause that is spared at a dtype."""
        if self._samples(clause):
            return GRADIENTS_ONCE.format(first_of(self.dtypes).value)
        if self._is_seldom(dtype):
            return NOT_AT_FLOAT64
        return PUT_ONCE.format(first_of(self.dtypes).value)

    def is_further(self, dtype: DType) -> bool:
        """Whether samples are tried at this dtype, if anything is sampled in this run."""
        return bool(self.plan.sample) and dtype is not first_of(self.dtypes)

    def sample(self, clause: Clause, dtype: DType) -> int:
        """How many cases stand for all; 0 where all are tried, as where a failure is listed."""
        if find_deviation(self.declaration.deviations, clause.id, dtype):
            return 0
        if self._samples(clause):
            return EFFORTS[self.plan.effort].sample
        if is_put_whole(clause, dtype, self.dtypes):
            return 0
        return self.plan.sample


_SILENT_VERDICTS = frozenset({Verdict.INAPPLICABLE, Verdict.NO_CLAIM, Verdict.NOT_RUN})
_RELEASE_NUMBER = re.compile(r"(\d+(?:\.\d+)*)((?:a|b|rc|\.?dev)\d+)?")


def check_deviations(subject: str, declaration: Declaration, clauses: Collection[str]) -> None:
    """Raises ManifestError for a deviation that no verdict can ever meet."""
    met: set[tuple[str, DType]] = set()
    for deviation in declaration.deviations:
        if deviation.clause not in clauses:
            raise ManifestError.unknown("clause", deviation.clause, clauses, where=deviation.where)
        for dtype in deviation.dtypes or declaration.dtypes:
            if dtype not in declaration.dtypes:
                raise ManifestError(
                    f"{subject} does not take {dtype.value}, so it cannot deviate there.",
                    where=deviation.where)
            if (deviation.clause, dtype) in met:
                raise ManifestError(
                    f"{subject} deviates from {deviation.clause!r} at {dtype.value} twice.",
                    where=deviation.where)
            met.add((deviation.clause, dtype))


def find_deviation(deviations: Iterable[Deviation], clause: str, dtype: DType) -> Deviation | None:
    """The deviation from this clause at this dtype, if one is listed."""
    for deviation in deviations:
        if deviation.clause == clause and dtype in (deviation.dtypes or (dtype,)):
            return deviation
    return None


def with_deviations(outcome: Outcome, deviations: Iterable[Deviation],
                    version: str = "") -> Outcome:
    """The outcome in the light of listed deviations; `version`: of its installed library."""
    deviation = find_deviation(deviations, outcome.clause, outcome.dtype)
    if deviation is None:
        return outcome
    is_met = outcome.verdict.value == deviation.verdict
    is_met = is_met and deviation.how in ("", outcome.failure_kind)
    if is_met and not (deviation.until and has_reached(version, deviation.until)):
        reason = f"{deviation.reason} ({deviation.listing})"
        return replace(outcome, verdict=Verdict.EXPECTED, reason=reason, finding=deviation.finding)
    until = f" until {deviation.until}" if deviation.until else ""
    listing = f"is listed as {deviation.failure}{until}"
    if is_met:
        how = f"{version} is installed"
        novelty, says = Novelty.CHANGED, f"{listing}, and {how}"
    else:
        how = _how_it_differs(outcome, deviation)
        novelty, says = _describe_change(outcome, listing)
    reason = (f"listed as {deviation.verdict}{until} ({deviation.proof}), but {how}: "
              f"{deviation.remedy}. {outcome.reason}").strip()
    # good news for a list; a manifest that says so is wrong
    if novelty is Novelty.MENDED and not deviation.until:
        return replace(outcome, change=Change(novelty, says, outcome.verdict))
    return replace(outcome, verdict=Verdict.UNEXPECTED, reason=reason,
                   change=Change(novelty, says, outcome.verdict))


def mark_as_new(outcome: Outcome, novelty: Novelty, why: str) -> Outcome:
    """Marks a failure as listed nowhere.  why: the rest of a sentence; empty for none."""
    says = f"{_describe_verdict(outcome)}; {why}" if why else _describe_verdict(outcome)
    return replace(outcome, change=Change(novelty, says, outcome.verdict))


def with_choice(outcome: Outcome, findings: Sequence[KnownFinding]) -> Outcome:
    """The outcome, EXPECTED where documented choices of the library explain all of it."""
    causes = [each for each in findings if outcome.verdict in FAILURES
              and does_explain(each, outcome)]
    if not causes or not all(map(is_choice, causes)):
        return outcome
    choice = causes[0]
    reason = f"a documented choice: {choice.says} {choice.documented}"
    return replace(outcome, verdict=Verdict.EXPECTED, reason=reason, finding=choice.id)


def with_convention(outcome: Outcome, known: Mapping[ConventionKey, str]) -> Outcome:
    """The outcome, UNEXPECTED where a probed convention differs from the known one."""
    name, says = changed_convention(outcome, known)
    if not name:
        return outcome
    reason = f"{says}: if that is intended, run with --update-baseline. {outcome.reason}".strip()
    verdict = outcome.change.verdict if outcome.change else outcome.verdict
    return replace(outcome, verdict=Verdict.UNEXPECTED, reason=reason,
                   change=Change(Novelty.CHANGED, says, verdict, name))


def _how_it_differs(outcome: Outcome, deviation: Deviation) -> str:
    if outcome.verdict in _SILENT_VERDICTS:
        return f"it was not judged ({outcome.verdict.value})"
    if outcome.verdict not in FAILURES:
        return "it passes now"
    otherwise = " otherwise" if outcome.verdict.value == deviation.verdict else ""
    return f"it is {outcome.verdict.value}{otherwise} now"


def _describe_change(outcome: Outcome, listing: str) -> tuple[Novelty, str]:
    if outcome.verdict in _SILENT_VERDICTS:
        return Novelty.CHANGED, f"was not judged ({outcome.verdict.value}), and {listing}"
    if outcome.verdict not in FAILURES:
        return Novelty.MENDED, f"holds now, and {listing}"
    return Novelty.CHANGED, f"{_describe_verdict(outcome)} now, and {listing}"


def _describe_verdict(outcome: Outcome) -> str:
    kind = f" ({outcome.failure_kind})" if outcome.failure_kind else ""
    return f"is {outcome.verdict.value}{kind}"


def has_reached(version: str, until: str) -> bool:
    """Whether a version is `until` or later; a candidate (2.14rc1) comes before its number."""
    return bool(version) and _release_rank(version) >= _release_rank(until)


def _release_rank(version: str) -> tuple[tuple[int, ...], bool]:
    """The numbers without trailing zeros, and whether it is the release itself."""
    match = _RELEASE_NUMBER.match(version)
    if match is None:
        return (), True
    numbers = [int(number) for number in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), match[2] is None
