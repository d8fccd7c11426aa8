"""In the controller: a worker that shows no sign of life is ended, so that its item is repeated by another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnspec.runner.traces import end_worker, silent

SILENCE = 60.0
"""Seconds without a sign of life after which a worker is taken for stopped. A sign comes every second."""

LOOK = 2.0
"""Seconds between two looks."""


@contextmanager
def watching(folder: Path) -> Iterator[None]:
    """Look after the workers that leave their signs in this folder."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(folder: Path, over: threading.Event) -> None:
    looked = time.monotonic()
    while not over.wait(LOOK):
        slept, looked = time.monotonic() - looked > SILENCE / 2, time.monotonic()
        if slept:  # the whole machine was stopped, workers and all
            continue
        for worker in silent(folder, looked, SILENCE):
            end_worker(folder, worker)
