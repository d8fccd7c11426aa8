"""The inputs of rules on serving: sequences of different lengths, caches filled in part, keys behind a cache."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from attnspec.core.forms import KEY_COUNTS, QUERY_COUNTS, TABLE
from attnspec.core.keywords import CACHED
from attnspec.core.nouns import DType
from attnspec.problems.families import random_words, whole_numbers
from attnspec.problems.problem import CACHED_INPUTS, Array, Problem

from evaluation.baselines.dealing import dealt, work
from evaluation.baselines.grid_suites import OPTIONS, Changes, Posed, Posing, problem_of
from evaluation.baselines.grids import Option, ParameterGrid
from evaluation.baselines.inputs import Suite, draw_array, normal, uniform
from evaluation.baselines.serving_grids import CACHES, VARLEN

OF_LENGTHS, OF_CACHES = 0.5, 0.25
"""Of the work that a rule on outputs puts: packing takes longer, and the earlier calls of a decoder longer still."""

PAGES = ("one_page", "long_table")
"""How the keys of a cache lie in pages, case by case in turn, beside the usual pages of four slots. The source has
pages of 256, and a table that is three times as long as its keys need; caches of so few keys are one page.
"""


def of_serving(published: Sequence[ParameterGrid], share: float) -> Suite:
    """What is dealt of these grids, the least work first."""
    return Suite(functools.partial(_dealt, published, share))


def _dealt(published: Sequence[ParameterGrid], share: float, dtype: DType, seed: int) -> Iterator[Problem]:
    for number, case in sorted(enumerate(dealt(published, seed, share)), key=lambda each: work(each[1].sizes)):
        label = f"case {number}"
        problem = problem_of(normal, case, label, dtype, seed, options=SERVED)
        yield problem
        if Option.CACHED in case.options:
            yield problem.but(**{TABLE: PAGES[number % len(PAGES)]})
        if Option.APPENDED in case.options:
            yield problem.but(**_append_keys(Posing(case, normal, problem, seed, label)))


def _counts(posing: Posing, name: str, least: int, most: int) -> Array:
    """(B,) int32: one length for each sequence."""
    drawn_words = random_words(posing.seed, f"{posing.label} {name}", (posing.case.sizes.B,))
    return whole_numbers(drawn_words, least, most).astype(np.int32)


def _causal(posing: Posing) -> Changes:
    """The sources' diagonal ends bottom-right, where a single query sees all keys: it is put without a diagonal."""
    return {"causal": posing.case.sizes.T > 1}


def _pad_lengths(posing: Posing) -> Changes:
    """All but the last 20 queries, and keys, at most."""
    sizes = posing.case.sizes
    return {name: _counts(posing, name, max(1, length - 20), length)
            for name, length in ((QUERY_COUNTS, sizes.T), (KEY_COUNTS, sizes.S))}


def _draw_cache_lengths(posing: Posing) -> Changes:
    """Each sequence has its own number of keys, those among them that the call appends."""
    least = _new_keys(posing) if Option.APPENDED in posing.case.options else 1
    return {KEY_COUNTS: _counts(posing, KEY_COUNTS, least, posing.case.sizes.S)}


def _slopes(posing: Posing) -> Changes:
    """(B,H) slopes in [0, 0.3)."""
    sizes = posing.case.sizes
    slopes = draw_array(uniform, posing.seed, posing.label, (sizes.B, sizes.H), DType.FLOAT64) * 0.3
    return {"alibi_slopes": slopes.astype(np.float32)}


def _new_keys(posing: Posing) -> int:
    """As many as queries, or a number from 1 to that."""
    T = posing.case.sizes.T
    if Option.FEWER not in posing.case.options:
        return T
    return int(whole_numbers(random_words(posing.seed, f"{posing.label} new keys {T}", (1,)), 1, T)[0])


def _append_keys(posing: Posing) -> Changes:
    """The new keys behind past ones, whose number all sequences share: 0 or more, as far as there is room."""
    new = _new_keys(posing)
    room = posing.case.sizes.S - new
    past = int(whole_numbers(random_words(posing.seed, f"{posing.label} past", (1,)), 0, room)[0])
    pairs = {name: getattr(posing.problem, name) for name in CACHED_INPUTS}
    return {KEY_COUNTS: None, **{name: pair[:, :, past:past + new].copy() for name, pair in pairs.items()},
            **{name: pairs[held][:, :, :past].copy() for name, held in zip(CACHED, CACHED_INPUTS, strict=True)}}


SERVED: Mapping[Option, Posed] = {
    Option.CAUSAL: _causal, Option.LOCAL: OPTIONS[Option.LOCAL], Option.ALIBI: _slopes, Option.PADDED: _pad_lengths,
    Option.CACHED: _draw_cache_lengths, Option.SOFTCAP: OPTIONS[Option.SOFTCAP]}
"""What an option changes of a problem that has lengths."""

FLASH_VARLEN, FLASH_CACHES = of_serving(VARLEN, OF_LENGTHS), of_serving(CACHES, OF_CACHES)
