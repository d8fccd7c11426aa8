"""Prepares a problem for the definition: with its conventions applied, in float64, and with what
aspects add.

An aspect may hide keys, bend the scaled dot products, add to the logits, or give each head one
more key. Definition and bounds know no aspect: they ask all of those of which a problem has a
keyword.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from attnspec.core.keywords import keywords_of_aspect, load_parts
from attnspec.core.nouns import DType
from attnspec.numerics.precision import Precision
from attnspec.numerics.roundings import EXACT_INPUTS, InputErrors, Roundings, roundings
from attnspec.problems.problem import Array, LayerProblem, Problem, join_past

# What an aspect of attention may add


class LogitBend(Protocol):
    """A monotone function of a scaled dot product whose slope is nowhere more than 1.

    All arrays are (B,H,T,S).
    """

    @property
    def growth(self) -> float:
        """The largest factor by which a number may grow inside: a quotient may exceed x."""

    def bend(self, products: Array, real: type[np.floating]) -> Array:
        """The scaled dot products (B,H,T,S), bent, in the arithmetic of `real`."""

    def derivative(self, products: Array) -> Array:
        """The slope at each scaled dot product (B,H,T,S), in their own arithmetic."""

    def steepest(self, size: Array, error: Array | float) -> Array:
        """The largest factor on an error of scaled dot products of this size (B,H,T,S)."""

    def bent_error(self, error: Array, size: Array, bent: Array, r: Roundings) -> Array:
        """The error behind the bend (B,H,T,S).

        error: before it.  size, bent: the sizes before and behind it.
        """

    def own_variance(self, size: Array, bent: Array, steepness: Array, r: Roundings) -> Array:
        """The squared roundings (B,H,T,S) of the bend, where no slope exceeds `steepness`."""

    def shared_error(self, r: Roundings) -> float:
        """The relative error of a constant by which all dot products are multiplied or divided."""

    def derivative_error(self, error: Array, size: Array, bent: Array, r: Roundings) -> Array:
        """How far a backward pass's slope may be off (B,H,T,S); see `bent_error`."""


class Mathematics:
    """What one aspect adds to the definition.

    An aspect overrides the questions that it answers. It is asked these alone, and only about
    problems that have one of its keywords.
    """

    def bend_of(self, problem: Problem) -> LogitBend | None:
        """How a problem bends its scaled dot products; None where it does not."""
        del problem
        return None

    def visible_keys(self, problem: Problem, ahead: Array) -> Array | None:
        """Which keys a query may attend to by this aspect, (T,S) or (B,1,T,S); None where it hides
        none.

        ahead: how far a key lies ahead of the query's own place; the same shape.
        """
        del problem, ahead
        return None

    def read_entries(self, problem: Problem) -> Problem:
        """The problem with the numbers that attend in place of the codes that stand for them."""
        return problem

    def input_errors(self, problem: Problem, precision: Precision) -> InputErrors:
        """What a subject of this class may do to the entries before they attend."""
        del problem, precision
        return EXACT_INPUTS

    def own_keys(self, problem: Problem, rows: Array | None) -> Array | None:
        """Which keys a query may attend to wherever it stands, (B,1,1,S) or (B,1,T,S); None where
        it hides none.

        rows: the judged rows (T,); None for all.
        """
        del problem, rows
        return None

    def added_logits(self, problem: Problem, own: Array) -> tuple[Array, Array] | None:
        """What is added to the logits, and the largest size of the numbers that it is computed
        from, (B,H,T,S) each.

        None where this aspect adds nothing.  own: the queries' own places, (T,1) or (B,1,T,1).
        """
        del problem, own
        return None

    def extra_key(self, problem: Problem) -> Array | None:
        """(H,): the logit of one more key for each head, of value zero; None without."""
        del problem
        return None


@functools.cache
def _aspects_answering(question: str) -> tuple[tuple[frozenset[str], Mathematics], ...]:
    """The mathematics of all aspects that answer a question, with the aspects' keywords."""
    no_answer = getattr(Mathematics, question)
    return tuple((keywords_of_aspect(part), part.MATHEMATICS) for part in load_parts("mathematics")
                 if getattr(type(part.MATHEMATICS), question) is not no_answer)


def given_mathematics(problem: Problem, question: str) -> tuple[Mathematics, ...]:
    """The mathematics of a problem's aspects that answer a question such as `bend_of`."""
    given = problem.given
    return tuple(mathematics for keywords, mathematics in _aspects_answering(question)
                 if not keywords.isdisjoint(given))


def extra_key(problem: Problem) -> Array | None:
    """(H,): the logit of one more key for each head; None without.

    Raises NotImplementedError for two such keys.
    """
    extra = [key for aspect in given_mathematics(problem, "extra_key")
             if (key := aspect.extra_key(problem)) is not None]
    if len(extra) > 1:
        raise NotImplementedError("two aspects give one problem a further key, and the bounds "
                                  "know of one only")
    return extra[0] if extra else None


def bend_of(problem: Problem) -> LogitBend | None:
    """How a problem bends its scaled dot products; None where it does not.

    Raises NotImplementedError for two bends at once: an aspect that brings a second one says here
    which goes first.
    """
    bends = [bend for aspect in given_mathematics(problem, "bend_of")
             if (bend := aspect.bend_of(problem)) is not None]
    if len(bends) > 1:
        raise NotImplementedError("two aspects bend the logits of one problem, and nothing says "
                                  "which goes first")
    return bends[0] if bends else None


def read_entries(problem: Problem) -> Problem:
    """The problem with the numbers that attend in place of codes, by all aspects."""
    for aspect in given_mathematics(problem, "read_entries"):
        problem = aspect.read_entries(problem)
    return problem


def roundings_of(problem: Problem, precision: Precision) -> Roundings:
    """The roundings of a class on this problem, with what all its aspects do to the entries."""
    r = roundings(precision)
    errors = [more for aspect in given_mathematics(problem, "input_errors")
              if (more := aspect.input_errors(problem, precision)) != EXACT_INPUTS]
    if not errors:
        return r
    # relative errors of one entry come one after the other, and so do growths
    return replace(r, inputs=InputErrors(
        of_logits=math.prod(1 + each.of_logits for each in errors) - 1,
        of_values=math.prod(1 + each.of_values for each in errors) - 1,
        logit_growth=math.prod(each.logit_growth for each in errors),
        value_growth=math.prod(each.value_growth for each in errors),
        query_offset=sum(each.query_offset for each in errors),
        key_offset=sum(each.key_offset for each in errors),
        value_offset=sum(each.value_offset for each in errors)))


def queries_within(problem: Problem | LayerProblem, rows: Array | None = None) -> Array:
    """(B,T) bool: the queries that each batch entry has; all where no lengths are given.

    rows: the judged rows (T,); None for all.
    """
    places = np.arange(problem.sizes.T) if rows is None else rows
    if problem.query_lengths is None:
        return np.ones((problem.sizes.B, len(places)), dtype=bool)
    return np.asarray(places < problem.query_lengths[:, None])


# A problem with its conventions applied


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """What all queries of a head share.

    key (B,H,S,D) and value (B,H,S,Dv) in float64, one head for each query head; their sizes, as in
    `Magnitudes`.
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
    """Absolute values of the operands, and their sums.

    query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv); key_norms (B,H,S), no less than the Euclidean
    ones; sums over D (key, query) and over S (value); and the largest of each.
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
class EntryErrors:
    """How far a kernel's stored entries may be from the given ones.

    query (B,H,T,D), key (B,H,S,D) and value (B,H,S,Dv).
    """

    query: Array
    key: Array
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """A problem with its conventions applied: float64, one key/value head per query head, the
    judged rows only.

    query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv); bias (B,H,T,S), finite, or None; visible
    (B,H,T,S), or None where every key is;
    counts (B,H,T): how many keys each query attends to;
    usable (B,H,T): False where a row sees a key, value or bias that is not finite, or where the
    batch entry has no such query. `held` and `held_key` also count finite hidden entries,
    which `key` and `value` may leave out: they can overflow a subject's storage.
    has_sink: the last key is a sink.  only_sink: its logit is all that `bias` holds.
    reach (B,H,T,S): of what aspects add, which `bias` holds, the largest size of the numbers that
    it is computed from; None where none adds.
    entry_errors: how far what a kernel stores may be from the entries, which `sizes` and `held`
    count; None where it stores them as they are.
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
    entry_errors: EntryErrors | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B,H,T,S)."""
        return (*self.query.shape[:3], self.key.shape[2])

    def visible_array(self) -> Array:
        """`visible` (B,H,T,S), written out."""
        return np.ones(self.shape, dtype=bool) if self.visible is None else self.visible


def visible_keys(problem: Problem, conventions: Mapping[str, str],
                 rows: Array | None = None) -> Array:
    """(B,H,T,S) bool: which keys each query may attend to.

    Mask, lengths, causal flag, window and -inf in the bias hide keys. A query that its batch entry
    does not have attends to none. Where a convention is undefined, the recommended answer is
    assumed.
    """
    visible = _visible_or_none(problem, conventions, rows)
    if visible is None:
        sizes, queries = problem.sizes, problem.sizes.T if rows is None else len(rows)
        return np.ones((sizes.B, sizes.H, queries, sizes.S), dtype=bool)
    return visible


def _visible_or_none(problem: Problem, conventions: Mapping[str, str],
                     rows: Array | None) -> Array | None:
    """(B,H,T,S) bool: which keys each query may attend to; None where nothing hides a key."""
    joint = conventions.get("mask_with_causal")
    parts: list[Array | None] = []
    if problem.mask is not None and not (problem.causal and joint == "causal"):
        parts.append(_take_rows(problem.mask, problem, rows).astype(bool, copy=False))
    counting = given_mathematics(problem, "visible_keys")
    is_causal = problem.causal and not (problem.mask is not None and joint == "mask")
    if is_causal or counting:
        # how far each key lies ahead of the query's own place: (T,S), or (B,1,T,S) where lengths count
        # 32 bits, since it may be as large as (B,1,T,S)
        ahead = np.arange(problem.sizes.S, dtype=np.int32) - own_places(problem, conventions, rows)
        if is_causal:
            parts.append(ahead <= 0)
        parts += [aspect.visible_keys(problem, ahead) for aspect in counting]
    parts += [aspect.own_keys(problem, rows) for aspect in given_mathematics(problem, "own_keys")]
    if problem.bias is not None:
        unbiased = _take_rows(problem.bias, problem, rows).astype(np.float64) != -np.inf
        if not unbiased.all():
            parts.append(unbiased)
    if problem.query_lengths is not None:
        parts.append(queries_within(problem, rows)[:, None, :, None])
    hiding = [part for part in parts if part is not None]
    if not hiding:
        return None
    sizes, queries = problem.sizes, problem.sizes.T if rows is None else len(rows)
    return np.broadcast_to(functools.reduce(np.logical_and, hiding),
                           (sizes.B, sizes.H, queries, sizes.S))


def own_places(problem: Problem, conventions: Mapping[str, str],
               rows: Array | None = None) -> Array:
    """(T,1), or (B,1,T,1) where lengths count: each query's own place among the keys.

    It is behind the past, if there is one; else as `causal_alignment` says.
    """
    places = np.arange(problem.sizes.T, dtype=np.int32)
    if rows is not None:
        places = np.asarray(rows, dtype=np.int32)
    first = np.zeros((), np.int32)
    if problem.has_past:
        # queries stand behind the past, so that no convention is needed
        first = np.array(problem.past, np.int32)
    elif conventions.get("causal_alignment") == "bottom_right":
        keys = problem.sizes.S if problem.key_lengths is None else problem.key_lengths
        queries = problem.sizes.T if problem.query_lengths is None else problem.query_lengths
        # one number, or (B,) where lengths count
        first = np.asarray(np.subtract(keys, queries), dtype=np.int32)
        if first.ndim:
            first = first[:, None, None, None]
    return np.asarray(places[:, None] + first)


def _take_rows(array: Array, problem: Problem, rows: Array | None) -> Array:
    """The judged rows of a mask or bias (B,H,T,S), which may have fewer axes or one row."""
    if rows is None or array.ndim < 2 or array.shape[-2] != problem.sizes.T:
        return array
    return array[..., rows, :]


def prepare_keys(problem: Problem, conventions: Mapping[str, str]) -> Keys:
    """The keys and values of a problem, past ones first, ready for any of its queries."""
    heads = key_heads(problem, conventions)
    whole = join_past(problem) if problem.has_past else problem
    key, value = whole.key.astype(np.float64), whole.value.astype(np.float64)
    if heads is not None:
        key, value = key[:, heads], value[:, heads]
    return _measure_keys(key, value)


def _measure_keys(key: Array, value: Array) -> Keys:
    """Key (B,H,S,D) and value (B,H,S,Dv) with the sizes of their entries."""
    key_sizes, value_sizes = np.abs(key), np.abs(value)
    return Keys(key, value, key_sizes, value_sizes, key_sizes.sum(axis=-1),
                value_sizes.sum(axis=-2), upper_norms(key),
                float(key_sizes.max(initial=0.0)), float(value_sizes.max(initial=0.0)))


def prepare_operands(
    problem: Problem, conventions: Mapping[str, str], scale_width: int | None, rows: Array | None,
    keys: Keys | None = None,
) -> Operands:
    """The problem in float64, ready for the definition: query (B,H,T,D), key (B,H,S,D), value
    (B,H,S,Dv).

    rows: the indices along T that are judged, None for all.  keys: of the problem, where they are
    known already.
    """
    query = problem.query if rows is None else problem.query[:, :, rows]
    query = query.astype(np.float64)
    keys = keys or prepare_keys(problem, conventions)
    visible, sizes = _visible_or_none(problem, conventions, rows), _measure_operands(query, keys)
    bias: Array | None = None
    if problem.bias is not None:
        bias = _take_rows(problem.bias, problem, rows).astype(np.float64)
    reach: Array | None = None
    for aspect in given_mathematics(problem, "added_logits"):
        if more := aspect.added_logits(problem, own_places(problem, conventions, rows)):
            addend, largest = more
            bias = addend if bias is None else np.asarray(addend + bias)
            reach = largest if reach is None else reach + largest
    width = problem.sizes.D if scale_width is None else scale_width
    scale: float | np.longdouble = 1 / math.sqrt(width)
    if problem.scale is not None:
        scale = float(problem.scale)
    elif problem.dtype is DType.FLOAT64:  # its truth is worked out in long double
        scale = np.longdouble(1) / np.sqrt(np.longdouble(width))
    usable = np.ones(query.shape[:3], bool)
    if problem.query_lengths is not None:
        usable = usable & queries_within(problem, rows)[:, None]
    if visible is None:
        counts = usable * float(keys.key.shape[2])
    else:
        counts = visible.sum(axis=-1, dtype=np.float64)
    operands = Operands(query, keys.key, keys.value, bias, visible, counts, usable, scale,
                        bend_of(problem), sizes, sizes, keys.key, reach=reach)
    # 0 times NaN is NaN: what is hidden and not finite has to go before any product
    entries = [sizes.query_sums, sizes.key_sums, sizes.value_sums]
    if bias is not None:
        entries.append(bias)
    if all(bool(np.isfinite(array).all()) for array in entries):
        return operands
    return _zero_unseen(operands)


def _measure_operands(query: Array, keys: Keys) -> Magnitudes:
    """The sizes of the entries of query (B,H,T,D), keys and values, and their sums."""
    size = np.abs(query)
    return Magnitudes(size, keys.key_sizes, keys.value_sizes, keys.key_norms, size.sum(axis=-1),
                      keys.key_sums,
                      keys.value_sums, float(size.max(initial=0.0)), keys.largest_key,
                      keys.largest_value)


def upper_norms(array: Array) -> Array:
    """(B,H,·,D) -> (B,H,·): an upper bound of the Euclidean norm, also where squares underflow."""
    squares: Array = np.sqrt(np.einsum("bhtd,bhtd->bht", array, array))
    # 2^-511 is the root of what squares may lose to underflow, an entry each
    return squares * (1 + 1e-12) + math.sqrt(array.shape[-1]) * 2.0**-511


def key_heads(problem: Problem, conventions: Mapping[str, str]) -> Array | None:
    """(H,): which key/value head each query head uses; None where they are as many."""
    H, Hkv = problem.sizes.H, problem.sizes.Hkv
    if Hkv == H:
        return None
    if conventions.get("grouped_heads") == "tile":
        return np.arange(H) % Hkv
    return np.arange(H) // (H // Hkv)


def _zero_unseen(operands: Operands) -> Operands:
    """The operands with zeros for what is not finite, and for what no row of a head sees.

    Rows that see the former are unusable.
    """
    visible = operands.visible_array()
    bias = np.zeros(1) if operands.bias is None else operands.bias
    finite_key = np.asarray(np.isfinite(operands.key).all(axis=-1)
                            & np.isfinite(operands.value).all(axis=-1))
    sees_nonfinite = (visible & ~(finite_key[:, :, None, :] & np.isfinite(bias))).any(axis=-1)
    usable = operands.usable & np.isfinite(operands.query).all(axis=-1) & ~sees_nonfinite
    is_needed = (visible.any(axis=-2) & finite_key)[..., None]
    query = _zero_nonfinite(operands.query)
    held_key, held_value = _zero_nonfinite(operands.key), _zero_nonfinite(operands.value)
    key, value = np.where(is_needed, held_key, 0.0), np.where(is_needed, held_value, 0.0)
    sizes = _measure_operands(query, _measure_keys(key, value))
    held = _measure_operands(query, _measure_keys(held_key, held_value))
    return replace(operands, query=query, key=key, value=value, usable=usable, sizes=sizes,
                   held=held, bias=None if operands.bias is None else _zero_nonfinite(bias),
                   held_key=held_key)


def _zero_nonfinite(array: Array) -> Array:
    """An array of any shape, with 0 for what is not finite."""
    return np.where(np.isfinite(array), array, 0.0)


# One more key of each head, whose logit is given and whose value is zero: it stands behind the other keys


def add_extra_key(operands: Operands, extra: Array) -> Operands:
    """The operands with one more key for each head, of zeros, whose logit is `extra` (H,).

    A logit of -inf is a key that nobody sees.
    """
    B, H, T, S = operands.shape
    is_there = np.broadcast_to(np.isfinite(extra)[:, None, None], (B, H, T, 1))
    bias = np.zeros((B, H, T, S + 1))
    bias[..., :S] = 0.0 if operands.bias is None else operands.bias
    bias[..., S] = np.where(np.isfinite(extra), extra, 0.0)[:, None]
    sizes, held = (_add_zero_key(each) for each in (operands.sizes, operands.held))
    return replace(
        operands, key=_pad_keys(operands.key), value=_pad_keys(operands.value), bias=bias,
        visible=np.concatenate([operands.visible_array(), is_there], axis=-1),
        counts=operands.counts + is_there[..., 0],
        sizes=sizes, held=held, held_key=_pad_keys(operands.held_key), has_sink=True,
        only_sink=operands.bias is None,
        reach=None if operands.reach is None else _pad_row(operands.reach))


def _add_zero_key(sizes: Magnitudes) -> Magnitudes:
    return replace(sizes, key=_pad_keys(sizes.key), value=_pad_keys(sizes.value),
                   key_norms=_pad_keys(sizes.key_norms), key_sums=_pad_keys(sizes.key_sums))


def _pad_row(array: Array) -> Array:
    """(B,H,T,S), with a zero behind each row."""
    return np.pad(array, [(0, 0)] * 3 + [(0, 1)])


def _pad_keys(array: Array) -> Array:
    """(B,H,S,D), (B,H,S,Dv) or (B,H,S), with one more along S that is zero."""
    return np.pad(array, [(0, int(axis == 2)) for axis in range(array.ndim)])


def extra_over_lse(problem: Problem) -> float | None:
    """How far an extra key's logit lies above the log-sum-exp of its row at most; None without
    one.

    All keys count, visible or not. Query (B,H,T,D) and key (B,Hkv,S,D) make logits (B,H,T,S); the
    extra key's (H,).
    """
    extra = extra_key(problem)
    if extra is None:
        return None
    whole = join_past(problem)
    key = np.repeat(whole.key.astype(np.float64), whole.query.shape[1] // whole.key.shape[1],
                    axis=1)
    scale = problem.scale if problem.scale is not None else problem.query.shape[-1] ** -0.5
    logits = whole.query.astype(np.float64) @ key.swapaxes(-1, -2) * scale
    return float((np.asarray(extra, np.float64)[:, None]
                  - np.logaddexp.reduce(logits, axis=-1)).max())
