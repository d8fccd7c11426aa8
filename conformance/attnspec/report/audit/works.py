"""The works that clauses cite, each told once, with its address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attnspec.record.clause_text import ClauseText, QuotedSource


@dataclass(frozen=True, slots=True)
class CitedWork:
    """A work that a clause cites. `url` is a foreign text."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Works:
    """The works in the order in which they are first cited."""

    all: tuple[CitedWork, ...]

    def anchor(self, quoted: QuotedSource) -> str:
        """Where the page tells of the work of a citation."""
        return f"work-{self.all.index(_work(quoted))}"


def cited_works(clauses: Iterable[ClauseText]) -> Works:
    """Those of all clauses."""
    return Works(tuple(dict.fromkeys(_work(quoted) for clause in clauses for quoted in clause.because)))


def _work(quoted: QuotedSource) -> CitedWork:
    return CitedWork(quoted.title or quoted.cite, quoted.url)
