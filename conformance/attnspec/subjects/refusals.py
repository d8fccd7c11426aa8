"""What a function of one's own refuses: asked with small problems, before it is judged.

Who wrote attention for as many key/value heads as query heads, or for heads up to 256 wide, has not promised others.
Where such a function says so, with a clear error, that is a limit and no violation: clauses that need what it refuses
are INAPPLICABLE, in its own words. A promise (a declared limit or dtype, a claimed profile) is held to, and what a
registered subject takes stands in its manifest.
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
from attnspec.problems.problem import Array, LayerProblem, Problem, Recipe, Sizes, heads_last, with_gaps
from attnspec.subjects.exceptions import Topic, says_always_causal
from attnspec.subjects.interview import Case, Interview, WordedRefusal, find_causes, start_of, with_keyword
from attnspec.subjects.subject import GAPS, STRIDED, WITHOUT_CAUSAL, Subject, SubjectDied, is_contiguous


@dataclass(frozen=True, slots=True)
class OptionalFeature:
    """What an attention need not take: by how its sizes differ from plain ones, how that is refused, and its profile.
    half: the axis that is half as long as its partner; the other way to have it so is to double that one.
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
"""Sizes far from plain along several axes at once: who takes these is not asked about each axis alone."""

FAR_SIZES_COMPILED = (Sizes(33, 3, 3, 3, 5, 7, 7), Sizes(2, 7, 7, 17, 33, 96, 96),
                      Sizes(1, 1, 1, 15, 31, 512, 512),
                      Sizes(1, 2, 2, 1, 512, 33, 33), Sizes(1, 2, 2, 1, 4096, 33, 33))
"""The same where each costs a compilation, the longest last; what else is refused is found out where it comes up."""

SLOWLY_COMPILED = 5.0
"""Seconds of processors that one question may take: a loop over keys that is unrolled takes 9 s at 512 keys, in blocks
of 16, and minutes at 4096.
"""

MOST_CAUSES = 4
"""How many refusals of one problem are looked for, one after the other."""


def with_refusals(subject: Subject) -> Subject:
    """The subject with a limit for everything that it refuses clearly and has not promised. A layer is asked about what
    it need not take alone: far sizes are large parameters.
    """
    begun = _begin_at_any_dtype(subject) or _always_causal(subject)
    if begun is None:
        return subject
    if subject.declaration.kind is Kind.LAYER:
        return with_widths(_with_groups(begun.within_limits_of(_without_optional(begun.subject, begun.start))))
    subject = _without_refused_dtypes(begun.subject, begun.start)
    if subject.declaration.kind is Kind.ROTARY:
        return _with_found(subject)
    subject = _without_optional(with_layouts(begun.interview.within_limits_of(subject), begun.start), begun.start)
    return _with_groups(begun.within_limits_of(_without_rare(_with_found(subject), begun)))


def _without_optional(subject: Subject, start: Case) -> Subject:
    for causal in (False, True):
        if (asked := _begin_causal(subject, start, is_on=causal)) is not None:
            for optional in OPTIONAL_FEATURES:
                if optional.causal is causal:
                    subject = _ask_optional(asked.within_limits_of(subject), optional)
    return subject


def limits_without_refusals(subject: Subject) -> Limits:
    """The limits that the subject would have, had it refused nothing."""
    limits = subject.declaration.limits
    asked = {optional.refusal for optional in OPTIONAL_FEATURES if optional.name in subject.refused_words}
    found = limits_saying({*subject.refused_words, *asked}) | {
        limit for limit, width in OPTIONAL_WIDTHS.items() if width.name in subject.refused_words} | {
        each.rare.limit for each in EVERY_KEYWORD.values() if each.rare and each.rare.name in subject.refused_words}
    return replace(limits, refuses=tuple(each for each in limits.refuses if str(each) not in subject.refused_words),
                   **{name: getattr(Limits(), name) for name in found})


@dataclass(frozen=True, slots=True)
class BegunInterview:
    """An interview, and the plain case that the function takes."""

    interview: Interview
    start: Case

    @property
    def subject(self) -> Subject:
        """The subject who is asked."""
        return self.interview.subject

    def within_limits_of(self, subject: Subject) -> BegunInterview:
        """The begun interview, with the subject within other limits."""
        return replace(self, interview=self.interview.within_limits_of(subject))

    def find_refused(self, end: Case) -> tuple[WordedRefusal, ...]:
        """What the function refuses of a case and has not promised; none where it has promised any of it."""
        found = tuple(self._taken_beside(each) for each in find_causes(self.interview, self.start, end))
        return () if any(_is_promised(self.subject, each) for each in found) else found

    def _taken_beside(self, found: WordedRefusal) -> WordedRefusal:
        """A keyword that is taken together with another, the causal flag above all, is refused without that only."""
        if found.refusal.conditions or len(found.refusal.keywords) != 1:
            return found
        (keyword,), limits = found.refusal.keywords, self.subject.declaration.limits
        named = {*re.findall(r"\w+", found.words), "causal"} & self.subject.declaration.keywords & OFF.keys()
        for other in sorted(named - {keyword} - self.start.keywords.keys(),
                            key=lambda name: (name != "causal", name)):
            both = with_keyword(with_keyword(self.start, other, limits), keyword, limits)
            if self.interview.takes_case(both):
                return replace(found, refusal=replace(found.refusal, without=frozenset({other})))
        return found


def begin_interview(subject: Subject, dtype: DType) -> BegunInterview | None:
    """An interview at a dtype; None where the function takes no plain problem."""
    interview = Interview(subject, dtype)
    start = start_of(interview)
    return BegunInterview(interview, start) if start else None


def narrow_subject(subject: Subject, found: Iterable[WordedRefusal]) -> Subject:
    """The subject with these refusals among its limits; a keyword that is refused as such is one that it lacks."""
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
    """The subject without what was found before and says less than this: "T < 16" beside "T % 16 ≠ 0"."""
    declared = subject.declaration
    less = {str(each) for each in declared.limits.refuses if str(each) in subject.refused_words
            and refusal.covers(each)}
    limits = replace(declared.limits, refuses=tuple(each for each in declared.limits.refuses if str(each) not in less))
    refused = {name: words for name, words in subject.refused_words.items() if name not in less}
    return replace(subject, declaration=replace(declared, limits=limits), refused_words=refused)


def _begin_at_any_dtype(subject: Subject) -> BegunInterview | None:
    """At the first dtype at which it takes a plain problem."""
    return next(filter(None, (begin_interview(subject, dtype) for dtype in subject.declaration.dtypes)), None)


def _always_causal(subject: Subject) -> BegunInterview | None:
    """The same of a subject that takes plain problems with the causal flag only, and says so: it is always causal."""
    limits = subject.declaration.limits
    if limits.causal_only or "causal" not in subject.declaration.keywords:
        return None
    declared = replace(subject.declaration, limits=replace(limits, causal_only=True))
    begun = _begin_at_any_dtype(replace(subject, declaration=declared))
    words = begun.interview.within_limits_of(subject).refusal_now(Case(begun.start.sizes)) if begun else ""
    if not begun or not says_always_causal(words):
        return None
    return begun.within_limits_of(replace(begun.subject,
                                          refused_words={**subject.refused_words, WITHOUT_CAUSAL: words}))


def _begin_causal(subject: Subject, start: Case, *, is_on: bool) -> BegunInterview | None:
    """An interview at the first dtype at which it takes the start with the causal flag, or as it is."""
    case = Case(start.sizes, {"causal": True} if is_on else start.keywords)
    interviews = (Interview(subject, dtype) for dtype in subject.declaration.dtypes)
    return next((BegunInterview(each, case) for each in interviews if each.takes_case(case)), None)


def _ask_optional(begun: BegunInterview, optional: OptionalFeature) -> Subject:
    subject, declared = begun.subject, begun.subject.declaration
    own = limits_saying({optional.refusal})
    is_said = any(getattr(declared.limits, name) != getattr(Limits(), name) for name in own)
    has_no_half = optional.half == "Hkv" and (begun.start.sizes.H == 1 or begun.start.size_along("G") > 1)
    if is_said or optional.profile in declared.claims or has_no_half:
        return subject
    words = [begun.interview.lasting_words(case) for case in _list_unlike(begun.start, optional)]
    if not words or not all(words) or not begun.interview.takes_case(begun.start):
        return subject
    limits = narrowed_by(declared.limits, (read_refusal(optional.refusal),))
    return replace(subject, declaration=replace(declared, limits=limits),
                   refused_words={**subject.refused_words, optional.name: words[0]})


def _list_unlike(start: Case, optional: OptionalFeature) -> Iterator[Case]:
    """The ways to have two axes differ: a length that is refused by itself is no refusal of their difference."""
    sizes = start.sizes.by_axis
    if optional.half == "Hkv":  # groups of four and of eight are taken by some that take none of two
        for group in (4, 8):
            yield replace(start, sizes=replace(start.sizes, H=2 * group, Hkv=2))
    if sizes[optional.half] > 1:
        yield replace(start, sizes=replace(start.sizes, **{optional.half: sizes[optional.half] // 2}))
    if optional.partner:
        yield replace(start, sizes=replace(start.sizes, **{optional.partner: sizes[optional.partner] * 2}))


def _without_refused_dtypes(subject: Subject, start: Case) -> Subject:
    """Unless the function says itself which dtypes it takes, those that it refuses are left out, if it takes any."""
    declared = subject.declaration
    if subject.description and "dtypes" in subject.description.attributes:
        return subject
    said = {dtype: Interview(subject, dtype).refusal_now(start, Topic.DTYPE) for dtype in declared.dtypes}
    refused = {dtype: words for dtype, words in said.items() if words}
    taken = tuple(dtype for dtype in declared.dtypes if dtype not in refused)
    left_out = {dtype: f"{subject.id} refuses {dtype.value}: {words}" for dtype, words in refused.items()}
    return replace(subject, declaration=replace(declared, dtypes=taken, left_out={**declared.left_out, **left_out}),
                   refused_words={**subject.refused_words, **{dtype.value: words for dtype, words in refused.items()}})


def _with_found(subject: Subject) -> Subject:
    """The subject within what it takes of keywords and of sizes far from plain. Who dies of one is asked no more."""
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
    """Seconds that a question with so many keys is expected to take, by the fewest and the most keys so far; 0 while
    too little is known. taken: the keys of each question, and its seconds.
    """
    if len(taken) < 2:
        return 0.0
    (few, short), (many, long) = min(taken), max(taken)
    return long + max(0.0, long - short) * max(0, keys - many) / (many - few)


def _settle_question(begun: BegunInterview, end: Case) -> BegunInterview:
    """The function within what it takes of one question, which is fitted to what it is known to take."""
    for _ in range(MOST_CAUSES):
        limits = begun.subject.declaration.limits
        end = replace(end, sizes=fit_to_limits(end.sizes, limits))
        found = begun.find_refused(end)
        if not found:
            return begun
        begun = begun.within_limits_of(narrow_subject(begun.subject, found))
    return begun


def _without_rare(subject: Subject, begun: BegunInterview) -> Subject:
    """The subject as one that takes no rare values of a keyword, as slopes of each batch entry, where it says so."""
    for keyword in sorted(subject.declaration.keywords & EVERY_KEYWORD.keys()):
        rare, declared = EVERY_KEYWORD[keyword].rare, subject.declaration
        if rare is None or getattr(declared.limits, rare.limit):
            continue
        interview = begun.interview.within_limits_of(subject)
        usual = with_keyword(begun.start, keyword, declared.limits)
        asked = replace(usual, keywords={**usual.keywords, keyword: rare.pattern})
        words = interview.lasting_words(asked) if interview.takes_case(usual) else ""
        if words:
            lacking: dict[str, Any] = {rare.limit: True}
            limits = replace(declared.limits, **lacking)
            subject = replace(subject, declaration=replace(declared, limits=limits),
                              refused_words={**subject.refused_words, rare.name: words})
    return subject


def _with_groups(begun: BegunInterview) -> Subject:
    """The subject as one that takes grouped heads, where it answers a plain problem with them: who says nothing of them
    is put them as often as who declares them, beside every keyword. Wrong answers are for clauses to find.
    """
    subject, start, declared = begun.subject, begun.start, begun.subject.declaration
    if declared.limits.grouped is not None:
        return subject
    if start.size_along("G") == 1 and not all(begun.interview.takes_case(case)
                                              for case in _list_unlike(start, OPTIONAL_FEATURES[0])):
        return subject
    return replace(subject, declaration=replace(declared, limits=replace(declared.limits, grouped=True)))


def _is_promised(subject: Subject, found: WordedRefusal) -> bool:
    """Whether a profile is claimed that promises what is refused, or grouped heads are declared; that they were found
    to be taken is no promise.
    """
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
    """A width that a layer need not take: in words; how wide values are, and by how much M is more than H·D."""

    name: str
    Dv: int = _PLAIN_SIZES.Dv
    more: int = 0


OPTIONAL_WIDTHS: Mapping[str, Width] = {
    "ties_model_width": Width("a model of another width (M ≠ H·D)", more=3),
    "ties_value_width": Width("values of another width (Dv ≠ D)", Dv=6)}
"""By the limit that says the same."""


def with_widths(subject: Subject) -> Subject:
    """The subject with a limit for each of these widths that it refuses clearly, where it takes the plain ones."""
    plain = Width("")
    taken = (each for each in subject.declaration.dtypes
             if Interview(subject, each).answers(_pose_layer_problem(subject, each, plain)))
    for dtype in islice(taken, 1):
        for limit, width in OPTIONAL_WIDTHS.items():
            subject = _with_width(subject, limit, width, dtype)
    return subject


def _with_width(subject: Subject, limit: str, width: Width, dtype: DType) -> Subject:
    declared = subject.declaration
    is_said = getattr(declared.limits, limit)
    words = "" if is_said else Interview(subject, dtype).refusal_of(_pose_layer_problem(subject, dtype, width))
    if not words:
        return subject
    limits = replace(declared.limits, **{limit: True})  # type: ignore[arg-type]  # by name; both are flags
    return replace(subject, declaration=replace(declared, limits=limits),
                   refused_words={**subject.refused_words, width.name: words})


def _pose_layer_problem(subject: Subject, dtype: DType, width: Width) -> LayerProblem:
    limits = subject.declaration.limits
    sizes = replace(_PLAIN_SIZES, Dv=width.Dv, **({"H": 1, "Hkv": 1} if limits.single_head else {}))
    recipe = Recipe(sizes, ("normal",), "none", frozenset({"causal"} if limits.causal_only else ()), 1,
                    M=sizes.H * sizes.D + width.more, inputs=limits.inputs)
    return make_layer(recipe, dtype, limits=limits)


# Whether a function refuses arrays that are not contiguous


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """A layout of arrays in memory: its name, a view of an array that lies so, and the limit of who refuses it."""

    name: str
    view: Callable[[Array], Array]
    limit_layout: Callable[[Limits], Limits]


MEMORY_LAYOUTS = (MemoryLayout(STRIDED, heads_last, lambda limits: replace(limits, contiguous=True)),
                  MemoryLayout(GAPS, with_gaps, lambda limits: replace(limits, contiguous_features=True)))


def with_layouts(interview: Interview, start: Case) -> Subject:
    """The subject with the limit of the first of the layouts that it refuses clearly, if it refuses any.

    start: a plain problem that it takes, of several heads and queries: of one, all layouts are the same.
    """
    subject, plain = interview.subject, start.make_problem(interview.dtype)
    for layout in MEMORY_LAYOUTS:
        laid = _lay_out_problem(plain, layout.view)
        if is_contiguous(laid):
            continue
        if words := interview.refusal_of(laid, Topic.LAYOUT):
            limits = layout.limit_layout(subject.declaration.limits)
            return replace(subject, declaration=replace(subject.declaration, limits=limits),
                           refused_words={**subject.refused_words, layout.name: words})
    return subject


def _lay_out_problem(problem: Problem, view: Callable[[Array], Array]) -> Problem:
    """The problem with query, key and value, (B,H,T,D) and their like, as views that lie otherwise."""
    return problem.but(query=view(problem.query), key=view(problem.key), value=view(problem.value))
