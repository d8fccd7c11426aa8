"""The judge's side of one host: functions are loaded there and called there, and loaded anew when the host has died.

A process keeps one host for each subject that it judges, and ends those whose place others have taken.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attnspec.core.errors import TargetError
from attnspec.core.nouns import Verdict
from attnspec.core.surroundings import Surroundings
from attnspec.host.frames import Entries, Header
from attnspec.host.serving import PROTOCOL_VERSION
from attnspec.hosting.process import NO_ANSWER, HostDied, HostProcess, ProcessDeath

MAX_HOSTS = 4
"""How many hosts a process keeps: a framework takes some hundred megabytes. One that is ended is started again when it
is asked again."""

_clients: OrderedDict[Hashable, Client] = OrderedDict()


def client_of(key: Hashable, make: Callable[[], Client]) -> Client:
    """The client that was made for this key, or a new one."""
    if key not in _clients:
        _clients[key] = make()
    _clients.move_to_end(key)
    while len(_clients) > MAX_HOSTS:
        _clients.popitem(last=False)[1].close()
    return _clients[key]


@atexit.register
def close_all() -> None:
    """Ends every host of this process."""
    while _clients:
        _clients.popitem()[1].close()


MAX_PLAIN_BYTES = 2**20
"""Bytes that an answer without arrays may take; messages and tracebacks are bounded where they are made."""

MAX_DEATHS = 2
"""How often the same kind of call may end a host; after that it is not tried again in this run."""

MIN_CALL_SECONDS = 1.0
"""Seconds that a call always gets, though the calls before it took all that their item may take."""

GREETING_SECONDS = 60.0
"""Seconds that a host has to answer for the first time."""


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """A function in the host: by which number, and what the host tells of it, and of a backward pass beside it."""

    number: int
    description: Mapping[str, Any]
    versions: Mapping[str, str]
    backward: Mapping[str, Any] | None = None


class NotLoadedThere(Exception):  # noqa: N818  (it becomes an error with words)
    """The host says why a target cannot be had."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(str(told.get("kind", "")))
        self.details = told


class Client:
    """One host, started when it is first needed. about: what it said of itself.  life: the number of the process that
    answers, another one after each death.
    """

    def __init__(self, surroundings: Surroundings, *, path: Sequence[str] = (), adapters: Sequence[str] = (),
                 files: Mapping[str, str] = MappingProxyType({})) -> None:
        self.surroundings = surroundings
        self.about: Mapping[str, Any] = {}
        self._hello: Header = {"do": "hello", "path": list(path), "adapters": list(adapters), "files": dict(files)}
        self._process: HostProcess | None = None
        self._starting_process: HostProcess | None = None  # one that has not answered yet
        self._loads: list[Header] = []
        self._handles: dict[int, int] = {}
        self._deaths: Counter[Hashable] = Counter()
        self._last: dict[Hashable, ProcessDeath] = {}
        self._spent_seconds = 0.0
        self.life = 0
        self._lift: Header = {}
        self._lift_answers: dict[str, Header] = {}
        self.work: Iterator[Callable[[], object]] = iter(())
        """Each call does one piece of it, which asks no host, while the host computes."""
        self._own_seconds, self._is_at_work = 0.0, False

    def begin_item(self) -> None:
        """From now on calls have the whole deadline again."""
        self._spent_seconds = 0.0

    def _work_on(self) -> float:
        """Do a piece of the work; the seconds that it took, which are not the host's."""
        if (piece := next(self.work, None)) is None:
            return 0.0
        began, self._is_at_work = time.monotonic(), True
        with contextlib.suppress(Exception):  # whoever needs it does it then
            piece()
        self._own_seconds, self._is_at_work = time.monotonic() - began, False
        return self._own_seconds

    def load(self, header: Mapping[str, Any]) -> LoadedFunction:
        """Load a function. Raises NotLoadedThere; HostDied where the import ends the process; TargetError."""
        self._loads.append({"do": "load", **header})
        number = len(self._loads) - 1
        told = self._load(number)
        return LoadedFunction(number, told["described"], told.get("versions") or {}, told.get("backward"))

    def _load(self, number: int) -> Header:
        told, _ = self._exchange(self._loads[number], (), is_call=False)
        if "not_loaded" in told:
            raise NotLoadedThere(told["not_loaded"])
        if not {"handle", "described"} <= set(told):
            raise TargetError("the host's answer to 'load' must have the fields 'handle' and 'described' "
                              "(docs/protocol.md).")
        self._handles[number] = told["handle"]
        return told

    def lift(self, name: str) -> Header:
        """What the framework does there, on the device of these surroundings: asked once. Raises HostDied."""
        self._lift = {"do": "lift", "lift": name, "device": self.surroundings.device}
        if name not in self._lift_answers:
            self._lift_answers[name] = self._exchange(self._lift, (), is_call=False)[0]
        return self._lift_answers[name]

    def request(self, header: Header, arrays: Sequence[Entries] = (), *, most: int = MAX_PLAIN_BYTES,
                kind: Hashable = None,) -> tuple[Header, list[Entries]]:
        """Ask. `most`: bytes that the arrays of the answer, any shape, may take.  kind: what must not kill too often.

        Raises HostDied, at once where this kind of call has ended hosts before.
        """
        if kind and self._deaths[kind] >= MAX_DEATHS:
            raise HostDied(self._last[kind])
        try:
            if "of" in header:
                header = {**header, "of": self._current_handle(header["of"])}
            return self._exchange(header, arrays, most=most)
        except NotLoadedThere as cause:
            again = f"the process had ended, and the function could not be loaded again ({cause})"
            raise HostDied(ProcessDeath(Verdict.CRASHED, again)) from None
        except HostDied as died:
            self._deaths[kind] += 1
            self._last[kind] = died.death
            raise

    def give_up(self, kind: Hashable, death: ProcessDeath) -> None:
        """End a host whose answer to this kind of call is none: what it writes from now on cannot be told apart."""
        self._deaths[kind] += 1
        self._last[kind] = death
        self.close()

    def recall(self, call: int, life: int, most: int) -> list[Entries]:
        """What the memory of an earlier result holds now, any shape; nothing where the host has died meanwhile."""
        if self._process is None or life != self.life:
            return []
        return self.request({"do": "recall", "call": call}, most=most + MAX_PLAIN_BYTES)[1]

    def _current_handle(self, number: int) -> int:
        if self._process is None:
            self._start()
        if number not in self._handles:
            self._load(number)
            if self._lift:  # its import is no part of the call either
                self._exchange(self._lift, (), is_call=False)
        return self._handles[number]

    def _exchange(self, header: Header, arrays: Sequence[Entries], *, most: int = MAX_PLAIN_BYTES,
                  is_call: bool = True) -> tuple[Header, list[Entries]]:
        """is_call: whether its time is the item's; an import has a deadline to itself."""
        assert not self._is_at_work, "an answer is still awaited"
        if self._process is None:
            self._start()
        assert self._process is not None  # it was started
        began, self._own_seconds = time.monotonic(), 0.0
        try:
            seconds = max(MIN_CALL_SECONDS, self.surroundings.deadline - self._spent_seconds * is_call)
            self._process.ask(header, arrays, until=began + seconds)
            until = began + seconds + self._work_on()
            told, found = self._process.answer(until=until, most=most + MAX_PLAIN_BYTES)
        except HostDied:
            self._process = None
            raise
        finally:
            self._spent_seconds += (time.monotonic() - began - self._own_seconds) * is_call
        if handed := str(self.about.get("handed") or ""):  # places are told as they are here
            told = json.loads(json.dumps(told).replace(f"{handed}/", ""))
        if "error" in told:
            raise TargetError(f"the host answers: {told['error']}")
        return told, found

    def begin(self) -> None:
        """Start the host, and do not wait for it. Whoever asks it first hears what is wrong."""
        if self._process is None and self._starting_process is None and self.surroundings.is_quick:
            with contextlib.suppress(TargetError, HostDied):
                self._starting_process = self._open_process()

    def _open_process(self) -> HostProcess:
        process = HostProcess(self.surroundings)
        process.ask(self._hello, until=time.monotonic() + GREETING_SECONDS)
        return process

    def _start(self) -> None:
        self._handles, self.life = {}, self.life + 1
        try:
            process, self._starting_process = self._starting_process or self._open_process(), None
            self.about, _ = process.answer(until=time.monotonic() + GREETING_SECONDS, most=MAX_PLAIN_BYTES)
        except HostDied as died:
            raise TargetError(_explain_no_start(died.death, self.surroundings)) from None
        self._process = process
        if self.about.get("version") != PROTOCOL_VERSION:
            raise TargetError(f"the host speaks version {self.about.get('version')} of the protocol; this attnspec "
                              f"speaks version {PROTOCOL_VERSION}.")
        self._process.remember_host(dict(self.about))

    def cpu_seconds(self) -> float:
        """Seconds that processors have worked in the host, 0 once it has ended; by the clock where that cannot be seen.
        Only a difference means something.
        """
        pid = self.about.get("pid")
        if not self.surroundings.is_here or not isinstance(pid, int):
            return time.monotonic()
        return processor_seconds(pid) if self._process else 0.0

    def close(self) -> None:
        """Ends the host; it is started anew if it is asked again."""
        for process in (self._process, self._starting_process):
            if process is not None:
                process.close()
        self._process = self._starting_process = None


def _explain_no_start(death: ProcessDeath, surroundings: Surroundings) -> str:
    """Why a host cannot begin, and what to do."""
    command = " ".join(surroundings.command) or sys.executable
    if "No module named 'numpy'" in death.printed:
        return f"the environment of {command!r} has no NumPy, which the process needs: install it there."
    lines = death.printed.strip().splitlines()
    told = death.reason if death.reason.startswith(NO_ANSWER) or not lines else lines[-1]
    return f"{command!r} starts no process that answers: {told}"


def import_folders() -> list[str]:
    """The folders from which this process imports: what a host on this machine, with this interpreter, is told."""
    return [str(Path(entry or ".").absolute()) for entry in sys.path]


__all__ = ["Client", "HostDied", "LoadedFunction", "NotLoadedThere", "Verdict", "import_folders"]


# What processors have worked for another process


_USER, _SYSTEM = 11, 12
"""Where the ticks stand behind the name of a process in its `stat` (proc(5))."""

_HAS_PROC = Path("/proc/self/stat").is_file()


def processor_seconds(pid: int) -> float:
    """Seconds that processors have worked in all threads of a process, 0 of one that has ended; by the clock where the
    system does not tell.
    """
    if not _HAS_PROC:
        return time.monotonic()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
