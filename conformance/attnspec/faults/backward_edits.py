"""What faults of a backward pass do to what one of its stages has made: each an edit, or a maker of edits."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np

from attnspec.core.keyword_nouns import GRAD
from attnspec.core.keywords import OFF
from attnspec.core.nouns import DType
from attnspec.faults.backward import Edit, Edits, Reread, as_backward
from attnspec.faults.backward_work import USUAL, BackwardMethod, BackwardValues
from attnspec.faults.fault import Fault
from attnspec.faults.staged import staged
from attnspec.faults.work import HandedOver
from attnspec.problems.problem import Array

BLOCK = 16
BFLOAT16, FLOAT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)


def times(factor: float) -> Edit:
    """An edit that multiplies, any shape."""
    return lambda array, _: array * array.dtype.type(factor)


def rounded(dtype: np.dtype[Any]) -> Edit:
    """An edit that stores in another dtype, any shape."""
    return lambda array, _: array.astype(dtype).astype(array.dtype)


def truncated(array: Array, known: BackwardValues) -> Array:  # noqa: ARG001  (an edit's signature)
    """Of any shape, the upper half of the bits of float32."""
    return (array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(array.dtype)


def _tf32(array: Array) -> Array:
    """Of any shape, rounded to ten bits after the point."""
    bits = array.astype(np.float32).view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(array.dtype)


def products_tf32(array: Array, known: BackwardValues) -> Array:  # noqa: ARG001  (an edit's signature)
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


def rolled(axis: int) -> Edit:
    """An edit that takes the neighbour's along an axis, any shape."""
    return lambda array, _: np.roll(array, 1, axis)


def zero(array: Array, known: BackwardValues) -> Array:  # noqa: ARG001  (an edit's signature)
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


def without(keyword: str) -> Reread:
    """A call that the backward pass reads without one keyword."""
    return reread(**{keyword: OFF[keyword]})


def dropped(array: Array, known: BackwardValues) -> Array:  # noqa: ARG001  (an edit's signature)
    """(B,H,T,S): every tenth weight is dropped, the others grow."""
    kept = np.arange(array.size).reshape(array.shape) % 10 != 7
    return (array * kept / array.dtype.type(0.9)).astype(array.dtype)


def of_short_logarithm(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): weights by 2^x, where log2(e) was written with four digits."""
    return (array * np.exp(array.dtype.type(-1.5e-4) * (known.logits - known.lse))).astype(array.dtype)


def with_epsilon(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): weights whose sum had an epsilon added."""
    return known.exponentials / (known.total + array.dtype.type(1e-5))


def misread(array: Array, known: BackwardValues) -> Array:  # noqa: ARG001  (an edit's signature)
    """(B,H,T,Dv): read as if it lay (B,H,Dv,T)."""
    return np.ascontiguousarray(array).reshape(*array.shape[:2], array.shape[3], array.shape[2]).swapaxes(-1, -2)


def heads_misread(array: Array, known: BackwardValues) -> Array:  # noqa: ARG001  (an edit's signature)
    """(B,H,T,Dv): read as if it lay (B,T,H,Dv)."""
    B, H, T, Dv = array.shape
    return np.ascontiguousarray(array).reshape(B, T, H, Dv).swapaxes(1, 2)


def empty_rows(known: BackwardValues) -> Array:
    """(B,H,T,1): the rows that see no key."""
    return np.asarray(~known.taken.visible.any(axis=-1, keepdims=True))


def gradient_fault(
    name: str, story: str, reach: str = "gradients", way: BackwardMethod = USUAL, reread: Reread | None = None, *,
    same: Mapping[DType, str] | None = None, link: str = "", **edits: Edit,
) -> Fault:
    """A fault of the backward pass beside a sound forward pass. same: dtypes at which nothing can be told."""
    made = cast(Edits, edits)  # keywords are spots
    return Fault(f"grad_{name}", GRAD, story, reach, staged(), link, equivalents=same or {},
                 backward=lambda: as_backward(way, made, reread))
