"""Whether a mutant answers as its kernel does: some hundred calls of both, compared with plain NumPy.

    python conformance/benchmarks/mutation/battery.py KERNEL.py MUTANT.py      # prints a line of JSON

It knows nothing of attnspec, so that its inputs are others than those that attnspec judges by. Values are compared and
nothing else: a mutant counts as equivalent if it changes only layouts in memory, what is written to, or the dtype of
the answer (which a `should` clause is about).
"""

from __future__ import annotations

import inspect
import json
import resource
import runpy
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Function = Callable[..., Any]

CALLS = 400
"""Calls of each function of a kernel."""

SECONDS = 60
"""CPU seconds after which a mutant never ends. Kernels need one or two for all calls."""

TERMS = 1024
"""More than any sum of a call has terms, so that its rounding errors, relative to the largest term, are smaller than
so many units."""

LENGTHS, FEW, WIDTHS = (1, 2, 3, 5, 8, 16, 17, 31, 33, 40, 66), (1, 1, 2, 3), (1, 2, 4, 5, 8, 16)
FLAGS = ("causal", "return_lse", "return_weights")
PAGES, BOUNDS = (1, 2, 3, 4, 8, 16), (None, 0, 1, 2, 5, 20)


class Answers(Enum):
    """How a mutant's answers are beside those of its kernel. WRONG: other values, whatever else; RAISES: only that it
    raises where the kernel answers.
    """

    EQUAL = "equal"
    WRONG = "wrong"
    RAISES = "raises"
    NEVER_END = "never end"


@dataclass(frozen=True, slots=True)
class Compared:
    """What a battery says of a mutant: of how many calls how many are wrong, and how many raise; and the first."""

    answers: Answers
    calls: int = 0
    wrong: int = 0
    raised: int = 0
    example: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call. slack: how far rounding goes, relative to the largest entry."""

    arrays: tuple[Array, ...]
    keywords: Mapping[str, Any]
    slack: float

    def answer(self, function: Function) -> Mapping[str, Array]:
        """The answer to fresh copies, as arrays by name or number."""
        with np.errstate(all="ignore"):
            keywords = {name: _copy_value(each) for name, each in self.keywords.items()}
            answer = function(*map(_copy_value, self.arrays), **keywords)
        if isinstance(answer, dict):
            return {name: np.asarray(each) for name, each in answer.items()}
        answers = answer if isinstance(answer, tuple) else (answer,)
        return {str(number): np.asarray(each) for number, each in enumerate(answers)}

    def __str__(self) -> str:
        on = [name if isinstance(each, np.ndarray | dict) else f"{name}={each}" for name, each in self.keywords.items()
              if each is not None and each is not False]
        return " ".join([*(str(array.shape) for array in self.arrays), self.arrays[0].dtype.name, *on])


def _copy_value(value: Any) -> Any:  # noqa: ANN401  (what a function takes)
    if isinstance(value, np.ndarray):
        return value.copy()
    return {name: each.copy() for name, each in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class Sizes:
    """The lengths of a call's axes, its dtype, and how large its numbers are."""

    B: int
    Hkv: int
    group: int
    T: int
    S: int
    D: int
    Dv: int
    dtype: np.dtype[Any]
    largest: float

    @property
    def H(self) -> int:  # noqa: N802  (the legend's)
        """Query heads."""
        return self.Hkv * self.group

    @property
    def finer(self) -> np.dtype[Any]:
        """What is computed in."""
        return np.promote_types(self.dtype, np.float32)

    @property
    def slack(self) -> float:
        """How far rounding goes, relative to the largest entry: logits grow with the square of what they are made of,
        and an exponential is as far off, relatively, as its logit is absolutely.
        """
        terms = float(np.finfo(self.finer).eps) * TERMS * (1 + self.largest * self.largest * self.D)
        return terms + float(np.finfo(self.dtype).eps)


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the calls of a kernel, whose form its signature says."""

    random: np.random.Generator
    function: Function

    @property
    def _parameters(self) -> set[str]:
        return set(inspect.signature(self.function).parameters)

    def call(self) -> Call:
        """A call with sizes, values and keywords at random."""
        sizes = self._sizes()
        arrays, keywords = self._layer(sizes) if "params" in self._parameters else (self._heads(sizes), {})
        keywords |= self._keywords(sizes)
        if keywords.get("past_key"):
            P = self._one((0, 1, 3, sizes.S // 2, sizes.S))
            keywords |= {"past_key": arrays[1][:, :, :P], "past_value": arrays[2][:, :, :P]}
            arrays = (arrays[0], arrays[1][:, :, P:], arrays[2][:, :, P:])
        if "grad_output" in self._parameters:
            arrays = (*arrays, self._normal((sizes.B, sizes.H, sizes.T, sizes.Dv), sizes.dtype))
        if "block_table" in self._parameters:
            arrays, paged = self._make_pages(arrays, keywords.pop("key_lengths"))
            keywords |= paged
        if "cu_query" in self._parameters:
            arrays, packed = self._make_packed(arrays)
            keywords |= packed
        return Call(arrays, keywords, sizes.slack)

    def _sizes(self) -> Sizes:
        B, Hkv, group, T, S, D, Dv = map(self._one, (FEW, FEW, FEW, LENGTHS, LENGTHS, WIDTHS, WIDTHS))
        dtype = np.dtype(self._one(getattr(self.function, "dtypes", ("float64", "float32", "float16"))))
        return Sizes(B, Hkv, group, T, S, D, Dv, dtype, self._one((1, 1, 1, 0.1, 30)))

    def _one(self, values: Any) -> Any:  # noqa: ANN401  (numbers, None, names)
        return values[self.random.integers(len(values))]

    def _maybe(self) -> bool:
        return bool(self.random.random() < 0.5)

    def _normal(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: float = 1) -> Array:
        array: Array = (size * self.random.standard_normal(shape)).astype(dtype)
        return array

    def _heads(self, of: Sizes) -> tuple[Array, ...]:
        shapes = ((of.B, of.H, of.T, of.D), (of.B, of.Hkv, of.S, of.D), (of.B, of.Hkv, of.S, of.Dv))
        return tuple(self._normal(shape, of.dtype, of.largest) for shape in shapes)

    def _layer(self, of: Sizes) -> tuple[tuple[Array, ...], dict[str, Any]]:
        M = self._one((3, 8))
        widths = {"query": of.H * of.D, "key": of.Hkv * of.D, "value": of.Hkv * of.Dv}
        params = {f"w_{name}": self._normal((M, width), of.dtype, 0.5) for name, width in widths.items()}
        params |= {f"b_{name}": self._normal((width,), of.dtype, 0.5) for name, width in widths.items()}
        params |= {"w_out": self._normal((of.H * of.Dv, M), of.dtype, 0.5), "b_out": self._normal((M,), of.dtype, 0.5)}
        arrays = tuple(self._normal((of.B, length, M), of.dtype, of.largest) for length in (of.T, of.S, of.S))
        return arrays, {"params": params, "heads": of.H}

    def _keywords(self, of: Sizes) -> dict[str, Any]:
        """Each keyword that the function takes, every second time."""
        B, H, T, S = of.B, of.H, of.T, of.S
        makers: Mapping[str, Callable[[], Any]] = {
            "mask": lambda: self.random.random((B, H, T, S)) < self._one((0.9, 0.5, 0.1)),
            "bias": lambda: self._normal((B, H, T, S), of.dtype, 2),
            "scale": lambda: self._one((0.3, 1.0, -0.7, 0.0, 2.0)), "softcap": lambda: self._one((0.5, 3.0, 30.0)),
            "window": lambda: (self._one(BOUNDS), self._one(BOUNDS)),
            "key_lengths": lambda: self.random.integers(0, S + 1, B).astype(np.int32),
            "query_lengths": lambda: self.random.integers(0, T + 1, B).astype(np.int32),
            "sinks": lambda: self._normal((H,), of.finer, 2),
            "alibi_slopes": lambda: np.abs(self._normal(self._one(((H,), (B, H))), of.finer)),
            "query_segments": lambda: self.random.integers(0, 3, (B, T)).astype(np.int32),
            "past_key": lambda: True, **dict.fromkeys(FLAGS, lambda: True)}
        off = {name: False if name in FLAGS else None for name in makers}
        taken = self._parameters
        made = {name: make() if self._maybe() else off[name] for name, make in makers.items() if name in taken}
        if made.get("query_segments") is not None:
            made["key_segments"] = self.random.integers(0, 3, (B, S)).astype(np.int32)
        return made

    def _make_pages(self, arrays: tuple[Array, ...], lengths: Array | None) -> tuple[tuple[Array, ...], dict[str, Any]]:
        """Keys and values in pages, in any order; each slot that nobody owns has a number of its own."""
        query, key, value = arrays
        B, S, page = len(query), key.shape[2], self._one(PAGES)
        N = -(-S // page)
        table = self.random.permutation(B * N + 2)[:B * N].reshape(B, N).astype(np.int32)
        pools = []
        for array in (key, value):
            pool = self._normal((B * N + 2, page, array.shape[1], array.shape[3]), array.dtype)
            for b in range(B):
                for j in range(S):
                    pool[table[b, j // page], j % page] = array[b, :, j]
            pools.append(pool)
        lengths = np.full(B, S, np.int32) if lengths is None else lengths
        return (query, *pools), {"block_table": table, "key_lengths": lengths}

    def _make_packed(self, arrays: tuple[Array, ...]) -> tuple[tuple[Array, ...], dict[str, Any]]:
        """Sequences one behind the other, each as long as it likes."""
        query, key, value = arrays
        B, T, S = len(query), query.shape[2], key.shape[2]
        rows, keys = (self.random.integers(0, length + 1, B) if self._maybe() else np.full(B, length)
                      for length in (T, S))
        packed = tuple(np.concatenate([array[b, :, :count].swapaxes(0, 1) for b, count in enumerate(counts)])
                       for array, counts in ((query, rows), (key, keys), (value, keys)))
        borders = {name: np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
                   for name, counts in (("cu_query", rows), ("cu_key", keys))}
        return packed, borders


def functions_of(path: Path) -> Mapping[str, Function]:
    """The functions of a kernel's file that its users call."""
    module = runpy.run_path(str(path))
    found: dict[str, Any] = {name: module[name] for name in ("attend", "layer", "attend_backward") if name in module}
    if "attend_backward" in found:
        found["attend_backward"].dtypes = getattr(found["attend"], "dtypes", ("float64", "float32", "float16"))
    return found


def calls_of(kernel: Path) -> Iterator[tuple[str, Call]]:
    """The same calls of a kernel always, each with the name of the function that it is put to."""
    for name, function in functions_of(kernel).items():
        maker = Maker(np.random.default_rng(zlib.crc32(f"{kernel.stem} {name}".encode())), function)
        for _ in range(CALLS):
            yield name, maker.call()


def compare(kernel: Path, mutant: Path) -> Compared:
    """What the battery says of a mutant."""
    right = functions_of(kernel)
    try:
        other = functions_of(mutant)
    except Exception as cause:  # a mutant may raise anything
        return Compared(Answers.RAISES, 1, 0, 1, f"import: {cause!r}")
    calls, wrong, raised, example = 0, 0, 0, ""
    for name, call in calls_of(kernel):
        calls += 1
        try:
            seen = "" if agree(call.answer(right[name]), call.answer(other[name]), call.slack) else "another answer"
        except Exception as cause:
            seen, raised = repr(cause)[:200], raised + 1
        else:
            wrong += bool(seen)
            example = f"{seen}: {name} {call}" if seen and wrong == 1 else example
        example = example or (f"{seen}: {name} {call}" if seen else "")
    answers = Answers.WRONG if wrong else Answers.RAISES if raised else Answers.EQUAL
    return Compared(answers, calls, wrong, raised, example)


def agree(right: Mapping[str, Array], other: Mapping[str, Array], slack: float) -> bool:
    """Whether two answers are within rounding of each other. A gradient of what was not given harms nobody."""
    return right.keys() <= other.keys() and all(_agrees(right[name], other[name], slack) for name in right)


def _agrees(right: Array, other: Array, slack: float) -> bool:
    if right.shape != other.shape:
        return False
    finite = np.isfinite(right)
    if not np.array_equal(right[~finite], other[~finite], equal_nan=True) or not np.isfinite(other[finite]).all():
        return False
    a, b = right[finite].astype(np.float64), other[finite].astype(np.float64)
    return bool((np.abs(a - b) <= slack * np.abs(a).max(initial=0)).all())


def main() -> None:
    """Print what the battery says, unless the time is up."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # a mutant may ask for any size
    compared = compare(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write(json.dumps({**asdict(compared), "answers": compared.answers.value}) + "\n")


if __name__ == "__main__":
    main()
