"""One reference attention in stages. A fault replaces one stage of it; every other stage stays
sound.

Half dtypes and float32 are computed in float32, float64 in float64, with one rounding to the
input's dtype at the end (grade G0 of docs/numerics.md). Axes: query (B,H,T,D), key (B,Hkv,S,D),
value (B,Hkv,S,Dv), mask and bias (B,H,T,S).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from attnspec.core.forms import KEY_COUNTS, TABLE
from attnspec.faults import staged_work
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall, bend_logits, near_keys, wide_dtype
from attnspec.faults.staged_work import restore as restore_entries
from attnspec.problems.problem import Array


def extend(call: HandedOver) -> HandedOver:
    """The call with past keys and values before the new ones; the past stays, for its length."""
    if call.past_key is None or call.past_value is None:
        return call
    pairs = {"key": (call.past_key, call.key), "value": (call.past_value, call.value)}
    return call.but(**{name: np.concatenate(pair, axis=2) for name, pair in pairs.items()})


def start(work: PreparedCall) -> Array | int:
    """The place of the first query, which is the number of past keys."""
    return 0 if work.past_key is None else work.past_key.shape[2]


def ahead(work: PreparedCall) -> Array:
    """How far each key lies ahead of the query's own place, (T,S) or (B,1,T,S)."""
    _, _, T, S = work.shape
    return np.arange(S) - np.arange(T)[:, None] - work.start


def add_by_place(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), plus what aspects add to them by the places of query and key."""
    added = staged_work.added_logits(work, ahead(work), logits.dtype)
    return logits if added is None else logits + added


def own_keys(work: PreparedCall) -> Array:
    """The keys that a query may see, whatever its place: (S,), (B,1,1,S) or (B,1,T,S)."""
    return staged_work.own_keys(work, work.shape[3])


def join(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S+1), each head's extra key behind the others; (B,H,T,S) without one."""
    extra = staged_work.extra_logit(work)
    return logits if extra is None else with_column(logits, extra)


def drop(weights: Array, work: PreparedCall) -> Array:
    """The weights that meet the values, (B,H,T,S): multiplied by what aspects drop and rescale."""
    B, H, T, S = weights.shape
    factors = staged_work.weight_factors(work, (B, H, T, S))
    return weights if factors is None else weights * factors.astype(weights.dtype)


def find_empty_rows(work: PreparedCall) -> Array:
    """The rows that see no key, and no extra one: bool, broadcasts to (B,H,T,1)."""
    is_empty = np.logical_not(np.any(work.visible, axis=-1, keepdims=True))
    return np.asarray(is_empty & (staged_work.extra_logit(work) is None))


def clear(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), with zeros behind the number of queries of each batch entry."""
    own = staged_work.own_queries(work, work.shape[2])
    return output if own is None else np.where(own, output, 0)


@dataclass(frozen=True, slots=True, eq=False)
class PageTable:
    """The table that says which pages each batch entry has.

    pages: their numbers, (B,N).  slots: how many keys a page holds.  most: how many pages there
    are. lengths: how many keys each entry has, (B,).  queries: how many queries each entry has.
    """

    pages: Array
    slots: int
    most: int
    lengths: Array
    queries: int

    @property
    def places(self) -> Array:
        """The places of keys that a row of the table has room for, (S,)."""
        return np.arange(self.pages.shape[1] * self.slots)


PageSlots = tuple[Array, Array]
"""The page and the slot of each key, (B,S) twice."""
FindSlots = Callable[[PageTable], PageSlots]


def slots_of_keys(table: PageTable) -> PageSlots:
    """The page and the slot of each key; page 0 for places behind an entry's keys."""
    own = table.places < table.lengths[:, None]
    pages = np.where(own, table.pages[:, table.places // table.slots], 0)
    return pages, np.broadcast_to(table.places % table.slots, pages.shape)


def table_of(call: HandedOver) -> PageTable | None:
    """The table of a call whose keys lie in pages; None for any other."""
    pages, lengths = getattr(call, TABLE), getattr(call, KEY_COUNTS)
    if pages is None:
        return None
    return PageTable(pages, call.key.shape[1], len(call.key), lengths, call.query.shape[2])


def gather_from(find: FindSlots = slots_of_keys, *, of_value: FindSlots | None = None,
                lengths: Callable[[PageTable], Array] | None = None) -> Callable[[HandedOver], HandedOver]:
    """A `gather` stage that finds keys, and values, in other places, or counts others, (B,)."""
    def gather(call: HandedOver) -> HandedOver:
        table = table_of(call)
        if table is None:
            return call
        key, value = _read_pages(call.key, find(table)), _read_pages(call.value, (of_value or find)(table))
        count = lengths(table) if lengths else table.lengths
        return call.but(key=key, value=value, **{TABLE: None, KEY_COUNTS: count})
    return gather


def _read_pages(pool: Array, place: PageSlots) -> Array:
    """The keys or values (B,Hkv,S,·) in these places of a pool (pages,slots,Hkv,·)."""
    return np.ascontiguousarray(pool[place].swapaxes(1, 2))


gather = gather_from()
"""The call with pages gathered, so that each entry's keys, and values, lie in one array."""


def log_sum_exp(logits: Array) -> Array:
    """The logarithm of the sum of each row's exponentials: (…,S) -> (…); -inf if all are -inf."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isneginf(top), 0, top)
    return put_together(shift, np.exp(logits - shift).sum(axis=-1, keepdims=True))


def put_together(shift: Array, total: Array) -> Array:
    """The log-sum-exp of a shift (…,1) and the sum of what is left, (…,1) -> (…); -inf of 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(shift + np.log(total))[..., 0]


def with_column(logits: Array, heads: Array) -> Array:
    """Logits (B,H,T,S+1): one more logit for each head, of heads (H,), behind (B,H,T,S)."""
    column = np.broadcast_to(heads[:, None, None], (*logits.shape[:3], 1))
    return np.concatenate([logits, column], axis=-1, dtype=logits.dtype)


def returned_lse(array: Array, io: np.dtype[Any]) -> Array:
    """A log-sum-exp (B,H,T) in the dtype that goes with inputs of this one."""
    return array.astype(np.float64 if io == np.float64 else np.float32)


def take(call: HandedOver) -> PreparedCall:
    """Widen the arrays and bring mask and bias to full shape."""
    wide = wide_dtype(call.query.dtype)
    query, key, value = (np.asarray(array).astype(wide) for array in (call.query, call.key, call.value))
    shape = (*query.shape[:3], key.shape[2])
    mask = None if call.mask is None else np.broadcast_to(np.asarray(call.mask, bool), shape)
    bias = None if call.bias is None else np.broadcast_to(np.asarray(call.bias).astype(wide), shape)
    return PreparedCall(query, key, value, np.ones(shape, bool), **{**call.given, "mask": mask, "bias": bias})


def restore(work: PreparedCall) -> PreparedCall:
    """The call with the numbers that codes stand for in the place of the codes."""
    return restore_entries(work)


def group(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): each key/value head serves H / Hkv neighbouring query heads."""
    return np.repeat(array, H // array.shape[1], axis=1)


def masked(work: PreparedCall) -> Array:
    """Which keys the mask allows, (B,H,T,S)."""
    return np.ones(work.shape, bool) if work.mask is None else work.mask


def triangle(T: int, S: int, shift: int = 0) -> Array:
    """Query i sees keys 0 … i + shift: (T,S)."""
    return np.tri(T, S, shift, dtype=bool)


def past(work: PreparedCall) -> Array:
    """Which keys the causal flag allows, (T,S), aligned top-left, or behind a past."""
    return ahead(work) <= 0 if work.causal else np.ones(work.shape[2:], bool)


def near(work: PreparedCall) -> Array:
    """Which keys are near enough to each query, (T,S) or (B,1,T,S), aligned as `past` is."""
    return near_keys(work, ahead(work))


def scale(work: PreparedCall) -> float:
    """The scale of the logits: 1/sqrt(D) unless the caller says otherwise."""
    return 1 / float(np.sqrt(work.query.shape[-1])) if work.scale is None else work.scale


def logits(work: PreparedCall, factor: float) -> Array:
    """Dot products times the scale, (B,H,T,S)."""
    dots: Array = work.query @ work.key.swapaxes(-1, -2)
    return dots * dots.dtype.type(factor)


def bend(logits: Array, work: PreparedCall) -> Array:
    """The scaled logits (B,H,T,S), as aspects bend them."""
    return bend_logits(logits, work)


def add_bias(logits: Array, work: PreparedCall) -> Array:
    """The logits (B,H,T,S) plus the bias."""
    return logits if work.bias is None else logits + work.bias


def hide(logits: Array, work: PreparedCall) -> Array:
    """The logits (B,H,T,S), with -inf for hidden keys."""
    return np.where(work.visible, logits, -np.inf).astype(logits.dtype, copy=False)


def exponentials(logits: Array) -> Array:
    """The exponentials of logits (…,S) less each row's maximum; zeros in rows that see no key."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    return np.exp(logits - np.where(np.isneginf(top), 0, top))


def normalise(grown: Array) -> Array:
    """Divide each row of (…,S) by its sum; a row of zeros stays zeros."""
    total = grown.sum(axis=-1, keepdims=True)
    return grown / np.where(total == 0, 1, total)


def softmax(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S): each row sums to 1 over the keys."""
    return normalise(exponentials(logits))


def weigh(weights: Array, work: PreparedCall) -> Array:
    """The weights in effect, (B,H,T,S): nothing happens between softmax and values."""
    return weights


def mix(weights: Array, work: PreparedCall) -> Array:
    """Weighted sums of the values, (B,H,T,Dv); NaN and infinity do not leak from hidden values."""
    finite = np.isfinite(work.value)
    if finite.all():
        return weights @ work.value
    sees_poison = work.visible.astype(weights.dtype) @ (~finite).astype(weights.dtype) > 0
    return np.where(sees_poison, weights @ work.value, weights @ np.where(finite, work.value, 0))


def finish(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), to which nothing is done before it is rounded."""
    return output


def report(weights: Array, work: PreparedCall) -> Array:
    """The weights that are returned, (B,H,T,S), which are those in effect."""
    return weights


def round_to_inputs(array: Array, io: np.dtype[Any]) -> Array:
    """The one rounding of output (B,H,T,Dv) and weights (B,H,T,S), to the dtype of the inputs."""
    return array.astype(io)


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages, in the order in which they run. `replace(SOUND, scale=...)` has one fault."""

    gather: Callable[[HandedOver], HandedOver] = gather
    extend: Callable[[HandedOver], HandedOver] = extend
    take: Callable[[HandedOver], PreparedCall] = take
    restore: Callable[[PreparedCall], PreparedCall] = restore
    group_key: Callable[[Array, int], Array] = group
    group_value: Callable[[Array, int], Array] = group
    start: Callable[[PreparedCall], Array | int] = start
    masked: Callable[[PreparedCall], Array] = masked
    past: Callable[[PreparedCall], Array] = past
    near: Callable[[PreparedCall], Array] = near
    own_keys: Callable[[PreparedCall], Array] = own_keys
    scale: Callable[[PreparedCall], float] = scale
    logits: Callable[[PreparedCall, float], Array] = logits
    bend: Callable[[Array, PreparedCall], Array] = bend
    add_bias: Callable[[Array, PreparedCall], Array] = add_bias
    add_by_place: Callable[[Array, PreparedCall], Array] = add_by_place
    hide: Callable[[Array, PreparedCall], Array] = hide
    join: Callable[[Array, PreparedCall], Array] = join
    softmax: Callable[[Array, PreparedCall], Array] = softmax
    weigh: Callable[[Array, PreparedCall], Array] = weigh
    drop: Callable[[Array, PreparedCall], Array] = drop
    mix: Callable[[Array, PreparedCall], Array] = mix
    lse: Callable[[Array, PreparedCall], Array] = lambda logits, _: log_sum_exp(logits)
    finish: Callable[[Array, PreparedCall], Array] = finish
    clear: Callable[[Array, PreparedCall], Array] = clear
    report: Callable[[Array, PreparedCall], Array] = report
    narrow: Callable[[Array, np.dtype[Any]], Array] = round_to_inputs


SOUND = Stages()

_INSTEAD: ContextVar[Stages] = ContextVar("instead", default=SOUND)


@contextlib.contextmanager
def computing(stages: Stages) -> Iterator[None]:
    """While it is open, these stages compute what is sound, in another order of rounding."""
    token = _INSTEAD.set(stages)
    try:
        yield
    finally:
        _INSTEAD.reset(token)


def as_computed(stages: Stages) -> Stages:
    """The stages, of which sound ones are those of `computing`; wrong ones stay."""
    instead = _INSTEAD.get()
    if instead is SOUND:
        return stages
    changes = {each.name: getattr(instead, each.name) for each in fields(Stages)
               if getattr(stages, each.name) is getattr(SOUND, each.name)}
    return replace(stages, **changes)


def attention(call: HandedOver, stages: Stages = SOUND) -> Answer:
    """The output (B,H,T,Dv); a tuple with weights (B,H,T,S) and log-sum-exp (B,H,T), if asked."""
    io, stages = call.query.dtype, as_computed(stages)
    with np.errstate(all="ignore"):  # overflow and 0/0 are what many faults are about
        work = prepare(call, stages)
        logits = stages.bend(stages.logits(work, stages.scale(work)), work)
        hidden = stages.hide(stages.add_by_place(stages.add_bias(logits, work), work), work)
        joined = stages.join(hidden, work)
        weights = stages.weigh(stages.softmax(joined, work)[..., :work.shape[3]], work)
        mixed = stages.mix(stages.drop(weights, work), work)
        output = stages.narrow(stages.clear(stages.finish(mixed, work), work), io)
        more = [stages.narrow(stages.report(weights, work), io)] if call.return_weights else []
        more += [returned_lse(stages.lse(joined, work), io)] if call.return_lse else []
        return (output, *more) if more else output


def prepare(call: HandedOver, stages: Stages = SOUND) -> PreparedCall:
    """The call as the logits need it: heads of keys are repeated, and it says what is visible."""
    work = stages.restore(stages.take(stages.extend(stages.gather(call))))
    work = work.but(start=stages.start(work))
    H = work.query.shape[1]
    work = work.but(key=stages.group_key(work.key, H), value=stages.group_value(work.value, H))
    barred = False if work.bias is None else np.isneginf(work.bias)
    visible = stages.masked(work) & stages.past(work) & stages.near(work) & stages.own_keys(work)
    return work.but(visible=visible & ~np.asarray(barred))


class Attend(Protocol):
    """The contract of an attention function."""

    def __call__(self, query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) -> (B,H,T,Dv), or a tuple."""


def as_attend(answer: Callable[[HandedOver], Answer]) -> Attend:
    """A function of arrays and keywords, made of a function of the whole call."""

    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) -> the answer to the call."""
        return answer(HandedOver(query, key, value, **keywords))

    return attend


def staged(**changes: Any) -> Callable[[], Attend]:  # noqa: ANN401  (as dataclasses.replace)
    """A maker of attention functions with some stages replaced, by the names of `Stages`."""
    stages = replace(SOUND, **changes)
    return lambda: as_attend(lambda call: attention(call, stages))


def with_mask(change: Callable[[Array, PreparedCall], Array]) -> Callable[[PreparedCall], Array]:
    """A `masked` stage that changes the mask (B,H,T,S) where there is one."""
    return lambda work: masked(work) if work.mask is None else change(work.mask, work)


def change_output(answer: Answer, change: Callable[[Array], Array]) -> Answer:
    """The answer with another output (B,H,T,Dv), or (B,T,M); what stands beside it stays."""
    return (change(answer[0]), *answer[1:]) if isinstance(answer, tuple) else change(answer)


def around(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of attention functions that compute `answer` instead of, or around, the stages."""
    return lambda: as_attend(answer)
