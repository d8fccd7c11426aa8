"""What subjects were found to do: their conventions side by side, and what their hidden switches change."""

from __future__ import annotations

from dataclasses import dataclass

from attnspec.report.audit.customs import Column, Customs, columns, customs
from attnspec.report.audit.switches import Switches, switches
from attnspec.report.figures import counted
from attnspec.report.joined import Joined


@dataclass(frozen=True, slots=True)
class Habits:
    """Conventions, the columns that hold any (with their places), and switches."""

    customs: tuple[Customs, ...]
    columns: tuple[tuple[int, Column], ...]
    switches: tuple[Switches, ...]

    @property
    def title(self) -> tuple[str, str]:
        """The sentence over a page that holds nothing else, and its colour."""
        whom = self.customs[0].subject.label if len(self.customs) == 1 else counted(len(self.customs), "implementation")
        against = sum(len(row.contradictions) for row in self.customs)
        if against:
            return f"{whom} probed: {counted(against, 'answer')} against the manifest", "bad"
        return f"{whom} probed: no answer against the manifest", "good"


def habits(joined: Joined) -> Habits:
    """Look at what was declared and probed."""
    rows = customs(joined)
    return Habits(rows, columns(rows), switches(joined))
