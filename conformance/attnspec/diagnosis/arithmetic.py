"""Says whether a wider class of arithmetic allows a subject's answers, and with which words one
declares it.

A class is offered only if it allows the whole clause, and every answer of the subject that is held
against the definition itself: a loose class may happen to cover a mistake in one case. A class in
whose format all answers are numbers is offered for a single case, since something else may be
wrong as well. A failure in a half dtype that float32 shows, too, is not explained. Neither verdict
nor exit code changes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from attnspec.core.dtype import DTYPES, HALF_DTYPES
from attnspec.core.errors import ManifestError
from attnspec.core.forms import POSITIONS
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType, Effort, Kind, Level, is_bare
from attnspec.diagnosis.advice import manifest_line, used_frameworks
from attnspec.diagnosis.candidate import CLAUSE_PURSE, judge_case
from attnspec.diagnosis.whereabouts import NOWHERE, FailurePlace
from attnspec.numerics.precision import Precision, declared_precision, looser_words
from attnspec.numerics.width import acquitted_by
from attnspec.problems.problem import Recipe, Sizes, count_work, numpy_dtype
from attnspec.record.outcome import A_CHOICE, Explanation
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Violated
from attnspec.trials.trial import Trial

Words = Mapping[str, object]
"""A precision class as one declares it: see `numerics.precision`."""

FLUSHING_WORDS: Words = MappingProxyType({"flushes_subnormals": True})

TORCH_EXP_ULPS = 20
"""Ulps of PyTorch's exponential in its flash kernel on CPU (pytorch#115151)."""

CUDA_EXP_ULPS = 2 + int(1.173 * 88)
"""Ulps of CUDA's __expf, 2 + floor(|1.173 x|), at the largest |x| whose exponential is normal."""

TORCH_HALF_EXP_ULPS = 940
"""Float32 ulps of PyTorch's half-precision exponential on CPU, a cubic that is off by 1.12e-4."""


@dataclass(frozen=True, slots=True)
class WiderArithmetic:
    """A class of arithmetic: what such a function does, the remedy, and the words that declare it.

    is_coarse: whether answers to ordinary values tell it from the declared class. A function whose
    ordinary answers are finer is not of this class.  answer_format: the format that holds all
    answers; "" where none does.
    """

    cause: str
    advice: str
    words: Words
    is_coarse: bool = False
    answer_format: str = ""


_FLUSHING_CLASS = WiderArithmetic("it treats subnormal numbers as 0",
                                  "Keep them (no flush-to-zero, no fast math)", FLUSHING_WORDS)
_SEPARATE_DIVISION = "Divide by the sum of the exponentials"


def _stored_lse_class(dtype: str) -> WiderArithmetic:
    """Split keys, rings and SciPy do so: it is less exact for large logits, but not wrong."""
    return WiderArithmetic("its weights come from a log-sum-exp that is stored in "
                           f"{dtype}{A_CHOICE}", _SEPARATE_DIVISION, {"logsumexp_roundings": 1})


def _half_classes(dtype: str) -> tuple[WiderArithmetic, ...]:
    whole = {"grade": "G4"}
    return (
        # from the likeliest to what few functions do
        WiderArithmetic(f"every step is rounded to {dtype}", "Form logits and softmax in float32",
                        whole),
        WiderArithmetic(f"its exponentials are off by up to {TORCH_HALF_EXP_ULPS} ulp of float32",
                        "Use an exact exp",
                        {"exp_ulps": TORCH_HALF_EXP_ULPS}),
        WiderArithmetic(f"every step is rounded to {dtype}, and so are the sums",
                        "Accumulate in float32",
                        {**whole, "accumulate": dtype, "row_sum": dtype}),
        WiderArithmetic(f"every step is rounded to {dtype}, and its weights come from a stored "
                        "log-sum-exp",
                        _SEPARATE_DIVISION,
                        {**whole, "logsumexp_roundings": 1}))


def _single_classes(dtype: str) -> tuple[WiderArithmetic, ...]:
    return (
        WiderArithmetic(f"its exponentials are off by up to {TORCH_EXP_ULPS} ulp",
                        "Use an exact exp", {"exp_ulps": TORCH_EXP_ULPS}),
        WiderArithmetic(f"its exponentials are off by up to {CUDA_EXP_ULPS} ulp",
                        "Use an exact exp", {"exp_ulps": CUDA_EXP_ULPS}),
        _stored_lse_class(dtype),
        WiderArithmetic("the inputs of its products are rounded to TF32", "Turn TF32 off",
                        _narrow_words("float16", 4), is_coarse=True),
        WiderArithmetic("the inputs of its products are rounded to bfloat16",
                        "Multiply in float32",
                        _narrow_words("bfloat16", 4), is_coarse=True),
        *(WiderArithmetic(f"it computes in {half} throughout", "Compute in float32",
                          _throughout_words(half), is_coarse=True, answer_format=half)
          for half in ("float16", "bfloat16")))


def _double_classes(dtype: str) -> tuple[WiderArithmetic, ...]:
    return (
        _stored_lse_class(dtype),
        WiderArithmetic("its softmax is computed in float32", "Compute it in float64",
                        {"softmax": "float32"}, is_coarse=True),
        WiderArithmetic("its softmax is computed in float32, and so are its logits",
                        "Compute them in float64",
                        _storage_words("float32", "softmax", "row_sum", "logits", "weights",
                                       "scale"), is_coarse=True),
        WiderArithmetic("it computes in float32 throughout", "Compute in float64",
                        _throughout_words("float32"), is_coarse=True, answer_format="float32"))


def _narrow_words(dtype: str, roundings: int) -> Words:
    """Queries, keys, values and weights in a narrower format; cutting costs two roundings."""
    return {"prescale": dtype, "prescale_roundings": roundings, "weights": dtype,
            "weight_roundings": roundings}


def _storage_words(dtype: str, *results: str) -> Words:
    """These intermediate results in a narrower format; scaled logits are rounded once more."""
    return {**dict.fromkeys(results, dtype), "logit_roundings": 1}


def _throughout_words(dtype: str) -> Words:
    """Inputs, intermediate results and the softmax in a narrower format."""
    results = ("output", "accumulate", "softmax", "row_sum", "logits", "weights", "prescale",
              "scale", "logsumexp")
    return {**_storage_words(dtype, *results), "weight_roundings": 3, "prescale_roundings": 4}


def backward_classes_for(dtype: DType, kind: Kind) -> tuple[WiderArithmetic, ...]:
    """What a backward pass may round in addition, in words of `backward_precision`, the least
    first.

    Formats that are not half have nothing to lose by it.
    """
    if not DTYPES[dtype].is_half or kind is Kind.ROTARY:
        return ()
    # a fused backward pass is assumed to keep it in float32
    products = WiderArithmetic(f"the gradient of its weights is stored in {dtype.value}",
                               "Keep it in float32", {"products": 1})
    if kind is not Kind.LAYER:
        return (products,)
    biases = WiderArithmetic("partial sums of the gradients of its biases are stored in "
                             f"{dtype.value}", "Add them up in float32", {"partial_biases": 1})
    return biases, products, WiderArithmetic(f"{products.cause}, and so are partial sums of those "
                                             "of its biases", "Do both in float32",
                                             {**products.words, **biases.words})


_ROTARY_CLASSES: Mapping[DType, tuple[WiderArithmetic, ...]] = {
    DType.FLOAT64: (
        WiderArithmetic("its angles are computed in float32",
                        "Compute frequencies and angles in float64", {"angle": "float32"}),
        WiderArithmetic("it turns its features in float32", "Compute in float64",
                        {"angle": "float32", "rotation": "float32"})),
    DType.FLOAT32: tuple(
        WiderArithmetic(f"its cos and sin are stored in {half.value}", "Store them in float32",
                        {"rotation": half.value})
        for half in HALF_DTYPES),
    **dict.fromkeys(HALF_DTYPES, ()),
}
_CLASSES: Mapping[DType, Callable[[str], tuple[WiderArithmetic, ...]]] = {
    DType.FLOAT64: _double_classes, DType.FLOAT32: _single_classes,
    **dict.fromkeys(HALF_DTYPES, _half_classes)}


def classes_for(dtype: DType, kind: Kind = Kind.ATTENTION) -> tuple[WiderArithmetic, ...]:
    """The classes that are tried, the likeliest first; each has a twin that flushes subnormals."""
    if kind is Kind.ROTARY:
        return _ROTARY_CLASSES[dtype]
    # hardware may flush whatever else a function does, so that each class has a twin that does
    classes = [_FLUSHING_CLASS]
    for each in _CLASSES[dtype](dtype.value):
        classes += each, _add_flushing(each)
    return tuple(classes)


def _add_flushing(wider: WiderArithmetic) -> WiderArithmetic:
    return replace(wider, cause=f"{wider.cause}, and {_FLUSHING_CLASS.cause}",
                   words={**wider.words, **FLUSHING_WORDS})


ORDINARY_KINDS = frozenset({"generic", "long"})
"""The kinds of problems with values of no structure, on which independent roundings show."""

CONVICTING_KINDS = ORDINARY_KINDS | {"attention", "score", "rotary"}
"""The kinds of problems on which the whole of a class is tried."""

NEARLY_AS_LONG, LONG_AXIS = 0.9, 32
"""Rounding shows as well with such an axis a tenth shorter, if it has at least 32 entries."""


@dataclass(slots=True)
class ArithmeticExplainer:
    """Explains one subject's violations by its arithmetic.

    checks: the clauses, beside the violated one, on which a class is tried.
    """

    checks: Callable[[], Mapping[str, Check]]
    seed: int
    _tried_classes: dict[tuple[DType, str], bool] = field(default_factory=dict)
    _answers: set[tuple[DType, str]] = field(default_factory=set)
    _met_cases: dict[DType, list[tuple[Trial, Recipe]]] = field(default_factory=dict)

    def explain(self, trial: Trial, failing: Recipe, claim_count: int,
                place: FailurePlace = NOWHERE, first: Recipe | None = None) -> Explanation | None:
        """The first class under which the violation vanishes; None if there is none.

        claim_count: how many entries the violated relation claimed. A class that claims fewer says
        nothing about the rest.  place: where it fails; what holds just below is no arithmetic,
        which would show there, too.  first: the failing case before it was shrunk, which a class
        has to allow as well.
        """
        subject, dtype, recipes = trial.evaluator.subject, trial.evaluator.dtype, [failing]
        if first and count_work(first.sizes) <= CLAUSE_PURSE:
            recipes.append(first)
        # what failed once is the quickest way to reject a class later
        if _is_plain_check(trial.check):
            self._met_cases.setdefault(dtype, []).extend((trial, each) for each in recipes)
        # rounding begins at no length: it shows with an axis that is a little shorter, too
        if (place.smallest
            and any(_is_just_below(each.sizes, place.smallest) for each in place.held_recipes)):
            return None
        # first, since what is wrong with a gradient alone is no matter of the forward pass
        if of_backward := self._explain_backward(trial, failing, recipes, claim_count):
            return of_backward
        classes = list(self._wider_evaluators(trial.evaluator))
        for wider, evaluator in classes:
            if not self._tried_classes.get((dtype, wider.cause), True):
                continue
            wider_trial = replace(trial, evaluator=evaluator, shrinks=False, failed_before=None,
                                  breadcrumb=lambda _: None, sample=0)
            # the cheapest question first: the case, the subject's other answers, the whole clause
            if (_allows_cases(wider_trial, failing, recipes, claim_count)
                    and self._explains_subject(wider, trial.evaluator, evaluator)
                    and _says_something(evaluator) and wider_trial.hold().failure is None):
                if _fails_in_float32(trial, failing):
                    return None
                self._answers.add((dtype, wider.cause))
                return _make_explanation(subject, dtype, wider)
        return (self._explain_consequence(trial, failing, classes)
                or self._explain_by_format(trial, failing, claim_count, classes))

    def _explain_backward(self, trial: Trial, failing: Recipe, recipes: Iterable[Recipe],
                          claim_count: int) -> Explanation | None:
        """The least that a backward pass has to round in addition for the clause to hold."""
        if GRAD not in trial.check.needs:
            return None
        subject, dtype = trial.evaluator.subject, trial.evaluator.dtype
        for wider in backward_classes_for(dtype, subject.declaration.kind):
            words = {**subject.declaration.backward_precision.get(dtype, {}), **wider.words,
                     "reason": wider.cause}
            evaluator = trial.evaluator.with_backward_words(words)
            wider_trial = replace(trial, evaluator=evaluator, shrinks=False, failed_before=None,
                                  breadcrumb=lambda _: None)
            if (_allows_cases(wider_trial, failing, recipes, claim_count)
                    and self._allows_gradients(wider, evaluator)
                    and wider_trial.hold().failure is None):
                if _fails_in_float32(trial, failing):
                    return None
                return _explain_by_words(subject, "backward_precision", dtype,
                                         replace(wider, words=words))
        return None

    def _allows_gradients(self, wider: WiderArithmetic, evaluator: Evaluator) -> bool:
        key = evaluator.dtype, wider.cause
        if key not in self._tried_classes:
            # clauses of one run whose gradients are compared with the definition
            self._tried_classes[key] = all(
                self._clause_holds(check, evaluator) for check in self.checks().values()
                if GRAD in check.needs and not check.clause.made_forms
                and not any(check.runs.values()) and check.clause.level is Level.MUST)
        return self._tried_classes[key]

    def _explain_consequence(self, trial: Trial, failing: Recipe,
                             classes: Iterable[tuple[WiderArithmetic,
                                                     Evaluator]]) -> Explanation | None:
        """The class that the subject is known to have, if the case is no failure under it.

        It may claim nothing there. Known is a class that explained another violation, or without
        which not even ordinary answers are right.
        """
        for wider, evaluator in classes:
            is_known = (evaluator.dtype, wider.cause) in self._answers or (
                wider.is_coarse and self._explains_subject(wider, trial.evaluator, evaluator)
                and _says_something(evaluator))
            if is_known and judge_case(trial, evaluator, failing).failure is None:
                if _fails_in_float32(trial, failing):
                    return None
                return _make_explanation(trial.evaluator.subject, trial.evaluator.dtype, wider)
        return None

    def _explain_by_format(self, trial: Trial, failing: Recipe, claim_count: int,
                           classes: Iterable[tuple[WiderArithmetic,
                                                   Evaluator]]) -> Explanation | None:
        """The class of a format in which all answers are numbers, if the case is no failure under
        it.

        Something else may be wrong with the subject, so that no class allows all its answers. The
        case is put with ordinary values first: whole numbers are numbers of any format.
        """
        # bits tell more than numbers: whose answers all fit a narrow format has computed in it
        candidates = [(wider, evaluator) for wider, evaluator in classes
                      if _answers_fit(wider, evaluator) and wider.answer_format]
        if candidates:
            judge_case(trial, trial.evaluator, replace(failing, families=("normal",)))
        for wider, evaluator in candidates:
            if (_answers_fit(wider, evaluator)
                    and _allows_case(trial, evaluator, failing, claim_count)
                    and _says_something(evaluator)):
                self._answers.add((evaluator.dtype, wider.cause))
                return _make_explanation(trial.evaluator.subject, trial.evaluator.dtype, wider)
        return None

    def _wider_evaluators(self,
                          evaluator: Evaluator) -> Iterator[tuple[WiderArithmetic, Evaluator]]:
        """The classes that round more than the declared one, known explanations first."""
        dtype = evaluator.dtype
        classes = classes_for(dtype, evaluator.subject.declaration.kind)
        # most subjects have one arithmetic: what explained a failure explains the next one
        for wider in sorted(classes,
                            key=lambda each: not self._tried_classes.get((dtype, each.cause))):
            precision = _wider_precision(evaluator.subject, dtype, wider)
            # a class that rounds no more than the declared one allows no more
            if precision and looser_words(precision, evaluator.precision):
                yield wider, evaluator.with_precision(precision)

    def _explains_subject(self, wider: WiderArithmetic, declared_evaluator: Evaluator,
                          evaluator: Evaluator) -> bool:
        """Whether a class, and no finer one, allows all answers to plain problems."""
        key = evaluator.dtype, wider.cause
        if key not in self._tried_classes:
            # from cheap to dear: bits of known answers, cases that failed, then whole clauses
            self._tried_classes[key] = (
                _answers_fit(wider, evaluator) and self._allows_what_failed(evaluator)
                and not (wider.is_coarse and self._is_finer(wider, declared_evaluator))
                and self._allows_plain(evaluator, CONVICTING_KINDS))
        return self._tried_classes[key]

    def _is_finer(self, wider: WiderArithmetic, declared_evaluator: Evaluator) -> bool:
        """Whether the declared class, or one up to this one, allows the ordinary answers."""
        if self._allows_plain(declared_evaluator, ORDINARY_KINDS):
            return True
        subject, dtype = declared_evaluator.subject, declared_evaluator.dtype
        for each in classes_for(dtype):
            # a twin (which flushes subnormals or rounds logits, too) has a cause that begins alike
            if each.is_coarse and wider.cause.startswith(each.cause):
                return False
            # finer classes have to be excluded: the widest class allows whatever they do
            precision = _wider_precision(subject, dtype, each) if each.is_coarse else None
            if precision and self._allows_plain(declared_evaluator.with_precision(precision),
                                                ORDINARY_KINDS):
                return True
        return False

    def _allows_what_failed(self, evaluator: Evaluator) -> bool:
        """Whether a class allows the plain cases that failed; most classes are rejected here."""
        return not any(isinstance(judge_case(trial, evaluator, recipe).failure, Violated)
                       for trial, recipe in self._met_cases.get(evaluator.dtype, ()))

    def _allows_plain(self, evaluator: Evaluator, kinds: frozenset[str]) -> bool:
        return all(self._clause_holds(check, evaluator) for check in self.checks().values()
                   if _is_plain_check(check) and check.domain.kind in kinds)

    def _clause_holds(self, check: Check, evaluator: Evaluator) -> bool:
        # a clause that is not put to the subject says nothing against a class
        if check.why_not_put(evaluator.subject):
            return True
        compiling = evaluator.compiling
        if compiling and compiling.is_spent:  # nobody knows, so the class is not offered
            return False
        trial = Trial(check, evaluator, Effort.QUICK, seed_of(self.seed, check.domain),
                      lambda _: None, shrinks=False, max_work=CLAUSE_PURSE,
                      compiling_ends=compiling.end_of_clause if compiling else math.inf)
        # an exception tells nothing of how it rounds
        return not isinstance(trial.hold().failure, Violated)


def _is_just_below(sizes: Sizes, failing: Sizes) -> bool:
    """Whether sizes differ from the failing ones in one axis alone, which is a little shorter."""
    # one axis alone, since two shorter ones may change what is computed
    differing = [axis for axis, value in sizes.by_axis.items() if value != failing.by_axis[axis]]
    if len(differing) != 1:
        return False
    value, most = sizes.by_axis[differing[0]], failing.by_axis[differing[0]]
    return most >= LONG_AXIS and NEARLY_AS_LONG * most <= value < most


def _says_something(evaluator: Evaluator) -> bool:
    """Whether no plain mistake conforms under the class.

    A declaration that would be refused is not offered. This is asked last, for it takes long.
    """
    return (evaluator.subject.declaration.kind is Kind.ROTARY
            or not acquitted_by(evaluator.precision))


def _is_plain_check(check: Check) -> bool:
    """Whether a `must` clause holds plain answers against the definition, and needs no keyword."""
    # several runs, projections and keywords bring errors of their own
    return (not any(check.runs.values()) and not check.domain.is_layer
            and check.needs <= {POSITIONS} and check.clause.level is Level.MUST)


def _allows_cases(trial: Trial, recipe: Recipe, recipes: Iterable[Recipe],
                  claim_count: int) -> bool:
    """Whether a clause holds on these cases, and claims as many entries of the first."""
    return _allows_case(trial, trial.evaluator, recipe, claim_count) and all(
        judge_case(trial, trial.evaluator, each).failure is None for each in recipes)


def _allows_case(trial: Trial, evaluator: Evaluator, recipe: Recipe, claim_count: int) -> bool:
    tally = judge_case(trial, evaluator, recipe)
    return tally.failure is None and tally.worst is not None and tally.worst.claimed >= claim_count


def _fails_in_float32(trial: Trial, recipe: Recipe) -> bool:
    """Whether a case of a half dtype fails in float32, too, so that it is not the format."""
    evaluator = trial.evaluator
    if (not DTYPES[evaluator.dtype].is_half
        or DType.FLOAT32 not in evaluator.subject.declaration.dtypes):
        return False
    # float32 is the dtype at which a half format's roundings cannot be the reason
    single = Evaluator(evaluator.subject, DType.FLOAT32, evaluator.conventions)
    return isinstance(judge_case(replace(trial, failed_before=None), single, recipe).failure,
                      Violated)


def _answers_fit(wider: WiderArithmetic, evaluator: Evaluator) -> bool:
    """Whether all outputs so far are numbers of the class's format, if it has one."""
    if not wider.answer_format:
        return True
    narrow = numpy_dtype(DType(wider.answer_format))
    for answer in evaluator.remembered_answers:
        # what is too large for the format becomes infinite, and so is none of its numbers
        with np.errstate(over="ignore"):
            rounded = answer.output.astype(narrow).astype(answer.output.dtype)
        if not np.array_equal(answer.output, rounded, equal_nan=True):
            return False
    return True


def _declared_words(subject: Subject, dtype: DType, wider: WiderArithmetic) -> dict[str, object]:
    """What would be declared: the present declaration, with the wider words in it."""
    return {**subject.declaration.precision.get(dtype, {}), **wider.words, "reason": wider.cause}


def _wider_precision(subject: Subject, dtype: DType, wider: WiderArithmetic) -> Precision | None:
    try:
        return declared_precision(_declared_words(subject, dtype, wider), dtype)
    except ManifestError:  # declared words and wider ones may not go together
        return None


def _make_explanation(subject: Subject, dtype: DType, wider: WiderArithmetic) -> Explanation:
    return _explain_by_words(subject, "precision", dtype,
                             replace(wider, words=_declared_words(subject, dtype, wider)))


def _explain_by_words(subject: Subject, key: str, dtype: DType,
                      wider: WiderArithmetic) -> Explanation:
    """The class as an explanation, with the line that declares all its words under the key."""
    precision = _add_own_words(subject, key, {dtype.value: wider.words})
    return Explanation(wider.cause, f"{wider.advice}{_jax_advice(subject, wider)}",
                       format_declaration(subject, key, precision), wider.words, precision)


def _jax_advice(subject: Subject, wider: WiderArithmetic) -> str:
    """JAX computes in float32 unless told otherwise."""
    is_default = wider.answer_format == "float32" and "jax" in used_frameworks(subject)
    return " (JAX: enable x64, or --lift jax)" if is_default else ""


def _add_own_words(subject: Subject, key: str,
                   precision: Mapping[str, Words]) -> Mapping[str, Words]:
    """What a line would declare: for a function of one's own, with what it declares already."""
    if not is_bare(subject.id) or not subject.description:
        return precision
    # the attribute is one dictionary: a second assignment would lose what it says
    attribute = subject.description.attributes.get(key)
    return {**attribute, **precision} if isinstance(attribute, Mapping) else precision


def format_declaration(subject: Subject, key: str, precision: Mapping[str, Words]) -> str:
    """The line that declares a class, to be pasted below a function of one's own, or into the
    manifest of a registered subject, with its place.
    """
    if not is_bare(subject.id):
        return manifest_line(subject, key, precision)
    return (f"{subject.id.rpartition(':')[2]}.{key} = "
            f"{_format_python(_add_own_words(subject, key, precision))}")


def _format_python(value: object) -> str:
    """The value as one writes it in Python, with double quotes."""
    if isinstance(value, Mapping):
        entries = [f'"{key}": {_format_python(inner)}' for key, inner in value.items()]
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
