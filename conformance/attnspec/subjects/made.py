"""Variants that attnspec makes itself: a subject whose framework makes something else of its function first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.core.declaration import Declaration
from attnspec.core.forms import InputForm as Layout
from attnspec.core.keywords import AXES
from attnspec.core.made_variants import called_there
from attnspec.core.nouns import Kind
from attnspec.host.lifts.making import FormNotMade, FrameworkForm
from attnspec.problems.problem import Array
from attnspec.subjects.call import Call, SubjectAnswer
from attnspec.subjects.callee import Callee
from attnspec.subjects.subject import Subject


@dataclass(frozen=True, slots=True)
class VariantCallee:
    """A callee of whose function another form is called. name: what makes that form."""

    callee: Callee
    form: str
    name: str

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """The answer of the form; rows (T,). Raises FormNotMade, in the framework's words, where there is none."""
        try:
            return self.callee.perform(replace(call, form=FrameworkForm(self.form, tuple(_mapped(call)))), rows)
        except FormNotMade as refused:
            raise FormNotMade(f"{self.name} refuses it ({refused})") from None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)


def _mapped(call: Call) -> Iterator[str]:
    """The arguments, any shape, that have an entry for each of the batch along their first axis."""
    yield from call.arrays
    entries = call.arrays["query"].shape[0]
    for name, value in call.keywords.items():
        axes, shape = AXES.get(name, ""), np.shape(value) if isinstance(value, np.ndarray) else ()
        if axes.startswith("B") and len(axes) == len(shape) and shape[0] == entries:
            yield name


def with_made(subject: Subject, forms: Iterable[str]) -> Subject:
    """The subject with these forms of its function, if its framework can be asked for them."""
    declared = subject.declaration
    if no_form_of(declared):
        return subject
    made = {form: _make_form(subject, form, called_there(form, declared.lift)) for form in sorted(forms)}
    return replace(subject, made=made)


def _make_form(subject: Subject, form: str, name: str) -> Subject:
    return replace(subject.with_gradients, id=f"{subject.id}[{name}]", callee=VariantCallee(subject.callee, form, name),
                   variants={}, backward=None)


def no_form_of(declaration: Declaration) -> str:
    """Why no other form is made of what is declared so; empty if one is."""
    if not declaration.lift:
        return "it takes NumPy arrays, of whose functions no framework makes another form"
    if declaration.form is not Layout.DENSE or declaration.kind is Kind.ROTARY:
        return "other forms are made of attention in the usual layout alone"
    return ""
