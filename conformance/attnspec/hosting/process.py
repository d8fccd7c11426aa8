"""A process at the other end of a pipe: frames go there and come back before a deadline, or it is ended.

It runs the host's program, which is sent there as one text, so that nothing of attnspec has to be where it runs.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from attnspec.core.errors import TargetError
from attnspec.core.nouns import Verdict
from attnspec.core.surroundings import HostLanguage, Surroundings
from attnspec.host.frames import (
    NO_ROOMS,
    READ_AHEAD_BYTES,
    ROOM_BYTES,
    BrokenFrame,
    Entries,
    Header,
    Incoming,
    map_rooms,
    pack_frame,
    receive_frame,
    send_frame,
)
from attnspec.host.supervisor import END_MARK

_HOST_FOLDER = Path(__file__).parents[1] / "host"
_SEPARATE_FILES = ("main.py", "supervisor.py")
READY_MARK = b"\x01READY\n"
"""What the far end says once it can be handed the program; a greeting may come before it."""

ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
     "BLIS_NUM_THREADS"), "1")
"""One thread a process: workers share the cores already, and the number of threads changes the order of summation."""

XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
SHARED_DEVICE: Mapping[str, str] = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Several processes use one GPU, and the first of JAX would take three quarters of its memory."""

_LINE_BY_LINE = ("-ISqi",)
_CLIENT_COMMANDS = ("docker", "podman", "nerdctl", "kubectl", "ssh", "wsl")
"""Commands whose processes are children of somebody else, on this machine or on another."""

_TELLING_PREFIXES = ("PYTEST_", "HYPOTHESIS_", "ATTNSPEC_", "COV_", "COVERAGE_", "TOX_", "_PYTEST")
"""How variables begin that would tell a subject that it is judged."""

POISON_BYTE = "1"
"""glibc fills what it hands out with the complement of this byte: as float32 -1.7e38, as float16 NaN, never 0."""

KEPT_HEAP: Mapping[str, str] = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**26)}
"""glibc keeps so many bytes of what is freed: fresh pages for each call cost more than many a call itself."""


def first_line(count: int) -> bytes:
    """What an interactive interpreter is told first: to say that it is there, and to run so many bytes, none more."""
    exact = "io.BufferedReader(io.FileIO(0,'rb',False),1)"
    return (f"import io,os,sys;_=os.write(1,{READY_MARK!r});sys.ps1=sys.ps2='';exec(compile({exact}.read({count}),"
            "'program','exec'))\n").encode()


def program_text(surroundings: Surroundings, shared: int = -1) -> bytes:
    """The supervisor, the files of the host, and what it is to set. shared: a descriptor of memory; -1 for none."""
    settings: dict[str, Any] = {"without": _TELLING_PREFIXES, "memory": surroundings.memory, "shared": shared}
    if surroundings.speaks is HostLanguage.PYTHON:
        files, folder = _host_files(), str(Path.cwd()) if surroundings.is_here else ""
        settings.update(environment=_host_environment(surroundings), folder=folder)
    else:
        files = {}
        settings.update(environment=dict(surroundings.environment), command=surroundings.command)
    supervisor = (_HOST_FOLDER / "supervisor.py").read_text(encoding="utf-8")
    calls = f"\nmain(json.loads({json.dumps(json.dumps(files))}), json.loads({json.dumps(json.dumps(settings))}))"
    # an interactive interpreter would wait for more after an error, such as a file that cannot be written
    guarded = f"\ntry:{calls.replace(chr(10), chr(10) + '    ')}\nexcept Exception as problem:\n    _give_up(problem)"
    return f"{supervisor}{guarded}\nos._exit(0)\n".encode()


@cache
def _host_files() -> Mapping[str, str]:
    """By the name that each file has there, its text."""
    inside = {f"_serve/{path.relative_to(_HOST_FOLDER).as_posix()}": path.read_text(encoding="utf-8")
              for path in sorted(_HOST_FOLDER.rglob("*.py")) if path.name not in _SEPARATE_FILES}
    return {"main.py": (_HOST_FOLDER / "main.py").read_text(encoding="utf-8"), **inside}


def _host_environment(surroundings: Surroundings) -> dict[str, str]:
    given = surroundings.environment
    own = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"), "MALLOC_PERTURB_": POISON_BYTE, **KEPT_HEAP,
           **ONE_THREAD, **SHARED_DEVICE, **given}
    before = os.environ.get("XLA_FLAGS", "") if surroundings.is_here else ""
    # of flags, the user's, the subject's and ours stand side by side, each once
    flags = " ".join((before, given.get("XLA_FLAGS", ""), XLA_ONE_THREAD)).split()
    return {**own, "XLA_FLAGS": " ".join(dict.fromkeys(flags))}


def process_environment(surroundings: Surroundings) -> dict[str, str] | None:
    """What a program that speaks the protocol is born into. None: Python inherits all, and is told the rest."""
    if surroundings.speaks is HostLanguage.PYTHON:
        return None
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_TELLING_PREFIXES)}
    return {**inherited, **surroundings.environment}


def is_handed_a_program(surroundings: Surroundings) -> bool:
    """Whether what is started is an interpreter that waits for its program: the supervisor, and the host if that is
    Python. A program that speaks the protocol needs no supervisor unless its memory is limited.
    """
    return surroundings.speaks is HostLanguage.PYTHON or surroundings.memory > 0


def start_command(surroundings: Surroundings) -> tuple[str, ...]:
    """The command line that starts a host; of an interpreter with flags that isolate it and let it take its program
    line by line.

    Raises TargetError for a limit on memory that nobody here can watch.
    """
    if not is_handed_a_program(surroundings):
        return surroundings.command
    if surroundings.speaks is HostLanguage.PYTHON:
        return (*(surroundings.command or (sys.executable,)), *_LINE_BY_LINE)
    if (name := Path(surroundings.command[0]).stem) in _CLIENT_COMMANDS:
        raise TargetError(f"--memory cannot be kept for {' '.join(surroundings.command)!r}: what {name} starts is no "
                          "process that can be watched from here. Limit the memory there, as `docker run --memory` "
                          "does, and leave --memory out.")
    return (sys.executable, *_LINE_BY_LINE)


START_SECONDS = 120.0
"""Seconds that a process may take before it says that it is there: a container may have to be fetched."""

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
    """How a process ended. traceback: where its threads stood.  printed: the end of what it printed."""

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
    """Nobody is at the other end."""


@contextlib.contextmanager
def _telling_death(died: Callable[..., ProcessDeath]) -> Iterator[None]:
    """Whatever goes wrong with a request inside ends the process, and is told as its death."""
    try:
        yield
    except _DeadlinePassed:
        raise HostDied(died(Verdict.TIMED_OUT)) from None
    except _NobodyReads:
        raise HostDied(died(Verdict.CRASHED)) from None
    except BrokenFrame as wrong:
        raise HostDied(died(Verdict.CRASHED, f"{NO_ANSWER}: {wrong}")) from None


class HostProcess:
    """The process, from its start to its end. Raises TargetError where it cannot be started."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process lives)
        shared = shared_memory(surroundings)
        self._offered, self._rooms = map_rooms(shared) if shared >= 0 else NO_ROOMS, NO_ROOMS
        command = start_command(surroundings)
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self._stderr, start_new_session=True,
                                             env=process_environment(surroundings),
                                             cwd=surroundings.folder or None, pass_fds=[shared] if shared >= 0 else [])
        except OSError as cause:
            raise TargetError(f"{surroundings.command_text} cannot be started: {cause.strerror}.") from None
        finally:
            if shared >= 0:
                os.close(shared)
        assert self._process.stdin is not None  # both are pipes
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._requests, self._answers):
            os.set_blocking(descriptor, False)
            with contextlib.suppress(OSError, AttributeError):  # Linux knows this, and may forbid it
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
            said, byte = b"", bytearray(1)
            while not said.endswith(READY_MARK):
                said += byte if self._fill(memoryview(byte), until) else b""
            os.ftruncate(self._stderr.fileno(), os.lseek(self._stderr.fileno(), 0, os.SEEK_SET))  # its greeting
            self._write([text], until)
        except (_DeadlinePassed, _NobodyReads):
            told = self._end_of_stderr()
            self.close()
            command = self._surroundings.command_text
            raise TargetError(f"{command} starts no Python: {told or 'it says nothing'}") from None

    def ask(self, header: Header, arrays: Sequence[Entries] = (), *, until: float) -> None:
        """Put a request with these arrays, any shape, before that time (monotonic). Raises HostDied."""
        with _telling_death(self._end_with_death):
            self._number += 1
            self._write(pack_frame({**header, "number": self._number}, arrays, self._rooms.requests), until)

    def answer(self, *, until: float, most: int) -> tuple[Header, list[Entries]]:
        """The answer to the last request; its arrays, any shape, take `most` bytes. Raises HostDied."""
        with _telling_death(self._end_with_death):
            told, found = receive_frame(Incoming(lambda view: self._fill(view, until), self._ahead, most=most,
                                                 room=self._rooms.answers, memory=partial(np.empty, dtype=np.uint8)))
            unsaid = self._number if self._surroundings.speaks is HostLanguage.PROTOCOL else None
            if (said := told.get("number", unsaid)) != self._number:
                # something in that process has written an answer of its own
                raise BrokenFrame(f"it answers request {str(said)[:20]}, but request {self._number} was sent")
            return told, found

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
        """Read as much as is there, as soon as something is."""
        while True:
            _wait_until(self._readable, until)
            try:
                got = os.readv(self._answers, [view])
            except BlockingIOError:
                continue
            except OSError:
                raise _NobodyReads from None
            if not got:
                raise _NobodyReads
            return got

    def remember_host(self, about: Header) -> None:
        """Remember what the host said of itself: its process, to end it should its supervisor have been ended, and
        whether it shares memory.
        """
        pid = about.get("pid")
        self._pid = pid if isinstance(pid, int) else 0
        self._rooms = self._offered if about.get("shared") is True else NO_ROOMS

    def _end_with_death(self, verdict: Verdict, why: str = "") -> ProcessDeath:
        self.close()
        words = self._last_words()
        reason = why or _death_reason(verdict, words, self._surroundings)
        trace = str(words.get("trace", ""))
        if verdict is Verdict.TIMED_OUT:  # it was told to say where it stands, which reads like a crash
            trace = trace.removeprefix("Fatal Python error: Aborted").lstrip()
        return ProcessDeath(verdict, reason, _without_host_frames(trace), str(words.get("printed", "")))

    def _last_words(self) -> dict[str, Any]:
        lines = [line for line in self._end_of_stderr(2**17).splitlines() if line.startswith(END_MARK)]
        with contextlib.suppress(ValueError, IndexError):
            words = json.loads(lines[-1].removeprefix(END_MARK))
            if isinstance(words, dict):
                return {"printed": self._end_of_stderr(LAST_PRINTED).partition(END_MARK)[0].strip(), **words}
        if not is_handed_a_program(self._surroundings):  # nobody stands beside it: it was our own child
            return {"status": self._process.returncode, "printed": self._end_of_stderr(LAST_PRINTED)}
        if self._pid and self._surroundings.is_here:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        return {"printed": self._end_of_stderr(LAST_PRINTED)}

    def _end_of_stderr(self, most: int = 600) -> str:
        """The end of what came on the other side's stderr."""
        size = os.lseek(self._stderr.fileno(), 0, os.SEEK_END)
        return os.pread(self._stderr.fileno(), most, max(0, size - most)).decode(errors="replace").strip()

    def close(self) -> None:
        """Ends the process: whoever is at the other end notices that the pipe is closed."""
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
    """Where the threads of the subject stood, without the frames that are the host's."""
    return "\n".join(line for line in trace.splitlines() if not _HOST_FRAME.search(line)).strip()


def _poll_descriptor(descriptor: int, event: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, event)
    return poll


def _wait_until(poll: select.poll, until: float) -> None:
    """What is there already is taken though it is late."""
    if not poll.poll(1000 * max(0.0, until - time.monotonic())):
        raise _DeadlinePassed


def _death_reason(verdict: Verdict, words: dict[str, Any], surroundings: Surroundings) -> str:
    """Why there was no answer, in words for a report."""
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


# The memory that is shared with a host on this machine


def shared_memory(surroundings: Surroundings) -> int:
    """A descriptor of new memory, whose size nobody can change; -1 where no memory can be shared."""
    if not surroundings.is_quick or not hasattr(os, "memfd_create"):  # only Linux has memory of a fixed size
        return -1
    with contextlib.suppress(OSError):
        descriptor = os.memfd_create("memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, 2 * ROOM_BYTES)
        # who reads memory that has been cut off is ended by SIGBUS
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return descriptor
    return -1
