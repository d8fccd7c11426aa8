"""Bounds how far entries are from what a kernel stores in their place, entry by entry.

A word of the class says how an array is stored; an aspect reads it. The size of such a rounding
depends on other entries. So it is computed from the whole problem, before that is cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.keywords import CACHED, KEYWORDS
from attnspec.numerics.operands import EntryErrors, Magnitudes, Operands, read_entries
from attnspec.numerics.precision import STORABLE, Precision, StoredForm
from attnspec.numerics.reference import ProblemBlock, attended_hull, cut_blocks
from attnspec.numerics.roundings import Roundings, compound, roundings
from attnspec.problems.problem import CACHED_INPUTS, Array, Problem, join_past


def stored_arrays(problem: Problem, r: Roundings) -> Mapping[str, StoredForm]:
    """By name, the formats of the arrays of a problem that a subject of this class stores in one.

    Entries that are codes already are stored as they are.
    """
    standing = {KEYWORDS[name].meaning_of for name in problem.given}
    return {name: each for name, each in r.stored_formats.items() if name in STORABLE
            and name not in standing}


def add_rescaling(r: Roundings, problem: Problem, formats: Mapping[str, StoredForm]) -> Roundings:
    """The numbers of a class, with what reading back rounds.

    These are relative errors of logits and of values, and how much larger the numbers may be that
    are added up.  formats: of the arrays of a problem that are stored in one.
    """
    times = {name: each.roundings_again for name, each in formats.items()}
    on_logits, on_values = times.get("query", 0) + times.get("key", 0), times.get("value", 0)
    u = max((each.roundoff_again(r.precision) for each in formats.values()), default=0.0)
    of_weights = {name: each for name, each in r.stored_formats.items() if name not in STORABLE}
    inputs = replace(
        r.inputs, of_logits=(1 + r.inputs.of_logits) * (1 + compound(u, on_logits)) - 1,
        of_values=(1 + r.inputs.of_values) * (1 + compound(u, on_values)) - 1)
    for name, each in formats.items():
        if each.has_offset:
            offset = getattr(inputs, f"{name}_offset") + _largest_offset(problem, name)
            inputs = replace(inputs, **{f"{name}_offset": offset})
    return replace(r, stored_formats={**formats, **of_weights}, inputs=inputs)


def _largest_offset(problem: Problem, name: str) -> float:
    """Twice the largest entry of an array.

    What is subtracted stands for at most one such entry, and what it is subtracted from for two.
    """
    size = np.abs(getattr(join_past(problem), name).astype(np.float64))
    return 2 * float(size.max(initial=0.0, where=np.isfinite(size)))


def cut_stored_blocks(problem: Problem, r: Roundings, conventions: Mapping[str, str],
                      scale_width: int | None = None,
                      rows: Array | None = None) -> Iterator[ProblemBlock]:
    """The blocks of a problem, each with how far what is stored may be from its entries.

    The entries are read already; r: the class with what reading back rounds.
    """
    formats = {name: each for name, each in r.stored_formats.items() if name in STORABLE}
    plain = cut_blocks(problem, conventions, scale_width, rows)
    if not formats:
        return plain
    errors = cut_blocks(error_problem(problem, r.precision, formats), conventions, scale_width,
                        rows)
    sizes = cut_blocks(_with_stored_sizes(problem, formats), conventions, scale_width, rows)
    return (replace(block, operands=_with_errors(block.operands, error.operands, size.operands))
            for block, error, size in zip(plain, errors, sizes, strict=True))


def stored_hull(problem: Problem, conventions: Mapping[str, str],
                precision: Precision) -> tuple[Array, Array]:
    """The least and the greatest visible value that a subject of this class may read back.

    Both are (B,H,T,Dv) in float64, of each row and feature.
    """
    r = roundings(precision)
    if not r.stored_formats:
        return attended_hull(problem, conventions)
    attended_problem = read_entries(problem)
    r = add_rescaling(r, attended_problem, stored_arrays(problem, r))
    return attended_hull(attended_problem, conventions, cut_stored_blocks(attended_problem, r, conventions))


def _with_stored_sizes(problem: Problem, formats: Mapping[str, StoredForm]) -> Problem:
    """The problem with upper bounds of what is stored in place of its entries."""
    whole, arrays = join_past(problem), dict[str, Array]()
    for name, each in formats.items():
        sizes = each.stored_sizes(getattr(whole, name).astype(np.float64))
        if sizes is not None:
            arrays |= _split_past_entries(name, sizes, problem)
    return problem.but(**arrays)


def _split_past_entries(name: str, array: Array, problem: Problem) -> dict[str, Array]:
    """Query, key (B,Hkv,S,D) or value (B,Hkv,S,Dv), divided as in a problem."""
    if name == "query" or not problem.has_past:
        return {name: array}
    P = problem.past
    return {name: array[:, :, P:], CACHED[CACHED_INPUTS.index(name)]: array[:, :, :P]}


def error_problem(problem: Problem, precision: Precision,
                  formats: Mapping[str, StoredForm]) -> Problem:
    """A problem of the same shape, with each entry's storage error in its place.

    query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) in float64, past ones likewise.
    """
    whole, arrays = join_past(problem), dict[str, Array]()
    with np.errstate(all="ignore"):  # entries that are not finite
        for name in STORABLE:
            entries = getattr(whole, name).astype(np.float64)
            errors = np.zeros(entries.shape)
            if name in formats:
                errors = formats[name].entry_errors(entries, precision)
            arrays |= _split_past_entries(name, errors, problem)
    return problem.but(**arrays)


def _with_errors(operands: Operands, errors: Operands, of_sizes: Operands) -> Operands:
    """A block with the errors of its entries; all sizes are the largest possible."""
    entry_errors = EntryErrors(errors.query, errors.key, errors.value)
    return replace(operands, entry_errors=entry_errors, usable=operands.usable & errors.usable,
                   sizes=_grow_sizes(of_sizes.sizes, errors.sizes),
                   held=_grow_sizes(of_sizes.held, errors.held))


def _grow_sizes(sizes: Magnitudes, errors: Magnitudes) -> Magnitudes:
    """Sizes of entries, and their sums, with the errors added."""
    return Magnitudes(**{name: getattr(sizes, name) + getattr(errors, name)
                         for name in Magnitudes.__slots__})


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeightError:
    """What storing weights in a format may do, in units of the row's sum.

    distances (B,H,T,S): of each weight.  mass (B,H,T,1): their sum.
    """

    distances: Array
    mass: Array


def stored_weight_error(form: StoredForm, heaviest: Array, total: Array, least: Array, *,
                        only_small: bool = False) -> StoredWeightError:
    """How far weights may be from what is read back.

    heaviest (B,H,T,S): the largest honest exponentials, 0 where hidden.  total, least (B,H,T): the
    sum of a row, and its lower bound. What is stored is off by half a unit or by half the least
    distance, and no weight by more than itself.  only_small: without half a unit, what is lost of
    small weights alone.
    """
    step = np.asarray(form.least_distance)
    if form.divided:
        step = step * total[..., None]
    relative = 0.0 if only_small else form.relative
    distances = np.maximum(relative * heaviest, np.minimum(step, heaviest)) / least[..., None]
    return StoredWeightError(distances, distances.sum(axis=-1, keepdims=True))
