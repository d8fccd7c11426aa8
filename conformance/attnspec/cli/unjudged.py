"""What was not decided, and why: a line where nothing is to be done about it, else reason by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attnspec.cli.digest import UNDECIDED, Digest, verdict_words
from attnspec.cli.wording import few, plural
from attnspec.ground.nouns import Verdict
from attnspec.record.outcome import Outcome

REASONS = 12   # reasons for not running that are listed
OTHERS = 2     # reasons beside missing keywords that are told in a line
_ROOM = 60     # characters of a list
_WORDS = {Verdict.NO_CLAIM: ("makes no claim", "make no claim"),
          Verdict.INAPPLICABLE: ("does not apply", "do not apply")}


def in_short(digest: Digest) -> Iterator[str]:
    """A line for the clauses that made no claim, and one for those that do not apply."""
    for verdict, words in _WORDS.items():
        undecided = [outcome for outcome in digest.outcomes if outcome.verdict is verdict]
        if undecided:
            number, noun = _number(undecided, digest)
            yield f"{plural(number, noun)} {words[number > 1]}{_because(undecided, digest)}"


def not_run(digest: Digest) -> Iterator[str]:
    """What was not run, by reason; nothing where the verdict itself tells it."""
    lost = [outcome for outcome in digest.outcomes if outcome.verdict is Verdict.NOT_RUN]
    is_all = len(lost) == len(digest.outcomes) and len({(outcome.subject, outcome.reason) for outcome in lost}) == 1
    return _listed([] if is_all else lost, REASONS)


def in_full(digest: Digest) -> Iterator[str]:
    """Everything that was not decided, by reason."""
    return _listed([outcome for outcome in digest.outcomes if outcome.verdict in UNDECIDED], len(digest.outcomes))


def lacks(outcomes: Sequence[Outcome]) -> str:
    """Why clauses do not apply to one subject, the commonest reasons first: `it takes no bias, no window`."""
    ranked = [phrase for phrase, _ in Counter(phrase for each in outcomes for phrase in _phrases(each)).most_common()]
    keywords = [phrase.removeprefix(_TAKES) for phrase in ranked if phrase.startswith(_TAKES_NO)]
    others = [phrase for phrase in ranked if not phrase.startswith(_TAKES_NO)]
    told = [*([_TAKES + few(keywords, _ROOM)] if keywords else []), *others[:OTHERS]]
    return "; ".join(told) + (f"; and {len(others) - OTHERS} more" if len(others) > OTHERS else "")


_TAKES, _TAKES_NO, _NO_LAYER = "it takes ", "it takes no ", "it is no layer"
_OF_LAYERS = frozenset({"it takes no params", "it takes no heads"})


def _phrases(outcome: Outcome) -> list[str]:
    """The reason in short: without the subject's name and the shape at hand; keyword by keyword."""
    if outcome.refused:
        return [f"it refuses {outcome.refused}"]
    reason = outcome.reason.partition("; here ")[0].partition(": ")[0]
    if reason.startswith(f"{outcome.subject} "):
        reason = f"it {reason.removeprefix(f'{outcome.subject} ')}"
    if not reason.startswith(_TAKES_NO):
        return [reason or "no reason was given"]
    keywords = [f"{_TAKES}{keyword}" for keyword in reason.removeprefix(_TAKES).split(" and ")]
    return [_NO_LAYER] if set(keywords) & _OF_LAYERS else keywords


def _number(undecided: Sequence[Outcome], digest: Digest) -> tuple[int, str]:
    """Of one subject the clauses that are undecided at every dtype; of several the items."""
    if len(digest.subjects) > 1:
        return len(undecided), "item"
    decided = {outcome.clause for outcome in digest.outcomes if outcome.verdict not in UNDECIDED}
    clauses = {outcome.clause for outcome in undecided}
    return len(clauses - decided or clauses), "clause"


def _because(undecided: Sequence[Outcome], digest: Digest) -> str:
    is_one = len(digest.subjects) == 1
    return f": {lacks(undecided)} (-v lists them)" if is_one else " (-v lists the reasons)"


def _listed(outcomes: Sequence[Outcome], at_most: int) -> Iterator[str]:
    found = Counter((each.verdict, each.reason) for each in outcomes)
    order = list(Verdict)
    ranked = sorted(found, key=lambda key: (-order.index(key[0]), -found[key], key[1]))
    if ranked:
        yield "Not judged:"
    for verdict, reason in ranked[:at_most]:
        whom = dict.fromkeys(each.subject for each in outcomes if (each.verdict, each.reason) == (verdict, reason))
        why = f"{verdict_words(verdict)}: {reason or 'no reason was given'}"
        yield f"  {found[verdict, reason]:>4} {why} ({few(list(whom), _ROOM)})"
    if len(ranked) > at_most:
        yield f"       and {plural(len(ranked) - at_most, 'further reason')}, in the record"
