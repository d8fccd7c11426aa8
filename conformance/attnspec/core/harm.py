"""What a finding does to whoever uses the library."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


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
