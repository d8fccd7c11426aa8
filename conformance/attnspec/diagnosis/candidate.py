"""A fault as a candidate for what went wrong: put the very calls that the subject was put, in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnspec.core.conventions import of_hidden_rows
from attnspec.core.declaration import Limits
from attnspec.core.forms import STATE, InputForm
from attnspec.core.keywords import OFF
from attnspec.core.nouns import Kind
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard
from attnspec.faults import staged as sound
from attnspec.faults.decoding import with_cache
from attnspec.faults.doubles import Noise, noisy
from attnspec.faults.fault import Fault
from attnspec.faults.layer import LayerCall, LayerStages, as_layer, both, run_layer
from attnspec.faults.sound_forms import by_sequence, concatenating, side_by_side
from attnspec.faults.staged import SOUND, Attend, as_computed, computing, find_empty_rows, log_sum_exp
from attnspec.faults.work import Answer as Returned
from attnspec.faults.work import HandedOver as StagedCall
from attnspec.faults.work import PreparedCall
from attnspec.numerics.rotary import INTERLEAVED, PAIRS
from attnspec.problems.problem import Array
from attnspec.subjects.backward import BackwardPass
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from attnspec.trials.call_log import LoggedCall, log_call
from attnspec.vocabulary.scene import AnyProblem

NOISES = (1, 2)
"""Seeds of the rounding errors that are put into a fault to see how far rounding moves it."""

ANY_KEYWORD = BackwardPass("attend_backward", frozenset(OFF))
"""What is known of a fault's backward pass: it takes every keyword, and nothing of the forward pass."""


class FaultCandidate:
    """Puts a fault the calls that a subject was put, in their order, each no sooner than it is asked for."""

    def __init__(self, fault: Fault, bar: ComparisonStandard, calls: Sequence[tuple[AnyProblem, str]]) -> None:
        self.fault = fault
        self._bar, self._calls = bar, calls
        self._put: dict[int, tuple[Subject, list[LoggedCall]]] = {}

    def step(self, index: int, *, noise: int = 0) -> LoggedCall:
        """The call of this number, and all before it; noise: 0 for none, or the seed of rounding errors put in."""
        if noise not in self._put:
            # a fault may have a memory: with other roundings it is another one, and is put every call anew
            docked = as_candidate(self.fault, self._bar.subject, self._bar.conventions)
            self._put[noise] = noisy(docked, Noise(self._bar.precision, noise)) if noise else docked, []
        docked, steps = self._put[noise]
        while len(steps) <= index:
            step = log_call(docked, *self._calls[len(steps)])
            steps.append(step if self._bar.aspect is Aspect.KEPT else step.let_go)
        return steps[index]

    @property
    def calls_answered(self) -> int:
        """How many calls were put so far, without noise."""
        return len(self._put[0][1]) if 0 in self._put else 0

    @property
    def remembered_count(self) -> int:
        """How many calls are remembered, those with noise too."""
        return sum(len(steps) for _, steps in self._put.values())

    def shake_call(self, index: int) -> Iterator[LoggedCall]:
        """The call with rounding errors put in, several times."""
        return (self.step(index, noise=seed) for seed in NOISES)


def as_candidate(fault: Fault, subject: Subject, conventions: Mapping[str, str]) -> Subject:
    """The fault, freshly made, in the place of the subject: under its declaration and with its variants, with its pairs
    where no keyword says them, and with its answer to a row that sees no key.
    """
    subject = replace(subject, takes_storage=False)  # a fault's function knows no other storage or shape of arrays
    function = fault.function
    other = fault.other_path() if fault.other_path else function
    if conventions.get(PAIRS) == INTERLEAVED and subject.declaration.kind is Kind.ROTARY:
        function = other = partial(function, interleaved=True)

    def fitted(function: Callable[..., Returned]) -> Callable[..., Returned]:
        return _with_hidden_rows(_fit_fault_to_subject(fault, subject, function), conventions)

    variants = {name: replace(variant, callee=InProcess(fitted(other)))
                for name, variant in subject.variants.items()}
    if fault.backward is None or not _may_go_back(subject):
        return replace(subject, callee=InProcess(fitted(function)), variants=variants)
    callee = InProcess(fitted(function), backward=fault.backward())
    return replace(subject, callee=callee, backward=ANY_KEYWORD, variants=variants)


def _with_hidden_rows(function: Callable[..., Returned], conventions: Mapping[str, str]) -> Callable[..., Returned]:
    """The function with rows that see no key as the conventions have them: a fault may hide keys that are seen by the
    definition. What is wrong about how a fault hides keys stays as wrong as it is.
    """
    if not any(conventions.get(name) in _HIDDEN for name in conventions if name.partition(".")[0] == "hidden_row"):
        return function

    def attend(*inputs: Array, **keywords: Any) -> Returned:  # noqa: ANN401  (Call's)
        """What the function answers to query (B,H,T,D) or (B,T,M), key and value."""
        given = {name for name, value in keywords.items() if value is not None and value is not False}
        hide = _HIDDEN.get(of_hidden_rows(conventions, given), sound.hide)
        with computing(as_computed(replace(SOUND, hide=hide, lse=_lse_of_seen))):
            return function(*inputs, **keywords)
    return attend


def _level_empty_rows(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), hidden ones -inf; in a row without a visible key all are 0, unless there are sinks."""
    return _fill_empty_rows(sound.hide(logits, work), work, 0.0)


def _spoil_empty_rows(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), hidden ones -inf; in a row without a visible key all are NaN, unless there are sinks."""
    return _fill_empty_rows(sound.hide(logits, work), work, np.nan)


def _lse_of_seen(joined: Array, work: PreparedCall) -> Array:
    """The log-sum-exps (B,H,T) of logits and sinks (B,H,T,S+·), -inf where there are none."""
    return log_sum_exp(_fill_empty_rows(joined, work, -np.inf))


def _fill_empty_rows(logits: Array, work: PreparedCall, value: float) -> Array:
    """Logits (B,H,T,·) with another value in rows without a visible key, unless there are sinks."""
    return np.where(find_empty_rows(work), value, logits).astype(logits.dtype)


_HIDDEN: Mapping[str, Callable[[Array, PreparedCall], Array]] = {
    "uniform": _level_empty_rows, "nan": _spoil_empty_rows}
"""By the answer to `hidden_row` that is another than a fault's own, how keys are hidden."""


def _may_go_back(subject: Subject) -> bool:
    """Whether a fault's backward pass, which is of dense attention, can stand beside its function in this place."""
    declared = subject.declaration
    return declared.kind is Kind.ATTENTION and declared.form is InputForm.DENSE


def _fit_fault_to_subject(fault: Fault, subject: Subject, function: Callable[..., Returned]) -> Callable[..., Returned]:
    """The fault's function with the signature and the form of answer of the subject."""
    limits, form = subject.declaration.limits, subject.declaration.form
    formed = function if fault.form is not InputForm.DENSE else _FORMED[form](function)
    if subject.declaration.kind is not Kind.LAYER:
        return formed
    if form is InputForm.DECODER and fault.kind is Kind.ATTENTION:
        return partial(_stepping, formed, limits)
    layer = as_layer(partial(_as_layer, function)) if fault.kind is Kind.ATTENTION else function
    return partial(_answer_as_layer, layer, limits)


def _pack_around(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """A dense function around which sequences are packed: it answers each alone."""
    return by_sequence(partial(_call_function, function))()


def _page_around(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """A dense function around which keys and values lie in pages."""
    return side_by_side(partial(_call_function, function))()


def _call_function(function: Callable[..., Returned], call: StagedCall) -> Returned:
    return function(call.query, call.key, call.value, **call.given)


def _decoding(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """A dense function around which keys and values are kept in a cache: it is handed them as a past."""
    return concatenating(partial(_call_function, function))()


_FORMED: Mapping[InputForm, Callable[[Callable[..., Returned]], Callable[..., Returned]]] = {
    InputForm.DENSE: lambda function: function, InputForm.PACKED: _pack_around, InputForm.PAGED: _page_around,
    InputForm.DECODER: _decoding}
"""By form, a dense function in the place of one that takes its arrays so."""


def _as_layer(function: Attend, call: LayerCall) -> Returned:
    """A layer around an attention."""
    def attend(inner: StagedCall, layer: LayerCall) -> tuple[Array, Array]:  # noqa: ARG001  (the stage's signature)
        """The function's output (B,H,T,Dv) and weights (B,H,T,S), whatever it was asked for."""
        return both(function(inner.query, inner.key, inner.value, **{**inner.given, "return_weights": True}))
    return run_layer(call, LayerStages(attend=attend))


def _stepping(decoder: Callable[..., Any], limits: Limits, *inputs: Array, cache: object, **keywords: Any) -> Returned:  # noqa: ANN401  (Call's)
    """A decoder layer around a decoder: query (B,T,M), key and value to (B,T,M) and what `decoder` hands back."""
    kept: list[object] = []

    def attend(inner: StagedCall, layer: LayerCall) -> tuple[Array, Array]:  # noqa: ARG001  (the stage's signature)
        """Output (B,H,T,Dv) and weights (B,H,T,S)."""
        *answer, held = decoder(inner.query, inner.key, inner.value,
                                **{**inner.given, "return_weights": True, STATE: cache})
        kept.append(held)
        return both(tuple(answer))

    layer = as_layer(partial(run_layer, stages=LayerStages(attend=attend)))
    answer = _answer_as_layer(layer, limits, *inputs, **keywords)
    return with_cache(answer, kept[0])  # type: ignore[no-any-return]  # a cache is among it


def _answer_as_layer(layer: Callable[..., Returned], limits: Limits, query: Array, key: Array, value: Array, *,
                     params: Mapping[str, Array], heads: int, **keywords: object) -> Returned:
    """A layer's answer, (B,T,M) or with weights (B,H,T,S) or, averaged, (B,T,S); an output projection that the subject
    does not have is the identity.
    """
    answer = layer(query, key, value, params=_with_output(params), heads=heads, **keywords)
    is_summed_up = isinstance(answer, tuple) and limits.weights == "averaged" and answer[1].ndim == 4
    return (answer[0], answer[1].mean(axis=1)) if is_summed_up else answer


def _with_output(params: Mapping[str, Array]) -> Mapping[str, Array]:
    """The parameters, with the identity for a w_out (H·Dv,M) that is not there."""
    if "w_out" in params:
        return params
    # w_value has a head for each key/value head, w_out takes one for each query head
    groups = params["w_query"].shape[1] // params["w_key"].shape[1]
    width = params["w_value"].shape[1] * groups
    return {**params, "w_out": np.eye(width, dtype=params["w_value"].dtype)}
