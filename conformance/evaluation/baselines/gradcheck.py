"""PyTorch's gradcheck: the Jacobian of a backward pass, against differences of the subject's own forward pass."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from attnspec.problems.problem import Array, Problem
from attnspec.subjects.subject import Subject

from evaluation.baselines.gradient_suites import GradientCase
from evaluation.baselines.rules import differs_beyond

EPS, ATOL, RTOL = 1e-6, 1e-5, 1e-3
"""The defaults of torch.autograd.gradcheck: half the step of a difference, and its tolerances."""

Row = Mapping[str, Array]  # of a Jacobian, by the names of the inputs, in their shapes


def fails_gradcheck(subject: Subject, case: GradientCase) -> bool:
    """Whether a Jacobian is beyond the tolerances, or another the second time, or zeros do not lead to zeros."""
    problem = case.posed.problem
    if any(gradient.any() for gradient in subject.answer(problem).by_input.values()):
        return True
    first = tuple(_analytical(subject, problem))
    names = [name for name in case.factors if getattr(problem, name) is not None]
    if any(_is_beyond(subject, problem, name, first) for name in names):
        return True
    return any(not np.array_equal(before[name], again[name])
               for before, again in zip(first, _analytical(subject, problem), strict=True) for name in names)


def _is_beyond(subject: Subject, problem: Problem, name: str, rows: Sequence[Row]) -> bool:
    """Whether the Jacobian of one input is beyond the tolerances from central differences of the forward pass."""
    differences = np.stack(list(_differences(subject, problem.but(grad_output=None), name)), axis=-1)
    return differs_beyond(np.stack([row[name].ravel() for row in rows]), differences, RTOL, ATOL)


def _analytical(subject: Subject, problem: Problem) -> Iterator[Row]:
    """The gradients of one entry of the output after the other."""
    assert problem.grad_output is not None
    for number in range(problem.grad_output.size):
        one = np.zeros_like(problem.grad_output)
        one.flat[number] = 1
        yield subject.answer(problem.but(grad_output=one)).by_input


def _differences(subject: Subject, problem: Problem, name: str) -> Iterator[Array]:
    """What one entry of an input after the other does to the output, (entries of the output,)."""
    array = getattr(problem, name)
    for number in range(array.size):
        up, down = (subject.answer(problem.but(**{name: _move_entry(array, number, by)})).output for by in (EPS, -EPS))
        yield (up - down).ravel() / (2 * EPS)


def _move_entry(array: Array, number: int, by: float) -> Array:
    """The array, of any shape, with one entry moved; it lies in memory as before."""
    moved = array.copy(order="K")
    moved.flat[number] += by
    return moved
