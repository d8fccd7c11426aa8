"""Says where a function raises: the line, and the fewest sizes and keywords that bring the exception out; and that what
it returns is never an output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from attnspec.core.declaration import Limits, limits_saying, narrowed_by
from attnspec.core.nouns import DType, Kind, is_bare
from attnspec.core.refusal import Refusal
from attnspec.record.outcome import Explanation
from attnspec.subjects.call import UnusableAnswer
from attnspec.subjects.causes import WordedRefusal, causes
from attnspec.subjects.exceptions import refusal_words
from attnspec.subjects.interview import Interview
from attnspec.subjects.plain import PLAIN, Case, case_of
from attnspec.subjects.refusals import begin
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised

_IN_WORDS = {"G > 1": "Hkv < H"}
"""Conditions that people write otherwise."""


@dataclass(slots=True)
class RaisingExplainer:
    """Explains the exceptions of one function of a user's own. A line that raised before is not asked about again."""

    subject: Subject
    _explained: dict[tuple[DType, str], Explanation | None] = field(default_factory=dict)
    _everywhere: dict[str, Explanation] = field(default_factory=dict)  # by origin or cause, what always comes

    def explain(self, raised: SubjectRaised, dtype: DType) -> Explanation | None:
        """The cause `it raises IndexError in mine.py:41 where Hkv < H`, with the way out; None where the conditions are
        not found: the exception depends on entries, or on chance.
        """
        if not is_bare(self.subject.id) or self.subject.declaration.kind is Kind.LAYER or raised.asked is None:
            return None
        if refusal_words(raised, raised.asked, home=self.subject.home):
            return None  # it is a promise that is broken; its own words are the best
        if raised.origin in self._everywhere:
            return self._everywhere[raised.origin]
        key = (dtype, raised.origin)
        if key not in self._explained:
            try:
                self._explained[key] = self._search(raised, dtype, case_of(raised.asked))
            except SubjectDied:
                self._explained[key] = None
        return self._explained[key]

    def explain_return(self, no_array: str) -> Explanation | None:
        """The cause `every call returns a tuple of 2, and no array`; None where a plain problem is answered.

        no_array: what came back in place of the output (`UnusableAnswer.no_array`).
        """
        if self.subject.declaration.kind is not Kind.ATTENTION:
            return None
        cause = f"every call returns {no_array}, and no array"
        if cause not in self._everywhere:
            if any(map(self._returns_output, self.subject.declaration.dtypes)):
                return None
            self._everywhere[cause] = Explanation(cause, "Return the output alone", "")
        return self._everywhere[cause]

    def _returns_output(self, dtype: DType) -> bool:
        try:
            self.subject.answer_any(Case(PLAIN).problem(dtype))
        except (SubjectRaised, SubjectDied, UnusableAnswer):
            return False
        return True

    def _search(self, raised: SubjectRaised, dtype: DType, end: Case) -> Explanation | None:
        begun = begin(self.subject, dtype)
        if begun is None:
            return self._always(raised, dtype)
        interview = Interview(self.subject, dtype, origin=raised.origin)
        if interview.refusal(begun.start):
            return None
        found = causes(interview, begun.start, end)
        return self._where(raised, found) if found else None

    def _always(self, raised: SubjectRaised, dtype: DType) -> Explanation:
        """Where no plain problem is answered at this dtype; at others it may be."""
        others = [each for each in self.subject.declaration.dtypes
                  if each is not dtype and Interview(self.subject, each).takes(Case(PLAIN))]
        if not others:
            self._everywhere[raised.origin] = Explanation(f"every call raises {raised.origin}", "Mend it", "")
            return self._everywhere[raised.origin]
        function = self.subject.id.rpartition(":")[2]
        return Explanation(
            f"it raises {raised.origin} at {dtype.value}", f"Mend it. If {dtype.value} is not meant to be taken",
            f"{function}.dtypes = {[each.value for each in others]}")

    def _where(self, raised: SubjectRaised, found: Sequence[WordedRefusal]) -> Explanation:
        told = " or ".join(dict.fromkeys(_write(each.refusal) for each in found))
        return Explanation(
            f"it raises {raised.origin} where {told}",
            "Mend it. If it is not meant to be called so, let it raise an exception that says so",
            _declare(self.subject, [each.refusal for each in found]))


def _write(refusal: Refusal) -> str:
    """`there is a mask and B > 1`, `Hkv < H`, `1 < Hkv < H`."""
    keywords = [f"{name} is given" for name in sorted(refusal.keywords)]
    conditions = [_IN_WORDS.get(text, text) for text in map(str, refusal.conditions)]
    return " and ".join((*keywords, *conditions)).replace("Hkv > 1 and Hkv < H", "1 < Hkv < H")


def _declare(subject: Subject, refusals: Sequence[Refusal]) -> str:
    """The line that says that none of these is taken, as an attribute of the function."""
    function = subject.id.rpartition(":")[2]
    names = sorted(limits_saying({str(each) for each in refusals}))
    if len(names) == len(refusals) == 1:
        value = getattr(narrowed_by(Limits(), refusals), names[0])
        return f"{function}.{names[0]} = {value!r}"
    declared = [*map(str, subject.declaration.limits.refuses), *(str(each) for each in refusals)]
    return f"{function}.refuses = {[text.replace('≠', '!=') for text in declared]!r}"
