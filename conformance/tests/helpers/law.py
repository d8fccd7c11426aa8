"""The shipped clauses, ready to be put to a subject."""

from __future__ import annotations

import functools

from attnspec.faults.catalogue import CATALOGUE
from attnspec.spec.load import load_spec
from attnspec.trials.compile import Check, compile_spec


@functools.cache
def checks() -> dict[str, Check]:
    """By the id of the clause; compiled once. Raises SpecError where a clause names a fault that does not exist."""
    return compile_spec(load_spec(), faults=CATALOGUE.keys())
