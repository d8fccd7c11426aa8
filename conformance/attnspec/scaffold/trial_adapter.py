"""Whether a form is right: its adapter is written, loaded where the callee lives, and put telling problems."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attnspec.core.declaration import Declaration, Limits, narrowed_by
from attnspec.core.errors import TargetError
from attnspec.core.forms import TABLE
from attnspec.core.forms import InputForm as Layout
from attnspec.core.nouns import Verdict
from attnspec.core.sizes import Refusal, read_refusal
from attnspec.hosting.process import DIED_REASON
from attnspec.problems.keyword_arrays import USUAL_PAGES
from attnspec.problems.problem import DENSE, Array, LayerProblem, Lays, Problem
from attnspec.scaffold.arrangements import BACKS, LOG_SUM_EXPS, OF_EQUAL_LENGTHS, PACKED_BACK, WEIGHTS, OutputLayout
from attnspec.scaffold.form import CallForm, OutputPlace
from attnspec.scaffold.gathered import Gathered
from attnspec.scaffold.mistakes import MISTAKES
from attnspec.scaffold.probe_problems import (
    AnyProblem,
    Expected,
    close,
    expected_mistakes,
    plain,
    truths,
    unlike,
)
from attnspec.scaffold.there import There
from attnspec.scaffold.writing.lines import ARRAYS
from attnspec.scaffold.writing.source import ADAPTER, source
from attnspec.scaffold.writing.telling import described
from attnspec.subjects.call import Call, ReturnedArray, ReturnedTree
from attnspec.subjects.callee import Hosted
from attnspec.subjects.exceptions import refusal_words
from attnspec.subjects.serving_forms import in_pages, laid_in_pages, pack
from attnspec.subjects.subject import Subject, SubjectAnswer, SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.subjects.target import offered

Limited = Mapping[str, bool | int | str]
DEATHS = 5
"""How often the callee's process may end before the search does: each time it is started anew."""
_LARGEST_SIDE = 64
"""Of a square of tokens."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""What makes a part of a message bold or red on a terminal."""
_DEEPEST = 2  # steps to an output in what comes back


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """An array that may be the output, as it lies among ours, and how it is read."""

    reading: OutputPlace
    array: Array


class Progress(enum.IntEnum):
    """How far an attempt came."""

    RAISED = 0
    NO_MATRICES = 1
    NO_OUTPUT = 2
    OTHER_NUMBERS = 3


@dataclass(frozen=True, slots=True)
class Attempt:
    """A form that is not right: how far it came, what stood against it, and how unlike the truth its output is.

    is_refusal: whether it raises in words that say what it does not take.
    """

    form: CallForm
    step: Progress
    against: str
    unlike: float = 0.0
    is_refusal: bool = False

    @property
    def nearness(self) -> tuple[int, float]:
        """Greater is nearer. In millionths: rounding, which differs between machines, decides nothing."""
        return self.step, -round(self.unlike, 6)


@dataclass(slots=True)
class Trier:
    """Writes adapters and asks them, where the callee lives. tried: how many.  nearest: of those not right.

    mistaken: forms that one plain mistake explains, the plainest first.
    deaths: how often the callee's process has ended.  asks_contiguous: whether it has raised for want of plain order.
    gathered: how a class takes all its inputs in one parameter.
    """

    there: There
    tried: int = 0
    nearest: Attempt | None = None
    deaths: int = 0
    asks_contiguous: bool = False
    mistaken: list[CallForm] = field(default_factory=list)
    gathered: Gathered | None = None
    _born: dict[str, ReturnedTree | None] = field(default_factory=dict)
    _mistakes: dict[tuple[object, ...], Sequence[tuple[str, Expected]]] = field(default_factory=dict)

    def subject(self, form: CallForm) -> Subject:
        """The adapter of the form, loaded. Raises TargetError."""
        subject = self.there.written(source(form), ADAPTER, form.lift)
        limits = narrowed_by(Limits(**form.limits), _refused(form))  # type: ignore[arg-type]  # by name, each of its own type
        declaration = replace(subject.declaration, limits=limits)
        return replace(subject, declaration=replace(declaration, keywords=offered(declaration)))

    def returned(self, form: CallForm, problem: AnyProblem) -> ReturnedTree | None:
        """What the callee itself returns; None where it raises or returns None, and what it raises is kept."""
        self.tried += 1
        subject = self.subject(form)
        callee = subject.callee
        assert isinstance(callee, Hosted)  # it was loaded there
        arrays, given, lays = _laid_out(problem, subject.declaration)
        arrays, given = subject.hand_over(arrays, {**given, **_keywords(problem)}, lays)
        try:
            whole = callee.whole(Call(arrays, given, problem.dtype, ()))
        except SubjectRaised as raised:
            self.keep(Attempt(form, Progress.RAISED, _describe_raised(raised)))
            return None
        except SubjectDied as died:
            self._died(form, died)
            return None
        return None if whole.type_name == "NoneType" else whole

    def born(self, form: CallForm) -> ReturnedTree | None:
        """What a layer that nothing is filled into returns, its parameters: asked once for each way to make it."""
        text = source(form)
        if text not in self._born:
            self._born[text] = self.returned(form, plain(form))
        return self._born[text]

    def _died(self, form: CallForm, died: SubjectDied) -> None:
        """Keep it as another attempt that failed. Raises TargetError where it has died too often, or takes too long."""
        self.deaths += 1
        if died.verdict is Verdict.TIMED_OUT:
            raise TargetError(f"{died}. It was given this form: {described(form)}.")
        if self.deaths >= DEATHS:
            last = (died.stderr.strip().splitlines() or [""])[-1]
            raise TargetError(
                f"the process died{str(died).removeprefix(DIED_REASON)} in {self.deaths} of {self.tried} forms "
                f"that were tried{last and f': {last}'}")
        self.keep(Attempt(form, Progress.RAISED, str(died)))

    def outputs(self, form: CallForm, returned: ReturnedTree, problem: AnyProblem,
                shape: tuple[int, ...]) -> list[Output]:
        """What in what came back may be the output: every array that some way back brings into this shape."""
        backs = [each for each in BACKS[form.kind] if each.shape == OF_EQUAL_LENGTHS or not form.is_packed]
        found = [Output(OutputPlace("".join(path), PACKED_BACK if form.is_packed else back), output)
                 for path, array in _arrays(returned) for back in backs
                 if (output := _way_back(back, array, problem)) is not None and output.shape == shape]
        if not found:
            shapes = " and ".join(str(part.shape) for part in _near(returned))
            self.keep(Attempt(form, Progress.NO_OUTPUT, f"it returns {shapes or returned.type_name}, "
                                                        f"of which nothing can be read as {shape}"))
        return found

    def weights(self, returned: ReturnedTree, problem: AnyProblem, *,
                are_weights: bool = True) -> Iterator[tuple[str, OutputLayout, Limited]]:
        """Where in what came back weights are, if they are somewhere: the path, the way back, and a limit of theirs.

        are_weights: whether their rows have to sum to 1, as those of logits do not.
        """
        sizes = problem.sizes
        shapes: Mapping[tuple[int, ...], Limited] = {
            (sizes.B, sizes.H, sizes.T, sizes.S): {}, (sizes.B, sizes.T, sizes.S): {"weights": "averaged"}}
        for path, array in _arrays(returned):
            for back in WEIGHTS:
                found = _way_back(back, array, problem)
                if found is None or found.shape not in shapes:
                    continue
                if not are_weights or np.allclose(found.sum(axis=-1), 1, atol=2.0**-5):
                    yield "".join(path), back, shapes[found.shape]

    def log_sum_exps(self, returned: ReturnedTree, problem: AnyProblem) -> Iterator[tuple[str, OutputLayout, Array]]:
        """Where in what came back something has the shape of log-sum-exps: the path, the way back, and (B,H,T)."""
        sizes = problem.sizes
        for path, array in _arrays(returned):
            for back in LOG_SUM_EXPS:
                found = _way_back(back, array, problem)
                if found is not None and found.shape == (sizes.B, sizes.H, sizes.T):
                    yield "".join(path), back, found

    def answer(self, form: CallForm, problem: AnyProblem) -> SubjectAnswer | None:
        """What the written adapter answers; None if nothing usable, and then the attempt is kept."""
        self.tried += 1
        subject = self.subject(form)
        try:
            return subject.answer_layer(problem) if isinstance(problem, LayerProblem) else subject.answer(problem)
        except SubjectRaised as raised:
            names = "|".join(re.escape(each.parameter) for each in form.passed if each.parameter)
            is_named = bool(names) and raised.is_stated and bool(re.search(rf"\b({names})\b", raised.statement))
            is_refusal = is_named or bool(refusal_words(raised, problem, home=form.module.partition(".")[0]))
            self.keep(Attempt(form, Progress.RAISED, _describe_raised(raised), is_refusal=is_refusal))
        except SubjectDied as died:
            self._died(form, died)
        except (UnusableAnswer, ValueError) as refused:
            self.keep(Attempt(form, Progress.NO_OUTPUT, str(refused)))
        return None

    def is_right(self, form: CallForm, problem: AnyProblem, scale: float | None = None) -> bool:
        """Whether it answers as the definition does, under one convention or another; rows that see nothing aside.

        scale: of what a layer computes, where attention itself is put to it.
        """
        answer = self.answer(form, problem)
        if answer is None:
            return False
        meant = problem if scale is None else problem.but(scale=scale)
        output = answer.output.astype(np.float64)
        known = [truth for each in _meanings(form, meant) for truth in truths(each, form.default_scale, form.mistake)]
        if min(truth.gap(output)[0] for truth in known) <= close(problem.dtype):
            return True
        told = f"its output is {known[0].gap(output)[1]}"
        self.keep(Attempt(form, Progress.OTHER_NUMBERS, told, unlike(known[0], output)))
        return False

    def keep_mistaken(self, form: CallForm, problem: AnyProblem, outputs: list[Output]) -> None:
        """Remember the form if a plain mistake explains one of its outputs; also always causal."""
        always = replace(form, limits={**form.limits, "causal_only": True},
                         remarks=(*form.remarks, "It is always causal."))
        for known, posed in ((form, problem), (always, problem.but(causal=True))):
            for name, told in self._mistakes_at(posed):
                for output in outputs:
                    if told.gap(output.array)[0] <= close(problem.dtype):
                        self._keep_one(replace(known, reading=output.reading, mistake=name))

    def _mistakes_at(self, problem: AnyProblem) -> Sequence[tuple[str, Expected]]:
        """The function `expected_mistakes`, asked once for each problem of three inputs and perhaps the causal flag:
        hundreds of forms are put to the same few.
        """
        arrays = problem.params if isinstance(problem, LayerProblem) else {}
        inputs = (problem.query, problem.key, problem.value, *arrays.values())
        told = (problem.dtype, problem.sizes, problem.causal, *arrays, *(array.tobytes() for array in inputs))
        if told not in self._mistakes:
            self._mistakes[told] = tuple(expected_mistakes(problem))
        return self._mistakes[told]

    def explained(self, form: CallForm, problem: AnyProblem, scale: float | None = None) -> str:
        """The plain mistake that explains what a form answers, in words; empty where none does. scale: as in
        `is_right`.
        """
        answer = self.answer(form, problem)
        posed = problem if scale is None else problem.but(scale=scale)
        if answer is None:
            return ""
        output = answer.output.astype(np.float64)
        return next((MISTAKES[name].says for name, told in expected_mistakes(posed)
                     if told.gap(output)[0] <= close(problem.dtype)), "")

    def _keep_one(self, form: CallForm) -> None:
        """Remember a form with a mistake, if it is so in a second problem, too, and none is known by as plain a
        mistake.
        """
        ranks = list(MISTAKES)
        if any(ranks.index(each.mistake) <= ranks.index(form.mistake) for each in self.mistaken):
            return
        if self.is_right(form, plain(form)):
            self.mistaken.insert(0, form)

    def keep(self, attempt: Attempt) -> None:
        """Remember it if it is nearer than all before."""
        self.asks_contiguous |= attempt.step is Progress.RAISED and "contiguous" in attempt.against
        if self.nearest is None or attempt.nearness > self.nearest.nearness:
            self.nearest = attempt


def _meanings(form: CallForm, problem: AnyProblem) -> tuple[AnyProblem, ...]:
    """What a problem may mean to a form: to one that is always causal, a mask may take the place of that."""
    is_either = bool(form.limits.get("causal_only")) and {"mask", "causal"} <= problem.keywords
    return (problem, problem.but(causal=False)) if is_either else (problem,)


def _describe_raised(raised: SubjectRaised) -> str:
    """What it raises; with the condition where that is all that an `assert` says, and with the second line of a message
    whose first one only introduces it.
    """
    if raised.is_mute and raised.says_why:
        return f"it raises {raised} ({raised.statement})"
    words = str(raised).partition(": ")[2]
    rest = raised.traceback.rpartition(words)[2].splitlines() if words.endswith((":", "().")) else []
    second = next((line for each in rest if (line := _COLOURS.sub("", each).strip())), "")
    return f"it raises {raised}{second and f' {second}'}"


def _refused(form: CallForm) -> tuple[Refusal, ...]:
    of_heads = [f"H ≠ {form.heads}"] if form.heads else []
    of_one = ["Hkv ≠ 1"] if form.one_kv_head else []
    of_pairs = ["D % 2 ≠ 0", "Dv % 2 ≠ 0"] if form.even_heads else []
    of_masks = ["mask with T ≠ S"] if form.mask_of_squares else []
    squares = ", ".join(str(side**2) for side in range(1, _LARGEST_SIDE + 1))
    of_squares = [f"T not in ({squares})"] if form.takes_squares else []
    of_one_query = ["T ≠ 1"] if form.takes_one_query else []
    of_segments = ["query_segments with T ≠ S"] if form.limits.get("segments_are_shared") else []
    of_lengths = [*of_masks, *of_squares, *of_one_query, *of_segments]
    return tuple(map(read_refusal, [*of_heads, *of_one, *of_pairs, *of_lengths]))


def _near(returned: ReturnedTree) -> Iterator[ReturnedArray]:
    """The arrays that are not deep inside."""
    return (part for part in returned.parts if len(part.path) <= _DEEPEST)


def _arrays(returned: ReturnedTree) -> Iterator[tuple[tuple[str, ...], Array]]:
    """Path and array of all floats that came back, of any shape, such as (B,H,T,Dv); read as float64."""
    return ((part.path, part.array.astype(np.float64)) for part in _near(returned) if part.array is not None)


def _laid_out(problem: AnyProblem, declared: Declaration) -> tuple[Mapping[str, Array], Mapping[str, object], Lays]:
    """Query (B,H,T,D), key and value as the adapter takes them, what it is given beside them whatever is in use, and
    how what belongs to their entries lies.
    """
    arrays = {name: getattr(problem, name) for name in ARRAYS}
    if TABLE in declared.given and isinstance(problem, Problem):
        multiple = declared.limits.page_multiple
        paged = in_pages(problem, USUAL_PAGES, multiple)
        return ({**arrays, "key": paged.key, "value": paged.value}, paged.given,
                laid_in_pages(problem, USUAL_PAGES, multiple))
    if declared.form is Layout.PACKED and isinstance(problem, Problem):
        packed = pack(problem, declared.given)
        return {"query": packed.query, "key": packed.key, "value": packed.value}, packed.given, packed.lays
    return arrays, _layered(problem), DENSE


def _layered(problem: AnyProblem) -> Mapping[str, object]:
    return {"params": problem.params, "heads": problem.heads} if isinstance(problem, LayerProblem) else {}


def _keywords(problem: AnyProblem) -> Mapping[str, object]:
    """Those in use that are no arrays."""
    return {name: getattr(problem, name) for name in problem.keywords - {"mask", "bias"}}


def _way_back(back: OutputLayout, array: Array, problem: AnyProblem) -> Array | None:
    """The array as it would lie among ours, such as (B,H,T,Dv); None where it has another shape."""
    sizes, width = problem.sizes, _width(problem)
    lengths = {"B": sizes.B, "H": sizes.H, "T": sizes.T, "S": sizes.S, "D": sizes.Dv, "M": width or sizes.H * sizes.Dv}
    if array.shape != back.lengths(lengths):
        return None
    return np.asarray(eval(back.text.format("output"), {"output": array, **lengths}))


def _width(problem: AnyProblem) -> int:
    """Of the output of a layer that projects it."""
    out = problem.params.get("w_out") if isinstance(problem, LayerProblem) else None
    return 0 if out is None else int(out.shape[1])
