"""The staged reference layer: project, split into heads, attention, merge, output projection; one rounding at the end.

Inputs (B,·,M); parameters as in ground.keywords: x @ W + b, head h owns the columns h·D … (h+1)·D-1.
"""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.faults.staged import Stages, attention
from attnspec.faults.work import Answer, HandedOver, wide_dtype
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


def attend(call: HandedOver, layer: LayerCall) -> tuple[Array, Array]:  # noqa: ARG001  (faults look at the whole layer)
    """Attention of the heads: output (B,H,T,Dv) and weights (B,H,T,S)."""
    return both(attention(call.but(return_weights=True)))


def both(answer: Answer) -> tuple[Array, Array]:
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
    return lambda call, _: both(attention(call.but(return_weights=True), stages))
