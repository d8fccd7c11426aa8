"""Write anew what is stored. From the root of the checkout, and with the versions of constraints.txt:

    PYTHONPATH=conformance:conformance/tests OMP_NUM_THREADS=1 python -m golden.record                 # all, in minutes
    PYTHONPATH=conformance:conformance/tests OMP_NUM_THREADS=1 python -m golden.record cases bounds    # only these

What is written anew is no longer held to what it was. So do it only where a change is meant (a new clause, other cases,
a tighter bound), read the diff, and say in the commit what changed and why. `old` is not written with the others: these
are records as an earlier version wrote them, which every later version must read.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from golden import adapter, records, stored
from golden.stored import Json


def _runs(folder: Path) -> Json:
    found: Json = {}
    for name in records.RUNS:
        code, text = records.record(name, folder)
        found[name] = {"exit code": code, "events": records.normalised(text)}
    return {"machine": stored.machine(), "runs": found}


def _pages(folder: Path) -> Json:
    return {path.name: records.page(path, folder) for path in sorted(records.OLD.glob("*.jsonl"))}


def _exits(folder: Path) -> Json:
    return {command: records.run(shlex.split(command), folder) for command in records.EXITS}


def _old(folder: Path) -> Json:
    records.OLD.mkdir(exist_ok=True)
    for name in records.RUNS:
        (records.OLD / f"{name}.jsonl").write_text(records.record(name, folder)[1], encoding="utf-8")
    return {}


WRITERS: Mapping[str, Callable[[Path], Json]] = {
    "cases": lambda _: stored.cases(), "draws": lambda _: stored.draws(), "bounds": lambda _: stored.bounds(),
    "ids": lambda _: stored.ids(), "commands": lambda _: dict(adapter.commands()), "exits": _exits, "runs": _runs,
    "pages": _pages}
"""By the name of the file in this folder, what is written into it."""


def main(names: list[str]) -> None:
    """Write the named files, or all but the old records."""
    for name in names or WRITERS:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            if name == "old":
                _old(Path(folder))
            else:
                stored.write(f"{name}.json", WRITERS[name](Path(folder)))
        sys.stdout.write(f"{name}: {time.perf_counter() - start:.0f} s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
