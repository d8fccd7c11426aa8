"""A function that is called in the judge's own process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from attnspec.core.nouns import DType
from attnspec.host import calling
from attnspec.host.frames import same_bits
from attnspec.host.lifts import flushing
from attnspec.host.serving import lift_named
from attnspec.problems.problem import Array
from attnspec.subjects.call import Call, SubjectAnswer, answer_of, array_of, entries_of, private_copy, unique


@dataclass(frozen=True, slots=True)
class InProcess:
    """A function of this process: attnspec's own miniatures, and what a test file hands over. lift: "" is NumPy.

    backward: its backward pass, if it has one.
    """

    function: Callable[..., object]
    lift: str = ""
    backward: Callable[..., object] | None = None

    @property
    def place(self) -> Mapping[str, str]:
        """The judge's own."""
        return {"process": "the judge's own: nothing keeps the two apart"}

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """The answer to private copies; rows (T,) bool."""
        arrays = unique(list(call.named.values()))
        copies = {id(array): private_copy(array) for array in arrays}
        kept = {at: entries_of(copy) for at, copy in copies.items()}
        function = self.backward if call.is_backward and self.backward else self.function
        ended = calling.perform(function, lift_named(self.lift), call.arguments(kept, rows),
                                caught=(Exception, SystemExit))  # an interruption is the user's
        changed = {id(array) for array in arrays if not same_bits(array, copies[id(array)])}
        return answer_of(ended, call, changed, lambda: array_of(ended.own[0]) if ended.own else None)

    def meanwhile(self, work: Iterable[Callable[[], object]]) -> AbstractContextManager[None]:  # noqa: ARG002  (see above)
        """Nothing is done meanwhile: the answer is worked out here."""
        return contextlib.nullcontext()

    def flushed(self, dtype: DType) -> str:
        """What the framework does here."""
        return flushing.flushed_by(lift_named(self.lift), dtype.value) if self.lift else ""

    def not_taken(self, dtype: DType) -> str:  # noqa: ARG002  (the protocol's)
        """Attnspec's own process can hold every dtype."""
        return ""

    def begin_item(self) -> None:
        """Nobody measures: the guard of the worker does."""

    def cpu_seconds(self) -> float:
        """Those of this process."""
        return time.process_time()

    def forget(self) -> None:
        """Programs that the framework compiled."""
        lift_named(self.lift).forget()
