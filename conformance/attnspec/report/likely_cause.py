"""What explains failures, and which explanations are of one bug.

What is told of where a failure begins is held against the cases of its run before anybody reads it. Failed advice may
be no bug at all: where libraries differ, the subject does what some of them do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from attnspec.core.conventions import describe_answer
from attnspec.core.keyword import GRADIENTS_PROFILE
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Verdict
from attnspec.record.boundaries import (
    SMALLEST_BLOCK,
    Calls,
    common_spans,
    conditions_needed_alone,
    is_met,
    keywords_in,
    lengths_in,
    meets_condition,
    parts_of,
    read_spans_told,
)
from attnspec.record.outcome import A_CHOICE, MAGNITUDE_CAUSE, Evidence, Outcome, SubjectCard

OTHER_THEMES = frozenset({"numerics", "drift", "purity"})
"""Themes whose clauses may break at sizes at which the answers are right: they are about rounding and about memory."""


def telling_failures(failures: Sequence[Outcome]) -> list[Outcome]:
    """The failures whose case has the sizes of every call that is made of it: of another the case says little of where
    it fails.
    """
    return [each for each in failures if each.evidence is None or not each.evidence.calls]


def without_contradicted(failures: Sequence[Outcome]) -> list[Outcome]:
    """The failures, each with those conditions alone that its own case meets, and every case like it that failed."""
    return [_as_far_as_borne_out(failure, failures) for failure in failures]


def is_contradicted(says: str, failures: Sequence[Outcome]) -> bool:
    """Whether one of these cases fails at sizes at which a cause says that nothing fails."""
    parts, left = parts_of(says), parts_of(conditions_needed_alone(says,
                                                                   _lengths_of_failures(failures)))
    return len(left) < len(parts)


def said_of_all(says: str, failures: Sequence[Outcome]) -> str:
    """Leaves of a cause that names sizes what all these cases bear out; "" if nothing is left."""
    if is_contradicted(says, failures):
        return conditions_needed_alone(says, _lengths_of_failures(failures))
    return says


def _lengths_of_failures(failures: Sequence[Outcome]) -> list[Calls]:
    return [_calls_of(each.evidence) for each in failures if each.evidence]


def _calls_of(evidence: Evidence) -> Calls:
    return [lengths_in(each) for each in (evidence.recipe, *evidence.calls)]


def _as_far_as_borne_out(failure: Outcome, failures: Sequence[Outcome]) -> Outcome:
    evidence = failure.evidence
    if evidence is None or not parts_of(evidence.begins):
        return failure
    cases = [_calls_of(each)
             for each in (evidence, *_failures_that_count(failure, evidence, failures))]
    left = conditions_needed_alone(evidence.begins, cases)
    if len(parts_of(left)) == len(parts_of(evidence.begins)):
        return failure
    return replace(failure,
                   evidence=replace(evidence, begins=left and f"{left[:1].upper()}{left[1:]}."))


def _failures_that_count(failure: Outcome, evidence: Evidence,
                         failures: Sequence[Outcome]) -> Iterator[Evidence]:
    """The other failures that nothing else explains and that are given no more than this one: the same bug breaks them
    or it is no matter of sizes alone.
    """
    given = keywords_in(evidence.recipe)
    for other in failures:
        seen = other.evidence
        if (other is not failure and seen is not None and other.verdict is Verdict.VIOLATED
                and other.verdict is failure.verdict and other.dtype is failure.dtype
                and other.clause.partition(".")[0] not in OTHER_THEMES
                and not (seen.like or seen.explained or seen.begins)
            and keywords_in(seen.recipe) <= given):
            yield seen


_LEFT_OUT = re.compile(r"the answer is .+, and right once (?P<keywords>.+) is left out")
_STAGE = re.compile(r"\((?P<stage>\w+)[^()]*\)$")  # a read-out ends with the stage that it blames
EMPTY_ROWS_CLAUSE = "hidden_rows_follow_convention"
"""The word of clauses about a query without a key."""
NO_SIMPLE_RULE = "fails at some sizes, which follow no simple rule"
BACKWARD = "the backward pass is wrong"
"""How a read-out begins that finds nothing wrong in the forward pass."""
CONSEQUENT_THEMES = frozenset({"numerics", "drift"})
"""Themes whose clauses are about rounding: most that is wrong breaks them, too, and they do not say what it is."""
_SOFTMAX_STAGES = frozenset({"softmax", "blocks"})
"""Stages at which it depends on how large logits are what goes wrong."""
PRECISION = "precision"
"""The stage of faults that round, and the key under which an arithmetic is declared."""


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """What explains a failure: a clause without a full stop, the fault that is like it, what to do, what to declare.

    stage: where in attention that fault sits.  where: at which sizes alone it shows, where a fault says it not itself.
    """

    says: str
    fault: str = ""
    advice: str = ""
    declare: str = ""
    stage: str = ""
    where: str = ""

    def __str__(self) -> str:
        if self.fault:
            return f"{self.sentence} ({self.name})"
        return self.sentence

    @property
    def sentence(self) -> str:
        """The cause in a sentence, with the sizes at which it shows: `the last keys are lost, where S ≥ 65`."""
        if self.where:
            return f"{self.says}, where {self.where}"
        return self.says

    @property
    def name(self) -> str:
        """The fault, or else what the cause says."""
        return f"`{self.fault}`" if self.fault else self.says

    @property
    def is_choice(self) -> bool:
        """Whether there is nothing to mend: it is to be declared."""
        return self.says.endswith(A_CHOICE)

    @property
    def noun(self) -> str:
        """What a sentence calls it: a bug, or a choice or cause where it can be declared."""
        if self.is_choice:
            return "choice, no bug"
        return "cause" if self.declare else "bug"


@dataclass(frozen=True, slots=True)
class ExplainedFailures:
    """Failures with one cause, the clearest first; None: nothing explains them."""

    cause: LikelyCause | None
    failures: tuple[Outcome, ...]


def join_groups(groups: Sequence[ExplainedFailures]) -> list[ExplainedFailures]:
    """Groups of one bug as one, under a fault's name if any has one; that of most failures first."""
    piles: list[list[ExplainedFailures]] = []
    for group in groups:
        mine = [pile for pile in piles if any(_is_one_bug(each, group) for each in pile)]
        piles = [*(pile for pile in piles if pile not in mine),
                 [*(each for pile in mine for each in pile), group]]
    return sorted(map(_merge_pile, piles), key=lambda group: -len(group.failures))


def claim_unexplained(groups: Sequence[ExplainedFailures],
                      unexplained: Sequence[Outcome]) -> list[ExplainedFailures]:
    """The groups, with those of the unexplained that no bug of their own breaks: the first with those whose case lies
    where it is seen to fail, each with those that answer a query without a key as wrongly, whatever hides the keys.
    Those that are left come last, under no cause.
    """
    rest, whole = list(unexplained), list[ExplainedFailures]()
    for at, group in enumerate(groups):
        where = group.cause.says if group.cause and not at else ""
        mine = [each for each in rest if _is_broken_alike(group, where, each)]
        rest = [each for each in rest if each not in mine]
        whole.append(replace(group, failures=(*group.failures, *mine)))
    return [*whole, *([ExplainedFailures(None, tuple(rest))] if rest else [])]


def _is_broken_alike(group: ExplainedFailures, where: str, failure: Outcome) -> bool:
    """Whether what breaks the group breaks this, too. where: the group is seen to fail."""
    lies_there = failure.evidence is not None and is_met(where, failure.evidence.case)
    is_consequence = _is_of_the_softmax(group) and _is_about_rounding(failure)
    return (lies_there or is_consequence or any(_is_same_row(failure, each)
                                                for each in group.failures))


def _is_same_row(one: Outcome, other: Outcome) -> bool:
    """Whether both give a query without a key the same, and another answer than is declared."""
    pair = [each.evidence.measured
            for each in (one, other) if each.evidence and each.evidence.measured]
    told = {(each.relation, repr(each.seen), each.expected) for each in pair}
    return len(pair) == 2 and len(told) == 1 and pair[0].relation == EMPTY_ROWS_CLAUSE


def _merge_pile(pile: Sequence[ExplainedFailures]) -> ExplainedFailures:
    leading = [group for group in pile if not any(_shows_in(named, group) for named in pile)]
    causes = [group.cause
              for group in leading if group.cause and not _is_refuted(group, pile)] or [
        group.cause for group in leading if group.cause]
    told = max(causes, key=lambda cause: (
        _is_of_a_keyword(cause), bool(cause.declare), bool(cause.fault), bool(cause.advice)))
    failures = tuple(failure for group in pile for failure in group.failures)
    return ExplainedFailures(told if told.name != told.says
                             else replace(told, says=_common_sentence(told, causes, failures)),
                             failures)


def _is_refuted(named: ExplainedFailures, pile: Sequence[ExplainedFailures]) -> bool:
    """Whether faults were looked for behind another failure of the same bug, and the fault that is named was none: but
    where most failures bear the fault out, the other is one at which all answers round to nothing. A read-out that
    blames a stage says as much as a fault of it; of gradients, a fault of the forward pass has none to compare.
    """
    fault = named.cause.fault if named.cause else ""
    others = [group
              for group in pile if group is not named and not _shows_in_gradients(named, group)]
    looked_for = [each.evidence for group in others for each in group.failures
                  if each.evidence and each.evidence.located
                  and not stage_of(each.evidence.located)]
    is_spoken_against = any(fault not in {like.fault for like in each.like} for each in looked_for)
    return bool(fault) and is_spoken_against and not _is_borne_out(fault, pile)


def _is_borne_out(fault: str, pile: Sequence[ExplainedFailures]) -> bool:
    """Whether in most failures a fault gives the function's own answers in all that was tried."""
    seen = [failure.evidence for group in pile for failure in group.failures]
    alike = [any(like.fault == fault and like.agreed == like.tried for like in each.like)
             for each in seen if each]
    return 2 * sum(alike) > len(seen)


def _common_sentence(told: LikelyCause, causes: Sequence[LikelyCause],
                     failures: Sequence[Outcome]) -> str:
    """What the sizes have in common at which one bug is seen to begin, where it is seen to begin at several; or what
    most failures say, for a clause that looks at larger sizes than its case has begins below them. Ranges that end say
    less than the block that ends them.
    """
    seen = Counter(filter(None, map(begins_at, telling_failures(failures) or failures)))
    if len({cause.says for cause in causes}) < 2:
        return told.says
    if usual := usual_beginning(failures):
        return usual
    found = common_spans(list(seen))
    says = f"fails where {' and '.join(span.words for span in found)}" if found else told.says
    return said_of_all(says, failures) or NO_SIMPLE_RULE


def usual_beginning(failures: Sequence[Outcome]) -> str:
    """What most failures that are seen to begin anywhere say of it, and no case contradicts; empty if there is none.

    Ends that differ from case to case, and with the entries, are no boundary.
    """
    seen = Counter(filter(None, map(begins_at, telling_failures(failures) or failures)))
    [(usual, count)] = seen.most_common(1) or [("", 0)]
    ends = {span.high for each in seen for span in read_spans_told(each) if span.low < span.high}
    is_plain = not any(span.is_open or (span.low < span.high and len(ends) > 1)
                       for span in read_spans_told(usual))
    is_told = 2 * count > seen.total() and is_plain and not is_contradicted(usual, failures)
    return lower_first_letter(usual) if is_told else ""


def _is_one_bug(one: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether both are like one fault; or, where one is like none, whether they may begin at the same sizes, or
    read-outs blame one stage for both. An arithmetic that may be meant is behind what it allows, and behind what is
    like a fault that rounds.
    """
    cause, beside = one.cause, other.cause
    if cause is None or beside is None:
        return False
    followings = (_is_consequence, _needs_keyword, _shows_in, _shows_in_gradients)
    if any(is_behind(one, other) or is_behind(other, one) for is_behind in followings):
        return True
    if cause.fault and beside.fault:
        return cause.fault == beside.fault
    if cause.declare or beside.declare:
        return False
    if _lies_within(one, other) or _lies_within(other, one):
        return True
    return (_begin_alike(one, other)
            or bool(_blamed_stage(one) and _blamed_stage(one) == _blamed_stage(other)))


def _shows_in(named: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether a fault of the softmax that explains more is what the other shows: answers that are wrong from some
    logits on, or clauses about rounding alone.
    """
    if not other.cause or not _is_of_the_softmax(named) or len(named.failures) <= len(other.failures):
        return False
    is_of_logits = (not other.cause.fault
                    and other.cause.says.startswith(f"{MAGNITUDE_CAUSE}logit "))
    return (is_of_logits
            or (bool(other.cause.declare) and all(map(_is_about_rounding, other.failures))))


def _shows_in_gradients(named: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether a fault of a keyword is what gradients show that are wrong where that keyword is given: what the forward
    pass gets wrong, its gradients do.
    """
    if not named.cause or not other.cause or other.cause.fault or not _is_of_a_keyword(named.cause):
        return False
    needed = [needed_keywords(each.evidence.located) if each.evidence else []
              for each in other.failures]
    return all(named.cause.stage in each for each in needed) and all(
        each.clause.startswith(f"{GRADIENTS_PROFILE}.") for each in other.failures)


def _is_of_the_softmax(group: ExplainedFailures) -> bool:
    return (group.cause is not None and bool(group.cause.fault)
            and group.cause.stage in _SOFTMAX_STAGES)


def _is_about_rounding(failure: Outcome) -> bool:
    return failure.clause.partition(".")[0] in CONSEQUENT_THEMES


def _lies_within(bounded: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether every case of the other lies where the first is seen to fail, and both are right once the same keyword
    is left out: of the other alone nobody could say where it begins.
    """
    parts = parts_of(bounded.cause.says) if bounded.cause and not bounded.cause.fault else ()
    if not parts or any(map(begins_at, other.failures)):
        return False
    needed = [set(needed_keywords(each.evidence.located))
              for each in other.failures if each.evidence]
    shared = set.intersection(*needed) if len(needed) == len(other.failures) else set[str]()
    given = [keywords_in(each.evidence.recipe) for each in bounded.failures if each.evidence]
    cases = [lengths_in(each.evidence.recipe) for each in other.failures if each.evidence]
    return bool(shared) and all(shared & each for each in given) and all(
        meets_condition(part, lengths) is not False for part in parts for lengths in cases)


def _blamed_stage(group: ExplainedFailures) -> str:
    """The stage of the fault, or else the one that most read-outs blame; empty where none blames any."""
    if group.cause and group.cause.stage:
        return group.cause.stage
    often = Counter(filter(None, (stage_of(each.evidence.located) for each in group.failures if each.evidence)))
    return max(often, key=lambda each: often[each], default="")


def _is_consequence(rounding: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether a fault of precision, at no other dtype, is but the arithmetic that explains more of the failures."""
    if not rounding.cause or not other.cause or PRECISION not in rounding.cause.declare:
        return False
    is_among = {each.dtype for each in other.failures} <= {each.dtype
                                                           for each in rounding.failures}
    return (other.cause.stage == PRECISION and is_among
            and len(rounding.failures) >= len(other.failures))


def _needs_keyword(rounding: ExplainedFailures, named: ExplainedFailures) -> bool:
    """Whether what an arithmetic would allow shows only where the keyword is given of which a fault is named: products
    and sums are rounded whatever is given.
    """
    if not rounding.cause or not named.cause or PRECISION not in rounding.cause.declare:
        return False
    cases = [keywords_in(each.evidence.recipe) for each in rounding.failures if each.evidence]
    is_needed = len(cases) > 1 and all(named.cause.stage in given for given in cases)
    return is_needed and _is_of_a_keyword(named.cause)


def _is_of_a_keyword(cause: LikelyCause) -> bool:
    return bool(cause.fault) and cause.stage in KEYWORDS


def _begin_alike(one: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether at least half of the failures of either, of which that is known, may begin where one of the other does:
    clauses limit sizes, so that one bug may be seen to begin elsewhere.
    """
    mine, theirs = ([begin for failure in group.failures if (begin := begins_at(failure))]
                    for group in (one, other))
    return _half_begin_alike(mine, theirs) and _half_begin_alike(theirs, mine)


def _half_begin_alike(some: Sequence[str], others: Sequence[str]) -> bool:
    alike = sum(any(_are_compatible(begin, other) for other in others) for begin in some)
    return bool(some) and 2 * alike >= len(some)


def _are_compatible(one: str, other: str) -> bool:
    """Whether they are the same, or have a condition in common which lengths as of one block or row do not meet."""
    # the one may fail in every case, and the other only there
    same = parts_of(one) == parts_of(other) != ()
    return (one == other or same or any(span.low > SMALLEST_BLOCK
                                        for span in common_spans((one, other))))


def needed_keywords(located: str) -> list[str]:
    """The keywords of which the answer is right without any one."""
    found = _LEFT_OUT.fullmatch(located)
    return found["keywords"].split(" or ") if found else []


def stage_of(located: str) -> str:
    """The stage that a read-out blames: `mask` of `… (mask)`; empty where it blames none."""
    if located.startswith(BACKWARD):
        return BACKWARD
    found = _STAGE.search(located)
    return found["stage"] if found else ""


def lower_first_letter(sentence: str) -> str:
    """A sentence as a clause: it begins with a small letter."""
    return sentence[:1].lower() + sentence[1:]


def begins_at(failure: Outcome) -> str:
    """Says where a failure begins: `Fails where T ≥ 65`; empty where all sizes are alike, or nobody looked."""
    if failure.evidence:
        return failure.evidence.begins.partition(";")[0].rstrip(".")
    return ""


_ANSWER = re.compile(r"(?P<name>[\w.]+) is '(?P<answer>\w+)'")
"""How a clause on a convention says what it found."""

UNSPECIFIED = "unspecified"
"""The answer of a convention by which anything may come."""


def is_other_convention(outcome: Outcome) -> bool:
    """Whether a clause recommends one answer of a convention, and the subject follows another.

    What no library is known to do has an explanation; it is not in use.
    """
    found = outcome.evidence
    return bool(found and found.measured and found.measured.relation == "convention_is"
                and not found.explained)


def other_conventions(outcomes: Iterable[Outcome], card: SubjectCard | None) -> tuple[str, ...]:
    """What one subject does by conventions that are others than recommended, as clauses, by the names of these; and by
    those of which a probe found that it promises nothing: that is what a keyword that is ignored looks like.
    """
    found = (_ANSWER.match(outcome.evidence.sentence) for outcome in outcomes
             if outcome.evidence and is_other_convention(outcome))
    others = {(each["name"], each["answer"]) for each in found if each}
    probed = {each for each in card.probed.items() if each[1] == UNSPECIFIED} if card else set()
    return tuple(describe_answer(*each) for each in sorted(others | probed))
