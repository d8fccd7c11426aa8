"""Arrays as today's suites draw them, from the project's frozen stream: no framework, the same bits everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.ground.nouns import DType
from attnspec.problems import entries
from attnspec.problems.make import as_dtype
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes
from attnspec.problems.stream import Words, words

Law = Callable[[Words], entries.Floats]

normal: Law = entries.normal    # torch.randn
uniform: Law = entries.uniform  # torch.rand, numpy.random.rand


def drawn(law: Law, seed: int, label: str, shape: tuple[int, ...], dtype: DType) -> Array:
    """An array of this shape, rounded to the dtype; it follows from law, seed and label alone."""
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
    """Weights and biases uniform within ±1/sqrt(M), which is how nn.Linear starts."""
    shapes = {f"{letter}_{which}": (M, M) if letter == "w" else (M,)
              for letter in "wb" for which in ("query", "key", "value", "out")}
    return {name: as_dtype((2 * entries.uniform(words(seed, f"{label} {name}", shape)) - 1) / np.sqrt(M), dtype)
            for name, shape in shapes.items()}
