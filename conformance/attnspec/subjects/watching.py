"""Watches the calls by which a subject is asked something, so that what goes wrong in them by chance is not lost.

A trial tells what goes wrong in its own calls. Others ask what a function takes, what it does where practice is
divided, and why it failed. Whatever it does in those counts, too: the engine makes a failure of it
(`Incidents.pop_met`).
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

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
"""T and S of the two new shapes: who compiles for one and not for the other has another reason to be slow once."""

TIMES_AGAIN = 20
"""So often a call is made again, since the system counts in hundredths of a second."""

SLOW_FACTOR = 0.05
"""Seconds of processors a call, from which on a compiler is worth asking about."""


TELLING_SHAPES = 2
"""So many shapes at which calls were made again tell a compiler from a first call that happens to be slow."""


@dataclass(slots=True)
class ShapeTimes:
    """How long calls took: the first at each shape, and the fastest after it. A compiler runs in the first alone."""

    _first: dict[Hashable, float] = field(default_factory=dict)
    _repeat_times: dict[Hashable, float] = field(default_factory=dict)

    def count(self, whose: int, call: Call, seconds: float) -> None:
        """Counts a call. whose: tells the function from its variants."""
        shapes = tuple((name, array.shape, array.strides) for name, array in call.named_arrays.items())
        flags = tuple(sorted(name for name, value in call.keywords.items() if value is True))
        shape = (whose, call.dtype, shapes, flags, call.wrt, call.form)
        if shape in self._first:
            self._repeat_times[shape] = min(seconds, self._repeat_times.get(shape, seconds))
        else:
            self._first[shape] = seconds

    @property
    def compiling(self) -> float:
        """Seconds that a compiler has taken: all slow first calls, if those at shapes that came again were slow
        but once.
        """
        slow = {shape: seconds for shape, seconds in self._first.items() if seconds >= SLOW_FACTOR}
        again = [slow[shape] >= NEW_TO_OLD * seconds for shape, seconds in self._repeat_times.items() if shape in slow]
        is_compiler = sum(again) >= TELLING_SHAPES and 2 * sum(again) > len(again)
        return sum(slow.values()) if is_compiler else 0.0


def with_compiling(subject: Subject) -> Subject:
    """The subject, said to compile for each shape where a new one costs so much more than one that is known. What it
    declares stands.
    """
    declared = subject.declaration
    if declared.compiles is not None or declared.is_compiled:
        return subject
    dtype = first_of(declared.dtypes)
    if not all(_is_dear(subject, dtype, length) for length in COMPILED_LENGTHS):
        return subject
    return replace(subject, declaration=replace(declared, compiles=True))


def _is_dear(subject: Subject, dtype: DType, length: int) -> bool:
    """Whether the first call at a length takes so many times what the next ones take."""
    new = _measure_seconds(subject, dtype, length, 1)
    if new is None or new < SLOW_FACTOR:
        return False
    once = _measure_seconds(subject, dtype, length, 1)
    if once is None or NEW_TO_OLD * once > TIMES_AGAIN * new:  # as slow again: not to be asked twenty times
        return False
    often = _measure_seconds(subject, dtype, length, TIMES_AGAIN)
    return often is not None and NEW_TO_OLD * often / TIMES_AGAIN <= new


def _measure_seconds(subject: Subject, dtype: DType, length: int, calls: int) -> float | None:
    """Seconds of processors that so many calls take; None where the function does not answer."""
    causal = {"causal": True} if subject.declaration.limits.causal_only else {}
    problem = Case(replace(PLAIN, T=length, S=length), causal).pose_problem(dtype, subject.declaration.kind)
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
"""So many calls in a row may hang."""

LATE_SECONDS = 0.1
"""Seconds after which the first answer has to be what it was."""

REPEATED_EVERY = 2.0
"""Seconds after which the first call is made again."""

NEAR_DISTANCE = 2.0**-5
"""How far the answers to the same call may be apart, for kernels that add up in any order: as rounding in the coarsest
half dtype, several times.
"""

GIVEN_UP_SENTENCE = f"this was not put: {MOST_HANGS} calls in a row had not returned before the deadline"


class Asking(enum.Enum):
    """What a call outside of a trial is made for, as the rest of a sentence."""

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
    """The log of one subject and its variants. current_asking: what calls are made for now; None in a trial.

    hangs: so many calls, the last ones, did not return.  hang_words: what was said of the last of them.  first: a call
    that was answered first, and the output, of any shape.  times: how long calls took.
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
        """While this context is open, calls are made for this purpose. Whoever asks already goes on asking for what it
        does.
        """
        before, self.current_asking = self.current_asking, self.current_asking or asking
        try:
            yield
        finally:
            self.current_asking = before

    def note(self, verdict: Verdict, what: str, *, number: int, again: str = "") -> None:
        """Remember the first of a kind. what: begins a sentence.  number: of the call.  again: what came of it then."""
        assert self.current_asking is not None
        if verdict not in self._told_verdicts:
            rest = f"; the same call, made again, gave {again}" if again else ""
            sentence = f"{what}, in call {number}, {self.current_asking.value}{rest}"
            self._met_incidents.setdefault(verdict, Incident(verdict, sentence))

    def is_lasting(self, raised: SubjectRaised) -> bool:
        """Whether an exception like this one came again when the same call was made again."""
        return raised.gist in self._lasting_sentences

    def remember(self, raised: SubjectRaised) -> None:
        """An exception came again."""
        self._lasting_sentences.add(raised.gist)

    def tell_verdict(self, verdict: Verdict) -> None:
        """A failure of this kind is told. Of answers that are wrong, one says nothing about another."""
        if verdict in (Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.ERRORED):
            self._told_verdicts.add(verdict)
            self._met_incidents.pop(verdict, None)

    def pop_met(self) -> Sequence[Incident]:
        """Takes the incidents that were met so far; each is told once."""
        met, self._met_incidents = tuple(self._met_incidents.values()), {}
        self._told_verdicts |= {each.verdict for each in met}
        return met

    @property
    def is_given_up(self) -> bool:
        """Whether so many calls in a row have hung that no further one is made: each costs a whole deadline."""
        return self.hangs >= MOST_HANGS

    def check_hangs(self) -> None:
        """Raise SubjectDied where the subject is given up."""
        if self.is_given_up:
            raise SubjectDied(ProcessDeath(Verdict.TIMED_OUT, f"{self.hang_words}, {MOST_HANGS} times in a row"))

    def note_hang(self, died: SubjectDied) -> None:
        """Count a call that did not return, if this one did not."""
        self.hangs = self.hangs + 1 if died.verdict is Verdict.TIMED_OUT else 0
        self.hang_words = str(died)

    def note_defect(self, defect: Exception) -> None:
        """Remember the first error of attnspec's own."""
        if self._defect is None:
            self._defect = defect

    def raise_defect(self) -> None:
        """Raise the error of attnspec's own that was met, once: it costs one item, and not all."""
        if self._defect is not None and not self._is_owned_up:
            self._is_owned_up = True
            raise self._defect


@dataclass(frozen=True, slots=True)
class WatchedCallee:
    """A callee whose calls outside of trials are watched."""

    callee: Callee
    incidents: Incidents

    @property
    def place(self) -> Mapping[str, str]:
        """The callee's."""
        return self.callee.place

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """The callee's answer; rows (T,) bool. What fails outside of a trial is tried once more, and if it does not
        come again, it is noted.
        """
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
        """The answer, watched outside of trials; rows (T,) bool."""
        if self.incidents.current_asking is None:
            return self.callee.perform(call, rows)
        if self.incidents.current_asking is Asking.TAKES:
            self.callee.begin_item()  # a deadline that other calls have used up makes no hang
        return self._watch_call(call, rows, self.incidents.calls)

    def _watch_call(self, call: Call, rows: Array | None, number: int) -> SubjectAnswer:
        """The answer to the call of this number, whatever goes wrong noted; rows (T,) bool."""
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
        """Remember the first answer, and see whether it stays what it is: a thread may write to it when all is said."""
        if self.incidents.first is not None or call.wrt:
            return
        self.incidents.first = call, answer.output.copy()
        time.sleep(LATE_SECONDS)
        if not answer.is_kept():
            self.incidents.note(Verdict.VIOLATED, f"its answer had changed {LATE_SECONDS:g} s after it was returned",
                                number=number)

    def _perform_call(self, call: Call, rows: Array | None, number: int) -> SubjectAnswer:
        """The callee's answer; rows (T,) bool. A death is noted, and raised as it is."""
        try:
            return self.callee.perform(call, rows)
        except SubjectDied as died:
            if self.incidents.current_asking is not Asking.CAUSES or died.verdict is Verdict.CRASHED:
                self.incidents.note(died.verdict, str(died), number=number)
            raise

    def _repeat_call(self, call: Call, rows: Array | None, number: int,
                     failure: SubjectRaised | UnusableAnswer) -> SubjectAnswer:
        """The answer to the same call; rows (T,) bool. Raises the failure if it comes again."""
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
        """The answer to the same call; rows (T,) bool. What is not finite each time is for clauses to judge."""
        again = self._perform_call(call, rows, number + 1)
        if _is_finite(again):
            what = "NaN" if np.isnan(answer.output.astype(np.float64)).any() else "infinity"
            self.incidents.note(Verdict.VIOLATED, f"{what} stood in its output for finite inputs",
                                number=number,
                                again="finite numbers")
        return again

    def meanwhile(self, work: Iterable[Callable[[], object]]) -> AbstractContextManager[None]:
        """The callee does it."""
        return self.callee.meanwhile(work)

    def find_flushing_operation(self, dtype: DType) -> str:
        """The callee's."""
        return self.callee.find_flushing_operation(dtype)

    def why_not_taken(self, dtype: DType) -> str:
        """The callee's."""
        return self.callee.why_not_taken(dtype)

    def begin_item(self) -> None:
        """The callee's."""
        self.callee.begin_item()

    def cpu_seconds(self) -> float:
        """The callee's."""
        return self.callee.cpu_seconds()

    def forget(self) -> None:
        """The callee's."""
        self.callee.forget()


def watch_subject(subject: Subject) -> Subject:
    """The subject, and its variants, with one log of incidents."""
    incidents = Incidents()
    variants = {name: replace(each, callee=WatchedCallee(each.callee, incidents))
                for name, each in subject.variants.items()}
    return replace(subject, callee=WatchedCallee(subject.callee, incidents), variants=variants)


def repeat_first(subject: Subject) -> None:
    """Make the first call again, every few seconds: what changes with time shows in no single case."""
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
                           rtol=NEAR_DISTANCE,
                           atol=NEAR_DISTANCE):
            incidents.note(Verdict.VIOLATED, "its answer was another one than before",
                           number=incidents.calls)


def incidents_of(subject: Subject) -> Incidents | None:
    """The log of a subject that is watched."""
    return subject.callee.incidents if isinstance(subject.callee, WatchedCallee) else None


def asking_for(subject: Subject, what: Asking) -> AbstractContextManager[None]:
    """While this context is open, the calls of a subject, if it is watched, are made for this purpose."""
    incidents = incidents_of(subject)
    return incidents.during(what) if incidents else contextlib.nullcontext()


@contextlib.contextmanager
def surviving_errors(subject: Subject) -> Iterator[None]:
    """While this context is open, an error of attnspec's own ends what is inside, and nothing else: an item tells it
    (`raise_defect`).
    """
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
    """Whether a callee has a process of its own."""
    return isinstance(callee.callee if isinstance(callee, WatchedCallee) else callee, Hosted)


def _is_finite(answer: SubjectAnswer) -> bool:
    """Whether its numbers are, as far as the output goes."""
    return bool(np.isfinite(answer.output.astype(np.float64)).all())


def _is_plain(call: Call) -> bool:
    """Whether all arrays that are given, of any shape, are finite, and the call makes sense: each key has a value."""
    key, value = call.arrays.get("key"), call.arrays.get("value")
    if key is not None and value is not None and key.shape[:-1] != value.shape[:-1]:
        return False  # a clause asks that it is refused; what the answer holds is nothing to the others
    return all(np.isfinite(array.astype(np.float64)).all() for array in call.arrays.values())
