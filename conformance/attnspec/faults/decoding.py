"""An attention that is called step after step. A fault replaces what is stored, what is read, or a stage behind it."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.faults.staged import SOUND, Attend, around, attention
from attnspec.faults.work import Answer, HandedOver
from attnspec.problems.problem import Array


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


def both(old: Array, new: Array) -> Array:
    """(B,Hkv,P+S,D) of past (B,Hkv,P,D) and new ones (B,Hkv,S,·)."""
    return np.concatenate([old, new], axis=2)


def stored(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The new keys and values behind those that there were."""
    if held is None:
        return CacheContent(call.key, call.value, (call.key.shape[2],))
    return CacheContent(both(held.key, call.key), both(held.value, call.value),
                        (*held.ends, held.count + call.key.shape[2]))


def storing(change: Callable[[Array, Array], Array], *, of_value: Callable[[Array, Array], Array] | None = None,
            ) -> Store:
    """A cache in which keys, and values, (B,Hkv,S,D) are put behind others in another way."""
    def store(held: CacheContent | None, call: HandedOver) -> CacheContent:
        if held is None:
            return stored(held, call)
        made = stored(held, call)
        return replace(made, key=np.ascontiguousarray(change(held.key, call.key)),
                       value=np.ascontiguousarray((of_value or change)(held.value, call.value)))
    return store


def recalled(held: CacheContent, call: HandedOver) -> HandedOver:
    """All keys and values that are held are past ones."""
    return call.but(past_key=held.key, past_value=held.value)


def recalling(change: Callable[[Array], Array]) -> Recall:
    """Another past (B,Hkv,P,D) than what is held."""
    return lambda held, call: recalled(replace(held, key=change(held.key), value=change(held.value)), call)


def with_cache(answer: Answer, cache: object) -> Any:  # noqa: ANN401  (a cache is among it)
    """What a decoder returns: what attention answers, (B,H,T,Dv) alone or with more, and its cache."""
    return (*answer, cache) if isinstance(answer, tuple) else (answer, cache)


def decoder(store: Store = stored, recall: Recall = recalled, *, behind: Behind = lambda _: {},
            ) -> Callable[[], Attend]:
    """A maker of decoders."""
    def answered(call: HandedOver) -> Answer:
        """As attention answers, and the cache."""
        return one_call(call.cache, call.but(cache=None), store, recall, behind)
    return around(answered)


def one_call(held: CacheContent | None, call: HandedOver, store: Store = stored, recall: Recall = recalled,
             behind: Behind = lambda _: {}) -> Any:  # noqa: ANN401  (a cache is among it)
    """A call behind what is held, and what is stored by it."""
    posed = call if held is None else recall(held, call)
    stages = SOUND if held is None else replace(SOUND, **behind(held))
    return with_cache(attention(posed, stages), store(held, call))
