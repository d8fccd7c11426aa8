"""Recorded runs: what a run writes down today, and the pages that records of then make.

The files of `old/` are records as this version wrote them, or cut-outs of those in `reports/`. They stay as they are: a
later version has to read them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from golden.stored import FOLDER, Json

OLD = FOLDER / "old"
CHECKOUT = FOLDER.parents[2]

RUNS: Mapping[str, str] = {
    "judged": "check numpy/msa fault/layer_value_bias_twice --effort glance --dtype float32 --dtype float16 "
              "--clause causal.* --clause layers.definition --clause layers.biases --clause attention.definition -n 1",
    "diagnosed": "check fault/layer_value_bias_twice --effort quick --dtype float32 --clause layers.biases -n 1",
    "seeded": "check numpy/attention fault/softcap_twice --seed 7 --effort glance --dtype float32 "
              "--clause window.* --clause softcap.* -n 1",
    "probed": "probe numpy/attention --dtype float32 -n 1",
}
"""By name, a command that leaves a record. Efforts and clauses are such that Hypothesis draws nothing (it draws from
the literals of the code, too): a glance tries the cases that are dealt, and the diagnosed one fails on the first.
"""

OF_ATTNSPEC = {"power", "campaign"}
"""The old records that measure attnspec itself, and of which `evaluation` makes the page."""

CASE = "B1,H1,Hkv1,T2,S2,D2,Dv2;mask=none;families=integers;seed=3"
EXITS: tuple[str, ...] = (
    "--version", "list", "list clauses --json", "list faults", "list nothing", "nonsense",
    "check", "check --efort quick numpy/msa",
    "check numpy/atention", "check numpy/msa --clause causal.nothing", "check numpy/msa --profile nothing",
    "check none.py:attend", "explain causal.no_lookahead", "explain causal.nothing", "lint", "smoke numpy/attention",
    f"replay 'numpy/attention attention.definition float32 {CASE}'",
    f"replay 'fault/scale_none attention.definition float32 {CASE}'",
    f"replay 'numpy/attention attention.definition float32 {CASE};seed=4'",
    "report none.jsonl", "combine none.jsonl", "confirm --baseline none.yaml", "power --effort nothing",
    "init none.py:attend",
)
"""Commands whose exit code is stored."""

_TIMES = {"seconds", "started", "finished"}
_OF_THE_MACHINE = {"environment", "spec_digest", "version", "spec_version"}
_HIDDEN = {"script", "style"}


def run(words: list[str], folder: Path, program: str = "attnspec") -> int:
    """The exit code of a command that is run in a folder."""
    # where no attnspec is installed but this checkout's, a command in another folder finds it by the path alone
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, "-m", program, *words], cwd=folder, capture_output=True, check=False,
                          env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})
    return done.returncode


def record(name: str, folder: Path) -> tuple[int, str]:
    """The exit code of one of RUNS, and its record as text."""
    code = run([*RUNS[name].split(), "--record", f"{name}.jsonl"], folder)
    return code, (folder / f"{name}.jsonl").read_text(encoding="utf-8")


def normalised(text: str) -> list[Json]:
    """The events of a record, without what differs from run to run and from machine to machine."""
    return [_event(json.loads(line)) for line in text.splitlines()]


def _event(event: Json) -> Json:
    if "clauses" in event:  # their text is the spec's, and may change with it
        event["clauses"] = [{"id": clause["id"], "fields": sorted(clause)} for clause in event["clauses"]]
    plain = _without_times(event)
    assert isinstance(plain, dict)
    return plain


def _without_times(value: Any) -> Any:  # noqa: ANN401  (whatever JSON holds)
    if isinstance(value, list):
        return [_without_times(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: type(inner).__name__ if name in _TIMES else sorted(inner) if name in {"environment", "lives_in"} else
            "" if name in _OF_THE_MACHINE else _without_times(inner) for name, inner in value.items()}


def page(record: Path, folder: Path) -> list[str]:
    """What the page of a record says, line by line."""
    html = folder / "page.html"
    program = "evaluation" if record.stem in OF_ATTNSPEC else "attnspec"
    code = run(["report", str(record), "--html", str(html)], folder, program)
    assert code == 0, f"{program} report {record.name} ends with exit code {code}"
    reader = _Text()
    reader.feed(html.read_text(encoding="utf-8"))
    return list(reader.lines())


class _Text(HTMLParser):
    """What a reader of a page sees, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden = tag
        self._parts += [f"\n[{value}]" for name, value in attrs if name in {"href", "id"}]

    def handle_endtag(self, tag: str) -> None:
        self._hidden = "" if tag == self._hidden else self._hidden
        self._parts.append("\n" if tag in {"p", "tr", "li", "div", "h1", "h2", "h3", "section", "summary"} else " ")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def lines(self) -> Iterator[str]:
        """The lines that are not empty, their spaces made one."""
        for line in "".join(self._parts).split("\n"):
            if plain := re.sub(r"\s+", " ", line).strip():
                yield plain
