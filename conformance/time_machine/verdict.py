"""Whether the suite convicts every buggy release of the time machine by the clauses that name its bug, and acquits the
mended one of them.

    python conformance/time_machine/verdict.py            # the records in reports/time_machine/
    python conformance/time_machine/verdict.py --write    # and the table in docs/time-machine.md

Exit codes: 0 every bug is detected and every fixed release passes, 1 not so, 2 a record is missing, or is of another
release.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.errors import AttnspecError, RecordError
from attnspec.core.nouns import FAILURES, Verdict
from attnspec.record.read import RunRecord, read_record
from attnspec.spec.yaml_lines import Fields, load_yaml
from packaging.version import Version

HOME = Path(__file__).resolve().parents[2]
PAIRS = Path(__file__).with_name("pairs.yaml")
RECORDS = HOME / "reports" / "time_machine"
PAGE = HOME / "docs" / "time-machine.md"
BEGIN, END = "<!-- verdicts: written by conformance/time_machine/verdict.py -->", "<!-- end of verdicts -->"
_PAIR = ("id", "thread", "library", "buggy", "mended", "subjects", "dtype", "mechanism", "clauses")
_COLUMNS = ("pair", "release", "mechanism", "clauses about the bug", "result", "exit code", "clauses held",
            "failed as well")


@dataclass(frozen=True, slots=True)
class Pair:
    """A release with a known bug and the one that mended it; what of both is judged, and the clauses that name it."""

    id: str
    thread: str
    library: str
    buggy: str
    mended: str
    subjects: tuple[str, ...]
    dtype: str
    mechanism: str
    clauses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """What a record says of a release: the verdicts by clause, of every subject that the pair names."""

    version: str
    exit_code: int
    verdicts: Mapping[str, frozenset[Verdict]]

    def convicts(self, clauses: Sequence[str]) -> bool:
        """Whether each of the clauses is violated by some subject."""
        return all(Verdict.VIOLATED in self.verdicts.get(clause, ()) for clause in clauses)

    def acquits(self, clauses: Sequence[str]) -> bool:
        """Whether each of the clauses is held by whatever subject it applies to, and applies to one."""
        harmless = {Verdict.HELD, Verdict.INAPPLICABLE}
        return all(Verdict.HELD in found and found <= harmless
                   for found in (self.verdicts.get(clause, frozenset[Verdict]()) for clause in clauses))

    def failing(self) -> frozenset[str]:
        """The clauses that some subject fails."""
        return frozenset(clause for clause, found in self.verdicts.items() if found & FAILURES)

    def held(self) -> int:
        """How many clauses every subject holds that they apply to."""
        return sum(Verdict.HELD in found and not found & FAILURES for found in self.verdicts.values())


def read_pairs(path: Path = PAIRS) -> tuple[Pair, ...]:
    """The table of pairs. Raises UsageError with file and line."""
    fields = Fields(load_yaml(path, error=RecordError), "the time machine", RecordError)
    fields.refuse_other_keys(("pairs",))
    return tuple(map(_pair, fields.read_each("pairs", "a pair")))


def _pair(fields: Fields) -> Pair:
    fields.refuse_other_keys(_PAIR)
    return Pair(fields.text("id"), fields.url("thread"), fields.text("library"), fields.text("buggy"),
                fields.text("mended"), fields.texts("subjects"), fields.text("dtype"), fields.text("mechanism"),
                fields.texts("clauses"))


def environment(pair: Pair, side: str) -> str:
    """The tox environment that judges a side of the pair: `buggy` or `mended`."""
    return f"tm-{pair.id}-{side}"


def read_release(pair: Pair, side: str, records: Path = RECORDS) -> Release:
    """What the record of one side says. Raises RecordError where there is none, or it is of another release."""
    path = records / f"{environment(pair, side)}.jsonl.gz"
    if not path.is_file():
        raise RecordError(f"there is no record of {environment(pair, side)}: run tox -e {environment(pair, side)}.")
    record = read_record(path)
    wanted = {"buggy": pair.buggy, "mended": pair.mended}[side]
    versions = {known.card.version for known in record.subjects if known.card.id in pair.subjects}
    if {Version(version).public for version in versions if version} != {wanted}:
        found = ", ".join(filter(None, sorted(versions))) or "without a version"
        raise RecordError(f"{path.name} is of {pair.library} {found}, not {wanted}.")
    return _release(pair, record, wanted)


def _release(pair: Pair, record: RunRecord, version: str) -> Release:
    verdicts: dict[str, set[Verdict]] = {}
    for outcome in record.outcomes:
        if outcome.subject in pair.subjects and outcome.dtype.value == pair.dtype:
            verdicts.setdefault(outcome.clause, set()).add(outcome.verdict)
    exit_code = record.footer.exit_code if record.footer else 2
    return Release(version, exit_code, {clause: frozenset(found) for clause, found in verdicts.items()})


def table(pairs: Sequence[Pair], records: Path = RECORDS) -> tuple[str, bool]:
    """The verdicts in Markdown, and whether they are as they should be. Raises RecordError."""
    rows = [row for pair in pairs for row in _rows(pair, records)]
    lines = [_COLUMNS, ("---",) * len(_COLUMNS), *(row.cells for row in rows)]
    told = [f"| {' | '.join(cells)} |" for cells in lines]
    remains = [f"* {row.cells[1]}: {row.remains}" for row in rows if row.remains]
    text = "\n".join([*told, "", "What else the fixed releases fail, at any level:", "", *remains])
    return f"{text}\n", all(row.right for row in rows)


@dataclass(frozen=True, slots=True)
class _Row:
    """right: the verdict is the one expected.  remains: what else fails, of a mended release."""

    right: bool
    cells: tuple[str, ...]
    remains: str = ""


def _rows(pair: Pair, records: Path) -> Iterator[_Row]:
    buggy, mended = read_release(pair, "buggy", records), read_release(pair, "mended", records)
    named = (pair.mechanism, ", ".join(f"`{clause}`" for clause in pair.clauses))
    convicted, acquitted = buggy.convicts(pair.clauses), mended.acquits(pair.clauses)
    yield _Row(convicted, (f"[{pair.id}]({pair.thread})", f"{pair.library} {buggy.version}", *named,
                           "detected" if convicted else "NOT DETECTED", *_counts(pair, buggy)))
    remains = ", ".join(f"`{clause}`" for clause in sorted(mended.failing() - set(pair.clauses)))
    yield _Row(acquitted, ("", f"{pair.library} {mended.version}", "", "",
                           "passes" if acquitted else "DOES NOT PASS", *_counts(pair, mended)), remains)


def _counts(pair: Pair, release: Release) -> tuple[str, str, str]:
    return str(release.exit_code), str(release.held()), str(len(release.failing() - set(pair.clauses)))


def written(page: str, verdicts: str) -> str:
    """The page with these verdicts between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{verdicts}\n{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str]) -> int:
    """Print the table, and write it where that is asked for."""
    try:
        verdicts, right = table(read_pairs())
    except AttnspecError as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    sys.stdout.write(verdicts)
    if "--write" in arguments:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), verdicts), encoding="utf-8")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
