"""A failure that is known of a subject, and listed in its manifest or in a baseline."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnspec.core.errors import FileLocation
from attnspec.core.nouns import DType


@dataclass(frozen=True, slots=True)
class Deviation:
    """A known deviation: the clause, how it fails, why, and the version until which it stands.

    issue: the public thread.  script: a file in the library's folder that shows it without attnspec. One is given.
    Of a baseline, `until` is empty and `script` is the baseline itself.  how: as `Outcome.failure_kind`; empty: in any
    way.  case: the recipe of a case on which it fails.  finding: the id of the finding that explains it.
    """

    clause: str
    verdict: str
    reason: str
    issue: str
    until: str
    dtypes: tuple[DType, ...] = ()
    where: FileLocation = field(default=FileLocation(""), compare=False)
    script: str = ""
    how: str = ""
    case: str = ""
    finding: str = ""

    @property
    def proof(self) -> str:
        """The thread, or else the script."""
        return ", ".join(filter(None, (self.finding, self.issue or self.script)))

    @property
    def failure(self) -> str:
        """The verdict, and how it comes to it where that is known: `violated (agrees_with_definition)`."""
        return f"{self.verdict} ({self.how})" if self.how else self.verdict

    @property
    def listing(self) -> str:
        """Says where a deviation is listed and for how long, and so what its listing proves."""
        return f"{self.proof}, until {self.until}" if self.until else self.proof

    @property
    def remedy(self) -> str:
        """Says what to do where a deviation is not as listed."""
        return "correct the manifest" if self.until else "if that is intended, run with --update-baseline"
