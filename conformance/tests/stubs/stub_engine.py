"""An engine without attention: the name of a clause says what befalls its item. It tests the runner in seconds."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.record.outcome import Evidence, Measured, Outcome, SubjectCard
from attnspec.spec.clause import BibliographyEntry, Citation, Clause, Spec, Word

RECIPE = "B1,H1,Hkv1,T1,S2,D1,Dv1;mask=none;families=normal;seed=3"


def _clause(number: int, name: str, level: Level = Level.MUST) -> Clause:
    return Clause(
        id=f"stub.{name}", theme="stub", level=level, profile="core", says=f"The stub's clause called {name} holds.",
        formula="a = b", because=(Citation("paper", "3.2", "so it is"),), needs=frozenset(), problem="any",
        given=Word("attention", {}), draw={}, runs={}, then=(), refuted_by=("mask_ignored",), note="",
        where=FileLocation("spec/stub.yaml", number))


VERDICTS = {
    "held": Verdict.HELD, "violated": Verdict.VIOLATED, "advised": Verdict.VIOLATED, "lacking": Verdict.INAPPLICABLE,
    "vague": Verdict.NO_CLAIM, "raised": Verdict.ERRORED, "listed": Verdict.EXPECTED, "mended": Verdict.UNEXPECTED,
}
DEEDS = ("crash", "segfault", "killed_once", "stopped_once", "noise", "broken", "defect", "slow")
CLAUSES = tuple(_clause(number, name, Level.SHOULD if name == "advised" else Level.MUST)
                for number, name in enumerate((*VERDICTS, *DEEDS), start=1))
SPEC = Spec("0", "d" * 64, CLAUSES, {"paper": BibliographyEntry("paper", "A paper", "paper", "https://example.org")})


class Engine:
    """What runner.bench.Judge asks for."""

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan, self.spec, self._breadcrumb = plan, SPEC, breadcrumb

    def items(self) -> tuple[Item, ...]:
        dtypes = [dtype.value for dtype in self.plan.dtypes] or ["float32"]
        return tuple(Item(target, clause, dtype)
                     for target in self.plan.targets for dtype in dtypes for clause in self.plan.clauses)

    def hurries(self, target: str) -> bool:  # noqa: ARG002  (the protocol's)
        return False

    def compiles(self, target: str) -> bool:
        return target == "compiles"

    def seconds_compiling(self, target: str) -> float:
        return 75.0 if target == "compiles" else 0.0

    def _is_in_a_worker(self) -> bool:
        # not by xdist's environment variables: the tests themselves may run under xdist
        return self._breadcrumb.__name__ == "drop_crumb"

    def fetch(self, target: str) -> None:
        self.card(target)

    def card(self, target: str) -> SubjectCard:
        if target == "none":
            raise TargetError("there is no 'none'.")
        return SubjectCard(target, target.upper(), "attention", "stub", "1", "", {"hidden_row": "zeros"}, {}, {}, ())

    def find_refused(self, target: str) -> dict[str, str]:
        return {"T ≠ S": "ValueError: equal lengths"} if target == "shy" else {}

    def applies(self, item: Item) -> bool:
        return item.clause != "stub.lacking"

    def try_item(self, item: Item) -> Outcome:
        return self._judge(item, RECIPE)

    def replay(self, item: Item, recipe: str) -> Outcome:
        return replace(self._judge(item, recipe), reason=f"replayed {recipe}")

    def compare_with_known(self, outcome: Outcome) -> Outcome:
        return outcome

    def _judge(self, item: Item, recipe: str) -> Outcome:
        self._breadcrumb(recipe)
        name = item.clause.removeprefix("stub.")
        getattr(self, f"_{name}", lambda: None)()
        clause = next(clause for clause in CLAUSES if clause.id == item.clause)
        return _outcome(item, clause.level, VERDICTS.get(name, Verdict.HELD), recipe)

    def _crash(self) -> None:
        sys.stderr.write("last words of a library\n")
        os.abort()

    def _segfault(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def _killed_once(self) -> None:
        _once(signal.SIGKILL)

    def _stopped_once(self) -> None:
        _once(signal.SIGSTOP)

    def _slow(self) -> None:
        time.sleep(30)

    def _noise(self) -> None:
        sys.stderr.write("a library talks\n")
        sys.stdout.write("to both streams\n")

    def _broken(self) -> None:
        raise TargetError("stub: its import fails.")

    def _defect(self) -> None:
        raise ZeroDivisionError("a defect of attnspec itself")


class FailingEngine(Engine):
    """An engine that fails in every worker, before any item."""

    def items(self) -> tuple[Item, ...]:
        if self._is_in_a_worker():
            raise ZeroDivisionError("a defect of attnspec itself")
        return super().items()


class DeadlyEngine(Engine):
    """An engine in which workers die before they take up an item."""

    def items(self) -> tuple[Item, ...]:
        if self._is_in_a_worker():
            os._exit(3)
        return super().items()


def _once(number: signal.Signals) -> None:
    """Send this process a signal, if none was sent before."""
    mark = Path(os.environ["STUB_MARK"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), number)


def _outcome(item: Item, level: Level, verdict: Verdict, recipe: str) -> Outcome:
    reasons = {Verdict.INAPPLICABLE: "takes no `mask`", Verdict.NO_CLAIM: "every case overflowed"}
    measured = Measured("agree", "they should agree", 2.0, 2e-6, 1e-6, 1.0, 1.000002, (0, 0, 0, 0), 4, 4, 1)
    evidence = Evidence("1 of 4 entries differ", "B=1 H=1 T=1 S=2 D=1 Dv=1", recipe, measured)
    failed = verdict in (Verdict.VIOLATED, Verdict.ERRORED)
    return Outcome(item.target, item.clause, DType(item.dtype), level, verdict, reasons.get(verdict, ""), cases=3,
                   worst=measured, evidence=evidence if failed else None)
