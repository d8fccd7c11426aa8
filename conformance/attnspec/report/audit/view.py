"""All that the page of an audit, and its text, speak of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnspec.record.clause_text import ClauseText, QuotedSource
from attnspec.report.audit.cells import Cells, cells
from attnspec.report.audit.conventions import Habits, habits
from attnspec.report.audit.explained import AuditFinding, FailureCause, explained, library_of
from attnspec.report.audit.gradients import Gradients, gradients
from attnspec.report.audit.table import AuditStanding, ClauseTally, LibraryTable, SubjectLine, law, shelves
from attnspec.report.figures import counted
from attnspec.report.joined import Joined


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


LEADING = 3  # how many findings the head of the page names
MANY = 12    # more subjects than these make an audit: one finding for all, not one for each


@dataclass(frozen=True, slots=True)
class Missing:
    """A subject that could not be judged, and why."""

    subject: str
    library: str
    title: str
    reason: str


_FARED: Mapping[AuditStanding, tuple[str, str, str]] = {
    AuditStanding.BREAKS: ("bad", "break at least one `must` clause", "breaks at least one `must` clause"),
    AuditStanding.KEEPS: ("good", "keep every `must` clause", "keeps every `must` clause"),
    AuditStanding.CHOOSES: ("good", "keep every `must` clause apart from documented choices",
                            "keeps every `must` clause apart from documented choices"),
    AuditStanding.UNFINISHED: ("idle", "were not judged to the end", "was not judged to the end")}
"""How they stand: the style of their squares, and what is said of many and of one."""


@dataclass(frozen=True, slots=True)
class Fared:
    """Implementations that fared alike: a row of squares in the picture at the head of the page."""

    css: str
    says: str
    lines: tuple[SubjectLine, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit. `findings`: those that anything explains; `unexplained` and `listed` (deviations) stand apart.

    gradients: None where none were judged.
    """

    shelves: tuple[LibraryTable, ...]
    findings: tuple[AuditFinding, ...]
    unexplained: tuple[AuditFinding, ...]
    listed: tuple[AuditFinding, ...]
    habits: Habits
    cells: Cells
    law: tuple[tuple[str, tuple[ClauseTally, ...]], ...]
    absent: tuple[Missing, ...]
    works: Works
    gradients: Gradients | None = None

    @property
    def lines(self) -> tuple[SubjectLine, ...]:
        """All subjects of all libraries."""
        return tuple(line for shelf in self.shelves for line in shelf.lines)

    @property
    def leading(self) -> tuple[AuditFinding, ...]:
        """The most important findings."""
        return self.explaining[:LEADING]

    @property
    def explaining(self) -> tuple[AuditFinding, ...]:
        """The findings that explain a failure of this record; the others came of probing or reading."""
        return tuple(told for told in self.findings if told.shown is not None)

    @property
    def open_failures(self) -> int:
        """How many failures no finding explains."""
        return sum(told.items for told in self.unexplained)

    @property
    def headline(self) -> str:
        """What was judged, in one line."""
        libraries = len({shelf.card.id.partition("/")[0] for shelf in self.shelves})
        many = "libraries" if libraries != 1 else "library"
        return f"{counted(len(self.lines), 'implementation')} of attention from {libraries} {many} tested"

    @property
    def fared(self) -> tuple[Fared, ...]:
        """All subjects by how they stand, the gravest first in each row."""
        rows = ((*words, tuple(sorted((line for line in self.lines if line.standing is standing),
                                      key=lambda line: line.weight))) for standing, words in _FARED.items())
        return tuple(Fared(css, one if len(lines) == 1 else many, lines) for css, many, one, lines in rows if lines)

    @property
    def sentence(self) -> str:
        """How they fared, and how much of it is explained. What was not judged to the end keeps nothing."""
        return f"{', '.join(f'{len(row.lines)} {row.says}' for row in self.fared)}. {self.explained}"

    @property
    def explained(self) -> str:
        """How much of what failed is explained."""
        known, rest = len(self.explaining), self.open_failures
        if not known:
            return f"None of the {counted(rest, 'failure')} is explained yet." if rest else "Nothing failed."
        explain = f"{counted(known, 'finding')} {'explains' if known == 1 else 'explain'}"
        whole = f"all but {rest} of the failures" if rest else "every failure"
        choices = sum(told.is_choice for told in self.explaining)
        marked = f"; {choices} of them {'is a documented choice' if choices == 1 else 'are documented choices'}"
        return (f"{explain} {whole}, each with a case and a script that shows it without attnspec"
                f"{marked if choices else ''}.")

    @property
    def told(self) -> tuple[AuditFinding, ...]:
        """Everything, in the order in which the page tells it."""
        return (*self.unexplained, *self.findings, *self.listed)


def audit(joined: Joined) -> Audit:
    """Look at all of it."""
    told = explained(joined)
    of = {cause: tuple(each for each in told if each.cause is cause) for cause in FailureCause}
    ordered: Sequence[AuditFinding] = (*of[FailureCause.UNKNOWN], *of[FailureCause.KNOWN], *of[FailureCause.LISTED])
    return Audit(
        shelves=shelves(joined), findings=of[FailureCause.KNOWN], unexplained=of[FailureCause.UNKNOWN],
        listed=of[FailureCause.LISTED], habits=habits(joined), cells=cells(joined, ordered), law=law(joined),
        absent=_absent(joined), works=cited_works(joined.clauses), gradients=gradients(joined))


def _absent(joined: Joined) -> tuple[Missing, ...]:
    """Who was judged in none of the runs, and adapters that broke in one of them."""
    judged = {subject.card.id for subject in joined.subjects}
    told = {each.get("subject", ""): each for run in joined.runs for each in run.record.header.absent}
    absent = [Missing(name, each.get("library", ""), each.get("title", ""), each.get("reason", ""))
              for name, each in told.items() if name not in judged]
    broken = [Missing(subject.label, library_of(subject), subject.card.title, subject.broken)
              for subject in joined.subjects if subject.broken]
    return (*absent, *broken)


def is_audit(joined: Joined) -> bool:
    """Whether there are so many subjects that a page with everything about each would be of no use."""
    return len(joined.subjects) > MANY
