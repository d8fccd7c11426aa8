"""What the suites of today put to an implementation: their laws, shapes and features, sizes and draws."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.nouns import DType, Kind
from attnspec.evaluation.baselines.references import ReferencedProblem
from attnspec.problems import entries
from attnspec.problems.entries import Words, integers, words
from attnspec.problems.make import as_dtype
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes

Law = Callable[[Words], entries.Floats]

normal: Law = entries.normal    # torch.randn
uniform: Law = entries.uniform  # torch.rand, numpy.random.rand


def drawn(law: Law, seed: int, label: str, shape: tuple[int, ...], dtype: DType) -> Array:
    """An array such as query (B,H,T,D), rounded to the dtype; it follows from law, seed, label and shape alone."""
    return as_dtype(law(words(seed, label, shape)), dtype)


def attention_problem(law: Law, seed: int, label: str, sizes: Sizes, dtype: DType) -> Problem:
    """Query, key and value under one law, nothing else."""
    return Problem(dtype,
                   drawn(law, seed, f"{label} query", (sizes.B, sizes.H, sizes.T, sizes.D), dtype),
                   drawn(law, seed, f"{label} key", (sizes.B, sizes.Hkv, sizes.S, sizes.D), dtype),
                   drawn(law, seed, f"{label} value", (sizes.B, sizes.Hkv, sizes.S, sizes.Dv), dtype))


def layer_problem(law: Law, seed: int, label: str, sizes: Sizes, dtype: DType) -> LayerProblem:
    """A layer of width M = H·D on one input where T = S, else on a query and a memory; weights as of nn.Linear."""
    M = sizes.H * sizes.D
    query = drawn(law, seed, f"{label} query", (sizes.B, sizes.T, M), dtype)
    memory = query if sizes.T == sizes.S else drawn(law, seed, f"{label} memory", (sizes.B, sizes.S, M), dtype)
    return LayerProblem(dtype, query, memory, memory, _linear(seed, label, M, dtype), sizes.H, sizes.H)


def _linear(seed: int, label: str, M: int, dtype: DType) -> Mapping[str, Array]:
    """Weights (M,M) and biases (M,) uniform within ±1/sqrt(M), which is how nn.Linear starts."""
    shapes = {f"{letter}_{which}": (M, M) if letter == "w" else (M,)
              for letter in "wb" for which in ("query", "key", "value", "out")}
    return {name: as_dtype((2 * entries.uniform(words(seed, f"{label} {name}", shape)) - 1) / np.sqrt(M), dtype)
            for name, shape in shapes.items()}


Problems = Callable[[DType, int], Iterator[Problem | LayerProblem]]

REMEMBERED = 128
"""Lists of problems kept with their references: all rules at three dtypes for a few seeds."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The inputs of one suite."""

    attention: Problems
    layers: Problems | None = None

    def posed(self, kind: Kind, dtype: DType, seed: int) -> tuple[ReferencedProblem, ...]:
        """The problems for a subject of this kind; the same objects every time, so references are worked out once."""
        problems = self.layers if kind is Kind.LAYER and self.layers is not None else self.attention
        return _posed(problems, dtype, seed)


@functools.lru_cache(REMEMBERED)
def _posed(problems: Problems, dtype: DType, seed: int) -> tuple[ReferencedProblem, ...]:
    return tuple(ReferencedProblem(problem) for problem in problems(dtype, seed))


# KernelBench: level 1 problem 97 is plain attention, level 3 problem 43 a causal layer. It draws five times.

FIXED = Sizes(2, 2, 2, 128, 128, 64, 64)
DRAWS = 5


def five_draws(law: Law) -> Suite:
    """One fixed shape: five plain problems, then five causal ones; to a layer, five causal ones."""
    def attention(dtype: DType, seed: int) -> Iterator[Problem]:
        for causal in (False, True):
            for draw in range(DRAWS):
                yield attention_problem(law, seed, f"kernelbench {causal} {draw}", FIXED, dtype).but(causal=causal)

    def layers(dtype: DType, seed: int) -> Iterator[LayerProblem]:
        for draw in range(DRAWS):
            yield layer_problem(law, seed, f"kernelbench layer {draw}", FIXED, dtype).but(causal=True)

    return Suite(attention, layers)


# PyTorch: five normal draws as people write them, then the shapes and features of the operator's own samples (whose
# entries in [-9, 9) come with a looser tolerance, so they are drawn normal here); a layer as nn.MultiheadAttention.

_SAMPLE = Sizes(4, 4, 4, 3, 6, 8, 8)


def _opinfo(dtype: DType, seed: int) -> Iterator[Problem]:
    for draw in range(DRAWS):
        yield attention_problem(normal, seed, f"normal {draw}", FIXED, dtype)
    for causal in (True, False):
        for heads in (1, 4):
            sizes = replace(_SAMPLE, H=heads, Hkv=heads)
            yield attention_problem(normal, seed, f"sample {causal} {heads}", sizes, dtype).but(causal=causal)
        problem = attention_problem(normal, seed, f"broadcast {causal}", _SAMPLE, dtype)
        yield problem.but(causal=causal, query=np.broadcast_to(problem.query[:1], problem.query.shape))
    yield _with_bias(attention_problem(normal, seed, "mask", _SAMPLE, dtype), normal, seed)


def _multihead(dtype: DType, seed: int) -> Iterator[LayerProblem]:
    self_attention, memory = Sizes(2, 4, 4, 16, 16, 8, 8), Sizes(2, 4, 4, 16, 24, 8, 8)
    plain = layer_problem(normal, seed, "self", self_attention, dtype)
    yield plain
    crossed = layer_problem(normal, seed, "memory", memory, dtype)
    yield crossed
    yield layer_problem(normal, seed, "causal", self_attention, dtype).but(causal=True)
    padded = layer_problem(normal, seed, "padded", memory, dtype)
    yield padded.but(mask=_padding(seed, "padded", memory, 1))
    yield crossed.but(return_weights=True)


OPINFO = Suite(_opinfo, _multihead)


def _with_bias(problem: Problem, law: Law, seed: int) -> Problem:
    """A float mask (T,S), the same for all heads."""
    sizes = problem.sizes
    bias = drawn(law, seed, "float mask", (sizes.T, sizes.S), problem.dtype)
    return problem.but(bias=np.broadcast_to(bias, (sizes.B, sizes.H, *bias.shape)).copy())


def _padding(seed: int, label: str, sizes: Sizes, least: int) -> Array:
    """(B,H,T,S): each sequence sees as many leading keys as its length, `least` … S."""
    lengths = integers(words(seed, f"{label} lengths", (sizes.B, 1, 1, 1)), least, sizes.S)
    return np.broadcast_to(np.arange(sizes.S) < lengths, (sizes.B, sizes.H, sizes.T, sizes.S)).copy()


# flash-attention


@dataclass(frozen=True, slots=True)
class SuiteRow:
    """One tuple of a parametrised test: sizes, the causal flag, ALiBi slopes, random padding, scale, float mask."""

    sizes: Sizes
    causal: bool = False
    alibi: bool = False
    padded: bool = False
    scale: float | None = None
    float_mask: bool = False


def _rows(law: Law, rows: tuple[SuiteRow, ...]) -> Problems:
    def problems(dtype: DType, seed: int) -> Iterator[Problem]:
        for number, row in enumerate(rows):
            plain = attention_problem(law, seed, f"row {number}", row.sizes, dtype)
            yield _featured(plain.but(causal=row.causal, scale=row.scale), row, law, seed)
    return problems


def _suite(law: Law, *rows: SuiteRow) -> Suite:
    """These rows; of them the first four to a layer, since the original has no layers."""
    return Suite(_rows(law, rows), _rows(law, rows[:4]))


def _featured(problem: Problem, row: SuiteRow, law: Law, seed: int) -> Problem:
    if row.alibi:
        return problem.but(bias=_alibi(seed, problem))
    if row.padded:
        return problem.but(mask=_padding(seed, "padding", row.sizes, max(1, row.sizes.S - 20)))
    return _with_bias(problem, law, seed) if row.float_mask else problem


def _alibi(seed: int, problem: Problem) -> Array:
    """(B,H,T,S): minus slope times distance, slopes drawn in [0, 0.3) for each sequence and head."""
    sizes = problem.sizes
    slopes = drawn(uniform, seed, "alibi", (sizes.B, sizes.H, 1, 1), DType.FLOAT64) * 0.3
    distance = np.abs(np.arange(sizes.T)[:, None] + (sizes.S - sizes.T) - np.arange(sizes.S))
    return np.asarray(-slopes * distance, np.float32).astype(problem.query.dtype)


FLASH_ATTENTION = _suite(
    normal,
    SuiteRow(Sizes(2, 4, 4, 113, 203, 59, 59)),
    SuiteRow(Sizes(2, 4, 2, 128, 217, 40, 40), causal=True),
    SuiteRow(Sizes(2, 4, 1, 113, 211, 111, 111)),
    SuiteRow(Sizes(2, 4, 4, 108, 256, 64, 64), causal=True),
    SuiteRow(Sizes(1, 4, 4, 128, 217, 96, 96), alibi=True),
    SuiteRow(Sizes(2, 4, 2, 113, 203, 32, 32), causal=True, alibi=True),
    SuiteRow(Sizes(2, 4, 2, 113, 211, 80, 80), padded=True),
    SuiteRow(Sizes(1, 4, 4, 108, 256, 128, 128), causal=True, padded=True),
    SuiteRow(Sizes(1, 2, 1, 256, 512, 64, 64)),
    SuiteRow(Sizes(1, 2, 2, 512, 256, 32, 32), causal=True),
)

FLASH_ATTENTION_3 = _suite(
    normal,
    SuiteRow(Sizes(2, 4, 4, 1, 1, 64, 64)),
    SuiteRow(Sizes(2, 4, 2, 64, 128, 64, 256), causal=True),
    SuiteRow(Sizes(2, 4, 1, 128, 192, 96, 96)),
    SuiteRow(Sizes(1, 4, 4, 239, 1, 128, 128), causal=True),
    SuiteRow(Sizes(2, 4, 2, 113, 203, 64, 64)),
    SuiteRow(Sizes(1, 4, 4, 113, 128, 128, 128), causal=True),
    SuiteRow(Sizes(2, 4, 2, 128, 217, 96, 96), causal=True),
    SuiteRow(Sizes(1, 4, 1, 108, 256, 192, 192)),
    SuiteRow(Sizes(1, 2, 1, 799, 3, 64, 64)),
    SuiteRow(Sizes(1, 2, 2, 256, 256, 64, 64), causal=True),
    SuiteRow(Sizes(1, 2, 1, 384, 256, 64, 64)),
)

# PyTorch's fused attention: flash and memory-efficient kernels against the math path

FUSED_ATTENTION = _suite(
    uniform,
    SuiteRow(Sizes(2, 4, 4, 4, 4, 8, 8), causal=True),
    SuiteRow(Sizes(2, 4, 4, 143, 127, 21, 21)),
    SuiteRow(Sizes(1, 10, 2, 143, 127, 72, 72)),
    SuiteRow(Sizes(2, 4, 4, 4, 127, 32, 32), scale=1 / 32),
    SuiteRow(Sizes(1, 2, 2, 143, 579, 16, 16)),
    SuiteRow(Sizes(2, 4, 4, 128, 128, 64, 64), causal=True),
    SuiteRow(Sizes(2, 4, 4, 64, 256, 16, 16), causal=True),
    SuiteRow(Sizes(2, 4, 4, 8, 64, 8, 8), causal=True, scale=1 / 8),
    SuiteRow(Sizes(1, 16, 8, 4, 127, 96, 96), scale=1 / 96),
    SuiteRow(Sizes(2, 4, 4, 64, 65, 32, 32), float_mask=True),
    SuiteRow(Sizes(1, 4, 4, 312, 128, 8, 8), scale=1 / 8, float_mask=True),
    SuiteRow(Sizes(1, 2, 2, 4, 1024, 128, 128)),
)
