"""What is likely behind failures: those that one cause explains are one bug, with its clearest clause in front."""

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
"""How a diagnosis begins that found nothing."""

_ONLY_WRONG = re.compile(r"Only the (?P<what>[^.;]+) (?:is|are) wrong;")
_ITS_DTYPE = "the inputs' dtype"
_STORY_WIDTH = 80  # characters of a fault's story, and of an exception
_FEW_WORDS = 3
# in a manifest the dtype is the key that the words stand behind
_MANIFEST_DTYPE = re.compile(r"(?<=: )\w+: $")
CALL_FAILURES = FAILURES - {Verdict.VIOLATED}
"""Failures whose sentence says how the call ended."""

_SEEN_TO_FAIL = ("fails where ", "fails only where ", "fails at ")
"""How a cause begins that is but the sizes at which answers are wrong."""

# a sentence that ends with the fault it is about
_NAMED_FAULT = re.compile(r" \(`(?P<fault>\w+)`\)$")
_DEFINITION = "definition"
LAYOUT_CAUSES: Mapping[str, LikelyCause] = dict.fromkeys(
    ("purity.strided_inputs", "purity.transposed_inputs", "purity.broadcast_inputs",
     "gradients.layout"),
    LikelyCause("the answer changes with how the inputs lie in memory", stage="layout",
                advice="Read them by their strides, or copy them first (np.ascontiguousarray, .contiguous())"))
"""By clause on how inputs lie in memory, what its failure says by itself, if nothing says more."""
_THEMES: Mapping[str, str] = {
    "state": "purity", "purity": "purity", "layout": "purity", "projection": "layers",
    "split": "layers",
    "merge": "layers", "gqa": "grouped"}
"""The theme whose clauses speak of faults of a stage, or of faults so named, where their names do not say it."""


def explain_bugs(failures: Sequence[Outcome]) -> tuple[ExplainedFailures, ...]:
    """Each failure once, under the cause that explains most of those left; the unexplained ones come last.

    A fault counts for every failure that it explains as well as the likeliest fault does; among equals that which
    explains what fewest others do, then that which is the likeliest more often. What no fault is like joins those that
    begin at the same sizes, and those that are like a fault of the stage which its read-outs blame; and what nothing
    explains joins the first if its case lies where that is seen to fail.
    """
    found, left = [], [(failure, _possible_causes(failure))
                       for failure in without_contradicted(failures)]
    while (best := _commonest([causes for _, causes in left])) is not None:
        mine = tuple(failure for failure, causes in left if best in causes)
        found.append(ExplainedFailures(_merge_dtypes(best, mine), mine))
        left = [each for each in left if best not in each[1]]
    whole = claim_unexplained(_sort_bugs_first(join_groups(found)),
                              [failure for failure, _ in left])
    dressed = (_with_what_it_raises(_with_its_quantity(_with_its_keywords(_with_its_sizes(_join_exceptions(group)))))
               for group in whole)
    return tuple(map(_put_clearest_first, dressed))


def _sort_bugs_first(groups: Sequence[ExplainedFailures]) -> Sequence[ExplainedFailures]:
    """What an arithmetic explains comes last: it may be a choice, and what stands beside it is none. Before it, a bug
    that shows at a dtype at which no arithmetic explains anything. What is but seen to fail at some sizes, and in half
    precision alone, may be rounding, too.
    """
    rounding = {failure.dtype for group in groups if _is_arithmetic(group)
                for failure in group.failures}
    return sorted(groups, key=lambda group: (
        _is_arithmetic(group),
        group.cause is not None and is_place(group.cause) and all(map(_is_half, group.failures)),
        not rounding or {each.dtype for each in group.failures} <= rounding))


def is_place(cause: LikelyCause) -> bool:
    """Whether a cause says no more than at which sizes answers are wrong: everybody who looks sees that."""
    return not cause.fault and not cause.advice and cause.says.startswith(_SEEN_TO_FAIL)


def _seen_place(cause: LikelyCause, *, is_sought: bool) -> str:
    """`It fails at S = 5`, where nobody looked for more than that; else empty."""
    if not is_sought and is_place(cause):
        return f"It {cause.says}"
    return ""


def _is_half(failure: Outcome) -> bool:
    return failure.dtype in HALF_DTYPES


def _is_arithmetic(group: ExplainedFailures) -> bool:
    return any(each.evidence and each.evidence.explained and each.evidence.explained.words
               for each in group.failures)


def _with_its_keywords(group: ExplainedFailures) -> ExplainedFailures:
    """Adds the keywords without which the answers are right to the sizes at which they are wrong."""
    if group.cause is None or not group.cause.says.startswith(_SEEN_TO_FAIL):
        return group
    located = [each.evidence.located for each in group.failures if each.evidence]
    needed = {tuple(needed_keywords(each))
              for each in located if each and not each.startswith(UNLOCATED)}
    if len(needed) != 1 or () in needed:
        return group
    names = needed.pop()
    given = [keywords_in(each.evidence.recipe)
             for each in group.failures if each.evidence and each.evidence.recipe]
    # it fails without one of them, too
    if any(EVERY_KEYWORD.keys() & {*names} - each for each in given):
        return group
    return replace(group, cause=replace(group.cause, says=f"{group.cause.says}, with "
                                                          f"{' and '.join(names)}"))


def _join_exceptions(group: ExplainedFailures) -> ExplainedFailures:
    """The sizes as such that it needs, where some of its cases have them and hold: what speaks against a condition
    speaks against one that asks for less.
    """
    says = group.cause.says if group.cause else ""
    weak = [set(parts_of(begins_at(each))) for each in group.failures
            if begins_at(each).startswith("Fails only where ")]
    is_weak = any(set(parts_of(says)) <= each for each in weak)
    if group.cause is None or not says.startswith("fails where ") or not is_weak:
        return group
    return replace(group, cause=replace(group.cause, says=says.replace("fails where ", "fails only where ", 1)))


def _with_its_sizes(group: ExplainedFailures) -> ExplainedFailures:
    """Adds to a fault the sizes at which it is seen, where most failures agree and no case contradicts them."""
    if group.cause is None or not group.cause.fault or group.cause.declare:
        return group
    located = sum(bool(begins_at(each)) for each in group.failures)
    parts = parts_of(usual_beginning(group.failures)) if 2 * located > len(group.failures) else ()
    return replace(group, cause=replace(group.cause, where=" and ".join(parts)))


def _with_its_quantity(group: ExplainedFailures) -> ExplainedFailures:
    """Adds `only the log-sum-exp`, where all failures say so and no fault says it already."""
    if group.cause is None or group.cause.fault or group.cause.declare:
        return group
    found = [_ONLY_WRONG.search(each.evidence.wrong) for each in group.failures if each.evidence]
    named = {each["what"] if each else "" for each in found}
    if len(named) != 1 or "" in named:
        return group
    return replace(group,
                   cause=replace(group.cause, says=f"{group.cause.says}, only the {named.pop()}"))


def _with_what_it_raises(group: ExplainedFailures) -> ExplainedFailures:
    """Adds the exception to the sizes, where all failures raise the same one."""
    raised = {each.evidence.sentence.partition(":")[0] if each.evidence
              and each.verdict is Verdict.ERRORED else ""
              for each in group.failures}
    if group.cause is None or not group.cause.says.startswith(_SEEN_TO_FAIL) or len(raised) != 1 or "" in raised:
        return group
    return replace(group, cause=replace(group.cause, says=f"{group.cause.says}, and raises {raised.pop()}"))


def likely_group(failures: Sequence[Outcome]) -> ExplainedFailures | None:
    """The failures with the commonest cause; None where more failures are like nothing that is known."""
    return _commonest_of(explain_bugs(failures))


def unexplained_failures(failures: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """The failures that nothing explains."""
    return _failures_without_cause(explain_bugs(failures))


def likely_words(failures: Sequence[Outcome], *, is_sought: bool = True) -> str:
    """`Likely one bug: each query sees one later key (`causal_off_by_one`, explains 19 of 19)`; empty where none is
    likely. is_sought: whether causes were looked for; if not, `It fails at S = 5 (2 of 3 failures)` is what is seen.
    """
    groups = explain_bugs(failures)
    found = _commonest_of(groups)
    if found is None or found.cause is None:
        return ""
    if seen := _seen_place(found.cause, is_sought=is_sought):
        return f"{seen} ({len(found.failures)} of {count_noun(len(failures), 'failure')})"
    name = f"{found.cause.name}, " if found.cause.fault else ""
    share = f"{name}explains {len(found.failures)} of {len(failures)}"
    return f"{_likely_sentence(found, found.cause, groups)} ({share})"


def likely_without_share(groups: Sequence[ExplainedFailures], *, is_sought: bool = True) -> str:
    """The likely cause of failures that are explained already, without how many it explains: there, clauses are
    counted.
    """
    found = _commonest_of(groups)
    if found is None or found.cause is None:
        return ""
    if seen := _seen_place(found.cause, is_sought=is_sought):
        return seen
    name = f" ({found.cause.name})" if found.cause.fault else ""
    return f"{_likely_sentence(found, found.cause, groups)}{name}"


def likely_in_short(failures: Sequence[Outcome], *, is_sought: bool = True) -> str:
    """`Likely: `causal_off_by_one`, 19 of 19`; empty where none is likely. Where there are several bugs, it says so."""
    groups = explain_bugs(failures)
    found = _commonest_of(groups)
    if found is None or found.cause is None:
        return ""
    if seen := _seen_place(found.cause, is_sought=is_sought):
        return f"{seen}, {len(found.failures)} of {len(failures)}"
    is_told = len(groups) > 1 or found.cause.is_choice
    begin = _conclusion_opening(found, found.cause, groups) if is_told else _certainty_words(found)
    where = f" where {found.cause.where}" if found.cause.where else ""
    name = _plain_cause(found.cause, groups, found.cause.name)
    return f"{begin}: {name}{where}, {len(found.failures)} of {len(failures)}"


def _likely_sentence(found: ExplainedFailures, cause: LikelyCause,
                     groups: Sequence[ExplainedFailures]) -> str:
    """`Likely one bug: each query sees one later key`."""
    return (f"{_conclusion_opening(found, cause, groups)}: "
            f"{_plain_cause(cause, groups, cause.sentence)}")


def _conclusion_opening(found: ExplainedFailures, cause: LikelyCause,
                        groups: Sequence[ExplainedFailures]) -> str:
    """`Likely one bug`, `Looks like 2 bugs, the first`, `Likely one choice, no bug`."""
    return f"{_certainty_words(found)}{_format_number_of_bugs(groups, cause.noun)}"


def _plain_cause(cause: LikelyCause, groups: Sequence[ExplainedFailures], words: str) -> str:
    """Leaves out that a cause is a choice, where the words before it say so."""
    if cause.is_choice and len(groups) == 1:
        return words.removesuffix(A_CHOICE)
    return words


def _commonest_of(groups: Sequence[ExplainedFailures]) -> ExplainedFailures | None:
    first = next(iter(groups), None)
    if first and first.cause and len(first.failures) >= len(_failures_without_cause(groups)):
        return first
    return None


def _certainty_words(found: ExplainedFailures) -> str:
    """A fault that was put this function's failing cases and answered them as it does is likely; another looks so."""
    fault = found.cause.fault if found.cause else ""
    told = [each for failure in found.failures if failure.evidence
            for each in failure.evidence.like
            if each.fault == fault]
    if told and not any(each.agreed == each.tried for each in told):
        return "Looks like"
    return "Likely"


def _failures_without_cause(groups: Sequence[ExplainedFailures]) -> tuple[Outcome, ...]:
    return next((each.failures for each in groups if each.cause is None), ())


def _format_number_of_bugs(groups: Sequence[ExplainedFailures], noun: str) -> str:
    """How many bugs there are; empty where some failures may have causes that nobody knows."""
    if _failures_without_cause(groups):
        return ""
    if len(groups) == 1:
        return f" one {noun}"
    return f" {len(groups)} bugs, the first"


def _put_clearest_first(group: ExplainedFailures) -> ExplainedFailures:
    """What is strictest first, of these what is like the fault that is the cause, then wide dtypes before half ones,
    numbers before NaN, the cause's own theme, and its definition before consequences.

    Beyond that clauses stay in their order, which goes from what a theme is to what follows from it.
    """
    words, fault = (_theme_text(group.cause), group.cause.fault) if group.cause else ("", "")
    return ExplainedFailures(group.cause, tuple(sorted(group.failures, key=lambda each: (
        LEVEL_WEIGHTS[each.level], not _is_like(each, fault), *rank_clarity(each, words)))))


def _is_like(failure: Outcome, fault: str) -> bool:
    return failure.evidence is not None and fault in (each.fault for each in failure.evidence.like)


def _theme_text(cause: LikelyCause) -> str:
    """Joins all words that may name the theme of a cause."""
    return " ".join([str(cause), *(_THEMES.get(word, "") for word in (cause.stage, cause.fault.partition("_")[0]))])


def rank_clarity(failure: Outcome, cause: str = "") -> tuple[float, ...]:
    """A key to sort by: the clause that says clearest what is wrong comes first, that is at a dtype of which nobody
    asks whether it is rounding. cause: what is likely behind it.
    """
    theme, _, name = failure.clause.partition(".")
    is_of_another = theme.removesuffix("ing") not in cause
    return (LEVEL_WEIGHTS[failure.level], _is_half(failure), is_endless(failure), is_of_another,
            name != _DEFINITION,
            theme in CONSEQUENT_THEMES)


def is_endless(failure: Outcome) -> bool:
    """Whether a failure's margin is infinite because something is not finite: that says little of how far it is off."""
    measured = failure.evidence.measured if failure.evidence else None
    return measured is not None and not math.isfinite(measured.gap)


def _merge_dtypes(cause: LikelyCause, failures: Sequence[Outcome]) -> LikelyCause:
    """A wider arithmetic by the name of its dtype, if it is one, and with one line that declares it at all of them."""
    told = {failure.dtype.value: failure.evidence.explained for failure in failures
            if failure.evidence and failure.evidence.explained}
    dtypes = [*told] or list(dict.fromkeys(failure.dtype.value for failure in failures))
    says = cause.says.replace(_ITS_DTYPE, dtypes[0]) if len(dtypes) == 1 else cause.says
    return replace(cause, says=says, declare=join_declarations(tuple(told.values())))


def join_declarations(explained: Sequence[Explanation]) -> str:
    """Joins declarations of the precision at one dtype each into one text: pasted one by one, each line may undo the
    last.

    A function's attribute is one line, a manifest's mapping has a line for each dtype.
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
    return max(often, key=lambda cause: (often[cause], rare[cause], first[cause], bool(cause.advice)), default=None)


_NUMBER = re.compile(r"\b\d+")  # not that of a name, such as float16


def _possible_causes(failure: Outcome) -> tuple[LikelyCause, ...]:
    """Lists what may be behind one failure, the likeliest first. What was not put to the subject has its
    reason.
    """
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
        yield from (LikelyCause(shorten_story(each), each.fault, stage=each.stage)
                    for each in evidence.like)
    elif begin := begins_at(failure):
        yield LikelyCause(lower_first_letter(begin))
    elif evidence.located and not evidence.located.startswith(UNLOCATED):
        yield replace(_parse_named_fault(evidence.located), stage=stage_of(evidence.located))
        yield from _features_of_read_out(evidence.located)
    elif failure.verdict is Verdict.VIOLATED and failure.clause in LAYOUT_CAUSES:
        yield LAYOUT_CAUSES[failure.clause]
    elif failure.verdict in CALL_FAILURES:
        is_error = failure.verdict is Verdict.ERRORED
        yield LikelyCause(_generalise_exception(failure, evidence.sentence) if is_error
                          else evidence.sentence.rstrip("."))


def _parse_named_fault(sentence: str) -> LikelyCause:
    """A sentence, and the fault that it ends with."""
    found = _NAMED_FAULT.search(sentence)
    return LikelyCause(_NAMED_FAULT.sub("", sentence), found["fault"] if found else "")


def _features_of_read_out(located: str) -> Iterator[LikelyCause]:
    """Each keyword that may be left out: other failures may need one of them alone."""
    yield from (LikelyCause(f"the answer is right once {name} is left out")
                for name in needed_keywords(located))


def _speak_of_dtype(failure: Outcome, says: str) -> str:
    """A sentence about a failure without the dtype at which it came."""
    return re.sub(rf"\b{failure.dtype.value}\b", _ITS_DTYPE, says)


def _generalise_exception(failure: Outcome, sentence: str) -> str:
    """Leaves numbers and dtype out of an exception, so that it is the same at other shapes and dtypes."""
    first = _NUMBER.sub("…", _speak_of_dtype(failure, sentence.partition("\n")[0].rstrip(".")))
    return f"it raises {textwrap.shorten(first, _STORY_WIDTH, placeholder=' …')}"


def shorten_story(like: Likeness) -> str:
    """The story of a fault as one short clause: `each query sees one later key`."""
    story = re.split(r"(?<=[^.]\.)\s", like.story)[0].rstrip(".")
    code, colon, rest = story.partition(": ")
    # a story such as `>` for `>=` in code, then what it does: the latter is what a reader wants
    if colon and code.startswith("`") and len(rest.split()) > _FEW_WORDS:
        story = rest
    first, _, _ = story.partition(" ")
    # True
    is_word = (first == "A"
               or (first[1:].islower() and first[:1].isupper() and not keyword.iskeyword(first)))
    return textwrap.shorten(story[0].lower() + story[1:] if is_word else story, _STORY_WIDTH,
                            placeholder=" …")
