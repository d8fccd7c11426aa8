"""The process of a part of a run: `attnspec` as on one machine, whose lines go to a file. It ends with its worker."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from attnspec.cluster.messages import Task, TaskResult
from attnspec.core.errors import AttnspecError
from attnspec.core.files import write_whole
from attnspec.record.codec import decode, encode, to_line
from attnspec.record.events import Event, Handler, ItemStarted, RunFinished, RunStarted, SubjectCompiles
from attnspec.runner.session import Session
from attnspec.runner.shards import NamedGroups


class RecordLines(Handler):
    """A handler that keeps the lines of a record but for header and footer, which are the client's."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._began = 0.0

    def handle(self, event: Event) -> None:
        """Keep it."""
        self._began = self._began or (time.monotonic() if isinstance(event, ItemStarted) else 0.0)
        if not isinstance(event, RunStarted | RunFinished | SubjectCompiles):
            self.lines.append(to_line(event))

    @property
    def seconds(self) -> float:
        """Since the first item began."""
        return time.monotonic() - self._began if self._began else 0.0


def carried_out(task: Task) -> TaskResult:
    """What comes of the part. An interruption leaves no part: nobody waits for it."""
    kept = RecordLines()
    try:
        result = Session(task.plan, source=task.source, sharing=NamedGroups(frozenset(task.groups))).run([kept])
    except AttnspecError as problem:
        return TaskResult(wrong=str(problem))
    if result.is_interrupted:
        return TaskResult(wrong="it was interrupted.")
    return TaskResult(tuple(kept.lines), result.defects, seconds=kept.seconds)


def main() -> None:
    """Read the task from standard input, and write its part to the file that is named."""
    task = decode(Task, json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_worker, daemon=True).start()
    part = carried_out(task)
    write_whole(Path(sys.argv[2]), json.dumps(encode(part)), "part")


def _end_with_worker() -> None:
    """A worker that was killed cannot end its process; its pipe ends for it."""
    while os.read(0, 1):  # not by way of `sys.stdin`, whose lock Python wants when it ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
