"""Loads the subject of a target, as a plan has it judged, with the features that a run asks for.

A framework differentiates whatever is written in it, so that every run asks for gradients. One
that names them asks in full; any other tries a sample of the cases, at the subject's first dtype.
Forms are made where a plan asks for them.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from attnspec.core.effort import EFFORTS
from attnspec.core.errors import AttnspecError, TargetError
from attnspec.core.forms import AS_DECLARED, FORMS, forms_asked
from attnspec.core.keyword import DROPOUT_POOL, GRAD, GRADIENTS_POOL, GRADIENTS_PROFILE
from attnspec.core.nouns import is_bare
from attnspec.core.plan import Plan, is_own
from attnspec.engine.expectations import is_hurried
from attnspec.problems.keyword_arrays import make_output_gradient
from attnspec.problems.problem import Problem
from attnspec.spec.clause import first_of
from attnspec.subjects.call import NotDifferentiated, SubjectRaised, UnusableAnswer
from attnspec.subjects.exceptions import says_no_derivative
from attnspec.subjects.interview import PLAIN, Case
from attnspec.subjects.refusals import with_refusals
from attnspec.subjects.registry import load_target, process_of
from attnspec.subjects.smoke import check_axes, complaint_of_all_calls
from attnspec.subjects.subject import Subject, SubjectDied, add_made_variants
from attnspec.subjects.target import importable_name
from attnspec.subjects.watching import (
    SLOW_FACTOR,
    Asking,
    asking_for,
    incidents_of,
    surviving_errors,
    watch_subject,
    with_compiling,
)
from attnspec.trials.compile import Check
from attnspec.trials.paths import CompilingTime


def with_requested_features(subject: Subject, plan: Plan) -> Subject:
    """Adds gradients and made forms to the subject if the plan asks for them."""
    if plan.variants or forms_asked(plan):
        subject = add_made_variants(subject, FORMS)
    if _names_gradients(plan, subject):
        return subject.with_gradients
    if samples_gradients(plan, subject):
        return _with_gradients_if_any(subject)
    return subject


def _names_gradients(plan: Plan, subject: Subject) -> bool:
    """Whether a run asks for gradients in full; an audit does where the manifest claims them."""
    if plan.variants == (AS_DECLARED,) and GRADIENTS_PROFILE in subject.declaration.claims:
        return True
    names = plan.asked_for | {name.partition(".")[0] for name in plan.clauses}
    return not names.isdisjoint({GRADIENTS_POOL, DROPOUT_POOL})


def samples_gradients(plan: Plan, subject: Subject) -> bool:
    """Whether a run tries a sample of the cases about gradients.

    Those of a backward pass of its own are tried in full, and a run that is narrowed to other
    clauses has none.
    """
    is_narrowed = bool(plan.clauses or plan.narrowing) or plan.variants == (AS_DECLARED,)
    return subject.backward is None and not is_narrowed and not _names_gradients(plan, subject)


def _with_gradients_if_any(subject: Subject) -> Subject:
    """The subject with gradients, unless its framework says that there are none."""
    with_gradients = subject.with_gradients
    if with_gradients is subject:
        return subject
    if words := _words_without_derivative(with_gradients):
        return replace(subject, refused_words={**subject.refused_words, GRAD: words})
    return with_gradients


def _words_without_derivative(subject: Subject) -> str:
    """The framework's words that it cannot differentiate the function; empty where it can."""
    dtype = first_of(subject.declaration.dtypes)
    sizes, keywords = PLAIN, dict[str, object]()
    if subject.declaration.limits.causal_only:
        keywords["causal"] = True
    problem = Case(sizes, keywords).pose_problem(dtype, subject.declaration.kind)
    if not isinstance(problem, Problem):
        return ""
    problem = problem.but(grad_output=make_output_gradient("normal", 0, sizes, dtype))
    if subject.refuses(problem):
        return ""
    try:
        subject.answer(problem)
    except SubjectRaised as error:
        return error.summary if says_no_derivative(error) else ""
    except (NotDifferentiated, UnusableAnswer):
        return ""
    return ""


def compiling_time(plan: Plan, subject: Subject) -> CompilingTime | None:
    """What compilers may take; None where nothing is compiled, or all is put whatever it takes.

    What they took while the subject was asked what it takes counts: a kernel that unrolls its loop
    takes 15 s for that. Three quarters of the time are left all the same: with less, no cause was
    found of such a kernel that fails.
    """
    if not subject.declaration.is_compiled or not is_hurried(plan):
        return None
    most = EFFORTS[plan.effort].compiling
    return CompilingTime(most, seconds_spent=min(most / 4, subject.callee.cpu_seconds()))


def with_clause_gradients(subject: Subject, check: Check) -> Subject:
    """The subject as a clause is put to it: with gradients, where a form of it has them."""
    if check.clause.made_forms and GRAD in check.needs:
        return subject.with_gradients
    return subject


def _is_slow(subject: Subject, seconds: float) -> bool:
    """Whether its first calls, all of other shapes, took so long that a compiler may be why."""
    incidents = incidents_of(subject)
    return incidents is not None and seconds >= SLOW_FACTOR * incidents.calls


def _check_lift(subject: Subject, plan: Plan) -> None:
    """Raises TargetError for a function that raises on every NumPy array, with the lift that it
    needs.

    Its module says whose tensors it takes. What is wrong with its axes is said, too: whoever adds
    the lift would be told next.
    """
    complaint = complaint_of_all_calls(subject)
    if not complaint:
        return
    from attnspec.diagnosis.advice import wanted_lift  # noqa: PLC0415  (weight: every fault)

    lift, why = wanted_lift(subject, complaint)
    if not lift:
        return
    function, next_complaint = subject.id.rpartition(":")[2], ""
    try:
        load_subject(subject.id, replace(plan, lift=lift))
    except AttnspecError as error:
        next_complaint = f" With it: {str(error).partition(': ')[2] or error}"
    raise TargetError(f"{subject.id} gets NumPy arrays, {why}, and {complaint}. Give it tensors: "
                      f'--lift {lift}, or the line {function}.lift = "{lift}".{next_complaint}',
                      where=subject.source)


def load_subject(target: str, plan: Plan) -> Subject:
    """The subject behind a target; faults are `fault/NAME`, sound formulations `sound/NAME`.

    A function of one's own has no manifest that says what it takes: what it refuses is found out
    first. Raises TargetError, ManifestError, UsageError.
    """
    if is_own(target):
        from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: every fault)

        return own_subject(target)
    surroundings = None
    if target not in plan.in_process:
        surroundings = plan.surroundings(process_of(target, plan.implementations))
    subject = load_target(target, surroundings, lift=plan.lift, folders=plan.implementations)
    subject = watch_subject(subject)
    if is_bare(target):
        # nothing is concluded of one that dies; clauses say how
        with (asking_for(subject, Asking.TAKES), contextlib.suppress(SubjectDied),
              surviving_errors(subject)):
            start = subject.callee.cpu_seconds()
            check_axes(subject, target=importable_name(target))
            if _is_slow(subject, subject.callee.cpu_seconds() - start):
                subject = with_compiling(subject)
            _check_lift(subject, plan)
            subject = with_refusals(subject)
    return with_requested_features(subject, plan)
