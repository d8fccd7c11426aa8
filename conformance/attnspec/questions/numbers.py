"""Questions about the scale, about number formats, and about bits: whether those of a row depend on the rest of a call.

Whoever claims `batch_invariant` is judged by clauses; of everybody else it is only told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Literal

import ml_dtypes
import numpy as np

from attnspec.core.conventions import UNDEFINED
from attnspec.core.declaration import INPUT, Declaration
from attnspec.core.nouns import DType, Kind
from attnspec.core.surroundings import kind_of
from attnspec.numerics.precision import precision_of
from attnspec.numerics.width import fitted, ladder, tightest
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes, numpy_dtype
from attnspec.questions.asker import FAILURES, OTHER, Asker, NotAsked, Question, Reply, When, promised, shown, which

_STEEP = 1.5
"""The logarithm of the ratio of two weights is read most exactly where they are not far apart, nor alike."""
_NEAR = 0.05
"""How near the scale is read off: weights in bfloat16 carry errors of 1 %."""
_FLAT = 2.0**-8


def _ratio(asker: Asker, times: float, scale: float | None = None) -> float:
    """log(weight of key 1 / weight of key 0), where their dot products with the query are `times` and 0."""
    problem = asker.even(4, 4)
    problem.key[:, :, 1, 0] = 1.0
    problem.query[..., 0] = times
    first, second = asker.output(problem.but(scale=scale))[0, 0, 0, :2]
    with np.errstate(all="ignore"):
        return float(np.log(second / first))


def _default(asker: Asker) -> Reply:
    """Asked twice: the second time with logits as steep as is read best."""
    rough = _ratio(asker, 1.0)
    if not math.isfinite(rough) or abs(rough) < _FLAT:
        return Reply("0" if abs(rough) < _FLAT else OTHER, f"keys whose dot products differ by 1 weigh e^{rough:.3g}")
    times = 2.0 ** round(math.log2(_STEEP / abs(rough)))
    scale = _ratio(asker, times) / times
    name = next((name for name, value in _candidates(asker).items() if abs(scale / value - 1) < _NEAR), OTHER)
    return Reply(name, f"dot products are multiplied by {scale:.3g}")


def _candidates(asker: Asker) -> dict[str, float]:
    D, H = asker.subject.scale_width(asker.even(4, 4)), asker.heads
    return {"1/sqrt(D)": D**-0.5, "1": 1.0, "1/D": 1 / D, "sqrt(D)": D**0.5, "1/sqrt(H·D)": (H * D)**-0.5,
            "-1/sqrt(D)": -(D**-0.5)}


def _read_scale(asker: Asker, scale: float) -> Reply:
    """Dot products of 2 and 0: the weights tell the scale."""
    seen, default = _ratio(asker, 2.0, scale) / 2, _ratio(asker, 2.0) / 2
    candidates = {"honoured": scale, "size_only": abs(scale), "ignored": default}
    name = next((name for name, value in candidates.items() if abs(seen - value) < _NEAR), OTHER)
    return Reply("nan" if math.isnan(seen) else name, f"dot products are multiplied by {seen:.3g}, {scale:g} was given")


_HONOURED = {"honoured": "yes", "ignored": "no: the default is used", "nan": "NaN comes back", **FAILURES}
_GIVEN = {"positive": (0.5, _HONOURED), "zero": (0.0, _HONOURED),
          "negative": (-0.5, {**_HONOURED, "size_only": "but for its sign"})}

SCALE_QUESTIONS = (
    Question("scale.default", "By what are the dot products multiplied if no scale is given?", {
        "1/sqrt(D)": "one over the root of the head width", "1": "1: they are not scaled",
        "1/D": "one over the head width",
        "sqrt(D)": "the root of the head width", "1/sqrt(H·D)": "one over the root of the model width",
        "-1/sqrt(D)": "the usual scale with the other sign", "0": "all keys weigh the same", **FAILURES},
        _default, promised("1/sqrt(D)")),
    *(Question(f"scale.{name}", f"Is a scale of {value:g} used?", answers, partial(_read_scale, scale=value),
               promised("honoured", "scale")) for name, (value, answers) in _GIVEN.items()),
)


GRADE_ALARM = 1e-6
"""The chance, at most, that a grade is missed which the subject has."""
LONG = 45, 45
"""T and S of a problem that is long enough to go in blocks, and to read a grade off."""
NONE = "none"


def normal(asker: Asker, T: int, S: int, seed: int = 1) -> Problem:
    """Entries drawn from N(0, 1), always the same."""
    sizes = Sizes(asker.batch(T, S), asker.heads, asker.heads, T, S, asker.width, asker.width)
    return make_problem(Recipe(sizes, ("normal",), "none", frozenset(), seed), asker.dtype)


def _returned(asker: Asker) -> Reply:
    name = asker.put(asker.even(4, 4)).output.dtype.name
    return Reply(INPUT if name == asker.dtype.value else name, f"{name}, of {asker.dtype.value}")


_OTHER_DTYPE = {DType.FLOAT64: DType.FLOAT32, DType.FLOAT32: DType.FLOAT64, DType.FLOAT16: DType.FLOAT32,
                DType.BFLOAT16: DType.FLOAT32}


def _promoted(asker: Asker) -> Reply:
    if asker.subject.declaration.kind is Kind.LAYER:
        raise NotAsked("it is not asked of layers")
    problem, other = asker.even(4, 4), numpy_dtype(_OTHER_DTYPE[asker.dtype])
    answer = asker.put(problem.but(key=problem.key.astype(other), value=problem.value.astype(other)))
    return Reply(answer.output.dtype.name, f"queries of {asker.dtype.value}, keys and values of {other.name}")


def _grade(asker: Asker) -> Reply:
    """The tightest class that explains some two thousand generic entries. A declared class is contradicted where it
    does not explain them; a subject may well be more exact than it declares.
    """
    problem, declaration = normal(asker, *LONG), asker.subject.declaration
    declared = precision_of(declaration.precision.get(asker.dtype), asker.dtype)
    output = asker.output(problem)
    fit = partial(fitted, problem, output, conventions={}, scale_width=asker.subject.scale_width(problem),
                  false_alarm=GRADE_ALARM)
    fits = [fit(precision, name=name) for name, precision in ladder(declared).items()]
    best = tightest(fits)
    ratios = ", ".join(f"{each.name} {each.ratio:.3g}" for each in fits)
    told = f"{declared} is declared; worst error over what each class allows: {ratios}"
    return Reply(best.name if best else NONE, told, "" if fit(declared, name="declared").explains else str(declared))


def _huge(asker: Asker, share: float) -> Reply:
    """Dot products so large that all weight lies on the last key: 2^12, or a share of the largest number."""
    problem = asker.even(4, 4)
    largest = float(ml_dtypes.finfo(numpy_dtype(asker.dtype)).max)
    size = 2.0 ** np.floor(np.log2(share * largest) / 2) if share else 2.0**6
    problem.query[..., 0] = size
    problem.key[..., 0] = np.array([-0.5, 0.25, 0.5, 1.0]) * size
    seen = asker.output(problem)[..., :4]
    if not np.isfinite(seen).all():
        return Reply("nan" if np.isnan(seen).any() else "infinite", shown(seen))
    return which(seen, {"right": np.eye(4)[3]})


_FACTOR = 1 + 2.0**-9 + 2.0**-12
"""float32 holds it; ten bits of a mantissa lose its last part, seven bits all but 1."""


def _products(asker: Asker) -> Reply:
    """All weights are a quarter, and all values alike: what comes back is what a product reads of a value."""
    device = asker.subject.callee.place.get("device", "cpu")
    if asker.dtype is not DType.FLOAT32 or kind_of(device) == "cpu":
        raise NotAsked(f"TF32 is how GPUs may multiply float32; this is {asker.dtype.value} on {device}")
    problem = asker.even(4, 4)
    problem.value[...] = _FACTOR
    seen = asker.output(problem)[0, 0]
    read = {"float32": _FACTOR, "tf32": 1 + 2.0**-9, "bfloat16": 1.0}
    name = next((name for name, value in read.items() if np.abs(seen - value).max() < 2.0**-14), OTHER)
    return Reply(name, f"{_FACTOR:.7g} comes back as {seen[0, 0]:.7g}")


_HUGE = {"right": "the value of the key with the largest logit", "nan": "NaN", "infinite": "infinity", **FAILURES}


def _claims_dtype(declaration: Declaration) -> str:
    return "" if declaration.output_dtype == UNDEFINED else declaration.output_dtype


NUMBER_QUESTIONS = (
    Question("dtype.output", "Which dtype does the output have?", {}, _returned, _claims_dtype,
             When.EVERY_DTYPE),
    Question("dtype.promotion", "Which dtype does the output have if keys and values have another than the queries?",
             {}, _promoted, when=When.EVERY_DTYPE),
    Question("precision", "Which is the finest precision class that explains the rounding errors?", {}, _grade,
             when=When.EVERY_DTYPE),
    Question("huge_logits.exponential", "What is the output if the exponential of the logits overflows?", _HUGE,
             partial(_huge, share=0.0), when=When.EVERY_DTYPE),
    Question("huge_logits.largest", "What is the output if dot products are a quarter of the dtype's largest number?",
             _HUGE, partial(_huge, share=0.25), when=When.EVERY_DTYPE),
)
DEVICE_QUESTIONS = (
    Question("float32.products", "How much of a float32 does a product on the device read?", {
        "float32": "all of it", "tf32": "ten bits of the mantissa: TF32 is switched on",
        "bfloat16": "seven bits of the mantissa", **FAILURES}, _products),
)


_BATCH, _SEED = 3, 1


# Whether the bits of a row depend on what else is computed in the same call


_SAME = {"same": "no, not one bit", "differs": "yes", **FAILURES}


def _compare_with_parts(asker: Asker, *, along: Literal["batch", "queries"]) -> Reply:
    """One call of everything, and one of each batch entry, or of each query."""
    problem = _problem(asker)
    together = asker.put(problem).output
    outputs = [asker.put(part).output for part in _parts(problem, along)]
    apart = np.concatenate(outputs, axis=0 if along == "batch" else 2)
    many = int((_bits(together) != _bits(apart)).sum())
    return Reply("differs" if many else "same", f"{many} of {together.size} entries" if many else "")


def _problem(asker: Asker) -> Problem:
    """Three batch entries of entries from N(0, 1)."""
    sizes = Sizes(_BATCH, asker.heads, asker.heads, *LONG, asker.width, asker.width)
    return make_problem(Recipe(sizes, ("normal",), "none", frozenset(), _SEED), asker.dtype)


def _parts(problem: Problem, along: str) -> Iterator[Problem]:
    """The batch entries, each alone, or the queries."""
    if along == "batch":
        arrays = {name: getattr(problem, name) for name in ("query", "key", "value")}
        yield from (problem.but(**{name: array[at:at + 1] for name, array in arrays.items()}) for at in range(_BATCH))
    else:
        yield from (problem.but(query=problem.query[:, :, at:at + 1]) for at in range(problem.sizes.T))


def _bits(array: Array) -> Array:
    """The entries of an array of any shape as whole numbers."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


BIT_QUESTIONS = (
    Question("bits.batch", "Do the bits of a batch entry's output depend on the other entries of the batch?", _SAME,
             partial(_compare_with_parts, along="batch"), promised("same", "batch_invariant")),
    Question("bits.queries", "Do the bits of a query's output depend on the other queries of the call?", _SAME,
             partial(_compare_with_parts, along="queries"), promised("same", "batch_invariant")),
)
