"""Entries that a kernel stores as others: how far what attends may be from what it was given,
entry by entry.

How an array is stored is said by a word of the class, which an aspect reads. Such a rounding is
the one whose size depends on other entries. So it is worked out from the whole problem, before it
is cut into blocks.
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
    """By name, how those arrays of a problem are stored that a subject of this class stores as
    others: entries that stand for others already are stored as they are.
    """
    standing = {KEYWORDS[name].meaning_of for name in problem.given}
    return {name: each for name, each in r.stored_formats.items() if name in STORABLE
            and name not in standing}


def add_rescaling(r: Roundings, problem: Problem, stored: Mapping[str, StoredForm]) -> Roundings:
    """The numbers of a class with what reading back again rounds: relative errors of logits and of
    values, and how much larger the numbers may be that are added up.
    stored: how the arrays of a problem are stored; the others are not.
    """
    times = {name: each.roundings_again for name, each in stored.items()}
    on_logits, on_values = times.get("query", 0) + times.get("key", 0), times.get("value", 0)
    u = max((each.roundoff_again(r.precision) for each in stored.values()), default=0.0)
    inputs = r.inputs
    kept = {**stored,
            **{name: each for name, each in r.stored_formats.items() if name not in STORABLE}}
    offsets = {f"{name}_offset": getattr(inputs, f"{name}_offset") + _largest_offset(problem, name)
               for name, each in stored.items() if each.has_offset}
    return replace(r, stored_formats=kept, inputs=replace(
        inputs, of_logits=(1 + inputs.of_logits) * (1 + compound(u, on_logits)) - 1,
        of_values=(1 + inputs.of_values) * (1 + compound(u, on_values)) - 1, **offsets))


def _largest_offset(problem: Problem, name: str) -> float:
    """Twice the largest entry of an array: nothing that is taken off stands for more than one, and
    what it is taken off of for no more than two.
    """
    size = np.abs(getattr(join_past(problem), name).astype(np.float64))
    return 2 * float(size.max(initial=0.0, where=np.isfinite(size)))


def cut_stored_blocks(problem: Problem, r: Roundings, conventions: Mapping[str, str],
                      scale_width: int | None = None,
                      rows: Array | None = None) -> Iterator[ProblemBlock]:
    """The blocks of a problem whose entries are read, each with how far what is stored may be from
    them, by the numbers of a class with what reading back rounds.
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
    """The least and the greatest visible value of each row and feature, (B,H,T,Dv) in float64, of
    those that a subject of this class may read back.
    """
    r = roundings(precision)
    if not r.stored_formats:
        return attended_hull(problem, conventions)
    posed = read_entries(problem)
    r = add_rescaling(r, posed, stored_arrays(problem, r))
    return attended_hull(posed, conventions, cut_stored_blocks(posed, r, conventions))


def _with_stored_sizes(problem: Problem, formats: Mapping[str, StoredForm]) -> Problem:
    """The problem with entries that are no smaller than what is stored in their place."""
    whole, changed = join_past(problem), dict[str, Array]()
    for name, each in formats.items():
        sizes = each.stored_sizes(getattr(whole, name).astype(np.float64))
        if sizes is not None:
            changed |= {name: sizes} if name == "query" else _split_past_entries(name, sizes,
                                                                                 problem)
    return problem.but(**changed)


def _split_past_entries(name: str, array: Array, problem: Problem) -> dict[str, Array]:
    """Keys (B,Hkv,S,D) or values (B,Hkv,S,Dv) as a problem holds them: new ones, and past ones
    where it has a past.
    """
    P = problem.past
    return {name: array[:, :, P:],
            **({CACHED[CACHED_INPUTS.index(name)]: array[:, :, :P]} if problem.has_past else {})}


def error_problem(problem: Problem, precision: Precision,
                  formats: Mapping[str, StoredForm]) -> Problem:
    """A problem of the same shape that has in the place of each entry how far what attends may be
    from it: query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) in float64, past ones likewise.
    """
    whole, arrays = join_past(problem), dict[str, Array]()
    with np.errstate(all="ignore"):  # entries that are not finite
        for name in STORABLE:
            entries = getattr(whole, name).astype(np.float64)
            arrays[name] = formats[name].entry_errors(entries,
                                                      precision) if name in formats else np.zeros(
                entries.shape)
    return problem.but(query=arrays["query"], **_split_past_entries("key", arrays["key"], problem),
                       **_split_past_entries("value", arrays["value"], problem))


def _with_errors(operands: Operands, errors: Operands, sized: Operands) -> Operands:
    """A block that knows how far its entries may be from what attends: all sizes are those of the
    largest that may.
    """
    stored = EntryErrors(errors.query, errors.key, errors.value)
    return replace(operands, entry_errors=stored, usable=operands.usable & errors.usable,
                   sizes=_grow_sizes(sized.sizes, errors.sizes),
                   held=_grow_sizes(sized.held, errors.held))


def _grow_sizes(sizes: Magnitudes, errors: Magnitudes) -> Magnitudes:
    """Sizes of entries, and their sums, with the errors added."""
    added = {name: getattr(sizes, name) + getattr(errors, name) for name in Magnitudes.__slots__}
    return Magnitudes(**added)


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeightError:
    """What storing weights as others may do, in units of the row's sum.

    apart (B,H,T,S): of each weight.  mass (B,H,T,1): their sum.
    """

    distances: Array
    mass: Array


def stored_weight_error(stored: StoredForm, heaviest: Array, total: Array, least: Array, *,
                        only_small: bool = False) -> StoredWeightError:
    """How far weights may be from what they are read back as, given the heaviest that an honest
    exponential may be (B,H,T,S), 0 where hidden; the sum of a row and the least that it may be,
    (B,H,T).

    What is stored is off by half a unit or by half the least distance, and no weight by more than
    itself.  only_small: without half a unit, what is lost of small weights alone.
    """
    step = stored.least_distance * (total[..., None] if stored.divided else np.ones(()))
    relative = 0.0 if only_small else stored.relative
    apart = np.maximum(relative * heaviest, np.minimum(step, heaviest)) / least[..., None]
    return StoredWeightError(apart, apart.sum(axis=-1, keepdims=True))
