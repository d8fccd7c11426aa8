"""Which failures the console tells in full, how the others are named, and what was not decided, and why."""

from __future__ import annotations

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
MOST_CAUSES = 3  # that are told in a line
_ROW_WIDTH = 50   # the same, where it is to be one row of a screen
_NOT_COUNTED = "not counted; "


@dataclass(frozen=True, slots=True)
class FailedClause:
    """A clause that a subject fails: at the dtype that is shown, and alike at others."""

    shown_outcome: Outcome
    others: tuple[Outcome, ...]

    @property
    def clause(self) -> str:
        """The clause's id."""
        return self.shown_outcome.clause


@dataclass(frozen=True, slots=True)
class Bug:
    """Clauses that a subject fails by one cause, the clearest first; or one clause of which nobody knows the cause."""

    clauses: tuple[FailedClause, ...]
    cause: LikelyCause | None = None


def rank_bugs(digest: Digest) -> tuple[Bug, ...]:
    """Ranks the bugs that gate: one bug of every subject before a second of any, that which explains most before the
    others.
    """
    return tuple(_take_in_turn([_find_bugs(digest.digest_of(subject).failures)
                                for subject in digest.subjects]))


def _find_bugs(failures: Sequence[Outcome]) -> list[Bug]:
    """Finds the bugs of a subject. Where most failures have no known cause, its clearest clause comes first."""
    groups = explain_bugs(failures)
    clauses = {_failure_key(each.shown_outcome): each
               for each in _group_by_clause([each for group in groups for each in group.failures])}
    found: list[Bug] = []
    for group in groups:
        mine = tuple(clauses.pop(key)
                     for key in dict.fromkeys(map(_failure_key, group.failures)) if key in clauses)
        found += ([Bug(mine, group.cause)] if group.cause and mine else [Bug((each,))
                                                                         for each in mine])
    if likely_group(failures):
        return found
    return sorted(found, key=lambda bug: rank_clarity(bug.clauses[0].shown_outcome))


def _take_in_turn(piles: Sequence[Sequence[Bug]]) -> Iterator[Bug]:
    """The first of every pile, then the second of every pile, …"""
    return (turn for turn in chain.from_iterable(zip_longest(*piles)) if turn is not None)


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
        yield (f"  also: {name_few([each.clause for each in others], _ROW_WIDTH)} (-v shows "
               f"{_pronoun_of(others)})")


def _pronoun_of(several: Sequence[object]) -> str:
    return "it" if len(several) == 1 else "them"


def format_finding(digest: Digest, finding: FailedClause,
                   cause: LikelyCause | None = None) -> Iterator[str]:
    """Tells a failure in full: in red what gates, in yellow with its level what does not. cause: of the bug; its fault
    comes first.
    """
    first, clause = _lead_with_fault(finding.shown_outcome, cause), digest.clause(finding.clause)
    also = [outcome.dtype for outcome in finding.others]
    is_advice = first.verdict is Verdict.VIOLATED and not digest.gates(first)
    happened = ((CONVENTION_PHRASE if is_other_convention(first) else RECOMMENDATION_PHRASE)
                if is_advice else "")
    text = format_violation(first, says=clause.says, where=clause.where, also=also,
                            happened=happened)
    head, _, rest = text.partition("\n")
    level = "" if first.level is Level.MUST else f" [{first.level.value}]"
    yield ""
    yield click.style(head + level, fg="red" if digest.gates(first) else "yellow", bold=True)
    yield from rest.split("\n")


def _lead_with_fault(outcome: Outcome, cause: LikelyCause | None) -> Outcome:
    """The same with the cause's fault before the others that explain it as well."""
    if outcome.evidence is None or cause is None:
        return outcome
    like = sorted(outcome.evidence.like, key=lambda each: each.fault != cause.fault)
    return replace(outcome, evidence=replace(outcome.evidence, like=tuple(like)))


def name_other_bugs(digest: Digest, bugs: Sequence[Bug]) -> Iterator[str]:
    """The bugs that are not told in full: a line for each cause that is known, and one for all other clauses."""
    known = [bug for bug in bugs if bug.cause][:MOST_CAUSES]
    for bug in known:
        names = [_name_outcome(digest, each.shown_outcome) for each in bug.clauses]
        is_seen_alone = bug.cause is not None and is_place(bug.cause) and digest.is_glance
        how = f"also {bug.cause}" if is_seen_alone else f"also likely: {bug.cause}"
        yield f"{how}: {name_few(names, _ROW_WIDTH)} (-v shows {_pronoun_of(names)})"
    names = list(dict.fromkeys(_name_outcome(digest, each.shown_outcome)
                               for bug in bugs if bug not in known
                               for each in bug.clauses))
    if names:
        yield f"also violated: {name_few(names, _CLAUSES_WIDTH)} (-v shows {_pronoun_of(names)})"


def format_recommendations(digest: Digest) -> Iterator[str]:
    """The recommendations that are not followed, by name; and the conventions that are others than recommended."""
    names = {(outcome.subject, outcome.clause): outcome for outcome in digest.advice}
    conventions = [outcome for outcome in names.values() if is_other_convention(outcome)]
    others = [outcome for outcome in names.values() if not is_other_convention(outcome)]
    if others:
        what = (f"{_count_with_levels('recommendation', others)} "
                f"{'is' if len(others) == 1 else 'are'} not followed")
        yield f"{what}: {_format_uncounted(digest, others)}"
    if conventions:
        how = "is another" if len(conventions) == 1 else "are others"
        what = (f"{_count_with_levels('convention', conventions)} {how} than recommended, "
                "which libraries use, too")
        yield f"{what}: {_format_uncounted(digest, conventions)}"


def _count_with_levels(noun: str, outcomes: Sequence[Outcome]) -> str:
    levels = dict.fromkeys(outcome.level.value for outcome in outcomes)
    return f"{count_noun(len(outcomes), noun)} ({', '.join(levels)})"


def _format_uncounted(digest: Digest, outcomes: Sequence[Outcome]) -> str:
    listed = name_few([_name_recommendation(digest, outcome) for outcome in outcomes],
                      _CLAUSES_WIDTH - len(_NOT_COUNTED))
    return f"{listed} ({_NOT_COUNTED}-v shows {_pronoun_of(outcomes)})"


def _name_recommendation(digest: Digest, outcome: Outcome) -> str:
    """A recommendation by name; of the convention of a single subject, what it does."""
    seen = outcome.evidence.sentence if outcome.evidence else ""
    does = (seen.partition(";")[0] if is_other_convention(outcome) and len(digest.subjects) == 1
            else "")
    return does or _name_outcome(digest, outcome)


def _name_outcome(digest: Digest, outcome: Outcome) -> str:
    if len(digest.subjects) == 1:
        return outcome.clause
    return f"{outcome.subject} {outcome.clause}"


def list_all_failures(digest: Digest) -> Iterator[str]:
    """Every failure in full, what gates first."""
    for bug in rank_bugs(digest):
        for finding in bug.clauses:
            yield from format_finding(digest, finding, bug.cause)
    for finding in _group_by_clause(digest.advice):
        yield from format_finding(digest, finding)


MOST_REASONS = 12   # reasons for not running that are listed
MOST_OTHER_REASONS = 2     # reasons beside missing keywords that are told in a line
_LIST_WIDTH = 60     # characters of a list
_SILENCE_WORDS = {Verdict.NO_CLAIM: ("could not be decided", "could not be decided"),
                  Verdict.INAPPLICABLE: ("does not apply", "do not apply")}


def format_undecided(digest: Digest) -> Iterator[str]:
    """A line for the dtypes that were left out, for the clauses that made no claim, and for those that do not apply."""
    yield from _find_dtypes_left_out(digest)
    for verdict, words in _SILENCE_WORDS.items():
        undecided = [outcome for outcome in digest.outcomes if outcome.verdict is verdict]
        if len(digest.subjects) > 1 and undecided:
            yield f"{count_noun(len(undecided), 'item')} {words[len(undecided) > 1]} (-v lists the reasons)"
        elif clauses := _nowhere_decided(undecided, digest):
            them = "it" if len(clauses) == 1 else "them"
            counted = count_noun(len(clauses), "clause")
            yield f"{counted} {words[len(clauses) > 1]}: {format_lacking(clauses)} (-v lists {them})"


def format_not_run(digest: Digest) -> Iterator[str]:
    """Lists what was not run, by reason; nothing where the verdict itself tells it."""
    lost = [outcome for outcome in digest.outcomes if outcome.verdict is Verdict.NOT_RUN]
    is_all = (len(lost) == len(digest.outcomes)
              and len({(outcome.subject, outcome.reason) for outcome in lost}) == 1)
    return _list_reasons([] if is_all else lost, MOST_REASONS)


def format_all_undecided(digest: Digest) -> Iterator[str]:
    """Everything that was not decided, by reason: of one subject which clauses, of several whom."""
    undecided = [outcome for outcome in digest.outcomes if outcome.verdict in UNDECIDED_VERDICTS]
    if len(digest.subjects) > 1:
        return _list_reasons(undecided, len(undecided))
    of_it = [replace(outcome, reason=_shorten_reason(outcome)) for outcome in undecided]
    return _list_reasons(of_it, len(of_it), _name_clauses)


def _shorten_reason(outcome: Outcome) -> str:
    """The reason with `it` for the subject, where a part of it begins with its name."""
    return "; ".join(f"it {part.removeprefix(whole)}"
                     if part.startswith(whole := f"{outcome.subject} ") else part
                     for part in outcome.reason.split("; "))


def _name_clauses(outcomes: Sequence[Outcome]) -> str:
    """The clauses; what was not run is mostly everything, so of that the subject."""
    is_lost = outcomes[0].verdict is Verdict.NOT_RUN
    if is_lost:
        return _name_subjects(outcomes)
    return ", ".join(dict.fromkeys(each.clause for each in outcomes))


def _name_subjects(outcomes: Sequence[Outcome]) -> str:
    return name_few(list(dict.fromkeys(each.subject for each in outcomes)), _LIST_WIDTH)


def format_lacking(outcomes: Sequence[Outcome]) -> str:
    """Why clauses do not apply to one subject, the commonest reasons first: `it takes no bias, no window`."""
    ranked = [phrase for phrase, _ in Counter(phrase for each in outcomes for phrase in _phrases(each)).most_common()]
    keywords = [phrase.removeprefix(_TAKES) for phrase in ranked if phrase.startswith(_TAKES_NO)]
    others = [phrase for phrase in ranked if not phrase.startswith(_TAKES_NO)]
    if len(outcomes) > 1:
        others = [phrase.replace("that this clause needs", "that some of them need")
                  for phrase in others]
    told = [*([_TAKES + name_few(keywords, _LIST_WIDTH)] if keywords else []),
            *others[:MOST_OTHER_REASONS]]
    return "; ".join(told) + (f"; and {len(others) - MOST_OTHER_REASONS} more"
                              if len(others) > MOST_OTHER_REASONS
                              else "")


_TAKES, _TAKES_NO, _NO_LAYER = "it takes ", "it takes no ", "it is not a layer"
_DTYPE_MARK = "\0"  # in a reason, the name of the dtype that it speaks of
_REFUSES = "the function refuses the inputs that this clause needs"
_LACKS_A_LAYER = frozenset({"it takes no params", "it takes no heads"})


def _phrases(outcome: Outcome) -> list[str]:
    """The reason in short: without the subject's name and the shape at hand; keyword by keyword."""
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
    """How many clauses were put at no dtype because of what a subject refuses, and of how many that it could be put."""
    judged = _judged_dtypes(digest.outcomes)
    put = {each.clause for each in digest.outcomes if each.verdict is not Verdict.INAPPLICABLE}
    away = {each.clause
            for each in digest.outcomes if each.dtype in judged
            and _is_refused(_shorten_reason(each))} - put
    return len(away), len(away | put)


def _is_refused(reason: str) -> bool:
    """Whether sizes or layouts that it refuses are why nothing was put."""
    return reason.startswith((_REFUSES, "it refuses ", "it does not take so many ",
                              "it takes only ",
                              "it takes contiguous "))


def _find_dtypes_left_out(digest: Digest) -> Iterator[str]:
    """The dtypes at which nothing at all applied to a subject."""
    outcomes = digest.outcomes if len(digest.subjects) == 1 else []
    judged = _judged_dtypes(outcomes)
    told = {outcome.dtype: outcome.reason for outcome in outcomes if outcome.dtype not in judged}
    if not judged:
        return
    reasons = {dtype: told[dtype].replace(dtype.value, _DTYPE_MARK)
               for dtype in DType if dtype in told}
    for reason in dict.fromkeys(reasons.values()):
        alike = [dtype for dtype in reasons if reasons[dtype] == reason]
        # the words of an exception stay what they are
        head, colon, words = told[alike[0]].partition(": ")
        head = head.replace(alike[0].value, "them") if len(alike) > 1 else head
        yield f"Not judged at {', '.join(dtype.value for dtype in alike)}: {head}{colon}{words}"


def _judged_dtypes(outcomes: Iterable[Outcome]) -> frozenset[DType]:
    """The dtypes at which something applied."""
    return frozenset(outcome.dtype
                     for outcome in outcomes if outcome.verdict is not Verdict.INAPPLICABLE)


def _nowhere_decided(undecided: Sequence[Outcome], digest: Digest) -> list[Outcome]:
    """An outcome for each clause that was decided at no dtype, at one where something was: another line tells of dtypes
    that are left out.
    """
    decided = {outcome.clause
               for outcome in digest.outcomes if outcome.verdict not in UNDECIDED_VERDICTS}
    judged = _judged_dtypes(digest.outcomes)
    last_told = sorted(undecided, key=lambda each: (each.dtype not in judged, dtype_order(each)),
                       reverse=True)
    by_clause = {outcome.clause: outcome for outcome in last_told}
    return [outcome for clause, outcome in by_clause.items() if clause not in decided]


def _list_reasons(outcomes: Sequence[Outcome], at_most: int,
                  named: Callable[[Sequence[Outcome]], str] = _name_subjects) -> Iterator[str]:
    found = Counter((each.verdict, each.reason) for each in outcomes)
    order = list(Verdict)
    ranked = sorted(found, key=lambda key: (-order.index(key[0]), -found[key], key[1]))
    if ranked:
        yield "Not judged:"
    for verdict, reason in ranked[:at_most]:
        alike = [each for each in outcomes if (each.verdict, each.reason) == (verdict, reason)]
        why = f"{verdict_words(verdict)}: {reason or 'no reason was given'}"
        yield f"  {found[verdict, reason]:>4} {why} ({named(alike)})"
    if len(ranked) > at_most:
        yield f"       and {count_noun(len(ranked) - at_most, 'further reason')}, in the record"
