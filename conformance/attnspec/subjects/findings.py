"""`implementations/<library>/findings.yaml`: what judging the library brought to light, each with a script.

A finding explains outcomes and excuses none: what is known and tolerated is a deviation, in the manifest.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from attnspec.core.errors import ManifestError, Place
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType
from attnspec.record.outcome import KnownFinding
from attnspec.spec.fields import Fields
from attnspec.spec.yaml_lines import load_yaml
from attnspec.subjects.manifest import read_script, read_versions

FILE = "findings.yaml"
_FINDING = ("id", "says", "subjects", "clauses", "dtypes", "versions", "script", "documented", "issue", "cases")


@dataclass(frozen=True, slots=True)
class Cases:
    """On which cases a finding shows: those that are given all of these keywords, and no scale above `largest_scale`.

    A campaign counts them apart: the definition is known to be departed from there, whatever clause is put.
    """

    keywords: frozenset[str]
    largest_scale: float = math.inf

    def hold(self, keywords: frozenset[str], scale: float) -> bool:
        """Whether a case with these keywords, and this scale if it is one of them, is among them."""
        return self.keywords <= keywords and ("scale" not in keywords or scale <= self.largest_scale)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a library does, of which one or more clauses complain.

    subjects, clauses: ids, with * for any text.  dtypes: empty means all.  versions: of the library, those that do it
    (`<0.10.1`); empty means all.  script: a file in the library's folder that shows it in a few lines without attnspec,
    and exits with 1 where it is so, with 0 where it is not.
    documented: where and how the library says that it does so, or "no".  issue: the public thread, if there is one.
    cases: those on which it shows under any clause; None where that depends on the clause.
    """

    id: str
    says: str
    subjects: tuple[str, ...]
    clauses: tuple[str, ...]
    dtypes: tuple[str, ...]
    script: Path
    documented: str
    issue: str
    where: Place
    versions: str = ""
    cases: Cases | None = None

    def is_of(self, version: str) -> bool:
        """Whether this version of the library is among those that do it."""
        return not (version and self.versions) or SpecifierSet(self.versions).contains(version, prereleases=True)

    def concerns(self, subject: str) -> bool:
        """Whether the subject is among those that do it."""
        return any(fnmatch.fnmatchcase(subject, pattern) for pattern in self.subjects)

    def explains(self, subject: str, clause: str, dtype: str) -> bool:
        """Whether this finding is what a failure of the subject under the clause is about."""
        return (self.concerns(subject) and any(fnmatch.fnmatchcase(clause, pattern) for pattern in self.clauses)
                and dtype in (self.dtypes or (dtype,)))


def known_findings(folder: Path, subject: str, version: str) -> tuple[KnownFinding, ...]:
    """What a report says of the subject's findings in a version of its library, with the scripts' texts.

    Raises ManifestError as below.
    """
    return tuple(
        KnownFinding(each.id, each.says, each.clauses, each.dtypes, each.script.read_text(encoding="utf-8"),
                     each.documented, each.issue)
        for each in read_findings(folder) if each.concerns(subject) and each.is_of(version))


def read_findings(folder: Path) -> Iterator[Finding]:
    """The findings of the library whose folder this is, if it has any. Raises ManifestError with file and line."""
    if (folder / FILE).is_file():
        fields = Fields(load_yaml(folder / FILE, error=ManifestError), "a list of findings", ManifestError)
        fields.only(("findings",))
        known: dict[str, Place] = {}
        for finding in (_finding(each, folder) for each in fields.each("findings", "a finding")):
            if finding.id in known:
                raise ManifestError(f"there are two findings {finding.id!r}; the first is at {known[finding.id]}. "
                                    "Rename this one.", where=finding.where)
            known[finding.id] = finding.where
            yield finding


def _finding(fields: Fields, folder: Path) -> Finding:
    fields.only(_FINDING)
    return Finding(
        id=f"{folder.name}/{fields.name('id')}",
        says=fields.text("says"),
        subjects=tuple(f"{folder.name}/{name}" for name in _some(fields, "subjects")),
        clauses=_some(fields, "clauses"),
        dtypes=tuple(dtype.value for dtype in fields.choices("dtypes", DType, (), kind="dtype")),
        script=read_script(fields, folder),
        documented=fields.text("documented"),
        issue=fields.url("issue", ""),
        where=fields.place("id"),
        versions=read_versions(fields),
        cases=_cases(fields.inner("cases", "`cases`")) if "cases" in fields.mapping else None,
    )


def _some(fields: Fields, key: str) -> tuple[str, ...]:
    texts = fields.texts(key)
    if not texts:
        raise fields.complain(key, "is empty, so the finding explains nothing. Name at least one; * stands for any "
                              "text.")
    return texts


def _cases(fields: Fields) -> Cases:
    fields.only(("keywords", "largest_scale"))
    names = fields.texts("keywords")
    for index, name in enumerate(names):
        if name not in KEYWORDS:
            place = fields.mapping["keywords"].place_of(index)
            raise ManifestError.unknown("keyword of a subject", name, KEYWORDS, where=place)
    return Cases(frozenset(names), fields.number("largest_scale", math.inf))
