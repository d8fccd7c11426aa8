"""What a run asks of a subject besides its answers: gradients of its framework, forms that a framework makes of it."""

from __future__ import annotations

from attnspec.core.dropout_keywords import POOL as DROPOUT_POOL
from attnspec.core.gradient_keywords import GRAD, POOL, PROFILE
from attnspec.core.made_variants import AS_DECLARED, FORMS, forms_asked
from attnspec.core.plan import Plan
from attnspec.subjects.made import with_made
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check


def as_asked(subject: Subject, plan: Plan) -> Subject:
    """The subject, of which gradients and forms can be had if the plan asks for them."""
    subject = with_made(subject, FORMS) if plan.variants or forms_asked(plan) else subject
    return subject.with_gradients if _asks_gradients(plan, subject) else subject


def _asks_gradients(plan: Plan, subject: Subject) -> bool:
    """Whether a run asks a framework for gradients: of those who have a backward pass of their own every run does. An
    audit asks where the manifest claims them.
    """
    asking = {POOL, DROPOUT_POOL}
    if plan.variants == (AS_DECLARED,) and PROFILE in subject.declaration.claims:
        return True
    return not asking.isdisjoint({*plan.profiles, *(name.partition(".")[0] for name in plan.clauses)})


def as_put(subject: Subject, check: Check) -> Subject:
    """The subject as a clause is put to it: where a form of it is asked for gradients, the plain function is, too."""
    return subject.with_gradients if check.clause.made and GRAD in check.needs else subject
