"""What was not decided, and why: a line where nothing is to be done about it, else reason by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from attnspec.cli.digest import UNDECIDED, Digest, in_float32_first, verdict_words
from attnspec.cli.wording import name_few
from attnspec.core.nouns import DType, Verdict
from attnspec.record.outcome import Outcome
from attnspec.report.figures import count_noun

REASONS = 12   # reasons for not running that are listed
OTHERS = 2     # reasons beside missing keywords that are told in a line
_ROOM = 60     # characters of a list
_WORDS = {Verdict.NO_CLAIM: ("could not be decided", "could not be decided"),
          Verdict.INAPPLICABLE: ("does not apply", "do not apply")}


def in_short(digest: Digest) -> Iterator[str]:
    """A line for the dtypes that were left out, for the clauses that made no claim, and for those that do not apply."""
    yield from _left_out(digest)
    for verdict, words in _WORDS.items():
        undecided = [outcome for outcome in digest.outcomes if outcome.verdict is verdict]
        if len(digest.subjects) > 1 and undecided:
            yield f"{count_noun(len(undecided), 'item')} {words[len(undecided) > 1]} (-v lists the reasons)"
        elif clauses := _nowhere_decided(undecided, digest):
            them = "it" if len(clauses) == 1 else "them"
            counted = count_noun(len(clauses), "clause")
            yield f"{counted} {words[len(clauses) > 1]}: {format_lacking(clauses)} (-v lists {them})"


def not_run(digest: Digest) -> Iterator[str]:
    """What was not run, by reason; nothing where the verdict itself tells it."""
    lost = [outcome for outcome in digest.outcomes if outcome.verdict is Verdict.NOT_RUN]
    is_all = len(lost) == len(digest.outcomes) and len({(outcome.subject, outcome.reason) for outcome in lost}) == 1
    return _list_reasons([] if is_all else lost, REASONS)


def in_full(digest: Digest) -> Iterator[str]:
    """Everything that was not decided, by reason: of one subject which clauses, of several whom."""
    undecided = [outcome for outcome in digest.outcomes if outcome.verdict in UNDECIDED]
    if len(digest.subjects) > 1:
        return _list_reasons(undecided, len(undecided))
    of_it = [replace(outcome, reason=_of_it(outcome)) for outcome in undecided]
    return _list_reasons(of_it, len(of_it), _name_clauses)


def _of_it(outcome: Outcome) -> str:
    """The reason with `it` for the subject, where a part of it begins with its name."""
    return "; ".join(f"it {part.removeprefix(whole)}" if part.startswith(whole := f"{outcome.subject} ") else part
                     for part in outcome.reason.split("; "))


def _name_clauses(outcomes: Sequence[Outcome]) -> str:
    """The clauses; what was not run is mostly everything, so of that the subject."""
    is_lost = outcomes[0].verdict is Verdict.NOT_RUN
    return _name_subjects(outcomes) if is_lost else ", ".join(dict.fromkeys(each.clause for each in outcomes))


def _name_subjects(outcomes: Sequence[Outcome]) -> str:
    return name_few(list(dict.fromkeys(each.subject for each in outcomes)), _ROOM)


def format_lacking(outcomes: Sequence[Outcome]) -> str:
    """Why clauses do not apply to one subject, the commonest reasons first: `it takes no bias, no window`."""
    ranked = [phrase for phrase, _ in Counter(phrase for each in outcomes for phrase in _phrases(each)).most_common()]
    keywords = [phrase.removeprefix(_TAKES) for phrase in ranked if phrase.startswith(_TAKES_NO)]
    others = [phrase for phrase in ranked if not phrase.startswith(_TAKES_NO)]
    if len(outcomes) > 1:
        others = [phrase.replace("that this clause needs", "that some of them need") for phrase in others]
    told = [*([_TAKES + name_few(keywords, _ROOM)] if keywords else []), *others[:OTHERS]]
    return "; ".join(told) + (f"; and {len(others) - OTHERS} more" if len(others) > OTHERS else "")


_TAKES, _TAKES_NO, _NO_LAYER = "it takes ", "it takes no ", "it is not a layer"
_ITSELF = "\0"  # in a reason, the name of the dtype that it speaks of
_REFUSES = "the function refuses the inputs that this clause needs"
_OF_LAYERS = frozenset({"it takes no params", "it takes no heads"})


def _phrases(outcome: Outcome) -> list[str]:
    """The reason in short: without the subject's name and the shape at hand; keyword by keyword."""
    reason = _of_it(outcome).partition("; here ")[0].partition(": ")[0]
    if reason.startswith(_REFUSES):  # in the words of its exceptions, as the verdict's line says what it refuses
        return [_REFUSES]
    if reason.startswith("it refuses "):  # likewise
        return [reason.partition(" (")[0]]
    if not reason.startswith(_TAKES_NO):
        return [reason or "no reason was given"]
    keywords = [f"{_TAKES}{keyword}" for keyword in reason.removeprefix(_TAKES).split(" and ")]
    return [_NO_LAYER] if set(keywords) & _OF_LAYERS else keywords


def kept_away(digest: Digest) -> tuple[int, int]:
    """How many clauses were put at no dtype because of what a subject refuses, and of how many that it could be put."""
    judged = _judged_dtypes(digest.outcomes)
    put = {each.clause for each in digest.outcomes if each.verdict is not Verdict.INAPPLICABLE}
    away = {each.clause for each in digest.outcomes if each.dtype in judged and _is_refused(_of_it(each))} - put
    return len(away), len(away | put)


def _is_refused(reason: str) -> bool:
    """Whether sizes or layouts that it refuses are why nothing was put."""
    return reason.startswith((_REFUSES, "it refuses ", "it does not take so many ", "it takes only ",
                              "it takes contiguous "))


def _left_out(digest: Digest) -> Iterator[str]:
    """The dtypes at which nothing at all applied to a subject."""
    outcomes = digest.outcomes if len(digest.subjects) == 1 else []
    judged = _judged_dtypes(outcomes)
    told = {outcome.dtype: outcome.reason for outcome in outcomes if outcome.dtype not in judged}
    if not judged:
        return
    reasons = {dtype: told[dtype].replace(dtype.value, _ITSELF) for dtype in DType if dtype in told}
    for reason in dict.fromkeys(reasons.values()):
        alike = [dtype for dtype in reasons if reasons[dtype] == reason]
        head, colon, words = told[alike[0]].partition(": ")  # the words of an exception stay what they are
        head = head.replace(alike[0].value, "them") if len(alike) > 1 else head
        yield f"Not judged at {', '.join(dtype.value for dtype in alike)}: {head}{colon}{words}"


def _judged_dtypes(outcomes: Iterable[Outcome]) -> frozenset[DType]:
    """The dtypes at which something applied."""
    return frozenset(outcome.dtype for outcome in outcomes if outcome.verdict is not Verdict.INAPPLICABLE)


def _nowhere_decided(undecided: Sequence[Outcome], digest: Digest) -> list[Outcome]:
    """An outcome for each clause that was decided at no dtype, at one where something was: another line tells of dtypes
    that are left out.
    """
    decided = {outcome.clause for outcome in digest.outcomes if outcome.verdict not in UNDECIDED}
    judged = _judged_dtypes(digest.outcomes)
    last_told = sorted(undecided, key=lambda each: (each.dtype not in judged, in_float32_first(each)), reverse=True)
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
