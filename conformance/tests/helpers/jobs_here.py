"""Carrying out the jobs of a run in the process of the tests, which has imported and compiled what they need.

A worker of the command spends seconds on its imports before its first job, and most tests ask for one or two jobs.
Subjects live in processes of their own here as there. A test of the workers themselves is marked `workers`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnspec.core.errors import AttnspecError
from attnspec.core.plan import Job, Plan
from attnspec.hosting import client
from attnspec.record.codec import decode, from_line, to_line
from attnspec.record.events import Done, Event, ItemStarted, SubjectKnown
from attnspec.record.outcome import SubjectCard
from attnspec.runner.jobs import JobSource, open_jobs, plan_text
from attnspec.runner.listener import Listener
from attnspec.runner.session import Session, _importing_from_here, prepared_environment

from helpers.places import CHECKOUT

WORK_OF_WORKERS = Session._work
"""What `work_here` stands in for."""

LIBRARIES = CHECKOUT / "implementations"

_born_with: dict[str, str] = {}
"""The environment variables that the hosts which are kept were started with."""


def work_here(session: Session, listener: Listener, jobs: Sequence[Job], folder: Path) -> None:
    """Do the work of a session without workers, unless something else carries its jobs."""
    if session.carrier:
        WORK_OF_WORKERS(session, listener, jobs, folder)
        return
    try:
        with _importing_from_here(), prepared_environment(), _hosts_of_a_run():
            _carry_out(listener, session._plan, session.source, {job.id for job in jobs})
    except KeyboardInterrupt:
        listener.is_interrupted = True


@contextmanager
def _hosts_of_a_run() -> Iterator[None]:
    """A host of a library goes from run to run, and its framework is imported once; one of a test's own file does not.

    Hosts are born with the environment variables of their time.
    """
    now = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    if now != _born_with:
        client.close_all()
    _born_with.clear()
    _born_with.update(now)
    try:
        yield
    finally:
        for key, host in list(client._clients.items()):
            if host._deaths or not _is_of_a_library(key):
                client._clients.pop(key).close()


def _is_of_a_library(key: Hashable) -> bool:
    """Whether it is one of this checkout's own, whose adapter no test changes."""
    assert isinstance(key, tuple)  # of subjects/target.py
    target, _, adapters = key
    return ":" not in target and adapters == (LIBRARIES,)


def _carry_out(listener: Listener, plan: Plan, name: str, due: Collection[str]) -> None:
    source = open_jobs(name, decode(Plan, json.loads(plan_text(plan))))  # as a worker is handed it
    cards: dict[str, SubjectCard] = {}
    for job in source.items():
        if job.id in due:
            listener.receive_events(_carry_over(event) for event in _events_of(job, source, cards))


def _events_of(job: Job, source: JobSource[Any], cards: dict[str, SubjectCard]) -> Iterator[Event]:
    """What a worker says of a job: that it begins, the card of a subject where it is new, and what came of it."""
    yield ItemStarted(job.target, job.part, job.dtype)
    done: Done = source.carry_out(job)
    with suppress(AttnspecError):
        card = source.card(job.target)
        if card and cards.get(job.target) != card:
            cards[job.target] = card
            yield SubjectKnown(card)
    yield done


def _carry_over(event: Event) -> Event:
    """The event as it comes over from another process."""
    return from_line(to_line(event))
