"""What a run asks of a subject besides its answers: gradients of its framework, forms that a framework makes of it.

A framework differentiates whatever is written in it, so that every run asks for gradients. One that names them asks in
full; any other tries a sample of the cases, at the subject's first dtype.
"""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.compiling import SECONDS
from attnspec.core.keyword_nouns import DROPOUT_POOL, GRAD, GRADIENTS_POOL, GRADIENTS_PROFILE
from attnspec.core.made_variants import AS_DECLARED, FORMS, forms_asked
from attnspec.core.plan import Plan
from attnspec.engine.selection import is_hurried
from attnspec.problems.keyword_arrays import make_output_gradient
from attnspec.problems.problem import Problem
from attnspec.spec.clause import first_of
from attnspec.subjects.call import NotDifferentiated, SubjectRaised, UnusableAnswer
from attnspec.subjects.exceptions import says_no_derivative
from attnspec.subjects.interview import PLAIN, Case
from attnspec.subjects.subject import Subject, with_made
from attnspec.trials.compile import Check
from attnspec.trials.paths import CompilingTime


def with_requested_features(subject: Subject, plan: Plan) -> Subject:
    """The subject, of which gradients and forms can be had if the plan asks for them."""
    subject = with_made(subject, FORMS) if plan.variants or forms_asked(plan) else subject
    if _names_gradients(plan, subject):
        return subject.with_gradients
    return _with_its_gradients(subject) if samples_gradients(plan, subject) else subject


def _names_gradients(plan: Plan, subject: Subject) -> bool:
    """Whether a run asks a framework for gradients in full. An audit does where the manifest claims them."""
    asking = {GRADIENTS_POOL, DROPOUT_POOL}
    if plan.variants == (AS_DECLARED,) and GRADIENTS_PROFILE in subject.declaration.claims:
        return True
    return not asking.isdisjoint({*plan.asked_for, *(name.partition(".")[0] for name in plan.clauses)})


def samples_gradients(plan: Plan, subject: Subject) -> bool:
    """Whether a run tries a sample of the cases about gradients: those of a backward pass of its own are tried in full,
    and a run that is narrowed to other clauses has none.
    """
    is_narrowed = bool(plan.clauses or plan.narrowing) or plan.variants == (AS_DECLARED,)
    return subject.backward is None and not is_narrowed and not _names_gradients(plan, subject)


def _with_its_gradients(subject: Subject) -> Subject:
    """The subject, of which gradients can be had unless its framework says that there are none."""
    asked = subject.with_gradients
    words = "" if asked is subject else _without_derivative(asked)
    return replace(subject, refused_words={**subject.refused_words, GRAD: words}) if words else asked


def _without_derivative(subject: Subject) -> str:
    """In what words the framework says that it cannot differentiate the function; empty where it can, or fails."""
    dtype = first_of(subject.declaration.dtypes)
    sizes, given = PLAIN, {"causal": True} if subject.declaration.limits.causal_only else {}
    problem = Case(sizes, given).pose_problem(dtype, subject.declaration.kind)
    if not isinstance(problem, Problem):
        return ""
    problem = problem.but(grad_output=make_output_gradient("normal", 0, sizes, dtype))
    if subject.refuses(problem):
        return ""
    try:
        subject.answer(problem)
    except SubjectRaised as raised:
        return raised.summary if says_no_derivative(raised) else ""
    except (NotDifferentiated, UnusableAnswer):
        return ""
    return ""


def compiling_time(plan: Plan, subject: Subject) -> CompilingTime | None:
    """What compilers may take; None where nothing is compiled, or all is put whatever it takes.

    What they took while the subject was asked what it takes counts: a kernel that unrolls its loop takes 15 s for that.
    Three quarters of the time are left all the same: with less, no cause was found of such a kernel that fails.
    """
    if not subject.declaration.is_compiled or not is_hurried(plan):
        return None
    most = SECONDS[plan.effort]
    return CompilingTime(most, spent=min(most / 4, subject.callee.cpu_seconds()))


def as_put(subject: Subject, check: Check) -> Subject:
    """The subject as a clause is put to it: where a form of it is asked for gradients, the plain function is, too."""
    return subject.with_gradients if check.clause.made and GRAD in check.needs else subject
