"""Finds how a rotary embedding is called, and writes its adapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.errors import TargetError
from attnspec.core.forms import DEFAULT_BASE, POSITIONS, ROTARY, ROTARY_PROFILE
from attnspec.core.nouns import DType
from attnspec.numerics.precision import assumed_precision
from attnspec.numerics.rotary import ROTARY_PAIRS, expect_rotary
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import numpy_dtype
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.function_forms import list_lifts
from attnspec.scaffold.lookup import TheirParameter, normalise_name
from attnspec.scaffold.manifest import name_adapter
from attnspec.scaffold.probe_problems import tolerance_of
from attnspec.scaffold.writing.lines import (
    break_call,
    find_alias,
    find_names,
    join_blocks,
    templates_of,
    wrap_text,
    write_imports,
)
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer

ROTATE_NAME = "rotate"
X_LAYOUTS: Mapping[str, str] = {"(B,H,T,D)": "{0}", "(B,T,H,D)": "{0}.swapaxes(1, 2)"}
"""By layout of x, the Python that brings ours there and back."""
PARAMETER_TEXTS: Mapping[str, tuple[str, ...]] = {
    "base": ("base",), "interleaved": ("interleaved", "not interleaved"),
    "rotary_width": ("rotary_width", "x.shape[-1] if rotary_width is None else rotary_width")}
"""By keyword, what their parameter may be given."""
_KEYWORD_DEFAULTS: Mapping[str, str] = {"base": repr(DEFAULT_BASE), "interleaved": "False",
                                        "rotary_width": "None"}
_POSED_VALUES: Mapping[str, Any] = {"base": 500.0, "interleaved": True, "rotary_width": 4}


@dataclass(frozen=True, slots=True)
class RotaryForm:
    """How a rotary embedding is called.

    call: target and framework. positions: their name for it. layout: of x. bindings: by keyword,
    their parameter and what it is given.  pairs: the convention, where no parameter says it.
    """

    call: CallForm
    positions: str
    layout: str = "(B,H,T,D)"
    bindings: tuple[tuple[str, str, str], ...] = ()
    pairs: str = ""

    @property
    def keywords(self) -> tuple[str, ...]:
        """Returns our keywords that it understands."""
        return tuple(keyword for keyword, _, _ in self.bindings)


def looks_rotary(callee: ExaminedCallable) -> bool:
    """Says whether its second parameter has a usual name of positions."""
    second = callee.parameters[1:2]
    return not callee.is_class and any(normalise_name(each.name) in ROTARY[POSITIONS].parameters for each in second)


def find_rotary_form(callee: ExaminedCallable, process: CalleeProcess) -> RotaryForm:
    """Finds how a rotary embedding is called. Raises TargetError where no form is right."""
    form = next((form for form in _list_rotary_forms(callee, process) if form is not None), None)
    if form is None:
        raise TargetError(f"{callee.target} looks like a rotary embedding, since its second "
                          f"parameter is {callee.parameters[1].name!r}; but it turns no pairs of "
                          "features by x (B,H,T,D) or (B,T,H,D) and positions (B,T). Write its "
                          "adapter by hand: docs/writing-an-adapter.md.")
    return form


def _list_rotary_forms(callee: ExaminedCallable, process: CalleeProcess) -> Iterator[RotaryForm | None]:
    """Lists, for every layout and framework, the form with its keywords, or None."""
    rest = callee.parameters[2:]
    needed = [each.name for each in rest if each.is_required]
    for lift in list_lifts(callee, process):
        for layout in X_LAYOUTS:
            plainest = RotaryForm(CallForm(callee.target, lift=lift), callee.parameters[1].name,
                                  layout)
            yield next((learned for begun in _give_required(plainest, rest, needed)
                        if (learned := _learn_parameters(begun, rest, process)) is not None), None)


def _give_required(form: RotaryForm, rest: tuple[TheirParameter, ...],
                   needed: list[str]) -> Iterator[RotaryForm]:
    """Lists the form in every way to give its required parameters; none if one is unknown."""
    forms = [form]
    for parameter in (each for each in rest if each.name in needed):
        forms = [each for begun in forms for each in _list_bindings(begun, parameter)]
    yield from forms


def _list_bindings(form: RotaryForm, parameter: TheirParameter) -> Iterator[RotaryForm]:
    """Lists the form with one more parameter, in every way in which it may be given."""
    for keyword, expressions in PARAMETER_TEXTS.items():
        if normalise_name(parameter.name) in ROTARY[keyword].parameters and keyword not in form.keywords:
            for expression in expressions:
                yield replace(form, bindings=(*form.bindings, (keyword, parameter.name, expression)))


def _learn_parameters(form: RotaryForm, rest: tuple[TheirParameter, ...],
                      process: CalleeProcess) -> RotaryForm | None:
    """Adds all parameters that it is right with; None if it is right in neither kind of pairs."""
    for parameter in rest:
        if parameter.name not in {name for _, name, _ in form.bindings}:
            more = (each for each in _list_bindings(form, parameter) if _find_pairs(each, process) is not None)
            form = next(more, form)
    pairs = _find_pairs(form, process)
    return None if pairs is None else replace(form, pairs=pairs)


def _find_pairs(form: RotaryForm, process: CalleeProcess) -> str | None:
    """Returns the convention with which it is right, "" where a keyword says it, or None."""
    if "interleaved" in form.keywords:
        return "" if _turns_rightly(form, process) else None
    known = (replace(form, pairs=pairs) for pairs in ("halves", "interleaved"))
    return next((each.pairs for each in known if _turns_rightly(each, process)), None)


def _turns_rightly(form: RotaryForm, process: CalleeProcess, dtype: DType = DType.FLOAT32) -> bool:
    """Says whether it answers as the definition does, alone and with each of its keywords."""
    subject = process.load_source(write_rotary(form), ROTATE_NAME, form.call.lift)
    for problem in _list_problems(form, dtype):
        truth = expect_rotary(problem, assumed_precision(dtype),
                              conventions={ROTARY_PAIRS: form.pairs}).output
        try:
            output = subject.answer(problem).output.astype(np.float64)
        except (SubjectRaised, SubjectDied, UnusableAnswer, ValueError):
            return False
        if not np.abs(output - truth).max() <= tolerance_of(dtype):
            return False
    return True


def _list_problems(form: RotaryForm, dtype: DType) -> Iterator[RotaryProblem]:
    draw = np.random.RandomState(1)
    x = draw.standard_normal((2, 4, 3, 8)).astype(numpy_dtype(dtype))
    plainest = RotaryProblem(dtype, x, np.array([[3, 0, 7], [1, 5, 2]], np.int32))
    yield plainest
    for keyword in form.keywords:
        yield plainest.but(**{keyword: _POSED_VALUES[keyword]})


def write_rotary(form: RotaryForm, folder: str = "") -> str:
    """Writes a module with a function `rotate`.  folder: what it imports from, seen from there."""
    array, into = templates_of(form.call).array_type, X_LAYOUTS[form.layout]
    types = {keyword: ROTARY[keyword].annotation for keyword in form.keywords}
    typed = [f"{name}: {types[name]} = {_KEYWORD_DEFAULTS[name]}" for name in types]
    signature = [f"x: {array}", f"positions: {array}", *(["*", *typed] if typed else [])]
    given = [into.format("x"), f"{form.positions}=positions",
             *(f"{name}={text}" for _, name, text in form.bindings)]
    end = into.format(")") if "swapaxes" in into else ")"
    lines = [*break_call(f"def {ROTATE_NAME}(", signature, f") -> {array}:", 0),
             '    """x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""',
             *break_call(f"return {find_alias(form.call)}(", given, end)]
    start = [f'"""`{form.call.module}.{form.call.name}` for attnspec.', "",
             "Written by `attnspec init`: read it, and fix what is wrong. Found by trying:",
             *(line for sentence in describe_rotary(form) for line in wrap_text(f"- {sentence}", hanging=2)),
             '"""']
    top = join_blocks([start, *write_imports(form.call, find_names(*lines), folder)], between=1)
    return "\n".join(join_blocks([top, lines])) + "\n"


def describe_rotary(form: RotaryForm) -> Iterator[str]:
    """Describes the form, one sentence a fact."""
    yield f"It is a rotary embedding. It takes x {form.layout}, and positions (B,T) as {form.positions}."
    for keyword, parameter, expression in form.bindings:
        yield f"`{keyword}` is its {parameter}" + ("." if expression == keyword else f", given {expression}.")
    if form.pairs:
        yield f"Pairs are {form.pairs}: {CONVENTIONS[ROTARY_PAIRS].answers[form.pairs]}."


def write_rotary_entry(form: RotaryForm, process: CalleeProcess) -> str:
    """Writes the part of the manifest on the subject."""
    return "\n".join(_list_rotary_lines(form,
                                        [dtype for dtype in DType if _turns_rightly(form, process, dtype)])) + "\n"


def _list_rotary_lines(form: RotaryForm, dtypes: list[DType]) -> Iterator[str]:
    name = name_adapter(form.call)[1]
    yield from (f"  - id: {name}", f"    title: {form.call.module}.{form.call.name}",
                f"    function: {name}:{ROTATE_NAME}", "    kind: rotary")
    if form.call.lift:
        yield f"    lift: {form.call.lift}"
    yield f"    dtypes: [{', '.join(dtype.value for dtype in dtypes)}]"
    yield f"    claims: [{ROTARY_PROFILE}]"
    if form.pairs:
        yield f"    conventions: {{{ROTARY_PAIRS}: {form.pairs}}}"
