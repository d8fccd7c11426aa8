"""What the suites of today put to an implementation: their laws, shapes and features, sizes and draws."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from attnspec.core.nouns import DType, Kind
from attnspec.problems import families
from attnspec.problems.families import Words, random_words, whole_numbers
from attnspec.problems.make import as_dtype
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes

from evaluation.baselines import grids
from evaluation.baselines.dealing import affordable
from evaluation.baselines.grids import Option, ParameterGrid
from evaluation.baselines.references import ReferencedProblem

Law = Callable[[Words], families.Floats]

normal: Law = families.normal_numbers    # torch.randn
uniform: Law = families.uniform_numbers  # torch.rand, numpy.random.rand


def draw_array(law: Law, seed: int, label: str, shape: tuple[int, ...], dtype: DType) -> Array:
    """An array such as query (B,H,T,D), rounded to the dtype; it follows from law, seed, label and shape alone."""
    return as_dtype(law(random_words(seed, label, shape)), dtype)


def attention_problem(law: Law, seed: int, label: str, sizes: Sizes, dtype: DType) -> Problem:
    """Query, key and value under one law, nothing else."""
    return Problem(dtype,
                   draw_array(law, seed, f"{label} query", (sizes.B, sizes.H, sizes.T, sizes.D), dtype),
                   draw_array(law, seed, f"{label} key", (sizes.B, sizes.Hkv, sizes.S, sizes.D), dtype),
                   draw_array(law, seed, f"{label} value", (sizes.B, sizes.Hkv, sizes.S, sizes.Dv), dtype))


def layer_problem(law: Law, seed: int, label: str, sizes: Sizes, dtype: DType) -> LayerProblem:
    """A layer of width M = H·D on one input where T = S, else on a query and a memory; weights as of nn.Linear."""
    M = sizes.H * sizes.D
    query = draw_array(law, seed, f"{label} query", (sizes.B, sizes.T, M), dtype)
    memory = query if sizes.T == sizes.S else draw_array(law, seed, f"{label} memory", (sizes.B, sizes.S, M), dtype)
    return LayerProblem(dtype, query, memory, memory, _linear(seed, label, M, dtype), sizes.H, sizes.H)


def _linear(seed: int, label: str, M: int, dtype: DType) -> Mapping[str, Array]:
    """Weights (M,M) and biases (M,) uniform within ±1/sqrt(M), which is how nn.Linear starts."""
    shapes = {f"{letter}_{which}": (M, M) if letter == "w" else (M,)
              for letter in "wb" for which in ("query", "key", "value", "out")}
    shares = {name: families.uniform_numbers(random_words(seed, f"{label} {name}", shape))
              for name, shape in shapes.items()}
    return {name: as_dtype((2 * share - 1) / np.sqrt(M), dtype) for name, share in shares.items()}


Problems = Callable[[DType, int], Iterator[Problem | LayerProblem]]

REMEMBERED = 16
"""Lists of problems kept with their references: those of all rules at one dtype and seed, for attention and layers."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The inputs of one suite."""

    attention: Problems
    layers: Problems | None = None

    def pose_problems(self, kind: Kind, dtype: DType, seed: int) -> tuple[ReferencedProblem, ...]:
        """The problems for a subject of this kind; the same objects every time, so references are worked out once."""
        problems = self.layers if kind is Kind.LAYER and self.layers is not None else self.attention
        return posed_problems(problems, dtype, seed)


@functools.lru_cache(REMEMBERED)
def posed_problems(problems: Problems, dtype: DType, seed: int) -> tuple[ReferencedProblem, ...]:
    """The problems of a suite with their references; the same objects every time."""
    return tuple(ReferencedProblem(problem) for problem in problems(dtype, seed))


# KernelBench: one shape a problem, drawn five times

DRAWS = 5


def _shape(grid: ParameterGrid) -> Sizes | None:
    """The one shape of a problem of KernelBench as it is put; None where it is left out."""
    (B,), ((H, Hkv),), ((T, S),), ((D, Dv),) = grid.batches, grid.heads, grid.lengths, grid.widths
    return affordable(Sizes(B, H, Hkv, T, S, D, Dv), keeps_batch=True)


SHAPES: Mapping[str, tuple[Sizes, bool]] = {
    grid.test: (sizes, Option.CAUSAL in grid.always) for grid in grids.KERNELBENCH if (sizes := _shape(grid))}
"""The sizes of KernelBench's problems, and whether they are causal."""


def five_draws(law: Law) -> Suite:
    """Each shape of KernelBench five times: plain, then causal; to a layer the causal one."""
    def attention(dtype: DType, seed: int) -> Iterator[Problem]:
        for test, (sizes, causal) in SHAPES.items():
            for draw in range(DRAWS):
                yield attention_problem(law, seed, f"{test} {draw}", sizes, dtype).but(causal=causal)

    def layers(dtype: DType, seed: int) -> Iterator[LayerProblem]:
        sizes = next(sizes for sizes, causal in SHAPES.values() if causal)
        for draw in range(DRAWS):
            yield layer_problem(law, seed, f"kernelbench layer {draw}", sizes, dtype).but(causal=True)

    return Suite(attention, layers)


# PyTorch: five normal draws as people write them, then the shapes and features of the operator's own samples (whose
# entries in [-9, 9) come with a looser tolerance, so they are drawn normal here); a layer as nn.MultiheadAttention.

BY_HAND = Sizes(2, 2, 2, 128, 128, 64, 64)
_SAMPLE = Sizes(4, 4, 4, 3, 6, 8, 8)


def _opinfo(dtype: DType, seed: int) -> Iterator[Problem]:
    for draw in range(DRAWS):
        yield attention_problem(normal, seed, f"normal {draw}", BY_HAND, dtype)
    for causal in (True, False):
        for heads in (1, 4):
            sizes = replace(_SAMPLE, H=heads, Hkv=heads)
            yield attention_problem(normal, seed, f"sample {causal} {heads}", sizes, dtype).but(causal=causal)
        problem = attention_problem(normal, seed, f"broadcast {causal}", _SAMPLE, dtype)
        yield problem.but(causal=causal, query=np.broadcast_to(problem.query[:1], problem.query.shape))
    masked = attention_problem(normal, seed, "mask", _SAMPLE, dtype)
    yield masked.but(bias=float_mask(normal, seed, "float mask", masked))


def _multihead(dtype: DType, seed: int) -> Iterator[LayerProblem]:
    self_attention, memory = Sizes(2, 4, 4, 16, 16, 8, 8), Sizes(2, 4, 4, 16, 24, 8, 8)
    plain = layer_problem(normal, seed, "self", self_attention, dtype)
    yield plain
    crossed = layer_problem(normal, seed, "memory", memory, dtype)
    yield crossed
    yield layer_problem(normal, seed, "causal", self_attention, dtype).but(causal=True)
    padded = layer_problem(normal, seed, "padded", memory, dtype)
    yield padded.but(mask=padding(seed, "padded", memory, 1))
    yield crossed.but(return_weights=True)


OPINFO = Suite(_opinfo, _multihead)


def float_mask(law: Law, seed: int, label: str, problem: Problem) -> Array:
    """(B,H,T,S): one float mask (T,S) for all heads."""
    sizes = problem.sizes
    bias = draw_array(law, seed, label, (sizes.T, sizes.S), problem.dtype)
    return np.broadcast_to(bias, (sizes.B, sizes.H, *bias.shape)).copy()


def padding(seed: int, label: str, sizes: Sizes, least: int) -> Array:
    """(B,H,T,S): each sequence sees as many leading keys as its length, `least` … S."""
    lengths = whole_numbers(random_words(seed, f"{label} lengths", (sizes.B, 1, 1, 1)), least, sizes.S)
    return np.broadcast_to(np.arange(sizes.S) < lengths, (sizes.B, sizes.H, sizes.T, sizes.S)).copy()
