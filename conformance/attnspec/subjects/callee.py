"""Calls functions: in a process of their own, or in the judge's process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from attnspec.core.errors import TargetError, UsageError
from attnspec.core.nouns import DType, Verdict
from attnspec.core.paths import portable_text
from attnspec.core.surroundings import HostLanguage
from attnspec.host import calling
from attnspec.host.calling import NO_GRADIENT, NOT_MADE, NOT_REACHED, CallEnding
from attnspec.host.frames import FLOATS, Entries, same_bits
from attnspec.host.lifts import LIFTS, plain
from attnspec.host.serving import lift_named
from attnspec.hosting.client import NO_ANSWER, Client, HostDied, ProcessDeath
from attnspec.problems.problem import Array
from attnspec.subjects.call import (
    Call,
    ReturnedTree,
    SubjectAnswer,
    SubjectDied,
    array_of,
    entries_of,
    private_copy,
    read_answer,
    read_raised,
    read_tree,
)
from attnspec.subjects.exceptions import not_ended


class Callee(Protocol):
    """Answers calls."""

    @property
    def place(self) -> Mapping[str, str]:
        """Returns what a record says of the process in which it lives."""

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """Returns the answer; with gradients of the sum of these rows of the output, (T,) bool.
        Raises SubjectRaised, SubjectDied or UnusableAnswer.
        """

    def meanwhile(self, work: Iterable[Callable[[], object]]) -> AbstractContextManager[None]:
        """Lets each call, while the context is open, do a piece of the work as it waits."""

    def find_flushing_operation(self, dtype: DType) -> str:
        """Returns the operation in which its framework flushes subnormals, or ""."""

    def why_not_taken(self, dtype: DType) -> str:
        """Says why arrays of a dtype cannot be handed over; empty if they can."""

    def begin_item(self) -> None:
        """Gives the calls from here on a whole deadline."""

    def cpu_seconds(self) -> float:
        """Returns seconds of processors where it lives; only a difference means something."""

    def forget(self) -> None:
        """Frees what was kept of the calls so far."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """A function in a process of its own.  framework: what the lift said there."""

    client: Client
    number: int
    lift: str = ""
    framework: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def place(self) -> Mapping[str, str]:
        """Returns interpreter, NumPy and device, what the framework says, and what started it."""
        there, host = self.client.surroundings, self.client.about
        place = {name: str(host[name]) for name in ("python", "numpy") if name in host}
        place["device"] = str(self.framework.get("device", "cpu"))
        place |= self.framework.get("about", {})
        if there.command and there.speaks is HostLanguage.PYTHON:
            place["interpreter" if there.is_here else "host"] = portable_text(there.command[0])
        return place

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """Returns the answer of the process; rows (T,) bool."""
        arrays, told, found = self._exchange(call, rows)
        try:
            ended, changed = _read_call_end(told, found, call, arrays)
        except _NoAnswer as broken:
            raise SubjectDied(self._make_end(call, broken)) from None
        # no more than these is held by the answer: the arrays of the call can go
        number, most = int(str(told["call"])), call.most_bytes
        client, life = self.client, self.client.life

        def now() -> Array | None:
            """Returns what that memory holds now, (B,H,T,Dv) or (B,T,M)."""
            kept = client.recall(number, life, most)
            return array_of(kept[0]) if kept else None

        return read_answer(ended, call, changed, now)

    def call_whole(self, call: Call) -> ReturnedTree:
        """Returns all that comes back, part by part. Raises SubjectRaised, SubjectDied."""
        _, told, found = self._exchange(call, None)
        try:
            if told["ended"] == "raised":
                raise read_raised(told["told"], str(told["said"]))
            return read_tree(told["told"], found)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
            raise SubjectDied(self._make_end(call, wrong)) from None

    def _exchange(self, call: Call, rows: Array | None) -> tuple[
            Sequence[Array], Mapping[str, Any], list[Entries]]:
        """Returns given arrays, of any shape, and what returns; rows (T,). Raises SubjectDied."""
        given = list(call.named_arrays.values())
        if rows is not None:
            given.append(rows)
        # the same array twice is sent once
        arrays = list({id(array): array for array in given}.values())
        places = {id(array): at for at, array in enumerate(arrays)}
        header = {"do": "call", "of": self.number, "lift": self.lift,
                  "device": self.client.surroundings.device,
                  "inputs": [places[id(each)] for each in call.arrays.values()],
                  "keywords": _keywords_as_json(call.keywords, places), "dtype": call.dtype.value,
                  "shapes": call.shapes}
        if rows is not None:
            header["rows"] = places[id(rows)]
        if call.wrt:
            header |= {"wrt": call.wrt, "backward": call.is_backward}
        if call.form:
            header["form"] = call.form._asdict()
        try:
            return arrays, *self.client.request(header, [entries_of(each) for each in arrays],
                                                most=call.most_bytes, kind=self._find_kind(call))
        except HostDied as died:
            raise SubjectDied(died.death) from None

    @contextlib.contextmanager
    def meanwhile(self, work: Iterable[Callable[[], object]]) -> Iterator[None]:
        """Hands the work to the client; a piece that raises, or finds no call, is left undone."""
        self.client.work = iter(work)
        try:
            yield
        finally:
            self.client.work = iter(())

    def _find_kind(self, call: Call) -> Hashable:
        """Returns what calls have in common that end a host alike."""
        shapes = (array.shape for array in call.arrays.values())
        return self.number, call.dtype, call.form, frozenset(call.keywords), *shapes

    def _make_end(self, call: Call, why: Exception) -> ProcessDeath:
        """Makes the end of a host whose answer cannot be read."""
        death = ProcessDeath(Verdict.CRASHED, f"{NO_ANSWER}: {why}")
        self.client.give_up(self._find_kind(call), death)
        return death

    def find_flushing_operation(self, dtype: DType) -> str:
        """Returns what the lift said."""
        return self.framework.get("flushed", {}).get(dtype.value, "")

    def why_not_taken(self, dtype: DType) -> str:
        """Returns what the lift said."""
        return self.framework.get("not_taken", {}).get(dtype.value, "")

    def begin_item(self) -> None:
        """Resets the client's clock."""
        self.client.begin_item()

    def cpu_seconds(self) -> float:
        """Asks the client."""
        return self.client.cpu_seconds()

    def forget(self) -> None:
        """Ends the process and all that it kept."""
        self.client.close()


def hosted_function(client: Client, number: int, lift: str) -> Hosted:
    """Makes a callee of a loaded function, with its lift on its device. Raises TargetError."""
    device, framework = client.surroundings.device, lift or "NumPy"
    try:
        told = client.lift(lift)
    except HostDied as died:
        ended = not_ended(f"trying {framework}", died.death, client.surroundings.deadline)
        raise TargetError(ended) from None
    if "no_lift" in told:
        raise TargetError(f"the lift {lift!r} needs {lift}, which cannot be imported "
                          f"({told['no_lift']}). Install it: pip install {lift}")
    if "no_device" in told:
        raise TargetError(f"there is no device {device!r} for {framework} here; there is "
                          f"{told['no_device']}.")
    if "unusable" in told:
        where = device or "its device"
        raise TargetError(f"nothing can be computed with {framework} on {where}: "
                          f"{told['unusable']}.")
    if not all(isinstance(told.get(each), Mapping) for each in ("not_taken", "flushed")):
        raise TargetError("the host's answer to 'lift' must have the fields 'not_taken' and "
                          "'flushed' (docs/protocol.md).")
    return Hosted(client, number, lift, told)


class _NoAnswer(Exception):  # noqa: N818  (it becomes a death)
    """Raised when what came back is no answer."""


def check_lift(name: str) -> None:
    """Raises UsageError, with the nearest name, for a lift that does not exist."""
    if name and name not in LIFTS:
        raise UsageError.unknown("lift", name, LIFTS)


def _keywords_as_json(value: object, places: Mapping[int, int]) -> object:
    """Returns keywords as JSON has them; places: of arrays, by their ids."""
    if isinstance(value, np.ndarray):
        return {"$array": places[id(value)]}
    if isinstance(value, Mapping):
        return {name: _keywords_as_json(inner, places) for name, inner in value.items()}
    plain = value.item() if isinstance(value, np.generic) else value
    return {"$float": str(plain)} if isinstance(plain, float) and plain - plain != 0 else plain


def _read_call_end(told: Mapping[str, Any], found: Sequence[Entries], call: Call,
                   arrays: Sequence[Array]) -> tuple[CallEnding, frozenset[int]]:
    """Reads how the call ended, and which given arrays changed. Raises _NoAnswer for all else."""
    try:
        results = found[: int(told["results"])]
        gradients = [each.array for each in found[len(results):]]
        _ = int(str(told["call"]))
        due: list[tuple[int, ...]] = []
        if told["ended"] == "answered":
            due = [tuple(shape) for shape in call.shapes]
        has_floats = all(each.dtype in FLOATS for each in results)
        if not has_floats or [each.array.shape for each in results] != due:
            raise ValueError("the arrays are not those that were expected")
        has_gradients = told["has_gradients"] is True
        shapes = [array.shape for array in call.arrays.values()] if has_gradients else []
        is_wide = all(each.dtype == "float64" for each in gradients)
        if not is_wide or [each.shape for each in gradients] != shapes:
            raise ValueError("the gradients are not those that were expected")
        _check_words(told["ended"], told["told"], call)
        aliases: list[int] = []
        if shared := {id(arrays[int(at)]) for at in told["aliases"]}:
            named = enumerate(call.named_arrays.values())
            aliases = [at for at, array in named if id(array) in shared]
        ended = CallEnding(told["ended"], results, (), gradients, has_gradients, aliases,
                           dict(told["told"]), str(told["said"]))
        return ended, frozenset(id(arrays[int(at)]) for at in told["changed"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise _NoAnswer(str(wrong)) from None


_TEXT_FIELDS: Mapping[object, Sequence[str]] = {
    "answered": (), "raised": ("summary", "traceback", "statement"),
    "unusable": ("named", "name", "reading")}


_NO_PLACE = frozenset({"the pair", "the mapping", NO_GRADIENT, NOT_MADE, NOT_REACHED})
"""Names of what came back that stand for no array of the answer."""


def _check_words(ended: object, words: Mapping[str, Any], call: Call) -> None:
    """Raises KeyError, TypeError, ValueError or IndexError for words that end no call."""
    texts = _TEXT_FIELDS.get(ended)
    if texts is None or any(type(words[name]) is not str for name in texts):
        raise ValueError(f"no call ends so: {str(ended)[:20]!r}")
    if ended == "raised":
        _ = [str(each) for each in words["classes"]]
        _, _, line = words.get("by") or ("", "", 0)
        _ = int(line)
    if ended == "unusable" and words["name"] not in _NO_PLACE:
        _ = call.shapes[words["at"]]


@dataclass(frozen=True, slots=True)
class InProcess:
    """A function of this process, as attnspec's own faults and what a test file hands over. lift:
    "" is NumPy.  backward: its backward pass, if it has one.
    """

    function: Callable[..., object]
    lift: str = ""
    backward: Callable[..., object] | None = None

    @property
    def place(self) -> Mapping[str, str]:
        """Describes the judge's own process."""
        return {"process": "the judge's own: nothing keeps the two apart"}

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """Returns the answer to private copies; rows (T,) bool."""
        arrays = list({id(array): array for array in call.named_arrays.values()}.values())
        copies = {id(array): private_copy(array) for array in arrays}
        kept = {at: entries_of(copy) for at, copy in copies.items()}
        function = self.backward if call.is_backward and self.backward else self.function
        ended = calling.perform(function, lift_named(self.lift), call.arguments(kept, rows),
                                caught=(Exception, SystemExit))  # an interruption is the user's
        changed = {id(array) for array in arrays if not same_bits(array, copies[id(array)])}
        own = ended.own
        return read_answer(ended, call, changed, lambda: array_of(own[0]) if own else None)

    def meanwhile(self, work: Iterable[Callable[[], object]]) -> AbstractContextManager[None]:
        """Does nothing: the answer is computed here."""
        del work
        return contextlib.nullcontext()

    def find_flushing_operation(self, dtype: DType) -> str:
        """Returns what the framework does here."""
        return plain.find_flushing_operation(lift_named(self.lift), dtype.value) if self.lift else ""

    def why_not_taken(self, dtype: DType) -> str:  # noqa: ARG002  (the protocol's)
        """Returns "": attnspec's own process can hold every dtype."""
        return ""

    def begin_item(self) -> None:
        """Does nothing: the worker's guard measures."""

    def cpu_seconds(self) -> float:
        """Returns the seconds of this process."""
        return time.process_time()

    def forget(self) -> None:
        """Frees programs that the framework compiled."""
        lift_named(self.lift).forget()
