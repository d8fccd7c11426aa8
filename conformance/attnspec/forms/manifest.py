"""The manifest of an adapter that `init` wrote: what its form says, and what a probe of it found."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from attnspec.forms.form import Form
from attnspec.forms.search import plain_problem
from attnspec.forms.trying import SIZES, Trier, problem_of
from attnspec.ground.conventions import CONVENTIONS, UNDEFINED
from attnspec.ground.keywords import KEYWORDS
from attnspec.ground.nouns import DType, Kind
from attnspec.problems.problem import LayerProblem, Problem, numpy_dtype
from attnspec.subjects.probe import YES, probe_conventions


@dataclass(frozen=True, slots=True)
class Learned:
    """What trying the adapter taught beside its form. `probed`: answers of the probe of conventions."""

    dtypes: tuple[DType, ...]
    probed: Mapping[str, str]
    limits: Mapping[str, str]


def names_of(form: Form) -> tuple[str, str]:
    """The folder of the library and the id of the subject: `my_package`, `my_attention`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", form.name.replace(".", "_")).lower()
    return re.sub(r"\W", "_", form.module.partition(".")[0]), name


def head(form: Form) -> str:
    """The part of `manifest.yaml` that speaks of the library; a module that lies here needs no installing."""
    module = form.module.partition(".")[0]
    distribution = next(iter(importlib.metadata.packages_distributions().get(module, ())), "")
    installed = [f"distribution: {distribution}", f"install: pip install {distribution}", f"requires: {module}"]
    return "\n".join([f"library: {names_of(form)[0]}", *(installed if distribution else []), "subjects:"]) + "\n"


def entry(form: Form, trier: Trier) -> str:
    """The part that speaks of the subject. The adapter itself is asked."""
    return "\n".join(_entry(form, _learned(form, trier))) + "\n"


def _learned(form: Form, trier: Trier) -> Learned:
    subject, dtypes = trier.subject(form), _dtypes(form, trier)
    probed = probe_conventions(replace(subject, declaration=replace(subject.declaration, dtypes=dtypes)), dtypes[0])
    return Learned(dtypes, probed, _limits(form, trier, has_groups=probed.get("grouped") == YES))


def _entry(form: Form, learned: Learned) -> Iterator[str]:
    name = names_of(form)[1]
    yield f"  - id: {name}"
    yield f"    title: {form.module}.{form.name}"
    yield f"    function: {name}:attend"
    yield from ((f"    kind: {form.kind.value}",) if form.kind is Kind.LAYER else ())
    yield from ((f"    lift: {form.lift}",) if form.lift else ())
    yield f"    dtypes: [{', '.join(dtype.value for dtype in learned.dtypes)}]"
    yield from ((f"    claims: [{', '.join(claims)}]",) if (claims := _claims(form, learned)) else ())
    yield f"    limits: {{{_pairs(learned.limits)}}}"
    conventions = {name: answer for name, answer in learned.probed.items()
                   if name in CONVENTIONS and answer != UNDEFINED}
    yield from ((f"    conventions: {{{_pairs(conventions)}}}",) if conventions else ())
    yield from (("    note: >-", *(f"      {remark}" for remark in form.remarks)) if form.remarks else ())


def _pairs(mapping: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in mapping.items())


def _claims(form: Form, learned: Learned) -> tuple[str, ...]:
    """The profiles of all that it was seen to understand."""
    claims = [*(["layers"] if form.kind is Kind.LAYER else []), *(KEYWORDS[name].profile for name in form.keywords)]
    return tuple(dict.fromkeys([*claims, *(["grouped"] if learned.limits["grouped"] == "true" else [])]))


def _dtypes(form: Form, trier: Trier) -> tuple[DType, ...]:
    """Those in which a plain problem comes back; float32 at the least, in which the form was found."""
    problem = plain_problem(form)
    return tuple(dtype for dtype in DType
                 if dtype is DType.FLOAT32 or trier.output(form, _in(problem, dtype)) is not None)


def _in(problem: Problem | LayerProblem, dtype: DType) -> Problem | LayerProblem:
    number = numpy_dtype(dtype)
    arrays = {name: getattr(problem, name).astype(number) for name in ("query", "key", "value")}
    if isinstance(problem, LayerProblem):
        params = {name: array.astype(number) for name, array in problem.params.items()}
        return problem.but(dtype=dtype, params=params, **arrays)
    return problem.but(dtype=dtype, **arrays)


def _limits(form: Form, trier: Trier, *, has_groups: bool) -> Mapping[str, str]:
    """Limits that the trial showed."""
    limits = {"grouped": "true" if has_groups else "false"}
    if form.kind is Kind.LAYER:
        limits |= {"ties_value_width": "true", "ties_model_width": "true"}
        limits |= {"self_attention_only": "true"} if form.inputs == 1 else {}
        limits |= {} if any("b_out" in text for text in form.state.values()) else {"has_biases": "false"}
    elif trier.output(form, problem_of(form.kind, replace(SIZES, Dv=6))) is None:
        limits["ties_value_width"] = "true"
    return limits
