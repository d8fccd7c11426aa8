"""Defines subjects: a function, what it declares, and where it comes from.

A framework may first make another form of the function, which is a made variant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from attnspec.core.declaration import LIMITS, Declaration, Limits
from attnspec.core.errors import FileLocation, UsageError
from attnspec.core.forms import CACHE, HELD_IN_CACHE, POSITIONS, TABLE, InputForm, called_there
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

_WIDENING_LIMITS = frozenset({"broadcasts", "grouped"})
"""The limits by which a subject says that it takes more, not less."""

_SAID_BY_FORM: Mapping[InputForm, frozenset[str]] = {InputForm.PAGED: frozenset({TABLE}),
                                                     InputForm.DECODER: HELD_IN_CACHE | {CACHE}}
"""By form, the keywords that are not passed as they stand in the problem."""

ASKS_LSE = "return_lse"

_MADE_FIELDS: Mapping[InputForm, str] = {
    InputForm.PACKED: "a packed function's inputs are made by packing",
    InputForm.PAGED: "a paged function's keys and values are put into pages"}
"""By form, why a subject is not asked about the memory of its arrays."""

STRIDED, GAPS = "inputs that are not contiguous", "inputs with gaps along their last axis"
"""What a function refuses that takes contiguous arrays only, or contiguous features only."""

WITHOUT_CAUSAL = "calls without the causal flag"

__all__ = ["NotDifferentiated", "Subject", "SubjectAnswer", "SubjectDied", "SubjectRaised",
           "UnusableAnswer"]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What is on trial.

    callee: what answers.  source: where its function stands.  variants: the same with one hidden
    switch flipped.  refused_words: what it was found to refuse, by `refusals.py`, with its words.
    entry: its place in a manifest.  description: of its function; None of attnspec's own.
    backward: its own backward pass.  made: by form, what attnspec makes of it.  replays: by clause
    and dtype, the recipe of a case on which a finding shows.  takes_own_layout: whether codes and
    scales are passed in the storage and shape that it declares; else as a problem has them.
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
        """Returns the package or module of the function; empty where it is not known."""
        return self.description.module.partition(".")[0] if self.description else ""

    def answer(self, problem: Problem | LayerProblem | RotaryProblem) -> SubjectAnswer:
        """Returns what the subject makes of a problem of its kind. A layer gets attention's
        problems through identity or selection projections. Where the output's gradient is given,
        gradients come with it. Raises SubjectRaised, UnusableAnswer, NotDifferentiated where the
        output has no gradient; ValueError where `refuses` gives a reason; ReleaseError where the
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
            answers = {InputForm.DECODER: self._stepped_answer,
                       InputForm.PACKED: self._spread_answer, InputForm.PAGED: self._paged_answer}
            return answers[form](problem)
        if is_layer:
            return self._lowered_answer(problem)
        if problem.grad_output is not None:
            return self._answer_with_gradients(problem)
        sizes = problem.sizes
        return self._perform(problem, _list_inputs(problem), {},
                             (sizes.B, sizes.H, sizes.T, sizes.Dv))

    def scale_width(self, problem: Problem) -> int:
        """Returns the width whose root divides logits: D, or the lowered layer's head width."""
        is_layer = self.declaration.kind is Kind.LAYER
        return head_width(problem.sizes, self.declaration.limits) if is_layer else problem.sizes.D

    def lacks(self, keywords: frozenset[str]) -> str:
        """Says why a problem with these keywords cannot be put to the subject; empty if it can."""
        missing = sorted(keywords - self.declaration.keywords)
        if GRAD in missing and GRAD not in self.refused_words:
            return self._without_gradients()
        if refused := next((name for name in missing if name in self.refused_words), ""):
            return f"{self.id} refuses {refused} ({self.refused_words[refused]})"
        return f"{self.id} takes no {' and no '.join(missing)}" if missing else ""

    def _without_gradients(self) -> str:
        if refuses_gradients(self.declaration):
            return f"{self.id} gives no gradients, as it declares"
        if can_differentiate(self.declaration):
            return APART.format(self.id)
        if self.declaration.lift and (noun := _name_undifferentiated(self.declaration)):
            return f"gradients of {noun} are not judged"
        return f"{self.id} has no backward pass"

    def refuses(self, problem: Problem | LayerProblem | RotaryProblem) -> str:
        """Says which keyword or limit keeps a problem from the subject; empty if none does."""
        if isinstance(problem, RotaryProblem):
            return next(filter(None, self._rotary_misfits(problem)), "")
        return next(filter(None, self._list_misfits(problem)), "")

    def _rotary_misfits(self, problem: RotaryProblem) -> Iterator[str]:
        if self.declaration.kind is not Kind.ROTARY:
            yield f"{self.id} is not a rotary embedding"
        if problem.dtype not in self.declaration.dtypes:
            yield f"{self.id} does not support {problem.dtype.value}"
        yield self._misfit_of_sizes(self.declaration.limits, problem.sizes, problem.given)
        yield self.lacks(problem.keywords)

    def _list_misfits(self, problem: Problem | LayerProblem) -> Iterator[str]:
        """Yields what stands against the problem; "" where something does not."""
        declaration, limits = self.declaration, self.declaration.limits
        sizes, given = problem.sizes, problem.given
        if declaration.kind is Kind.ROTARY:
            yield f"{self.id} is a rotary embedding"
        if problem.dtype not in declaration.dtypes:
            yield f"{self.id} does not support {problem.dtype.value}"
        yield from self._misfits_of_inputs(problem)
        if isinstance(problem, Problem):
            yield from (part.misfit(problem, limits, declaration.form) for part in load_parts("arrays")
                        if not declaration.keywords.isdisjoint(part.ARRAYS))
        if GRAD in given and isinstance(problem, Problem):
            without = "" if can_differentiate(declaration) else self._without_gradients()
            yield self.backward.why_no_gradients(problem, limits) if self.backward else without
        if declaration.kind is Kind.LAYER:
            misfit = lowering_misfit(_count_new_keys(problem), limits)
            yield misfit or _own_layout(problem, "a layer's inputs are made by the lowering")
            limits = replace(limits, ties_value_width=False)  # lowering makes it as wide as needed
        elif isinstance(problem, LayerProblem):
            yield f"{self.id} is not a layer"
        if problem.has_past and not limits.takes_behind_past(sizes.T, problem.key.shape[-2]):
            yield (f"{self.id} takes only as many new keys as queries where there is a past; here "
                   f"{_count_new_keys(problem)}")
        yield self._misfit_of_sizes(limits, sizes, given)
        yield self.lacks(frozenset(given))

    def _misfits_of_inputs(self, problem: Problem | LayerProblem) -> Iterator[str]:
        """Yields what stands against the problem's arrays, and against its keywords."""
        limits, form, given = self.declaration.limits, self.declaration.form, problem.given
        if not limits.broadcasts and not _at_full_shape(given, problem.sizes):
            yield f"{self.id} takes masks and biases at full shape only"
        if limits.contiguous_features and not _has_contiguous_features(problem):
            yield (f"{self.id} takes inputs that are contiguous along their last axis only"
                   f"{self._words_for(GAPS)}")
        if limits.contiguous and not is_contiguous(problem):
            yield f"{self.id} takes contiguous inputs only{self._words_for(STRIDED)}"
        if form in _MADE_FIELDS:
            yield _own_layout(problem, _MADE_FIELDS[form])
        is_ragged = problem.key.shape[-2] != problem.value.shape[-2]
        if is_ragged and form is InputForm.PAGED:
            yield "a page holds a value for every key"
        elif is_ragged and limits.one_memory:
            yield "one input serves as key and value"
        if limits.causal_only and "causal" not in given:
            yield f"{self.id} is always causal{self._words_for(WITHOUT_CAUSAL)}"
        for name, value in given.items():
            if reason := limits.misfit(name, value, causal="causal" in given):
                yield f"{self.id} takes {reason}; here {value}"
        segments = (given.get(name, ()) for name in SEGMENTED)
        if limits.segments_are_shared and not np.array_equal(*segments):
            yield f"{self.id} takes one array of segments, for queries and keys"
        if limits.mask_axes != "BHTS" and _varies(given.get("mask"), limits.mask_axes):
            yield f"{self.id} takes masks that differ along {', '.join(limits.mask_axes)} only"

    def refuses_sizes(self, sizes: Sizes, keywords: Collection[str]) -> str:
        """Says why attention of these sizes and keywords cannot be put to it; empty if it can."""
        return self._misfit_of_sizes(self.declaration.limits, sizes, keywords)

    def _misfit_of_sizes(self, limits: Limits, sizes: Sizes, keywords: Collection[str]) -> str:
        reason = limits.misfit_of(sizes.by_axis, keywords)
        return f"{self.id} {reason}{self._words_for(reason)}; here {sizes}" if reason else ""

    def _words_for(self, reason: str) -> str:
        """Returns what the function said where it is known to refuse it."""
        words = self.refused_words.get(reason.removeprefix("refuses "), "")
        return f" ({words})" if words else ""

    def variant(self, name: str) -> Subject:
        """Returns the subject with this hidden switch flipped. Raises UsageError for no switch."""
        if name not in self.variants:
            raise UsageError.unknown(f"variant of {self.id}", name, self.variants)
        return self.variants[name]

    @property
    def with_gradients(self) -> Subject:
        """Returns the subject with gradients of its framework, if it can be asked for them."""
        declared = self.declaration
        if not can_differentiate(declared):
            return self
        return replace(self, declaration=replace(declared, keywords=declared.keywords | {GRAD}))

    def card(self, probed: Mapping[str, str], precision: Mapping[str, str]) -> SubjectCard:
        """Returns what a report says of the subject beside its verdicts."""
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
        sizes, out = problem.sizes, problem.params.get("w_out")
        width = sizes.H * sizes.Dv if out is None else out.shape[1]
        params = {"params": problem.params, "heads": problem.heads}
        first = FIRST_STEP if self.declaration.form is InputForm.DECODER else {}
        return self._perform(problem, _list_inputs(problem), {**params, **first},
                             (sizes.B, sizes.T, width))

    def _rotary_answer(self, problem: RotaryProblem) -> SubjectAnswer:
        """Returns what a rotary embedding makes of x (B,H,T,D) at its positions."""
        arrays = {"x": problem.x, POSITIONS: problem.positions}
        keywords = {name: value for name, value in sorted(problem.given.items()) if name not in arrays}
        return self._make_call(Call(arrays, keywords, problem.dtype, (problem.x.shape,), ("output",)))

    def _lowered_answer(self, problem: Problem, whole: Problem | None = None,
                        more: Mapping[str, object] = MappingProxyType({})) -> SubjectAnswer:
        """Returns a layer's answer; whole: the problem with its past, if it has one."""
        lowered = lower_problem(problem, self.declaration.limits)
        params = {"params": lowered.params, "heads": problem.sizes.H, **more}
        if problem.grad_output is not None:
            return self._lowered_gradients(problem, lowered, params)
        answer = self._perform(whole or problem, _list_inputs(lowered), params,
                               lowered.output_shape)
        return replace(answer, output=lowered.heads_of(answer.output))

    def _lowered_gradients(self, problem: Problem, lowered: LoweredProblem,
                           params: Mapping[str, object]) -> SubjectAnswer:
        """Returns the output and the gradients, those of inputs head by head."""
        grad = lowered.output_of(grad_given(problem, self.declaration))
        arrays, keywords = _list_inputs(lowered), {**self._list_keywords(problem), **params}
        once = frozenset(name for name, first in lowered.first_of.items() if name != first)
        limits, backward = self.declaration.limits, self.backward
        if backward is None:
            call = call_of_framework(problem, arrays, keywords, grad, limits, once=once)
            answer = self._make_call(call)
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
        shapes: dict[str, tuple[int, ...]] = {"output": packed.output_shape}
        if problem.return_lse:
            shapes["lse"] = packed.lse_shape
        keywords = {**self.declaration.off, **packed.given_arguments}
        call = Call(arrays, keywords, problem.dtype, tuple(shapes.values()), tuple(shapes))
        answer = self._make_call(call, packed.lays)
        lse = None if answer.lse is None else packed.spread(answer.lse)
        return replace(answer, output=packed.spread(answer.output), lse=lse)

    def _spread_gradients(self, problem: Problem, packed: PackedProblem) -> SubjectAnswer:
        """Returns the output and the framework's gradients, each spread out again."""
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
        """Returns the arguments of one call, as the subject takes them."""
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
        """Returns the output, with gradients of the framework or the backward pass."""
        keywords, grad = self._list_keywords(problem), grad_given(problem, self.declaration)
        limits = self.declaration.limits
        if self.backward is None:
            call = call_of_framework(problem, _list_inputs(problem), keywords, grad, limits)
            return self._make_call(call)
        asks_lse = LSE in self.backward.wants and ASKS_LSE in self.declaration.keywords
        forward = self.answer(problem.but(grad_output=None, **({ASKS_LSE: True} if asks_lse else {})))
        call = call_of_backward(problem, _list_inputs(problem), keywords, grad, limits,
                                kept=self.backward.kept_arrays(forward))
        return self._pull_back(self.backward, call, forward)

    def _pull_back(self, backward: BackwardPass, call: Call,
                   forward: SubjectAnswer) -> SubjectAnswer:
        """Returns the backward pass's gradients with the output of the forward pass."""
        try:
            return replace(self._make_call(backward.as_taken(call)), output=forward.output)
        except UnusableAnswer as unusable:
            raise backward.unusable(unusable.sentence) from None

    def _perform(self, problem: Problem | LayerProblem, arrays: Mapping[str, Array],
                 more: Mapping[str, object],
                 output: tuple[int, ...], lays: Lays = DENSE) -> SubjectAnswer:
        """Calls with these arrays, query (B,H,T,D) or (B,T,M); output: the shape that is due."""
        keywords = {**more, **self._list_keywords(problem)}
        shapes = {"output": output}
        if problem.return_weights:
            shapes["weights"] = self._weights_shape(problem)
        if problem.return_lse:
            shapes["lse"] = problem.query.shape[:3]
        call = Call(arrays, keywords, problem.dtype, tuple(shapes.values()), tuple(shapes))
        return self._make_call(call, lays)

    def hand_over(self, arrays: Mapping[str, Array], keywords: Mapping[str, object],
                  lays: Lays = DENSE) -> tuple[Mapping[str, Array], Mapping[str, object]]:
        """Brings arrays, query (B,H,T,D) and its like, into the storage that is taken."""
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
        """Renames keywords as the function has them; a backward pass has attnspec's names."""
        spelled = {} if call.is_backward else self.declaration.spelled
        if spelled.keys().isdisjoint(call.keywords):
            return call
        keywords = {spelled.get(name, name): value for name, value in call.keywords.items()}
        return replace(call, keywords=keywords)

    def _list_keywords(self, problem: Problem | LayerProblem) -> Mapping[str, object]:
        """Returns the keywords in use; a mask becomes a bias if only that is taken."""
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
    """Names what a reader calls subjects that no framework differentiates; else ""."""
    if takes_no_numbers(declaration):
        return str(next(part.CALLED for part in load_parts("limits")))
    called = {InputForm.PAGED: "functions that read pages", InputForm.DECODER: "decoders"}
    return called.get(declaration.form, "")


def _at_full_shape(given: Mapping[str, Any], sizes: Sizes) -> bool:
    full = (sizes.B, sizes.H, sizes.T, sizes.S)
    return all(array.shape == full for name, array in given.items() if AXES.get(name) == "BHTS")


def _varies(mask: Array | None, axes: str) -> bool:
    """Says whether a mask, (B,H,T,S) or of its last axes, differs along another axis."""
    if mask is None:
        return False
    others = (at - 4 for at, axis in enumerate("BHTS") if axis not in axes)
    return any(-at <= mask.ndim and (mask != mask.take([0], at)).any() for at in others)


def _has_contiguous_features(problem: Problem | LayerProblem) -> bool:
    """Says whether features are contiguous; kernels look even at a single feature's stride."""
    arrays = (problem.query, problem.key, problem.value)
    return all(array.strides[-1] == array.itemsize for array in arrays)


def is_contiguous(problem: Problem | LayerProblem) -> bool:
    """Says whether query, key and value lie in memory without gaps, in the order of their axes."""
    return all(array.flags.c_contiguous for array in (problem.query, problem.key, problem.value))


def _count_new_keys(problem: Problem | LayerProblem) -> Sizes:
    """Returns the sizes of the call alone: S counts its new keys."""
    return replace(problem.sizes, S=problem.key.shape[-2])


def _own_layout(problem: Problem | LayerProblem, because: str) -> str:
    """Says why a subject cannot be asked about a memory layout; empty if it is not asked."""
    arrays = (problem.query, problem.key, problem.value, problem.given.get(GRAD))
    is_plain = all(array is None or array.flags.c_contiguous for array in arrays)
    return "" if is_plain else f"{because}, so it is not asked about their layout"


def _write_limit(limit: object) -> str:
    return ", ".join(map(str, limit)) if isinstance(limit, tuple) else str(limit)


def _as_bias(problem: Problem | LayerProblem) -> Array:
    """Returns the mask (B,H,T,S) as a bias: -inf where a key is hidden, else the bias or 0."""
    assert problem.mask is not None
    bias = np.zeros((), problem.query.dtype) if problem.bias is None else problem.bias
    return np.where(problem.mask, bias, np.array(-np.inf, problem.query.dtype))


def _list_inputs(problem: (Problem | LayerProblem | LoweredProblem
                           | PackedProblem)) -> Mapping[str, Array]:
    """Returns query (B,H,T,D), key and value, in whatever form they are."""
    return {"query": problem.query, "key": problem.key, "value": problem.value}


@dataclass(frozen=True, slots=True)
class VariantCallee:
    """A callee of whose function another form is called; name: what makes that form."""

    callee: Callee
    form: str
    name: str

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """Returns the form's answer; rows (T,). Raises FormNotMade where there is none."""
        try:
            form = FrameworkForm(self.form, tuple(_list_batched(call)))
            return self.callee.perform(replace(call, form=form), rows)
        except FormNotMade as refused:
            raise FormNotMade(f"{self.name} refuses it ({refused})") from None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)


def _list_batched(call: Call) -> Iterator[str]:
    """Yields the arguments, of any shape, whose first axis is the batch."""
    yield from call.arrays
    entries = call.arrays["query"].shape[0]
    for name, value in call.keywords.items():
        axes, shape = AXES.get(name, ""), np.shape(value) if isinstance(value, np.ndarray) else ()
        if axes.startswith("B") and len(axes) == len(shape) and shape[0] == entries:
            yield name


def add_made_variants(subject: Subject, forms: Iterable[str]) -> Subject:
    """Adds these forms of the function, if its framework can be asked for them."""
    declared = subject.declaration
    if why_no_form(declared):
        return subject
    made: dict[str, Subject] = {}
    for form in sorted(forms):
        name = called_there(form, declared.lift)
        made[form] = replace(subject.with_gradients, id=f"{subject.id}[{name}]", variants={},
                             callee=VariantCallee(subject.callee, form, name), backward=None)
    return replace(subject, made=made)


def why_no_form(declaration: Declaration) -> str:
    """Says why no other form is made of what is declared so; empty if one is."""
    if not declaration.lift:
        return "it takes NumPy arrays, of whose functions no framework makes another form"
    if declaration.form is not InputForm.DENSE or declaration.kind is Kind.ROTARY:
        return "other forms are made of attention in the usual layout alone"
    return ""
