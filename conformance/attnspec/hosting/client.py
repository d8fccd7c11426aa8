"""Talks to a host, the process of an implementation, from the side of the judge.

It loads functions in the host, calls them there, and loads them anew when the host has died. A
process keeps one host for each subject that it judges, and ends the hosts used longest ago when
there are too many.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from attnspec.core.errors import TargetError
from attnspec.core.nouns import Verdict
from attnspec.core.surroundings import HostLanguage, Surroundings
from attnspec.host.frames import (
    NO_ROOMS,
    READ_AHEAD_BYTES,
    BrokenFrame,
    Entries,
    Header,
    Incoming,
    map_rooms,
    pack_frame,
    receive_frame,
    send_frame,
)
from attnspec.host.serving import PROTOCOL_VERSION
from attnspec.host.supervisor import END_MARK
from attnspec.hosting.launch import (
    READY_MARK,
    first_line,
    is_handed_a_program,
    process_environment,
    program_text,
    shared_memory,
    start_command,
)

START_SECONDS = 120.0
"""Seconds until a process says that it is there: a container may have to be fetched."""

LAST_WORDS_SECONDS = 3.0
"""Seconds that the far end may take to tell how it ended."""

NO_ANSWER = "what came back is not an answer"

DIED_REASON = "the process died while the implementation ran"

LAST_PRINTED = 4000
"""Bytes of what a program without a supervisor printed on stderr, told once it has died."""

_PIPE_BYTES = 2**20
"""Bytes that a pipe holds; what Linux allows everybody."""

_HOST_FRAME = re.compile(r'^Extension modules:|File "[^"]*/(_serve/[^"]*|main\.py)"')


@dataclass(frozen=True, slots=True)
class ProcessDeath:
    """Says how a process ended. traceback: where its threads stood.  printed: its last output."""

    verdict: Verdict
    reason: str
    traceback: str = ""
    printed: str = ""


class HostDied(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """The process ended, or was ended, before it had answered."""

    def __init__(self, death: ProcessDeath) -> None:
        super().__init__(death.reason)
        self.death = death


class _DeadlinePassed(Exception):  # noqa: N818  (it becomes a death)
    """The deadline has passed."""


class _NobodyReads(Exception):  # noqa: N818  (it becomes a death)
    """The other end of a pipe is closed."""


@contextlib.contextmanager
def _raising_death(died: Callable[..., ProcessDeath]) -> Iterator[None]:
    """Raises HostDied for whatever goes wrong with a request inside, and ends the process."""
    try:
        yield
    except _DeadlinePassed:
        raise HostDied(died(Verdict.TIMED_OUT)) from None
    except _NobodyReads:
        raise HostDied(died(Verdict.CRASHED)) from None
    except BrokenFrame as wrong:
        raise HostDied(died(Verdict.CRASHED, f"{NO_ANSWER}: {wrong}")) from None


class HostProcess:
    """Starts the process, exchanges frames with it before deadlines, and ends it. Raises
    TargetError where the process cannot be started.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process lives)
        shared = shared_memory(surroundings)
        self._offered, self._rooms = map_rooms(shared) if shared >= 0 else NO_ROOMS, NO_ROOMS
        command = start_command(surroundings)
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                start_new_session=True, env=process_environment(surroundings),
                cwd=surroundings.folder or None, pass_fds=[shared] if shared >= 0 else [])
        except OSError as cause:
            raise TargetError(
                f"{surroundings.command_text} cannot be started: {cause.strerror}.") from None
        finally:
            if shared >= 0:
                os.close(shared)
        assert self._process.stdin is not None  # both are pipes
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._requests, self._answers):
            os.set_blocking(descriptor, False)
            # Linux knows this, and may forbid it
            with contextlib.suppress(OSError, AttributeError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._readable = _poll_descriptor(self._answers, select.POLLIN)
        self._writable = _poll_descriptor(self._requests, select.POLLOUT)
        self._pid, self._number, self._ahead = 0, 0, memoryview(bytearray(READ_AHEAD_BYTES))
        if is_handed_a_program(surroundings):
            self._hand_over(shared, time.monotonic() + START_SECONDS)

    def _hand_over(self, shared: int, until: float) -> None:
        text = program_text(self._surroundings, shared)
        try:
            self._write([first_line(len(text))], until)
            greeting, byte = b"", bytearray(1)
            while not greeting.endswith(READY_MARK):
                self._fill(memoryview(byte), until)
                greeting += byte
            # what it printed before it was ready
            os.ftruncate(self._stderr.fileno(), os.lseek(self._stderr.fileno(), 0, os.SEEK_SET))
            self._write([text], until)
        except (_DeadlinePassed, _NobodyReads):
            printed = self._end_of_stderr()
            self.close()
            command = self._surroundings.command_text
            raise TargetError(
                f"{command} starts no Python: {printed or 'it says nothing'}") from None

    def ask(self, header: Header, arrays: Sequence[Entries] = (), *, until: float) -> None:
        """Sends a request with these arrays, any shape, before a time. Raises HostDied."""
        with _raising_death(self._end_with_death):
            self._number += 1
            self._write(pack_frame({**header, "number": self._number}, arrays,
                                   self._rooms.requests), until)

    def answer(self, *, until: float, most: int) -> tuple[Header, list[Entries]]:
        """Reads the answer; its arrays, any shape, take `most` bytes. Raises HostDied."""
        with _raising_death(self._end_with_death):
            header, arrays = receive_frame(
                Incoming(lambda view: self._fill(view, until), self._ahead, most=most,
                         room=self._rooms.answers, memory=partial(np.empty, dtype=np.uint8)))
            default = self._number if self._surroundings.speaks is HostLanguage.PROTOCOL else None
            if (number := header.get("number", default)) != self._number:
                # something in that process has written an answer of its own
                raise BrokenFrame(
                    f"it answers request {str(number)[:20]}, but request {self._number} was sent")
            return header, arrays

    def _write(self, parts: Sequence[Any], until: float) -> None:
        def write(buffers: list[Any]) -> int:
            while True:
                try:
                    return os.writev(self._requests, buffers)
                except BlockingIOError:
                    _wait_until(self._writable, until)
                except OSError:
                    raise _NobodyReads from None

        send_frame(parts, write)

    def _fill(self, view: memoryview, until: float) -> int:
        """Reads as much as there is, as soon as something is there."""
        while True:
            _wait_until(self._readable, until)
            try:
                count = os.readv(self._answers, [view])
            except BlockingIOError:
                continue
            except OSError:
                raise _NobodyReads from None
            if not count:
                raise _NobodyReads
            return count

    def remember_host(self, about: Header) -> None:
        """Notes the process id of the host, and whether it shares memory. The id serves to end the
        host if its supervisor has been ended.
        """
        pid = about.get("pid")
        self._pid = pid if isinstance(pid, int) else 0
        self._rooms = self._offered if about.get("shared") is True else NO_ROOMS

    def _end_with_death(self, verdict: Verdict, why: str = "") -> ProcessDeath:
        self.close()
        words = self._last_words()
        reason = why or _death_reason(verdict, words, self._surroundings)
        trace = str(words.get("trace", ""))
        # it was told to say where it stands, which reads like a crash
        if verdict is Verdict.TIMED_OUT:
            trace = trace.removeprefix("Fatal Python error: Aborted").lstrip()
        return ProcessDeath(verdict, reason, _without_host_frames(trace),
                            str(words.get("printed", "")))

    def _last_words(self) -> dict[str, Any]:
        lines = [line for line in self._end_of_stderr(2**17).splitlines()
                 if line.startswith(END_MARK)]
        with contextlib.suppress(ValueError, IndexError):
            words = json.loads(lines[-1].removeprefix(END_MARK))
            if isinstance(words, dict):
                return {
                    "printed": self._end_of_stderr(LAST_PRINTED).partition(END_MARK)[0].strip(),
                    **words}
        # nobody stands beside it: it was our own child
        if not is_handed_a_program(self._surroundings):
            return {"status": self._process.returncode,
                    "printed": self._end_of_stderr(LAST_PRINTED)}
        if self._pid and self._surroundings.is_here:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        return {"printed": self._end_of_stderr(LAST_PRINTED)}

    def _end_of_stderr(self, most: int = 600) -> str:
        """Reads the end of what came on the other side's stderr."""
        size = os.lseek(self._stderr.fileno(), 0, os.SEEK_END)
        return os.pread(self._stderr.fileno(), most,
                        max(0, size - most)).decode(errors="replace").strip()

    def close(self) -> None:
        """Closes the pipes, at which the far end stops, and ends the process if it does not."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            self._process.wait(LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _without_host_frames(trace: str) -> str:
    """Removes the host's own frames from the stacks of its threads."""
    return "\n".join(line for line in trace.splitlines() if not _HOST_FRAME.search(line)).strip()


def _poll_descriptor(descriptor: int, event: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, event)
    return poll


def _wait_until(poll: select.poll, until: float) -> None:
    """Waits for data. Data that is already there is taken even after the deadline."""
    if not poll.poll(1000 * max(0.0, until - time.monotonic())):
        raise _DeadlinePassed


def _death_reason(verdict: Verdict, words: dict[str, Any], surroundings: Surroundings) -> str:
    """Says in words for a report why there was no answer."""
    if verdict is Verdict.TIMED_OUT:
        return f"the implementation had not returned after {surroundings.deadline:g} s"
    why, status = str(words.get("why") or ""), words.get("status")
    if why.startswith("memory "):
        taken = int(why.removeprefix("memory "))
        return f"the process took {taken / 2**20:.0f} MiB where {surroundings.memory / 2**20:.0f} MiB are allowed"
    return f"{DIED_REASON}{_describe_status(status)}"


def _describe_status(status: object) -> str:
    if not isinstance(status, int):
        return ""
    if status < 0:
        with contextlib.suppress(ValueError):
            return f" ({signal.Signals(-status).name})"
    return f" (exit code {status})"


MAX_HOSTS = 4
"""How many hosts a process keeps: a framework takes some hundred megabytes. One that is ended is
started again when it is asked again.
"""

_clients: OrderedDict[Hashable, Client] = OrderedDict()


def client_of(key: Hashable, make: Callable[[], Client]) -> Client:
    """Returns the client of this key, and makes it if there is none."""
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
"""Bytes of an answer without arrays; messages are bounded where they are made."""

MAX_DEATHS = 2
"""How often the same kind of call may end a host; after that it is not tried again in this run."""

MIN_CALL_SECONDS = 1.0
"""Seconds that a call always gets, even if its item's time is used up."""

GREETING_SECONDS = 60.0
"""Seconds that a host has to answer for the first time."""


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """A function in the host, and its backward pass, as the host describes them."""

    number: int
    description: Mapping[str, Any]
    versions: Mapping[str, str]
    backward: Mapping[str, Any] | None = None


class NotLoadedThere(Exception):  # noqa: N818  (it becomes an error with words)
    """The host could not load a target. details: the host's reason."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        super().__init__(str(details.get("kind", "")))
        self.details = details


class Client:
    """Represents one host, started when it is first needed. about: what the host said of itself.
    life: the number of the process that answers; each death increases it.
    """

    def __init__(self, surroundings: Surroundings, *, path: Sequence[str] = (),
                 adapters: Sequence[str] = (),
                 files: Mapping[str, str] = MappingProxyType({})) -> None:
        self.surroundings = surroundings
        self.about: Mapping[str, Any] = {}
        self._hello: Header = {"do": "hello", "path": list(path), "adapters": list(adapters),
                               "files": dict(files)}
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
        self._is_at_work = False

    def begin_item(self) -> None:
        """Starts the deadline anew."""
        self._spent_seconds = 0.0

    def load(self, header: Mapping[str, Any]) -> LoadedFunction:
        """Loads a function. Raises NotLoadedThere, TargetError, HostDied at its import."""
        self._loads.append({"do": "load", **header})
        number = len(self._loads) - 1
        answer = self._load(number)
        return LoadedFunction(number, answer["described"], answer.get("versions") or {},
                              answer.get("backward"))

    def _load(self, number: int) -> Header:
        answer, _ = self._exchange(self._loads[number], (), is_call=False)
        if "not_loaded" in answer:
            raise NotLoadedThere(answer["not_loaded"])
        if not {"handle", "described"} <= set(answer):
            raise TargetError(
                "the host's answer to 'load' must have the fields 'handle' and 'described' "
                "(docs/protocol.md).")
        self._handles[number] = answer["handle"]
        return answer

    def lift(self, name: str) -> Header:
        """Says what the framework does there, on these surroundings' device. Raises HostDied."""
        self._lift = {"do": "lift", "lift": name, "device": self.surroundings.device}
        if name not in self._lift_answers:
            self._lift_answers[name] = self._exchange(self._lift, (), is_call=False)[0]
        return self._lift_answers[name]

    def request(self, header: Header, arrays: Sequence[Entries] = (), *,
                most: int = MAX_PLAIN_BYTES,
                kind: Hashable = None) -> tuple[Header, list[Entries]]:
        """Sends a request and returns the answer.

        most: bytes that the arrays of the answer, any shape, may take.  kind: the kind of call.

        Raises HostDied; at once for a kind that has ended MAX_DEATHS hosts.
        """
        if kind and self._deaths[kind] >= MAX_DEATHS:
            raise HostDied(self._last[kind])
        try:
            if "of" in header:
                number = header["of"]
                if self._process is None:
                    self._start()
                if number not in self._handles:
                    self._load(number)
                    if self._lift:  # its import is no part of the call either
                        self._exchange(self._lift, (), is_call=False)
                header = {**header, "of": self._handles[number]}
            return self._exchange(header, arrays, most=most)
        except NotLoadedThere as cause:
            again = f"the process had ended, and the function could not be loaded again ({cause})"
            raise HostDied(ProcessDeath(Verdict.CRASHED, again)) from None
        except HostDied as died:
            self._deaths[kind] += 1
            self._last[kind] = died.death
            raise

    def give_up(self, kind: Hashable, death: ProcessDeath) -> None:
        """Ends a host whose answer is invalid: no later answer of it could be trusted."""
        self._deaths[kind] += 1
        self._last[kind] = death
        self.close()

    def recall(self, call: int, life: int, most: int) -> list[Entries]:
        """Reads the memory of an earlier result, any shape; nothing of a dead host."""
        if self._process is None or life != self.life:
            return []
        return self.request({"do": "recall", "call": call}, most=most + MAX_PLAIN_BYTES)[1]

    def _exchange(self, header: Header, arrays: Sequence[Entries], *, most: int = MAX_PLAIN_BYTES,
                  is_call: bool = True) -> tuple[Header, list[Entries]]:
        """Sends a request and waits for the answer. is_call: whether its time counts for the item;
        an import has a deadline of its own.
        """
        assert not self._is_at_work, "an answer is still awaited"
        if self._process is None:
            self._start()
        assert self._process is not None  # it was started
        # what is worked out here meanwhile is not the host's
        began, own_seconds = time.monotonic(), 0.0
        until = began + max(MIN_CALL_SECONDS,
                            self.surroundings.deadline - self._spent_seconds * is_call)
        try:
            self._process.ask(header, arrays, until=until)
            if (piece := next(self.work, None)) is not None:
                piece_began, self._is_at_work = time.monotonic(), True
                with contextlib.suppress(Exception):  # whoever needs it works it out then
                    piece()
                own_seconds, self._is_at_work = time.monotonic() - piece_began, False
            answer, answer_arrays = self._process.answer(until=until + own_seconds,
                                                         most=most + MAX_PLAIN_BYTES)
        except HostDied:
            self._process = None
            raise
        finally:
            self._spent_seconds += (time.monotonic() - began - own_seconds) * is_call
        # files were sent to a folder there; their paths are as they are here
        if folder := str(self.about.get("handed") or ""):
            answer = json.loads(json.dumps(answer).replace(f"{folder}/", ""))
        if "error" in answer:
            raise TargetError(f"the host answers: {answer['error']}")
        return answer, answer_arrays

    def begin(self) -> None:
        """Starts the host without waiting for it. The first request raises what is wrong."""
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
            self.about, _ = process.answer(until=time.monotonic() + GREETING_SECONDS,
                                           most=MAX_PLAIN_BYTES)
        except HostDied as died:
            raise TargetError(_explain_no_start(died.death, self.surroundings)) from None
        self._process = process
        if self.about.get("version") != PROTOCOL_VERSION:
            raise TargetError(f"the host speaks version {self.about.get('version')} of the protocol; this attnspec "
                              f"speaks version {PROTOCOL_VERSION}.")
        self._process.remember_host(dict(self.about))

    def cpu_seconds(self) -> float:
        """Returns the processor seconds of the host, 0 once it has ended. Where they cannot be
        seen, it returns the time of a clock. Only a difference means something.
        """
        pid = self.about.get("pid")
        if not self.surroundings.is_here or not isinstance(pid, int):
            return time.monotonic()
        if self._process:
            return processor_seconds(pid)
        return 0.0

    def close(self) -> None:
        """Ends the host; another request starts it anew."""
        for process in (self._process, self._starting_process):
            if process is not None:
                process.close()
        self._process = self._starting_process = None


def _explain_no_start(death: ProcessDeath, surroundings: Surroundings) -> str:
    """Says why a host cannot begin, and what to do."""
    command = " ".join(surroundings.command) or sys.executable
    if "No module named 'numpy'" in death.printed:
        return f"the environment of {command!r} has no NumPy, which the process needs: install it there."
    lines = death.printed.strip().splitlines()
    reason = death.reason
    if lines and not reason.startswith(NO_ANSWER):
        reason = lines[-1]
    return f"{command!r} starts no process that answers: {reason}"


def import_folders() -> list[str]:
    """Lists the folders from which this process, and so a host of it, imports."""
    return [str(Path(entry or ".").absolute()) for entry in sys.path]


__all__ = ["Client", "HostDied", "LoadedFunction", "NotLoadedThere", "Verdict", "import_folders"]


_USER, _SYSTEM = 11, 12
"""Where the ticks stand behind the name of a process in its `stat` (proc(5))."""

_HAS_PROC = Path("/proc/self/stat").is_file()


def processor_seconds(pid: int) -> float:
    """Returns the processor seconds of all threads of a process, 0 once it has ended. Where the
    system does not say them, it returns the time of a clock.
    """
    if not _HAS_PROC:
        return time.monotonic()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii",
                                                     errors="replace").rpartition(")")[2].split()
        return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
