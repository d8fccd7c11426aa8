"""What the runner asks of whatever it carries out: the court's trials, or a docket of another kind, handed by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from attnspec.ground.errand import Conclusion, Errand, Loss
from attnspec.ground.plan import Plan
from attnspec.law.clause import Spec
from attnspec.record.events import Done, RunStarted
from attnspec.record.outcome import SubjectCard

Breadcrumb = Callable[[str], None]  # takes the recipe on trial, before the subject sees it
E = TypeVar("E", bound=Errand)


class Docket(Protocol[E]):
    """Errands and how to carry them out. The controller asks for all but `carry_out` and `card`, a worker for these.

    Made as NAME(plan, breadcrumb=...) in the controller and in every worker. Making it, `spec`, `items`, `surroundings`
    and `header` are light: what loads NumPy or a framework waits for the first errand.
    """

    @property
    def spec(self) -> Spec:
        """The law that is applied."""

    def items(self) -> tuple[E, ...]:
        """The errands, in an order that depends on the plan alone. Raises AttnspecError where the plan is bad."""

    def surroundings(self, errand: E) -> Mapping[str, str]:
        """The environment variables that must stand before the process begins in which the errand is carried out."""

    def header(self, blank: RunStarted) -> RunStarted:
        """The header with what the docket's record embeds of clauses, rules and faults."""

    def card(self, target: str) -> SubjectCard | None:
        """What a report says of a subject; None where the header says it. Raises AttnspecError if it cannot be had."""

    def carry_out(self, errand: E) -> Done:
        """Do it, in a worker. What escapes is a defect of attnspec."""

    def lost(self, errand: E, loss: Loss) -> Done:
        """What stands in the record for an errand that came to nothing."""

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """What the run comes to."""


def open_docket(name: str, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> Docket[Any]:
    """The docket called "module:Class", for this plan. Raises AttnspecError where the law or the plan is bad."""
    module, _, kind = name.partition(":")
    docket: Docket[Any] = getattr(importlib.import_module(module), kind)(plan, breadcrumb=breadcrumb)
    return docket
