"""Which cluster is meant: a scheduler that somebody started, or workers that are started here for this run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attnspec.core.errors import UsageError

MOST_WORKERS = 1024
FORMS = "Write tcp://HOST:PORT for a scheduler that runs, or local:4 to start four workers here."


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A scheduler's address, or, where that is empty, how many workers are to be started on this machine."""

    scheduler: str = ""
    workers: int = 0

    def __str__(self) -> str:
        return self.scheduler or f"local:{self.workers}"


def read_address(text: str) -> ClusterAddress:
    """The address of a text. Raises UsageError for what is none."""
    if found := re.fullmatch(r"local:(\d{1,5})", text):
        workers = int(found[1])
        if not 1 <= workers <= MOST_WORKERS:
            raise UsageError(f"{text} starts {workers:,} workers. Start at least 1 and at most {MOST_WORKERS:,}.")
        return ClusterAddress(workers=workers)
    port = re.fullmatch(r"(?:tcp|tls)://(?:[^\s/:\[\]]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})", text)
    if not port or not 1 <= int(port[1]) <= 65_535:
        raise UsageError(f"{text!r} is no address of a cluster. {FORMS}")
    return ClusterAddress(scheduler=text)
