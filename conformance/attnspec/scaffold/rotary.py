"""What `init` writes for a rotary embedding: how x lies, which parameter is what, and which features are a pair."""

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
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.layers import lifts_of
from attnspec.scaffold.lookup import TheirParameter, plain
from attnspec.scaffold.manifest import names_of
from attnspec.scaffold.probe_problems import close
from attnspec.scaffold.there import There
from attnspec.scaffold.writing.imports import alias, import_lines
from attnspec.scaffold.writing.lines import blocks, broken, names_in, words_of, wrapped
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer

NAME = "rotate"
LAYOUTS: Mapping[str, str] = {"(B,H,T,D)": "{0}", "(B,T,H,D)": "{0}.swapaxes(1, 2)"}
"""How x may lie, and how ours is brought there and back."""
EXPRESSIONS: Mapping[str, tuple[str, ...]] = {
    "base": ("base",), "interleaved": ("interleaved", "not interleaved"),
    "rotary_width": ("rotary_width", "x.shape[-1] if rotary_width is None else rotary_width")}
"""By keyword, what their parameter may be given."""
_DEFAULTS: Mapping[str, str] = {"base": repr(DEFAULT_BASE), "interleaved": "False", "rotary_width": "None"}
_POSED: Mapping[str, Any] = {"base": 500.0, "interleaved": True, "rotary_width": 4}


@dataclass(frozen=True, slots=True)
class RotaryForm:
    """How a rotary embedding is called. call: target and framework.  layout: of x.  positions: their name for it.

    passed: by keyword, their parameter and what it is given.  pairs: the convention, where no parameter says it.
    """

    call: CallForm
    positions: str
    layout: str = "(B,H,T,D)"
    passed: tuple[tuple[str, str, str], ...] = ()
    pairs: str = ""

    @property
    def keywords(self) -> tuple[str, ...]:
        """Ours that it understands."""
        return tuple(keyword for keyword, _, _ in self.passed)


def is_rotary(callee: Examined) -> bool:
    """Whether its second parameter has one of the names that positions go by."""
    second = callee.parameters[1:2]
    return not callee.is_class and any(plain(each.name) in ROTARY[POSITIONS].parameters for each in second)


def rotary_of(callee: Examined, there: There) -> RotaryForm:
    """How a rotary embedding is called. Raises TargetError where it answers rightly in no form."""
    form = next((form for form in _forms(callee, there) if form is not None), None)
    if form is None:
        raise TargetError(f"{callee.target} looks like a rotary embedding, since its second parameter is "
                          f"{callee.parameters[1].name!r}; but it turns no pairs of features by x (B,H,T,D) or "
                          "(B,T,H,D) and positions (B,T). Write its adapter by hand: docs/writing-an-adapter.md.")
    return form


def _forms(callee: Examined, there: There) -> Iterator[RotaryForm | None]:
    """Every layout in every framework: the form with all keywords that it was seen to understand, or None."""
    rest = callee.parameters[2:]
    needed = [each.name for each in rest if each.is_required]
    for lift in lifts_of(callee, there):
        for layout in LAYOUTS:
            plainest = RotaryForm(CallForm(callee.target, lift=lift), callee.parameters[1].name, layout)
            yield next((learned for begun in _with_needed(plainest, rest, needed)
                        if (learned := _learned(begun, rest, there)) is not None), None)


def _with_needed(form: RotaryForm, rest: tuple[TheirParameter, ...], needed: list[str]) -> Iterator[RotaryForm]:
    """The form in every way to give the parameters without which it cannot be called; none if one is unknown."""
    forms = [form]
    for parameter in (each for each in rest if each.name in needed):
        forms = [each for begun in forms for each in _passing(begun, parameter)]
    yield from forms


def _passing(form: RotaryForm, parameter: TheirParameter) -> Iterator[RotaryForm]:
    """The form with one parameter more, in every way in which it may be given."""
    for keyword, expressions in EXPRESSIONS.items():
        if plain(parameter.name) in ROTARY[keyword].parameters and keyword not in form.keywords:
            for expression in expressions:
                yield replace(form, passed=(*form.passed, (keyword, parameter.name, expression)))


def _learned(form: RotaryForm, rest: tuple[TheirParameter, ...], there: There) -> RotaryForm | None:
    """The form with all parameters that it is right with; None if it is right in neither kind of pairs."""
    for parameter in rest:
        if parameter.name not in {name for _, name, _ in form.passed}:
            more = (each for each in _passing(form, parameter) if _pairs_of(each, there) is not None)
            form = next(more, form)
    pairs = _pairs_of(form, there)
    return None if pairs is None else replace(form, pairs=pairs)


def _pairs_of(form: RotaryForm, there: There) -> str | None:
    """The convention with which it is right, "" where a keyword says it; None where it is right with none."""
    if "interleaved" in form.keywords:
        return "" if _is_right(form, there) else None
    known = (replace(form, pairs=pairs) for pairs in ("halves", "interleaved"))
    return next((each.pairs for each in known if _is_right(each, there)), None)


def _is_right(form: RotaryForm, there: There, dtype: DType = DType.FLOAT32) -> bool:
    """Whether it answers as the definition does: alone, and with each of its keywords."""
    subject = there.written(source(form), NAME, form.call.lift)
    for problem in _problems(form, dtype):
        truth = expect_rotary(problem, assumed_precision(dtype), conventions={ROTARY_PAIRS: form.pairs}).output
        try:
            output = subject.answer_rotary(problem).output.astype(np.float64)
        except (SubjectRaised, SubjectDied, UnusableAnswer, ValueError):
            return False
        if not np.abs(output - truth).max() <= close(dtype):
            return False
    return True


def _problems(form: RotaryForm, dtype: DType) -> Iterator[RotaryProblem]:
    draw = np.random.RandomState(1)
    x = draw.standard_normal((2, 4, 3, 8)).astype(numpy_dtype(dtype))
    plainest = RotaryProblem(dtype, x, np.array([[3, 0, 7], [1, 5, 2]], np.int32))
    yield plainest
    yield from (plainest.but(**{keyword: _POSED[keyword]}) for keyword in form.keywords)


def source(form: RotaryForm, folder: str = "") -> str:
    """The whole module. Its function is called `rotate`. folder: what it is imported from, seen from the adapter's."""
    array, into = words_of(form.call).array, LAYOUTS[form.layout]
    types = {keyword: ROTARY[keyword].annotation for keyword in form.keywords}
    typed = [f"{name}: {types[name]} = {_DEFAULTS[name]}" for name in types]
    signature = [f"x: {array}", f"positions: {array}", *(["*", *typed] if typed else [])]
    given = [into.format("x"), f"{form.positions}=positions", *(f"{name}={text}" for _, name, text in form.passed)]
    end = into.format(")") if "swapaxes" in into else ")"
    lines = [*broken(f"def {NAME}(", signature, f") -> {array}:", 0),
             '    """x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""',
             *broken(f"return {alias(form.call)}(", given, end)]
    start = [f'"""`{form.call.module}.{form.call.name}` for attnspec.', "",
             "Written by `attnspec init`: read it, and fix what is wrong. Found by trying:",
             *(line for sentence in told(form) for line in wrapped(f"- {sentence}", hanging=2)), '"""']
    top = blocks([start, *import_lines(form.call, names_in(*lines), folder)], between=1)
    return "\n".join(blocks([top, lines])) + "\n"


def told(form: RotaryForm) -> Iterator[str]:
    """One sentence a fact."""
    yield f"It is a rotary embedding. It takes x {form.layout}, and positions (B,T) as {form.positions}."
    for keyword, parameter, expression in form.passed:
        yield f"`{keyword}` is its {parameter}" + ("." if expression == keyword else f", given {expression}.")
    if form.pairs:
        yield f"Pairs are {form.pairs}: {CONVENTIONS[ROTARY_PAIRS].answers[form.pairs]}."


def entry(form: RotaryForm, there: There) -> str:
    """The part of the manifest that speaks of the subject."""
    return "\n".join(_entry(form, [dtype for dtype in DType if _is_right(form, there, dtype)])) + "\n"


def _entry(form: RotaryForm, dtypes: list[DType]) -> Iterator[str]:
    name = names_of(form.call)[1]
    yield from (f"  - id: {name}", f"    title: {form.call.module}.{form.call.name}", f"    function: {name}:{NAME}",
                "    kind: rotary")
    yield from ((f"    lift: {form.call.lift}",) if form.call.lift else ())
    yield f"    dtypes: [{', '.join(dtype.value for dtype in dtypes)}]"
    yield f"    claims: [{ROTARY_PROFILE}]"
    yield from ((f"    conventions: {{{ROTARY_PAIRS}: {form.pairs}}}",) if form.pairs else ())
