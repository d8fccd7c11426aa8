"""Questions about the scale, number formats, bits, further outputs and side effects.

Bits: whether those of a row depend on the rest of the call. Clauses judge whoever claims
`batch_invariant`; of all others it is only reported. Further outputs: weights and gradients.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial
from typing import Literal

import numpy as np

from attnspec.core.conventions import UNDEFINED
from attnspec.core.declaration import INPUT, Declaration
from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import DType, Kind
from attnspec.core.surroundings import kind_of
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.width import fit_class, ladder, tightest
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
    name_candidate,
    promised_answer,
    show_numbers,
)
from attnspec.questions.inputs import HIDDEN_ROW, NO, YES, hide_last_key, hide_row, yes_or_no
from attnspec.subjects.subject import SubjectAnswer

_READABLE_LOG_RATIO = 1.5
"""Two weights whose logarithms differ by this show the scale most exactly."""
_SCALE_NEARNESS = 0.05
"""How exactly the scale can be read: bfloat16 weights have errors of 1 %."""
_FLAT_LOG_RATIO = 2.0**-8


def _ask_weight_ratio(asker: Asker, times: float, scale: float | None = None) -> float:
    """log(weight of key 1 / weight of key 0); their dot products are `times` and 0."""
    problem = asker.make_even(4, 4)
    problem.key[:, :, 1, 0] = 1.0
    problem.query[..., 0] = times
    first, second = asker.ask_output(problem.but(scale=scale))[0, 0, 0, :2]
    with np.errstate(all="ignore"):
        return float(np.log(second / first))


def _ask_default_scale(asker: Asker) -> Reply:
    """Asked twice; the second time with logits at which the scale can be read best."""
    rough = _ask_weight_ratio(asker, 1.0)
    if not math.isfinite(rough) or abs(rough) < _FLAT_LOG_RATIO:
        return Reply("0" if abs(rough) < _FLAT_LOG_RATIO else OTHER,
                     f"keys whose dot products differ by 1 weigh e^{rough:.3g}")
    times = 2.0 ** round(math.log2(_READABLE_LOG_RATIO / abs(rough)))
    scale = _ask_weight_ratio(asker, times) / times
    name = next((name for name, value in _scale_candidates(asker).items()
                 if abs(scale / value - 1) < _SCALE_NEARNESS), OTHER)
    return Reply(name, f"dot products are multiplied by {scale:.3g}")


def _scale_candidates(asker: Asker) -> dict[str, float]:
    D, H = asker.subject.scale_width(asker.make_even(4, 4)), asker.heads
    return {"1/sqrt(D)": D**-0.5, "1": 1.0, "1/D": 1 / D, "sqrt(D)": D**0.5,
            "1/sqrt(H·D)": (H * D)**-0.5, "-1/sqrt(D)": -(D**-0.5)}


def _ask_scale(asker: Asker, scale: float) -> Reply:
    """Dot products are 2 and 0: the weights show the scale."""
    observed, default = _ask_weight_ratio(asker, 2.0, scale) / 2, _ask_weight_ratio(asker, 2.0) / 2
    candidates = {"honoured": scale, "size_only": abs(scale), "ignored": default}
    name = next((name for name, value in candidates.items()
                 if abs(observed - value) < _SCALE_NEARNESS), OTHER)
    return Reply("nan" if math.isnan(observed) else name,
                 f"dot products are multiplied by {observed:.3g}, {scale:g} was given")


_HONOURED_ANSWERS = {"honoured": "yes", "ignored": "no: the default is used",
                     "nan": "NaN comes back", **FAILURES}
_GIVEN_SCALES = {"positive": (0.5, _HONOURED_ANSWERS), "zero": (0.0, _HONOURED_ANSWERS),
                 "negative": (-0.5, {**_HONOURED_ANSWERS, "size_only": "but for its sign"})}

SCALE_QUESTIONS = (
    Question("scale.default", "By what are the dot products multiplied if no scale is given?", {
        "1/sqrt(D)": "one over the root of the head width", "1": "1: they are not scaled",
        "1/D": "one over the head width", "sqrt(D)": "the root of the head width",
        "1/sqrt(H·D)": "one over the root of the model width",
        "-1/sqrt(D)": "the usual scale with the other sign", "0": "all keys weigh the same",
        **FAILURES}, _ask_default_scale, promised_answer("1/sqrt(D)")),
    *(Question(f"scale.{name}", f"Is a scale of {value:g} used?", answers,
               partial(_ask_scale, scale=value), promised_answer("honoured", "scale"))
               for name, (value, answers) in _GIVEN_SCALES.items()),
)


GRADE_ALARM = 1e-6
"""The most likely that a precision which the subject has is not recognised."""
LONG_LENGTHS = 45, 45
"""T and S of a problem long enough to be computed in blocks and to show the precision."""
NONE = "none"


def normal_problem(asker: Asker, T: int, S: int, seed: int = 1) -> Problem:
    """A problem with entries from N(0, 1), the same for each seed."""
    sizes = Sizes(asker.fit_batch(T, S), asker.heads, asker.heads, T, S, asker.width, asker.width)
    return make_problem(Recipe(sizes, ("normal",), "none", frozenset(), seed), asker.dtype)


def _ask_output_dtype(asker: Asker) -> Reply:
    name = asker.ask(asker.make_even(4, 4)).output.dtype.name
    return Reply(INPUT if name == asker.dtype.value else name, f"{name}, of {asker.dtype.value}")


def _ask_promotion(asker: Asker) -> Reply:
    if asker.subject.declaration.kind is Kind.LAYER:
        raise NotAsked("it is not asked of layers")
    other_dtype = DType.FLOAT64 if asker.dtype is DType.FLOAT32 else DType.FLOAT32
    problem, other = asker.make_even(4, 4), numpy_dtype(other_dtype)
    answer = asker.ask(problem.but(key=problem.key.astype(other),
                                   value=problem.value.astype(other)))
    return Reply(answer.output.dtype.name,
                 f"queries of {asker.dtype.value}, keys and values of {other.name}")


def _ask_precision(asker: Asker) -> Reply:
    """The finest class that explains the errors of about two thousand ordinary entries.

    A declared class is contradicted if it does not explain them. A subject may be more exact than
    declared.
    """
    problem, declaration = normal_problem(asker, *LONG_LENGTHS), asker.subject.declaration
    declared = declared_precision(declaration.precision.get(asker.dtype), asker.dtype)
    output = asker.ask_output(problem)
    fit = partial(fit_class, problem, output, conventions={},
                  scale_width=asker.subject.scale_width(problem), false_alarm=GRADE_ALARM)
    fits = [fit(precision, name=name) for name, precision in ladder(declared).items()]
    best = tightest(fits)
    ratios = ", ".join(f"{each.name} {each.ratio:.3g}" for each in fits)
    detail = f"{declared} is declared; worst error over what each class allows: {ratios}"
    return Reply(best.name if best else NONE, detail,
                 "" if fit(declared, name="declared").explains_panel else str(declared))


def _ask_huge_logits(asker: Asker, share: float) -> Reply:
    """Logits so large that the last key has all weight.

    share: of the dtype's largest number, for the dot products; 0: 2^12.
    """
    problem = asker.make_even(4, 4)
    largest = DTYPES[asker.dtype].largest
    size = 2.0 ** np.floor(np.log2(share * largest) / 2) if share else 2.0**6
    problem.query[..., 0] = size
    problem.key[..., 0] = np.array([-0.5, 0.25, 0.5, 1.0]) * size
    weights = asker.ask_output(problem)[..., :4]
    if not np.isfinite(weights).all():
        return Reply("nan" if np.isnan(weights).any() else "infinite", show_numbers(weights))
    return name_candidate(weights, {"right": np.eye(4)[3]})


_PRODUCT_FACTOR = 1 + 2.0**-9 + 2.0**-12
"""Exact in float32. Ten bits of a mantissa drop its last part; seven bits leave 1."""


def _ask_device_products(asker: Asker) -> Reply:
    """All values are equal, so the output shows how much of a value a product reads."""
    device = asker.subject.callee.place.get("device", "cpu")
    if asker.dtype is not DType.FLOAT32 or kind_of(device) == "cpu":
        raise NotAsked(f"TF32 is how GPUs may multiply float32; this is {asker.dtype.value} on "
                       f"{device}")
    problem = asker.make_even(4, 4)
    problem.value[...] = _PRODUCT_FACTOR
    output = asker.ask_output(problem)[0, 0]
    read = {"float32": _PRODUCT_FACTOR, "tf32": 1 + 2.0**-9, "bfloat16": 1.0}
    name = next((name for name, value in read.items() if np.abs(output - value).max() < 2.0**-14),
                OTHER)
    return Reply(name, f"{_PRODUCT_FACTOR:.7g} comes back as {output[0, 0]:.7g}")


_HUGE_LOGIT_ANSWERS = {"right": "the value of the key with the largest logit", "nan": "NaN",
                       "infinite": "infinity", **FAILURES}


def _claimed_dtype(declaration: Declaration) -> str:
    return "" if declaration.output_dtype == UNDEFINED else declaration.output_dtype


NUMBER_QUESTIONS = (
    Question("dtype.output", "Which dtype does the output have?", {}, _ask_output_dtype,
             _claimed_dtype, When.EVERY_DTYPE),
    Question("dtype.promotion",
             "Which dtype does the output have if keys and values have another than the queries?",
             {}, _ask_promotion, when=When.EVERY_DTYPE),
    Question("precision", "Which is the finest precision class that explains the rounding errors?",
             {}, _ask_precision, when=When.EVERY_DTYPE),
    Question("huge_logits.exponential",
             "What is the output if the exponential of the logits overflows?", _HUGE_LOGIT_ANSWERS,
             partial(_ask_huge_logits, share=0.0), when=When.EVERY_DTYPE),
    Question("huge_logits.largest",
             "What is the output if dot products are a quarter of the dtype's largest number?",
             _HUGE_LOGIT_ANSWERS, partial(_ask_huge_logits, share=0.25), when=When.EVERY_DTYPE),
)
DEVICE_QUESTIONS = (
    Question("float32.products", "How much of a float32 does a product on the device read?", {
        "float32": "all of it", "tf32": "ten bits of the mantissa: TF32 is switched on",
        "bfloat16": "seven bits of the mantissa", **FAILURES}, _ask_device_products),
)


# Whether the bits of a row depend on what else is computed in the same call


_BATCH_SIZE, _BATCH_SEED = 3, 1
_SAME_BITS_ANSWERS = {"same": "no, not one bit", "differs": "yes", **FAILURES}


def _compare_with_parts(asker: Asker, *, along: Literal["batch", "queries"]) -> Reply:
    """Compares one call with one call per batch entry, or per query."""
    problem = _batch_problem(asker)
    together = asker.ask(problem).output
    outputs = [asker.ask(part).output for part in _cut_parts(problem, along)]
    apart = np.concatenate(outputs, axis=0 if along == "batch" else 2)
    many = int((_entry_bits(together) != _entry_bits(apart)).sum())
    if not many:
        return Reply("same")
    return Reply("differs", f"{many} of {together.size} entries")


def _batch_problem(asker: Asker) -> Problem:
    """Three batch entries from N(0, 1)."""
    sizes = Sizes(_BATCH_SIZE, asker.heads, asker.heads, *LONG_LENGTHS, asker.width, asker.width)
    return make_problem(Recipe(sizes, ("normal",), "none", frozenset(), _BATCH_SEED), asker.dtype)


def _cut_parts(problem: Problem, along: str) -> Iterator[Problem]:
    """A problem per batch entry, or per query."""
    if along == "batch":
        for at in range(_BATCH_SIZE):
            entry = slice(at, at + 1)
            yield problem.but(query=problem.query[entry], key=problem.key[entry],
                              value=problem.value[entry])
    else:
        for at in range(problem.sizes.T):
            yield problem.but(query=problem.query[:, :, at:at + 1])


def _entry_bits(array: Array) -> Array:
    """The entries of any array as whole numbers, bit for bit."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


BIT_QUESTIONS = (
    Question("bits.batch",
             "Do the bits of a batch entry's output depend on the other entries of the batch?",
             _SAME_BITS_ANSWERS, partial(_compare_with_parts, along="batch"),
             promised_answer("same", "batch_invariant")),
    Question("bits.queries",
             "Do the bits of a query's output depend on the other queries of the call?",
             _SAME_BITS_ANSWERS, partial(_compare_with_parts, along="queries"),
             promised_answer("same", "batch_invariant")),
)


PER_HEAD, AVERAGED = "per_head", "averaged"


def _ask_weights_form(asker: Asker) -> tuple[str, SubjectAnswer]:
    """Whether weights are returned per head or averaged, and the answer with them."""
    problem = _weights_problem(asker)
    try:
        return PER_HEAD, asker.without_limits(weights=PER_HEAD).ask(problem)
    except Failed:
        return AVERAGED, asker.without_limits(weights=AVERAGED).ask(problem)


def _weights_problem(asker: Asker) -> Problem:
    """Each head weighs the keys differently, and the output is the weights."""
    problem = asker.make_sloped(4, 4)
    problem.key[:, -1, :, 0] *= -1
    return problem.but(return_weights=True)


def _ask_weight_heads(asker: Asker) -> Reply:
    form, answer = _ask_weights_form(asker)
    return Reply(form, show_numbers(_returned_weights(answer)))


def _ask_weight_sums(asker: Asker) -> Reply:
    sums = _returned_weights(_ask_weights_form(asker)[1]).sum(axis=-1)
    return Reply(yes_or_no(is_close(sums, np.ones(1))),
                 f"from {sums.min():.3g} to {sums.max():.3g}")


def _ask_weight_effect(asker: Asker) -> Reply:
    form, answer = _ask_weights_form(asker)
    weights, effective = _returned_weights(answer), answer.output.astype(np.float64)[..., :4]
    if form == AVERAGED:
        effective = effective.mean(axis=1)
    if is_close(weights, effective):
        return Reply("in_effect", show_numbers(weights))
    sums = is_close(weights.sum(axis=-1), np.ones(1)), is_close(effective.sum(axis=-1), np.ones(1))
    name = "before_dropout" if sums == (True, False) else OTHER
    return Reply(name,
                 f"{show_numbers(weights)} was returned, {show_numbers(effective)} was applied to "
                 "the values")


def _returned_weights(answer: SubjectAnswer) -> Array:
    """The returned weights in float64: (B,H,T,S), or averaged (B,T,S)."""
    assert answer.weights is not None  # they were asked for, and the call saw to it
    return answer.weights.astype(np.float64)


def _claimed_weights(declaration: Declaration) -> str:
    return declaration.limits.weights if "weights" in declaration.claims else ""


WEIGHT_QUESTIONS = (
    Question("weights.heads", "Which shape do the returned weights have?", {
        PER_HEAD: "(B,H,T,S)", AVERAGED: "(B,T,S), the mean over the heads", **FAILURES},
        _ask_weight_heads, _claimed_weights),
    Question("weights.sum", "Do the returned weights of a row sum to 1?",
             {"yes": "yes", "no": "no", **FAILURES}, _ask_weight_sums,
             promised_answer("yes", "weights")),
    Question("weights.effect",
             "Are the returned weights the ones that the values are multiplied by?", {
        "in_effect": "yes, after dropout if there is any",
        "before_dropout": "no: dropout was applied to them afterwards", **FAILURES},
        _ask_weight_effect, promised_answer("in_effect", "weights")),
)


_ALL_ROWS = np.ones(4, bool)


def _ask_gradient_flow(asker: Asker) -> Reply:
    gradients = asker.ask_gradients(normal_problem(asker, 4, 4), _ALL_ROWS)
    return Reply(yes_or_no(bool(gradients)),
                 "; ".join(f"up to {np.abs(each).max():.3g}" for each in gradients or ()))


def _ask_hidden_key_gradient(asker: Asker, form: str) -> Reply:
    """The gradients of the rows that do not see the last key.

    A layer that attends to its own input has a single gradient. The last row also contributes to
    it as a query, so that row is left out.
    """
    problem = hide_last_key(asker, normal_problem(asker, 4, 4), form)
    gradients = _ask_row_gradients(asker, problem, np.arange(4) < 3)
    of_key = gradients if asker.subject.declaration.limits.self_attention_only else gradients[1:]
    largest = max(float(np.abs(each[..., -1, :]).max()) for each in of_key)
    name = "nan"
    if not np.isnan(largest):
        name = "nonzero" if largest else "zero"
    return Reply(name, f"up to {largest:.3g}")


def _ask_hidden_row_gradient(asker: Asker, form: str) -> Reply:
    """The gradients of the other rows, where one row has no visible key."""
    if form == "mask" and not asker.has_rows:
        raise NotAsked("its queries share one mask")
    gradients = _ask_row_gradients(asker, hide_row(asker, normal_problem(asker, 4, 4), form),
                               np.arange(4) != HIDDEN_ROW)
    names = [name for name, each in zip(("query", "key", "value"), gradients, strict=True)
             if not np.isfinite(each).all()]
    if not names:
        return Reply("finite")
    return Reply("nan", f"not finite: {', '.join(names)}")


def _ask_row_gradients(asker: Asker, problem: Problem, rows: Array) -> tuple[Array, ...]:
    """The gradients (B,H,T,D) of the rows (T,) that are True. Raises NotAsked."""
    gradients = asker.ask_gradients(problem, rows)
    if gradients is None:
        raise NotAsked("it computes without gradients")
    return gradients


_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf", "causal": "the causal flag"}

GRADIENT_QUESTIONS = (
    Question("gradient.flow", "Does the output have a gradient?",
             {YES: "yes", NO: "no", **FAILURES}, _ask_gradient_flow),
    *(Question(f"gradient.hidden_key.{form}",
               f"What is the gradient with respect to a key and value that {text} masks for the "
               "queries in question?",
               {"zero": "zero", "nan": "NaN", "nonzero": "it is not zero", **FAILURES},
               partial(_ask_hidden_key_gradient, form=form))
      for form, text in _FORMS.items()),
    *(Question(f"gradient.hidden_row.{form}",
               f"If {_FORMS[form]} masks all keys of one query, are the gradients of the other "
               "rows finite?",
               {"finite": "yes", "nan": "no", **FAILURES},
               partial(_ask_hidden_row_gradient, form=form))
      for form in ("mask", "bias")),
)


def _ask_names(asker: Asker, trait: str) -> Reply:
    """The inputs with this trait, in calls with and without a mask or bias.

    With a single key the value may be returned unchanged.
    """
    plain = normal_problem(asker, 4, 4)
    answers = [asker.ask(plain)]
    further = (normal_problem(asker, 1, 1),
               plain.but(mask=asker.as_mask(asker.fit_rows(np.tri(4, dtype=bool)), plain)),
               plain.but(bias=asker.as_bias(np.eye(4), plain)))
    for problem in further:
        with contextlib.suppress(NotAsked, Failed):
            answers.append(asker.ask(problem))
    names = sorted({name for answer in answers for name in getattr(answer, trait)})
    return Reply(", ".join(names) or NONE)


def _ask_again(asker: Asker, *, between: bool) -> Reply:
    """The same call twice.

    between: calls with other contents and another shape come in between.
    """
    problem = normal_problem(asker, 4, 4)
    first = asker.ask_output(problem)
    for other in _other_problems(asker, problem) if between else ():
        with contextlib.suppress(NotAsked, Failed):
            asker.ask(other)
    second = asker.ask_output(problem)
    if np.array_equal(second, first, equal_nan=True):
        return Reply("same")
    return Reply("differs", f"by up to {np.nanmax(np.abs(second - first)):.3g}")


def _other_problems(asker: Asker, problem: Problem) -> tuple[Problem, ...]:
    return (problem.but(value=-problem.value),
            problem.but(query=-problem.query, key=2 * problem.key), asker.make_even(2, 5))


def _ask_answer_stays(asker: Asker) -> Reply:
    """Whether a later call changes an array that was returned earlier."""
    problem = normal_problem(asker, 4, 4)
    first = asker.ask(problem)
    asker.ask(problem.but(value=-problem.value))
    return Reply("kept" if first.is_kept() else "overwritten")


_SAME_OUTPUT_ANSWERS = {"same": "yes, bit for bit", "differs": "no", **FAILURES}
_INPUT_NAMES_ANSWERS = {NONE: "none", **FAILURES}

def is_steady(asker: Asker) -> bool:
    """Whether a repeated call answers the same. If not, no answer can contradict a claim."""
    try:
        return _ask_again(asker, between=False).answer == "same"
    except (NotAsked, Failed):
        return True


DETERMINISM_QUESTION = Question(
    "determinism.twice", "Does the same call give the same output the second time?",
    _SAME_OUTPUT_ANSWERS, partial(_ask_again, between=False), promised_answer("same", "purity"))
"""Asked first: it tells what the other answers are worth."""
PURITY_QUESTIONS = (
    Question("mutated", "Which inputs does a call change?", _INPUT_NAMES_ANSWERS,
             partial(_ask_names, trait="mutated"), promised_answer(NONE, "purity")),
    Question("aliased", "With which inputs does an output share memory?", _INPUT_NAMES_ANSWERS,
             partial(_ask_names, trait="aliases"), promised_answer(NONE, "purity")),
    Question("determinism.after_another",
             "Does the same call give the same output after calls with other inputs?",
             _SAME_OUTPUT_ANSWERS, partial(_ask_again, between=True),
             promised_answer("same", "purity")),
    Question("determinism.kept",
             "Does a later call change the array that an earlier call returned?",
             {"kept": "no", "overwritten": "yes, it is overwritten", **FAILURES},
             _ask_answer_stays, promised_answer("kept", "purity")),
)
