"""A failure that is known of a subject, listed in its manifest or in a baseline, and the harm that a finding does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

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


# What a finding does to whoever uses the library


class Harm(Enum):
    """Gravest first: silently wrong answers at everyday settings, what is loud or rare, and last what is documented."""

    FOREIGN_MEMORY = "foreign_memory"
    FOREIGN_ENTRY = "foreign_entry"
    FUTURE = "future"
    MASK_DROPPED = "mask_dropped"
    WRONG_ANSWER = "wrong_answer"
    SWITCH = "switch"
    REFUSED = "refused"
    EDGE = "edge"
    ROUNDING = "rounding"
    EXTREME = "extreme"
    DOCUMENTED_CHOICE = "documented_choice"

    @property
    def rank(self) -> int:
        """The rank of a harm: 0 is the gravest."""
        return tuple(Harm).index(self)

    @property
    def is_serious(self) -> bool:
        """Whether the harm is a silently wrong answer at everyday settings."""
        return self.rank <= Harm.WRONG_ANSWER.rank

    @property
    def says(self) -> str:
        """The harm in a few words."""
        return _SAYS[self]


_SAYS: Mapping[Harm, str] = {
    Harm.FOREIGN_MEMORY: "reads memory that was never written, or that is not part of the arrays",
    Harm.FOREIGN_ENTRY: "mixes up batch entries",
    Harm.FUTURE: "a query sees later keys",
    Harm.MASK_DROPPED: "a mask or a bias is dropped or misread",
    Harm.WRONG_ANSWER: "silently wrong in another way at everyday settings",
    Harm.SWITCH: "a switch that should not matter changes the answer",
    Harm.REFUSED: "an ordinary call raises",
    Harm.EDGE: "an edge case (no key to attend to, NaN in a masked key or value, T ≠ S)",
    Harm.ROUNDING: "rounding errors are larger than they should be",
    Harm.EXTREME: "wrong at extremes of a dtype or of a scale",
    Harm.DOCUMENTED_CHOICE: "a documented choice",
}
