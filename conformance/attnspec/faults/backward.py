"""One backward pass in stages. A fault edits the result of one stage; a sound formulation computes
stages in another way.

Half dtypes and float32 are computed in float32, float64 in float64. By default every gradient is
rounded once. Axes: query (B,H,T,D), key (B,H,S,D) and value (B,H,S,Dv) with one head for each
query head, grad (B,H,T,Dv). A sink is one more key behind the others, of zeros, whose logit is the
sink.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast

import ml_dtypes
import numpy as np

from attnspec.core.keyword import GRAD
from attnspec.core.keywords import OFF
from attnspec.core.nouns import DType
from attnspec.faults import staged as forward
from attnspec.faults.fault import Fault
from attnspec.faults.staged import add_by_place, ahead, staged
from attnspec.faults.staged_work import (
    HandedOver,
    added_logits,
    bend_logits,
    bend_slope,
    own_queries,
    weight_factors,
    wide_dtype,
)
from attnspec.problems.problem import Array

Stored = Literal["logits", "weights", "kept", "products", "grads", "scaled", "group", "partial"]
"""What may be rounded to the dtype of the inputs on the way: logits, P before its product with the
output's gradient, P as it meets dP, dP, dS, the scaled dS, a head's dK and dV, partial sums.
"""


@dataclass(frozen=True, slots=True)
class BackwardMethod:
    """How a backward pass is computed.

    stored: what is rounded to the dtype of the inputs on the way.  delta: what is summed for it:
    P·dP, or dO times the output as it was returned (`output`) or before it was rounded
    (`wide_output`). is_recomputed: P is exp(logit - logsumexp), by 2^x if `base_two`.  block: how
    many terms are summed at once; 0: all.  scaling: what is multiplied by the scale.  is_apart: dS
    is P·dP - P·delta.  is_reversed: sums run from last to first.
    """

    stored: frozenset[Stored] = frozenset()
    delta: Literal["products", "output", "wide_output"] = "wide_output"
    is_recomputed: bool = True
    block: int = 0
    scaling: Literal["logit", "query", "both"] = "logit"
    is_float64: bool = False
    is_apart: bool = False
    is_reversed: bool = False
    base_two: bool = False
    uses_einsum: bool = False


USUAL_METHOD = BackwardMethod()


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """The inputs of a backward pass, in the dtype of the computation.

    added (B,H,T,S): what is added to the logits.  visible (B,H,T,S): the mask.  factor: the scale.
    keys: how many there are without a sink.  kv_heads: how many heads keys and values had.
    """

    call: HandedOver
    query: Array
    key: Array
    value: Array
    grad: Array
    added: Array | None
    visible: Array
    factor: float
    keys: int
    kv_heads: int

    @property
    def wide(self) -> np.dtype[Any]:
        """The dtype of the computation."""
        return self.query.dtype


@dataclass(frozen=True, slots=True, eq=False)
class BackwardValues:
    """The values that a backward pass has computed so far.

    (B,H,T,S): bent, logits, exponentials, weights, products, scores (dS), slope, and the factor of
    weights that are dropped; (B,H,T,1): total, lse, delta; (B,H,T,Dv): output, returned.
    """

    taken: Taken
    way: BackwardMethod
    bent: Array
    logits: Array
    exponentials: Array
    total: Array
    weights: Array
    lse: Array
    output: Array
    returned: Array
    products: Array = field(default_factory=lambda: np.zeros(0))
    delta: Array = field(default_factory=lambda: np.zeros(0))
    scores: Array = field(default_factory=lambda: np.zeros(0))
    slope: Array = field(default_factory=lambda: np.zeros(0))
    factor: Array | None = None

    def but(self, **changes: Any) -> BackwardValues:  # noqa: ANN401  (the fields have types of their own)
        """The same with some fields replaced."""
        return replace(self, **changes)

    def keep_in(self, what: Stored, array: Array) -> Array:
        """An array of any shape, rounded to the dtype of the inputs if the method stores it so."""
        return array.astype(self.taken.call.query.dtype).astype(array.dtype) if what in self.way.stored else array


Spot = Literal["lse", "weights", "value_weights", "grad", "value_grad", "products", "delta", "wide_scores", "scores",
               "slope", "factor", "query_dots", "key_dots", "query_scale", "key_scale", "query_keys", "key_queries",
               "query_result", "key_result", "value_result", "key_sum", "value_sum", "full_bias", "bias_sum",
               "sinks_sum"]
Edit = Callable[[Array, BackwardValues], Array]
Edits = Mapping[Spot, Edit]
Reread = Callable[[HandedOver], HandedOver]


class AttendBackward(Protocol):
    """The contract of a backward pass."""

    def __call__(self, query: Array, key: Array, value: Array, grad_output: Array,
                 **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        """The gradients by the inputs' names, each in its input's shape and dtype.

        query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv); grad_output (B,H,T,Dv): the output's
        gradient.
        """


def backward(call: HandedOver, grad: Array, way: BackwardMethod = USUAL_METHOD, edits: Edits | None = None,
             reread: Reread | None = None) -> dict[str, Array]:
    """The gradients of a call, given that of its output, grad (B,H,T,Dv).

    edits: what a fault changes, by stage.  reread: the call as the backward pass reads it.
    """
    edits = edits or {}
    with np.errstate(all="ignore"):
        known = _forward(take(call, grad, way), way)
        if known.factor is not None:
            known = known.but(factor=_edit_stage("factor", known.factor, known, edits))
        if way.is_recomputed:
            known = _recompute_weights(known, edits, reread)
        known = known.but(weights=_edit_stage("weights", known.weights, known, edits))
        wide = _edit_stage("grad", known.taken.grad, known, edits)
        known = known.but(taken=replace(known.taken, grad=wide))
        return _results(_with_scores(known, edits), edits)


def take(call: HandedOver, grad: Array, way: BackwardMethod) -> Taken:
    """The inputs of a backward pass: a call and the output's gradient (B,H,T,Dv), widened."""
    work = forward.prepare(call)
    wide = np.dtype(np.float64) if way.is_float64 else wide_dtype(call.query.dtype)
    query, key, value = (np.asarray(array).astype(wide) for array in (work.query, work.key, work.value))
    added = add_by_place(forward.add_bias(np.zeros(work.shape, wide), work), work)
    has_added = call.bias is not None or added_logits(work, ahead(work), wide) is not None
    visible = work.visible & _own_queries(call, work.shape)
    widened = np.where(visible, added, 0).astype(wide) if has_added else None
    taken = Taken(call, query, key, value, np.asarray(grad).astype(wide), widened, visible,
                  forward.scale(work), key.shape[2], np.shape(call.key)[1])
    return taken if call.sinks is None else _with_sink(taken, call.sinks)


def _own_queries(call: HandedOver, shape: tuple[int, ...]) -> Array:
    """(B,1,T,1): the queries that each batch entry has; shape: (B,H,T,S)."""
    own = own_queries(call, shape[2])
    return np.ones((1, 1, 1, 1), bool) if own is None else own


def _with_sink(taken: Taken, sinks: Array) -> Taken:
    """The inputs with one more key, whose logit is the head's sink, of sinks (H,)."""
    B, H, T, S = taken.visible.shape
    added = np.zeros((B, H, T, S + 1), taken.wide)
    added[..., :S] = 0 if taken.added is None else taken.added
    added[..., S] = np.where(np.isneginf(sinks), 0, sinks)[:, None]
    shown = np.broadcast_to(~np.isneginf(sinks)[:, None, None], (B, H, T, 1))
    shown = shown & _own_queries(taken.call, (B, H, T, S))
    key, value = (np.pad(array, [(0, 0), (0, 0), (0, 1), (0, 0)]) for array in (taken.key, taken.value))
    return replace(taken, key=key, value=value, added=added, visible=np.concatenate([taken.visible, shown], axis=-1))


def _forward(taken: Taken, way: BackwardMethod) -> BackwardValues:
    """The forward pass, with all values that the backward pass may use."""
    none = np.zeros(0, taken.wide)
    known = BackwardValues(taken, way, none, none, none, none, none, none, none, none)
    known = _with_logits(known)
    top = np.where(taken.visible, known.logits, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isneginf(top), 0, top).astype(taken.wide)
    exponentials = np.where(taken.visible, np.exp(known.logits - top), 0).astype(taken.wide)
    total = exponentials.sum(axis=-1, keepdims=True)
    total = np.where(total == 0, 1, total).astype(taken.wide)
    weights = exponentials / total
    known = known.but(factor=_factor(taken))
    kept = known.keep_in("weights", _drop_weights(known, weights))
    output = _product(known, kept, _clean(taken.value), None)
    returned = output.astype(taken.call.query.dtype).astype(taken.wide)
    return known.but(exponentials=exponentials, total=total, weights=weights, lse=top + np.log(total),
                     output=output, returned=returned)


def _factor(taken: Taken) -> Array | None:
    """What the weights are multiplied by, (B,H,T,S), a sink's by 1; None if none is dropped."""
    B, H, T, S = taken.visible.shape
    factor = weight_factors(taken.call, (B, H, T, taken.keys))
    if factor is None:
        return None
    return np.pad(factor, [(0, 0), (0, 0), (0, 0), (0, S - taken.keys)], constant_values=1).astype(taken.wide)


def _drop_weights(known: BackwardValues, array: Array) -> Array:
    """An array (B,H,T,S), with 0 where a weight is dropped."""
    return array if known.factor is None else (array * known.factor).astype(array.dtype)


def _clean(array: Array) -> Array:
    """An array of any shape, with 0 for what is not finite."""
    return np.where(np.isfinite(array), array, 0)


def _with_logits(known: BackwardValues) -> BackwardValues:
    """The values with logits, before and after what is added to them."""
    taken, a = known.taken, known.taken.wide.type(known.taken.factor)
    left, right, after = taken.query, taken.key, a
    if known.way.scaling == "query":
        left, after = taken.query * a, taken.wide.type(1)
    if known.way.scaling == "both":
        root = np.sqrt(np.abs(a))
        left, right, after = taken.query * root * np.sign(a), taken.key * root, taken.wide.type(1)
    keep = functools.partial(known.keep_in, "logits")
    scaled = keep(keep(left @ _clean(right).swapaxes(-1, -2)) * after)
    bent = bend_logits(scaled, taken.call, keep)
    return known.but(bent=bent, logits=bent if taken.added is None else keep(bent + taken.added))


def _recompute_weights(known: BackwardValues, edits: Edits, reread: Reread | None) -> BackwardValues:
    """The values with weights that follow from logits and log-sum-exp."""
    lse = _edit_stage("lse", known.lse, known, edits)
    taken = known.taken
    if reread is not None:
        read = take(reread(taken.call), taken.grad, known.way)
        taken = replace(read, call=replace(read.call, bias=taken.call.bias), grad=taken.grad)
    known = _with_logits(known.but(taken=taken, lse=lse))
    base = taken.wide.type(np.log2(np.e) if known.way.base_two else 1)
    power = np.exp2 if known.way.base_two else np.exp
    shown = taken.visible & (known.exponentials > 0).any(axis=-1, keepdims=True)
    return known.but(weights=np.where(shown, power(known.logits * base - lse * base), 0).astype(taken.wide))


def _with_scores(known: BackwardValues, edits: Edits) -> BackwardValues:
    """The values with dP, delta and dS."""
    taken = known.taken
    products = known.keep_in("products", taken.grad @ _clean(taken.value).swapaxes(-1, -2))
    products = known.keep_in("products", _drop_weights(known, products))
    known = known.but(products=_edit_stage("products", products, known, edits))
    kept = known.keep_in("kept", known.weights)
    if known.way.delta == "products":
        terms = kept * known.products
    else:
        terms = taken.grad * (known.returned if known.way.delta == "output" else known.output)
    delta = _edit_stage("delta", terms.sum(axis=-1, keepdims=True), known, edits)
    known = known.but(delta=delta.astype(taken.wide))
    if known.way.is_apart:
        scores = kept * known.products - kept * known.delta
    else:
        scores = kept * (known.products - known.delta)
    scores = known.keep_in("grads", _edit_stage("wide_scores", scores, known, edits).astype(taken.wide))
    return known.but(scores=_edit_stage("scores", scores, known, edits).astype(taken.wide))


def _dots(known: BackwardValues, edits: Edits) -> tuple[Array, BackwardValues]:
    """The gradient of the scaled dot products, dX (B,H,T,S), and the values with the slope."""
    taken = known.taken
    slope = bend_slope(known.bent, taken.call)
    if slope is None:
        return known.scores, known
    known = known.but(slope=_edit_stage("slope", slope, known, edits).astype(taken.wide))
    return known.keep_in("grads", known.scores * known.slope), known


def _results(known: BackwardValues, edits: Edits) -> dict[str, Array]:
    """The gradients by name, in the shapes and dtypes of the inputs."""
    dots, known = _dots(known, edits)
    taken, io = known.taken, known.taken.call.query.dtype
    results = {**_of_dots(known, edits, dots), "value": _of_value(known, edits)}
    scores = _edit_stage("full_bias", known.scores[..., :taken.keys], known, edits)
    if taken.call.bias is not None:
        summed = _unbroadcast(scores, np.shape(taken.call.bias))
        results["bias"] = _edit_stage("bias_sum", summed, known, edits)
    gradients = {name: np.ascontiguousarray(array).astype(io) for name, array in results.items()}
    if taken.call.sinks is not None:
        summed = known.scores[..., taken.keys].sum(axis=(0, 2))
        summed = _edit_stage("sinks_sum", summed, known, edits)
        gradients["sinks"] = np.ascontiguousarray(summed).astype(taken.call.sinks.dtype)
    return gradients


def _of_dots(known: BackwardValues, edits: Edits, dots: Array) -> dict[str, Array]:
    """The gradients of query (B,H,T,D) and key (B,Hkv,S,D), given dX (B,H,T,S)."""
    taken, a = known.taken, np.asarray(known.taken.factor, known.taken.wide)
    left = _edit_stage("query_dots", dots, known, edits)
    right = _edit_stage("key_dots", dots, known, edits)
    of_query = taken.wide.type(_edit_stage("query_scale", a, known, edits))
    of_key = taken.wide.type(_edit_stage("key_scale", a, known, edits))
    if "scaled" in known.way.stored:
        left, right = known.keep_in("scaled", left * of_query), known.keep_in("scaled", right * of_key)
        of_query = of_key = taken.wide.type(1)
    keys = _clean(_edit_stage("query_keys", taken.key, known, edits))
    query = _edit_stage("query_result", _product(known, left, keys) * of_query, known, edits)
    queries = _edit_stage("key_queries", taken.query, known, edits)
    key = _product(known, right[..., :taken.keys].swapaxes(-1, -2), queries) * of_key
    key = _edit_stage("key_result", known.keep_in("group", key), known, edits)
    known = known.but(products=key)
    return {"query": query, "key": _edit_stage("key_sum", fold(key, taken.kv_heads), known, edits)}


def _of_value(known: BackwardValues, edits: Edits) -> Array:
    """The gradient of the value (B,Hkv,S,Dv)."""
    weights = known.keep_in("weights", _drop_weights(known, known.weights))
    weights = _edit_stage("value_weights", weights, known, edits)
    grad = _edit_stage("value_grad", known.taken.grad, known, edits)
    value = _product(known, weights[..., :known.taken.keys].swapaxes(-1, -2), grad)
    value = _edit_stage("value_result", known.keep_in("group", value), known, edits)
    return _edit_stage("value_sum", fold(value, known.taken.kv_heads), known.but(products=value), edits)


def _edit_stage(spot: Spot, array: Array, known: BackwardValues, edits: Edits) -> Array:
    """An array of any shape as a stage leaves it, edited by a fault of that stage."""
    return np.asarray(edits[spot](array, known)) if spot in edits else array


def _product(known: BackwardValues, one: Array, other: Array, stored: Stored | None = "partial") -> Array:
    """(B,H,T,S), (B,H,S,D) -> (B,H,T,D): the matrix product, in the method's blocks and order."""
    if known.way.uses_einsum:
        return np.einsum("bhij,bhjk->bhik", one, other)
    length = one.shape[-1]
    step = known.way.block or max(1, length)
    total = np.zeros((*one.shape[:-1], other.shape[-1]), one.dtype)
    starts = range(0, length, step)
    for start in reversed(starts) if known.way.is_reversed else starts:
        total = total + one[..., start:start + step] @ other[..., start:start + step, :]
        total = known.keep_in(stored, total) if stored else total
    return total


def fold(array: Array, kv_heads: int) -> Array:
    """The sum over the query heads of each group: (B,H,S,·) -> (B,Hkv,S,·)."""
    B, H, *rest = array.shape
    return array.reshape(B, kv_heads, H // kv_heads, *rest).sum(axis=2)


def _unbroadcast(array: Array, shape: tuple[int, ...]) -> Array:
    """An array (B,H,T,S), summed to any shape that broadcasts to it."""
    full = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(axis for axis, length in enumerate(full) if length == 1 < array.shape[axis])
    return array.sum(axis=axes, keepdims=True).reshape(shape)


def as_backward(way: BackwardMethod = USUAL_METHOD, edits: Edits | None = None,
                reread: Reread | None = None) -> AttendBackward:
    """A backward pass, as a function of arrays and keywords."""

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad (B,H,T,Dv) -> gradients."""
        return backward(HandedOver(query, key, value, **keywords), grad_output, way, edits, reread)

    return attend_backward


BLOCK = 16
BFLOAT16, FLOAT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)


def times(factor: float) -> Edit:
    """An edit that multiplies an array of any shape by a number."""
    return lambda array, _: array * array.dtype.type(factor)


def store_in(dtype: np.dtype[Any]) -> Edit:
    """An edit that stores an array of any shape in another dtype."""
    return lambda array, _: array.astype(dtype).astype(array.dtype)


def cut_to_16_bits(array: Array, known: BackwardValues) -> Array:
    """An array of any shape, cut to the upper half of the bits of float32."""
    return (array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(array.dtype)


def _tf32(array: Array) -> Array:
    """An array of any shape, rounded to ten bits behind the point."""
    bits = array.astype(np.float32).view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(array.dtype)


def products_tf32(array: Array, known: BackwardValues) -> Array:
    """The products dP (B,H,T,S) of inputs in TF32."""
    return _tf32(known.taken.grad) @ _tf32(known.taken.value).swapaxes(-1, -2)


def places(known: BackwardValues) -> tuple[Array, Array]:
    """The places of the queries, (T,1), and of the keys without a sink, (S,)."""
    return np.arange(known.taken.query.shape[2])[:, None], np.arange(known.taken.key.shape[2])


def where(chosen: Callable[[Array, Array], Array], make: Callable[[Array, BackwardValues], Array]) -> Edit:
    """An edit of the entries (B,H,T,S) at chosen places of queries (T,1) and keys (S,)."""
    def edit(array: Array, known: BackwardValues) -> Array:
        """(B,H,T,S)."""
        return np.where(chosen(*places(known)), make(array, known), array)
    return edit


def take_neighbour(axis: int) -> Edit:
    """An edit that takes the neighbour's entry along an axis, any shape."""
    return lambda array, _: np.roll(array, 1, axis)


def zero(array: Array, known: BackwardValues) -> Array:
    """An array of any shape, replaced by zeros."""
    return np.zeros_like(array)


def last_block(keys: Array) -> Array:
    """Which of the keys (S,) are in the last block."""
    return keys >= (len(keys) - 1) // BLOCK * BLOCK


def first_of_group(array: Array, known: BackwardValues) -> Array:
    """What the first query head of each group contributes, (B,Hkv,S,·)."""
    return _groups(array, known)[:, :, 0]


def mean_of_group(array: Array, known: BackwardValues) -> Array:
    """The mean over the query heads of each group, (B,Hkv,S,·)."""
    return _groups(array, known).mean(axis=2)


def groups_by_turns(array: Array, known: BackwardValues) -> Array:
    """The sum over every Hkv-th query head, (B,Hkv,S,·)."""
    heads = known.products
    return heads.reshape(heads.shape[0], -1, array.shape[1], *heads.shape[2:]).sum(axis=1)


def _groups(array: Array, known: BackwardValues) -> Array:
    """What each query head contributes to (B,Hkv,S,·): (B,Hkv,G,S,·)."""
    heads = known.products
    return heads.reshape(heads.shape[0], array.shape[1], -1, *heads.shape[2:])


def reread(**changes: Any) -> Reread:  # noqa: ANN401  (the fields have types of their own)
    """How the backward pass reads a call: keywords are changed, to a value or by a function."""
    def read(call: HandedOver) -> HandedOver:
        return call.but(**{name: change(call) if callable(change) else change for name, change in changes.items()})
    return read


def reread_without(keyword: str) -> Reread:
    """How the backward pass reads a call: without one keyword."""
    return reread(**{keyword: OFF[keyword]})


def drop_tenths(array: Array, known: BackwardValues) -> Array:
    """Weights (B,H,T,S), of which every tenth is dropped and the others grow."""
    kept = np.arange(array.size).reshape(array.shape) % 10 != 7
    return (array * kept / array.dtype.type(0.9)).astype(array.dtype)


def of_short_logarithm(array: Array, known: BackwardValues) -> Array:
    """Weights (B,H,T,S) by 2^x, with a log2(e) of four digits."""
    return (array * np.exp(array.dtype.type(-1.5e-4) * (known.logits - known.lse))).astype(array.dtype)


def with_epsilon(array: Array, known: BackwardValues) -> Array:
    """Weights (B,H,T,S) whose sum has an epsilon added."""
    return known.exponentials / (known.total + array.dtype.type(1e-5))


def misread(array: Array, known: BackwardValues) -> Array:
    """A gradient (B,H,T,Dv), read as if it lay (B,H,Dv,T)."""
    return np.ascontiguousarray(array).reshape(*array.shape[:2], array.shape[3], array.shape[2]).swapaxes(-1, -2)


def heads_misread(array: Array, known: BackwardValues) -> Array:
    """A gradient (B,H,T,Dv), read as if it lay (B,T,H,Dv)."""
    B, H, T, Dv = array.shape
    return np.ascontiguousarray(array).reshape(B, T, H, Dv).swapaxes(1, 2)


def empty_rows(known: BackwardValues) -> Array:
    """Which rows see no key, (B,H,T,1)."""
    return np.asarray(~known.taken.visible.any(axis=-1, keepdims=True))


def gradient_fault(name: str, story: str, reach: str = "gradients", way: BackwardMethod = USUAL_METHOD,
                   reread: Reread | None = None, *, same: Mapping[DType, str] | None = None, **edits: Edit) -> Fault:
    """A fault of the backward pass beside a sound forward pass.

    same: dtypes at which it cannot be told from rounding, and why.  edits: by stage, what it
    changes.
    """
    made = cast(Edits, edits)  # keywords are spots
    return Fault(f"grad_{name}", GRAD, story, reach, staged(), equivalents=same or {},
                 backward=lambda: as_backward(way, made, reread))
