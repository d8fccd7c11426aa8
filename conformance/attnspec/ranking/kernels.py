"""A kernel is judged, in a worker: its process is started, every clause tried, and all of it forgotten again."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from attnspec.core.errors import AttnspecError, EndedError
from attnspec.core.nouns import DType, Level
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.hosting.pool import close_all
from attnspec.ranking.scoring import KernelScore
from attnspec.ranking.targets import file_digest
from attnspec.record.outcome import Outcome
from attnspec.record.ranked import KernelRanked, KernelStanding
from attnspec.report.likely_cause import CONSEQUENCES
from attnspec.runner.judge import clause_of, not_run, pronounce
from attnspec.spec.clause import first_of
from attnspec.subjects.watching import MOST_HANGS
from attnspec.trials.archives import Archives
from attnspec.trials.heap import hand_back

HANGS = 2
"""So many items may end at the deadline; then the kernel is dropped, since each costs as long."""

def clearest_first(items: Sequence[Item]) -> Sequence[Item]:
    """At float32, or else the first dtype, first, where every clause is put; what follows from other mistakes last, so
    that the first failure says the most.
    """
    main = first_of([dtype for dtype in DType if dtype.value in {item.dtype for item in items}]) if items else None
    return sorted(items, key=lambda item: (main and item.dtype != main.value,
                                           item.clause.partition(".")[0] in CONSEQUENCES))


class KernelWorker:
    """Judges one kernel after the other. Problems, and what the definition says of them, are kept for the next."""

    def __init__(self, plan: Plan, stop_after: int, breadcrumb: Callable[[str], None]) -> None:
        self._plan, self._stop_after = plan, stop_after
        self._engine = Engine(plan, breadcrumb=breadcrumb, archives=Archives())

    def rank(self, target: str) -> KernelRanked:
        """The line of one kernel. What escapes is a defect of attnspec."""
        began, digest = time.perf_counter(), file_digest(target)
        try:
            ranked = self._judged(target)
        except AttnspecError as cause:
            ended = str(cause) if isinstance(cause, EndedError) else ""
            ranked = KernelRanked(target, KernelStanding.NOT_JUDGED, reason=str(cause), death=ended)
        finally:
            self._engine.forget(target)
            close_all()
            hand_back()
        return replace(ranked, seconds=time.perf_counter() - began, digest=digest)

    def _judged(self, target: str) -> KernelRanked:
        self._engine.fetch(target)
        score, items = KernelScore(), clearest_first(self._engine.items_of(target))
        for number, item in enumerate(items):
            score.outcomes.append(self._pronounced(item))
            if why := self._why_enough(score):
                score.untried, score.stopped = self._applying(items[number + 1:]), why
                break
        ranked = score.concluded(target, strict=self._plan.strict)
        refused = dict.fromkeys((*self._engine.refused(target), *ranked.refused))
        return replace(ranked, refused=tuple(refused))

    def _pronounced(self, item: Item) -> Outcome:
        """The outcome of one item. An error of attnspec's own costs the kernel this item, and is its reason."""
        try:
            return pronounce(self._engine, item, plan=self._plan)
        except Exception as defect:
            last = traceback.extract_tb(defect.__traceback__)[-1]
            told = f"{type(defect).__name__}: {defect} (in {Path(last.filename).name}:{last.lineno})"
            level = clause_of(self._engine.spec, item.clause).level
            return not_run(item, level, f"attnspec itself failed at {item.clause}, which is its defect: {told}")

    def _why_enough(self, score: KernelScore) -> str:
        """Why a kernel is dropped; empty as long as it is not."""
        if self._stop_after and len(score.failing) >= self._stop_after:
            number = len(score.failing)
            return f"dropped after {number} failing {'clause' if number == 1 else 'clauses'}"
        hangs = HANGS if score.hangs >= HANGS else MOST_HANGS if score.is_given_up else 0
        return f"dropped after {hangs} calls that did not return" if hangs else ""

    def _applying(self, items: Sequence[Item]) -> frozenset[str]:
        """The `must` clauses among these items that would have been put."""
        spec = self._engine.spec
        return frozenset(item.clause for item in items if clause_of(spec, item.clause).level is Level.MUST
                         and self._engine.applies(item))
