"""Finds what a function refuses, by small problems, before it is judged.

An author who wrote attention for as many key/value heads as query heads, or for heads up to 256
wide, has promised no more. Where the function says so, with a clear error, that is a limit and no
violation: clauses that need what it refuses are INAPPLICABLE, in its own words. A promise (a
declared limit or dtype, a claimed profile) is binding, and what a registered subject takes stands
in its manifest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from attnspec.core.declaration import Limits, limits_saying, narrowed_by
from attnspec.core.forms import EVERY_KEYWORD, POSITIONS, ROTARY
from attnspec.core.keywords import OFF
from attnspec.core.nouns import DType, Kind
from attnspec.core.sizes import Refusal, read_refusal
from attnspec.problems.demand import fit_to_limits
from attnspec.problems.make import make_layer
from attnspec.problems.problem import Array, LayerProblem, Recipe, Sizes, heads_last, with_gaps
from attnspec.subjects.exceptions import Topic, says_always_causal
from attnspec.subjects.interview import Case, Interview, WordedRefusal, find_causes, start_of, with_keyword
from attnspec.subjects.subject import GAPS, STRIDED, WITHOUT_CAUSAL, Subject, SubjectDied, is_contiguous


@dataclass(frozen=True, slots=True)
class OptionalFeature:
    """What an attention need not take.

    name: how its sizes differ from plain ones. half: the axis that is half as long as its partner,
    which may be doubled instead. refusal: how that is refused. profile: the one that promises it.
    """

    name: str
    half: str
    refusal: str
    partner: str = ""
    causal: bool = False
    profile: str = ""


OPTIONAL_FEATURES = (
    OptionalFeature("grouped heads (Hkv < H)", "Hkv", "Hkv < H", profile="grouped"),
    OptionalFeature("values of another width (Dv ≠ D)", "Dv", "Dv ≠ D", "D"),
    OptionalFeature("T ≠ S", "T", "T ≠ S", "S"),
    OptionalFeature("T > S", "S", "T > S", "T"),
    OptionalFeature("causal with T ≠ S", "T", "causal with T ≠ S", "S", causal=True),
    OptionalFeature("causal with T > S", "S", "causal with T > S", "T", causal=True),
)

FAR_SIZES = (
    Sizes(B=1, H=1, Hkv=1, T=1, S=1, D=1, Dv=1), Sizes(33, 3, 3, 3, 5, 7, 7),
    Sizes(1, 128, 128, 5, 3, 40, 40),
    Sizes(2, 7, 7, 17, 33, 96, 64), Sizes(1, 2, 2, 1, 4096, 33, 33),
    Sizes(1, 1, 1, 4096, 3, 40, 40),
    Sizes(1, 1, 1, 15, 31, 256, 256), Sizes(1, 1, 1, 3, 5, 512, 512),
    Sizes(1, 1, 1, 257, 300, 24, 40),
    Sizes(1, 14, 2, 16, 16, 64, 64), Sizes(1, 71, 1, 16, 16, 16, 16))
"""Sizes far from plain along several axes: who takes these is not asked about each axis alone."""

FAR_SIZES_COMPILED = (Sizes(33, 3, 3, 3, 5, 7, 7), Sizes(2, 7, 7, 17, 33, 96, 96),
                      Sizes(1, 1, 1, 15, 31, 512, 512),
                      Sizes(1, 2, 2, 1, 512, 33, 33), Sizes(1, 2, 2, 1, 4096, 33, 33))
"""The same where each costs a compilation, the longest last."""

SLOWLY_COMPILED = 5.0
"""Seconds of processors that one question may take. An unrolled loop over keys takes 9 s at 512
keys, in blocks of 16, and minutes at 4096.
"""

MOST_CAUSES = 4
"""How many refusals of one problem are looked for, one after the other."""


def with_refusals(subject: Subject) -> Subject:
    """Adds a limit for everything that the subject clearly refuses and has not promised. A layer
    is asked only about what it need not take: far sizes are large parameters.
    """
    begun = _begin_at_any_dtype(subject) or _always_causal(subject)
    if begun is None:
        return subject
    if subject.declaration.kind is Kind.LAYER:
        subject = _without_optional(begun.subject, begun.start)
        return with_widths(_with_groups(begun.within_limits_of(subject)))
    subject = _without_refused_dtypes(begun.subject, begun.start)
    if subject.declaration.kind is Kind.ROTARY:
        return _with_found(subject)
    subject = with_layouts(begun.interview.within_limits_of(subject), begun.start)
    subject = _without_optional(subject, begun.start)
    return _with_groups(begun.within_limits_of(_without_rare(_with_found(subject), begun)))


def _without_optional(subject: Subject, start: Case) -> Subject:
    for causal in (False, True):
        if (asked := _begin_causal(subject, start, is_on=causal)) is not None:
            for optional in OPTIONAL_FEATURES:
                if optional.causal is causal:
                    subject = _ask_optional(asked.within_limits_of(subject), optional)
    return subject


def limits_without_refusals(subject: Subject) -> Limits:
    """Returns the limits that the subject would have, had it refused nothing."""
    limits = subject.declaration.limits
    refused = subject.refused_words.keys()
    asked = {optional.refusal for optional in OPTIONAL_FEATURES if optional.name in refused}
    found = set(limits_saying({*refused, *asked}))
    found |= {limit for limit, width in OPTIONAL_WIDTHS.items() if width.name in refused}
    rare = [each.rare for each in EVERY_KEYWORD.values() if each.rare]
    found |= {each.limit for each in rare if each.name in refused}
    return replace(limits,
                   refuses=tuple(each for each in limits.refuses if str(each) not in refused),
                   **{name: getattr(Limits(), name) for name in found})


@dataclass(frozen=True, slots=True)
class BegunInterview:
    """An interview, and the plain case that the function takes."""

    interview: Interview
    start: Case

    @property
    def subject(self) -> Subject:
        """Returns the subject that is asked."""
        return self.interview.subject

    def within_limits_of(self, subject: Subject) -> BegunInterview:
        """Continues with the subject within other limits."""
        return replace(self, interview=self.interview.within_limits_of(subject))

    def find_refused(self, end: Case) -> tuple[WordedRefusal, ...]:
        """Finds what is refused of a case; none where any of it was promised."""
        causes = find_causes(self.interview, self.start, end)
        found = tuple(self._taken_beside(each) for each in causes)
        return () if any(_is_promised(self.subject, each) for each in found) else found

    def _taken_beside(self, found: WordedRefusal) -> WordedRefusal:
        """Limits the refusal of a keyword to calls without another, such as `causal`."""
        if found.refusal.conditions or len(found.refusal.keywords) != 1:
            return found
        (keyword,), limits = found.refusal.keywords, self.subject.declaration.limits
        taken = self.subject.declaration.keywords & OFF.keys()
        named = {*re.findall(r"\w+", found.words), "causal"} & taken
        for other in sorted(named - {keyword} - self.start.keywords.keys(),
                            key=lambda name: (name != "causal", name)):
            both = with_keyword(with_keyword(self.start, other, limits), keyword, limits)
            if self.interview.takes_case(both):
                return replace(found, refusal=replace(found.refusal, without=frozenset({other})))
        return found


def begin_interview(subject: Subject, dtype: DType) -> BegunInterview | None:
    """Begins an interview at a dtype; None where the function takes no plain problem."""
    interview = Interview(subject, dtype)
    start = start_of(interview)
    return BegunInterview(interview, start) if start else None


def narrow_subject(subject: Subject, found: Iterable[WordedRefusal]) -> Subject:
    """Adds these refusals to the limits; a keyword refused as such is one that it lacks."""
    for each in found:
        subject = _without_less(subject, each.refusal)
        declared, refusal = subject.declaration, each.refusal
        if not refusal.conditions and not refusal.without and len(refusal.keywords) == 1:
            declared = replace(declared, keywords=declared.keywords - refusal.keywords)
        else:
            declared = replace(declared, limits=narrowed_by(declared.limits, (refusal,)))
        subject = replace(subject, declaration=declared,
                          refused_words={str(refusal): each.words, **subject.refused_words})
    return subject


def _without_less(subject: Subject, refusal: Refusal) -> Subject:
    """Drops refusals that this one covers: "T < 16" beside "T % 16 ≠ 0"."""
    declared = subject.declaration
    less = {str(each) for each in declared.limits.refuses if str(each) in subject.refused_words
            and refusal.covers(each)}
    refuses = tuple(each for each in declared.limits.refuses if str(each) not in less)
    refused = {name: words for name, words in subject.refused_words.items() if name not in less}
    declared = replace(declared, limits=replace(declared.limits, refuses=refuses))
    return replace(subject, declaration=declared, refused_words=refused)


def _begin_at_any_dtype(subject: Subject) -> BegunInterview | None:
    begun = (begin_interview(subject, dtype) for dtype in subject.declaration.dtypes)
    return next(filter(None, begun), None)


def _always_causal(subject: Subject) -> BegunInterview | None:
    """Begins with a subject that takes plain problems with the causal flag only, and says so."""
    limits = subject.declaration.limits
    if limits.causal_only or "causal" not in subject.declaration.keywords:
        return None
    declared = replace(subject.declaration, limits=replace(limits, causal_only=True))
    begun = _begin_at_any_dtype(replace(subject, declaration=declared))
    if begun is None:
        return None
    asked = begun.interview.within_limits_of(subject)
    words = asked.refusal_now(Case(begun.start.sizes))
    if not says_always_causal(words):
        return None
    refused = {**subject.refused_words, WITHOUT_CAUSAL: words}
    return begun.within_limits_of(replace(begun.subject, refused_words=refused))


def _begin_causal(subject: Subject, start: Case, *, is_on: bool) -> BegunInterview | None:
    """Begins at the first dtype at which it takes the start, with the causal flag or as it is."""
    case = Case(start.sizes, {"causal": True} if is_on else start.keywords)
    interviews = (Interview(subject, dtype) for dtype in subject.declaration.dtypes)
    return next((BegunInterview(each, case) for each in interviews if each.takes_case(case)), None)


def _limit_subject(subject: Subject, limits: Limits, name: str, words: str) -> Subject:
    """Returns the subject with other limits, and the words of the refusal behind them."""
    return replace(subject, declaration=replace(subject.declaration, limits=limits),
                   refused_words={**subject.refused_words, name: words})


def _ask_optional(begun: BegunInterview, optional: OptionalFeature) -> Subject:
    subject, declared = begun.subject, begun.subject.declaration
    own = limits_saying({optional.refusal})
    is_said = any(getattr(declared.limits, name) != getattr(Limits(), name) for name in own)
    start = begun.start
    has_no_half = optional.half == "Hkv" and (start.sizes.H == 1 or start.size_along("G") > 1)
    if is_said or optional.profile in declared.claims or has_no_half:
        return subject
    words = [begun.interview.lasting_words(case) for case in _list_unlike(begun.start, optional)]
    if not words or not all(words) or not begun.interview.takes_case(begun.start):
        return subject
    limits = narrowed_by(declared.limits, (read_refusal(optional.refusal),))
    return _limit_subject(subject, limits, optional.name, words[0])


def _list_unlike(start: Case, optional: OptionalFeature) -> Iterator[Case]:
    """Yields ways to have two axes differ: a length refused by itself says nothing of them."""
    sizes = start.sizes.by_axis
    if optional.half == "Hkv":  # some take groups of four and of eight, and none of two
        for group in (4, 8):
            yield replace(start, sizes=replace(start.sizes, H=2 * group, Hkv=2))
    half, partner = optional.half, optional.partner
    if sizes[half] > 1:
        yield replace(start, sizes=replace(start.sizes, **{half: sizes[half] // 2}))
    if partner:
        yield replace(start, sizes=replace(start.sizes, **{partner: sizes[partner] * 2}))


def _without_refused_dtypes(subject: Subject, start: Case) -> Subject:
    """Drops the dtypes that it refuses, if it takes any and does not declare them itself."""
    declared = subject.declaration
    if subject.description and "dtypes" in subject.description.attributes:
        return subject
    said = {dtype: Interview(subject, dtype).refusal_now(start, Topic.DTYPE)
            for dtype in declared.dtypes}
    refused = {dtype: words for dtype, words in said.items() if words}
    left_out, by_name = dict(declared.left_out), dict(subject.refused_words)
    for dtype, words in refused.items():
        left_out[dtype] = f"{subject.id} refuses {dtype.value}: {words}"
        by_name[dtype.value] = words
    taken = tuple(dtype for dtype in declared.dtypes if dtype not in refused)
    return replace(subject, declaration=replace(declared, dtypes=taken, left_out=left_out),
                   refused_words=by_name)


def _with_found(subject: Subject) -> Subject:
    """Limits the subject by what it refuses of keywords and far sizes, until it dies of one."""
    begun = _begin_at_any_dtype(subject)
    if begun is None:
        return subject
    try:
        for end in _list_questions(begun):
            begun = _settle_question(begun, end)
    except SubjectDied:  # the clauses say how
        return begun.subject
    return begun.subject


def _list_questions(begun: BegunInterview) -> Iterator[Case]:
    declared = begun.subject.declaration
    is_compiled = declared.is_compiled
    optional = ROTARY.keys() - {POSITIONS} if declared.kind is Kind.ROTARY else OFF.keys()
    for keyword in () if is_compiled else sorted(declared.keywords & optional - begun.start.keywords.keys()):
        yield with_keyword(begun.start, keyword, declared.limits)
    for hiding in sorted({"mask", "bias"} & declared.keywords if "causal" in declared.keywords else ()):
        yield with_keyword(with_keyword(begun.start, "causal", declared.limits), hiding,
                           declared.limits)
    if not is_compiled:
        for sizes in FAR_SIZES:
            yield replace(begun.start, sizes=sizes)
        return
    taken: list[tuple[int, float]] = []  # keys, and what the question took
    for sizes in FAR_SIZES_COMPILED:
        if expected_seconds(taken, sizes.S) > SLOWLY_COMPILED:
            return
        before = begun.subject.callee.cpu_seconds()
        yield replace(begun.start, sizes=sizes)
        taken.append((sizes.S, begun.subject.callee.cpu_seconds() - before))


def expected_seconds(taken: Sequence[tuple[int, float]], keys: int) -> float:
    """Predicts a question's seconds from taken: keys, and seconds. 0 while that is too little."""
    if len(taken) < 2:
        return 0.0
    (few, short), (many, long) = min(taken), max(taken)
    return long + max(0.0, long - short) * max(0, keys - many) / (many - few)


def _settle_question(begun: BegunInterview, end: Case) -> BegunInterview:
    """Asks one question, within known limits, until nothing more of it is refused."""
    for _ in range(MOST_CAUSES):
        limits = begun.subject.declaration.limits
        end = replace(end, sizes=fit_to_limits(end.sizes, limits))
        found = begun.find_refused(end)
        if not found:
            return begun
        begun = begun.within_limits_of(narrow_subject(begun.subject, found))
    return begun


def _without_rare(subject: Subject, begun: BegunInterview) -> Subject:
    """Limits the subject to usual values of keywords where it refuses rare ones in words."""
    for keyword in sorted(subject.declaration.keywords & EVERY_KEYWORD.keys()):
        rare, declared = EVERY_KEYWORD[keyword].rare, subject.declaration
        if rare is None or getattr(declared.limits, rare.limit):
            continue
        interview = begun.interview.within_limits_of(subject)
        usual = with_keyword(begun.start, keyword, declared.limits)
        asked = replace(usual, keywords={**usual.keywords, keyword: rare.pattern})
        if interview.takes_case(usual) and (words := interview.lasting_words(asked)):
            lacking: dict[str, Any] = {rare.limit: True}
            limits = replace(declared.limits, **lacking)
            subject = _limit_subject(subject, limits, rare.name, words)
    return subject


def _with_groups(begun: BegunInterview) -> Subject:
    """Marks grouped heads as taken where they are answered; clauses then find wrong answers."""
    subject, start, declared = begun.subject, begun.start, begun.subject.declaration
    if declared.limits.grouped is not None:
        return subject
    if start.size_along("G") == 1:
        grouped = _list_unlike(start, OPTIONAL_FEATURES[0])
        if not all(map(begun.interview.takes_case, grouped)):
            return subject
    limits = replace(declared.limits, grouped=True)
    return replace(subject, declaration=replace(declared, limits=limits))


def _is_promised(subject: Subject, found: WordedRefusal) -> bool:
    """Says whether a claimed profile, or declared grouped heads, promise what is refused."""
    declared, refusal = subject.declaration, found.refusal
    says_grouped = subject.description is not None and "grouped" in subject.description.attributes
    if any(each.axis == "G" for each in refusal.conditions) and (
            (declared.limits.grouped and says_grouped) or "grouped" in declared.claims):
        return True
    return any(EVERY_KEYWORD[name].profile in declared.claims for name in refusal.keywords)


# What a layer of one's own refuses beside what it refuses as attention


_PLAIN_SIZES = Sizes(B=2, H=2, Hkv=2, T=4, S=4, D=4, Dv=4)


@dataclass(frozen=True, slots=True)
class Width:
    """A width that a layer need not take, in words; that of values; by how much M exceeds H·D."""

    name: str
    Dv: int = _PLAIN_SIZES.Dv
    more: int = 0


OPTIONAL_WIDTHS: Mapping[str, Width] = {
    "ties_model_width": Width("a model of another width (M ≠ H·D)", more=3),
    "ties_value_width": Width("values of another width (Dv ≠ D)", Dv=6)}


def with_widths(subject: Subject) -> Subject:
    """Adds a limit for each width that it clearly refuses, where it takes the plain ones."""
    plain = Width("")
    taken = (each for each in subject.declaration.dtypes
             if Interview(subject, each).answers(_pose_layer_problem(subject, each, plain)))
    for dtype in islice(taken, 1):
        for limit, width in OPTIONAL_WIDTHS.items():
            subject = _with_width(subject, limit, width, dtype)
    return subject


def _with_width(subject: Subject, limit: str, width: Width, dtype: DType) -> Subject:
    declared = subject.declaration
    if getattr(declared.limits, limit):
        return subject
    problem = _pose_layer_problem(subject, dtype, width)
    words = Interview(subject, dtype).refusal_of(problem)
    if not words:
        return subject
    limits = replace(declared.limits, **{limit: True})  # type: ignore[arg-type]  # by name; both are flags
    return _limit_subject(subject, limits, width.name, words)


def _pose_layer_problem(subject: Subject, dtype: DType, width: Width) -> LayerProblem:
    limits = subject.declaration.limits
    sizes = replace(_PLAIN_SIZES, Dv=width.Dv)
    if limits.single_head:
        sizes = replace(sizes, H=1, Hkv=1)
    recipe = Recipe(sizes, ("normal",), "none",
                    frozenset({"causal"} if limits.causal_only else ()), 1,
                    M=sizes.H * sizes.D + width.more, inputs=limits.inputs)
    return make_layer(recipe, dtype, limits=limits)


# Whether a function refuses arrays that are not contiguous


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """A layout of arrays in memory: its name, a view with it, and the limit of a refusal."""

    name: str
    view: Callable[[Array], Array]
    limit_layout: Callable[[Limits], Limits]


MEMORY_LAYOUTS = (
    MemoryLayout(STRIDED, heads_last, lambda limits: replace(limits, contiguous=True)),
    MemoryLayout(GAPS, with_gaps, lambda limits: replace(limits, contiguous_features=True)))


def with_layouts(interview: Interview, start: Case) -> Subject:
    """Adds the limit of the first memory layout that it clearly refuses.  start: a plain problem
    that it takes, with several heads and queries: of one, all layouts are the same.
    """
    subject, plain = interview.subject, start.make_problem(interview.dtype)
    for layout in MEMORY_LAYOUTS:
        laid = plain.but(query=layout.view(plain.query), key=layout.view(plain.key),
                         value=layout.view(plain.value))
        if is_contiguous(laid):
            continue
        if words := interview.refusal_of(laid, Topic.LAYOUT):
            limits = layout.limit_layout(subject.declaration.limits)
            return _limit_subject(subject, limits, layout.name, words)
    return subject
