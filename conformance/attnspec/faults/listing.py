"""The catalogue as a table, for the command line and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attnspec.faults.catalogue import ALL
from attnspec.faults.fault import Fault
from attnspec.faults.mechanisms import BUGS, faults_of, outside

COLUMNS = ("name", "kind", "stage", "story", "reach", "link")


def row(fault: Fault) -> Mapping[str, str]:
    """What the table says of one fault, by column."""
    return {"name": fault.name, "kind": fault.kind.value, "stage": fault.stage.value, "story": fault.story,
            "reach": fault.reach, "link": fault.link}


def table(faults: Iterable[Fault] = ALL) -> tuple[Mapping[str, str], ...]:
    """One row a fault, in the order of the stages."""
    return tuple(row(fault) for fault in faults)


def mechanisms() -> str:
    """The classes of real mistakes as a table in Markdown: threads, faults that make them, and why some have none."""
    head = ["| mechanism | what happened to whom | faults that make it | left out |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(_cells(mechanism))} |" for mechanism in sorted(BUGS))])


def _cells(mechanism: str) -> Iterable[str]:
    yield mechanism
    yield ", ".join(f"[{_short(thread)}]({thread})" for thread in BUGS[mechanism])
    yield ", ".join(f"`{fault}`" for fault in faults_of(mechanism)) or "none"
    yield "; ".join(reason.value for reason in outside(mechanism)) or "nothing"


def _short(thread: str) -> str:
    """The library and the number: `onnx 7118` of https://github.com/onnx/onnx/issues/7118."""
    *_, library, _, number = thread.split("/")
    return f"{library} {number}"
