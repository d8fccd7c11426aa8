"""Writes the manifest of an adapter from its form and from what a probe of it found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.declaration import LIMITS, Limits
from attnspec.core.dtype import DTYPES
from attnspec.core.forms import SAID_BY_BORDERS, TABLE
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Kind
from attnspec.problems.problem import Problem, numpy_dtype
from attnspec.questions.inputs import NO, YES
from attnspec.questions.undeclared import probe_conventions
from attnspec.scaffold.form import CallableKind, CallForm
from attnspec.scaffold.probe_problems import (
    list_expected,
    plain_problem,
    sample_bias,
    sample_mask,
    square_problem,
    tolerance_of,
)
from attnspec.scaffold.stored_arithmetic import STEPWISE_GRADE, ClassWords, measure_half_class, stores_log_sum_exp
from attnspec.scaffold.trial_adapter import LimitValues, Trier
from attnspec.scaffold.writing.lines import wrap_text
from attnspec.scaffold.writing.source import name_variant
from attnspec.subjects.installed import distribution_of
from attnspec.subjects.refusals import with_refusals
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised, UnusableAnswer

_STORED_REASON = "weights are exp(logit - lse) of an lse that was stored"
_FLUSHED_REASON = "a subnormal value comes back as 0"
_STEPWISE_REASON = "measured: every step is stored in this dtype, exponentials and {} among them"
ManifestLimits = Mapping[str, bool | int | str | tuple[str, ...]]
"""Limits as a manifest has them: what is refused is a list."""


@dataclass(frozen=True, slots=True)
class MeasuredFacts:
    """What is measured on an adapter, beside its form.

    probe_answers: answers of the probe of conventions.  flushing_dtypes: the dtypes in which a
    subnormal number comes back as 0.  warnings: of fewer heads of keys and values. is_inexact:
    whether it takes float64 and computes it less exactly.  storing_dtypes: the dtypes in which
    weights are made of a stored log-sum-exp.  stepwise_classes: by half dtype in which every step
    is stored, its precision class.
    """

    dtypes: tuple[DType, ...]
    probe_answers: Mapping[str, str]
    limits: ManifestLimits
    flushing_dtypes: tuple[DType, ...]
    warnings: tuple[str, ...] = ()
    is_inexact: bool = False
    storing_dtypes: tuple[DType, ...] = ()
    stepwise_classes: Mapping[DType, ClassWords] = field(default_factory=dict)

    @property
    def conventions(self) -> Mapping[str, str]:
        """Returns the conventions that the manifest declares: what the adapter does. Tiled heads
        are doubted, so `repeat` is declared, which other libraries do.
        """
        found = {name: answer for name, answer in self.probe_answers.items()
                 if name in CONVENTIONS and (answer != UNDEFINED or name == "mask_with_causal")}
        return {**found, **({"grouped_heads": "repeat"} if self.is_tiled else {})}

    @property
    def is_tiled(self) -> bool:
        """Says whether query head h uses key and value head h % Hkv."""
        return self.probe_answers.get("grouped_heads") == "tile"


def name_adapter(form: CallForm) -> tuple[str, str]:
    """Returns the library's folder and the subject's id: `my_package`, `my_attention`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_",
                  form.name.replace(".", "_")).lower()
    return re.sub(r"\W", "_", form.module.partition(".")[0]), name


def write_head(form: CallForm) -> str:
    """Writes the part of `manifest.yaml` on the library; a local module needs no installing."""
    module = form.module.partition(".")[0]
    distribution = distribution_of(module)
    installed = [f"distribution: {distribution}", f"install: pip install {distribution}",
                 f"requires: {module}"]
    return "\n".join([f"library: {name_adapter(form)[0]}", *(installed if distribution else []), "subjects:"]) + "\n"


def write_entry(form: CallForm, learned: MeasuredFacts) -> str:
    """Writes the part of `manifest.yaml` on the subject."""
    return "\n".join(_list_entry_lines(form, learned)) + "\n"


def describe_dtypes(learned: MeasuredFacts) -> tuple[str, ...]:
    """Says which dtype is not declared though it answers, and which arithmetic is declared."""
    said = list[str]()
    if learned.is_inexact:
        said.append("It takes float64, but computes less exactly: float64 is not declared.")
    if learned.storing_dtypes:
        said.append("It makes weights of a log-sum-exp that it has stored, and rounds a whole row by "
                    "that: a choice, which the manifest declares.")
    for dtype, words in learned.stepwise_classes.items():
        said.append(f"Measured in {dtype.value}: it stores every step in the dtype, exponentials and "
                    f"{_describe_sums(words)} among them. The manifest declares that precision class, "
                    f"{STEPWISE_GRADE}.")
    return tuple(said)


def _describe_sums(words: ClassWords) -> str:
    """Names what a class sums in the dtype itself."""
    return "running sums" if "row_sum" in words else "their sum"


def describe_conventions(learned: MeasuredFacts) -> tuple[str, ...]:
    """Says which conventions the manifest declares, mistakes among them."""
    told = _format_pairs({name: answer for name, answer in learned.conventions.items()
                          if name != "grouped_heads" or not learned.is_tiled})
    return (f"Where libraries differ, the manifest declares what it does: {told}. Correct there what is a mistake.",
            ) if told else ()


def measure_adapter(form: CallForm, trier: Trier) -> MeasuredFacts:
    """Measures what an adapter takes and does, once it is known how to call it."""
    dtypes = tuple(dtype for dtype in DType if dtype is form.dtype or _computes_in(dtype, form, trier))
    wide = replace(form, dtype=DType.FLOAT64)
    is_inexact = DType.FLOAT64 not in dtypes and trier.answer(wide, plain_problem(wide)) is not None
    limited = replace(form, limits=_measure_limits(form, trier))
    subject = trier.load_adapter(limited)
    narrowed = _narrow(replace(subject, declaration=replace(subject.declaration, dtypes=dtypes)))
    probed = probe_conventions(narrowed, form.dtype)
    if probed.get("grouped") == YES and _raises_at_groups(limited, trier):
        probed = {**probed, "grouped": NO}
    if probed.get("grouped") == NO:  # then it does not matter which head would use which
        probed = {name: answer for name, answer in probed.items() if name != "grouped_heads"}
    if form.one_kv_head:
        probed = {**probed, "grouped_heads": "repeat"}  # with one head, all orders are the same
    grouped = {"grouped": probed["grouped"] == YES} if form.kind is Kind.ATTENTION and "grouped" in probed else {}
    limits = {**limited.limits, **grouped, **_list_narrowed_limits(subject, narrowed), **grouped}
    return MeasuredFacts(dtypes, {**probed, **_probe_both_masks(form, trier, probed)}, limits,
                         tuple(dtype for dtype in dtypes if _flushes_subnormals(limited, dtype, trier)),
                         tuple(_list_group_doubts(limited, limits, probed, trier)), is_inexact,
                         tuple(dtype for dtype in dtypes if stores_log_sum_exp(form, dtype, trier)),
                         {dtype: words for dtype in dtypes if (words := measure_half_class(narrowed, dtype))})


_TILED_WARNING = ("HEADS TILED: query head h uses key and value head h % Hkv, and nearly every "
                  "library has h // (H / Hkv), as models are trained. The manifest declares that, "
                  "so that attnspec check says what is wrong. If tiled heads are meant, write "
                  "grouped_heads: tile there.")


def _list_group_doubts(form: CallForm, limits: ManifestLimits, probed: Mapping[str, str],
                       trier: Trier) -> Iterator[str]:
    if probed.get("grouped_heads") == "tile":
        yield _TILED_WARNING
        return
    is_usual = not form.arrangement.mapped_axes and not form.is_packed and not form.parameter_for(TABLE)
    explained = trier.explain(form, plain_problem(form, H=6, D=4, Dv=4)) if limits.get("grouped") and is_usual else ""
    if explained:
        yield f"WRONG: with fewer heads of keys and values, {explained}."


_FLOAT64_GAP = 2.0**-38
"""The largest gap of a float64 answer: half way, in powers of two, to float32's roundings."""


def _computes_in(dtype: DType, form: CallForm, trier: Trier) -> bool:
    """Says whether the callee answers in a dtype, and in float64 is as exact as that."""
    posed = replace(form, dtype=dtype)
    problem = plain_problem(posed)
    answer = trier.answer(posed, problem)
    if answer is None or dtype is not DType.FLOAT64:
        return answer is not None
    output = answer.output.astype(np.float64)
    gap = min(truth.gap(output)[0] for truth in list_expected(problem, form.default_scale, form.mistake))
    return not _FLOAT64_GAP < gap <= tolerance_of(dtype)


def _narrow(subject: Subject) -> Subject:
    """Limits the subject by what it clearly refuses, unless its process dies of a question."""
    try:
        return with_refusals(subject)
    except SubjectDied:
        return subject


def _list_narrowed_limits(subject: Subject, narrowed: Subject) -> ManifestLimits:
    """Returns the limits that narrow it, as a manifest has them."""
    before, after = subject.declaration.limits, narrowed.declaration.limits
    found = {name: getattr(after, name) for name in LIMITS
             if getattr(after, name) != getattr(Limits() if name == "refuses" else before, name)}
    return {name: tuple(map(str, limit)) if isinstance(limit, tuple) else limit for name, limit in found.items()}


def _probe_both_masks(form: CallForm, trier: Trier, probed: Mapping[str, str]) -> Mapping[str, str]:
    """Probes other kernels: a mask with the causal flag, another width, a bias with gradients."""
    if probed.get("mask_with_causal") != "both":
        return {}
    wide = square_problem(form, Dv=6)
    masked = wide.but(mask=sample_mask(wide.sizes, str(form.limits.get("mask_axes", "BHTS"))),
                      causal=True)
    is_refused = trier.is_right(form, wide) and trier.answer(form, masked) is None
    return {"mask_with_causal": UNDEFINED} if is_refused or _refuses_with_gradients(form, trier) else {}


def _refuses_with_gradients(form: CallForm, trier: Trier) -> bool:
    """Says whether, under gradients, it raises at a bias with the causal flag alone."""
    trained = square_problem(replace(form, kind=Kind.ATTENTION))
    biased = trained.but(bias=sample_bias(trained.sizes, form.dtype),
                         grad_output=np.ones_like(trained.query))
    if form.lift != "torch" or not form.understands("bias") or not isinstance(biased, Problem):
        return False
    subject = trier.load_adapter(form).with_gradients
    try:
        subject.answer(biased)
    except (SubjectRaised, SubjectDied, UnusableAnswer, ValueError):
        return False
    try:
        subject.answer(biased.but(causal=True))
    except SubjectRaised:
        return True
    return False


def _flushes_subnormals(form: CallForm, dtype: DType, trier: Trier) -> bool:
    """Says whether a subnormal value comes back as 0, or its framework says so."""
    if form.lift and trier.load_adapter(form).callee.find_flushing_operation(dtype):
        return True
    if _loses_weights(form, dtype, trier):
        return True
    number, of = numpy_dtype(dtype), form.sizes.get
    ones = np.ones((1, 1, of("T", 1), of("D", 2)), number)
    value = np.full(ones.shape, ml_dtypes.finfo(number).smallest_normal / 4, number)
    problem = Problem(dtype, ones, ones, value, causal=form.is_always_causal)
    answer = trier.answer(form, problem)
    return answer is not None and not answer.output.astype(np.float64).any()


_MANY_KEYS = 32
"""The number of keys from which kernels compute exponentials side by side."""


def _loses_weights(form: CallForm, dtype: DType, trier: Trier) -> bool:
    """Says whether, with many keys, a weight below the smallest normal number comes back as 0."""
    D = form.sizes.get("D", 16)
    number, of = numpy_dtype(dtype), form.sizes.get
    T, S = of("T", _MANY_KEYS), of("S", _MANY_KEYS)
    if form.kind is not Kind.ATTENTION and not form.attends_to_itself:
        T = S
    smallest = float(ml_dtypes.finfo(number).smallest_normal)
    query, key = np.zeros((1, 1, T, D), number), np.zeros((1, 1, S, D), number)
    posed = Problem(dtype, query, key, np.zeros((1, 1, S, of("Dv", D)), number),
                    causal=form.is_always_causal)
    width = trier.load_adapter(form).scale_width(posed) if form.kind is Kind.LAYER else D
    query[..., 0], key[:, :, 0, 0] = 1, (np.log(smallest) + 1 / 4) * np.sqrt(width)
    posed.value[:, :, 0] = 1
    answer = trier.answer(form, posed)
    return answer is not None and bool((answer.output[:, :, -1].astype(np.float64) == 0).all())


def _measure_limits(form: CallForm, trier: Trier) -> LimitValues:
    """Returns the form's limits, and which of its widths and heads are tied to each other."""
    limits = {**form.limits, **({"self_attention_only": True} if form.attends_to_itself else {})}
    if not trier.is_right(form, plain_problem(form, Dv=6)):
        limits["ties_value_width"] = True
    if form.kind is Kind.LAYER:
        grouped = plain_problem(form, H=6, D=4, Dv=4)
        takes_groups = not form.limits.get("single_head") and (
            trier.is_right(form, grouped) or (form.is_told_groups and trier.answer(form, grouped) is not None))
        limits["grouped"] = takes_groups  # answered wrongly, they are judged if it is told how many there are
        if not trier.is_right(form, plain_problem(form, M=24)):
            limits["ties_model_width"] = True
    return limits


def _raises_at_groups(form: CallForm, trier: Trier) -> bool:
    """Says whether a function raises at some numbers of grouped heads; others work by chance."""
    if form.kind is Kind.LAYER or form.sizes.get("H"):
        return False
    return any(trier.answer(form, plain_problem(form, H=H, Hkv=Hkv)) is None for H, Hkv in ((6, 2), (6, 3), (5, 1)))


def _list_entry_lines(form: CallForm, learned: MeasuredFacts) -> Iterator[str]:
    name = name_adapter(form)[1]
    yield f"  - id: {name}"
    yield f"    title: {form.module}.{form.name}"
    yield f"    function: {name}:attend"
    if form.kind is Kind.LAYER:
        yield f"    kind: {form.kind.value}"
    if form.lift:
        yield f"    lift: {form.lift}"
    if form.family is CallableKind.KERAS:
        yield f"    process: {{KERAS_BACKEND: {form.lift or 'tensorflow'}}}"
    yield f"    dtypes: [{', '.join(dtype.value for dtype in learned.dtypes)}]"
    if claims := _list_claims(form, learned):
        yield f"    claims: [{', '.join(claims)}]"
    for key, pairs in (("limits", learned.limits), ("conventions", learned.conventions)):
        if pairs:
            yield f"    {key}: {{{_format_pairs(pairs)}}}"
    yield from _list_precision_lines(learned)
    if form.variants:
        yield "    variants:"
    for each in form.variants:
        yield f'      {each}: {{function: "{name}:{name_variant(each)}"}}'
    if form.untried_parameters:
        yield "    defaults:"
    for name, text in form.untried_parameters.items():
        yield f"      {name}: {json.dumps(text or '…', ensure_ascii=False)}"
    if noted := " ".join((*form.warnings, *learned.warnings, *form.remarks)):
        yield from ("    note: >-", *wrap_text(noted, indent=6))


def _list_precision_lines(learned: MeasuredFacts) -> Iterator[str]:
    told = [dtype for dtype in learned.dtypes
            if dtype in {*learned.flushing_dtypes, *learned.storing_dtypes, *learned.stepwise_classes}]
    if told:
        yield "    precision:"
    for dtype in told:
        words, reasons = list[str](), list[str]()
        if dtype in learned.stepwise_classes:
            words += [f"{word}: {value}" for word, value in learned.stepwise_classes[dtype].items()]
            reasons.append(_STEPWISE_REASON.format(_describe_sums(learned.stepwise_classes[dtype])))
        if dtype in learned.storing_dtypes:
            words.append("logsumexp_roundings: 1")
            if DTYPES[dtype].is_half:
                words.append(f"logsumexp: {dtype.value}")
            reasons.append(_STORED_REASON)
        if dtype in learned.flushing_dtypes:
            words.append("flushes_subnormals: true")
            reasons.append(_FLUSHED_REASON)
        yield f"      {dtype.value}: {{{', '.join(words)}, reason: {json.dumps('; '.join(reasons))}}}"


def _format_pairs(mapping: ManifestLimits) -> str:
    return ", ".join(f"{name}: {_format_value(value)}" for name, value in mapping.items())


def _format_value(value: bool | int | str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list_claims(form: CallForm, learned: MeasuredFacts) -> tuple[str, ...]:
    claims = [KEYWORDS[name].profile for name in form.keywords if name in KEYWORDS]
    if form.kind is Kind.LAYER:
        claims.insert(0, "layers")
    if form.is_packed:
        claims += [KEYWORDS[name].profile for name in sorted(SAID_BY_BORDERS)]
    further = {"past": form.next_cache, "masking": form.limits.get("bias_is_mask"),
               "grouped": learned.limits.get("grouped")}
    claims += [claim for claim, is_made in further.items() if is_made]
    return tuple(dict.fromkeys(claims))
