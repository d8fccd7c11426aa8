"""Whether a form is right: its adapter is written, loaded, and put problems whose answers tell."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.host import said
from attnspec.host.serving import lift_named
from attnspec.problems.problem import Array, LayerProblem
from attnspec.scaffold.arrangements import BACKS, WEIGHTS, OutputLayout
from attnspec.scaffold.form import Form, OutputPlace
from attnspec.scaffold.parameters.trees import arrays_in, shape_of
from attnspec.scaffold.probe_problems import AnyProblem, close, truths, unlike
from attnspec.scaffold.writing.lines import ARRAYS
from attnspec.scaffold.writing.source import ADAPTER, source
from attnspec.subjects.call import array_of, entries_of
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Answer, Subject, SubjectRaised, UnusableAnswer
from attnspec.subjects.target import load_bare, offered

Limited = Mapping[str, bool | int | str]
_FLOATS = frozenset(dtype.value for dtype in DType)


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
    """A form that is not right: how far it came, what stood against it, and how unlike the truth its output is."""

    form: Form
    step: Progress
    against: str
    unlike: float = 0.0

    @property
    def nearness(self) -> tuple[int, float]:
        """Greater is nearer."""
        return self.step, -self.unlike


@dataclass(slots=True)
class Trier:
    """Writes adapters into a folder of its own and asks them. tried: how many.  nearest: of those not right."""

    folder: Path
    tried: int = 0
    nearest: Attempt | None = None
    _loaded: dict[str, Subject] = field(default_factory=dict)

    def subject(self, form: Form) -> Subject:
        """The adapter of the form, loaded. Raises TargetError."""
        subject = self._of(source(form), form.lift)
        limits = Limits(**form.limits)  # type: ignore[arg-type]  # by name, each of its own type
        declaration = replace(subject.declaration, limits=limits)
        return replace(subject, declaration=replace(declaration, keywords=offered(declaration)))

    def _of(self, text: str, lift: str) -> Subject:
        """The module with this text, loaded once: what a framework compiles for it is kept."""
        if text not in self._loaded:
            path = self.folder / f"adapter_{len(self._loaded)}.py"
            path.write_text(text, encoding="utf-8")
            self._loaded[text] = load_bare(f"{path}:{ADAPTER}", lift=lift)
        return self._loaded[text]

    def returned(self, form: Form, problem: AnyProblem) -> object:
        """What the callee itself returns; None where it raises, and then the attempt is kept."""
        self.tried += 1
        subject = self.subject(form)
        assert isinstance(subject.callee, InProcess)  # what it returns may be anything, and is looked at here
        lift = lift_named(subject.callee.lift)
        with lift.around(problem.dtype.value), said.kept():
            arrays = [lift.hand(entries_of(getattr(problem, name).copy())) for name in ARRAYS]
            more = {**_layered(lift, problem), **_keywords(problem)}
            try:
                return subject.callee.function(*arrays, **more)
            except (Exception, SystemExit) as raised:  # whatever somebody's code may raise
                self.keep(Attempt(form, Progress.RAISED, f"it raises {_summary(raised)}"))
                return None

    def outputs(self, form: Form, returned: object, problem: AnyProblem, shape: tuple[int, ...]) -> list[Output]:
        """What in what came back may be the output: every array that some way back brings into this shape."""
        found = [Output(OutputPlace("".join(path), back), output) for path, array in self._arrays(form, returned)
                 for back in BACKS[form.kind] if (output := _way_back(back, array, problem)) is not None
                 and output.shape == shape]
        if not found:
            shapes = " and ".join(str(shape_of(array)) for _, array in arrays_in(returned, 2))
            self.keep(Attempt(form, Progress.NO_OUTPUT, f"it returns {shapes or type(returned).__name__}, "
                                                        f"of which nothing can be read as {shape}"))
        return found

    def weights(self, form: Form, returned: object, problem: AnyProblem) -> Iterator[tuple[str, OutputLayout, Limited]]:
        """Where in what came back weights are, if they are somewhere: the path, the way back, and a limit of theirs.

        Weights and not logits: their rows sum to 1.
        """
        sizes = problem.sizes
        shapes: Mapping[tuple[int, ...], Limited] = {
            (sizes.B, sizes.H, sizes.T, sizes.S): {}, (sizes.B, sizes.T, sizes.S): {"weights": "averaged"}}
        for path, array in self._arrays(form, returned):
            for back in WEIGHTS:
                found = _way_back(back, array, problem)
                if found is not None and found.shape in shapes and np.allclose(found.sum(axis=-1), 1, atol=2.0**-5):
                    yield "".join(path), back, shapes[found.shape]

    def _arrays(self, form: Form, returned: object) -> Iterator[tuple[tuple[str, ...], Array]]:
        """Path and array of all floats that came back, of any shape, such as (B,H,T,Dv); read as float64."""
        lift = lift_named(form.lift)
        for path, array in arrays_in(returned, 2):
            with contextlib.suppress(TypeError, ValueError, RuntimeError):
                read = array_of(lift.read(array))
                if read.dtype.name in _FLOATS:
                    yield path, read.astype(np.float64)

    def answer(self, form: Form, problem: AnyProblem) -> Answer | None:
        """What the written adapter answers; None if nothing usable, and then the attempt is kept."""
        self.tried += 1
        subject = self.subject(form)
        try:
            return subject.answer_layer(problem) if isinstance(problem, LayerProblem) else subject.answer(problem)
        except SubjectRaised as raised:
            self.keep(Attempt(form, Progress.RAISED, f"it raises {raised}"))
        except (UnusableAnswer, ValueError) as refused:
            self.keep(Attempt(form, Progress.NO_OUTPUT, str(refused)))
        return None

    def is_right(self, form: Form, problem: AnyProblem) -> bool:
        """Whether it answers as the definition does, under one convention or another; rows that see nothing aside."""
        answer = self.answer(form, problem)
        if answer is None:
            return False
        output, known = answer.output.astype(np.float64), list(truths(problem, form.default_scale))
        if min(truth.gap(output)[0] for truth in known) <= close(problem.dtype):
            return True
        told = f"its output is {known[0].gap(output)[1]}"
        self.keep(Attempt(form, Progress.OTHER_NUMBERS, told, unlike(known[0], output)))
        return False

    def keep(self, attempt: Attempt) -> None:
        """Remember it if it is nearer than all before."""
        if self.nearest is None or attempt.nearness > self.nearest.nearness:
            self.nearest = attempt


def _layered(lift: Any, problem: AnyProblem) -> Mapping[str, object]:  # noqa: ANN401  (a lift of the host)
    if not isinstance(problem, LayerProblem):
        return {}
    return {"params": {name: lift.hand(entries_of(array.copy())) for name, array in problem.params.items()},
            "heads": problem.heads}


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


def _summary(raised: BaseException) -> str:
    """The exception's type and the first line of what it says."""
    said = str(raised).strip().partition("\n")[0]
    return f"{type(raised).__name__}: {said}" if said else type(raised).__name__
