"""Tries a form: writes its adapter, loads it where the callee lives, and compares its answers."""

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
from attnspec.hosting.client import DIED_REASON
from attnspec.problems.keyword_arrays import USUAL_PAGES
from attnspec.problems.problem import DENSE, Array, LayerProblem, Lays, Problem
from attnspec.scaffold.arrangements import (
    EQUAL_LENGTHS_SHAPE,
    LSE_LAYOUTS,
    OUTPUT_LAYOUTS,
    PACKED_LAYOUT,
    WEIGHTS_LAYOUTS,
    OutputLayout,
)
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.examined import GatheredInputs
from attnspec.scaffold.form import CallForm, OutputPlace
from attnspec.scaffold.mistakes import MISTAKES
from attnspec.scaffold.probe_problems import (
    AnyProblem,
    Expected,
    expected_mistakes,
    list_expected,
    measure_unlikeness,
    plain_problem,
    tolerance_of,
)
from attnspec.scaffold.writing.lines import ARRAY_NAMES
from attnspec.scaffold.writing.source import ADAPTER_NAME, write_source
from attnspec.scaffold.writing.telling import describe_call
from attnspec.subjects.call import Call, ReturnedArray, ReturnedTree
from attnspec.subjects.callee import Hosted
from attnspec.subjects.exceptions import refusal_words
from attnspec.subjects.serving_forms import in_pages, laid_in_pages, pack
from attnspec.subjects.subject import Subject, SubjectAnswer, SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.subjects.target import list_offered_keywords

LimitValues = Mapping[str, bool | int | str]
MOST_DEATHS = 5
"""How often the callee's process may die before the search ends; it is restarted each time."""
_LARGEST_SIDE = 64
_COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*m")
"""Matches what makes a part of a message bold or red on a terminal."""
_DEEPEST_OUTPUT = 2  # steps to an output in what comes back


@dataclass(frozen=True, slots=True, eq=False)
class ReadOutput:
    """An array that may be the output, in our layout, and how it is read."""

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
    """A form that is not right.

    progress: how far it came.  objection: what stands against it.  unlikeness: how unlike the
    truth its output is.  is_refusal: whether it raises in words that say what it does not take.
    """

    form: CallForm
    progress: Progress
    objection: str
    unlikeness: float = 0.0
    is_refusal: bool = False

    @property
    def nearness(self) -> tuple[int, float]:
        """Ranks attempts, nearer is greater, in millionths: rounding decides nothing."""
        return self.progress, -round(self.unlikeness, 6)


@dataclass(slots=True)
class Trier:
    """Writes adapters and calls them where the callee lives.

    tried_count: how many were tried.  nearest: the nearest attempt that is not right.
    mistaken_forms: forms that one plain mistake explains, the plainest first.  death_count: how
    often the callee's process has died.  asks_contiguous: whether it has raised for want of plain
    order.  gathered_inputs: how a class takes all its inputs in one parameter.
    """

    process: CalleeProcess
    tried_count: int = 0
    nearest: Attempt | None = None
    death_count: int = 0
    asks_contiguous: bool = False
    mistaken_forms: list[CallForm] = field(default_factory=list)
    gathered_inputs: GatheredInputs | None = None
    _born_trees: dict[str, ReturnedTree | None] = field(default_factory=dict)
    _known_mistakes: dict[tuple[object, ...], Sequence[tuple[str, Expected]]] = field(default_factory=dict)

    def forget_nearest(self) -> None:
        """Forgets the nearest attempt; a method, so that mypy checks the next one."""
        self.nearest = None

    def load_adapter(self, form: CallForm) -> Subject:
        """Writes and loads the adapter of a form. Raises TargetError."""
        subject = self.process.load_source(write_source(form), ADAPTER_NAME, form.lift)
        limits = Limits(**form.limits)  # type: ignore[arg-type]  # by name, each of its own type
        limits = narrowed_by(limits, _list_form_refusals(form))
        declaration = replace(subject.declaration, limits=limits)
        return replace(subject, declaration=replace(declaration, keywords=list_offered_keywords(declaration)))

    def call_raw(self, form: CallForm, problem: AnyProblem) -> ReturnedTree | None:
        """Returns what the callee returns; None also where it raises, which is kept."""
        self.tried_count += 1
        subject = self.load_adapter(form)
        callee = subject.callee
        assert isinstance(callee, Hosted)  # it was loaded there
        arrays, given, lays = _lay_out(problem, subject.declaration)
        keywords = {name: getattr(problem, name) for name in problem.keywords - {"mask", "bias"}}
        arrays, given = subject.hand_over(arrays, {**given, **keywords}, lays)
        try:
            whole = callee.call_whole(Call(arrays, given, problem.dtype, ()))
        except SubjectRaised as raised:
            self.keep_attempt(Attempt(form, Progress.RAISED, _describe_raised(raised)))
            return None
        except SubjectDied as died:
            self._note_death(form, died)
            return None
        return None if whole.type_name == "NoneType" else whole

    def call_born(self, form: CallForm) -> ReturnedTree | None:
        """Returns the parameters of an unfilled layer; it is called once for each construction."""
        text = write_source(form)
        if text not in self._born_trees:
            self._born_trees[text] = self.call_raw(form, plain_problem(form))
        return self._born_trees[text]

    def _note_death(self, form: CallForm, died: SubjectDied) -> None:
        """Keeps a death as an attempt. Raises TargetError after too many, or for a timeout."""
        self.death_count += 1
        if died.verdict is Verdict.TIMED_OUT:
            raise TargetError(f"{died}. It was given this form: {describe_call(form)}.")
        if self.death_count >= MOST_DEATHS:
            last = (died.stderr.strip().splitlines() or [""])[-1]
            raise TargetError(f"the process died{str(died).removeprefix(DIED_REASON)} in "
                              f"{self.death_count} of {self.tried_count} forms that were "
                              f"tried{last and f': {last}'}")
        self.keep_attempt(Attempt(form, Progress.RAISED, str(died)))

    def find_outputs(self, form: CallForm, returned: ReturnedTree, problem: AnyProblem,
                     shape: tuple[int, ...]) -> list[ReadOutput]:
        """Lists every array that some layout brings into this shape, and so may be the output."""
        backs = [each for each in OUTPUT_LAYOUTS[form.kind] if each.shape == EQUAL_LENGTHS_SHAPE or not form.is_packed]
        found = [ReadOutput(OutputPlace("".join(path), PACKED_LAYOUT if form.is_packed else back), output)
                 for path, array in _list_float_arrays(returned) for back in backs
                 if (output := _bring_back(back, array, problem)) is not None and output.shape == shape]
        if not found:
            shapes = " and ".join(str(part.shape) for part in _list_shallow_arrays(returned))
            self.keep_attempt(Attempt(form, Progress.NO_OUTPUT, "it returns "
                                                                f"{shapes or returned.type_name}, "
                                                                "of which nothing can be read as "
                                                                f"{shape}"))
        return found

    def find_weights(self, returned: ReturnedTree, problem: AnyProblem, *,
                     are_weights: bool = True) -> Iterator[tuple[str, OutputLayout, LimitValues]]:
        """Finds weights in what came back: their path, the layout, and a limit. are_weights:
        whether their rows have to sum to 1, as those of logits do not.
        """
        sizes = problem.sizes
        shapes: Mapping[tuple[int, ...], LimitValues] = {
            (sizes.B, sizes.H, sizes.T, sizes.S): {}, (sizes.B, sizes.T, sizes.S): {"weights": "averaged"}}
        for path, array in _list_float_arrays(returned):
            for back in WEIGHTS_LAYOUTS:
                found = _bring_back(back, array, problem)
                if found is None or found.shape not in shapes:
                    continue
                if not are_weights or np.allclose(found.sum(axis=-1), 1, atol=2.0**-5):
                    yield "".join(path), back, shapes[found.shape]

    def find_log_sum_exps(self, returned: ReturnedTree,
                          problem: AnyProblem) -> Iterator[tuple[str, OutputLayout, Array]]:
        """Finds arrays like log-sum-exps: their path, the layout, and the array (B,H,T)."""
        sizes = problem.sizes
        for path, array in _list_float_arrays(returned):
            for back in LSE_LAYOUTS:
                found = _bring_back(back, array, problem)
                if found is not None and found.shape == (sizes.B, sizes.H, sizes.T):
                    yield "".join(path), back, found

    def answer(self, form: CallForm, problem: AnyProblem) -> SubjectAnswer | None:
        """Returns the adapter's answer; None if it is not usable, which is kept as an attempt."""
        self.tried_count += 1
        subject = self.load_adapter(form)
        try:
            return subject.answer(problem)
        except SubjectRaised as raised:
            names = "|".join(re.escape(each.parameter) for each in form.bindings if each.parameter)
            is_named = bool(names) and raised.is_stated and bool(re.search(rf"\b({names})\b", raised.statement))
            is_refusal = is_named or bool(refusal_words(raised, problem, home=form.module.partition(".")[0]))
            self.keep_attempt(Attempt(form, Progress.RAISED, _describe_raised(raised), is_refusal=is_refusal))
        except SubjectDied as died:
            self._note_death(form, died)
        except (UnusableAnswer, ValueError) as refused:
            self.keep_attempt(Attempt(form, Progress.NO_OUTPUT, str(refused)))
        return None

    def is_right(self, form: CallForm, problem: AnyProblem, scale: float | None = None) -> bool:
        """Says whether a form answers as the definition does, under one convention or another.
        Rows that see no key are left out.  scale: that of what a layer computes, where attention
        itself is put to it.
        """
        answer = self.answer(form, problem)
        if answer is None:
            return False
        meant = problem if scale is None else problem.but(scale=scale)
        output = answer.output.astype(np.float64)
        known = [truth for each in _list_meanings(form, meant)
                 for truth in list_expected(each, form.default_scale, form.mistake)]
        if min(truth.gap(output)[0] for truth in known) <= tolerance_of(problem.dtype):
            return True
        told = f"its output is {known[0].gap(output)[1]}"
        self.keep_attempt(Attempt(form, Progress.OTHER_NUMBERS, told, measure_unlikeness(known[0], output)))
        return False

    def find_wrong(self, form: CallForm, problem: AnyProblem,
                   scale: float | None = None) -> Attempt | None:
        """Forgets the nearest attempt, and returns how a form fails at a problem, if it does."""
        self.nearest = None
        return None if self.is_right(form, problem, scale) else self.nearest

    def keep_mistaken(self, form: CallForm, problem: AnyProblem,
                      outputs: list[ReadOutput]) -> None:
        """Keeps the form, or its causal form, if a plain mistake explains one of its outputs."""
        for known, posed in ((form, problem), (form.made_always_causal, problem.but(causal=True))):
            for name, told in self._find_mistakes(posed):
                for output in outputs:
                    if told.gap(output.array)[0] <= tolerance_of(problem.dtype):
                        self._keep_mistake(replace(known, reading=output.reading, mistake=name))

    def _find_mistakes(self, problem: AnyProblem) -> Sequence[tuple[str, Expected]]:
        """Returns `expected_mistakes`, computed once for each of the few problems of a search."""
        arrays = problem.params if isinstance(problem, LayerProblem) else {}
        inputs = (problem.query, problem.key, problem.value, *arrays.values())
        told = (problem.dtype, problem.sizes, problem.causal, *arrays,
                *(array.tobytes() for array in inputs))
        if told not in self._known_mistakes:
            self._known_mistakes[told] = tuple(expected_mistakes(problem))
        return self._known_mistakes[told]

    def explain(self, form: CallForm, problem: AnyProblem, scale: float | None = None) -> str:
        """Names the plain mistake that explains a form's answer.  scale: see `is_right`."""
        answer = self.answer(form, problem)
        posed = problem if scale is None else problem.but(scale=scale)
        if answer is None:
            return ""
        output = answer.output.astype(np.float64)
        return next((MISTAKES[name].says for name, told in expected_mistakes(posed)
                     if told.gap(output)[0] <= tolerance_of(problem.dtype)), "")

    def _keep_mistake(self, form: CallForm) -> None:
        """Keeps a form whose mistake explains two problems, unless as plain a one is known."""
        ranks = list(MISTAKES)
        if any(ranks.index(each.mistake) <= ranks.index(form.mistake) for each in self.mistaken_forms):
            return
        if self.is_right(form, plain_problem(form)):
            self.mistaken_forms.insert(0, form)

    def keep_attempt(self, attempt: Attempt) -> None:
        """Keeps an attempt if it is nearer than all before."""
        self.asks_contiguous |= attempt.progress is Progress.RAISED and "contiguous" in attempt.objection
        if self.nearest is None or attempt.nearness > self.nearest.nearness:
            self.nearest = attempt


def _list_meanings(form: CallForm, problem: AnyProblem) -> tuple[AnyProblem, ...]:
    """Lists what a problem may mean to a form: if always causal, a mask may replace the flag."""
    is_either = form.is_always_causal and {"mask", "causal"} <= problem.keywords
    return (problem, problem.but(causal=False)) if is_either else (problem,)


def _describe_raised(raised: SubjectRaised) -> str:
    """Describes an exception, with the condition of an `assert` that has no message."""
    if raised.is_mute and raised.says_why:
        return f"it raises {raised} ({raised.statement})"
    words = str(raised).partition(": ")[2]
    rest = raised.traceback.rpartition(words)[2].splitlines() if words.endswith((":", "().")) else []
    second = next((line for each in rest if (line := _COLOUR_CODES.sub("", each).strip())), "")
    return f"it raises {raised}{second and f' {second}'}"


def _list_form_refusals(form: CallForm) -> tuple[Refusal, ...]:
    """Lists the sizes that a form does not take."""
    squares = ", ".join(str(side**2) for side in range(1, _LARGEST_SIDE + 1))
    refusals = (
        (f"H ≠ {form.fixed_heads}", form.fixed_heads), ("Hkv ≠ 1", form.one_kv_head),
        ("H < 2", form.needs_several_heads), ("D % 2 ≠ 0", form.even_heads),
        ("Dv % 2 ≠ 0", form.even_heads),
        ("mask with T ≠ S", form.mask_of_squares), (f"T not in ({squares})", form.takes_squares),
        ("T ≠ 1", form.takes_one_query), ("query_segments with T ≠ S", form.limits.get("segments_are_shared")))
    return tuple(read_refusal(text) for text, is_refused in refusals if is_refused)


def _list_shallow_arrays(returned: ReturnedTree) -> Iterator[ReturnedArray]:
    """Lists the arrays that are not deep inside."""
    return (part for part in returned.parts if len(part.path) <= _DEEPEST_OUTPUT)


def _list_float_arrays(returned: ReturnedTree) -> Iterator[tuple[tuple[str, ...], Array]]:
    """Lists path and array of all floats that came back, of any shape, as float64."""
    return ((part.path, part.array.astype(np.float64)) for part in _list_shallow_arrays(returned)
            if part.array is not None)


def _lay_out(problem: AnyProblem, declared: Declaration) -> tuple[Mapping[str, Array], Mapping[str, object], Lays]:
    """Lays out query (B,H,T,D), key and value for the adapter, with what is passed beside them."""
    arrays = {name: getattr(problem, name) for name in ARRAY_NAMES}
    if TABLE in declared.given and isinstance(problem, Problem):
        multiple = declared.limits.page_multiple
        paged = in_pages(problem, USUAL_PAGES, multiple)
        return ({**arrays, "key": paged.key, "value": paged.value}, paged.given_arguments,
                laid_in_pages(problem, USUAL_PAGES, multiple))
    if declared.form is Layout.PACKED and isinstance(problem, Problem):
        packed = pack(problem, declared.given)
        return {"query": packed.query, "key": packed.key, "value": packed.value}, packed.given_arguments, packed.lays
    return arrays, list_layer_arguments(problem), DENSE


def list_layer_arguments(problem: AnyProblem) -> Mapping[str, object]:
    """Returns what a layer is passed beside its inputs; nothing for attention."""
    return {"params": problem.params, "heads": problem.heads} if isinstance(problem, LayerProblem) else {}


def _bring_back(back: OutputLayout, array: Array, problem: AnyProblem) -> Array | None:
    """Brings an array into our layout, such as (B,H,T,Dv); None where its shape differs."""
    sizes = problem.sizes
    out = problem.params.get("w_out") if isinstance(problem, LayerProblem) else None
    width = sizes.H * sizes.Dv if out is None else int(out.shape[1])  # of a layer that projects its output
    lengths = {"B": sizes.B, "H": sizes.H, "T": sizes.T, "S": sizes.S, "D": sizes.Dv, "M": width}
    if array.shape != back.lengths(lengths):
        return None
    return np.asarray(eval(back.text.format("output"), {"output": array, **lengths}))
