"""Mistakes that are told and not raised: all of them at once, and those in the words of one's own clauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from attnspec.core.characters import escape_hidden
from attnspec.core.declaration import Limits
from attnspec.core.errors import CANNOT_RUN, AttnspecError, SpecError
from attnspec.spec.clause import Clause, Spec

if TYPE_CHECKING:
    from attnspec.trials.compile import Check

T = TypeVar("T")


def collect_mistakes(look: Callable[[], T]) -> tuple[T | None, list[AttnspecError]]:
    """Looks, and collects the mistake that is met: what comes of it, or else what is wrong."""
    try:
        return look(), []
    except AttnspecError as problem:
        return None, [problem]


@contextmanager
def telling_own(law: Spec, clauses: Iterable[Clause]) -> Iterator[None]:
    """First say what `lint` would of the own ones among these clauses, and at last end with exit code 2 if it was
    anything. NumPy is imported only where there are any.
    """
    own = tuple(clause for clause in clauses if clause.where.file in law.added)
    mistakes = list(badly_put(replace(law, clauses=own))) if own else []
    for problem in mistakes:
        click.echo(escape_hidden(str(problem)), err=True)
    yield
    if mistakes:
        click.get_current_context().exit(CANNOT_RUN)


def badly_put(law: Spec) -> Iterator[AttnspecError]:
    """Finds one mistake of each clause whose words mean nothing; of the others, what makes them claim less than it
    seems.
    """
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: NumPy)
    from attnspec.vocabulary.tables import empty_claims  # noqa: PLC0415  (weight: NumPy)

    for clause in law.clauses:
        checks, found = collect_mistakes(partial(compile_spec, replace(law, clauses=(clause,)),
                                                 faults=CATALOGUE.keys()))
        yield from (*found, *(problem for check in (checks or {}).values() for problem in _unposable(check)))
        yield from () if found else empty_claims(clause)


def _unposable(check: Check) -> Iterator[SpecError]:
    """That no problem is such as the clause asks for, so that it never says anything of anybody."""
    from attnspec.problems.choices import has_any  # noqa: PLC0415  (weight: NumPy)

    if not any(has_any(check.domain, Limits(grouped=each)) for each in (True, False)):
        yield SpecError(f"{check.clause.id!r} is never tested: no size that is drawn has what `given` asks for "
                        "(min_…, lengths, grouped, inputs). Ask for less.", where=check.clause.place_of("given"))
