"""How the tests of today make codes and scales: what each does to the entries of query, key and value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from attnspec.aspects.quantised.arrays import NAMES, round_to
from attnspec.aspects.quantised.storage import STORAGES, Storage
from attnspec.problems.families import random_words, uniform_numbers
from attnspec.problems.problem import Array, Problem, Sizes, numpy_dtype

from evaluation.baselines.dealing import GridCase
from evaluation.baselines.inputs import draw_array
from evaluation.baselines.quantised_grids import CodeGrid, Coding

SCALES: Mapping[str, str] = {name: keyword for keyword, name in NAMES.items()}
"""By array, the keyword of its scale."""

QUERY_BLOCK, KEY_BLOCK = 128, 64
"""SageAttention's blocks of tokens (sageattention/quant.py, per_block_int8)."""

LEAST = 1e-6
"""vLLM and FlashInfer make no scale smaller."""

MOST_OF_CACHE = 256
"""FlashInfer's tests of caches: the largest entry becomes this code."""


@dataclass(frozen=True, slots=True)
class Coded:
    """Codes and their scales, both of one shape (B,H,S,D)."""

    codes: Array
    scale: Array


@dataclass(frozen=True, slots=True)
class Coder:
    """What a coding is told beside the entries (B,H,S,D) of an array."""

    name: str
    storage: Storage
    grid: CodeGrid
    sizes: Sizes
    seed: int
    label: str

    @property
    def given_scale(self) -> float:
        """The scale that the source gives."""
        return self.grid.given[tuple(SCALES).index(self.name)]


def coded_problem(case: GridCase, label: str, problem: Problem, storage: str, seed: int) -> Problem:
    """The problem with codes and scales in the place of what is not numbers, as its test makes them."""
    grid = case.grid
    assert isinstance(grid, CodeGrid)
    changes: dict[str, Array] = {}
    for name in grid.scaled:
        coder = Coder(name, STORAGES[storage], grid, case.sizes, seed, f"{label} scale of {name}")
        entries = getattr(problem, name).astype(np.float64)
        coded = _CODINGS[grid.coding](entries, coder)
        changes[name] = coded.codes.astype(numpy_dtype(problem.dtype))
        changes[SCALES[name]] = np.ascontiguousarray(np.broadcast_to(coded.scale, entries.shape).astype(np.float32))
    return problem.but(**changes)


def numbers_of(case: GridCase, label: str, problem: Problem, seed: int) -> Problem:
    """The numbers that a test begins with, before anything is coded: (B,H,T,D), (B,Hkv,S,D) and (B,Hkv,S,Dv)."""
    grid = case.grid
    assert isinstance(grid, CodeGrid)
    if grid.coding is Coding.UNIFORM:
        width = 1 / np.sqrt(case.sizes.D)
        arrays = {name: draw_array(lambda words: width * (2 * uniform_numbers(words) - 1), seed, f"{label} {name}",
                                   getattr(problem, name).shape, problem.dtype) for name in SCALES}
        return problem.but(**arrays)
    arrays = {name: getattr(problem, name).astype(np.float64) * gain
              for name, gain in zip(SCALES, grid.gains, strict=True)}
    if grid.louder_heads:
        louder = 1 + 0.1 * np.arange(case.sizes.Hkv)[:, None, None]
        arrays |= {name: arrays[name] * louder for name in ("key", "value")}
    return problem.but(**{name: array.astype(numpy_dtype(problem.dtype)) for name, array in arrays.items()})


def _code_by_given_scale(entries: Array, coder: Coder) -> Coded:
    """Entries (B,H,S,D) over a given number, rounded to the storage."""
    return _code_over_scale(entries, np.full((1, 1, 1, 1), coder.given_scale), coder.storage)


def _uniform(entries: Array, coder: Coder) -> Coded:
    """Entries (B,H,S,D) are rounded to codes; the scale is a given number that nobody divides by."""
    return Coded(round_to(coder.storage, entries), np.full((1, 1, 1, 1), coder.given_scale))


def _by_tensor(entries: Array, coder: Coder) -> Coded:
    """Entries (B,H,S,D) over a number that takes the largest one to 256."""
    return _code_over_scale(entries, np.full((1, 1, 1, 1), entries.max() / MOST_OF_CACHE), coder.storage)


def _by_head(entries: Array, coder: Coder) -> Coded:
    """Entries (B,H,S,D) over one number a head, for all sequences: its largest size over the largest code."""
    return _code_over_scale(entries, _largest(entries, (0, 2, 3), coder.storage.largest), coder.storage)


def _by_token(entries: Array, coder: Coder) -> Coded:
    """Entries (B,H,S,D) over one number a token."""
    return _code_over_scale(entries, _largest(entries, (3,), coder.storage.largest), coder.storage)


def _code_with_drawn_scale(entries: Array, coder: Coder) -> Coded:
    """Entries (B,H,S,D) rounded to codes, and scales (B,Hkv) in [0, 2); heads of a query share that of their keys."""
    B, H = entries.shape[:2]
    heads = coder.sizes.Hkv
    scale = 2 * uniform_numbers(random_words(coder.seed, coder.label, (B, heads, 1, 1)))
    return Coded(round_to(coder.storage, entries), np.repeat(scale.astype(np.float32), H // heads, axis=1))


def _by_block(entries: Array, coder: Coder) -> Coded:
    """Of queries and keys (B,H,S,D) one number a block of tokens, of values one a feature; keys lose their mean."""
    if coder.name == "value":
        storage = STORAGES["float8_e4m3fn"]
        return _code_over_scale(entries, _largest(entries, (2,), storage.largest), storage)
    smooth = entries - entries.mean(axis=2, keepdims=True) if coder.name == "key" else entries
    block = KEY_BLOCK if coder.name == "key" else QUERY_BLOCK
    S = entries.shape[2]
    starts = np.arange(0, S, block)
    sizes = np.maximum.reduceat(np.abs(smooth).max(axis=3, keepdims=True), starts, axis=2)
    scale = np.repeat(sizes / coder.storage.largest, np.diff([*starts, S]), axis=2)
    return _code_over_scale(smooth, scale, coder.storage)


def _largest(entries: Array, axes: tuple[int, ...], code: float) -> Array:
    """The scale that takes the largest size along some axes of (B,H,S,D) to a code; those axes have length 1."""
    return np.asarray(np.maximum(np.abs(entries).max(axis=axes, keepdims=True) / code, LEAST))


def _code_over_scale(entries: Array, scale: Array, storage: Storage) -> Coded:
    """The nearest codes of entries (B,H,S,D) over scales that broadcast to them and are float32 from the start."""
    kept = scale.astype(np.float32)
    return Coded(round_to(storage, entries / kept.astype(np.float64)), kept)


_CODINGS: Mapping[Coding, Callable[[Array, Coder], Coded]] = {
    Coding.GIVEN: _code_by_given_scale, Coding.UNIFORM: _uniform, Coding.BY_TENSOR: _by_tensor,
    Coding.BY_HEAD: _by_head,
    Coding.BY_TOKEN: _by_token, Coding.DRAWN: _code_with_drawn_scale, Coding.BY_BLOCK: _by_block}
