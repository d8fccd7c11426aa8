"""Watches the calls outside of trials, so that what goes wrong in them by chance is not lost.

A trial reports its own calls. Other calls ask what a function takes, what it does where practice
differs, and why it failed. The engine makes a failure of what goes wrong in those
(`Incidents.pop_met`).
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attnspec.core.effort import NEW_TO_OLD
from attnspec.core.errors import AttnspecError
from attnspec.core.nouns import DType, Verdict
from attnspec.hosting.client import ProcessDeath
from attnspec.problems.problem import Array
from attnspec.spec.clause import first_of
from attnspec.subjects.call import Call, SubjectAnswer, SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.subjects.callee import Callee, Hosted
from attnspec.subjects.interview import PLAIN, Case
from attnspec.subjects.subject import Subject

COMPILED_LENGTHS = (48, 80)
"""T and S of two new shapes: one that is slow once may have another reason than a compiler."""

TIMES_AGAIN = 20
"""How often a call is made again, since the system counts in hundredths of a second."""

SLOW_FACTOR = 0.05
"""Seconds of processors from which on a call may have been compiled."""


TELLING_SHAPES = 2
"""How many repeated shapes tell a compiler from a first call that happens to be slow."""


@dataclass(slots=True)
class ShapeTimes:
    """How long calls took: the first at each shape, which a compiler slows, and the best later."""

    _first: dict[Hashable, float] = field(default_factory=dict)
    _repeat_times: dict[Hashable, float] = field(default_factory=dict)

    def count(self, whose: int, call: Call, seconds: float) -> None:
        """Counts a call; whose: tells the function from its variants."""
        shapes = tuple((name, array.shape, array.strides)
                       for name, array in call.named_arrays.items())
        flags = tuple(sorted(name for name, value in call.keywords.items() if value is True))
        shape = (whose, call.dtype, shapes, flags, call.wrt, call.form)
        if shape in self._first:
            self._repeat_times[shape] = min(seconds, self._repeat_times.get(shape, seconds))
        else:
            self._first[shape] = seconds

    @property
    def compiling(self) -> float:
        """Returns the seconds of all slow first calls, if repeated shapes were slow only once."""
        slow = {shape: seconds for shape, seconds in self._first.items() if seconds >= SLOW_FACTOR}
        again = [slow[shape] >= NEW_TO_OLD * seconds
                 for shape, seconds in self._repeat_times.items() if shape in slow]
        is_compiler = sum(again) >= TELLING_SHAPES and 2 * sum(again) > len(again)
        return sum(slow.values()) if is_compiler else 0.0


def with_compiling(subject: Subject) -> Subject:
    """Marks an undeclared subject as compiled for each shape, where new shapes are that slow."""
    declared = subject.declaration
    if declared.compiles is not None or declared.is_compiled:
        return subject
    dtype = first_of(declared.dtypes)
    if not all(_is_dear(subject, dtype, length) for length in COMPILED_LENGTHS):
        return subject
    return replace(subject, declaration=replace(declared, compiles=True))


def _is_dear(subject: Subject, dtype: DType, length: int) -> bool:
    """Says whether the first call at a length takes many times what the next ones take."""
    new = _measure_seconds(subject, dtype, length, 1)
    if new is None or new < SLOW_FACTOR:
        return False
    once = _measure_seconds(subject, dtype, length, 1)
    if once is None or NEW_TO_OLD * once > TIMES_AGAIN * new:  # too slow to be asked twenty times
        return False
    often = _measure_seconds(subject, dtype, length, TIMES_AGAIN)
    return often is not None and NEW_TO_OLD * often / TIMES_AGAIN <= new


def _measure_seconds(subject: Subject, dtype: DType, length: int, calls: int) -> float | None:
    """Measures seconds of processors for so many calls; None where it does not answer."""
    causal = {"causal": True} if subject.declaration.limits.causal_only else {}
    case = Case(replace(PLAIN, T=length, S=length), causal)
    problem = case.pose_problem(dtype, subject.declaration.kind)
    if subject.refuses(problem):
        return None
    before = subject.callee.cpu_seconds()
    try:
        for _ in range(calls):
            subject.answer(problem)
    except (SubjectRaised, UnusableAnswer):
        return None
    return subject.callee.cpu_seconds() - before


MOST_HANGS = 3

LATE_SECONDS = 0.1
"""Seconds after which the first answer has to be unchanged."""

REPEATED_EVERY = 2.0

NEAR_DISTANCE = 2.0**-5
"""How far answers to the same call may be apart, for kernels that add up in any order. It is
several times the rounding of the coarsest half dtype.
"""

GIVEN_UP_SENTENCE = (f"this was not put: {MOST_HANGS} calls in a row had not returned before the "
                     "deadline")


class Asking(enum.Enum):
    """The purpose of a call outside of a trial, as the rest of a sentence."""

    TAKES = "while it was asked what it takes"
    CONVENTIONS = "while it was asked what it does where practice is divided"
    CAUSES = "while the cause of a failure was looked for"
    AGAIN = "when its first call was made again later in the run"


@dataclass(frozen=True, slots=True)
class Incident:
    """What went wrong in one call outside of a trial."""

    verdict: Verdict
    sentence: str


@dataclass(slots=True)
class Incidents:
    """The log of one subject and its variants.

    current_asking: the purpose of calls now; None in a trial.  hangs: how many of the last calls
    in a row did not return.  hang_words: what was said of the last of them.  first: a call that
    was answered first, and the output, of any shape.  times: how long calls took.
    """

    current_asking: Asking | None = None
    calls: int = 0
    hangs: int = 0
    hang_words: str = ""
    first: tuple[Call, Array] | None = None
    times: ShapeTimes = field(default_factory=ShapeTimes)
    repeated_at: float = field(default_factory=time.monotonic)
    _met_incidents: dict[Verdict, Incident] = field(default_factory=dict)
    _told_verdicts: set[Verdict] = field(default_factory=set)
    _lasting_sentences: set[str] = field(default_factory=set)
    _defect: Exception | None = None
    _is_owned_up: bool = False

    @contextlib.contextmanager
    def during(self, asking: Asking) -> Iterator[None]:
        """Sets the purpose of calls while the context is open; an outer purpose stays."""
        before, self.current_asking = self.current_asking, self.current_asking or asking
        try:
            yield
        finally:
            self.current_asking = before

    def note(self, verdict: Verdict, what: str, *, number: int, again: str = "") -> None:
        """Keeps the first incident of a kind.  what: begins a sentence.  number: of the call.
        again: what came of it when it was made again.
        """
        assert self.current_asking is not None
        if verdict not in self._told_verdicts:
            rest = f"; the same call, made again, gave {again}" if again else ""
            sentence = f"{what}, in call {number}, {self.current_asking.value}{rest}"
            self._met_incidents.setdefault(verdict, Incident(verdict, sentence))

    def is_lasting(self, raised: SubjectRaised) -> bool:
        """Says whether such an exception came again in the same call."""
        return raised.gist in self._lasting_sentences

    def remember(self, raised: SubjectRaised) -> None:
        """Keeps an exception that came again."""
        self._lasting_sentences.add(raised.gist)

    def tell_verdict(self, verdict: Verdict) -> None:
        """Marks a failure of this kind as reported; wrong answers say nothing of one another."""
        if verdict in (Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.ERRORED):
            self._told_verdicts.add(verdict)
            self._met_incidents.pop(verdict, None)

    def pop_met(self) -> Sequence[Incident]:
        """Takes the incidents that were met so far; each is reported once."""
        met, self._met_incidents = tuple(self._met_incidents.values()), {}
        self._told_verdicts |= {each.verdict for each in met}
        return met

    @property
    def is_given_up(self) -> bool:
        """Says whether so many calls in a row have hung that no further one is made."""
        return self.hangs >= MOST_HANGS

    def check_hangs(self) -> None:
        """Raises SubjectDied where the subject is given up."""
        if self.is_given_up:
            words = f"{self.hang_words}, {MOST_HANGS} times in a row"
            raise SubjectDied(ProcessDeath(Verdict.TIMED_OUT, words))

    def note_hang(self, died: SubjectDied) -> None:
        """Counts a call that did not return; any other death resets the count."""
        self.hangs = self.hangs + 1 if died.verdict is Verdict.TIMED_OUT else 0
        self.hang_words = str(died)

    def note_defect(self, defect: Exception) -> None:
        """Keeps the first error of attnspec's own."""
        if self._defect is None:
            self._defect = defect

    def raise_defect(self) -> None:
        """Raises attnspec's own error once: it costs one item, and not all."""
        if self._defect is not None and not self._is_owned_up:
            self._is_owned_up = True
            raise self._defect


@dataclass(frozen=True, slots=True)
class WatchedCallee:
    """A callee whose calls outside of trials are watched."""

    callee: Callee
    incidents: Incidents

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """Returns the callee's answer; rows (T,) bool. A failure that passes is noted."""
        self.incidents.check_hangs()
        self.incidents.calls += 1
        begun = time.perf_counter()
        try:
            answer = self._perform(call, rows)
        except SubjectDied as died:
            self.incidents.note_hang(died)
            raise
        except (SubjectRaised, UnusableAnswer):
            self.incidents.hangs = 0
            raise
        finally:
            self.incidents.times.count(id(self.callee), call, time.perf_counter() - begun)
        self.incidents.hangs = 0
        return answer

    def _perform(self, call: Call, rows: Array | None) -> SubjectAnswer:
        """Returns the answer, watched outside of trials; rows (T,) bool."""
        if self.incidents.current_asking is None:
            return self.callee.perform(call, rows)
        if self.incidents.current_asking is Asking.TAKES:
            self.callee.begin_item()  # a deadline that other calls have used up makes no hang
        return self._watch_call(call, rows, self.incidents.calls)

    def _watch_call(self, call: Call, rows: Array | None, number: int) -> SubjectAnswer:
        """Returns the answer to a call, noting what goes wrong; rows (T,) bool."""
        try:
            answer = self._perform_call(call, rows, number)
        except SubjectRaised as raised:
            if self.incidents.is_lasting(raised):
                raise
            return self._repeat_call(call, rows, number, raised)
        except UnusableAnswer as unusable:
            return self._repeat_call(call, rows, number, unusable)
        if not _is_plain(call):
            return answer
        if _is_finite(answer):
            self._keep_first(call, answer, number)
            return answer
        return self._finite_again(call, rows, number, answer)

    def _keep_first(self, call: Call, answer: SubjectAnswer, number: int) -> None:
        """Keeps the first answer, and sees whether a thread still changes it."""
        if self.incidents.first is not None or call.wrt:
            return
        self.incidents.first = call, answer.output.copy()
        time.sleep(LATE_SECONDS)
        if not answer.is_kept():
            self.incidents.note(Verdict.VIOLATED,
                                f"its answer had changed {LATE_SECONDS:g} s after it was returned",
                                number=number)

    def _perform_call(self, call: Call, rows: Array | None, number: int) -> SubjectAnswer:
        """Returns the callee's answer; rows (T,) bool. A death is noted and raised."""
        try:
            return self.callee.perform(call, rows)
        except SubjectDied as died:
            is_for_cause = self.incidents.current_asking is Asking.CAUSES
            if not is_for_cause or died.verdict is Verdict.CRASHED:
                self.incidents.note(died.verdict, str(died), number=number)
            raise

    def _repeat_call(self, call: Call, rows: Array | None, number: int,
                     failure: SubjectRaised | UnusableAnswer) -> SubjectAnswer:
        """Repeats the call; rows (T,) bool. Raises the failure if it comes again."""
        try:
            answer = self._perform_call(call, rows, number + 1)
        except SubjectRaised as raised:
            self.incidents.remember(raised)
            raise
        if isinstance(failure, SubjectRaised):
            what, verdict = f"it raised {failure.summary}", Verdict.ERRORED
        else:
            what, verdict = failure.sentence.removesuffix("."), Verdict.VIOLATED
        self.incidents.note(verdict, what, number=number, again="an answer")
        return answer

    def _finite_again(self, call: Call, rows: Array | None, number: int,
                      answer: SubjectAnswer) -> SubjectAnswer:
        """Repeats a call; rows (T,) bool. What is never finite is left for clauses to judge."""
        again = self._perform_call(call, rows, number + 1)
        if _is_finite(again):
            what = "NaN" if np.isnan(answer.output.astype(np.float64)).any() else "infinity"
            self.incidents.note(Verdict.VIOLATED, f"{what} stood in its output for finite inputs",
                                number=number, again="finite numbers")
        return again


def watch_subject(subject: Subject) -> Subject:
    """Gives the subject and its variants one log of incidents."""
    incidents = Incidents()
    variants = {name: replace(each, callee=WatchedCallee(each.callee, incidents))
                for name, each in subject.variants.items()}
    return replace(subject, callee=WatchedCallee(subject.callee, incidents), variants=variants)


def repeat_first(subject: Subject) -> None:
    """Makes the first call again every few seconds, to see changes that no single case shows."""
    incidents = incidents_of(subject)
    if incidents is None or incidents.first is None or incidents.is_given_up:
        return
    if time.monotonic() - incidents.repeated_at < REPEATED_EVERY:
        return
    incidents.repeated_at = time.monotonic()
    call, before = incidents.first
    with incidents.during(Asking.AGAIN):
        try:
            output = subject.callee.perform(call).output
        except SubjectDied:  # it is noted
            return
        except (SubjectRaised, UnusableAnswer) as failure:
            what = f"it failed, where it had answered before: {failure}"
            incidents.note(Verdict.ERRORED, what, number=incidents.calls)
            return
        if not np.allclose(output.astype(np.float64), before.astype(np.float64),
                           rtol=NEAR_DISTANCE, atol=NEAR_DISTANCE):
            incidents.note(Verdict.VIOLATED, "its answer was another one than before",
                           number=incidents.calls)


def incidents_of(subject: Subject) -> Incidents | None:
    """Returns the log of a subject that is watched, or None."""
    return subject.callee.incidents if isinstance(subject.callee, WatchedCallee) else None


def asking_for(subject: Subject, what: Asking) -> AbstractContextManager[None]:
    """Sets the purpose of a watched subject's calls while the context is open."""
    incidents = incidents_of(subject)
    return incidents.during(what) if incidents else contextlib.nullcontext()


@contextlib.contextmanager
def surviving_errors(subject: Subject) -> Iterator[None]:
    """Lets an item report attnspec's own error (`raise_defect`), which ends only the context."""
    try:
        yield
    except (AttnspecError, SubjectDied, SubjectRaised, UnusableAnswer):
        raise
    except Exception as defect:
        incidents = incidents_of(subject)
        if incidents is None:
            raise
        incidents.note_defect(defect)


def lives_apart(callee: Callee) -> bool:
    """Says whether a callee has a process of its own."""
    return isinstance(callee.callee if isinstance(callee, WatchedCallee) else callee, Hosted)


def _is_finite(answer: SubjectAnswer) -> bool:
    return bool(np.isfinite(answer.output.astype(np.float64)).all())


def _is_plain(call: Call) -> bool:
    """Says whether all given arrays, of any shape, are finite, and each key has a value."""
    key, value = call.arrays.get("key"), call.arrays.get("value")
    if key is not None and value is not None and key.shape[:-1] != value.shape[:-1]:
        return False  # a clause asks that it is refused; what it answers means nothing to others
    return all(np.isfinite(array.astype(np.float64)).all() for array in call.arrays.values())
