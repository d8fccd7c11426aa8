"""Makes the arrays of a problem from a recipe: pure functions of the recipe and the dtype.

Those of layers have exact projections in every dtype, whatever the order of summation.

Masks are bool arrays (B,H,T,S) with True = may attend, biases float64 arrays (B,H,T,S).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnspec.core.declaration import Limits
from attnspec.core.dtype import DTYPES
from attnspec.core.forms import FARTHEST, POSITIONS, PositionPattern, width_of
from attnspec.core.keywords import AXES, BESIDE, CACHED, DRAWN, OFF, VALUED, load_parts
from attnspec.core.nouns import DType
from attnspec.problems.domain import BiasName, MaskName
from attnspec.problems.families import (
    FAMILIES,
    Entries,
    Floats,
    HeadWords,
    Words,
    attacked_keys,
    normal_numbers,
    random_signs,
    random_words,
    uniform_numbers,
    whole_numbers,
)
from attnspec.problems.keyword_arrays import count_past, keyword_array, split_past
from attnspec.problems.problem import Array, LayerProblem, Problem, Recipe, Sizes, numpy_dtype

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MaskRecipe:
    """A way to hide keys.

    `pattern` may leave out axes along which it does not vary; `make_array` fills them in.
    """

    name: MaskName
    pattern: Callable[[int, Sizes], Bools]
    meaning: str

    def make_array(self, seed: int, sizes: Sizes) -> Bools:
        """The mask at full shape (B,H,T,S), private to the caller."""
        full = np.empty((sizes.B, sizes.H, sizes.T, sizes.S), np.bool_)
        full[...] = self.pattern(seed, sizes)
        return full


def _choose(seed: int, label: str, shape: tuple[int, ...], low: int,
            high: int) -> NDArray[np.intp]:
    """Random whole numbers low … high, in an array of any shape."""
    return whole_numbers(random_words(seed, f"mask {label}", shape), low, high).astype(np.intp)


def _all_true(_seed: int, _sizes: Sizes) -> Bools:
    return np.array(True)


def _draw_lengths(seed: int, sizes: Sizes) -> NDArray[np.intp]:
    """(B,1,1,1): how many keys of each batch entry are no padding, at least one."""
    return _choose(seed, "length", (sizes.B, 1, 1, 1), 1, sizes.S)


def _padding(seed: int, sizes: Sizes) -> Bools:
    return np.asarray(np.arange(sizes.S) < _draw_lengths(seed, sizes))


def _left_padding(seed: int, sizes: Sizes) -> Bools:
    return np.asarray(np.arange(sizes.S) >= sizes.S - _draw_lengths(seed, sizes))


def _scatter_entries(seed: int, sizes: Sizes, shape: tuple[int, int, int]) -> Bools:
    """Independent entries; each row has a density of its own from 1/8 to 1."""
    words = random_words(seed, "mask entries", (*shape, (sizes.S + 3) // 4))
    # four entries a word, low byte first, also on a big-endian machine
    entries = words.astype("<u4", copy=False).view(np.uint8)[..., :sizes.S]
    eighths = random_words(seed, "mask density", (*shape, 1)) >> np.uint32(29)
    return np.asarray(entries <= (31 + 32 * eighths).astype(np.uint8))


def _random_mask(seed: int, sizes: Sizes) -> Bools:
    shape = sizes.B, sizes.H, sizes.T
    mask = _scatter_entries(seed, sizes, shape)
    # one key is visible for sure, if possible one that causal rules of either alignment leave
    rows = np.arange(sizes.T)
    last = np.clip(np.minimum(rows, rows + sizes.S - sizes.T), 0, sizes.S - 1)
    sure = (uniform_numbers(random_words(seed, "mask sure", shape)) * (last + 1)).astype(np.intp)
    np.put_along_axis(mask, sure[..., None], True, axis=-1)
    return mask


def _per_head(seed: int, sizes: Sizes) -> Bools:
    mask = _scatter_entries(seed, sizes, (sizes.B, sizes.H, 1))
    # key 0 is the one that every causal row of the usual alignment sees
    mask[..., 0] = True
    return mask


def _single_key(seed: int, sizes: Sizes) -> Bools:
    key = _choose(seed, "key", (sizes.B, sizes.H, sizes.T, 1), 0, sizes.S - 1)
    return np.asarray(np.arange(sizes.S) == key)


def _block_mask(seed: int, sizes: Sizes) -> Bools:
    """Packed sequences: queries and keys have as many parts, and a query sees its own part."""
    return _block_diagonal(sizes, _choose(seed, "parts", (sizes.B, 1, 1, 1), 1, min(4, sizes.S)))


def _packed_mask(seed: int, sizes: Sizes) -> Bools:
    """The same, with as many parts as a long row of short sequences has."""
    most = max(min(4, sizes.S), min(sizes.S, sizes.T) // 8)
    return _block_diagonal(sizes, _choose(seed, "many parts", (sizes.B, 1, 1, 1), 1, most))


def _block_diagonal(sizes: Sizes, parts: NDArray[np.intp]) -> Bools:
    """(B,1,T,S) for parts (B,1,1,1): queries and keys are cut into as many parts."""
    queries = np.arange(sizes.T)[:, None] * parts // sizes.T
    return np.asarray(queries == np.arange(sizes.S) * parts // sizes.S)


def _banded_mask(seed: int, sizes: Sizes) -> Bools:
    reach = _choose(seed, "reach", (sizes.B, 1, 1, 1), 0, max(1, sizes.S // 4))
    centre = np.arange(sizes.T)[:, None] * sizes.S // sizes.T
    return np.asarray(np.abs(np.arange(sizes.S) - centre) <= reach)


def _causal_like(seed: int, sizes: Sizes) -> Bools:
    ahead = _choose(seed, "ahead", (sizes.B, 1, 1, 1), 0, sizes.S - 1)
    return np.asarray(np.arange(sizes.S) <= np.arange(sizes.T)[:, None] + ahead)


def _triangle_mask(_seed: int, sizes: Sizes) -> Bools:
    return np.tri(sizes.T, sizes.S, dtype=np.bool_)


def _mask_with_empty_rows(seed: int, sizes: Sizes) -> Bools:
    mask = _random_mask(seed, sizes)
    is_empty = random_words(seed, "mask empty", (sizes.B, sizes.H, sizes.T)) < np.uint32(2**30)
    # one at least: a mask of this name with no such row would show nothing
    is_empty.flat[_choose(seed, "surely empty", (1,), 0, is_empty.size - 1)] = True
    return mask & ~is_empty[..., None]


def _attack_mask(_seed: int, sizes: Sizes) -> Bools:
    return np.asarray(np.arange(sizes.S) < attacked_keys(sizes.S))


MASKS: Mapping[str, MaskRecipe] = {
    mask.name: mask
    for mask in (
        MaskRecipe("all_true", _all_true, "every query may attend to every key"),
        MaskRecipe("padding", _padding, "each batch element has its own number of leading keys"),
        MaskRecipe("random", _random_mask, "independent entries; each row has another density"),
        MaskRecipe("per_head", _per_head, "each head masks other keys, the same for all queries"),
        MaskRecipe("single_key", _single_key, "each query sees one key"),
        MaskRecipe("block", _block_mask, "block diagonal: packed sequences"),
        MaskRecipe("packed", _packed_mask, "block diagonal, in blocks as short as eight"),
        MaskRecipe("banded", _banded_mask,
                   "a band around the diagonal, of another width for each batch element"),
        MaskRecipe("left_padding", _left_padding,
                   "each batch element has its own number of trailing keys"),
        MaskRecipe("causal_like", _causal_like,
                   "a causal triangle, shifted ahead per batch element"),
        MaskRecipe("triangle", _triangle_mask, "a query sees no later key"),
        MaskRecipe("with_empty_rows", _mask_with_empty_rows,
                   "random, and a quarter of the rows see no key"),
        MaskRecipe("attack", _attack_mask,
                   "the second half of the keys is masked: for the families mask_attack…"),
    )
}


@dataclass(frozen=True, slots=True)
class BiasRecipe:
    """A way to make a bias; `make` returns something that broadcasts to (B,H,T,S)."""

    name: BiasName
    make: Callable[[int, Sizes], Floats]
    meaning: str


def _integer_bias(seed: int, sizes: Sizes) -> Floats:
    return whole_numbers(random_words(seed, "bias", (sizes.B, sizes.H, sizes.T, sizes.S)), -2, 2)


def _normal_bias(seed: int, sizes: Sizes) -> Floats:
    return normal_numbers(random_words(seed, "bias", (sizes.B, sizes.H, sizes.T, sizes.S)))


def _zero_bias(_seed: int, _sizes: Sizes) -> Floats:
    return np.zeros(())


def _row_constant(seed: int, sizes: Sizes) -> Floats:
    return 4 * normal_numbers(random_words(seed, "bias", (sizes.B, sizes.H, sizes.T, 1)))


def _slopes_bias(_seed: int, sizes: Sizes) -> Floats:
    """ALiBi's linear bias: head h falls by 2^-(h+1) a step away from the diagonal."""
    distance = np.abs(np.arange(sizes.T)[:, None] - np.arange(sizes.S))
    return np.asarray(np.ldexp(-1.0 * distance, -(np.arange(sizes.H)[:, None, None] + 1)))


def _large_bias(seed: int, sizes: Sizes) -> Floats:
    return 64 * _normal_bias(seed, sizes)


def _hiding_bias(seed: int, sizes: Sizes) -> Floats:
    return np.where(MASKS["random"].make_array(seed, sizes), _normal_bias(seed, sizes), -np.inf)


BIASES: Mapping[str, BiasRecipe] = {
    bias.name: bias
    for bias in (
        BiasRecipe("integers", _integer_bias, "small whole numbers"),
        BiasRecipe("normal", _normal_bias, "independent N(0,1)"),
        BiasRecipe("zero", _zero_bias, "all zero"),
        BiasRecipe("row_constant", _row_constant,
                   "one number for all keys of a query: it does not change the softmax"),
        BiasRecipe("slopes", _slopes_bias,
                   "falls linearly with distance, each head at its own rate"),
        BiasRecipe("large", _large_bias, "64 times N(0,1): the bias decides"),
        BiasRecipe("hiding", _hiding_bias,
                   "N(0,1), and -inf where the random mask is False; every row sees a key"),
    )
}


_ANY_LIMITS = Limits()


def make_layer(recipe: Recipe, dtype: DType, *, limits: Limits = _ANY_LIMITS) -> LayerProblem:
    """The layer problem of a recipe; M is `recipe.M`, or H·D where that is 0.

    limits.has_biases adds b_query … b_out, those that limits.biases names. Without
    limits.projects_output there are no w_out and b_out (M is H·Dv). The family `huge_logits`
    multiplies w_query by 16.
    """
    sizes = recipe.sizes
    M = recipe.M or sizes.H * sizes.D
    query, key, value = _layer_inputs(recipe, M)
    params = {**_layer_weights(recipe, M, limits), **_layer_biases(recipe.seed, sizes, M, limits)}
    return LayerProblem(
        dtype, as_dtype(query, dtype), as_dtype(key, dtype), as_dtype(value, dtype),
        {name: as_dtype(array, dtype) for name, array in params.items()}, sizes.H, sizes.Hkv,
        **keyword_arguments(recipe, dtype))


def _layer_inputs(recipe: Recipe, M: int) -> tuple[Floats, Floats, Floats]:
    """Query (B,T,M), key and value (B,S,M); `recipe.inputs` says which of them are equal."""
    sizes = recipe.sizes
    query = _draw_whole_numbers(recipe.seed, "query", (sizes.B, sizes.T, M), 3)
    if recipe.inputs == "one":
        return query, query.copy(), query.copy()
    key = _draw_whole_numbers(recipe.seed, "key", (sizes.B, sizes.S, M), 3)
    if recipe.inputs == "memory":
        return query, key, key.copy()
    return query, key, _draw_whole_numbers(recipe.seed, "value", key.shape, 3)


def _draw_whole_numbers(seed: int, label: str, shape: tuple[int, ...], bound: int) -> Floats:
    return whole_numbers(random_words(seed, label, shape), -bound, bound)


def _layer_weights(recipe: Recipe, M: int, limits: Limits) -> Mapping[str, Floats]:
    sizes, seed = recipe.sizes, recipe.seed
    # powers of two, so that projections stay exact
    steepness = 8.0 if "huge_logits" in recipe.families else 0.5
    weights = {
        "w_query": steepness * _two_a_column(seed, "w_query", M, sizes.H * sizes.D),
        "w_key": 0.5 * _two_a_column(seed, "w_key", M, sizes.Hkv * sizes.D),
        "w_value": _two_a_column(seed, "w_value", M, sizes.Hkv * sizes.Dv)}
    if limits.projects_output:
        weights["w_out"] = _one_a_column(seed, sizes.H * sizes.Dv, M)
    return weights


def _two_a_column(seed: int, label: str, rows: int, columns: int) -> Floats:
    """(rows, columns) with +1 or -1 at two random places of each column, maybe at the same."""
    # two terms a column: sums of two whole numbers are exact in every dtype
    random = random_words(seed, label, (2, columns))
    matrix = np.zeros((rows, columns))
    np.add.at(matrix, (whole_numbers(random, 0, rows - 1).astype(np.intp), np.arange(columns)),
              random_signs(random))
    return matrix


def _one_a_column(seed: int, rows: int, columns: int) -> Floats:
    """(rows, columns) with one signed power of two in each column; all rows are used in turn."""
    order = np.argsort(random_words(seed, "w_out order", (rows,)), kind="stable")
    random = random_words(seed, "w_out", (columns,))
    # 2, 1, 1/2, 1/4
    powers = np.ldexp(random_signs(random), 1 - (random >> np.uint32(30)).astype(np.int32))
    matrix = np.zeros((rows, columns))
    # no head's column is left out while another one is used twice
    matrix[order[np.arange(columns) % rows], np.arange(columns)] = powers
    return matrix


def _layer_biases(seed: int, sizes: Sizes, M: int, limits: Limits) -> Mapping[str, Floats]:
    biases = {
        "b_query": 0.5 * _draw_whole_numbers(seed, "b_query", (sizes.H * sizes.D,), 2),
        "b_key": 0.5 * _draw_whole_numbers(seed, "b_key", (sizes.Hkv * sizes.D,), 2),
        "b_value": _draw_whole_numbers(seed, "b_value", (sizes.Hkv * sizes.Dv,), 2)}
    if limits.projects_output:
        biases["b_out"] = _draw_whole_numbers(seed, "b_out", (M,), 2)
    return {name: bias for name, bias in biases.items()
            if limits.is_biased(name.removeprefix("b_"))}


def model_width(sizes: Sizes, limits: Limits) -> int:
    """M for these sizes: H·D where the subject ties them or T is even, else H·D + 3.

    So there is one M for a shape, for compilers.
    """
    is_tied = limits.ties_model_width or limits.self_attention_only or not limits.projects_output
    width = sizes.H * sizes.D
    return width if is_tied or sizes.T % 2 == 0 else width + 3


def make_problem(recipe: Recipe, dtype: DType) -> Problem:
    """The problem of a recipe, bit for bit the same everywhere, its arrays private to the caller.

    Key/value head i of the B·Hkv ones is filled by family i mod n of the recipe's n.
    """
    sizes = recipe.sizes
    query, key, value = fill_arrays(recipe.seed, sizes, recipe.families, dtype)
    problem = Problem(
        dtype,
        as_dtype(query, dtype).reshape(sizes.B, sizes.H, sizes.T, sizes.D),
        as_dtype(key, dtype).reshape(sizes.B, sizes.Hkv, sizes.S, sizes.D),
        as_dtype(value, dtype).reshape(sizes.B, sizes.Hkv, sizes.S, sizes.Dv),
        scale=recipe.scale if "scale" in recipe.features else None,
        **keyword_arguments(recipe, dtype))
    # an aspect may change the entries themselves: codes of a storage in the place of numbers
    for part in load_parts("arrays"):
        if not recipe.features.isdisjoint(part.ARRAYS):
            problem = part.settle(problem, recipe)
    # past keys are the first ones of the whole, so that the definition stays what it is
    for name in CACHED:
        if name in recipe.features and name in VALUED:
            return split_past(problem, count_past(recipe.value(name), sizes))
    return problem


def keyword_arguments(recipe: Recipe, dtype: DType) -> dict[str, Any]:
    """The keywords of a recipe without the scale and the past, which no layer takes.

    They are mask and bias (B,H,T,S), flags, and the values of others.
    """
    flags = {name: name in recipe.features for name, off in OFF.items() if off is False}
    values: dict[str, Any] = {}
    for name in OFF:
        if (name not in recipe.features or name in CACHED
                or {name, BESIDE.get(name)}.isdisjoint(VALUED)):
            continue
        if name in DRAWN:
            # 31 bits, so that it fits a signed integer
            values[name] = int(random_words(recipe.seed, name, (1,))[0] >> np.uint32(1))
            continue
        values[name] = recipe.value(name if name in VALUED else BESIDE[name])
        # of an array, the recipe has the name of its pattern, or that of the keyword beside it
        if name in AXES:
            values[name] = keyword_array(name, values[name], recipe.seed, recipe.sizes, dtype)
    sizes, mask, bias = recipe.sizes, None, None
    if "mask" in recipe.features and recipe.mask != "none":
        mask = MASKS[recipe.mask].make_array(recipe.seed, sizes)
    if "bias" in recipe.features:
        bias = np.empty((sizes.B, sizes.H, sizes.T, sizes.S), numpy_dtype(dtype))
        bias[...] = as_dtype(BIASES[recipe.bias].make(recipe.seed, sizes), dtype)
    return {"mask": mask, "bias": bias, **flags, **values}


def fill_arrays(seed: int, sizes: Sizes, families: Sequence[str], dtype: DType) -> Entries:
    """Entries of query (B·Hkv,G,T,D), key (B·Hkv,S,D) and value (B·Hkv,S,Dv).

    Each key head, with its query heads, is filled by one family.
    """
    # heads that share a key head are filled by one family, since their logits come from it
    n, G = sizes.B * sizes.Hkv, sizes.H // sizes.Hkv
    all_words = (random_words(seed, "query", (n, G, sizes.T, sizes.D)),
                 random_words(seed, "key", (n, sizes.S, sizes.D)),
                 random_words(seed, "value", (n, sizes.S, sizes.Dv)))
    query, key, value = (np.empty(array.shape, DTYPES[dtype].wide.value) for array in all_words)
    for first, family in enumerate(families[:n]):
        heads = slice(first, None, len(families))
        of_query, of_key, of_value = (array[heads] for array in all_words)
        words = HeadWords(of_query, of_key, of_value, dtype)
        query[heads], key[heads], value[heads] = FAMILIES[family].make(words)
    may_overflow = any(FAMILIES[family].overflows for family in families)
    if may_overflow or DTYPES[dtype].entry_limit == math.inf:
        return query, key, value
    return _limit_size(query, key, value, DTYPES[dtype].entry_limit)


def _limit_size(query: Floats, key: Floats, value: Floats, limit: float) -> Entries:
    """Query (n,G,T,D), key (n,S,D) and value (n,S,Dv) that stay finite in the dtype.

    Entries are clipped, and queries and keys shrunk by powers of two until no raw dot product can
    exceed the limit.
    """
    tops = [max(float(array.max()), -float(array.min())) for array in (query, key, value)]
    if max(*tops, tops[0] * tops[1] * query.shape[-1]) <= limit:
        return query, key, value  # the common case, told cheaply
    query, key, value = (np.clip(array.astype(np.float64), -limit, limit)
                         for array in (query, key, value))
    longest = np.sqrt(np.einsum("ngtd,ngtd->ngt", query, query).max(axis=(1, 2))
                      * np.einsum("nsd,nsd->ns", key, key).max(axis=1))  # Cauchy and Schwarz
    excess = longest / limit
    halvings = np.where(excess > 1, np.frexp(excess)[1], 0)
    of_query = (halvings + 1) // 2
    return (np.ldexp(query, -of_query[:, None, None, None]),
            np.ldexp(key, (of_query - halvings)[:, None, None]), value)


def as_dtype(entries: Floats, dtype: DType) -> Array:
    """The entries, of any shape, rounded to the nearest number of the dtype."""
    # by way of float32, so that bfloat16 does not depend on how ml_dtypes reads float64
    wide = entries.astype(DTYPES[dtype].wide.value, copy=False)
    return wide.astype(numpy_dtype(dtype), copy=False)


NEAR_POSITIONS = 4096
"""All positions that are not far lie below."""


@dataclass(frozen=True, slots=True, eq=False)
class RotaryProblem:
    """The input of a rotary embedding: x (B,H,T,D) in the dtype under test, positions (B,T) int32.

    A keyword that is None or False is not handed over.
    """

    dtype: DType
    x: Array
    positions: Array
    base: float | None = None
    rotary_width: int | None = None
    interleaved: bool = False

    @property
    def sizes(self) -> Sizes:
        """B, H, T and D, as a recipe has them: S = T, Hkv = H, Dv = D."""
        B, H, T, D = self.x.shape
        return Sizes(B, H, H, T, T, D, D)

    @property
    def given(self) -> dict[str, Any]:
        """The keywords in use, each with its value, and the positions."""
        keywords: dict[str, Any] = {POSITIONS: self.positions}
        if self.base is not None:
            keywords["base"] = self.base
        if self.rotary_width is not None:
            keywords["rotary_width"] = self.rotary_width
        if self.interleaved:
            keywords["interleaved"] = True
        return keywords

    @property
    def keywords(self) -> frozenset[str]:
        """The keywords that a subject must take for this problem."""
        return frozenset(self.given)

    @property
    def width(self) -> int:
        """How many features are turned."""
        return self.x.shape[-1] if self.rotary_width is None else self.rotary_width

    def but(self, **changes: Any) -> Self:  # noqa: ANN401  (the fields have types of their own)
        """The problem with some fields replaced."""
        return replace(self, **changes)

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} {self.dtype.value}{used}"


def make_rotary(recipe: Recipe, dtype: DType) -> RotaryProblem:
    """The rotary problem of a recipe, the same bits everywhere; x is filled as a query is."""
    sizes = recipe.sizes
    query, _, _ = fill_arrays(recipe.seed, replace(sizes, S=1), recipe.families, dtype)
    problem = RotaryProblem(
        dtype, as_dtype(query, dtype).reshape(sizes.B, sizes.H, sizes.T, sizes.D),
        make_positions(recipe.value(POSITIONS), recipe.seed, sizes),
        interleaved="interleaved" in recipe.features)
    if "base" in recipe.features:
        problem = problem.but(base=recipe.value("base"))
    if "rotary_width" in recipe.features:
        problem = problem.but(rotary_width=width_of(recipe.value("rotary_width"), sizes.D))
    return problem


def make_positions(pattern: PositionPattern, seed: int, sizes: Sizes) -> Array:
    """(B,T) int32: the places of the tokens by the name of a pattern."""
    shape = sizes.B, sizes.T
    positions = _POSITION_MAKERS[pattern](random_words(seed, POSITIONS, shape))
    return np.ascontiguousarray(np.broadcast_to(positions, shape), np.int32)


def _consecutive_positions(random: Words) -> Array:
    """(T,)."""
    return np.arange(random.shape[1])


def _offset_positions(random: Words) -> Array:
    """(B,T): from a random place on; the last is below NEAR_POSITIONS where there is room."""
    start = random[:, :1] % np.uint32(max(1, NEAR_POSITIONS - random.shape[1]))
    return np.asarray(_consecutive_positions(random) + start)


def _far_positions(random: Words) -> Array:
    """(B,T): up to a random place in the last eighth; in the first entry, to the farthest."""
    back = random[:, :1] % np.uint32(FARTHEST // 8)
    back[0] = 0
    return np.asarray(FARTHEST - back.astype(np.int64) - _consecutive_positions(random)[::-1])


def _packed_positions(random: Words) -> Array:
    """(B,T): from 0 on, and from 0 again at a random token."""
    begins = random[:, :1] % np.uint32(random.shape[1])
    places = _consecutive_positions(random) - begins.astype(np.int64)
    return np.where(places < 0, _consecutive_positions(random), places)


_POSITION_MAKERS: Mapping[PositionPattern, Callable[[Words], Array]] = {
    "counted": _consecutive_positions,
    "offset": _offset_positions,
    "scattered": lambda random: random % np.uint32(NEAR_POSITIONS),
    "far": _far_positions,
    "packed": _packed_positions,
    "zero": np.zeros_like,
}
