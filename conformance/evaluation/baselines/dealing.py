"""Which cases of a published grid a rule puts: dealt by a seed, cut to what two CPU cores afford by one stated rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from attnspec.problems.families import random_words
from attnspec.problems.problem import Sizes

from evaluation.baselines.grids import Option, ParameterGrid

SMALL = 5e8
"""Work of a small case. One beyond it is put with fewer sequences, but for every fourth; if need be with just one."""

LARGEST = 2.5e9
"""The most work of a case. One beyond it is put with one sequence, then with fewer heads, else left out."""

HALF = 8e9
"""What small cases cost together, and large ones: a second of a core each, for a subject that is not convicted.

So a rule comes to an end within half an hour of two cores at ten seeds of a hundred faults, three dtypes.
"""

MOST = 192
"""Cases of one rule at one seed."""

NOT_IN_LAYERS = frozenset({Option.LOCAL, Option.SOFTCAP, Option.SCALE})
LAYER_CASES = 8
WIDEST_LAYER = 1024  # H·D: projections are the most of a layer's work

_DEALS = 8 * MOST  # looked at before it is clear that no more fit


@dataclass(frozen=True, slots=True)
class GridCase:
    """One case of a grid. published: its sizes there; `sizes` are what is left of them."""

    grid: ParameterGrid
    published: Sizes
    sizes: Sizes
    options: frozenset[Option]


def work(sizes: Sizes) -> float:
    """What a case costs: multiply-adds, and what a weight costs beside them, in the same time as some 400."""
    return float(sizes.B) * sizes.H * sizes.T * sizes.S * (sizes.D + sizes.Dv + 400)


def affordable(sizes: Sizes, *, keeps_batch: bool = False) -> Sizes | None:
    """The sizes with B halved while the work is too much, then the heads; None where one head is still too much."""
    while sizes.B > 1 and work(sizes) > (LARGEST if keeps_batch else SMALL):
        sizes = replace(sizes, B=sizes.B // 2)
    while sizes.H > 1 and work(sizes) > LARGEST:
        sizes = replace(sizes, H=sizes.H // 2, Hkv=max(1, sizes.Hkv // 2))
    return sizes if work(sizes) <= LARGEST else None


def dealt(grids: Sequence[ParameterGrid], seed: int, share: float = 1.0) -> tuple[GridCase, ...]:
    """The cases of a seed, as they are dealt: tests in turn, until either half of the work, or this share of it, is
    spent.
    """
    found: dict[tuple[Sizes, frozenset[Option]], GridCase] = {}
    spent = {True: 0.0, False: 0.0}
    for case in _in_turn(grids, seed):
        is_small, costs = work(case.sizes) <= SMALL, work(case.sizes)
        if (case.sizes, case.options) not in found and spent[is_small] + costs <= HALF * share:
            found[case.sizes, case.options] = case
            spent[is_small] += costs
        if len(found) == MOST:
            break
    return tuple(found.values())


def for_layers(cases: Iterable[GridCase]) -> tuple[GridCase, ...]:
    """Those of the cases that a layer gets, whose suite has none: the first few small ones with what layers take."""
    suited = (case for case in cases if not case.options & NOT_IN_LAYERS and work(case.sizes) <= SMALL
              and case.sizes.H * case.sizes.D <= WIDEST_LAYER)
    return tuple(itertools.islice(suited, LAYER_CASES))


def _in_turn(grids: Sequence[ParameterGrid], seed: int) -> Iterator[GridCase]:
    """One case of every test, then the next one of every test; not without end, for all may be too large."""
    for number in range(1 + _DEALS // len(grids)):
        for grid in grids:
            case = _case(grid, seed, number)
            if case is not None:
                yield case


def _case(grid: ParameterGrid, seed: int, number: int) -> GridCase | None:
    """The case of this number; None where it is left out. Every value of an axis comes before any comes again."""
    counts = (len(grid.batches), len(grid.heads), len(grid.lengths), len(grid.widths), *[2] * len(grid.switches))
    batch, heads, lengths, widths, *on = (
        _place(count, seed, f"{grid.test} {axis}", number) for axis, count in enumerate(counts))
    published = Sizes(grid.batches[batch], *grid.heads[heads], *grid.lengths[lengths], *grid.widths[widths])
    options = {*grid.always, *itertools.compress(grid.switches, on)}
    if grid.square and published.T != published.S:
        options.discard(Option.CAUSAL)
    sizes = affordable(published, keeps_batch=number % 4 == 0)
    return None if sizes is None else GridCase(grid, published, sizes, frozenset(options))


def _place(count: int, seed: int, label: str, number: int) -> int:
    """Place `number` of a stream in which every run of `count` places is an order of its own."""
    lap, place = divmod(number, count)
    return int(np.argsort(random_words(seed, f"{label} {lap}", (count,)), kind="stable")[place])


def combinations(grid: ParameterGrid) -> int:
    """How many cases are published."""
    return len(tuple(_sizes(grid))) * _options(grid)


def _options(grid: ParameterGrid) -> int:
    options: int = 2 ** len(grid.switches)
    return options


def describe_dealing(grids: Sequence[ParameterGrid]) -> str:
    """How much of the grids is put: `At each seed at most 192 of the 5,988 combinations of 4 tests; 564 are …`."""
    every = [(sizes, _options(grid)) for grid in grids for sizes in _sizes(grid)]
    beyond = sum(options for sizes, options in every if affordable(sizes) is None)
    lost = {(sizes.T, sizes.S) for sizes, _ in every} - {
        (sizes.T, sizes.S) for sizes, _ in every if affordable(sizes) is not None}
    never = f", among them all of {_list_lengths(sorted(lost))}" if lost else ""
    left_out = f"; {beyond:,} are left out as too large{never}" if beyond else ""
    count = sum(map(combinations, grids))
    return f"At each seed at most {MOST} of the {count:,} combinations of {len(grids)} tests{left_out}."


def _sizes(grid: ParameterGrid) -> Iterator[Sizes]:
    for B, (H, Hkv), (T, S), (D, Dv) in itertools.product(grid.batches, grid.heads, grid.lengths, grid.widths):
        yield Sizes(B, H, Hkv, T, S, D, Dv)


def _list_lengths(lengths: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{T} × {S}" for T, S in lengths)
