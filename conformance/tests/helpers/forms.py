"""What `attnspec init` finds of a callable that stands where the tests run."""

from __future__ import annotations

from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.subjects.target import host_of


def form_found(target: str) -> CallForm:
    """The form of `module:name`, in a process of its own."""
    return find_form(target, Trier(CalleeProcess(host_of(target, Surroundings()))))
