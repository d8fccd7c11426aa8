"""Says what is likely behind failures: those that the same cause explains are one bug."""

from __future__ import annotations

import keyword
import math
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from attnspec.core.dtype import HALF_DTYPES
from attnspec.core.forms import EVERY_KEYWORD
from attnspec.core.nouns import FAILURES, Verdict
from attnspec.core.texts import count_noun
from attnspec.record.boundaries import keywords_in, parts_of
from attnspec.record.outcome import A_CHOICE, Evidence, Explanation, Likeness, Outcome
from attnspec.report.figures import LEVEL_WEIGHTS
from attnspec.report.likely_cause import (
    CONSEQUENT_THEMES,
    ExplainedFailures,
    LikelyCause,
    begins_at,
    claim_unexplained,
    join_groups,
    lower_first_letter,
    needed_keywords,
    stage_of,
    usual_beginning,
    without_contradicted,
)

UNLOCATED = ("no small test input ", "no read-out ", "the read-outs could not be taken",
             "the diagnosis itself failed")
"""The beginnings of diagnoses that found nothing."""

_ONLY_WRONG = re.compile(r"Only the (?P<what>[^.;]+) (?:is|are) wrong;")
_ITS_DTYPE = "the inputs' dtype"
_STORY_WIDTH = 80  # characters of a fault's story, and of an exception
_FEW_WORDS = 3
# in a manifest, the dtype is the key before the words
_MANIFEST_DTYPE = re.compile(r"(?<=: )\w+: $")
CALL_FAILURES = FAILURES - {Verdict.VIOLATED}
"""Failures whose sentence says how the call ended."""

_SEEN_TO_FAIL = ("fails where ", "fails only where ", "fails at ")
"""The beginnings of causes that say no more than at which sizes answers are wrong."""

_NAMED_FAULT = re.compile(r" \(`(?P<fault>\w+)`\)$")  # a sentence may end with the fault it is about
_DEFINITION = "definition"
LAYOUT_CAUSES: Mapping[str, LikelyCause] = dict.fromkeys(
    ("purity.strided_inputs", "purity.transposed_inputs", "purity.broadcast_inputs",
     "gradients.layout"),
    LikelyCause("the answer changes with how the inputs lie in memory", stage="layout",
                advice="Read them by their strides, or copy them first (np.ascontiguousarray, .contiguous())"))
"""The cause of failures that nothing else explains, by clause about how inputs lie in memory."""
_THEMES: Mapping[str, str] = {
    "state": "purity", "purity": "purity", "layout": "purity", "projection": "layers",
    "split": "layers", "merge": "layers", "gqa": "grouped"}
"""The theme of clauses about a fault, by its stage or the first word of its name."""


def explain_bugs(failures: Sequence[Outcome]) -> tuple[ExplainedFailures, ...]:
    """Groups failures by cause: the commonest cause comes first, the unexplained failures last.

    A fault counts for every failure that it explains as well as the likeliest fault does. Among
    faults that explain equally many, the one wins whose failures fewest others explain, then the
    one that is more often the likeliest. A failure that is like no fault joins those that begin at
    the same sizes, or that are like a fault of the stage that its read-outs blame.
    """
    groups = []
    left = [(failure, _possible_causes(failure)) for failure in without_contradicted(failures)]
    while (best := _commonest([causes for _, causes in left])) is not None:
        explained = tuple(failure for failure, causes in left if best in causes)
        groups.append(ExplainedFailures(_merge_dtypes(best, explained), explained))
        left = [each for each in left if best not in each[1]]
    whole = claim_unexplained(_sort_bugs_first(join_groups(groups)),
                              [failure for failure, _ in left])
    for add in (_join_exceptions, _with_its_sizes, _with_its_keywords, _with_its_quantity,
                _with_what_it_raises):
        whole = [add(group) for group in whole]
    return tuple(map(_put_clearest_first, whole))


def _sort_bugs_first(groups: Sequence[ExplainedFailures]) -> Sequence[ExplainedFailures]:
    """Puts last what an arithmetic explains, because it may be a choice and no bug.

    Before it come groups that only say at which sizes half precision fails, because that may be
    rounding, too. Groups that show at a dtype at which no arithmetic explains anything come before
    others.
    """
    rounding = {failure.dtype for group in groups if _is_arithmetic(group)
                for failure in group.failures}
    return sorted(groups, key=lambda group: (
        _is_arithmetic(group),
        group.cause is not None and is_place(group.cause) and all(map(_is_half, group.failures)),
        not rounding or {each.dtype for each in group.failures} <= rounding))


def is_place(cause: LikelyCause) -> bool:
    """Whether a cause says no more than at which sizes answers are wrong."""
    return not cause.fault and not cause.advice and cause.says.startswith(_SEEN_TO_FAIL)


def _seen_place(cause: LikelyCause, *, is_sought: bool) -> str:
    """`It fails at S = 5` if causes were not looked for; else empty."""
    if not is_sought and is_place(cause):
        return f"It {cause.says}"
    return ""


def _is_half(failure: Outcome) -> bool:
    return failure.dtype in HALF_DTYPES


def _is_arithmetic(group: ExplainedFailures) -> bool:
    return any(each.evidence and each.evidence.explained and each.evidence.explained.words
               for each in group.failures)


def _with_its_keywords(group: ExplainedFailures) -> ExplainedFailures:
    """Adds to the sizes the keywords without which the answers are right."""
    if group.cause is None or not group.cause.says.startswith(_SEEN_TO_FAIL):
        return group
    located = [each.evidence.located for each in group.failures if each.evidence]
    needed = {tuple(needed_keywords(each))
              for each in located if each and not each.startswith(UNLOCATED)}
    if len(needed) != 1 or () in needed:
        return group
    names = needed.pop()
    for failure in group.failures:
        recipe = failure.evidence.recipe if failure.evidence else ""
        # it fails without one of them, too
        if recipe and EVERY_KEYWORD.keys() & {*names} - keywords_in(recipe):
            return group
    return _with_words(group, f"{group.cause.says}, with {' and '.join(names)}")


def _with_words(group: ExplainedFailures, says: str) -> ExplainedFailures:
    if group.cause is None:
        return group
    return replace(group, cause=replace(group.cause, says=says))


def _join_exceptions(group: ExplainedFailures) -> ExplainedFailures:
    """Turns "fails where" into "fails only where" if a failure says so of these conditions. Then
    some cases that meet the condition hold.
    """
    says = group.cause.says if group.cause else ""
    if not says.startswith("fails where "):
        return group
    conditions = set(parts_of(says))
    begins = map(begins_at, group.failures)
    if any(each.startswith("Fails only where ") and conditions <= set(parts_of(each))
           for each in begins):
        return _with_words(group, says.replace("fails where ", "fails only where ", 1))
    return group


def _with_its_sizes(group: ExplainedFailures) -> ExplainedFailures:
    """Adds the sizes at which a fault shows, if most failures agree and none contradicts."""
    if group.cause is None or not group.cause.fault or group.cause.declare:
        return group
    located = sum(bool(begins_at(each)) for each in group.failures)
    if 2 * located <= len(group.failures):
        return group
    where = " and ".join(parts_of(usual_beginning(group.failures)))
    return replace(group, cause=replace(group.cause, where=where))


def _with_its_quantity(group: ExplainedFailures) -> ExplainedFailures:
    """Adds `only the log-sum-exp`, if all failures say so and the cause is no fault."""
    if group.cause is None or group.cause.fault or group.cause.declare:
        return group
    found = [_ONLY_WRONG.search(each.evidence.wrong) for each in group.failures if each.evidence]
    names = {each["what"] if each else "" for each in found}
    if len(names) != 1 or "" in names:
        return group
    return _with_words(group, f"{group.cause.says}, only the {names.pop()}")


def _with_what_it_raises(group: ExplainedFailures) -> ExplainedFailures:
    """Adds the exception to the sizes, if all failures raise the same one."""
    if group.cause is None or not group.cause.says.startswith(_SEEN_TO_FAIL):
        return group
    exceptions = set[str]()
    for failure in group.failures:
        if failure.evidence is None or failure.verdict is not Verdict.ERRORED:
            return group
        exceptions.add(failure.evidence.sentence.partition(":")[0])
    if len(exceptions) != 1 or "" in exceptions:
        return group
    return _with_words(group, f"{group.cause.says}, and raises {exceptions.pop()}")


def likely_group(failures: Sequence[Outcome]) -> ExplainedFailures | None:
    """The failures with the commonest cause; None if more failures have no known cause."""
    first, _ = _commonest_group(explain_bugs(failures))
    return first


def unexplained_failures(failures: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """The failures that nothing explains."""
    return _failures_without_cause(explain_bugs(failures))


def likely_words(failures: Sequence[Outcome], *, is_sought: bool = True) -> str:
    """`Likely one bug: each query sees one later key (`causal_off_by_one`, explains 19 of 19)`.

    The text is empty if no cause is likely. is_sought: whether causes were looked for. If they
    were not, the text says what is seen: `It fails at S = 5 (2 of 3 failures)`.
    """
    groups = explain_bugs(failures)
    first, cause = _commonest_group(groups)
    if first is None or cause is None:
        return ""
    if place := _seen_place(cause, is_sought=is_sought):
        return f"{place} ({len(first.failures)} of {count_noun(len(failures), 'failure')})"
    name = f"{cause.name}, " if cause.fault else ""
    share = f"{name}explains {len(first.failures)} of {len(failures)}"
    return f"{_likely_sentence(first, cause, groups)} ({share})"


def likely_without_share(groups: Sequence[ExplainedFailures], *, is_sought: bool = True) -> str:
    """The likely cause of explained failures, without the number that it explains."""
    first, cause = _commonest_group(groups)
    if first is None or cause is None:
        return ""
    if place := _seen_place(cause, is_sought=is_sought):
        return place
    name = f" ({cause.name})" if cause.fault else ""
    return f"{_likely_sentence(first, cause, groups)}{name}"


def likely_in_short(failures: Sequence[Outcome], *, is_sought: bool = True) -> str:
    """`Likely: `causal_off_by_one`, 19 of 19`, with the number of bugs; empty if unknown."""
    groups = explain_bugs(failures)
    first, cause = _commonest_group(groups)
    if first is None or cause is None:
        return ""
    share = f"{len(first.failures)} of {len(failures)}"
    if place := _seen_place(cause, is_sought=is_sought):
        return f"{place}, {share}"
    opening = _certainty_words(first)
    if len(groups) > 1 or cause.is_choice:
        opening += _format_number_of_bugs(groups, cause.noun)
    where = f" where {cause.where}" if cause.where else ""
    return f"{opening}: {_plain_cause(cause, groups, cause.name)}{where}, {share}"


def _likely_sentence(first: ExplainedFailures, cause: LikelyCause,
                     groups: Sequence[ExplainedFailures]) -> str:
    """`Likely one bug: each query sees one later key`, `Looks like 2 bugs, the first: …`."""
    opening = f"{_certainty_words(first)}{_format_number_of_bugs(groups, cause.noun)}"
    return f"{opening}: {_plain_cause(cause, groups, cause.sentence)}"


def _plain_cause(cause: LikelyCause, groups: Sequence[ExplainedFailures], words: str) -> str:
    """Removes from a cause that it is a choice, if the words before it say so."""
    if cause.is_choice and len(groups) == 1:
        return words.removesuffix(A_CHOICE)
    return words


def _commonest_group(groups: Sequence[ExplainedFailures],
                     ) -> tuple[ExplainedFailures | None, LikelyCause | None]:
    """The first group with its cause; two Nones if more failures have no known cause."""
    first = next(iter(groups), None)
    if first and first.cause and len(first.failures) >= len(_failures_without_cause(groups)):
        return first, first.cause
    return None, None


def _certainty_words(group: ExplainedFailures) -> str:
    """`Likely`, or `Looks like` if the fault gives other answers in a case of every failure."""
    fault = group.cause.fault if group.cause else ""
    likenesses = [each for failure in group.failures if failure.evidence
                  for each in failure.evidence.like if each.fault == fault]
    if likenesses and not any(each.agreed == each.tried for each in likenesses):
        return "Looks like"
    return "Likely"


def _failures_without_cause(groups: Sequence[ExplainedFailures]) -> tuple[Outcome, ...]:
    return next((each.failures for each in groups if each.cause is None), ())


def _format_number_of_bugs(groups: Sequence[ExplainedFailures], noun: str) -> str:
    """How many bugs there are; empty if some failures have no known cause."""
    if _failures_without_cause(groups):
        return ""
    if len(groups) == 1:
        return f" one {noun}"
    return f" {len(groups)} bugs, the first"


def _put_clearest_first(group: ExplainedFailures) -> ExplainedFailures:
    """Sorts failures so that the clearest comes first.

    The strictest clauses come first, then failures that are like the fault, then the order of
    `rank_clarity`. Otherwise clauses keep their order, in which a theme's definition comes before
    what follows from it.
    """
    words, fault = "", ""
    if group.cause:
        words, fault = _theme_text(group.cause), group.cause.fault
    return replace(group, failures=tuple(sorted(group.failures, key=lambda each: (
        LEVEL_WEIGHTS[each.level], not _is_like(each, fault), *rank_clarity(each, words)))))


def _is_like(failure: Outcome, fault: str) -> bool:
    return failure.evidence is not None and fault in (each.fault for each in failure.evidence.like)


def _theme_text(cause: LikelyCause) -> str:
    """Joins all words that may name the theme of a cause."""
    first_word = cause.fault.partition("_")[0]
    return f"{cause} {_THEMES.get(cause.stage, '')} {_THEMES.get(first_word, '')}"


def rank_clarity(failure: Outcome, cause: str = "") -> tuple[float, ...]:
    """A sort key by which the failure that says clearest what is wrong comes first.

    Strict clauses come before lenient ones, wide dtypes before half precision (where it may be
    rounding), numbers before NaN, clauses of the cause's theme before others, and definitions
    before consequences.  cause: the words of what is likely behind it.
    """
    theme, _, name = failure.clause.partition(".")
    is_of_another = theme.removesuffix("ing") not in cause
    return (LEVEL_WEIGHTS[failure.level], _is_half(failure), is_endless(failure), is_of_another,
            name != _DEFINITION, theme in CONSEQUENT_THEMES)


def is_endless(failure: Outcome) -> bool:
    """Whether a gap is not finite: then the margin says little of how wrong the answer is."""
    measured = failure.evidence.measured if failure.evidence else None
    return measured is not None and not math.isfinite(measured.gap)


def _merge_dtypes(cause: LikelyCause, failures: Sequence[Outcome]) -> LikelyCause:
    """Names the dtype of an arithmetic if there is only one, and joins its declarations."""
    explained = {failure.dtype.value: failure.evidence.explained for failure in failures
                 if failure.evidence and failure.evidence.explained}
    dtypes = [*explained] or list(dict.fromkeys(failure.dtype.value for failure in failures))
    says = cause.says.replace(_ITS_DTYPE, dtypes[0]) if len(dtypes) == 1 else cause.says
    return replace(cause, says=says, declare=join_declarations(tuple(explained.values())))


def join_declarations(explained: Sequence[Explanation]) -> str:
    """Joins declarations of the precision, each at one dtype, into one text to paste.

    Pasted one by one, each line would undo the one before. The attribute of a function is one
    line; the mapping of a manifest has a line for each dtype.
    """
    lines = tuple(dict.fromkeys(each.declare for each in explained))
    begins = {_MANIFEST_DTYPE.sub("", line.partition("{")[0]) for line in lines}
    if len(lines) < 2 or len(begins) > 1 or not all(each.declared for each in explained):
        return "".join(lines[:1])
    start = begins.pop()
    if start.endswith("= "):
        whole = {dtype: words for each in explained for dtype, words in each.declared.items()}
        return f"{start}{whole}"
    return "\n  ".join([start.rstrip(), *(line.removeprefix(start) for line in lines)])


def _commonest(every: Sequence[tuple[LikelyCause, ...]]) -> LikelyCause | None:
    often = Counter(cause for causes in every for cause in causes)
    first = Counter(causes[0] for causes in every if causes)
    rare: dict[LikelyCause, Fraction] = defaultdict(Fraction)
    for causes in every:
        for cause in set(causes):
            rare[cause] += Fraction(1, len(causes))
    return max(often, default=None, key=lambda cause: (
        often[cause], rare[cause], first[cause], bool(cause.advice)))


_NUMBER = re.compile(r"\b\d+")  # not that of a name, such as float16


def _possible_causes(failure: Outcome) -> tuple[LikelyCause, ...]:
    """Lists what may be behind one failure, the likeliest first."""
    if failure.evidence:
        return tuple(_evident_cause(failure, failure.evidence))
    if failure.reason:
        return (LikelyCause(failure.reason.rstrip(".")),)
    return ()


def _evident_cause(failure: Outcome, evidence: Evidence) -> Iterator[LikelyCause]:
    if explained := evidence.explained:
        yield replace(_parse_named_fault(_speak_of_dtype(failure, explained.cause.rstrip("."))),
                      advice=explained.advice)
    elif evidence.like:
        for each in evidence.like:
            yield LikelyCause(shorten_story(each), each.fault, stage=each.stage)
    elif begins := begins_at(failure):
        yield LikelyCause(lower_first_letter(begins))
    elif evidence.located and not evidence.located.startswith(UNLOCATED):
        yield replace(_parse_named_fault(evidence.located), stage=stage_of(evidence.located))
        yield from _features_of_read_out(evidence.located)
    elif failure.verdict is Verdict.VIOLATED and failure.clause in LAYOUT_CAUSES:
        yield LAYOUT_CAUSES[failure.clause]
    elif failure.verdict is Verdict.ERRORED:
        yield LikelyCause(_generalise_exception(failure, evidence.sentence))
    elif failure.verdict in CALL_FAILURES:
        yield LikelyCause(evidence.sentence.rstrip("."))


def _parse_named_fault(sentence: str) -> LikelyCause:
    """Separates a sentence from the fault that it may end with."""
    found = _NAMED_FAULT.search(sentence)
    return LikelyCause(_NAMED_FAULT.sub("", sentence), found["fault"] if found else "")


def _features_of_read_out(located: str) -> Iterator[LikelyCause]:
    """Yields a cause for each keyword: other failures may need only one of them."""
    for name in needed_keywords(located):
        yield LikelyCause(f"the answer is right once {name} is left out")


def _speak_of_dtype(failure: Outcome, says: str) -> str:
    """Replaces the dtype of a failure by words that suit any dtype."""
    return re.sub(rf"\b{failure.dtype.value}\b", _ITS_DTYPE, says)


def _generalise_exception(failure: Outcome, sentence: str) -> str:
    """Removes numbers and the dtype from an exception, which differ from case to case."""
    first = _NUMBER.sub("…", _speak_of_dtype(failure, sentence.partition("\n")[0].rstrip(".")))
    return f"it raises {textwrap.shorten(first, _STORY_WIDTH, placeholder=' …')}"


def shorten_story(like: Likeness) -> str:
    """The story of a fault as one short clause: `each query sees one later key`."""
    story = re.split(r"(?<=[^.]\.)\s", like.story)[0].rstrip(".")
    code, colon, rest = story.partition(": ")
    # a story such as "`>` for `>=`: …" says in code what is written and then what it does: the reader wants the latter
    if colon and code.startswith("`") and len(rest.split()) > _FEW_WORDS:
        story = rest
    first, _, _ = story.partition(" ")
    is_capitalised = first[1:].islower() and first[:1].isupper()
    # True and None of Python stay as they are
    if first == "A" or (is_capitalised and not keyword.iskeyword(first)):
        story = lower_first_letter(story)
    return textwrap.shorten(story, _STORY_WIDTH, placeholder=" …")
