"""Sections of the page for what a run measured in place of verdicts: a ranking, and what the suite's makers measure.

A ranking compares many kernels: the best first, and what is behind the failures of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from attnspec.core.errors import UsageError
from attnspec.core.texts import count_noun
from attnspec.record.events import KernelRanked, KernelStanding
from attnspec.record.read import RunRecord


@dataclass(frozen=True, slots=True)
class PageSection:
    """One section, drawn already.

    name: as the contents have it.  anchor: the id of its HTML.  headline, css: what it comes to, as a sentence and as
    a colour.  html, style: the section, and what it needs beside the page's own style.  exits: what the exit codes of
    such a run mean.  is_of: whether a record is of such a run.
    """

    name: str
    anchor: str
    headline: str
    css: str
    html: Markup
    exits: Mapping[int, str]
    is_of: Callable[[RunRecord], bool]
    style: Markup = Markup()  # noqa: RUF009  (a string, which nothing changes)


SectionMaker: TypeAlias = Callable[[Sequence[RunRecord]], PageSection | None]
"""Makes the section of all records together; None where none of them has anything for it."""


def check_shown(records: Iterable[RunRecord], sections: Iterable[PageSection] = (), *,
                way: str = "In a checkout: python -m evaluation report RECORD") -> None:
    """Raise UsageError for a record of which no section shows what it measured. way: how the user gets a page of it."""
    shown = tuple(sections)
    for record in records:
        if record.measures_attnspec and not any(section.is_of(record) for section in shown):
            raise UsageError(
                "a record measures attnspec itself, its power or its false alarms, "
                "and the installed package makes no "
                f"page of that. {way}")


STANDING_WORDS = {KernelStanding.CONFORMS: "conforms", KernelStanding.VIOLATED: "does not conform",
                  KernelStanding.NOT_JUDGED: "was not judged"}
STANDING_CSS = {KernelStanding.CONFORMS: "good", KernelStanding.VIOLATED: "bad",
                KernelStanding.NOT_JUDGED: "idle"}
SIGNS = {"good": "✓", "bad": "✗", "idle": "?"}
RANKING_EXITS = {
    0: "all kernels conform",
    1: "a kernel does not conform",
    2: "a kernel was not judged, and all others conform; or the run was interrupted",
}
MOST_CAUSES = 12
"""So many likely causes are listed with the kernels that have them."""


@dataclass(frozen=True, slots=True)
class RankingRow:
    """One row of the ranking: a kernel. place: from 1; kernels of the same verdict and score share it."""

    place: int
    kernel: KernelRanked
    word: str
    css: str
    sign: str


@dataclass(frozen=True, slots=True)
class SharedCause:
    """What is likely behind failures of several kernels."""

    says: str
    fault: str
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """All that the section shows."""

    headline: str
    css: str
    rows: tuple[RankingRow, ...]
    causes: tuple[SharedCause, ...]
    clauses: tuple[tuple[str, int], ...]
    seconds: float
    deaths: int


def make_ranking(records: Sequence[RunRecord]) -> Ranking | None:
    """The ranking of all records together, or None where none is one. A kernel told twice counts once."""
    kernels = {kernel.subject: kernel for record in records for kernel in record.ranks}
    if not kernels:
        return None
    ordered = sorted(kernels.values(), key=_rank_order)
    conforming = sum(kernel.verdict is KernelStanding.CONFORMS for kernel in ordered)
    is_whole = (conforming == len(ordered) and not any(record.is_interrupted
                                                       for record in records if record.ranks))
    headline = (f"{conforming} of {count_noun(len(ordered), 'kernel')} "
                f"{'conforms' if conforming == 1 else 'conform'}")
    return Ranking(
        headline, "good" if is_whole else "bad" if _are_some_wrong(ordered) else "idle",
        _ranking_rows(ordered),
        _shared_causes(ordered),
        tuple(Counter(clause for each in ordered
                      for clause in each.failing).most_common(MOST_CAUSES)),
        sum(kernel.seconds for kernel in ordered), sum(bool(kernel.death) for kernel in ordered))


def _rank_order(kernel: KernelRanked) -> tuple[int, float, str]:
    """Conforming ones first, then by score; what was not judged last."""
    return list(KernelStanding).index(kernel.verdict), -kernel.score, kernel.subject


def _are_some_wrong(kernels: Sequence[KernelRanked]) -> bool:
    return any(kernel.verdict is KernelStanding.VIOLATED for kernel in kernels)


def _ranking_rows(kernels: Sequence[KernelRanked]) -> tuple[RankingRow, ...]:
    keys = [_rank_order(kernel)[:2] for kernel in kernels]
    return tuple(_ranking_row(keys.index(key) + 1, kernel)
                 for key, kernel in zip(keys, kernels, strict=True))


def _ranking_row(place: int, kernel: KernelRanked) -> RankingRow:
    css = STANDING_CSS[kernel.verdict]
    return RankingRow(place, kernel, STANDING_WORDS[kernel.verdict], css, SIGNS[css])


def _shared_causes(kernels: Sequence[KernelRanked]) -> tuple[SharedCause, ...]:
    """The commonest causes of first failures, each with its kernels."""
    found: dict[tuple[str, str], list[str]] = {}
    for kernel in kernels:
        if kernel.first and kernel.first.cause:
            found.setdefault((kernel.first.cause, kernel.first.fault), []).append(kernel.subject)
    often = sorted(found.items(), key=lambda pair: -len(pair[1]))
    return tuple(SharedCause(says, fault, tuple(whom))
                 for (says, fault), whom in often[:MOST_CAUSES])
