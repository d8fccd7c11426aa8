"""Faults of state: they remember, write into their inputs, or read memory in the wrong layout; and
sums whose order depends on more than the row.

Each `make` returns a function with a memory of its own, so a fault that is loaded anew begins
anew, and all is deterministic. Sums in another order are right within rounding, but their bits
change with the batch, with chunks or with padding: each such fault claims that they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import Attend, Stages, around, as_attend, attention, change_output
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array


def _signature(call: HandedOver) -> Hashable:
    """What a compiled graph is chosen by: shapes and dtypes, not contents."""
    arrays = (call.query, call.key, call.value, call.mask, call.bias)
    shapes = (None if array is None else (array.shape, str(array.dtype)) for array in arrays)
    return (*shapes, call.causal, call.return_weights)


@dataclass(slots=True)
class Remembered:
    """Remembers an answer, or an argument, by its shape, and uses the first one for all."""

    argument: str = ""
    kept: dict[Hashable, Any] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer to this call, with what is remembered in place of the argument."""
        if not self.argument:
            return self._answer(call)
        given = getattr(call, self.argument)
        if given is None:
            return attention(call)
        kept = self.kept.setdefault(_signature(call), np.array(given) if isinstance(given, np.ndarray) else given)
        return attention(call.but(**{self.argument: kept}))

    def _answer(self, call: HandedOver) -> Answer:
        place = _signature(call)
        if place not in self.kept:
            self.kept[place] = attention(call)
        kept = self.kept[place]
        return (kept[0].copy(), kept[1].copy()) if call.return_weights else kept.copy()


@dataclass(slots=True)
class AtSomeCalls:
    """Changes the output at some calls; `change` is handed it and the call's number, from 1."""

    change: Callable[[Array, int], Array]
    count: int = 0

    def __call__(self, call: HandedOver) -> Answer:
        """The answer to this call, changed according to its number."""
        self.count += 1
        return change_output(attention(call), lambda output: self.change(output, self.count))


@dataclass(slots=True)
class Buffered:
    """Returns one buffer for each shape, so that the next call overwrites what was returned."""

    kept: dict[Hashable, Array] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer, in the buffer of its shape."""
        return change_output(attention(call), self._fill)

    def _fill(self, output: Array) -> Array:
        """(B,H,T,Dv): the buffer, holding the output."""
        buffer = self.kept.setdefault((output.shape, str(output.dtype)), np.empty_like(output))
        buffer[...] = output
        return buffer


@dataclass(slots=True)
class Accumulating:
    """Adds each output to a buffer that is never cleared."""

    kept: dict[Hashable, Array] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer plus all earlier ones of its shape."""
        return change_output(attention(call), self._add_up)

    def _add_up(self, output: Array) -> Array:
        """(B,H,T,Dv): the sum of the outputs of this shape."""
        place = (output.shape, str(output.dtype))
        self.kept[place] = self.kept[place] + output if place in self.kept else output
        return self.kept[place].copy()


@dataclass(slots=True)
class TriangleCache:
    """Makes the causal mask once for each T; later calls take its last S columns."""

    kept: dict[int, Array] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer under a triangle from the cache."""
        return attention(call, Stages(past=self._past))

    def _past(self, work: PreparedCall) -> Array:
        """The cached triangle, (T,S), cut or filled up with True on the left."""
        _, _, T, S = work.shape
        if not work.causal:
            return sound.past(work)
        kept = self.kept.setdefault(T, sound.triangle(T, S))[:, -S:]
        return np.pad(kept, [(0, 0), (S - kept.shape[1], 0)], constant_values=True)


@dataclass(slots=True)
class Randomised:
    """Drops weights by a generator that runs on from call to call."""

    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __call__(self, call: HandedOver) -> Answer:
        """The answer with one weight in a hundred dropped."""
        return attention(call, Stages(weigh=self._weigh))

    def _weigh(self, weights: Array, work: PreparedCall) -> Array:  # noqa: ARG002  (the stage's signature)
        """Weights (B,H,T,S) with one in a hundred dropped and the others scaled up."""
        return np.where(self.random.random(weights.shape) >= 0.01, weights / 0.99, 0).astype(weights.dtype)


@dataclass(slots=True)
class LastShape:
    """Takes the last row from the call before, if it had the same shape."""

    before: Array | None = None

    def __call__(self, call: HandedOver) -> Answer:
        """The answer, its last row from the call before."""
        answer = attention(call)
        output = answer[0] if isinstance(answer, tuple) else answer
        stale, self.before = self.before, output.copy()
        if stale is not None and stale.shape == output.shape and stale.dtype == output.dtype:
            output[:, :, -1] = stale[:, :, -1]
        return answer


def _remembering(make: Callable[[], Callable[[HandedOver], Answer]]) -> Callable[[], Attend]:
    return lambda: as_attend(make())


def _every(period: int) -> Callable[[Array, int], Array]:
    """A change that turns the output (B,H,T,Dv) into zeros at every `period`-th call."""
    return lambda output, number: np.zeros_like(output) if number % period == 0 else output


_TWICE = "two calls with equal shapes and different contents"

STATE_FAULTS = (
    Fault("stale_output", Stage.STATE, "The output is cached by shape, so later calls get an old one.", _TWICE,
          _remembering(Remembered)),
    Fault("stale_key", Stage.STATE, "The key is cached by shape, so later calls use an old one.",
          _TWICE, _remembering(lambda: Remembered("key"))),
    Fault("stale_value", Stage.STATE, "The value is cached by shape, so later calls use an old one.", _TWICE,
          _remembering(lambda: Remembered("value"))),
    Fault("stale_mask", Stage.STATE, "The mask is cached by shape, so later calls use an old one.",
          f"{_TWICE}, the masks differ", _remembering(lambda: Remembered("mask"))),
    Fault("stale_bias", Stage.STATE, "The bias is cached by shape, so later calls use an old one.",
          f"{_TWICE}, the biases differ", _remembering(lambda: Remembered("bias"))),
    Fault("stale_scale", Stage.STATE, "The scale is cached by shape, so later calls use an old one.",
          "two calls with equal shapes and different scales", _remembering(lambda: Remembered("scale"))),
    Fault("stale_triangle", Stage.STATE, "The causal mask is cached by T alone.",
          "two causal calls with equal T and different S", _remembering(TriangleCache)),
    Fault("stale_last_row", Stage.STATE, "The last row is written after the answer has been returned.", _TWICE,
          _remembering(LastShape)),
    Fault("every_seventh_call_wrong", Stage.STATE, "The output is wrong now and then (a race).",
          "seven calls", _remembering(lambda: AtSomeCalls(_every(7)))),
    Fault("first_call_wrong", Stage.STATE, "The first call returns memory that was never written.", "the first call",
          _remembering(lambda: AtSomeCalls(lambda output, number: np.zeros_like(output) if number == 1 else output))),
    Fault("later_calls_halved", Stage.STATE, "From the second call on the output is halved (a running average).",
          "a second call", _remembering(lambda: AtSomeCalls(
              lambda output, number: output if number == 1 else output * output.dtype.type(0.5)))),
    Fault("output_buffer_reused", Stage.STATE, "One output buffer for each shape is returned again and again.",
          f"{_TWICE}; the first answer changes", _remembering(Buffered)),
    Fault("output_accumulated", Stage.STATE,
          "The outputs of all earlier calls are added to the output (beta=1 in the matrix product).",
          "two calls with outputs of equal shape", _remembering(Accumulating)),
    Fault("dropout_random", Stage.STATE, "Dropout stays on in evaluation.", "any input", _remembering(Randomised)),
)


Parts = Callable[[PreparedCall], Sequence[int]]
"""Where the keys are cut: the ends of the parts whose sums are added up, the last of them S."""

Shift = Callable[[Array], Array]
"""What is taken off logits (B,H,T,S) before the exponential, (B,H,T,1)."""

CLAIMS = ("batch_invariant",)
_TILE = 16
_BLOG = "https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/"


def whole(work: PreparedCall) -> Sequence[int]:
    """One part, from the first key to the last."""
    return (work.shape[3],)


def own_maximum(logits: Array) -> Array:
    """The largest logit of each row: (B,H,T,S) -> (B,H,T,1)."""
    return logits.max(axis=-1, keepdims=True, initial=-np.inf)


def in_parts(parts: Parts, *, shift: Shift = own_maximum) -> Callable[[], Attend]:
    """A maker of attentions that add up the keys as `sum_by_parts` does."""
    return around(lambda call: sum_by_parts(call, parts, shift))


def sum_by_parts(call: HandedOver, parts: Parts, shift: Shift = own_maximum) -> Answer:
    """The answer, keys summed one by one; each part's sum is rounded as the inputs are."""
    return attention(call, _stages(parts, shift, call.query.dtype))


def _stages(parts: Parts, shift: Shift, io: np.dtype[Any]) -> sound.Stages:
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights of logits (B,H,T,S), sinks behind them."""
        top = shift(logits)
        grown = np.exp(logits - np.where(np.isneginf(top), 0, top))
        spans = list(_spans(parts(work)))
        behind = range(work.shape[3], logits.shape[-1])
        total = sum((_sum(grown, span) for span in (*spans, behind)), np.zeros_like(top))
        return grown / np.where(total == 0, 1, total)

    def mix(weights: Array, work: PreparedCall) -> Array:
        """Weighted sums of the values, (B,H,T,Dv)."""
        summed = (_mix_in_order(weights, work, span).astype(io).astype(weights.dtype) for span in _spans(parts(work)))
        return sum(summed, np.zeros((*weights.shape[:3], work.value.shape[-1]), weights.dtype))

    return sound.Stages(logits=_logits, softmax=softmax, mix=mix)


def _spans(ends: Sequence[int]) -> Iterator[range]:
    """The keys of each part, given the parts' ends."""
    return (range(*span) for span in pairwise((0, *ends)))


def _logits(work: PreparedCall, factor: float) -> Array:
    """Scaled dots (B,H,T,S), feature by feature: a matrix product's order depends on sizes."""
    dots = np.zeros(work.shape, work.query.dtype)
    for at in range(work.query.shape[-1]):
        dots = dots + work.query[..., at, None] * work.key[:, :, None, :, at]
    return dots * dots.dtype.type(factor)


def _sum(grown: Array, keys: range) -> Array:
    """The sum of (B,H,T,S) over these keys, one after the other, (B,H,T,1)."""
    total = np.zeros_like(grown[..., :1])
    for at in keys:
        total = total + grown[..., at, None]
    return total


def _mix_in_order(weights: Array, work: PreparedCall, keys: range) -> Array:
    """What these keys add to the output, (B,H,T,Dv), in turn; hidden ones add 0, even if NaN."""
    total = np.zeros((*weights.shape[:3], work.value.shape[-1]), weights.dtype)
    for at in keys:
        added = weights[..., at, None] * work.value[:, :, None, at]
        total = total + np.where(work.visible[..., at, None], added, 0)
    return total


def _evenly(count: Callable[[PreparedCall], int]) -> Parts:
    """So many parts, as equal as possible."""
    def parts(work: PreparedCall) -> Sequence[int]:
        """The ends."""
        S, many = work.shape[3], count(work)
        return [-(-S * (at + 1) // many) for at in range(many)]
    return parts


def _of_tile(logits: Array) -> Array:
    """The largest logit of the sixteen rows that share a tile: (B,H,T,S) -> (B,H,T,1)."""
    own = own_maximum(logits)
    tiles = [np.broadcast_to(own[:, :, at:at + _TILE].max(axis=2, keepdims=True), own[:, :, at:at + _TILE].shape)
             for at in range(0, own.shape[2], _TILE)]
    return np.concatenate(tiles, axis=2) if tiles else own


def _of_batch(logits: Array) -> Array:
    """The largest logit of the same row in all batch entries: (B,H,T,S) -> (B,H,T,1)."""
    own = own_maximum(logits)
    return np.broadcast_to(own.max(axis=0, keepdims=True, initial=-np.inf), own.shape)


def _of_first(logits: Array) -> Array:
    """The largest logit of the row, here or in the first batch entry: (B,H,T,S) -> (B,H,T,1)."""
    own = own_maximum(logits)
    return np.maximum(own, own[:1])


def fault(name: str, story: str, reach: str, make: Callable[[], Attend], stage: str = Stage.BLOCKS) -> Fault:
    """A fault that claims to be invariant, and is not."""
    return Fault(f"invariance_{name}", stage, story, reach, make, link=_BLOG, claims=CLAIMS)


INVARIANCE_FAULTS = (
    fault("parts_by_batch", "The fewer batch entries there are, the more workers share the keys of a row.",
          "one or two batch entries", in_parts(_evenly(lambda work: max(1, 4 // max(work.shape[0], 1))))),
    fault("parts_for_one_query", "The path for a single query (T = 1) divides the keys among four workers.",
          "one query", in_parts(_evenly(lambda work: 4 if work.shape[2] == 1 else 1))),
    fault("parts_for_queries", "The path for three queries or more divides the keys among two workers.",
          "three queries and more", in_parts(_evenly(lambda work: 1 if work.shape[2] < 3 else 2))),
    fault("parts_by_keys", "The keys are cut in the middle of the array, masked ones counted.", "masked keys, chunks",
          in_parts(_evenly(lambda _: 2))),
    fault("maximum_of_first", "What is taken off a row is no less than the maximum of the first batch entry.",
          "several batch entries", in_parts(whole, shift=_of_first), Stage.SOFTMAX),
    fault("maximum_of_tile", "Sixteen queries of a tile share one maximum.", "several queries",
          in_parts(whole, shift=_of_tile), Stage.SOFTMAX),
    fault("maximum_of_batch", "A row's maximum is taken over all batch entries.", "several batch entries",
          in_parts(whole, shift=_of_batch), Stage.SOFTMAX),
)


_LAYOUT = "that is not contiguous"


def _scales_query(call: HandedOver) -> Answer:
    """The query is multiplied by the scale in place."""
    factor = sound.scale(sound.take(call))
    call.query[...] = (call.query.astype(np.float64) * factor).astype(call.query.dtype)
    return attention(call.but(scale=1.0))


def _restores_query(call: HandedOver) -> Answer:
    """The query is scaled in place and back: bits are lost if the scale is no power of two."""
    answer = attention(call)
    factor = sound.scale(sound.take(call)) or 1.0
    scaled = (call.query.astype(np.float64) * factor).astype(call.query.dtype)
    call.query[...] = (scaled.astype(np.float64) / factor).astype(call.query.dtype)
    return answer


def _writes(name: str, make: Callable[[HandedOver], Array]) -> Callable[[HandedOver], Answer]:
    """The answer is right; one input, such as key (B,Hkv,S,D), is overwritten."""
    def answer(call: HandedOver) -> Answer:
        right = attention(call)
        array = getattr(call, name)
        if array is not None and array.flags.writeable:
            array[...] = make(call).astype(array.dtype)
        return right
    return answer


def _hidden_zeroed(call: HandedOver) -> Array:
    """Values (B,Hkv,S,Dv), with 0 where the mask hides a key from all queries, if Hkv = H."""
    if call.mask is None or call.value.shape[1] != call.query.shape[1]:
        return call.value
    shape = (*call.query.shape[:3], call.key.shape[2])
    seen = np.asarray(np.broadcast_to(call.mask, shape).any(axis=2))
    return np.where(seen[..., None], call.value, 0)


def _bias_with_triangle(call: HandedOver) -> Array:
    """The caller's bias (…,T,S), with the causal triangle written into it."""
    assert call.bias is not None
    T, S = call.bias.shape[-2:]
    return np.where(sound.triangle(T, S), call.bias, np.asarray(-np.inf, call.bias.dtype))


def _mask_with_triangle(call: HandedOver) -> Array:
    """The caller's mask (…,T,S), True only within the causal triangle."""
    assert call.mask is not None
    T, S = call.mask.shape[-2:]
    return call.mask & sound.triangle(T, S)


def _value_returned(call: HandedOver) -> Answer:
    """For a single visible key and equal shapes, the value itself is returned, not a copy."""
    return change_output(attention(call), lambda output: call.value if np.array_equal(output, call.value) else output)


def _into_query(call: HandedOver) -> Answer:
    """The output is written over the query where the shapes agree."""
    def overwrite(output: Array) -> Array:
        """(B,H,T,Dv)."""
        if output.shape != call.query.shape or not call.query.flags.writeable:
            return output
        call.query[...] = output
        return call.query
    return change_output(attention(call), overwrite)


def misread(array: Array) -> Array:
    """An input, such as (B,Hkv,S,D), read from its lowest address on as if it were contiguous."""
    if array.flags.c_contiguous:
        return array
    upward = array[tuple(slice(None, None, -1 if step < 0 else 1) for step in array.strides)]
    reach = sum((length - 1) * step for length, step in zip(upward.shape, upward.strides, strict=True))
    memory = np.lib.stride_tricks.as_strided(upward, (reach // array.itemsize + 1,), (array.itemsize,))
    return np.resize(memory, array.shape)


def _last_axis_misread(array: Array) -> Array:
    """An input, such as (B,Hkv,S,D), whose last stride is taken to be one entry."""
    return array if array.strides[-1] == array.itemsize or array.shape[-1] < 2 else misread(array)


def _misreading(*names: str, read: Callable[[Array], Array] = misread) -> Callable[[HandedOver], Answer]:
    """Attention that misreads the inputs of these names, such as query (B,H,T,D)."""
    def answer(call: HandedOver) -> Answer:
        given = {name: getattr(call, name) for name in names}
        return attention(call.but(**{name: read(array) for name, array in given.items() if array is not None}))
    return answer


def _all_misread_with_mask(call: HandedOver) -> Answer:
    return _misreading("query", "key", "value")(call) if call.mask is not None else attention(call)


PURITY_FAULTS = (
    Fault("query_scaled_in_place", Stage.PURITY, "query *= scale.", "any scale other than 1", around(_scales_query)),
    Fault("query_scaled_and_back", Stage.PURITY, "The query is scaled in place, and scaled back.",
          "a scale that is no power of two", around(_restores_query)),
    Fault("query_holds_output", Stage.PURITY,
          "The output is written into the query's memory.", "Dv = D", around(_into_query)),
    Fault("key_cleared", Stage.PURITY, "The key is overwritten: its memory is used as a scratch buffer.", "any input",
          around(_writes("key", lambda call: np.zeros_like(call.key)))),
    Fault("value_cleared_where_hidden", Stage.PURITY, "Masked values are set to zero in the caller's array.",
          "a mask that masks a key for all queries, Hkv = H", around(_writes("value", _hidden_zeroed))),
    Fault("mask_inverted_in_place", Stage.PURITY, "The caller's mask is inverted in place.",
          "a mask", around(_writes("mask", lambda call: ~np.asarray(call.mask)))),
    Fault("mask_holds_triangle", Stage.PURITY, "The causal mask is written into the caller's mask.",
          "a mask that shows a later key", around(_writes("mask", _mask_with_triangle))),
    Fault("bias_holds_triangle", Stage.PURITY, "The causal mask is written into the caller's bias.", "a bias, S > 1",
          around(_writes("bias", _bias_with_triangle))),
    Fault("value_returned_itself", Stage.PURITY, "For a single key the caller's value is returned, not a copy.",
          "S = T = 1 and Hkv = H, no mask that masks it", around(_value_returned)),
    Fault("layout_of_query", Stage.LAYOUT, "The query's strides are ignored.",
          f"a query {_LAYOUT}", around(_misreading("query"))),
    Fault("layout_of_key", Stage.LAYOUT, "The key's strides are ignored.", f"a key {_LAYOUT}",
          around(_misreading("key"))),
    Fault("layout_of_value", Stage.LAYOUT, "The value's strides are ignored.",
          f"a value {_LAYOUT}", around(_misreading("value"))),
    Fault("layout_of_mask", Stage.LAYOUT, "The mask's strides are ignored.", f"a mask {_LAYOUT}",
          around(_misreading("mask"))),
    Fault("layout_of_bias", Stage.LAYOUT, "The bias's strides are ignored.", f"a bias {_LAYOUT}",
          around(_misreading("bias"))),
    Fault("layout_last_axis", Stage.LAYOUT, "The last axis is assumed to have stride 1, as BLAS requires.",
          "an input whose last axis is strided", around(_misreading("query", "key", "value", read=_last_axis_misread))),
    Fault("layout_with_mask", Stage.LAYOUT, "The masked kernel ignores strides, the other one honours them.",
          "a mask, and inputs that are not contiguous", around(_all_misread_with_mask)),
)
