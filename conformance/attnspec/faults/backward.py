"""One staged backward pass. A fault edits what one stage of it makes; a sound formulation takes another way through it.

Half dtypes and float32 are computed in float32, float64 in float64; by default every gradient is rounded once. Axes:
query (B,H,T,D), key (B,H,S,D) and value (B,H,S,Dv) with one head for each query head, grad (B,H,T,Dv). Where there are
sinks, one more key stands behind the others, of zeros, whose logit is the sink.
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
"""What may be rounded to the dtype of the inputs on the way: logits, P before its product with the output's gradient,
P as it meets dP, dP, dS, the scaled dS, a head's dK and dV, partial sums.
"""


@dataclass(frozen=True, slots=True)
class BackwardMethod:
    """How a backward pass is computed. delta: the sum of P·dP, or of dO times the output as it was returned (`output`)
    or before it was rounded (`wide_output`).  is_recomputed: P is exp(logit - logsumexp), by 2^x where `base_two`.
    block: terms that are summed at once; 0: all.  scaling: what is multiplied by the scale.  is_apart: dS is
    P·dP - P·delta.  is_reversed: sums run from last to first.
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
    """A call taken in. added (B,H,T,S): what is added to the logits; visible (B,H,T,S); factor: the scale.  keys: how
    many there are without a sink.  kv_heads: how many heads keys and values had.
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
        """What is computed in."""
        return self.query.dtype


@dataclass(frozen=True, slots=True, eq=False)
class BackwardValues:
    """The values that a backward pass has computed so far.

    (B,H,T,S): bent and logits, exponentials, weights, products, scores (dS), dots (dX), slope; (B,H,T,1): total, lse,
    delta; (B,H,T,Dv): output, returned.  factor (B,H,T,S): of weights that are dropped.
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
        """An array of any shape, rounded to the dtype of the inputs where the way says so."""
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
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), the output's gradient (B,H,T,Dv) -> gradients by the
        names of the inputs, each in its input's shape and dtype.
        """


def backward(call: HandedOver, grad: Array, way: BackwardMethod = USUAL_METHOD, edits: Edits | None = None,
             reread: Reread | None = None) -> dict[str, Array]:
    """The gradients of a call where the output's is grad (B,H,T,Dv). reread: the call as the backward pass has it."""
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
    """The call and the output's gradient (B,H,T,Dv) in the dtype of the computation."""
    work = forward.prepare(call)
    wide = np.dtype(np.float64) if way.is_float64 else wide_dtype(call.query.dtype)
    query, key, value = (np.asarray(array).astype(wide) for array in (work.query, work.key, work.value))
    added = add_by_place(forward.add_bias(np.zeros(work.shape, wide), work), work)
    has_added = call.bias is not None or added_logits(work, ahead(work), wide) is not None
    visible = work.visible & _own_queries(call, work.shape)
    taken = Taken(call, query, key, value, np.asarray(grad).astype(wide), np.where(visible, added, 0).astype(wide)
                  if has_added else None, visible, forward.scale(work), key.shape[2], np.shape(call.key)[1])
    return taken if call.sinks is None else _with_sink(taken, call.sinks)


def _own_queries(call: HandedOver, shape: tuple[int, ...]) -> Array:
    """(B,1,T,1): the queries that each batch entry has; shape: (B,H,T,S)."""
    own = own_queries(call, shape[2])
    return np.ones((1, 1, 1, 1), bool) if own is None else own


def _with_sink(taken: Taken, sinks: Array) -> Taken:
    """The same with one more key; sinks (H,)."""
    B, H, T, S = taken.visible.shape
    added = np.zeros((B, H, T, S + 1), taken.wide)
    added[..., :S] = 0 if taken.added is None else taken.added
    added[..., S] = np.where(np.isneginf(sinks), 0, sinks)[:, None]
    shown = np.broadcast_to(~np.isneginf(sinks)[:, None, None], (B, H, T, 1)) & _own_queries(taken.call, (B, H, T, S))
    longer = [np.pad(array, [(0, 0), (0, 0), (0, 1), (0, 0)]) for array in (taken.key, taken.value)]
    return replace(taken, key=longer[0], value=longer[1], added=added,
                   visible=np.concatenate([taken.visible, shown], axis=-1))


def _forward(taken: Taken, way: BackwardMethod) -> BackwardValues:
    """The forward pass, with all that the backward pass may keep of it."""
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
    output = _product(known, known.keep_in("weights", _drop_weights(known, weights)), _clean(taken.value), None)
    returned = output.astype(taken.call.query.dtype).astype(taken.wide)
    return known.but(exponentials=exponentials, total=total, weights=weights, lse=top + np.log(total), output=output,
                     returned=returned)


def _factor(taken: Taken) -> Array | None:
    """(B,H,T,S): what the weights are multiplied by, a sink's by 1; None where none is dropped."""
    B, H, T, S = taken.visible.shape
    factor = weight_factors(taken.call, (B, H, T, taken.keys))
    if factor is None:
        return None
    return np.pad(factor, [(0, 0), (0, 0), (0, 0), (0, S - taken.keys)], constant_values=1).astype(taken.wide)


def _drop_weights(known: BackwardValues, array: Array) -> Array:
    """Weights, or what is multiplied by the values, (B,H,T,S), with what is dropped at 0."""
    return array if known.factor is None else (array * known.factor).astype(array.dtype)


def _clean(array: Array) -> Array:
    """Of any shape, 0 in the place of what is not finite."""
    return np.where(np.isfinite(array), array, 0)


def _with_logits(known: BackwardValues) -> BackwardValues:
    """With bent and added logits."""
    taken, a = known.taken, known.taken.wide.type(known.taken.factor)
    root = np.sqrt(np.abs(a))
    left, right, after = {"logit": (taken.query, taken.key, a), "query": (taken.query * a, taken.key, 1),
                          "both": (taken.query * root * np.sign(a), taken.key * root, 1)}[known.way.scaling]
    keep = functools.partial(known.keep_in, "logits")
    scaled = keep(keep(left @ _clean(right).swapaxes(-1, -2)) * taken.wide.type(after))
    bent = bend_logits(scaled, taken.call, keep)
    return known.but(bent=bent, logits=bent if taken.added is None else keep(bent + taken.added))


def _recompute_weights(known: BackwardValues, edits: Edits, reread: Reread | None) -> BackwardValues:
    """With weights that are formed anew of logits and log-sum-exp."""
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
    """With dP, delta and dS."""
    taken = known.taken
    products = known.keep_in("products", taken.grad @ _clean(taken.value).swapaxes(-1, -2))
    products = known.keep_in("products", _drop_weights(known, products))
    known = known.but(products=_edit_stage("products", products, known, edits))
    kept = known.keep_in("kept", known.weights)
    sums = {"products": lambda: kept * known.products, "output": lambda: taken.grad * known.returned,
            "wide_output": lambda: taken.grad * known.output}[known.way.delta]()
    known = known.but(delta=_edit_stage("delta", sums.sum(axis=-1, keepdims=True), known, edits).astype(taken.wide))
    scores = (kept * known.products - kept * known.delta if known.way.is_apart else
              kept * (known.products - known.delta))
    scores = known.keep_in("grads", _edit_stage("wide_scores", scores, known, edits).astype(taken.wide))
    return known.but(scores=_edit_stage("scores", scores, known, edits).astype(taken.wide))


def _dots(known: BackwardValues, edits: Edits) -> tuple[Array, BackwardValues]:
    """DX (B,H,T,S), behind the bend of the logits."""
    taken = known.taken
    slope = bend_slope(known.bent, taken.call)
    if slope is None:
        return known.scores, known
    known = known.but(slope=_edit_stage("slope", slope, known, edits).astype(taken.wide))
    return known.keep_in("grads", known.scores * known.slope), known


def _results(known: BackwardValues, edits: Edits) -> dict[str, Array]:
    """The gradients, in the shapes and dtypes of the inputs."""
    dots, known = _dots(known, edits)
    taken, io = known.taken, known.taken.call.query.dtype
    results = {**_of_dots(known, edits, dots), "value": _of_value(known, edits)}
    scores = _edit_stage("full_bias", known.scores[..., :taken.keys], known, edits)
    if taken.call.bias is not None:
        results["bias"] = _edit_stage("bias_sum", _unbroadcast(scores, np.shape(taken.call.bias)), known, edits)
    if taken.call.sinks is not None:
        results["sinks"] = _edit_stage("sinks_sum", known.scores[..., taken.keys].sum(axis=(0, 2)), known, edits)
    dtypes = {} if taken.call.sinks is None else {"sinks": taken.call.sinks.dtype}
    return {name: np.ascontiguousarray(array).astype(dtypes.get(name, io)) for name, array in results.items()}


def _of_dots(known: BackwardValues, edits: Edits, dots: Array) -> dict[str, Array]:
    """The gradients of query (B,H,T,D) and key (B,Hkv,S,D), given dX (B,H,T,S)."""
    taken, a = known.taken, np.asarray(known.taken.factor, known.taken.wide)
    left, right = (_edit_stage(spot, dots, known, edits) for spot in ("query_dots", "key_dots"))
    of_query, of_key = (taken.wide.type(_edit_stage(spot, a, known, edits)) for spot in ("query_scale", "key_scale"))
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
    """An array of any shape as the stage leaves it."""
    return np.asarray(edits[spot](array, known)) if spot in edits else array


def _product(known: BackwardValues, one: Array, other: Array, stored: Stored | None = "partial") -> Array:
    """(B,H,T,S), (B,H,S,D) -> (B,H,T,D): block by block, in the order that the way has."""
    if known.way.uses_einsum:
        return np.einsum("bhij,bhjk->bhik", one, other)
    length = one.shape[-1]
    step = known.way.block or max(1, length)
    total = np.zeros((*one.shape[:-1], other.shape[-1]), one.dtype)
    for start in (reversed if known.way.is_reversed else iter)(range(0, length, step)):
        total = total + one[..., start:start + step] @ other[..., start:start + step, :]
        total = known.keep_in(stored, total) if stored else total
    return total


def fold(array: Array, kv_heads: int) -> Array:
    """(B,H,S,·) -> (B,Hkv,S,·): the sum over the query heads of each group."""
    B, H, *rest = array.shape
    return array.reshape(B, kv_heads, H // kv_heads, *rest).sum(axis=2)


def _unbroadcast(array: Array, shape: tuple[int, ...]) -> Array:
    """(B,H,T,S) summed to a shape that broadcasts to it; any shape."""
    full = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(axis for axis, length in enumerate(full) if length == 1 < array.shape[axis])
    return array.sum(axis=axes, keepdims=True).reshape(shape)


def as_backward(way: BackwardMethod = USUAL_METHOD, edits: Edits | None = None,
                reread: Reread | None = None) -> AttendBackward:
    """A backward pass that takes every keyword."""

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad_output (B,H,T,Dv) -> gradients by name."""
        return backward(HandedOver(query, key, value, **keywords), grad_output, way, edits, reread)

    return attend_backward


BLOCK = 16
BFLOAT16, FLOAT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)


def times(factor: float) -> Edit:
    """An edit that multiplies, any shape."""
    return lambda array, _: array * array.dtype.type(factor)


def store_in(dtype: np.dtype[Any]) -> Edit:
    """An edit that stores in another dtype, any shape."""
    return lambda array, _: array.astype(dtype).astype(array.dtype)


def cut_to_16_bits(array: Array, known: BackwardValues) -> Array:
    """Of any shape, the upper half of the bits of float32."""
    return (array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(array.dtype)


def _tf32(array: Array) -> Array:
    """Of any shape, rounded to ten bits after the point."""
    bits = array.astype(np.float32).view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(array.dtype)


def products_tf32(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): dP of inputs in TF32."""
    return _tf32(known.taken.grad) @ _tf32(known.taken.value).swapaxes(-1, -2)


def places(known: BackwardValues) -> tuple[Array, Array]:
    """(T,1), (S,): the places of queries, and of keys without a sink."""
    return np.arange(known.taken.query.shape[2])[:, None], np.arange(known.taken.key.shape[2])


def where(chosen: Callable[[Array, Array], Array], make: Callable[[Array, BackwardValues], Array]) -> Edit:
    """An edit of the pairs (B,H,T,S) at chosen places of queries (T,1) and keys (S,)."""
    def edit(array: Array, known: BackwardValues) -> Array:
        """(B,H,T,S)."""
        return np.where(chosen(*places(known)), make(array, known), array)
    return edit


def take_neighbour(axis: int) -> Edit:
    """An edit that takes the neighbour's along an axis, any shape."""
    return lambda array, _: np.roll(array, 1, axis)


def zero(array: Array, known: BackwardValues) -> Array:
    """Of any shape, zeros."""
    return np.zeros_like(array)


def last_block(keys: Array) -> Array:
    """(S,): which of the keys are in the last block."""
    return keys >= (len(keys) - 1) // BLOCK * BLOCK


def first_of_group(array: Array, known: BackwardValues) -> Array:
    """(B,Hkv,S,·): what the first query head of each group contributes."""
    return _groups(array, known)[:, :, 0]


def mean_of_group(array: Array, known: BackwardValues) -> Array:
    """(B,Hkv,S,·): the mean over the query heads of each group."""
    return _groups(array, known).mean(axis=2)


def groups_by_turns(array: Array, known: BackwardValues) -> Array:
    """(B,Hkv,S,·): the sum over every Hkv-th query head."""
    heads = known.products
    return heads.reshape(heads.shape[0], -1, array.shape[1], *heads.shape[2:]).sum(axis=1)


def _groups(array: Array, known: BackwardValues) -> Array:
    """(B,Hkv,G,S,·): what each query head contributes to (B,Hkv,S,·)."""
    heads = known.products
    return heads.reshape(heads.shape[0], array.shape[1], -1, *heads.shape[2:])


def reread(**changes: Any) -> Reread:  # noqa: ANN401  (the fields have types of their own)
    """What the backward pass reads of a call, with some keywords changed: by a value, or a function of the call."""
    def read(call: HandedOver) -> HandedOver:
        return call.but(**{name: change(call) if callable(change) else change for name, change in changes.items()})
    return read


def reread_without(keyword: str) -> Reread:
    """A call that the backward pass reads without one keyword."""
    return reread(**{keyword: OFF[keyword]})


def drop_tenths(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): every tenth weight is dropped, the others grow."""
    kept = np.arange(array.size).reshape(array.shape) % 10 != 7
    return (array * kept / array.dtype.type(0.9)).astype(array.dtype)


def of_short_logarithm(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): weights by 2^x, where log2(e) was written with four digits."""
    return (array * np.exp(array.dtype.type(-1.5e-4) * (known.logits - known.lse))).astype(array.dtype)


def with_epsilon(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): weights whose sum had an epsilon added."""
    return known.exponentials / (known.total + array.dtype.type(1e-5))


def misread(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,Dv): read as if it lay (B,H,Dv,T)."""
    return np.ascontiguousarray(array).reshape(*array.shape[:2], array.shape[3], array.shape[2]).swapaxes(-1, -2)


def heads_misread(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,Dv): read as if it lay (B,T,H,Dv)."""
    B, H, T, Dv = array.shape
    return np.ascontiguousarray(array).reshape(B, T, H, Dv).swapaxes(1, 2)


def empty_rows(known: BackwardValues) -> Array:
    """(B,H,T,1): the rows that see no key."""
    return np.asarray(~known.taken.visible.any(axis=-1, keepdims=True))


def gradient_fault(
    name: str, story: str, reach: str = "gradients", way: BackwardMethod = USUAL_METHOD, reread: Reread | None = None,
    *, same: Mapping[DType, str] | None = None, **edits: Edit,
) -> Fault:
    """A fault of the backward pass beside a sound forward pass. same: dtypes at which nothing can be told."""
    made = cast(Edits, edits)  # keywords are spots
    return Fault(f"grad_{name}", GRAD, story, reach, staged(), equivalents=same or {},
                 backward=lambda: as_backward(way, made, reread))
