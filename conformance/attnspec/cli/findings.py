"""Says on the console which bugs there are, and what was not decided, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import click

from attnspec.cli.digest import UNDECIDED_VERDICTS, Digest, dtype_order, name_few, verdict_words
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.texts import count_noun
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import explain_bugs, is_place, likely_group, rank_clarity
from attnspec.report.likely_cause import LikelyCause, is_other_convention
from attnspec.runner.judge import CONVENTION_PHRASE, RECOMMENDATION_PHRASE, format_violation

_CLAUSES_WIDTH = 90  # characters of a list of clauses
_ROW_WIDTH = 50  # the same, if it is to fit into one row of a screen
MOST_CAUSES = 3  # of further bugs, a line each
_NOT_COUNTED = "not counted; "


@dataclass(frozen=True, slots=True)
class FailedClause:
    """A clause that a subject fails: at the dtype that is shown, and at others."""

    shown_outcome: Outcome
    others: tuple[Outcome, ...]

    @property
    def clause(self) -> str:
        """The clause's id."""
        return self.shown_outcome.clause


@dataclass(frozen=True, slots=True)
class Bug:
    """Clauses that a subject fails by one cause, the clearest first; or one without a cause."""

    clauses: tuple[FailedClause, ...]
    cause: LikelyCause | None = None


def rank_bugs(digest: Digest) -> tuple[Bug, ...]:
    """Ranks the bugs that gate: the first of every subject, then the second, and so on."""
    piles = (_find_bugs(digest.digest_of(subject).failures) for subject in digest.subjects)
    in_turn = chain.from_iterable(zip_longest(*piles))
    return tuple(bug for bug in in_turn if bug is not None)


def _find_bugs(failures: Sequence[Outcome]) -> list[Bug]:
    """Finds the bugs of a subject; without a common cause, the clearest comes first."""
    groups = explain_bugs(failures)
    left = {_failure_key(each.shown_outcome): each
            for each in _group_by_clause([each for group in groups for each in group.failures])}
    bugs: list[Bug] = []
    for group in groups:
        keys = dict.fromkeys(map(_failure_key, group.failures))
        clauses = tuple(left.pop(key) for key in keys if key in left)
        if group.cause and clauses:
            bugs.append(Bug(clauses, group.cause))
        else:
            bugs += [Bug((clause,)) for clause in clauses]
    if not likely_group(failures):
        bugs.sort(key=lambda bug: rank_clarity(bug.clauses[0].shown_outcome))
    return bugs


def _group_by_clause(failures: Sequence[Outcome]) -> tuple[FailedClause, ...]:
    piles: dict[tuple[object, ...], list[Outcome]] = {}
    for failure in failures:
        piles.setdefault(_failure_key(failure), []).append(failure)
    return tuple(FailedClause(first, tuple(others)) for first, *others in piles.values())


def _failure_key(outcome: Outcome) -> tuple[object, ...]:
    return outcome.subject, outcome.clause, outcome.verdict


def format_bug(digest: Digest, bug: Bug) -> Iterator[str]:
    """The clearest clause in full, the others by name."""
    first, *others = bug.clauses
    yield from format_finding(digest, first, bug.cause)
    if others:
        names = name_few([each.clause for each in others], _ROW_WIDTH)
        yield f"  also: {names} (-v shows {_pronoun_of(others)})"


def _pronoun_of(several: Sequence[object]) -> str:
    return "it" if len(several) == 1 else "them"


def format_finding(digest: Digest, finding: FailedClause,
                   cause: LikelyCause | None = None) -> Iterator[str]:
    """Writes a failure in full: in red if it gates, else in yellow with its level. cause: of the
    bug; its fault comes first.
    """
    first, clause = _lead_with_fault(finding.shown_outcome, cause), digest.clause(finding.clause)
    also = [outcome.dtype for outcome in finding.others]
    happened = ""
    if first.verdict is Verdict.VIOLATED and not digest.gates(first):
        happened = CONVENTION_PHRASE if is_other_convention(first) else RECOMMENDATION_PHRASE
    text = format_violation(first, says=clause.says, where=clause.where, also=also,
                            happened=happened)
    head, _, rest = text.partition("\n")
    level = "" if first.level is Level.MUST else f" [{first.level.value}]"
    yield ""
    yield click.style(head + level, fg="red" if digest.gates(first) else "yellow", bold=True)
    yield from rest.split("\n")


def _lead_with_fault(outcome: Outcome, cause: LikelyCause | None) -> Outcome:
    """Puts the cause's fault before others that explain the failure as well."""
    if outcome.evidence is None or cause is None:
        return outcome
    like = sorted(outcome.evidence.like, key=lambda each: each.fault != cause.fault)
    return replace(outcome, evidence=replace(outcome.evidence, like=tuple(like)))


def name_other_bugs(digest: Digest, bugs: Sequence[Bug]) -> Iterator[str]:
    """Names the bugs that are not shown in full, a line for each cause."""
    known = [bug for bug in bugs if bug.cause][:MOST_CAUSES]
    for bug in known:
        names = [_name_outcome(digest, each.shown_outcome) for each in bug.clauses]
        is_only_seen = bug.cause is not None and is_place(bug.cause) and digest.is_glance
        how = f"also {bug.cause}" if is_only_seen else f"also likely: {bug.cause}"
        yield f"{how}: {name_few(names, _ROW_WIDTH)} (-v shows {_pronoun_of(names)})"
    others = (each for bug in bugs if bug not in known for each in bug.clauses)
    names = list(dict.fromkeys(_name_outcome(digest, each.shown_outcome) for each in others))
    if names:
        yield f"also violated: {name_few(names, _CLAUSES_WIDTH)} (-v shows {_pronoun_of(names)})"


def format_recommendations(digest: Digest) -> Iterator[str]:
    """Names the recommendations that are not followed, and the unrecommended conventions."""
    by_clause = {(outcome.subject, outcome.clause): outcome for outcome in digest.advice}
    conventions, others = list[Outcome](), list[Outcome]()
    for outcome in by_clause.values():
        (conventions if is_other_convention(outcome) else others).append(outcome)
    if others:
        how = "is" if len(others) == 1 else "are"
        count = _count_with_levels("recommendation", others)
        yield f"{count} {how} not followed: {_format_uncounted(digest, others)}"
    if conventions:
        how = "is another" if len(conventions) == 1 else "are others"
        count = _count_with_levels("convention", conventions)
        yield (f"{count} {how} than recommended, which libraries use, too: "
               f"{_format_uncounted(digest, conventions)}")


def _count_with_levels(noun: str, outcomes: Sequence[Outcome]) -> str:
    levels = dict.fromkeys(outcome.level.value for outcome in outcomes)
    return f"{count_noun(len(outcomes), noun)} ({', '.join(levels)})"


def _format_uncounted(digest: Digest, outcomes: Sequence[Outcome]) -> str:
    listed = name_few([_name_recommendation(digest, outcome) for outcome in outcomes],
                      _CLAUSES_WIDTH - len(_NOT_COUNTED))
    return f"{listed} ({_NOT_COUNTED}-v shows {_pronoun_of(outcomes)})"


def _name_recommendation(digest: Digest, outcome: Outcome) -> str:
    """The name of a recommendation; what a single subject does if it is a convention."""
    if outcome.evidence and is_other_convention(outcome) and len(digest.subjects) == 1:
        return outcome.evidence.sentence.partition(";")[0]
    return _name_outcome(digest, outcome)


def _name_outcome(digest: Digest, outcome: Outcome) -> str:
    if len(digest.subjects) == 1:
        return outcome.clause
    return f"{outcome.subject} {outcome.clause}"


def list_all_failures(digest: Digest) -> Iterator[str]:
    """Writes every failure in full; those that gate come first."""
    for bug in rank_bugs(digest):
        for finding in bug.clauses:
            yield from format_finding(digest, finding, bug.cause)
    for finding in _group_by_clause(digest.advice):
        yield from format_finding(digest, finding)


MOST_REASONS = 12  # for not running
MOST_OTHER_REASONS = 2  # in a line, besides missing keywords
_LIST_WIDTH = 60  # characters of a list
_SILENCE_WORDS = {Verdict.NO_CLAIM: ("could not be decided", "could not be decided"),
                  Verdict.INAPPLICABLE: ("does not apply", "do not apply")}
"""By verdict: what is said of one clause, and of several."""


def format_undecided(digest: Digest) -> Iterator[str]:
    """Says which dtypes were left out, and why clauses made no claim or do not apply."""
    yield from _find_dtypes_left_out(digest)
    for verdict, words in _SILENCE_WORDS.items():
        undecided = [outcome for outcome in digest.outcomes if outcome.verdict is verdict]
        if len(digest.subjects) > 1 and undecided:
            count = count_noun(len(undecided), "item")
            yield f"{count} {words[len(undecided) > 1]} (-v lists the reasons)"
        elif clauses := _nowhere_decided(undecided, digest):
            count, reasons = count_noun(len(clauses), "clause"), format_lacking(clauses)
            them = _pronoun_of(clauses)
            yield f"{count} {words[len(clauses) > 1]}: {reasons} (-v lists {them})"


def format_not_run(digest: Digest) -> Iterator[str]:
    """Lists what was not run, by reason; nothing if the verdict says it."""
    lost = [outcome for outcome in digest.outcomes if outcome.verdict is Verdict.NOT_RUN]
    is_all = (len(lost) == len(digest.outcomes)
              and len({(outcome.subject, outcome.reason) for outcome in lost}) == 1)
    return _list_reasons([] if is_all else lost, MOST_REASONS)


def format_all_undecided(digest: Digest) -> Iterator[str]:
    """Lists everything that was not decided, by reason."""
    undecided = [outcome for outcome in digest.outcomes if outcome.verdict in UNDECIDED_VERDICTS]
    if len(digest.subjects) > 1:
        return _list_reasons(undecided, len(undecided))
    of_it = [replace(outcome, reason=_shorten_reason(outcome)) for outcome in undecided]
    return _list_reasons(of_it, len(of_it), _name_clauses)


def _shorten_reason(outcome: Outcome) -> str:
    """The reason, with `it` for the subject where a part begins with its name."""
    return re.sub(rf"(^|; ){re.escape(outcome.subject)} ", r"\1it ", outcome.reason)


def _name_clauses(outcomes: Sequence[Outcome]) -> str:
    if outcomes[0].verdict is Verdict.NOT_RUN:
        return _name_subjects(outcomes)
    return ", ".join(dict.fromkeys(each.clause for each in outcomes))


def _name_subjects(outcomes: Sequence[Outcome]) -> str:
    return name_few(list(dict.fromkeys(each.subject for each in outcomes)), _LIST_WIDTH)


def format_lacking(outcomes: Sequence[Outcome]) -> str:
    """Why clauses do not apply, the commonest reasons first: `it takes no bias, no window`."""
    counts = Counter(phrase for each in outcomes for phrase in _phrases(each))
    keywords, others = list[str](), list[str]()
    for phrase, _ in counts.most_common():
        if phrase.startswith(_TAKES_NO):
            keywords.append(phrase.removeprefix(_TAKES))
        elif len(outcomes) > 1:
            others.append(phrase.replace("that this clause needs", "that some of them need"))
        else:
            others.append(phrase)
    parts = others[:MOST_OTHER_REASONS]
    if keywords:
        parts.insert(0, _TAKES + name_few(keywords, _LIST_WIDTH))
    if len(others) > MOST_OTHER_REASONS:
        parts.append(f"and {len(others) - MOST_OTHER_REASONS} more")
    return "; ".join(parts)


_TAKES, _TAKES_NO, _NO_LAYER = "it takes ", "it takes no ", "it is not a layer"
_DTYPE_MARK = "\0"  # in a reason, the name of the dtype that it speaks of
_REFUSES = "the function refuses the inputs that this clause needs"
_REFUSALS = (_REFUSES, "it refuses ", "it does not take so many ", "it takes only ",
             "it takes contiguous ")
"""The beginnings of reasons that are about sizes or layouts."""
_LACKS_A_LAYER = frozenset({"it takes no params", "it takes no heads"})


def _phrases(outcome: Outcome) -> list[str]:
    """The parts of a reason, without the subject's name and the shape of the case."""
    reason = _shorten_reason(outcome).partition("; here ")[0].partition(": ")[0]
    # in the words of its exceptions, as the verdict's line says what it refuses
    if reason.startswith(_REFUSES):
        return [_REFUSES]
    if reason.startswith("it refuses "):  # likewise
        return [reason.partition(" (")[0]]
    if not reason.startswith(_TAKES_NO):
        return [reason or "no reason was given"]
    keywords = [f"{_TAKES}{keyword}" for keyword in reason.removeprefix(_TAKES).split(" and ")]
    return [_NO_LAYER] if set(keywords) & _LACKS_A_LAYER else keywords


def kept_away(digest: Digest) -> tuple[int, int]:
    """How many clauses a subject's refusals keep from being tried, and of how many."""
    judged = _judged_dtypes(digest.outcomes)
    put = {each.clause for each in digest.outcomes if each.verdict is not Verdict.INAPPLICABLE}
    away = {each.clause for each in digest.outcomes
            if each.dtype in judged and _shorten_reason(each).startswith(_REFUSALS)} - put
    return len(away), len(away | put)


def _find_dtypes_left_out(digest: Digest) -> Iterator[str]:
    """Yields the dtypes at which nothing applied to a subject, by reason."""
    outcomes = digest.outcomes if len(digest.subjects) == 1 else []
    judged = _judged_dtypes(outcomes)
    if not judged:
        return
    reasons = {outcome.dtype: outcome.reason
               for outcome in outcomes if outcome.dtype not in judged}
    groups: dict[str, list[DType]] = {}
    for dtype in DType:
        if dtype in reasons:
            key = reasons[dtype].replace(dtype.value, _DTYPE_MARK)
            groups.setdefault(key, []).append(dtype)
    for first, *others in groups.values():
        # the words of an exception, behind the colon, stay what they are
        head, colon, words = reasons[first].partition(": ")
        if others:
            head = head.replace(first.value, "them")
        names = ", ".join(dtype.value for dtype in (first, *others))
        yield f"Not judged at {names}: {head}{colon}{words}"


def _judged_dtypes(outcomes: Iterable[Outcome]) -> frozenset[DType]:
    """The dtypes at which something applied."""
    return frozenset(outcome.dtype
                     for outcome in outcomes if outcome.verdict is not Verdict.INAPPLICABLE)


def _nowhere_decided(undecided: Sequence[Outcome], digest: Digest) -> list[Outcome]:
    """The clauses that were decided at no dtype, each by one outcome."""
    decided = {outcome.clause
               for outcome in digest.outcomes if outcome.verdict not in UNDECIDED_VERDICTS}
    judged = _judged_dtypes(digest.outcomes)
    # of several dtypes, the last one in this order stands for the clause
    ordered = sorted(undecided, key=lambda each: (each.dtype not in judged, dtype_order(each)),
                     reverse=True)
    by_clause = {outcome.clause: outcome for outcome in ordered}
    return [outcome for clause, outcome in by_clause.items() if clause not in decided]


def _list_reasons(outcomes: Sequence[Outcome], at_most: int,
                  name: Callable[[Sequence[Outcome]], str] = _name_subjects) -> Iterator[str]:
    groups: dict[tuple[Verdict, str], list[Outcome]] = {}
    for each in outcomes:
        groups.setdefault((each.verdict, each.reason), []).append(each)
    order = list(Verdict)
    ranked = sorted(groups, key=lambda key: (-order.index(key[0]), -len(groups[key]), key[1]))
    if ranked:
        yield "Not judged:"
    for key in ranked[:at_most]:
        verdict, reason = key
        why = f"{verdict_words(verdict)}: {reason or 'no reason was given'}"
        yield f"  {len(groups[key]):>4} {why} ({name(groups[key])})"
    if len(ranked) > at_most:
        yield f"       and {count_noun(len(ranked) - at_most, 'further reason')}, in the record"
