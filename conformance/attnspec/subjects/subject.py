"""A subject: a function, what it declares, and where it comes from; and variants that attnspec makes of one, whose
framework makes something else of its function first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from attnspec.core.declaration import LIMITS, Declaration, Limits
from attnspec.core.errors import FileLocation, UsageError
from attnspec.core.forms import HELD_IN_CACHE, POSITIONS, STATE, TABLE, InputForm, called_there
from attnspec.core.keyword import APART, GRAD, LSE
from attnspec.core.keywords import AXES, SEGMENTED, load_parts
from attnspec.core.nouns import Kind
from attnspec.host.lifts.making import FormNotMade, FrameworkForm
from attnspec.problems.keyword_arrays import USUAL_PAGES, cut_meanings
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import DENSE, Array, LayerProblem, Lays, Problem, Sizes
from attnspec.record.outcome import KnownFinding, SubjectCard
from attnspec.subjects.call import (
    BackwardPass,
    Call,
    NotDifferentiated,
    SubjectAnswer,
    SubjectDied,
    SubjectRaised,
    UnusableAnswer,
    call_of_backward,
    call_of_framework,
    can_differentiate,
    grad_given,
    refuses_gradients,
    takes_no_numbers,
)
from attnspec.subjects.callee import Callee
from attnspec.subjects.exceptions import failure_of_adapter
from attnspec.subjects.lowering import LoweredProblem, head_width, lower_problem, lowering_misfit
from attnspec.subjects.manifest import Library
from attnspec.subjects.serving_forms import (
    FIRST_STEP,
    USUAL_STEPPING,
    Arguments,
    PackedProblem,
    in_pages,
    in_steps,
    laid_in_pages,
    pack,
    steps_for_host,
)
from attnspec.subjects.signature import FunctionDescription

_WIDENING_LIMITS = frozenset({"broadcasts", "grouped"})  # said where a subject takes more, not less

_SAID_BY_FORM: Mapping[InputForm, frozenset[str]] = {InputForm.PAGED: frozenset({TABLE}),
                                                     InputForm.DECODER: HELD_IN_CACHE | {STATE}}
"""By form, the keywords that are not handed over as they stand in the problem."""

ASKS_LSE = "return_lse"

_MADE_FIELDS: Mapping[InputForm, str] = {InputForm.PACKED: "a packed function's inputs are made by packing",
                                         InputForm.PAGED: "a paged function's keys and values are put into pages"}
"""By form, why a subject is not asked about the memory of its arrays."""

STRIDED, GAPS = "inputs that are not contiguous", "inputs with gaps along their last axis"
"""What a function refuses that takes contiguous arrays only, and one that takes contiguous features only."""

WITHOUT_CAUSAL = "calls without the causal flag"

__all__ = ["NotDifferentiated", "Subject", "SubjectAnswer", "SubjectDied", "SubjectRaised", "UnusableAnswer"]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What is on trial. `callee`: what answers.  `source`: where its function stands.

    variants: the same with one hidden switch flipped.  refused_words: what it was found to refuse, by `refusals.py`,
    with its words.  entry: its place in a manifest.  description: what is known of its function; None of attnspec's
    own.  backward: its backward pass, where it has one of its own.  made: by form, what attnspec makes of it itself.
    replays: by clause and dtype, the recipe of a case on which a finding shows.  takes_own_layout: whether codes and
    scales are handed over in the storage and shape that it declares; if not, as a problem has them.
    """

    id: str
    title: str
    callee: Callee
    declaration: Declaration
    source: FileLocation
    library: Library
    variants: Mapping[str, Subject] = field(default_factory=dict)
    document: str = ""
    note: str = ""
    findings: tuple[KnownFinding, ...] = ()
    refused_words: Mapping[str, str] = field(default_factory=dict)
    entry: FileLocation | None = None
    description: FunctionDescription | None = None
    backward: BackwardPass | None = None
    made: Mapping[str, Subject] = field(default_factory=dict)
    replays: Mapping[tuple[str, str], str] = field(default_factory=dict)
    takes_own_layout: bool = True

    @property
    def home(self) -> str:
        """The package or module that the function stands in; empty where nothing is known of it."""
        return self.description.module.partition(".")[0] if self.description else ""

    def answer(self, problem: Problem | LayerProblem | RotaryProblem) -> SubjectAnswer:
        """What the subject makes of a problem of its kind; a layer gets attention's through identity or selection
        projections.

        Where the output's gradient is given, gradients come with it. Raises SubjectRaised, UnusableAnswer,
        NotDifferentiated where the output has none; ValueError where `refuses` gives a reason; ReleaseError where the
        adapter itself fails.
        """
        if reason := self.refuses(problem):
            raise ValueError(f"{self.id}: {reason}")
        if isinstance(problem, RotaryProblem):
            return self._rotary_answer(problem)
        if isinstance(problem, LayerProblem):
            return self._layer_answer(problem)
        form, is_layer = self.declaration.form, self.declaration.kind is Kind.LAYER
        if form is not InputForm.DENSE:
            answers = {InputForm.DECODER: self._stepped_answer, InputForm.PACKED: self._spread_answer,
                       InputForm.PAGED: self._paged_answer}
            return answers[form](problem)
        if is_layer:
            return self._lowered_answer(problem)
        if problem.grad_output is not None:
            return self._answer_with_gradients(problem)
        sizes = problem.sizes
        return self._perform(problem, _list_inputs(problem), {},
                             (sizes.B, sizes.H, sizes.T, sizes.Dv))

    def scale_width(self, problem: Problem) -> int:
        """The width whose root divides the logits: D, or the head width of the layer that the problem is lowered to."""
        is_layer = self.declaration.kind is Kind.LAYER
        return head_width(problem.sizes, self.declaration.limits) if is_layer else problem.sizes.D

    def lacks(self, keywords: frozenset[str]) -> str:
        """Why a problem with these keywords cannot be put to the subject; empty if it can."""
        missing = sorted(keywords - self.declaration.keywords)
        if GRAD in missing and GRAD not in self.refused_words:
            return self._without_gradients()
        if refused := next((name for name in missing if name in self.refused_words), ""):
            return f"{self.id} refuses {refused} ({self.refused_words[refused]})"
        return f"{self.id} takes no {' and no '.join(missing)}" if missing else ""

    def _without_gradients(self) -> str:
        """Why it is not asked for gradients."""
        if refuses_gradients(self.declaration):
            return f"{self.id} gives no gradients, as it declares"
        if can_differentiate(self.declaration):
            return APART.format(self.id)
        if self.declaration.lift and (noun := _name_undifferentiated(self.declaration)):
            return f"gradients of {noun} are not judged"
        return f"{self.id} has no backward pass"

    def refuses(self, problem: Problem | LayerProblem | RotaryProblem) -> str:
        """Why this problem cannot be put to the subject: a keyword that it lacks or a limit; empty if it can."""
        reasons = self._rotary_misfits(problem) if isinstance(problem, RotaryProblem) else self._list_misfits(problem)
        return next(filter(None, reasons), "")

    def _rotary_misfits(self, problem: RotaryProblem) -> Iterator[str]:
        """What stands against the problem of a rotary embedding."""
        if self.declaration.kind is not Kind.ROTARY:
            yield f"{self.id} is not a rotary embedding"
        if problem.dtype not in self.declaration.dtypes:
            yield f"{self.id} does not support {problem.dtype.value}"
        yield self._misfit_of_sizes(self.declaration.limits, problem.sizes, problem.given)
        yield self.lacks(problem.keywords)

    def _list_misfits(self, problem: Problem | LayerProblem) -> Iterator[str]:
        """What stands against the problem, one after the other; "" where something does not."""
        declaration, limits, sizes, given = self.declaration, self.declaration.limits, problem.sizes, problem.given
        if declaration.kind is Kind.ROTARY:
            yield f"{self.id} is a rotary embedding"
        if problem.dtype not in declaration.dtypes:
            yield f"{self.id} does not support {problem.dtype.value}"
        if not limits.broadcasts and not _at_full_shape(given, sizes):
            yield f"{self.id} takes masks and biases at full shape only"
        if limits.contiguous_features and not _has_contiguous_features(problem):
            yield f"{self.id} takes inputs that are contiguous along their last axis only{self._words_for(GAPS)}"
        if limits.contiguous and not is_contiguous(problem):
            yield f"{self.id} takes contiguous inputs only{self._words_for(STRIDED)}"
        if declaration.form in _MADE_FIELDS:
            yield _own_layout(problem, _MADE_FIELDS[declaration.form])
        if problem.key.shape[-2] != problem.value.shape[-2]:
            yield "a page holds a value for every key" if declaration.form is InputForm.PAGED else \
                "one input serves as key and value" if limits.one_memory else ""
        yield from self._misfits_of_keywords(given)
        if isinstance(problem, Problem):
            yield from (part.misfit(problem, limits, declaration.form) for part in load_parts("arrays")
                        if not declaration.keywords.isdisjoint(part.ARRAYS))
        if GRAD in given and isinstance(problem, Problem):
            without = "" if can_differentiate(declaration) else self._without_gradients()
            yield self.backward.why_no_gradients(problem, limits) if self.backward else without
        if declaration.kind is Kind.LAYER:
            misfit = lowering_misfit(_count_new_keys(problem), limits)
            yield misfit or _own_layout(problem, "a layer's inputs are made by the lowering")
            limits = replace(limits, ties_value_width=False)  # what is lowered to it is as wide as it needs
        elif isinstance(problem, LayerProblem):
            yield f"{self.id} is not a layer"
        if problem.has_past:
            yield self._misfit_of_past(_count_new_keys(problem))
        yield self._misfit_of_sizes(limits, sizes, given)
        yield self.lacks(frozenset(given))

    def _misfits_of_keywords(self, given: Mapping[str, Any]) -> Iterator[str]:
        """What stands against the keywords in use."""
        limits, is_causal = self.declaration.limits, "causal" in given
        if limits.causal_only and not is_causal:
            yield f"{self.id} is always causal{self._words_for(WITHOUT_CAUSAL)}"
        for name, value in given.items():
            if reason := limits.misfit(name, value, causal=is_causal):
                yield f"{self.id} takes {reason}; here {value}"
        if limits.segments_are_shared and not np.array_equal(*(given.get(name, ()) for name in SEGMENTED)):
            yield f"{self.id} takes one array of segments, for queries and keys"
        if limits.mask_axes != "BHTS" and _varies(given.get("mask"), limits.mask_axes):
            yield f"{self.id} takes masks that differ along {', '.join(limits.mask_axes)} only"

    def refuses_sizes(self, sizes: Sizes, keywords: Collection[str]) -> str:
        """Why attention of these sizes cannot be put to the subject with these keywords; empty if it can."""
        return self._misfit_of_sizes(self.declaration.limits, sizes, keywords)

    def _misfit_of_sizes(self, limits: Limits, sizes: Sizes, keywords: Collection[str]) -> str:
        reason = limits.misfit_of(sizes.by_axis, keywords)
        return f"{self.id} {reason}{self._words_for(reason)}; here {sizes}" if reason else ""

    def _misfit_of_past(self, call: Sizes) -> str:
        """What stands against a call of these sizes behind a past."""
        limits = self.declaration.limits
        return "" if limits.takes_behind_past(call.T, call.S) else (
            f"{self.id} takes only as many new keys as queries where there is a past; here {call}")

    def _words_for(self, reason: str) -> str:
        """What the function said where it is known to refuse it."""
        words = self.refused_words.get(reason.removeprefix("refuses "), "")
        return f" ({words})" if words else ""

    def variant(self, name: str) -> Subject:
        """The subject with the hidden switch `name` flipped. Raises UsageError for a name it does not declare."""
        if name not in self.variants:
            raise UsageError.unknown(f"variant of {self.id}", name, self.variants)
        return self.variants[name]

    @property
    def with_gradients(self) -> Subject:
        """The subject, whose framework is asked for gradients, if it has one that can be."""
        declared = self.declaration
        if not can_differentiate(declared):
            return self
        return replace(self, declaration=replace(declared, keywords=declared.keywords | {GRAD}))

    def card(self, probed: Mapping[str, str], precision: Mapping[str, str]) -> SubjectCard:
        """What a report says of the subject beside its verdicts."""
        limits = self.declaration.limits
        none = type(limits)()
        return SubjectCard(
            id=self.id, title=self.title, kind=self.declaration.kind.value,
            distribution=self.library.distribution,
            version=self.library.version, homepage=self.library.homepage,
            conventions=self.declaration.conventions,
            probed=probed, precision=precision, claims=self.declaration.claims,
            limits={name: _write_limit(getattr(limits, name)) for name in LIMITS
                    if getattr(limits, name) != getattr(none, name)
                    and not (name in _WIDENING_LIMITS and getattr(limits, name))},
            library=self.library.name, install=self.library.install, issues=self.library.issues,
            note=self.note,
            findings=self.findings, defaults=self.declaration.defaults, refused=self.refused_words,
            lives_in=self.callee.place if self.description else {}, sizes=self.declaration.sizes)

    def _layer_answer(self, problem: LayerProblem) -> SubjectAnswer:
        """What a layer makes of its own problem."""
        sizes, out = problem.sizes, problem.params.get("w_out")
        width = sizes.H * sizes.Dv if out is None else out.shape[1]
        params = {"params": problem.params, "heads": problem.heads}
        first = FIRST_STEP if self.declaration.form is InputForm.DECODER else {}
        return self._perform(problem, _list_inputs(problem), {**params, **first}, (sizes.B, sizes.T, width))

    def _rotary_answer(self, problem: RotaryProblem) -> SubjectAnswer:
        """What a rotary embedding makes of x (B,H,T,D) at its positions."""
        arrays = {"x": problem.x, POSITIONS: problem.positions}
        keywords = {name: value for name, value in sorted(problem.given.items()) if name not in arrays}
        return self._make_call(Call(arrays, keywords, problem.dtype, (problem.x.shape,), ("output",)))

    def _lowered_answer(self, problem: Problem, whole: Problem | None = None,
                        more: Mapping[str, object] = MappingProxyType({})) -> SubjectAnswer:
        """whole: the problem with its past, where what is lowered is the call alone."""
        lowered = lower_problem(problem, self.declaration.limits)
        params = {"params": lowered.params, "heads": problem.sizes.H, **more}
        if problem.grad_output is not None:
            return self._lowered_gradients(problem, lowered, params)
        answer = self._perform(whole or problem, _list_inputs(lowered), params,
                               lowered.output_shape)
        return replace(answer, output=lowered.heads_of(answer.output))

    def _lowered_gradients(self, problem: Problem, lowered: LoweredProblem,
                           params: Mapping[str, object]) -> SubjectAnswer:
        """The output and the gradients, of the framework or of the backward pass, those of inputs head by head."""
        grad = lowered.output_of(grad_given(problem, self.declaration))
        arrays, keywords = _list_inputs(lowered), {**self._list_keywords(problem), **params}
        once = frozenset(name for name, first in lowered.first_of.items() if name != first)
        limits, backward = self.declaration.limits, self.backward
        if backward is None:
            answer = self._make_call(call_of_framework(problem, arrays, keywords, grad, limits, once=once))
        else:
            forward = self._perform(problem.but(grad_output=None), arrays, params,
                                    lowered.output_shape)
            call = call_of_backward(problem, arrays, keywords, grad, limits, once=once,
                                    kept=backward.kept_arrays(forward))
            answer = self._pull_back(backward, call, forward)
        return replace(answer, output=lowered.heads_of(answer.output),
                       by_input=lowered.heads_of_inputs(answer.by_input))

    def _spread_answer(self, problem: Problem) -> SubjectAnswer:
        packed = pack(problem, self.declaration.given)
        if problem.grad_output is not None:
            return self._spread_gradients(problem, packed)
        arrays = _list_inputs(packed)
        shapes = {"output": packed.output_shape, **({"lse": packed.lse_shape} if problem.return_lse else {})}
        keywords = {**self.declaration.off, **packed.given_arguments}
        answer = self._make_call(Call(arrays, keywords, problem.dtype, tuple(shapes.values()), tuple(shapes)),
                                 packed.lays)
        lse = None if answer.lse is None else packed.spread(answer.lse)
        return replace(answer, output=packed.spread(answer.output), lse=lse)

    def _spread_gradients(self, problem: Problem, packed: PackedProblem) -> SubjectAnswer:
        """The output and the gradients of the framework, each spread out again."""
        grad = packed.pack_output(grad_given(problem, self.declaration))
        keywords = {**self.declaration.off, **packed.given_arguments}
        answer = self._make_call(call_of_framework(problem, _list_inputs(packed), keywords, grad,
                                                   self.declaration.limits),
                                 packed.lays)
        return replace(answer, output=packed.spread(answer.output),
                       by_input=packed.spread_inputs(answer.by_input))

    def _stepped_answer(self, problem: Problem) -> SubjectAnswer:
        pattern = USUAL_STEPPING if problem.cache is None else problem.cache
        stepped, is_layer = in_steps(problem, pattern), self.declaration.kind is Kind.LAYER
        more = steps_for_host(stepped, self._list_arguments)
        if is_layer:
            return self._lowered_answer(stepped.last.problem, problem, more)
        arrays, sizes = _list_inputs(stepped.last.problem), problem.sizes
        own = problem.but(**cut_meanings(problem, keys=slice(problem.past, None)))
        return self._perform(own, arrays, more, (sizes.B, sizes.H, sizes.T, sizes.Dv))

    def _list_arguments(self, problem: Problem) -> Arguments:
        """Of one call, as the subject takes it."""
        if self.declaration.kind is not Kind.LAYER:
            return self.hand_over(_list_inputs(problem), self._list_keywords(problem))
        lowered = lower_problem(problem, self.declaration.limits)
        return _list_inputs(lowered), {"params": lowered.params, "heads": problem.sizes.H,
                                       **self._list_keywords(problem)}

    def _paged_answer(self, problem: Problem) -> SubjectAnswer:
        pattern = problem.block_table if isinstance(problem.block_table, str) else USUAL_PAGES
        multiple = self.declaration.limits.page_multiple
        paged = in_pages(problem, pattern, multiple)
        arrays, sizes = {"query": problem.query, "key": paged.key,
                         "value": paged.value}, problem.sizes
        return self._perform(problem, arrays, paged.given_arguments,
                             (sizes.B, sizes.H, sizes.T, sizes.Dv),
                             laid_in_pages(problem, pattern, multiple))

    def _answer_with_gradients(self, problem: Problem) -> SubjectAnswer:
        """The output with the gradients, of the framework or of the backward pass."""
        keywords, grad = self._list_keywords(problem), grad_given(problem, self.declaration)
        limits = self.declaration.limits
        if self.backward is None:
            return self._make_call(call_of_framework(problem, _list_inputs(problem), keywords, grad, limits))
        asks_lse = LSE in self.backward.wants and ASKS_LSE in self.declaration.keywords
        forward = self.answer(problem.but(grad_output=None, **({ASKS_LSE: True} if asks_lse else {})))
        call = call_of_backward(problem, _list_inputs(problem), keywords, grad, limits,
                                kept=self.backward.kept_arrays(forward))
        return self._pull_back(self.backward, call, forward)

    def _pull_back(self, backward: BackwardPass, call: Call,
                   forward: SubjectAnswer) -> SubjectAnswer:
        """The gradients of the backward pass with the output of the forward pass."""
        try:
            return replace(self._make_call(backward.as_taken(call)), output=forward.output)
        except UnusableAnswer as unusable:
            raise backward.unusable(unusable.sentence) from None

    def _perform(self, problem: Problem | LayerProblem, arrays: Mapping[str, Array],
                 more: Mapping[str, object],
                 output: tuple[int, ...], lays: Lays = DENSE) -> SubjectAnswer:
        """The answer to a call with these arrays, query (B,H,T,D) or (B,T,M) and its like; output: its shape."""
        keywords = {**more, **self._list_keywords(problem)}
        shapes = {"output": output, **({"weights": self._weights_shape(problem)} if problem.return_weights else {}),
                  **({"lse": problem.query.shape[:3]} if problem.return_lse else {})}
        return self._make_call(Call(arrays, keywords, problem.dtype, tuple(shapes.values()), tuple(shapes)), lays)

    def hand_over(self, arrays: Mapping[str, Array], keywords: Mapping[str, object],
                  lays: Lays = DENSE) -> tuple[Mapping[str, Array], Mapping[str, object]]:
        """Arrays, query (B,H,T,D) and its like, and keywords in the storage and shape that the subject takes."""
        for part in load_parts("arrays"):
            if self.declaration.keywords.isdisjoint(part.ARRAYS):
                continue
            if self.takes_own_layout:
                arrays, keywords = part.hand_over(arrays, keywords, self.declaration.limits, lays)
            else:
                keywords = part.laid_out(keywords, lays)
        return arrays, keywords

    def _make_call(self, call: Call, lays: Lays = DENSE) -> SubjectAnswer:
        arrays, keywords = self.hand_over(call.arrays, call.keywords, lays)
        call = replace(call, arrays=arrays, keywords=keywords)
        try:
            return self.callee.perform(self.as_spelled(call))
        except SubjectRaised as raised:
            raise (failure_of_adapter(raised, self.id, self.library) or raised) from None

    def as_spelled(self, call: Call) -> Call:
        """The call with each keyword by the name of the function's parameter; a backward pass has attnspec's names."""
        spelled = {} if call.is_backward else self.declaration.spelled
        if spelled.keys().isdisjoint(call.keywords):
            return call
        return replace(call, keywords={spelled.get(name, name): value for name, value in call.keywords.items()})

    def _list_keywords(self, problem: Problem | LayerProblem) -> Mapping[str, object]:
        """The keywords in use; a mask becomes a bias where that is the only form the subject takes. Pages and
        caches are made.
        """
        said = _SAID_BY_FORM.get(self.declaration.form, frozenset())
        used: dict[str, object] = {**self.declaration.off}
        used |= {name: value for name, value in sorted(problem.given.items()) if name not in said}
        if "mask" in used and self.declaration.limits.bias_is_mask:
            used["bias"] = _as_bias(problem)
            del used["mask"]
        return used

    def _weights_shape(self, problem: Problem | LayerProblem) -> tuple[int, ...]:
        sizes = problem.sizes
        per_head = () if self.declaration.limits.weights == "averaged" else (sizes.H,)
        return (sizes.B, *per_head, sizes.T, sizes.S)


def _name_undifferentiated(declaration: Declaration) -> str:
    """What a reader calls subjects that no framework is asked about; empty of others."""
    if takes_no_numbers(declaration):
        return str(next(part.CALLED for part in load_parts("limits")))
    return {InputForm.PAGED: "functions that read pages", InputForm.DECODER: "decoders"}.get(declaration.form, "")


def _at_full_shape(given: Mapping[str, Any], sizes: Sizes) -> bool:
    full = (sizes.B, sizes.H, sizes.T, sizes.S)
    return all(array.shape == full for name, array in given.items() if AXES.get(name) == "BHTS")


def _varies(mask: Array | None, axes: str) -> bool:
    """Whether a mask, (B,H,T,S) or of its last axes, differs along another axis than these."""
    others = () if mask is None else tuple(at - 4 for at, axis in enumerate("BHTS") if axis not in axes)
    return mask is not None and any(-at <= mask.ndim and (mask != mask.take([0], at)).any() for at in others)


def _has_contiguous_features(problem: Problem | LayerProblem) -> bool:
    """A stride along a single feature leads nowhere, but kernels look at it all the same."""
    return all(array.strides[-1] == array.itemsize for array in (problem.query, problem.key, problem.value))


def is_contiguous(problem: Problem | LayerProblem) -> bool:
    """Whether query, key and value lie in memory without gaps, in the order of their axes."""
    return all(array.flags.c_contiguous for array in (problem.query, problem.key, problem.value))


def _count_new_keys(problem: Problem | LayerProblem) -> Sizes:
    """The sizes of the call alone: S counts its new keys."""
    return replace(problem.sizes, S=problem.key.shape[-2])


def _own_layout(problem: Problem | LayerProblem, because: str) -> str:
    """Why a subject cannot be asked about the memory layout of this problem's arrays; empty if it is not asked."""
    arrays = (problem.query, problem.key, problem.value, problem.given.get(GRAD))
    is_plain = all(array is None or array.flags.c_contiguous for array in arrays)
    return "" if is_plain else f"{because}, so it is not asked about their layout"


def _write_limit(limit: object) -> str:
    return ", ".join(map(str, limit)) if isinstance(limit, tuple) else str(limit)


def _as_bias(problem: Problem | LayerProblem) -> Array:
    """The mask (B,H,T,S) as an additive one: the bias (or 0) where a key is visible, -inf where it is hidden."""
    assert problem.mask is not None
    bias = np.zeros((), problem.query.dtype) if problem.bias is None else problem.bias
    return np.where(problem.mask, bias, np.array(-np.inf, problem.query.dtype))


def _list_inputs(problem: Problem | LayerProblem | LoweredProblem | PackedProblem) -> Mapping[str, Array]:
    """Query (B,H,T,D), key and value, in whatever form they are."""
    return {"query": problem.query, "key": problem.key, "value": problem.value}


@dataclass(frozen=True, slots=True)
class VariantCallee:
    """A callee of whose function another form is called. name: what makes that form."""

    callee: Callee
    form: str
    name: str

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """The answer of the form; rows (T,). Raises FormNotMade, in the framework's words, where there is none."""
        try:
            return self.callee.perform(replace(call, form=FrameworkForm(self.form, tuple(_list_batched(call)))), rows)
        except FormNotMade as refused:
            raise FormNotMade(f"{self.name} refuses it ({refused})") from None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)


def _list_batched(call: Call) -> Iterator[str]:
    """The arguments, any shape, that have an entry for each of the batch along their first axis."""
    yield from call.arrays
    entries = call.arrays["query"].shape[0]
    for name, value in call.keywords.items():
        axes, shape = AXES.get(name, ""), np.shape(value) if isinstance(value, np.ndarray) else ()
        if axes.startswith("B") and len(axes) == len(shape) and shape[0] == entries:
            yield name


def add_made_variants(subject: Subject, forms: Iterable[str]) -> Subject:
    """The subject with these forms of its function, if its framework can be asked for them."""
    declared = subject.declaration
    if why_no_form(declared):
        return subject
    made = {form: _make_form(subject, form, called_there(form, declared.lift)) for form in sorted(forms)}
    return replace(subject, made=made)


def _make_form(subject: Subject, form: str, name: str) -> Subject:
    return replace(subject.with_gradients, id=f"{subject.id}[{name}]",
                   callee=VariantCallee(subject.callee, form, name),
                   variants={}, backward=None)


def why_no_form(declaration: Declaration) -> str:
    """Why no other form is made of what is declared so; empty if one is."""
    if not declaration.lift:
        return "it takes NumPy arrays, of whose functions no framework makes another form"
    if declaration.form is not InputForm.DENSE or declaration.kind is Kind.ROTARY:
        return "other forms are made of attention in the usual layout alone"
    return ""
