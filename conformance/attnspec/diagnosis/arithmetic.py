"""Says whether a wider class of arithmetic allows what a subject did, and with which words one
declares it.

A class is offered only if it allows the whole clause, and besides every answer of the subject that
is held against the definition itself: a mistake that a loose class happens to cover in one case is
not explained by it. But one in whose format all answers are numbers is offered of a case alone,
since something else may be wrong with the subject. A failure in a half dtype that float32 shows,
too, is not explained. Neither verdict nor exit code changes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
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
from attnspec.subjects.subject import Subject, SubjectAnswer
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
"""Ulps of CUDA's __expf, 2 + floor(|1.173 x|), at the largest |x| whose exponential is a normal
float32 number.
"""

TORCH_HALF_EXP_ULPS = 940
"""Float32 ulps of PyTorch's exponential for half precision on CPU, a cubic that is off by 1.12e-4."""


@dataclass(frozen=True, slots=True)
class WiderArithmetic:
    """A class of arithmetic: what such a function does, what would mend it, and the words that
    declare it.

    is_coarse: whether answers to ordinary values tell it from the declared class; a function whose
    ordinary answers are finer than that is none of it.  answer_format: the format that holds all
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
    """Split keys, rings and SciPy do so: it is less exact where logits are large, and nothing is
    wrong with it.
    """
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
    """Queries and keys, then values and weights, stored in a narrower format; cutting bits off
    costs two roundings.
    """
    return {"prescale": dtype, "prescale_roundings": roundings, "weights": dtype,
            "weight_roundings": roundings}


def _storage_words(dtype: str, *stored: str) -> Words:
    """These intermediate results in a narrower format; logits are rounded once more when they are
    scaled.
    """
    return {**dict.fromkeys(stored, dtype), "logit_roundings": 1}


def _throughout_words(dtype: str) -> Words:
    """Inputs and every intermediate result stored in a narrower format, and its softmax's words
    with it.
    """
    stored = ("output", "accumulate", "softmax", "row_sum", "logits", "weights", "prescale",
              "scale", "logsumexp")
    return {**_storage_words(dtype, *stored), "weight_roundings": 3, "prescale_roundings": 4}


def backward_classes_for(dtype: DType, kind: Kind) -> tuple[WiderArithmetic, ...]:
    """What a backward pass may round besides, in words of `backward_precision`, the least first. A
    wider format has nothing to lose by it.
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
    """The classes that are tried, the likelier first; each is followed by the same with subnormals
    that become 0.
    """
    if kind is Kind.ROTARY:
        return _ROTARY_CLASSES[dtype]
    # hardware may flush whatever else a function does, so that each class has a twin that does
    classes = [_FLUSHING_CLASS]
    for alone in _CLASSES[dtype](dtype.value):
        classes += alone, _add_flushing(alone)
    return tuple(classes)


def _add_flushing(wider: WiderArithmetic) -> WiderArithmetic:
    return replace(wider, cause=f"{wider.cause}, and {_FLUSHING_CLASS.cause}",
                   words={**wider.words, **FLUSHING_WORDS})


ORDINARY_KINDS = frozenset({"generic", "long"})
"""The kinds of problems with values of no structure, on which independent roundings show."""

CONVICTING_KINDS = ORDINARY_KINDS | {"attention", "score", "rotary"}
"""The kinds of problems on which a class is tried as a whole."""

NEARLY_AS_LONG, LONG_AXIS = 0.9, 32
"""An axis of at least so many entries that is shorter by less than a tenth changes no rounding
that shows.
"""


@dataclass(slots=True)
class ArithmeticExplainer:
    """What explains one subject's violations.  checks: the clauses a class is tried on, besides the
    violated one.
    """

    checks: Callable[[], Mapping[str, Check]]
    seed: int
    _tried_classes: dict[tuple[DType, str], bool] = field(default_factory=dict)
    _answers: set[tuple[DType, str]] = field(default_factory=set)
    _met_cases: dict[DType, list[tuple[Trial, Recipe]]] = field(default_factory=dict)

    def explain(self, trial: Trial, failing: Recipe, claimed: int, place: FailurePlace = NOWHERE,
                first: Recipe | None = None) -> Explanation | None:
        """The first class under which the violation vanishes; None if there is none.

        claimed: how many entries the violated relation claimed. A class that claims fewer says
        nothing of the rest.  place: where it fails. What fails at some sizes and holds just below
        is no arithmetic, which would show there.  first: the case that failed, before it was
        shrunk; a class that does not allow it allows no whole clause.
        """
        met = [failing, *([first] if first and count_work(first.sizes) <= CLAUSE_PURSE else [])]
        # what failed once is the quickest way to reject a class later
        if _is_plain_check(trial.check):
            self._met_cases.setdefault(trial.evaluator.dtype,
                                       []).extend((trial, each) for each in met)
        # what holds with an axis shorter by less than a tenth is no rounding: that begins at no length
        if (place.smallest
            and any(_is_just_below(each.sizes, place.smallest) for each in place.held_recipes)):
            return None
        # first, since what is wrong with a gradient alone is no matter of the forward pass
        if of_backward := self._explain_backward(trial, failing, met, claimed):
            return of_backward
        every = list(self._wider_evaluators(trial.evaluator))
        classes = [each for each in every
                   if self._tried_classes.get((trial.evaluator.dtype, each[0].cause), True)]
        for wider, evaluator in classes:
            under = replace(trial, evaluator=evaluator, shrinks=False, failed_before=None,
                            breadcrumb=lambda _: None, sample=0)
            # the cheapest question first: the case, then the subject's other answers, then the
            # whole clause
            if (_allows_met(under, failing, met, claimed)
                and self._explains_subject(wider, trial.evaluator, evaluator)
                    and _says_something(evaluator) and under.hold().failure is None):
                if _fails_in_float32(trial, failing):
                    return None
                self._answers.add((trial.evaluator.dtype, wider.cause))
                return _make_explanation(trial.evaluator.subject, trial.evaluator.dtype, wider)
        return (self._explain_consequence(trial, failing, every)
                or self._explain_by_format(trial, failing, claimed, every))

    def _explain_backward(self, trial: Trial, failing: Recipe, met: Iterable[Recipe],
                          claimed: int) -> Explanation | None:
        """The least that a backward pass has to round besides for the clause to hold, and with it
        all that compare gradients with the definition.
        """
        if GRAD not in trial.check.needs:
            return None
        subject, dtype = trial.evaluator.subject, trial.evaluator.dtype
        for wider in backward_classes_for(dtype, subject.declaration.kind):
            words = {**subject.declaration.backward_precision.get(dtype, {}), **wider.words,
                     "reason": wider.cause}
            evaluator = trial.evaluator.with_backward_words(words)
            under = replace(trial, evaluator=evaluator, shrinks=False, failed_before=None,
                            breadcrumb=lambda _: None)
            if (_allows_met(under, failing, met, claimed)
                and self._allows_gradients(wider, evaluator)
                    and under.hold().failure is None):
                return None if _fails_in_float32(trial, failing) else _explain_by_words(
                    subject, "backward_precision", dtype, replace(wider, words=words))
        return None

    def _allows_gradients(self, wider: WiderArithmetic, evaluator: Evaluator) -> bool:
        key = evaluator.dtype, wider.cause
        if key not in self._tried_classes:
            # clauses of one run whose gradients are compared with the definition
            of_gradients = (check for check in self.checks().values() if GRAD in check.needs
                            and not check.clause.made_forms
                            and not any(check.runs.values()) and check.clause.level is Level.MUST)
            self._tried_classes[key] = all(self._clause_holds(check, evaluator)
                                           for check in of_gradients)
        return self._tried_classes[key]

    def _explain_consequence(self, trial: Trial, failing: Recipe,
                             classes: Iterable[tuple[WiderArithmetic,
                                                     Evaluator]]) -> Explanation | None:
        """The class that the subject is known to be of, if under it the case is no failure: it may
        claim nothing there.

        Known is one that explained another violation, or without which not even ordinary answers
        are right.
        """
        for wider, evaluator in classes:
            is_known = (evaluator.dtype, wider.cause) in self._answers or (
                wider.is_coarse and self._explains_subject(wider, trial.evaluator, evaluator)
                and _says_something(evaluator))
            if is_known and judge_case(trial, evaluator, failing).failure is None:
                return None if _fails_in_float32(trial, failing) else _make_explanation(
                    trial.evaluator.subject, trial.evaluator.dtype, wider)
        return None

    def _explain_by_format(self, trial: Trial, failing: Recipe, claimed: int,
                           classes: Iterable[tuple[WiderArithmetic,
                                                   Evaluator]]) -> Explanation | None:
        """The class of a format in which all answers are numbers, if under it the case is no
        failure.

        Something else may be wrong with the subject, so that no class allows all that it answers.
        The case is put with ordinary values first: whole numbers are numbers of any format.
        """
        # bits tell more than numbers: whose answers all fit a narrow format has computed in it
        marked = [(wider, evaluator) for wider, evaluator in classes
                  if wider.answer_format
                  and _outputs_fit(evaluator.remembered_answers, wider.answer_format)]
        if marked:
            judge_case(trial, trial.evaluator, replace(failing, families=("normal",)))
        for wider, evaluator in marked:
            if (_outputs_fit(evaluator.remembered_answers, wider.answer_format)
                    and _allows_case(trial, evaluator, failing, claimed)
                    and _says_something(evaluator)):
                self._answers.add((evaluator.dtype, wider.cause))
                return _make_explanation(trial.evaluator.subject, trial.evaluator.dtype, wider)
        return None

    def _wider_evaluators(self,
                          evaluator: Evaluator) -> Iterator[tuple[WiderArithmetic, Evaluator]]:
        """The classes that round more than the declared one, those that were the answer before
        first.
        """
        dtype = evaluator.dtype
        classes = classes_for(dtype, evaluator.subject.declaration.kind)
        # most subjects have one arithmetic: what explained a failure explains the next one
        known = sorted(classes,
                       key=lambda each: not self._tried_classes.get((dtype, each.cause), False))
        for wider in known:
            precision = _wider_precision(evaluator.subject, dtype, wider)
            # a class that rounds no more than the declared one allows no more
            if precision and looser_words(precision, evaluator.precision):
                yield wider, evaluator.with_precision(precision)

    def _explains_subject(self, wider: WiderArithmetic, declared: Evaluator,
                          evaluator: Evaluator) -> bool:
        """Whether a class allows all that a subject answers to plain problems, without a drift,
        and none finer does.
        """
        key = evaluator.dtype, wider.cause
        if key not in self._tried_classes:
            # from cheap to dear: bits of answers that are there, cases that failed, then whole
            # clauses
            self._tried_classes[key] = ((not wider.answer_format
                                         or _outputs_fit(evaluator.remembered_answers,
                                                         wider.answer_format))
                                        and self._allows_what_failed(evaluator)
                                        and not (wider.is_coarse
                                                 and self._is_finer(wider, declared))
                                        and self._allows_plain(evaluator, CONVICTING_KINDS))
        return self._tried_classes[key]

    def _is_finer(self, wider: WiderArithmetic, declared: Evaluator) -> bool:
        """Whether the declared class, or one between it and this one, allows the answers to
        ordinary values.
        """
        # finer classes have to be excluded: the widest class allows whatever they do
        showing = (each for each in classes_for(declared.dtype) if each.is_coarse)
        # a twin, which flushes subnormals or rounds logits, too, has the same cause and more to say: it begins alike
        between = takewhile(lambda each: not wider.cause.startswith(each.cause), showing)
        precisions = (_wider_precision(declared.subject, declared.dtype, each) for each in between)
        evaluators = (declared.with_precision(precision) for precision in precisions if precision)
        return any(self._allows_plain(evaluator, ORDINARY_KINDS)
                   for evaluator in (declared, *evaluators))

    def _allows_what_failed(self, evaluator: Evaluator) -> bool:
        """Whether a class allows the plain cases that failed: they are put first, for most classes
        fail there.
        """
        return not any(isinstance(judge_case(trial, evaluator, recipe).failure, Violated)
                       for trial, recipe in self._met_cases.get(evaluator.dtype, ()))

    def _allows_plain(self, evaluator: Evaluator, kinds: frozenset[str]) -> bool:
        plain = (check for check in self.checks().values() if _is_plain_check(check)
                 and check.domain.kind in kinds)
        return all(self._clause_holds(check, evaluator) for check in plain)

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
    """Whether the first are the second but for one axis that is shorter by a part of no weight for
    rounding.
    """
    # one axis alone, since two shorter ones may change what is computed
    pairs = [(value, failing.by_axis[axis]) for axis, value in sizes.by_axis.items()
             if value != failing.by_axis[axis]]
    return (len(pairs) == 1
            and all(NEARLY_AS_LONG * most <= value < most and most >= LONG_AXIS
                    for value, most in pairs))


def _says_something(evaluator: Evaluator) -> bool:
    """Whether no plain mistake conforms under a class: what would be refused where it is declared
    is not offered.

    It is asked last of a class, for it takes longer than most questions.
    """
    return (evaluator.subject.declaration.kind is Kind.ROTARY
            or not acquitted_by(evaluator.precision))


def _is_plain_check(check: Check) -> bool:
    """Whether a `must` clause holds plain answers against the definition, and needs no keyword for
    it.
    """
    # several runs, projections and keywords bring errors of their own
    is_plain = (not any(check.runs.values()) and not check.domain.is_layer
                and check.needs <= {POSITIONS})
    return is_plain and check.clause.level is Level.MUST


def _allows_met(trial: Trial, recipe: Recipe, met: Iterable[Recipe], claimed: int) -> bool:
    """Whether a clause, on the case where it failed, claims as many entries and holds, and on
    those that were met.
    """
    return _allows_case(trial, trial.evaluator, recipe, claimed) and all(
        judge_case(trial, trial.evaluator, each).failure is None for each in met)


def _allows_case(trial: Trial, evaluator: Evaluator, recipe: Recipe, claimed: int) -> bool:
    tally = judge_case(trial, evaluator, recipe)
    return tally.failure is None and tally.worst is not None and tally.worst.claimed >= claimed


def _fails_in_float32(trial: Trial, recipe: Recipe) -> bool:
    """Whether a case of a half dtype fails in float32, too: then it is not the narrow format that
    makes it fail.
    """
    evaluator = trial.evaluator
    if (not DTYPES[evaluator.dtype].is_half
        or DType.FLOAT32 not in evaluator.subject.declaration.dtypes):
        return False
    # float32 is the dtype at which a half format's roundings cannot be the reason
    single = Evaluator(evaluator.subject, DType.FLOAT32, evaluator.conventions)
    return isinstance(judge_case(replace(trial, failed_before=None), single, recipe).failure,
                      Violated)


def _outputs_fit(answers: Iterable[SubjectAnswer], dtype: str) -> bool:
    """Whether all outputs are numbers of this format."""
    narrow = numpy_dtype(DType(dtype))
    with np.errstate(over="ignore"):
        # what is too large for the format becomes infinite, and so is none of its numbers
        return all(np.array_equal(each.output,
                                  each.output.astype(narrow).astype(each.output.dtype),
                                  equal_nan=True)
                   for each in answers)


def _declared_words(subject: Subject, dtype: DType, wider: WiderArithmetic) -> dict[str, object]:
    """What would be declared: what is declared already, and the wider words in place of theirs."""
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
    """The class as what explains a failure, with the line that declares all its words under a key."""
    precision = _add_own_words(subject, key, {dtype.value: wider.words})
    return Explanation(wider.cause, f"{wider.advice}{_jax_advice(subject, wider)}",
                       format_declaration(subject, key, precision), wider.words, precision)


def _jax_advice(subject: Subject, wider: WiderArithmetic) -> str:
    """JAX computes in float32 unless told otherwise."""
    is_default = wider.answer_format == "float32" and "jax" in used_frameworks(subject)
    return " (JAX: enable x64, or --lift jax)" if is_default else ""


def _add_own_words(subject: Subject, key: str,
                   precision: Mapping[str, Words]) -> Mapping[str, Words]:
    """What a line would declare: of a function of one's own, the dtypes too that it declares
    already.
    """
    # the attribute is one dictionary: a second assignment would lose what it says
    if is_bare(subject.id) and subject.description:
        said = subject.description.attributes.get(key, {})
    else:
        said = {}
    return {**said, **precision} if isinstance(said, Mapping) else precision


def format_declaration(subject: Subject, key: str, precision: Mapping[str, Words]) -> str:
    """The line that declares a class, to be pasted: below a function of one's own, or into a
    registered subject's manifest, and where there.
    """
    if not is_bare(subject.id):
        return manifest_line(subject, key, precision)
    return (f"{subject.id.rpartition(':')[2]}.{key} = "
            f"{_format_python(_add_own_words(subject, key, precision))}")


def _format_python(value: object) -> str:
    """The value as one writes it in Python, with double quotes."""
    if isinstance(value, Mapping):
        return ("{"
                + ", ".join(f'"{key}": {_format_python(inner)}' for key, inner in value.items())
                + "}")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
