"""Questions about the scale, number formats and bits, what comes back beside the output, and about side effects.

Bits: whether those of a row depend on the rest of a call. Whoever claims `batch_invariant` is judged by clauses; of
everybody else it is only told. Beside the output: weights and gradients.
"""

from __future__ import annotations

import contextlib
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
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    When,
    is_close,
    promised,
    shown,
    which,
)
from attnspec.questions.masks import ROW, without_last_key, without_row
from attnspec.subjects.subject import SubjectAnswer

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


PER_HEAD, AVERAGED = "per_head", "averaged"


def _form(asker: Asker) -> tuple[str, SubjectAnswer]:
    """How the weights come back, and what came."""
    problem = _small_problem(asker)
    try:
        return PER_HEAD, asker.without_limits(weights=PER_HEAD).put(problem)
    except Failed:
        return AVERAGED, asker.without_limits(weights=AVERAGED).put(problem)


def _small_problem(asker: Asker) -> Problem:
    """Each head weighs the keys in its own way; values are the identity, so the output is the weights in effect."""
    problem = asker.sloped(4, 4)
    problem.key[:, -1, :, 0] *= -1
    return problem.but(return_weights=True)


def _heads(asker: Asker) -> Reply:
    form, answer = _form(asker)
    return Reply(form, shown(_weights(answer)))


def _sums(asker: Asker) -> Reply:
    sums = _weights(_form(asker)[1]).sum(axis=-1)
    return Reply("yes" if is_close(sums, np.ones(1)) else "no", f"from {sums.min():.3g} to {sums.max():.3g}")


def _effect(asker: Asker) -> Reply:
    form, answer = _form(asker)
    weights, effective = _weights(answer), answer.output.astype(np.float64)[..., :4]
    effective = effective.mean(axis=1) if form == AVERAGED else effective
    if is_close(weights, effective):
        return Reply("in_effect", shown(weights))
    sums = is_close(weights.sum(axis=-1), np.ones(1)), is_close(effective.sum(axis=-1), np.ones(1))
    name = "before_dropout" if sums == (True, False) else OTHER
    return Reply(name, f"{shown(weights)} was returned, {shown(effective)} was applied to the values")


def _weights(answer: SubjectAnswer) -> Array:
    """The weights that came back, (B,H,T,S) or averaged (B,T,S), in float64."""
    assert answer.weights is not None  # they were asked for, and the call saw to it
    return answer.weights.astype(np.float64)


def _claim(declaration: Declaration) -> str:
    return declaration.limits.weights if "weights" in declaration.claims else ""


WEIGHT_QUESTIONS = (
    Question("weights.heads", "Which shape do the returned weights have?", {
        PER_HEAD: "(B,H,T,S)", AVERAGED: "(B,T,S), the mean over the heads", **FAILURES}, _heads, _claim),
    Question("weights.sum", "Do the returned weights of a row sum to 1?", {"yes": "yes", "no": "no", **FAILURES},
             _sums, promised("yes", "weights")),
    Question("weights.effect", "Are the returned weights the ones that the values are multiplied by?", {
        "in_effect": "yes, after dropout if there is any",
        "before_dropout": "no: dropout was applied to them afterwards",
        **FAILURES}, _effect, promised("in_effect", "weights")),
)


YES, NO = "yes", "no"
_ALL = np.ones(4, bool)


def _flow(asker: Asker) -> Reply:
    found = asker.gradients(normal(asker, 4, 4), _ALL)
    return Reply(YES if found else NO, "; ".join(f"up to {np.abs(each).max():.3g}" for each in found or ()))


def _hidden_key(asker: Asker, form: str) -> Reply:
    """The rows that do not see the last key. A layer that attends to its own input has but one gradient; what the last
    row, as a query, contributes to it is left out with that row.
    """
    problem = without_last_key(asker, normal(asker, 4, 4), form)
    found = _gradients_of_rows(asker, problem, np.arange(4) < 3)
    of_key = found if asker.subject.declaration.limits.self_attention_only else found[1:]
    largest = max(float(np.abs(each[..., -1, :]).max()) for each in of_key)
    return Reply("nan" if np.isnan(largest) else "nonzero" if largest else "zero", f"up to {largest:.3g}")


def _hidden_row(asker: Asker, form: str) -> Reply:
    """The gradients of the rows that see something, where another sees nothing."""
    if form == "mask" and not asker.has_rows:
        raise NotAsked("its queries share one mask")
    found = _gradients_of_rows(asker, without_row(asker, normal(asker, 4, 4), form), np.arange(4) != ROW)
    names = [name for name, each in zip(("query", "key", "value"), found, strict=True) if not np.isfinite(each).all()]
    return Reply("nan" if names else "finite", f"not finite: {', '.join(names)}" if names else "")


def _gradients_of_rows(asker: Asker, problem: Problem, rows: Array) -> tuple[Array, ...]:
    """The gradients of the rows that are True in `rows` (T,), as (B,H,T,D). Raises NotAsked where there are none."""
    found = asker.gradients(problem, rows)
    if found is None:
        raise NotAsked("it computes without gradients")
    return found


_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf", "causal": "the causal flag"}

GRADIENT_QUESTIONS = (
    Question("gradient.flow", "Does the output have a gradient?", {YES: "yes", NO: "no", **FAILURES}, _flow),
    *(Question(f"gradient.hidden_key.{form}",
               f"What is the gradient with respect to a key and value that {text} masks for the queries in question?",
               {"zero": "zero", "nan": "NaN", "nonzero": "it is not zero", **FAILURES}, partial(_hidden_key, form=form))
      for form, text in _FORMS.items()),
    *(Question(f"gradient.hidden_row.{form}",
               f"If {_FORMS[form]} masks all keys of one query, are the gradients of the other rows finite?",
               {"finite": "yes", "nan": "no", **FAILURES}, partial(_hidden_row, form=form))
      for form in ("mask", "bias")),
)




def _names(asker: Asker, trait: str) -> Reply:
    """One key alone may be handed through; a call with mask or bias has more inputs to change."""
    plain = normal(asker, 4, 4)
    answers = [asker.put(plain)]
    further = (normal(asker, 1, 1), plain.but(mask=asker.as_mask(asker.rows(np.tri(4, dtype=bool)), plain)),
               plain.but(bias=asker.as_bias(np.eye(4), plain)))
    for problem in further:
        with contextlib.suppress(NotAsked, Failed):
            answers.append(asker.put(problem))
    names = sorted({name for answer in answers for name in getattr(answer, trait)})
    return Reply(", ".join(names) or NONE)


def _again(asker: Asker, *, between: bool) -> Reply:
    """The same call twice; in between others of the same shape with other contents, and of another shape."""
    problem = normal(asker, 4, 4)
    first = asker.output(problem)
    for other in _others(asker, problem) if between else ():
        with contextlib.suppress(NotAsked, Failed):
            asker.put(other)
    second = asker.output(problem)
    if np.array_equal(second, first, equal_nan=True):
        return Reply("same")
    return Reply("differs", f"by up to {np.nanmax(np.abs(second - first)):.3g}")


def _others(asker: Asker, problem: Problem) -> tuple[Problem, ...]:
    return problem.but(value=-problem.value), problem.but(query=-problem.query, key=2 * problem.key), asker.even(2, 5)


def _answer_stays(asker: Asker) -> Reply:
    """Whether a later call changes what an earlier one handed back."""
    problem = normal(asker, 4, 4)
    first = asker.put(problem)
    asker.put(problem.but(value=-problem.value))
    return Reply("kept" if first.is_kept() else "overwritten")


_SAME_OUTPUT = {"same": "yes, bit for bit", "differs": "no", **FAILURES}
_INPUTS = {NONE: "none", **FAILURES}

def is_steady(asker: Asker) -> bool:
    """Whether the same call gives the same twice. If not, answers are chance, and none can contradict a claim."""
    try:
        return _again(asker, between=False).answer == "same"
    except (NotAsked, Failed):
        return True


TWICE = Question("determinism.twice", "Does the same call give the same output the second time?", _SAME_OUTPUT,
                 partial(_again, between=False), promised("same", "purity"))
"""Asked first: it tells what the other answers are worth."""
PURITY_QUESTIONS = (
    Question("mutated", "Which inputs does a call change?", _INPUTS, partial(_names, trait="mutated"),
             promised(NONE, "purity")),
    Question("aliased", "With which inputs does an output share memory?", _INPUTS, partial(_names, trait="aliases"),
             promised(NONE, "purity")),
    Question("determinism.after_another", "Does the same call give the same output after calls with other inputs?",
             _SAME_OUTPUT, partial(_again, between=True), promised("same", "purity")),
    Question("determinism.kept", "Does a later call change the array that an earlier call returned?",
             {"kept": "no", "overwritten": "yes, it is overwritten", **FAILURES},
             _answer_stays, promised("kept", "purity")),
)
