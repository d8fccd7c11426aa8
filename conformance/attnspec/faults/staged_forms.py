"""Further things in stages: a layer; a decoder, which is called step after step; and functions of
any form that take codes, which they read before they attend.

A layer projects, splits into heads, attends, merges and projects out, with one rounding at the
end. A fault replaces one stage; of a decoder also what is stored and what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from attnspec.core.forms import OF_ENTRIES
from attnspec.core.keywords import KeywordArguments
from attnspec.faults.staged import SOUND, Attend, Stages, around, attention
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall, restore, wide_dtype
from attnspec.problems.problem import Array

Params = Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall(KeywordArguments[Array]):
    """The arguments of a call of a layer: query (B,T,M), key and value (B,S,M)."""

    query: Array
    key: Array
    value: Array
    params: Params
    heads: int


def take(call: LayerCall) -> LayerCall:
    """The call with arrays and parameters in the dtype of the computation."""
    wide = wide_dtype(call.query.dtype)
    params = {name: np.asarray(array).astype(wide) for name, array in call.params.items()}
    query, key, value = (np.asarray(array).astype(wide) for array in (call.query, call.key, call.value))
    return call.but(query=query, key=key, value=value, params=params)


def project(x: Array, which: str, params: Params) -> Array:
    """The projection x @ w + b of x (B,·,M), or for `out` (B,T,H·Dv); b may be missing."""
    projected: Array = x @ params[f"w_{which}"]
    return projected + params[f"b_{which}"] if f"b_{which}" in params else projected


def head_width(call: LayerCall) -> int:
    """The width D of a head. Raises ValueError if heads do not divide the projection's width."""
    width = call.params["w_query"].shape[1]
    if width % call.heads:
        raise ValueError(f"{call.heads} heads do not divide a projection of width {width}")
    return width // call.heads


def split(x: Array, heads: int) -> Array:
    """The heads of x: (B,T,H·D) -> (B,H,T,D), with H = `heads`; for keys S and Hkv."""
    B, T, width = x.shape
    return x.reshape(B, T, heads, width // heads).swapaxes(1, 2)


def attend(call: HandedOver, layer: LayerCall) -> tuple[Array, Array]:
    """Attention of the heads: output (B,H,T,Dv) and weights (B,H,T,S)."""
    return output_and_weights(attention(call.but(return_weights=True)))


def output_and_weights(answer: Answer) -> tuple[Array, Array]:
    """Output (B,H,T,Dv) and weights (B,H,T,S) of an attention that was asked for its weights."""
    output, weights = answer
    return output, weights


def merge(x: Array) -> Array:
    """The heads side by side: (B,H,T,Dv) -> (B,T,H·Dv)."""
    B, H, T, Dv = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * Dv)


def report(weights: Array) -> Array:
    """The weights (B,H,T,S) that are returned, of each head."""
    return weights


@dataclass(frozen=True, slots=True)
class LayerStages:
    """The stages of a layer in the order in which they run."""

    take: Callable[[LayerCall], LayerCall] = take
    head_width: Callable[[LayerCall], int] = head_width
    project_query: Callable[[Array, str, Params], Array] = project
    project_key: Callable[[Array, str, Params], Array] = project
    project_value: Callable[[Array, str, Params], Array] = project
    split: Callable[[Array, int], Array] = split
    attend: Callable[[HandedOver, LayerCall], tuple[Array, Array]] = attend
    merge: Callable[[Array], Array] = merge
    project_out: Callable[[Array, str, Params], Array] = project
    report: Callable[[Array], Array] = report


SOUND_LAYER = LayerStages()


def run_layer(call: LayerCall, stages: LayerStages = SOUND_LAYER) -> Answer:
    """The output (B,T,M), or a pair with weights (B,H,T,S). Raises ValueError if heads misfit."""
    io = call.query.dtype
    with np.errstate(all="ignore"):  # overflow and 0/0 are what many faults are about
        work = stages.take(call)
        output, weights = stages.attend(heads_of(work, stages), work)
        result = stages.project_out(stages.merge(output), "out", work.params).astype(io)
        return (result, stages.report(weights).astype(io)) if call.return_weights else result


def heads_of(work: LayerCall, stages: LayerStages) -> HandedOver:
    """The call that attention is handed: the projected inputs, split into heads."""
    kv_heads = work.params["w_key"].shape[1] // stages.head_width(work)
    query = stages.split(stages.project_query(work.query, "query", work.params), work.heads)
    key = stages.split(stages.project_key(work.key, "key", work.params), kv_heads)
    value = stages.split(stages.project_value(work.value, "value", work.params), kv_heads)
    return HandedOver(query, key, value, **work.given).but(return_weights=False)


class Layer(Protocol):
    """The contract of a layer function."""

    def __call__(self, query: Array, key: Array, value: Array, *, params: Params, heads: int,
                 **keywords: Any) -> Answer:  # noqa: ANN401  (LayerCall's)
        """Query (B,T,M), key and value (B,S,M) -> output (B,T,M), or (output, weights)."""


def as_layer(answer: Callable[[LayerCall], Answer]) -> Layer:
    """A layer as a function of arrays and keywords, made of a function of the whole call."""

    def layer(query: Array, key: Array, value: Array, *, params: Params, heads: int,
              **keywords: Any) -> Answer:  # noqa: ANN401  (LayerCall's)
        """Query (B,T,M), key and value (B,S,M) -> output (B,T,M), or (output, weights)."""
        return answer(LayerCall(query, key, value, params, heads, **keywords))

    return layer


def staged_layer(**changes: Any) -> Callable[[], Layer]:  # noqa: ANN401  (as dataclasses.replace)
    """A maker of layers with some stages replaced, by the names of `LayerStages`."""
    stages = replace(SOUND_LAYER, **changes)
    return lambda: as_layer(lambda call: run_layer(call, stages))


def attending(**changes: Any) -> Callable[[HandedOver, LayerCall], tuple[Array, Array]]:  # noqa: ANN401  (as dataclasses.replace)
    """An `attend` stage of a layer, whose attention has some of its own stages replaced.

    Output (B,H,T,Dv) and weights (B,H,T,S).
    """
    stages = replace(Stages(), **changes)
    return lambda call, _: output_and_weights(attention(call.but(return_weights=True), stages))


@dataclass(slots=True, eq=False)
class CacheContent:
    """The content of a cache: keys (B,Hkv,P,D), values (B,Hkv,P,Dv).  ends: P after each call."""

    key: Array
    value: Array
    ends: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number P of keys."""
        return int(self.key.shape[2])


Store = Callable[[CacheContent | None, HandedOver], CacheContent]
"""What a call hands back, of the cache that it was handed and the call, which stays as it is."""
Recall = Callable[[CacheContent, HandedOver], HandedOver]
"""The call with the past that a cache holds."""
Behind = Callable[[CacheContent], Mapping[str, Any]]
"""The stages that are replaced behind a cache."""


def put_behind(old: Array, new: Array) -> Array:
    """New keys or values (B,Hkv,S,·) behind past ones (B,Hkv,P,·): (B,Hkv,P+S,·)."""
    return np.concatenate([old, new], axis=2)


def store_new(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The cache with the new keys and values behind the others."""
    if held is None:
        return CacheContent(call.key, call.value, (call.key.shape[2],))
    return CacheContent(put_behind(held.key, call.key), put_behind(held.value, call.value),
                        (*held.ends, held.count + call.key.shape[2]))


def store_changed(change: Callable[[Array, Array], Array], *,
                  of_value: Callable[[Array, Array], Array] | None = None) -> Store:
    """A cache that puts new keys, and values, (B,Hkv,S,D) behind past ones in another way."""
    def store(held: CacheContent | None, call: HandedOver) -> CacheContent:
        content = store_new(held, call)
        if held is None:
            return content
        return replace(content, key=np.ascontiguousarray(change(held.key, call.key)),
                       value=np.ascontiguousarray((of_value or change)(held.value, call.value)))
    return store


def recall_all(held: CacheContent, call: HandedOver) -> HandedOver:
    """The call with all keys and values of the cache as its past."""
    return call.but(past_key=held.key, past_value=held.value)


def recall_changed(change: Callable[[Array], Array]) -> Recall:
    """The call with a changed past, (B,Hkv,P,D) -> (B,Hkv,P,D)."""
    return lambda held, call: recall_all(replace(held, key=change(held.key), value=change(held.value)), call)


def with_cache(answer: Answer, cache: object) -> Any:  # noqa: ANN401  (a cache is among it)
    """The answer of a decoder: that of attention, (B,H,T,Dv) alone or with more, and its cache."""
    return (*answer, cache) if isinstance(answer, tuple) else (answer, cache)


def decoder(store: Store = store_new, recall: Recall = recall_all, *,
            behind: Behind = lambda _: {}) -> Callable[[], Attend]:
    """A maker of decoders, which store and read their caches in these ways."""
    return around(lambda call: one_call(call.cache, call.but(cache=None), store, recall, behind))


def one_call(held: CacheContent | None, call: HandedOver, store: Store = store_new, recall: Recall = recall_all,
             behind: Behind = lambda _: {}) -> Any:  # noqa: ANN401  (a cache is among it)
    """The answer to a call behind a cache, with what the call stores."""
    posed = call if held is None else recall(held, call)
    stages = SOUND if held is None else replace(SOUND, **behind(held))
    return with_cache(attention(posed, stages), store(held, call))


Rotate = Callable[..., Array]
"""A rotary embedding: x (B,H,T,D) and positions (B,T) -> (B,H,T,D)."""


def with_entries_read(attend: Attend) -> Attend:
    """A function of any form that takes codes, made of one that takes none."""
    def attend_entries(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), or as they lie -> an answer."""
        read, others = dict[str, Any](), dict[str, Any]()
        for name, argument in keywords.items():
            if name not in OF_ENTRIES:
                others[name] = argument
            elif argument is not None:
                read[name] = argument
        if not read:
            return attend(query, key, value, **others)
        wide = wide_dtype(query.dtype)
        entries = PreparedCall(query.astype(wide), key.astype(wide), value.astype(wide), np.ones((), bool))
        numbers = restore(entries.but(**read))
        answer = attend(numbers.query, numbers.key, numbers.value, **others)
        return _narrow_answer(answer, query.dtype, others)
    return attend_entries


def _narrow_answer(answer: Any, io: np.dtype[Any], keywords: Mapping[str, Any]) -> Any:  # noqa: ANN401  (a cache is among it)
    """An answer with output (B,H,T,Dv) and weights in the dtype of the call."""
    if not isinstance(answer, tuple):
        return answer.astype(io)
    count = 2 if keywords.get("return_weights") else 1
    return (*(each.astype(io) for each in answer[:count]), *answer[count:])


def whole_array(keywords: Mapping[str, Any], keyword: str, entries: Array) -> Array | None:
    """The scales or zero points of entries, in the shape of these, any; None if there are none."""
    array = keywords.get(keyword)
    return None if array is None else np.broadcast_to(array, entries.shape)
