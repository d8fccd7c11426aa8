"""Whether a form is right: its adapter is written, loaded, and put problems whose answers tell the forms apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from attnspec.forms.form import Form
from attnspec.forms.source import ADAPTER, source
from attnspec.ground.errors import TargetError
from attnspec.ground.nouns import DType, Kind
from attnspec.numerics.layer import concat, lowered
from attnspec.numerics.reference import attend, operands_of
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes, numpy_dtype
from attnspec.subjects.subject import Subject, SubjectRaised, UnusableAnswer
from attnspec.subjects.target import load_bare

CLOSE = 2.0**-8
"""What tells one form from another: far above a float32's rounding here, far below what a wrong layout moves."""

SIZES = Sizes(2, 2, 2, 3, 5, 4, 4)
SELF = Sizes(2, 2, 2, 4, 4, 4, 4)
GROUPED = Sizes(2, 4, 2, 3, 5, 4, 4)

SCALES: Mapping[str, Callable[[Sizes], float]] = {
    "1": lambda _: 1.0, "1/D": lambda sizes: 1 / sizes.D, "1/sqrt(H*D)": lambda sizes: 1 / math.sqrt(sizes.H * sizes.D)}
"""Scales, other than 1/sqrt(D), that a library may have where none is given."""

_WAYS: tuple[Mapping[str, str], ...] = tuple(
    {"causal_alignment": alignment, "grouped_heads": heads}
    for alignment, heads in itertools.product(("top_left", "bottom_right"), ("repeat", "tile")))


@dataclass(slots=True)
class Trier:
    """Writes adapters into a folder of its own and asks them. `seen`: what the last one that failed said."""

    folder: Path
    seen: str = ""
    _numbers: Iterable[int] = field(default_factory=itertools.count)

    def subject(self, form: Form) -> Subject:
        """The adapter of the form, loaded. Raises TargetError."""
        path = self.folder / f"adapter_{next(iter(self._numbers))}.py"
        path.write_text(source(form), encoding="utf-8")
        return load_bare(f"{path}:{ADAPTER}", lift=form.lift)

    def output(self, form: Form, problem: Problem | LayerProblem) -> Array | None:
        """What comes back, as float64; None if nothing usable does, and then `seen` says what happened."""
        try:
            subject = self.subject(form)
            answer = (subject.answer_layer(problem) if isinstance(problem, LayerProblem)
                      else subject.answer(problem))
        except (SubjectRaised, UnusableAnswer, TargetError) as refused:
            self.seen = str(refused)
            return None
        return np.asarray(answer.output.astype(np.float64))

    def is_right(self, form: Form, problem: Problem | LayerProblem) -> bool:
        """Whether it answers as the definition does, under one convention or another; rows that see nothing aside."""
        output = self.output(form, problem)
        if output is None:
            return False
        scale = SCALES[form.default_scale](problem.sizes) if form.default_scale else None
        is_close = any(_fits(output, problem, conventions, scale) for conventions in _WAYS)
        self.seen = self.seen if is_close else "its numbers are not those of attention"
        return is_close


def _fits(output: Array, problem: Problem | LayerProblem, conventions: Mapping[str, str], scale: float | None) -> bool:
    inner = lowered(problem) if isinstance(problem, LayerProblem) else problem
    inner = inner.but(scale=scale) if inner.scale is None else inner
    operands = operands_of(inner, conventions, None, None)
    truth, sees = np.asarray(attend(operands, np.float64).output), np.asarray(operands.counts > 0)
    if isinstance(problem, LayerProblem):
        bias = problem.params.get("b_out", 0)
        truth, sees = concat(truth) @ problem.params["w_out"] + bias, np.asarray(sees.all(axis=1))
    return output.shape == truth.shape and bool(np.allclose(output[sees], truth[sees], rtol=0, atol=CLOSE))


def problem_of(kind: Kind, sizes: Sizes, dtype: DType = DType.FLOAT32) -> Problem | LayerProblem:
    """Entries without structure, each axis of its own length where the sizes say so."""
    draw, number = np.random.RandomState(1), numpy_dtype(dtype)

    def entries(*shape: int) -> Array:
        return draw.standard_normal(shape).astype(number)

    if kind is Kind.ATTENTION:
        query, key = entries(sizes.B, sizes.H, sizes.T, sizes.D), entries(sizes.B, sizes.Hkv, sizes.S, sizes.D)
        return Problem(dtype, query, key, entries(sizes.B, sizes.Hkv, sizes.S, sizes.Dv))
    M = sizes.H * sizes.D
    query = entries(sizes.B, sizes.T, M)
    same = sizes == SELF
    key = query if same else entries(sizes.B, sizes.S, M)
    params = {f"w_{name}": entries(M, M) / 2 for name in ("query", "key", "value", "out")}
    params |= {f"b_{name}": entries(M) for name in ("query", "key", "value", "out")}
    return LayerProblem(dtype, query, key, query if same else entries(sizes.B, sizes.S, M), params, sizes.H, sizes.Hkv)


def mask_of(sizes: Sizes) -> Array:
    """(B,H,T,S), another one for each head and batch entry; every query sees a key."""
    mask: Array = np.random.RandomState(2).random_sample((sizes.B, sizes.H, sizes.T, sizes.S)) < 0.5
    mask[..., 0] |= ~mask.any(axis=-1)
    return mask


def bias_of(sizes: Sizes) -> Array:
    """(B,H,T,S) float32, large enough to be seen."""
    bias: Array = np.random.RandomState(3).standard_normal((sizes.B, sizes.H, sizes.T, sizes.S)).astype(np.float32)
    return bias * 2
