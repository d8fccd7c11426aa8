"""Folders that last as long as their process: those of a process that was killed are removed by the next that starts.

Whoever makes such a folder keeps a lock on a file in it. The kernel gives the lock back when the process ends, however
it ends, so that a lock that is free tells a folder that nobody needs. The number of a process would not: containers
share a folder of temporary files, and count their processes each.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

_PREFIX = "attnspec-scratch-"
_LOCK = "in_use"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new empty folder but for its lock, which is removed at the end. Raises OSError where none can be made."""
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with _hold_lock(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    with (folder / f"{_LOCK}.new").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.replace(lock.name, folder / _LOCK)  # it bears its name once it is held: nobody finds it free before
        yield


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), path.open(encoding="utf-8") as lock:  # another user's, or one that is just going
            if _is_free(lock):
                shutil.rmtree(path.parent, ignore_errors=True)


def _is_free(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
