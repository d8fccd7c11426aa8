"""The catalogue as a table, for the command line and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attnspec.faults.catalogue import ALL
from attnspec.faults.fault import Fault

COLUMNS = ("name", "kind", "stage", "story", "reach", "link")


def row(fault: Fault) -> Mapping[str, str]:
    """What the table says of one fault, by column."""
    return {"name": fault.name, "kind": fault.kind.value, "stage": fault.stage.value, "story": fault.story,
            "reach": fault.reach, "link": fault.link}


def table(faults: Iterable[Fault] = ALL) -> tuple[Mapping[str, str], ...]:
    """One row a fault, in the order of the stages."""
    return tuple(row(fault) for fault in faults)
