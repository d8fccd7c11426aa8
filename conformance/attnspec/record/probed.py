"""What a subject was found to do where the law makes no demand, or where it asks which answer it is."""

from __future__ import annotations

from dataclasses import dataclass

from attnspec.ground.nouns import DType


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one question of a probe.

    question: its name ("hidden_row.mask").  asks: the question for a reader.  answer: a word of a closed list where
    there is one ("zeros", "top_left", "yes"), else a short text.  detail: what was seen, in one sentence with the
    numbers.  claimed: what the manifest says, empty if nothing.
    """

    question: str
    asks: str
    answer: str
    detail: str = ""
    claimed: str = ""

    @property
    def is_contradiction(self) -> bool:
        """Whether the manifest says otherwise."""
        return bool(self.claimed) and self.claimed != self.answer


@dataclass(frozen=True, slots=True)
class SubjectProbed:
    """All that was found out of a subject, or of one of its variants, at one dtype. `lost`: why nothing was."""

    subject: str
    variant: str
    dtype: DType
    found: tuple[Found, ...]
    seconds: float = 0.0
    lost: str = ""

    @property
    def part(self) -> str:
        """What of the subject this is."""
        return part_of_probe(self.variant)


def part_of_probe(variant: str = "") -> str:
    """How an item says that a subject, or a variant of it, is probed."""
    return f"probe[{variant}]" if variant else "probe"
