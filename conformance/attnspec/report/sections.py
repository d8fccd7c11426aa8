"""Makes sections of the page for records without verdicts, such as a ranking of kernels.

A ranking compares many kernels: the best comes first, and the failures of the others have their
likely causes.
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
    """A section of the page that is rendered already.

    name: its entry in the table of contents.  anchor: the id of its HTML.  headline, css: the
    result as a sentence and as a colour.  html: the section.  style: its rules besides the page's
    own.  exits: what the exit codes of such runs mean.  is_of: whether a record is of such a run.
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
"""Makes one section of all records; None if none of them has anything for it."""


def check_shown(records: Iterable[RunRecord], sections: Iterable[PageSection] = (), *,
                way: str = "In a checkout: python -m evaluation report RECORD") -> None:
    """Raise UsageError for a record that measures attnspec itself and has no section. way: how to
    get a page of it.
    """
    shown = tuple(sections)
    for record in records:
        if record.measures_attnspec and not any(section.is_of(record) for section in shown):
            raise UsageError("a record measures attnspec itself, its power or its false alarms, and the "
                             f"installed package makes no page of that. {way}")


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
"""How many likely causes, and how many failing clauses, a ranking lists."""


@dataclass(frozen=True, slots=True)
class RankingRow:
    """A kernel in the ranking. place: counts from 1; kernels of the same verdict and score share a
    place.
    """

    place: int
    kernel: KernelRanked
    word: str
    css: str
    sign: str


@dataclass(frozen=True, slots=True)
class SharedCause:
    """A likely cause, and the kernels whose first failure it explains."""

    says: str
    fault: str
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranking as its section shows it. clauses: those that most kernels fail, with how many.
    deaths: of processes.
    """

    headline: str
    css: str
    rows: tuple[RankingRow, ...]
    causes: tuple[SharedCause, ...]
    clauses: tuple[tuple[str, int], ...]
    seconds: float
    deaths: int


def make_ranking(records: Sequence[RunRecord]) -> Ranking | None:
    """Ranks the kernels of all records together; None if there are none. A kernel of several
    records counts once.
    """
    kernels = {kernel.subject: kernel for record in records for kernel in record.ranks}
    if not kernels:
        return None
    ordered = sorted(kernels.values(), key=_rank_order)
    standings = Counter(kernel.verdict for kernel in ordered)
    conforming = standings[KernelStanding.CONFORMS]
    conform = "conforms" if conforming == 1 else "conform"
    clauses = Counter(clause for each in ordered for clause in each.failing)
    css = "idle"
    if standings[KernelStanding.VIOLATED]:
        css = "bad"
    elif conforming == len(ordered) and not any(each.is_interrupted for each in records if each.ranks):
        css = "good"
    return Ranking(
        f"{conforming} of {count_noun(len(ordered), 'kernel')} {conform}", css,
        _ranking_rows(ordered), _shared_causes(ordered), tuple(clauses.most_common(MOST_CAUSES)),
        sum(kernel.seconds for kernel in ordered), sum(bool(kernel.death) for kernel in ordered))


def _rank_order(kernel: KernelRanked) -> tuple[int, float, str]:
    """Sorts kernels: those that conform, then wrong ones by score, then those not judged."""
    return list(KernelStanding).index(kernel.verdict), -kernel.score, kernel.subject


def _ranking_rows(kernels: Sequence[KernelRanked]) -> tuple[RankingRow, ...]:
    keys = [_rank_order(kernel)[:2] for kernel in kernels]
    rows = []
    for key, kernel in zip(keys, kernels, strict=True):
        css = STANDING_CSS[kernel.verdict]
        word = STANDING_WORDS[kernel.verdict]
        rows.append(RankingRow(keys.index(key) + 1, kernel, word, css, SIGNS[css]))
    return tuple(rows)


def _shared_causes(kernels: Sequence[KernelRanked]) -> tuple[SharedCause, ...]:
    """The commonest causes of first failures, each with its kernels."""
    groups: dict[tuple[str, str], list[str]] = {}
    for kernel in kernels:
        if kernel.first and kernel.first.cause:
            groups.setdefault((kernel.first.cause, kernel.first.fault), []).append(kernel.subject)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return tuple(SharedCause(says, fault, tuple(names))
                 for (says, fault), names in ordered[:MOST_CAUSES])
