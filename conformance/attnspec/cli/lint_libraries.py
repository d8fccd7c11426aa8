"""What `lint` reads of libraries: manifests and findings, and whether what they name exists."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from attnspec.cli.mistakes import tried
from attnspec.core.errors import AttnspecError, FileLocation, ManifestError, hint, quoted
from attnspec.core.harm import Harm
from attnspec.core.nouns import FAILURES, Verdict
from attnspec.core.surroundings import kind_of
from attnspec.engine.known_failures import check_deviations
from attnspec.record.read import read_records
from attnspec.spec.clause import Spec, themes_of
from attnspec.subjects.findings import Finding, read_findings
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import library_folders, registered

_QUOTATION_MARKS = 2


def of_libraries(folders: Sequence[str], law: Spec | None, *, library: str = "") -> Iterator[AttnspecError]:
    """One mistake of each manifest and each findings.yaml; where these can be read, every name in them that is none.

    library: look at no other.  law: whose clauses and sources they name; None where it cannot be read, or is another
    than manifests speak of.
    """
    libraries, found = tried(lambda: tuple(library_folders(folders)))
    yield from found
    for folder in (each for each in libraries or () if library in ("", each.name)):
        subjects, found = tried(partial(registered, folders, library=folder.name))
        yield from found
        findings, found = tried(lambda folder=folder: tuple(read_findings(folder)))  # type: ignore[misc]  # bound at once
        yield from found
        yield from (problem for subject in (subjects or {}).values() for problem in _of_subject(subject, law))
        yield from (problem for each in findings or () for problem in _of_finding(each, subjects, law))


def _of_subject(subject: Registered, law: Spec | None) -> Iterator[AttnspecError]:
    """A precision class that makes no sense; profiles, clauses and documents that are named and do not exist."""
    from attnspec.subjects.declared_precision import check_precision, check_width  # noqa: PLC0415  (weight: NumPy)

    _, senseless = tried(partial(check_precision, subject.declaration, subject.where))
    yield from senseless or tried(partial(check_width, subject.declaration, subject.where))[1]
    if law:
        clauses = [clause.id for clause in law.clauses]
        yield from tried(partial(check_deviations, subject.id, subject.declaration, clauses))[1]
        if subject.document and subject.document not in law.bibliography:
            yield ManifestError.unknown("source of the bibliography", subject.document, law.bibliography,
                                        where=subject.where)


def _of_finding(
    finding: Finding, subjects: Mapping[str, Registered] | None, law: Spec | None,
) -> Iterator[AttnspecError]:
    """What it leaves unsaid; subjects and clauses that it names or means by a pattern, where there are none such."""
    yield from _unsaid(finding)
    if subjects is not None:
        yield from _unmatched(finding, "subject", finding.subjects, subjects)
    if law:
        clauses = [*finding.clauses, *(clause for seen in finding.seen for clause in seen.clauses)]
        yield from _unmatched(finding, "clause", clauses, [clause.id for clause in law.clauses])
    for case in finding.replays:
        if subjects is not None and (case.subject not in subjects or not finding.concerns(case.subject)):
            yield ManifestError.unknown("subject that the finding is about", case.subject,
                                        [name for name in subjects if finding.concerns(name)], where=finding.where)
        if law and case.clause not in {clause.id for clause in law.clauses}:
            yield ManifestError.unknown("clause", case.clause, [each.id for each in law.clauses], where=finding.where)
        yield from tried(partial(_parsed, case.recipe, finding.where))[1]


def unshown(records: Sequence[Path], folders: Sequence[str]) -> Iterator[AttnspecError]:
    """Each serious finding about a subject of these records, in the release that was judged, of which no failure is.

    Where a page says that a query sees later keys, one of its own clauses has to have seen it. What shows on some
    processors alone is not asked for: a record does not say what the processor can do that it was made on.
    """
    runs = [run for path in records for run in read_records(path)]
    cards = {known.card.id: known.card for run in runs for known in run.subjects}
    failures = [each for run in runs for each in run.outcomes
                if each.verdict in FAILURES or each.verdict is Verdict.EXPECTED]
    for finding in (each for folder in library_folders(folders) for each in read_findings(folder)):
        judged = [card for card in cards.values() if finding.concerns(card.id) and finding.is_of(card.version)
                  and finding.is_on(kind_of(card.lives_in.get("device", "")))]
        may_be_unseen = finding.processor or any(map(finding.explains, failures))
        if finding.harm and finding.harm.is_serious and judged and not may_be_unseen:
            yield ManifestError(f"the finding {finding.id!r} says: {finding.harm.says}; but no clause fails of it in "
                                f"{', '.join(map(str, records))}. Give it a case of its own, under 'replays', and "
                                f"judge {judged[0].id} anew.", where=finding.where)


def _unsaid(finding: Finding) -> Iterator[AttnspecError]:
    """Where it explains more than it can know, does not say what it does to a user, or what the library says of it."""
    found = f"the finding {finding.id!r}"
    if "*" in finding.clauses:
        yield ManifestError(f"{found} explains every clause ('*'), whatever was seen. Leave out 'clauses', and say "
                            "under 'seen' what a failure has to show.", where=finding.where)
    if not finding.seen and (patterns := [each for each in finding.clauses if "*" in each and each != "*"]):
        yield ManifestError(f"{found} explains {quoted(patterns[0])}, whatever was seen. Name the clauses, or say "
                            "under 'seen' what a failure has to show.", where=finding.where)
    if finding.harm is None:
        yield ManifestError(f"{found} does not say what it does to a user. Add 'harm', one of "
                            f"{', '.join(each.value for each in Harm)}.", where=finding.where)
    if finding.harm is Harm.DOCUMENTED_CHOICE and finding.documented.count('"') < _QUOTATION_MARKS:
        yield ManifestError(f"{found} is a documented choice, and 'documented' has no words of the library. Quote them "
                            'in "…", and say where they are written.', where=finding.where)


def _parsed(recipe: str, where: FileLocation) -> None:
    """Raise UsageError, with file and line, for a recipe that is none."""
    from attnspec.subjects.baseline import parsed_case  # noqa: PLC0415  (weight: NumPy)

    parsed_case(recipe, where)


def _unmatched(finding: Finding, noun: str, patterns: Sequence[str], names: Collection[str]) -> Iterator[AttnspecError]:
    known = [*names, *themes_of(names)] if noun == "clause" else names
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            yield ManifestError(f"the finding {finding.id!r} names {quoted(pattern)}, but there is no such {noun}."
                                f"{hint(pattern, known, noun)}", where=finding.where)
