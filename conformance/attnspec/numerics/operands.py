"""A problem with its conventions applied: which keys each query attends to, and what it multiplies, in float64."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.aspect import LogitBend, bend_of, given_mathematics
from attnspec.numerics.lengths import queries_within
from attnspec.problems.problem import Array, Problem, joined


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """What all queries of a head share: key (B,H,S,D) and value (B,H,S,Dv) in float64, one head for each query head;
    their sizes, as in `Magnitudes`.
    """

    key: Array
    value: Array
    key_sizes: Array
    value_sizes: Array
    key_sums: Array
    value_sums: Array
    key_norms: Array
    largest_key: float
    largest_value: float


@dataclass(frozen=True, slots=True, eq=False)
class Magnitudes:
    """Absolute values of the operands: query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv); key_norms (B,H,S), no less
    than the Euclidean ones; their sums over D (key, query) and over S (value); and the largest of each.
    """

    query: Array
    key: Array
    value: Array
    key_norms: Array
    query_sums: Array
    key_sums: Array
    value_sums: Array
    largest_query: float
    largest_key: float
    largest_value: float


@dataclass(frozen=True, slots=True, eq=False)
class StoredErrors:
    """How far what attends may be from the entries, where a kernel quantises inside: query (B,H,T,D), key (B,H,S,D) and
    value (B,H,S,Dv).
    """

    query: Array
    key: Array
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """A problem with its conventions applied: float64, one key/value head per query head, the judged rows only.

    query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv); bias (B,H,T,S), finite, or None; visible (B,H,T,S), or None
    where every key is; counts (B,H,T): how many keys each query attends to; usable (B,H,T): False where a row sees a
    key, value or bias that is not finite, or where the batch entry has no such query. `held` and held_key are of the
    finite hidden entries too, which key and value need not hold: they can overflow a subject's storage.
    has_sink: the last key is a sink.  only_sink: its logit is all that `bias` holds.  reach (B,H,T,S): of what
    aspects add, which `bias` holds, the largest number that it may be made from; None where none adds.  stored: what
    quantising inside may do to the entries, which `sizes` and `held` count; None where nothing is quantised.
    """

    query: Array
    key: Array
    value: Array
    bias: Array | None
    visible: Array | None
    counts: Array
    usable: Array
    scale: float | np.longdouble
    bend: LogitBend | None
    sizes: Magnitudes
    held: Magnitudes
    held_key: Array
    has_sink: bool = False
    only_sink: bool = False
    reach: Array | None = None
    stored: StoredErrors | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B,H,T,S)."""
        return (*self.query.shape[:3], self.key.shape[2])

    def seen(self) -> Array:
        """`visible` (B,H,T,S), written out."""
        return np.ones(self.shape, dtype=bool) if self.visible is None else self.visible


def visible_keys(problem: Problem, conventions: Mapping[str, str], rows: Array | None = None) -> Array:
    """(B,H,T,S) bool: which keys each query may attend to, by mask, lengths, causal flag, window and -inf in the bias.
    A query that its batch entry does not have attends to none.

    Where a convention is undefined, the recommended answer is assumed.
    """
    visible = _hidden_by_something(problem, conventions, rows)
    return np.ones(_shape(problem, rows), dtype=bool) if visible is None else visible


def _hidden_by_something(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array | None:
    """(B,H,T,S) bool: which keys each query may attend to; None where nothing hides a key."""
    own_queries = None if problem.query_lengths is None else queries_within(problem, rows)[:, None, :, None]
    parts = [part for part in (_unmasked(problem, conventions, rows), _past(problem, conventions, rows),
                               *_of_aspects(problem, conventions, rows), _unbiased(problem, rows), own_queries)
             if part is not None]
    if not parts:
        return None
    return np.broadcast_to(functools.reduce(np.logical_and, parts), _shape(problem, rows))


def _shape(problem: Problem, rows: Array | None) -> tuple[int, int, int, int]:
    """(B,H,T,S), where T counts the judged rows only."""
    sizes = problem.sizes
    return sizes.B, sizes.H, sizes.T if rows is None else len(rows), sizes.S


def _unmasked(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array | None:
    """The mask as bool, (B,H,T,S) or broadcast to it; None without one, or where the causal flag stands in for it."""
    if problem.mask is None or (problem.causal and conventions.get("mask_with_causal") == "causal"):
        return None
    return _of_rows(problem.mask, problem, rows).astype(bool, copy=False)


def _places(problem: Problem, rows: Array | None) -> Array:
    """(T,): the indices of the queries that are judged."""
    return np.arange(problem.sizes.T, dtype=np.int32) if rows is None else np.asarray(rows, dtype=np.int32)


def _past(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array | None:
    """(T,S) or (B,1,T,S): the keys that are not ahead of the query's own place; None without the flag, or where a mask
    stands in.
    """
    if not problem.causal or (problem.mask is not None and conventions.get("mask_with_causal") == "mask"):
        return None
    visible: Array = _ahead(problem, conventions, rows) <= 0
    return visible


def _of_aspects(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Iterator[Array | None]:
    """(T,S), (B,1,1,S) or (B,1,T,S) each: the keys that each aspect leaves in sight; None of one that hides none."""
    given = given_mathematics(problem)
    counting = [aspect for aspect in given if aspect.counts_places(problem)]
    if counting:
        ahead = _ahead(problem, conventions, rows)
        yield from (aspect.visible_keys(problem, ahead) for aspect in counting)
    yield from (aspect.own_keys(problem, rows) for aspect in given)


def _ahead(problem: Problem, conventions: Mapping[str, str], rows: Array | None) -> Array:
    """(T,S), or (B,1,T,S) where lengths count: how far each key lies ahead of the query's own place."""
    own = own_places(problem, conventions, rows)
    distance: Array = np.arange(problem.sizes.S, dtype=np.int32) - own
    return distance


def own_places(problem: Problem, conventions: Mapping[str, str], rows: Array | None = None) -> Array:
    """(T,1), or (B,1,T,1) where lengths count: each query's own place among the keys: behind the past, if there is one;
    else as `causal_alignment` says.
    """
    return np.asarray(_places(problem, rows)[:, None] + _first_place(problem, conventions))


def _first_place(problem: Problem, conventions: Mapping[str, str]) -> Array:
    """The place of the first query: one number, or (B,1,1,1) where batch entries have lengths of their own."""
    if problem.has_past:
        return np.array(problem.past, np.int32)
    if conventions.get("causal_alignment") != "bottom_right":
        return np.zeros((), np.int32)
    keys = problem.sizes.S if problem.key_lengths is None else problem.key_lengths
    queries = problem.sizes.T if problem.query_lengths is None else problem.query_lengths
    offset = np.asarray(np.subtract(keys, queries), dtype=np.int32)
    return offset[:, None, None, None] if offset.ndim else offset


def _unbiased(problem: Problem, rows: Array | None) -> Array | None:
    """Where the bias is not -inf, (B,H,T,S) or broadcast to it; None where it hides nothing."""
    if problem.bias is None:
        return None
    visible: Array = _of_rows(problem.bias, problem, rows).astype(np.float64) != -np.inf
    return None if visible.all() else visible


def _of_rows(array: Array, problem: Problem, rows: Array | None) -> Array:
    """The judged rows of a mask or bias (B,H,T,S), which may be of fewer axes or broadcast along T."""
    if rows is None or array.ndim < 2 or array.shape[-2] != problem.sizes.T:
        return array
    return array[..., rows, :]


def keys_of(problem: Problem, conventions: Mapping[str, str]) -> Keys:
    """The keys and values of a problem, past ones first, ready for any of its queries."""
    heads, whole = key_heads(problem, conventions), joined(problem) if problem.has_past else problem
    return _keys(*(_spread(array, heads) for array in (whole.key, whole.value)))


def _keys(key: Array, value: Array) -> Keys:
    """Key (B,H,S,D) and value (B,H,S,Dv) with the sizes of their entries."""
    sizes = np.abs(key), np.abs(value)
    return Keys(key, value, *sizes, sizes[0].sum(axis=-1), sizes[1].sum(axis=-2), norms(key),
                *map(_largest_of, sizes))


def operands_of(
    problem: Problem, conventions: Mapping[str, str], scale_width: int | None, rows: Array | None,
    keys: Keys | None = None,
) -> Operands:
    """The problem in float64, ready for the definition: query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv).

    rows: the indices along T that are looked at, None for all.  keys: of the problem, where they are known already.
    """
    query = (problem.query if rows is None else problem.query[:, :, rows]).astype(np.float64)
    keys = keys or keys_of(problem, conventions)
    visible, sizes = _hidden_by_something(problem, conventions, rows), _sizes(query, keys)
    bias = None if problem.bias is None else _of_rows(problem.bias, problem, rows).astype(np.float64)
    bias, reach = _with_added(problem, conventions, rows, bias)
    usable = np.ones(query.shape[:3], bool)
    if problem.query_lengths is not None:
        usable = usable & queries_within(problem, rows)[:, None]
    counts = usable * float(keys.key.shape[2]) if visible is None else visible.sum(axis=-1, dtype=np.float64)
    operands = Operands(query, keys.key, keys.value, bias, visible, counts, usable, _scale(problem, scale_width),
                        bend_of(problem), sizes, sizes, keys.key, reach=reach)
    # 0 times NaN is NaN: what is hidden and not finite has to go before any product
    return operands if _is_tame(operands) else _tamed(operands)


def _with_added(
    problem: Problem, conventions: Mapping[str, str], rows: Array | None, bias: Array | None,
) -> tuple[Array | None, Array | None]:
    """The bias (B,H,T,S) with what aspects add to the logits, and the largest number that this may be made from; None
    where there is neither, and where none adds.
    """
    reach: Array | None = None
    for aspect in given_mathematics(problem):
        more = aspect.added_logits(problem, own_places(problem, conventions, rows))
        if more is not None:
            added, largest = more
            bias = added if bias is None else np.asarray(added + bias)
            reach = largest if reach is None else reach + largest
    return bias, reach


def _sizes(query: Array, keys: Keys) -> Magnitudes:
    """The sizes of the entries of query (B,H,T,D), keys and values, and their sums."""
    size = np.abs(query)
    return Magnitudes(size, keys.key_sizes, keys.value_sizes, keys.key_norms, size.sum(axis=-1), keys.key_sums,
                      keys.value_sums, _largest_of(size), keys.largest_key, keys.largest_value)


def norms(array: Array) -> Array:
    """(B,H,·,D) -> (B,H,·): never less than the Euclidean norm; squares that underflow are paid for."""
    squares: Array = np.sqrt(np.einsum("bhtd,bhtd->bht", array, array))
    return squares * (1 + 1e-12) + math.sqrt(array.shape[-1]) * 2.0**-511


def _largest_of(sizes: Array) -> float:
    """The largest entry of an array of any shape; 0 where it has none."""
    return float(sizes.max(initial=0.0))


def key_heads(problem: Problem, conventions: Mapping[str, str]) -> Array | None:
    """(H,): which key/value head each query head uses; None where they are as many."""
    H, Hkv = (sizes := problem.sizes).H, sizes.Hkv
    if Hkv == H:
        return None
    return np.arange(H) % Hkv if conventions.get("grouped_heads") == "tile" else np.arange(H) // (H // Hkv)


def _spread(array: Array, heads: Array | None) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·) in float64: a key/value head for each query head."""
    wide = array.astype(np.float64)
    return wide if heads is None else wide[:, heads]


def _scale(problem: Problem, width: int | None) -> float | np.longdouble:
    if problem.scale is not None:
        return float(problem.scale)
    width = problem.sizes.D if width is None else width
    return np.longdouble(1) / np.sqrt(np.longdouble(width)) if problem.dtype is DType.FLOAT64 else 1 / math.sqrt(width)


def _is_tame(operands: Operands) -> bool:
    """Whether everything is finite. Then what is hidden does no harm: it is multiplied by 0."""
    sizes, bias = operands.sizes, operands.bias
    arrays = (sizes.query_sums, sizes.key_sums, sizes.value_sums, *([] if bias is None else [bias]))
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _tamed(operands: Operands) -> Operands:
    """Zeros in place of what no row of a head sees and of what is not finite; rows that see the latter are unusable."""
    visible, bias = operands.seen(), np.zeros(1) if operands.bias is None else operands.bias
    finite_key = np.asarray(np.isfinite(operands.key).all(axis=-1) & np.isfinite(operands.value).all(axis=-1))
    sees_no_such: Array = ~np.asarray((visible & ~(finite_key[:, :, None, :] & np.isfinite(bias))).any(axis=-1))
    usable: Array = operands.usable & np.asarray(np.isfinite(operands.query).all(axis=-1)) & sees_no_such
    kept: Array = (np.asarray(visible.any(axis=-2)) & finite_key)[..., None]
    query, held_key, held_value = (_finite(array) for array in (operands.query, operands.key, operands.value))
    key, value = np.where(kept, held_key, 0.0), np.where(kept, held_value, 0.0)
    sizes, held = (_sizes(query, _keys(*pair)) for pair in ((key, value), (held_key, held_value)))
    return replace(operands, query=query, key=key, value=value, usable=usable, sizes=sizes, held=held,
                   bias=None if operands.bias is None else _finite(bias), held_key=held_key)


def _finite(array: Array) -> Array:
    """An array of any shape, with 0 for what is not finite."""
    return np.where(np.isfinite(array), array, 0.0)
