"""A backward pass that stands beside a function: how it is called, and what the two are asked for together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from types import MappingProxyType

import numpy as np

from attnspec.core.declaration import Declaration, Limits
from attnspec.core.errors import FileLocation, TargetError
from attnspec.core.forms import InputForm
from attnspec.core.keyword import GRAD, LSE, OUTPUT, Acts
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Kind
from attnspec.numerics.gradients import BIAS, DIFFERENTIATED
from attnspec.problems.problem import INPUTS, Array, Problem, numpy_dtype
from attnspec.subjects.call import Call, SubjectAnswer, UnusableAnswer, of_input
from attnspec.subjects.signature import FunctionDescription, suggest_parameter

PARAMS = "params"
_FORMS = ("attend_backward(query, key, value, grad_output, *, ..., output=None, lse=None)",
          "layer_backward(query, key, value, grad_output, *, params, heads, ..., output=None)")
_GIVEN = (*INPUTS, GRAD)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_STARS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class BackwardPass:
    """name: of the function.  keywords: of attention, those that it takes, too.  wants: `output`, `lse`, as far as it
    has parameters for them.  where: its place; None where nobody knows it.
    """

    name: str
    keywords: frozenset[str]
    wants: frozenset[str] = frozenset()
    where: FileLocation | None = None

    def why_no_gradients(self, problem: Problem, limits: Limits) -> str:
        """Why the backward pass cannot be asked for gradients of a problem; empty if it can. A mask may travel as a
        bias.
        """
        needed = {BIAS if name == "mask" and limits.bias_is_mask else name
                  for name in problem.given if name != GRAD and KEYWORDS[name].acts is not Acts.ANSWER}
        missing = sorted(needed - self.keywords)
        return f"{self.name} takes no {' and no '.join(missing)}" if missing else ""

    def as_taken(self, call: Call) -> Call:
        """The call without flags that are off and that it has no parameter for."""
        given = {name: value for name, value in call.keywords.items() if value is not False or name in self.keywords}
        return replace(call, keywords=given)

    def kept_arrays(self, forward: SubjectAnswer) -> Mapping[str, Array]:
        """The arrays of the forward pass that the backward pass wants: the output, (B,H,T,Dv) or (B,T,M), the
        log-sum-exp (B,H,T).
        """
        found = {OUTPUT: forward.output, LSE: forward.lse}
        return {name: array for name, array in found.items() if array is not None and name in self.wants}

    def unusable(self, sentence: str) -> UnusableAnswer:
        """Says what came of a backward pass, in a sentence, with the place where it is to be mended."""
        return UnusableAnswer(f"{sentence} See {self.name} in {self.where}." if self.where else sentence)


def backward_of(described: FunctionDescription | None, name: str, kind: Kind, *,
                is_named: bool = False) -> BackwardPass | None:
    """What is known of a function that stands beside another, of this kind, by the name of a backward pass; None where
    it is none: it has no parameter `grad_output`. is_named: whether a manifest says that it is one.

    Raises TargetError with file and line where it cannot be called as one.
    """
    if described is None or GRAD not in {each.name for each in described.parameters or ()}:
        if is_named and described is not None:
            raise TargetError(f"the manifest names {name} as a backward pass, but it has no parameter {GRAD!r}: "
                              f"{_FORMS[kind is Kind.LAYER]}.", where=described.where)
        return None
    parameters, form = list(described.parameters or ()), _FORMS[kind is Kind.LAYER]
    inputs, rest = parameters[:len(_GIVEN)], [each for each in parameters[len(_GIVEN):] if each.kind not in _STARS]
    if any(each.kind not in _POSITIONAL for each in inputs) or [each.name for each in inputs][-1] != GRAD:
        raise TargetError(f"{name} takes ({', '.join(map(str, parameters))}); the first four should be query, key, "
                          f"value and grad_output, given by position: {form}.", where=described.where)
    if wrong := _misfit(rest, frozenset(word.name for word in KEYWORDS.values() if kind in word.required)):
        raise TargetError(f"{name} takes {wrong.format(form)}", where=described.where)
    known = frozenset(each.name for each in rest)
    return BackwardPass(name, known & KEYWORDS.keys(), known & {OUTPUT, LSE}, described.where)


def _misfit(rest: Sequence[Parameter], required: frozenset[str]) -> str:
    """What stands against calling a function with these parameters behind the first four, with a gap for the form that
    is expected; empty if nothing does. required: what is given in every call.
    """
    known = frozenset(each.name for each in rest)
    if absent := sorted(required - known):
        return f"no {' and no '.join(map(repr, absent))}, which a layer's backward pass is given: {{}}."
    needed = [each.name for each in rest if each.default is Parameter.empty and each.name not in required]
    if needed:
        return (f"{' and '.join(map(repr, needed))} without a default, so it cannot be called without. Give a default: "
                "{}.")
    unknown = known - KEYWORDS.keys() - {OUTPUT, LSE}
    return next(filter(None, (suggest_parameter(each, known) for each in sorted(unknown))), "")


def can_differentiate(declaration: Declaration) -> bool:
    """Whether a framework can be asked for gradients of functions that are declared so."""
    forms = {Kind.ATTENTION: {InputForm.DENSE, InputForm.PACKED}, Kind.LAYER: {InputForm.DENSE}}
    is_fit = declaration.form in forms.get(declaration.kind, ())
    return bool(declaration.lift) and is_fit and not refuses_gradients(declaration) and not takes_codes(declaration)


def takes_codes(declaration: Declaration) -> bool:
    """Whether query, key or value are codes in a narrow format. No framework differentiates with respect to these."""
    return any(getattr(declaration.limits, f"stored_{name}") for name in INPUTS)


def refuses_gradients(declaration: Declaration) -> bool:
    """Whether the declaration says that no gradients can be had: `refuses: [grad_output]`."""
    return any(each.keywords == {GRAD} and not each.conditions for each in declaration.limits.refuses)


def inputs_of(problem: Problem, limits: Limits) -> tuple[str, ...]:
    """The names of the inputs with respect to which a problem has gradients."""
    constant = {BIAS} if limits.constant_bias else set()
    return tuple(name for name in DIFFERENTIATED if name not in constant and getattr(problem, name) is not None)


def grad_given(problem: Problem, declaration: Declaration) -> Array:
    """The output's gradient, (B,H,T,Dv), as it is handed over, in the dtype that the output should have, as it lies."""
    assert problem.grad_output is not None
    return problem.grad_output.astype(numpy_dtype(declaration.returned(problem.dtype)), copy=False)


def call_of_framework(problem: Problem, arrays: Mapping[str, Array], keywords: Mapping[str, object], grad: Array,
                      limits: Limits, *, once: frozenset[str] = frozenset()) -> Call:
    """A call that a framework differentiates: output and gradients come back.

    arrays: query (B,H,T,D), key and value in the form that the function takes.  grad: (B,H,T,Dv), or as the output is.
    once: inputs for which one before them serves, too, so that its gradient is theirs.
    """
    inputs = tuple(name for name in inputs_of(problem, limits) if name not in once)
    parameters = _parameters(problem, keywords)
    shapes = (grad.shape, *_shapes(problem, arrays, inputs, parameters))
    names = (*inputs, *parameters)
    return Call(arrays, {**keywords, GRAD: grad}, problem.dtype, shapes, (OUTPUT, *map(of_input, names)), names)


def call_of_backward(problem: Problem, arrays: Mapping[str, Array], keywords: Mapping[str, object], grad: Array,
                     limits: Limits, *, once: frozenset[str] = frozenset(),
                     kept: Mapping[str, object] = MappingProxyType({})) -> Call:
    """A call of the backward pass: gradients come back. arrays: query (B,H,T,D) and its like.  grad: as the output is.
    once: as of a framework.  kept: what it wants of the forward pass.
    """
    inputs = tuple(name for name in inputs_of(problem, limits) if name not in once)
    parameters = _parameters(problem, keywords)
    given = {name: value for name, value in keywords.items()
             if name != GRAD and KEYWORDS[name].acts is not Acts.ANSWER}
    names = (*inputs, *parameters)
    return Call({**arrays, GRAD: grad}, {**given, **kept}, problem.dtype, _shapes(problem, arrays, inputs, parameters),
                tuple(map(of_input, names)), names, is_backward=True)


def of_parameter(name: str) -> str:
    """What a parameter of a layer is called among the arguments."""
    return f"{PARAMS}.{name}"


def _parameters(problem: Problem, keywords: Mapping[str, object]) -> Mapping[str, Array]:
    """By their names among the arguments, the parameters, w_query (M,H·D) and its like, that have gradients here."""
    given = keywords.get(PARAMS) if problem.of_parameters else None
    return {of_parameter(name): array for name, array in given.items()} if isinstance(given, Mapping) else {}


def _shapes(problem: Problem, arrays: Mapping[str, Array], inputs: tuple[str, ...],
            parameters: Mapping[str, Array]) -> tuple[tuple[int, ...], ...]:
    """Those of the gradients of inputs, query (B,H,T,D) as the function takes it, and parameters, w_query (M,H·D)."""
    return (*(np.shape(arrays.get(name, getattr(problem, name))) for name in inputs),
            *(np.shape(array) for array in parameters.values()))
