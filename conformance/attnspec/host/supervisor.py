"""Starts the process of the implementation, ends it, and says how it ended.

It runs at the far end of a pipe. When the pipe closes, the process is ended, whether it handles
signals or not; one line on stderr says how.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

END_MARK = "\x01ENDED "
MAX_PRINTED = 2**26
"""Bytes that a subject may print before what it printed is thrown away."""

MAX_TOLD_CHARACTERS = 10000  # characters at the end of what was printed
# seconds between two looks at a process whose memory is limited, and at what is printed otherwise
WATCH_SECONDS = 0.05
_CHILD_SUBREAPER = 36  # of prctl, in linux/prctl.h
GRACE_SECONDS = 0.3  # seconds to end by itself, and then to say where it stands


def main(files: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Runs the process until it ends, or until the pipe closes. It runs Python with these files,
    or a command that reads stdin and writes stdout itself.
    """
    _adopt_orphans()
    folder = Path(tempfile.mkdtemp())
    try:
        child = _start_child(folder, files, settings)
        limit = int(settings.get("memory") or 0)
        why = _watch_child(child, folder, limit)
        _end_child(child, is_polite=not why, is_program="command" in settings)
        if "command" in settings:
            printed = {}
        else:
            printed = {"trace": _read_end_of_file(folder / "trace"),
                       "printed": "".join(_read_end_of_file(folder / name)
                                          for name in ("out", "err", "said"))}
        _tell_end({"status": child.returncode, "why": why, **printed})
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)


def _give_up(problem: Exception) -> None:
    """Says why nothing can be started, and ends."""
    with contextlib.suppress(OSError):
        os.write(2, "{}: {}\n".format(type(problem).__name__, problem).encode(errors="replace"))
    os._exit(1)


def _adopt_orphans() -> None:
    """Makes this process the parent of orphans that appear after their own parent is gone."""
    with contextlib.suppress(OSError, AttributeError):  # Linux alone knows this
        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def _start_child(folder: Path, files: Mapping[str, str],
                 settings: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items()
                   if not any(name.startswith(each) for each in settings.get("without", ()))}
    environment.update(settings["environment"])
    if "command" in settings:
        return subprocess.Popen(settings["command"], env=environment, start_new_session=True)
    descriptors = [os.dup(0), os.dup(1), settings["shared"]]
    passed = [each for each in descriptors if each >= 0]
    with (folder / "out").open("ab") as out, (folder / "err").open("ab") as err:
        return subprocess.Popen([sys.executable, str(folder / "main.py"), *map(str, descriptors),
                                 str(folder / "trace")], stdin=subprocess.DEVNULL, stdout=out,
                                stderr=err, pass_fds=passed, env=environment,
                                cwd=settings.get("folder") or None, start_new_session=True)


def _watch_child(child: subprocess.Popen[bytes], folder: Path, limit: int) -> str:
    """Waits until the process ends or must be ended. Returns why it must."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(0, select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0))
    poll.register(reading, select.POLLIN)
    while child.poll() is None:
        ready = dict(poll.poll(1000 * (WATCH_SECONDS if limit else 20 * WATCH_SECONDS)))
        if reading in ready:
            os.read(reading, 100)
        if 0 in ready:
            return ""
        if limit and (taken := sum(map(_resident_bytes, _processes_below(child.pid)))) > limit:
            return "memory {}".format(taken)
        _bound_printed(folder)
    return ""


def _processes_below(process: int) -> List[int]:
    processes = [process]
    for parent in processes:  # grows meanwhile
        with contextlib.suppress(OSError, ValueError):
            for task in os.listdir("/proc/{}/task".format(parent)):
                with open("/proc/{}/task/{}/children".format(parent, task)) as file:
                    processes.extend(map(int, file.read().split()))
    return processes


def _resident_bytes(process: int) -> int:
    try:
        with open("/proc/{}/statm".format(process)) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):  # gone, or no Linux
        output = b""
        if not Path("/proc/self").exists():
            output = subprocess.run(["ps", "-o", "rss=", "-p", str(process)],
                                    stdout=subprocess.PIPE, check=False).stdout
        return int(output or 0) * 1024


def _bound_printed(folder: Path) -> None:
    for name in ("out", "err", "said"):
        with contextlib.suppress(OSError):
            if (folder / name).stat().st_size > MAX_PRINTED:
                os.truncate(str(folder / name), 0)


def _end_child(child: subprocess.Popen[bytes], *, is_polite: bool, is_program: bool) -> None:
    """Waits for the process to end, asks it for its stacks, and kills it with its children."""
    family = _processes_below(child.pid)
    if is_polite:
        _wait_for_child(child, GRACE_SECONDS if is_program else GRACE_SECONDS / 3)
    if child.poll() is None and is_polite and not is_program:
        with contextlib.suppress(OSError):
            child.send_signal(signal.SIGABRT)  # Python writes down where every thread stands
        _wait_for_child(child, GRACE_SECONDS)
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for process in {*family[1:], *_processes_below(os.getpid())[1:]}:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _wait_for_child(child: subprocess.Popen[bytes], seconds: float) -> None:
    until = time.monotonic() + seconds
    while child.poll() is None and time.monotonic() < until:
        time.sleep(0.002)


def _read_end_of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - MAX_TOLD_CHARACTERS))
            return file.read(MAX_TOLD_CHARACTERS).decode(errors="replace")
    except OSError:
        return ""


def _tell_end(words: Dict[str, Optional[Any]]) -> None:
    with contextlib.suppress(OSError):
        os.write(2, ("\n" + END_MARK + json.dumps(words) + "\n").encode())
