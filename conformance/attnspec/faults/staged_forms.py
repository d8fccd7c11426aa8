"""What else is staged: a layer, an attention that is called step after step, and functions of any form whose entries
stand for other numbers: these are read first, and then all is as without.

The layer projects, splits into heads, attends, merges and projects out, with one rounding at the end. A fault replaces
one stage; of a decoder also what is stored and what is read.
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
    """What `layer` was handed."""

    query: Array
    key: Array
    value: Array
    params: Params
    heads: int


def take(call: LayerCall) -> LayerCall:
    """The arrays and parameters in the dtype of the computation."""
    wide = wide_dtype(call.query.dtype)
    params = {name: np.asarray(array).astype(wide) for name, array in call.params.items()}
    query, key, value = (np.asarray(array).astype(wide) for array in (call.query, call.key, call.value))
    return call.but(query=query, key=key, value=value, params=params)


def project(x: Array, which: str, params: Params) -> Array:
    """(B,·,M) or, for `out`, (B,T,H·Dv): x @ w_which + b_which (no bias where the layer has none)."""
    projected: Array = x @ params[f"w_{which}"]
    return projected + params[f"b_{which}"] if f"b_{which}" in params else projected


def head_width(call: LayerCall) -> int:
    """D. Raises ValueError where the heads do not divide the width of the projection."""
    width = call.params["w_query"].shape[1]
    if width % call.heads:
        raise ValueError(f"{call.heads} heads do not divide a projection of width {width}")
    return width // call.heads


def split(x: Array, heads: int) -> Array:
    """(B,T,H·D) -> (B,H,T,D), with H = `heads`; keys and values have S and Hkv in their place."""
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
    """(B,H,T,Dv) -> (B,T,H·Dv)."""
    B, H, T, Dv = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * Dv)


def report(weights: Array) -> Array:
    """The weights (B,H,T,S) that are returned, per head."""
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
    """Output (B,T,M), or the pair with weights (B,H,T,S). Raises ValueError where the heads do not fit."""
    io = call.query.dtype
    with np.errstate(all="ignore"):  # overflow and 0/0 are what many faults are about
        work = stages.take(call)
        output, weights = stages.attend(heads_of(work, stages), work)
        result = stages.project_out(stages.merge(output), "out", work.params).astype(io)
        return (result, stages.report(weights).astype(io)) if call.return_weights else result


def heads_of(work: LayerCall, stages: LayerStages) -> HandedOver:
    """What attention is handed: the projected inputs, split into heads."""
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
    """A layer function that takes every keyword of layers, around a function of the whole call."""

    def layer(query: Array, key: Array, value: Array, *, params: Params, heads: int,
              **keywords: Any) -> Answer:  # noqa: ANN401  (LayerCall's)
        """Query (B,T,M), key and value (B,S,M) -> output (B,T,M), or (output, weights)."""
        return answer(LayerCall(query, key, value, params, heads, **keywords))

    return layer


def staged_layer(**changes: Any) -> Callable[[], Layer]:  # noqa: ANN401  (as dataclasses.replace)
    """A maker of layer functions with some stages replaced; names and order are those of `LayerStages`."""
    stages = replace(SOUND_LAYER, **changes)
    return lambda: as_layer(lambda call: run_layer(call, stages))


def attending(**changes: Any) -> Callable[[HandedOver, LayerCall], tuple[Array, Array]]:  # noqa: ANN401  (as dataclasses.replace)
    """The attention of a layer, output (B,H,T,Dv) and weights (B,H,T,S), with some of *its* stages replaced."""
    stages = replace(Stages(), **changes)
    return lambda call, _: output_and_weights(attention(call.but(return_weights=True), stages))


@dataclass(slots=True, eq=False)
class CacheContent:
    """The content of a cache: keys (B,Hkv,P,D) and values (B,Hkv,P,Dv).  ends: how many keys it had after each call."""

    key: Array
    value: Array
    ends: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """P."""
        return int(self.key.shape[2])


Store = Callable[[CacheContent | None, HandedOver], CacheContent]
"""What a call hands back: made from the cache that it was handed and from the call, which is left alone."""
Recall = Callable[[CacheContent, HandedOver], HandedOver]
"""The call with the past that a cache holds."""
Behind = Callable[[CacheContent], Mapping[str, Any]]
"""The stages that are replaced behind a cache."""


def put_behind(old: Array, new: Array) -> Array:
    """(B,Hkv,P+S,D) of past (B,Hkv,P,D) and new ones (B,Hkv,S,·)."""
    return np.concatenate([old, new], axis=2)


def store_new(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The new keys and values behind those that there were."""
    if held is None:
        return CacheContent(call.key, call.value, (call.key.shape[2],))
    return CacheContent(put_behind(held.key, call.key), put_behind(held.value, call.value),
                        (*held.ends, held.count + call.key.shape[2]))


def store_changed(change: Callable[[Array, Array], Array], *, of_value: Callable[[Array, Array], Array] | None = None,
                  ) -> Store:
    """A cache in which keys, and values, (B,Hkv,S,D) are put behind others in another way."""
    def store(held: CacheContent | None, call: HandedOver) -> CacheContent:
        if held is None:
            return store_new(held, call)
        made = store_new(held, call)
        return replace(made, key=np.ascontiguousarray(change(held.key, call.key)),
                       value=np.ascontiguousarray((of_value or change)(held.value, call.value)))
    return store


def recall_all(held: CacheContent, call: HandedOver) -> HandedOver:
    """All keys and values that are held are past ones."""
    return call.but(past_key=held.key, past_value=held.value)


def recall_changed(change: Callable[[Array], Array]) -> Recall:
    """Another past (B,Hkv,P,D) than what is held."""
    return lambda held, call: recall_all(replace(held, key=change(held.key), value=change(held.value)), call)


def with_cache(answer: Answer, cache: object) -> Any:  # noqa: ANN401  (a cache is among it)
    """What a decoder returns: what attention answers, (B,H,T,Dv) alone or with more, and its cache."""
    return (*answer, cache) if isinstance(answer, tuple) else (answer, cache)


def decoder(store: Store = store_new, recall: Recall = recall_all, *, behind: Behind = lambda _: {},
            ) -> Callable[[], Attend]:
    """A maker of decoders."""
    def answered(call: HandedOver) -> Answer:
        """As attention answers, and the cache."""
        return one_call(call.cache, call.but(cache=None), store, recall, behind)
    return around(answered)


def one_call(held: CacheContent | None, call: HandedOver, store: Store = store_new, recall: Recall = recall_all,
             behind: Behind = lambda _: {}) -> Any:  # noqa: ANN401  (a cache is among it)
    """A call behind what is held, and what is stored by it."""
    posed = call if held is None else recall(held, call)
    stages = SOUND if held is None else replace(SOUND, **behind(held))
    return with_cache(attention(posed, stages), store(held, call))


Rotate = Callable[..., Array]
"""A rotary embedding: x (B,H,T,D) and positions (B,T) -> (B,H,T,D)."""


def with_entries_read(attend: Attend) -> Attend:
    """A function of any form that takes entries which stand for others, made of one that takes none."""
    def attend_entries(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), or as they lie in the form -> what `attend` returns."""
        said, rest = dict[str, Any](), dict[str, Any]()
        for name, value_of in keywords.items():
            if name not in OF_ENTRIES:
                rest[name] = value_of
            elif value_of is not None:
                said[name] = value_of
        if not said:
            return attend(query, key, value, **rest)
        wide, none = wide_dtype(query.dtype), np.ones((), bool)
        given = PreparedCall(query.astype(wide), key.astype(wide), value.astype(wide), none)
        numbers = restore(given.but(**said))
        found = attend(numbers.query, numbers.key, numbers.value, **rest)
        return _narrow_answer(found, query.dtype, rest)
    return attend_entries


def _narrow_answer(found: Any, io: np.dtype[Any], keywords: Mapping[str, Any]) -> Any:  # noqa: ANN401  (a cache may be among it)
    """What comes back, the output (B,H,T,Dv) and weights in the dtype of the call."""
    if not isinstance(found, tuple):
        return found.astype(io)
    asked = 2 if keywords.get("return_weights") else 1
    return (*(each.astype(io) for each in found[:asked]), *found[asked:])


def whole_array(keywords: Mapping[str, Any], keyword: str, entries: Array) -> Array | None:
    """What says what entries stand for, in their shape, any; None where nothing does."""
    found = keywords.get(keyword)
    return None if found is None else np.broadcast_to(found, entries.shape)
