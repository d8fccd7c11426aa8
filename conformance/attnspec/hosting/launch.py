"""Makes the command, environment, program text and shared memory with which a host starts.

The program is sent as text, so that attnspec need not be installed where it runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attnspec.core.errors import TargetError
from attnspec.core.surroundings import ONE_THREAD, XLA_ONE_THREAD, HostLanguage, Surroundings
from attnspec.host.frames import ROOM_BYTES

_HOST_FOLDER = Path(__file__).parents[1] / "host"
_SEPARATE_FILES = ("main.py", "supervisor.py")
READY_MARK = b"\x01READY\n"
"""What the far end says once it can be handed the program; a greeting may come before it."""

SHARED_DEVICE: Mapping[str, str] = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Several processes use one GPU, and the first of JAX would take three quarters of its memory."""

_LINE_BY_LINE = ("-ISqi",)
_CLIENT_COMMANDS = ("docker", "podman", "nerdctl", "kubectl", "ssh", "wsl")
"""Commands whose processes are children of somebody else, on this machine or on another."""

_REVEALING_PREFIXES = ("PYTEST_", "HYPOTHESIS_", "ATTNSPEC_", "COV_", "COVERAGE_", "TOX_", "_PYTEST")
"""How variables begin that would tell a subject that it is judged."""

POISON_BYTE = "1"
"""glibc fills what it hands out with this byte's complement: -1.7e38, in float16 NaN, never 0."""

KEPT_HEAP: Mapping[str, str] = {"MALLOC_MMAP_THRESHOLD_": str(2**25),
                                "MALLOC_TRIM_THRESHOLD_": str(2**26)}
"""glibc keeps so many freed bytes: fresh pages for each call cost more than many calls."""


def first_line(count: int) -> bytes:
    """Makes the line by which an interpreter announces itself and runs exactly so many bytes."""
    exact = "io.BufferedReader(io.FileIO(0,'rb',False),1)"
    return (f"import io,os,sys;_=os.write(1,{READY_MARK!r});sys.ps1=sys.ps2='';exec(compile({exact}.read({count}),"
            "'program','exec'))\n").encode()


def program_text(surroundings: Surroundings, shared: int = -1) -> bytes:
    """Makes the program of supervisor, host and settings. shared: the descriptor of shared memory;
    -1 for none.
    """
    settings: dict[str, Any] = {"without": _REVEALING_PREFIXES, "memory": surroundings.memory,
                                "shared": shared}
    files: Mapping[str, str] = {}
    if surroundings.speaks is HostLanguage.PYTHON:
        files = _host_files()
        folder = str(Path.cwd()) if surroundings.is_here else ""
        settings.update(environment=_host_environment(surroundings), folder=folder)
    else:
        settings.update(environment=dict(surroundings.environment), command=surroundings.command)
    supervisor = (_HOST_FOLDER / "supervisor.py").read_text(encoding="utf-8")
    calls = f"\nmain(json.loads({json.dumps(json.dumps(files))}), json.loads({json.dumps(json.dumps(settings))}))"
    # an interactive interpreter would wait for more after an error, such as a file that cannot be
    # written
    guarded = f"\ntry:{calls.replace(chr(10), chr(10) + '    ')}\nexcept Exception as problem:\n    _give_up(problem)"
    return f"{supervisor}{guarded}\nos._exit(0)\n".encode()


@cache
def _host_files() -> Mapping[str, str]:
    """Reads the text of each file of the host, by the name that it has there."""
    inside = {
        f"_serve/{path.relative_to(_HOST_FOLDER).as_posix()}": path.read_text(encoding="utf-8")
        for path in sorted(_HOST_FOLDER.rglob("*.py")) if path.name not in _SEPARATE_FILES}
    return {"main.py": (_HOST_FOLDER / "main.py").read_text(encoding="utf-8"), **inside}


def _host_environment(surroundings: Surroundings) -> dict[str, str]:
    variables = surroundings.environment
    own = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"), "MALLOC_PERTURB_": POISON_BYTE,
           **KEPT_HEAP, **ONE_THREAD, **SHARED_DEVICE, **variables}
    before = os.environ.get("XLA_FLAGS", "") if surroundings.is_here else ""
    # of flags, the user's, the subject's and ours stand side by side, each once
    flags = " ".join((before, variables.get("XLA_FLAGS", ""), XLA_ONE_THREAD)).split()
    return {**own, "XLA_FLAGS": " ".join(dict.fromkeys(flags))}


def process_environment(surroundings: Surroundings) -> dict[str, str] | None:
    """Makes the variables of a program that speaks the protocol; None for Python. Python inherits
    this process's variables, and its supervisor changes them.
    """
    if surroundings.speaks is HostLanguage.PYTHON:
        return None
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(_REVEALING_PREFIXES)}
    return {**inherited, **surroundings.environment}


def is_handed_a_program(surroundings: Surroundings) -> bool:
    """Whether the process that is started is an interpreter that reads the supervisor first.

    That holds for Python, and for any program whose memory is limited. Other programs that speak
    the protocol run without a supervisor.
    """
    return surroundings.speaks is HostLanguage.PYTHON or surroundings.memory > 0


def start_command(surroundings: Surroundings) -> tuple[str, ...]:
    """Makes the command line that starts a host.

    An interpreter gets flags that isolate it and let it read its program line by line. Raises
    TargetError for a memory limit that nobody here can enforce.
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


def shared_memory(surroundings: Surroundings) -> int:
    """Opens a descriptor of memory of fixed size; -1 where no memory can be shared."""
    # only Linux has memory of a fixed size
    if not surroundings.is_quick or not hasattr(os, "memfd_create"):
        return -1
    with contextlib.suppress(OSError):
        descriptor = os.memfd_create("memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, 2 * ROOM_BYTES)
        # who reads memory that has been cut off is ended by SIGBUS
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS,
                    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return descriptor
    return -1
