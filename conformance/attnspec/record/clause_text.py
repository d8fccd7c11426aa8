"""A clause in words, with what it cites. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from attnspec.core.nouns import Level


@dataclass(frozen=True, slots=True)
class QuotedSource:
    """A citation with its source: `cite` is the source's key, `at` a section or heading of it, `url` a foreign text.

    translation: the quote in English, where it is in another language.
    """

    cite: str = ""
    at: str = ""
    quote: str = ""
    note: str = ""
    title: str = ""
    url: str = ""
    translation: str = ""


@dataclass(frozen=True, slots=True)
class ClauseText:
    """A clause in words. An older or a foreign record may leave out all but its id.

    needs: keywords that the subject must take.  problem: the named problem.  refuted_by: faults that must violate it.
    where: the file and line of its YAML.
    """

    id: str
    theme: str = ""
    level: Level = Level.MUST
    profile: str = ""
    says: str = ""
    formula: str = ""
    because: tuple[QuotedSource, ...] = ()
    needs: tuple[str, ...] = ()
    problem: str = ""
    refuted_by: tuple[str, ...] = ()
    note: str = ""
    where: str = ""
