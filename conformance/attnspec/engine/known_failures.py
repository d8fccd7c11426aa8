"""Known deviations: one that fails as listed is EXPECTED; one that fails otherwise or is over, UNEXPECTED.

One that holds is mended: of a list that is good news, of a manifest it is UNEXPECTED, for what it says is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from attnspec.core.declaration import Declaration, Deviation
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import FAILURES, DType, Novelty, Verdict
from attnspec.record.outcome import Change, KnownFinding, Outcome, does_explain, is_choice
from attnspec.subjects.baseline import ConventionKey, changed_convention

_SILENT = frozenset({Verdict.INAPPLICABLE, Verdict.NO_CLAIM, Verdict.NOT_RUN})
_RELEASE = re.compile(r"(\d+(?:\.\d+)*)((?:a|b|rc|\.?dev)\d+)?")


def check_deviations(subject: str, declaration: Declaration, clauses: Collection[str]) -> None:
    """Raises ManifestError for a deviation that no verdict can ever meet."""
    met: set[tuple[str, DType]] = set()
    for deviation in declaration.deviations:
        if deviation.clause not in clauses:
            raise ManifestError.unknown("clause", deviation.clause, clauses, where=deviation.where)
        for dtype in deviation.dtypes or declaration.dtypes:
            if dtype not in declaration.dtypes:
                raise ManifestError(f"{subject} does not take {dtype.value}, so it cannot deviate there.",
                                    where=deviation.where)
            if (deviation.clause, dtype) in met:
                raise ManifestError(f"{subject} deviates from {deviation.clause!r} at {dtype.value} twice.",
                                    where=deviation.where)
            met.add((deviation.clause, dtype))


def find_deviation(deviations: Iterable[Deviation], clause: str, dtype: DType) -> Deviation | None:
    """The deviation that speaks of this clause at this dtype, if one is listed."""
    for deviation in deviations:
        if deviation.clause == clause and dtype in (deviation.dtypes or (dtype,)):
            return deviation
    return None


def with_deviations(outcome: Outcome, deviations: Iterable[Deviation], version: str = "") -> Outcome:
    """The outcome in the light of what is known of the subject; `version`: the one of its library that is installed."""
    deviation = find_deviation(deviations, outcome.clause, outcome.dtype)
    if deviation is None:
        return outcome
    is_met = outcome.verdict.value == deviation.verdict and deviation.how in ("", outcome.failure_kind)
    if is_met and not (deviation.until and has_reached(version, deviation.until)):
        reason = f"{deviation.reason} ({deviation.listing})"
        return replace(outcome, verdict=Verdict.EXPECTED, reason=reason, finding=deviation.finding)
    how = f"{version} is installed" if is_met else _how_it_differs(outcome, deviation)
    until = f" until {deviation.until}" if deviation.until else ""
    listing = f"listed as {deviation.verdict}{until} ({deviation.proof})"
    reason = f"{listing}, but {how}: {deviation.remedy}. {outcome.reason}".strip()
    said = f"is listed as {deviation.failure}{until}"
    novelty, says = (Novelty.CHANGED, f"{said}, and {how}") if is_met else _change(outcome, said)
    if novelty is Novelty.MENDED and not deviation.until:  # good news for a list; a manifest that says so is wrong
        return replace(outcome, change=Change(novelty, says, outcome.verdict))
    return replace(outcome, verdict=Verdict.UNEXPECTED, reason=reason, change=Change(novelty, says, outcome.verdict))


def as_new(outcome: Outcome, novelty: Novelty, why: str) -> Outcome:
    """The outcome, a failure, marked as one that is listed nowhere. why: the rest of a sentence; empty for none."""
    says = f"{_describe_verdict(outcome)}; {why}" if why else _describe_verdict(outcome)
    return replace(outcome, change=Change(novelty, says, outcome.verdict))


def with_choice(outcome: Outcome, findings: Sequence[KnownFinding]) -> Outcome:
    """The outcome, EXPECTED where all that explains the failure is what the library documents that it does."""
    causes = [each for each in findings if outcome.verdict in FAILURES and does_explain(each, outcome)]
    if not causes or not all(map(is_choice, causes)):
        return outcome
    choice = causes[0]
    reason = f"a documented choice: {choice.says} {choice.documented}"
    return replace(outcome, verdict=Verdict.EXPECTED, reason=reason, finding=choice.id)




def with_convention(outcome: Outcome, known: Mapping[ConventionKey, str]) -> Outcome:
    """The outcome, UNEXPECTED where a convention was probed that has another answer than the known one."""
    name, says = changed_convention(outcome, known)
    if not name:
        return outcome
    reason = f"{says}: if that is intended, run with --update-baseline. {outcome.reason}".strip()
    verdict = outcome.change.verdict if outcome.change else outcome.verdict
    return replace(outcome, verdict=Verdict.UNEXPECTED, reason=reason,
                   change=Change(Novelty.CHANGED, says, verdict, name))


def _how_it_differs(outcome: Outcome, deviation: Deviation) -> str:
    if outcome.verdict in _SILENT:
        return f"it was not judged ({outcome.verdict.value})"
    if outcome.verdict not in FAILURES:
        return "it passes now"
    return f"it is {outcome.verdict.value}{' otherwise' if outcome.verdict.value == deviation.verdict else ''} now"


def _change(outcome: Outcome, said: str) -> tuple[Novelty, str]:
    if outcome.verdict in _SILENT:
        return Novelty.CHANGED, f"was not judged ({outcome.verdict.value}), and {said}"
    if outcome.verdict not in FAILURES:
        return Novelty.MENDED, f"holds now, and {said}"
    return Novelty.CHANGED, f"{_describe_verdict(outcome)} now, and {said}"


def _describe_verdict(outcome: Outcome) -> str:
    return f"is {outcome.verdict.value}{f' ({outcome.failure_kind})' if outcome.failure_kind else ''}"


def has_reached(version: str, until: str) -> bool:
    """Whether a version is `until` or later. A release before its number (2.14rc1) has not reached it."""
    return bool(version) and _rank(version) >= _rank(until)


def _rank(version: str) -> tuple[tuple[int, ...], bool]:
    """Numbers without their trailing zeros, and whether it is the release itself; what follows is left out."""
    match = _RELEASE.match(version)
    if match is None:
        return (), True
    numbers = [int(number) for number in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), match[2] is None
