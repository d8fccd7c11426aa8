"""Decides which explanations of failures are of the same bug, and where that bug begins.

A sentence about where a failure begins is checked against all cases of the run before it is shown.
Failed advice may be no bug at all: where libraries differ, the subject may do what some of them
do.
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
"""Themes about rounding and memory: their clauses may fail where the answers are right."""


def telling_failures(failures: Sequence[Outcome]) -> list[Outcome]:
    """The failures whose calls all have the sizes of the case. Only there do the sizes of the case
    say where it fails.
    """
    return [each for each in failures if each.evidence is None or not each.evidence.calls]


def without_contradicted(failures: Sequence[Outcome]) -> list[Outcome]:
    """Removes the conditions that a failing case, its own or one like it, does not meet."""
    return [_as_far_as_borne_out(failure, failures) for failure in failures]


def is_contradicted(says: str, failures: Sequence[Outcome]) -> bool:
    """Whether a case fails at sizes at which the cause says that nothing fails."""
    return len(parts_of(_borne_out_by(says, failures))) < len(parts_of(says))


def said_of_all(says: str, failures: Sequence[Outcome]) -> str:
    """The part of a cause about sizes that no case contradicts; empty if nothing is left."""
    if is_contradicted(says, failures):
        return _borne_out_by(says, failures)
    return says


def _borne_out_by(says: str, failures: Sequence[Outcome]) -> str:
    calls = [_calls_of(each.evidence) for each in failures if each.evidence]
    return conditions_needed_alone(says, calls)


def _calls_of(evidence: Evidence) -> Calls:
    return [lengths_in(each) for each in (evidence.recipe, *evidence.calls)]


def _as_far_as_borne_out(failure: Outcome, failures: Sequence[Outcome]) -> Outcome:
    evidence = failure.evidence
    if evidence is None or not parts_of(evidence.begins):
        return failure
    others = _failures_that_count(failure, evidence, failures)
    left = conditions_needed_alone(evidence.begins, [*map(_calls_of, (evidence, *others))])
    if len(parts_of(left)) == len(parts_of(evidence.begins)):
        return failure
    begins = f"{left[:1].upper()}{left[1:]}." if left else ""
    return replace(failure, evidence=replace(evidence, begins=begins))


def _failures_that_count(failure: Outcome, evidence: Evidence,
                         failures: Sequence[Outcome]) -> Iterator[Evidence]:
    """The other violations at this dtype that nothing explains and that use no further keyword.
    Either the same bug is behind them, or sizes alone do not decide whether it shows.
    """
    keywords = keywords_in(evidence.recipe)
    if failure.verdict is not Verdict.VIOLATED:
        return
    for other in failures:
        seen = other.evidence
        if other is failure or seen is None or seen.like or seen.explained or seen.begins:
            continue
        if (other.verdict is Verdict.VIOLATED and other.dtype is failure.dtype
                and other.clause.partition(".")[0] not in OTHER_THEMES
                and keywords_in(seen.recipe) <= keywords):
            yield seen


_LEFT_OUT = re.compile(r"the answer is .+, and right once (?P<keywords>.+) is left out")
_STAGE = re.compile(r"\((?P<stage>\w+)[^()]*\)$")  # a read-out ends with the stage that it blames
EMPTY_ROWS_CLAUSE = "hidden_rows_follow_convention"
"""The relation that clauses about a query without a visible key measure."""
NO_SIMPLE_RULE = "fails at some sizes, which follow no simple rule"
BACKWARD = "the backward pass is wrong"
"""The beginning of a read-out that finds nothing wrong in the forward pass."""
CONSEQUENT_THEMES = frozenset({"numerics", "drift"})
"""Themes of clauses about rounding. Most bugs break them, and they do not say which bug it is."""
_SOFTMAX_STAGES = frozenset({"softmax", "blocks"})
"""Stages whose faults show or not depending on how large the logits are."""
PRECISION = "precision"
"""The stage of faults that round, and the key under which an arithmetic is declared."""


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """What explains a failure.

    says: a clause without a full stop.  fault: the name of the fault of the catalogue that is like
    it.  advice: what to do.  declare: the line to paste if it is intended.  stage: where in
    attention the fault lies.  where: the sizes at which it shows.
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
        """The cause with the sizes at which it shows: `the last keys are lost, where S ≥ 65`."""
        if self.where:
            return f"{self.says}, where {self.where}"
        return self.says

    @property
    def name(self) -> str:
        """The name of the fault in backticks, or else what the cause says."""
        return f"`{self.fault}`" if self.fault else self.says

    @property
    def is_choice(self) -> bool:
        """Whether there is nothing to mend, but something to declare."""
        return self.says.endswith(A_CHOICE)

    @property
    def noun(self) -> str:
        """What a sentence calls it: a choice, a cause if it can be declared, or a bug."""
        if self.is_choice:
            return "choice, no bug"
        return "cause" if self.declare else "bug"


@dataclass(frozen=True, slots=True)
class ExplainedFailures:
    """Failures with one cause, the clearest first. cause: None if nothing explains them."""

    cause: LikelyCause | None
    failures: tuple[Outcome, ...]


def join_groups(groups: Sequence[ExplainedFailures]) -> list[ExplainedFailures]:
    """Merges the groups that are of the same bug; the largest comes first."""
    piles: list[list[ExplainedFailures]] = []
    for group in groups:
        joined, others = list[ExplainedFailures](), list[list[ExplainedFailures]]()
        for pile in piles:
            if any(_is_one_bug(each, group) for each in pile):
                joined += pile
            else:
                others.append(pile)
        piles = [*others, [*joined, group]]
    return sorted(map(_merge_pile, piles), key=lambda group: -len(group.failures))


def claim_unexplained(groups: Sequence[ExplainedFailures],
                      unexplained: Sequence[Outcome]) -> list[ExplainedFailures]:
    """Adds to each group the unexplained failures of its bug; others come last, without a cause.

    The first group takes the failures whose case lies where it is seen to fail. Each group takes those that give a
    query without a visible key the same wrong answer, whatever hides the keys.
    """
    left, whole = list(unexplained), list[ExplainedFailures]()
    for place, group in enumerate(groups):
        where = group.cause.says if group.cause and not place else ""
        claims = [each for each in left if _is_broken_alike(group, where, each)]
        left = [each for each in left if each not in claims]
        whole.append(replace(group, failures=(*group.failures, *claims)))
    if left:
        whole.append(ExplainedFailures(None, tuple(left)))
    return whole


def _is_broken_alike(group: ExplainedFailures, where: str, failure: Outcome) -> bool:
    """Whether the bug of a group also breaks this. where: the condition under which the group is
    seen to fail.
    """
    if failure.evidence is not None and is_met(where, failure.evidence.case):
        return True
    if _is_of_the_softmax(group) and _is_about_rounding(failure):
        return True
    return any(_is_same_row(failure, each) for each in group.failures)


def _is_same_row(one: Outcome, other: Outcome) -> bool:
    """Whether both give a query without a visible key the same wrong answer."""
    pair = [each.evidence.measured
            for each in (one, other) if each.evidence and each.evidence.measured]
    answers = {(each.relation, repr(each.seen), each.expected) for each in pair}
    return len(pair) == 2 and len(answers) == 1 and pair[0].relation == EMPTY_ROWS_CLAUSE


def _merge_pile(pile: Sequence[ExplainedFailures]) -> ExplainedFailures:
    leading = [group for group in pile
               if group.cause and not any(_shows_in(named, group) for named in pile)]
    candidates = [group for group in leading if not _is_refuted(group, pile)] or leading
    causes = [group.cause for group in candidates if group.cause]
    cause = max(causes, key=lambda each: (
        _is_of_a_keyword(each), bool(each.declare), bool(each.fault), bool(each.advice)))
    failures = tuple(failure for group in pile for failure in group.failures)
    if not cause.fault:
        cause = replace(cause, says=_common_sentence(cause, causes, failures))
    return ExplainedFailures(cause, failures)


def _is_refuted(named: ExplainedFailures, pile: Sequence[ExplainedFailures]) -> bool:
    """Whether another failure of the same bug was searched, and this fault was not found.

    If the fault explains most failures, it is not refuted: the others may be cases in which all
    answers round to the same. A read-out that blames a stage does not refute a fault. Nor do
    gradients, with which a fault of the forward pass cannot be compared.
    """
    fault = named.cause.fault if named.cause else ""
    if not fault or _is_borne_out(fault, pile):
        return False
    for group in pile:
        if group is named or _shows_in_gradients(named, group):
            continue
        for failure in group.failures:
            seen = failure.evidence
            was_sought = seen is not None and seen.located and not stage_of(seen.located)
            if seen and was_sought and fault not in {like.fault for like in seen.like}:
                return True
    return False


def _is_borne_out(fault: str, pile: Sequence[ExplainedFailures]) -> bool:
    """Whether the fault gives the function's own answers in all cases of most failures."""
    evidence = [failure.evidence for group in pile for failure in group.failures]
    alike = [any(like.fault == fault and like.agreed == like.tried for like in each.like)
             for each in evidence if each]
    return 2 * sum(alike) > len(evidence)


def _common_sentence(cause: LikelyCause, causes: Sequence[LikelyCause],
                     failures: Sequence[Outcome]) -> str:
    """Says at which sizes a bug shows whose failures are seen to begin at different sizes.

    A beginning that most failures share is preferred: a clause that makes larger calls than its
    case begins below it. Otherwise the block whose edges explain all ranges says more than the
    ranges.
    """
    if len({each.says for each in causes}) < 2:
        return cause.says
    if usual := usual_beginning(failures):
        return usual
    says = cause.says
    if spans := common_spans(list(_count_beginnings(failures))):
        says = f"fails where {' and '.join(span.words for span in spans)}"
    return said_of_all(says, failures) or NO_SIMPLE_RULE


def _count_beginnings(failures: Sequence[Outcome]) -> Counter[str]:
    return Counter(filter(None, map(begins_at, telling_failures(failures) or failures)))


def usual_beginning(failures: Sequence[Outcome]) -> str:
    """Where most failures begin of which that is known, if no case contradicts it; else empty.
    Upper ends that differ from case to case, or depend on the entries, are no boundary.
    """
    beginnings = _count_beginnings(failures)
    [(usual, count)] = beginnings.most_common(1) or [("", 0)]
    ends = {span.high for each in beginnings
            for span in read_spans_told(each) if span.low < span.high}
    is_plain = not any(span.is_open or (span.low < span.high and len(ends) > 1)
                       for span in read_spans_told(usual))
    if 2 * count > beginnings.total() and is_plain and not is_contradicted(usual, failures):
        return lower_first_letter(usual)
    return ""


def _is_one_bug(one: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether two groups of failures have the same bug.

    They do if they are like the same fault. If one is like no fault, they do if they may begin at
    the same sizes, or if read-outs blame the same stage. An arithmetic that may be intended is
    behind what it allows, and behind faults of rounding.
    """
    cause, other_cause = one.cause, other.cause
    if cause is None or other_cause is None:
        return False
    followings = (_is_consequence, _needs_keyword, _shows_in, _shows_in_gradients)
    if any(is_behind(one, other) or is_behind(other, one) for is_behind in followings):
        return True
    if cause.fault and other_cause.fault:
        return cause.fault == other_cause.fault
    if cause.declare or other_cause.declare:
        return False
    if _lies_within(one, other) or _lies_within(other, one) or _begin_alike(one, other):
        return True
    stage = _blamed_stage(one)
    return stage != "" and stage == _blamed_stage(other)


def _shows_in(named: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether a fault of the softmax also explains a smaller group. It does if that group is wrong
    from some size of logits on, or fails clauses about rounding alone.
    """
    if not other.cause or not _is_of_the_softmax(named) or len(named.failures) <= len(other.failures):
        return False
    if not other.cause.fault and other.cause.says.startswith(f"{MAGNITUDE_CAUSE}logit "):
        return True
    return bool(other.cause.declare) and all(map(_is_about_rounding, other.failures))


def _shows_in_gradients(named: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether a keyword's fault explains gradients that are wrong only with that keyword."""
    if not named.cause or not other.cause or other.cause.fault or not _is_of_a_keyword(named.cause):
        return False
    return all(failure.clause.startswith(f"{GRADIENTS_PROFILE}.") and failure.evidence
               and named.cause.stage in needed_keywords(failure.evidence.located)
               for failure in other.failures)


def _is_of_the_softmax(group: ExplainedFailures) -> bool:
    return (group.cause is not None and bool(group.cause.fault)
            and group.cause.stage in _SOFTMAX_STAGES)


def _is_about_rounding(failure: Outcome) -> bool:
    return failure.clause.partition(".")[0] in CONSEQUENT_THEMES


def _lies_within(bounded: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether the other group's cases lie where the first fails, and need its keyword. Where the
    other group begins must be unknown.
    """
    parts = parts_of(bounded.cause.says) if bounded.cause and not bounded.cause.fault else ()
    evidence = [each.evidence for each in other.failures if each.evidence]
    if not parts or len(evidence) < len(other.failures) or any(map(begins_at, other.failures)):
        return False
    shared = set.intersection(*(set(needed_keywords(each.located)) for each in evidence))
    if not shared or not all(shared & keywords_in(each.evidence.recipe)
                             for each in bounded.failures if each.evidence):
        return False
    cases = [lengths_in(each.recipe) for each in evidence]
    return all(meets_condition(part, lengths) is not False for part in parts for lengths in cases)


def _blamed_stage(group: ExplainedFailures) -> str:
    """The stage of the fault, or else the one that most read-outs blame; may be empty."""
    if group.cause and group.cause.stage:
        return group.cause.stage
    stages = (stage_of(each.evidence.located) for each in group.failures if each.evidence)
    [(often, _)] = Counter(filter(None, stages)).most_common(1) or [("", 0)]
    return often


def _is_consequence(rounding: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether a fault of precision is the arithmetic that explains as many failures."""
    if not rounding.cause or not other.cause or PRECISION not in rounding.cause.declare:
        return False
    rounding_dtypes = {each.dtype for each in rounding.failures}
    return (other.cause.stage == PRECISION
            and len(rounding.failures) >= len(other.failures)
            and all(each.dtype in rounding_dtypes for each in other.failures))


def _needs_keyword(rounding: ExplainedFailures, named: ExplainedFailures) -> bool:
    """Whether all failures that an arithmetic would allow use the keyword whose fault is named.
    Products and sums are rounded whatever keywords are used, so such failures are of the fault.
    """
    if not rounding.cause or not named.cause or PRECISION not in rounding.cause.declare:
        return False
    cases = [keywords_in(each.evidence.recipe) for each in rounding.failures if each.evidence]
    is_needed = len(cases) > 1 and all(named.cause.stage in keywords for keywords in cases)
    return is_needed and _is_of_a_keyword(named.cause)


def _is_of_a_keyword(cause: LikelyCause) -> bool:
    return bool(cause.fault) and cause.stage in KEYWORDS


def _begin_alike(one: ExplainedFailures, other: ExplainedFailures) -> bool:
    """Whether half of the failures of each group may begin where one of the other does.

    Clauses limit the sizes, so the same bug may be seen to begin elsewhere. Failures with no known
    beginning do not count.
    """
    mine, theirs = ([*filter(None, map(begins_at, group.failures))] for group in (one, other))
    return _half_begin_alike(mine, theirs) and _half_begin_alike(theirs, mine)


def _half_begin_alike(some: Sequence[str], others: Sequence[str]) -> bool:
    alike = sum(any(_are_compatible(begin, other) for other in others) for begin in some)
    return bool(some) and 2 * alike >= len(some)


def _are_compatible(one: str, other: str) -> bool:
    """Whether both are the same, or share a condition that lengths below one block do not meet."""
    # "fails where" and "fails only where" may have the same conditions
    if one == other or parts_of(one) == parts_of(other) != ():
        return True
    return any(span.low > SMALLEST_BLOCK for span in common_spans((one, other)))


def needed_keywords(located: str) -> list[str]:
    """The keywords each of which makes the answer right if it is left out."""
    found = _LEFT_OUT.fullmatch(located)
    return found["keywords"].split(" or ") if found else []


def stage_of(located: str) -> str:
    """The stage that a read-out blames: `mask` of `… (mask)`; empty if it blames none."""
    if located.startswith(BACKWARD):
        return BACKWARD
    found = _STAGE.search(located)
    return found["stage"] if found else ""


def lower_first_letter(sentence: str) -> str:
    """A sentence as a clause: it begins with a small letter."""
    return sentence[:1].lower() + sentence[1:]


def begins_at(failure: Outcome) -> str:
    """Where a failure begins: `Fails where T ≥ 65`; empty if that is not known."""
    if failure.evidence:
        return failure.evidence.begins.partition(";")[0].rstrip(".")
    return ""


_ANSWER = re.compile(r"(?P<name>[\w.]+) is '(?P<answer>\w+)'")  # what a clause on a convention says it saw

UNSPECIFIED = "unspecified"
"""The answer of a convention that promises nothing."""


def is_other_convention(outcome: Outcome) -> bool:
    """Whether the subject follows a convention that is in use, but not recommended. An answer that
    no library is known to give has an explanation in the evidence.
    """
    seen = outcome.evidence
    return bool(seen and seen.measured and seen.measured.relation == "convention_is"
                and not seen.explained)


def other_conventions(outcomes: Iterable[Outcome], card: SubjectCard | None) -> tuple[str, ...]:
    """Describes what a subject does by conventions that are not recommended, by name.

    Conventions for which a probe found that anything may come are among them: a keyword that is
    ignored looks so.
    """
    answers = set[tuple[str, str]]()
    for outcome in outcomes:
        if outcome.evidence and is_other_convention(outcome):
            found = _ANSWER.match(outcome.evidence.sentence)
            if found:
                answers.add((found["name"], found["answer"]))
    if card:
        answers.update(each for each in card.probed.items() if each[1] == UNSPECIFIED)
    return tuple(describe_answer(*each) for each in sorted(answers))
