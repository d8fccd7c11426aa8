"""The subject behind a target, as a plan has it judged."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from attnspec.core.errors import AttnspecError, TargetError
from attnspec.core.nouns import is_bare
from attnspec.core.plan import Plan, is_own
from attnspec.engine.asked import with_requested_features
from attnspec.subjects.refusals import with_refusals
from attnspec.subjects.registry import load, process_of
from attnspec.subjects.smoke import check_axes, complaint_of_all_calls
from attnspec.subjects.subject import Subject, SubjectDied
from attnspec.subjects.target import importable_name
from attnspec.subjects.watching import (
    SLOW,
    Asking,
    asking_for,
    incidents_of,
    surviving_errors,
    watch_subject,
    with_compiling,
)


def _is_slow(subject: Subject, seconds: float) -> bool:
    """Whether its first calls, all of other shapes, took so long that a compiler may be why."""
    incidents = incidents_of(subject)
    return incidents is not None and seconds >= SLOW * incidents.calls


def _check_lift(subject: Subject, plan: Plan) -> None:
    """Raise TargetError for a function that raises on every NumPy array, if its module says whose tensors it takes.

    What is wrong with its axes is said, too: whoever adds the lift would be told next.
    """
    complaint = complaint_of_all_calls(subject)
    if not complaint:
        return
    from attnspec.diagnosis.advice import wanted_lift  # noqa: PLC0415  (weight: every fault)

    lift, why = wanted_lift(subject, complaint)
    if not lift:
        return
    function, besides = subject.id.rpartition(":")[2], ""
    try:
        load_subject(subject.id, replace(plan, lift=lift))
    except AttnspecError as error:
        besides = f" With it: {str(error).partition(': ')[2] or error}"
    raise TargetError(f"{subject.id} gets NumPy arrays, {why}, and {complaint}. Give it tensors: --lift {lift}, or the "
                      f'line {function}.lift = "{lift}".{besides}', where=subject.source)


def load_subject(target: str, plan: Plan) -> Subject:
    """The subject behind a target; faults are `fault/NAME`, sound formulations `sound/NAME`.

    A function of one's own has no manifest that says what it takes: what it refuses is found out first. Raises
    TargetError, ManifestError, UsageError.
    """
    if is_own(target):
        from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: every fault)

        return own_subject(target)
    surroundings = None if target in plan.in_process else plan.surroundings(process_of(target, plan.implementations))
    subject = load(target, surroundings, lift=plan.lift, folders=plan.implementations)
    subject = watch_subject(subject)
    if is_bare(target):
        with asking_for(subject, Asking.TAKES), contextlib.suppress(SubjectDied), surviving_errors(subject):
            before = subject.callee.cpu_seconds()
            # nothing is concluded of one that dies; clauses say how
            check_axes(subject, target=importable_name(target))
            if _is_slow(subject, subject.callee.cpu_seconds() - before):
                subject = with_compiling(subject)
            _check_lift(subject, plan)
            subject = with_refusals(subject)
    return with_requested_features(subject, plan)
