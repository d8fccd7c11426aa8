"""Reads findings (`findings.yaml`): what judging a library brought to light, each with a script.

A finding explains outcomes and excuses none: what is known and tolerated is a deviation, in the
manifest.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path

from packaging.specifiers import SpecifierSet

from attnspec.core.declaration import Harm
from attnspec.core.errors import FileLocation, ManifestError, quote_value
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType
from attnspec.record.outcome import COMPARISON, SIZES, VALUE_KINDS, KnownFinding, Outcome, Seen, does_explain, is_named
from attnspec.spec.yaml_lines import Fields, load_yaml
from attnspec.subjects.installed import read_device, read_versions
from attnspec.subjects.manifest import library_folders, read_script

FINDINGS_FILE = "findings.yaml"
_RECIPE_PARTS = ("SUBJECT", "CLAUSE", "DTYPE", "RECIPE")
_LANGUAGES = {".js": "javascript", ".mjs": "javascript"}
_FINDING_FIELDS = ("id", "says", "subjects", "clauses", "dtypes", "versions", "script",
                   "documented", "issue", "cases",
                   "seen", "harm", "device", "processor", "replays")


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases on which a finding shows: those with all these keywords, and no scale above
    `largest_scale`.

    raises: a regular expression for the exception's words, if there is one. A campaign counts
    these cases apart: the definition is known to be departed from there, whatever clause is put.
    """

    keywords: frozenset[str]
    largest_scale: float = math.inf
    raises: str = ""

    def hold(self, keywords: frozenset[str], scale: float, raised: str) -> bool:
        """Says whether a case with these keywords, scale and exception is among them."""
        if not self.keywords <= keywords or ("scale" in keywords and scale > self.largest_scale):
            return False
        return not self.raises or re.search(self.raises, raised) is not None


@dataclass(frozen=True, slots=True)
class ReplayedCase:
    """A case on which a finding shows: the parts of a line that `attnspec replay` takes."""

    subject: str
    clause: str
    dtype: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a library does, of which one or more clauses complain.

    subjects, clauses: ids, with * for any text; no clauses mean all.  dtypes: empty means all.
    versions: of the library, those that do it (`<0.10.1`); empty means all.  script: a file in the
    library's folder that shows it in a few lines without attnspec; it exits with 1 where it is so,
    with 0 where it is not.  documented: where and how the library says so, or "no".  issue: the
    public thread, if there is one.  cases: those on which it shows under any clause; None where
    that depends on the clause.  seen: what a failure has to show, in one of these ways; empty: its
    clause and dtype are enough.  harm: what it does to users of the library; None if nobody has
    said.  device: the only kind of device that it shows on; empty for any.  processor: what a
    processor has to have ("AVX512_BF16"); empty for any. No record says what one has. replays:
    cases on which it shows, which are put before all others.
    """

    id: str
    says: str
    subjects: tuple[str, ...]
    clauses: tuple[str, ...]
    dtypes: tuple[str, ...]
    script: Path
    documented: str
    issue: str
    where: FileLocation
    versions: str = ""
    cases: Cases | None = None
    seen: tuple[Seen, ...] = ()
    harm: Harm | None = None
    device: str = ""
    processor: str = ""
    replays: tuple[ReplayedCase, ...] = ()

    def is_on(self, device: str) -> bool:
        """Says whether a finding can show on this kind of device."""
        return self.device in ("", device)

    def is_of(self, version: str) -> bool:
        """Says whether a finding is about this version of the library."""
        if not version or not self.versions:
            return True
        return SpecifierSet(self.versions).contains(version, prereleases=True)

    def concerns(self, subject: str) -> bool:
        """Says whether the subject is among those that do it."""
        return any(fnmatch.fnmatchcase(subject, pattern) for pattern in self.subjects)

    def speaks_of(self, subject: str, clause: str, dtype: str) -> bool:
        """Says whether a failure of the subject under the clause can be about this finding."""
        return (self.concerns(subject) and dtype in (self.dtypes or (dtype,))
                and is_named(self.clauses, clause))

    def explains(self, outcome: Outcome) -> bool:
        """Says whether a failure is about this finding, by what was seen."""
        return self.concerns(outcome.subject) and does_explain(self.as_known_finding(), outcome)

    def as_known_finding(self, script: str = "") -> KnownFinding:
        """Returns what a report says of it, with the text of its script."""
        return KnownFinding(self.id, self.says, self.clauses, self.dtypes, script,
                            self.documented, self.issue,
                            self.seen, self.harm, _LANGUAGES.get(self.script.suffix, "python"))


def known_findings(folder: Path, subject: str, version: str,
                   device: str) -> tuple[KnownFinding, ...]:
    """Returns a report's findings of a subject, scripts as texts. Raises ManifestError."""
    return tuple(each.as_known_finding(each.script.read_text(encoding="utf-8"))
                 for each in read_findings(folder)
                 if each.concerns(subject) and each.is_of(version) and each.is_on(device))


def known_replays(folder: Path, subject: str, version: str,
                  device: str) -> Mapping[tuple[str, str], str]:
    """Returns the recipes on which a subject's findings show, by clause and dtype."""
    cases = (case for each in read_findings(folder)
             if each.is_of(version) and each.is_on(device) for case in each.replays)
    return {(case.clause, case.dtype): case.recipe for case in cases if case.subject == subject}


def read_findings(folder: Path) -> Iterator[Finding]:
    """Yields the findings of a library's folder. Raises ManifestError with file and line."""
    if (folder / FINDINGS_FILE).is_file():
        fields = Fields(load_yaml(folder / FINDINGS_FILE, error=ManifestError),
                        "a list of findings", ManifestError)
        fields.refuse_other_keys(("findings",))
        known: dict[str, FileLocation] = {}
        for each in fields.read_each("findings", "a finding"):
            finding = _read_finding(each, folder)
            if finding.id in known:
                raise ManifestError(f"there are two findings {finding.id!r}; the first is at "
                                    f"{known[finding.id]}. Rename this one.", where=finding.where)
            known[finding.id] = finding.where
            yield finding


def _read_finding(fields: Fields, folder: Path) -> Finding:
    fields.refuse_other_keys(_FINDING_FIELDS)
    return Finding(
        id=f"{folder.name}/{fields.name('id')}",
        says=fields.text("says"),
        subjects=tuple(f"{folder.name}/{name}" for name in _read_some_texts(fields, "subjects")),
        clauses=_read_clauses(fields),
        dtypes=tuple(dtype.value for dtype in fields.choices("dtypes", DType, (), kind="dtype")),
        script=read_script(fields, folder),
        documented=fields.text("documented"),
        issue=fields.url("issue", ""),
        where=fields.place("id"),
        versions=read_versions(fields),
        cases=_read_cases(fields.inner("cases", "`cases`")) if "cases" in fields.mapping else None,
        seen=tuple(map(read_seen, fields.read_each("seen", "what was seen", optional=True))),
        harm=fields.choice("harm", Harm) if "harm" in fields.mapping else None,
        device=read_device(fields),
        processor=fields.text("processor", ""),
        replays=tuple(_read_replay(line, fields) for line in fields.texts("replays", ())),
    )


def _read_replay(line: str, fields: Fields) -> ReplayedCase:
    words = line.split()
    if len(words) != len(_RECIPE_PARTS):
        raise fields.complain("replays",
                              f"should have lines of four parts, '{' '.join(_RECIPE_PARTS)}', as "
                              "a report prints them behind `attnspec replay`, not "
                              f"{quote_value(line)}.")
    return ReplayedCase(*words)


def _read_clauses(fields: Fields) -> tuple[str, ...]:
    """Reads the clauses, which may be left out only where `seen` is given."""
    is_unsaid = "clauses" not in fields.mapping and "seen" in fields.mapping
    return () if is_unsaid else _read_some_texts(fields, "clauses")


def _read_some_texts(fields: Fields, key: str) -> tuple[str, ...]:
    texts = fields.texts(key)
    if not texts:
        raise fields.complain(key, "is empty, so the finding explains nothing. Name at least one; "
                                   "* stands for any text.")
    return texts


def _read_cases(fields: Fields) -> Cases:
    fields.refuse_other_keys(("keywords", "largest_scale", "raises"))
    if "raises" not in fields.mapping:
        fields.absent("keywords")
    return Cases(frozenset(read_keywords(fields, "keywords")),
                 fields.number("largest_scale", math.inf),
                 read_pattern(fields, "raises"))


def read_seen(fields: Fields) -> Seen:
    """Reads one way in which a failure shows it. Raises ManifestError for an impossible one."""
    fields.refuse_other_keys(each.name for each in fields_of(Seen))
    if not fields.mapping:
        raise ManifestError(f"{fields.description} is empty, so every failure shows it. Say at "
                            "least one sign.", where=fields.place())
    return Seen(
        clauses=fields.texts("clauses", ()),
        needs=read_keywords(fields, "needs"), needs_any=read_keywords(fields, "needs_any"),
        without=read_keywords(fields, "without"), sizes=_read_sizes(fields),
        exception=read_pattern(fields, "exception"), values=_read_values(fields),
        relative_error=fields.number("relative_error", math.inf),
        absolute_error=fields.number("absolute_error", math.inf),
        margin=fields.number("margin", math.inf))


def read_keywords(fields: Fields, key: str) -> tuple[str, ...]:
    """Reads a list of keywords of a subject. Raises ManifestError for an unknown one."""
    names = fields.texts(key, ())
    for index, name in enumerate(names):
        if name not in KEYWORDS:
            raise ManifestError.unknown("keyword of a subject", name, KEYWORDS,
                                        where=fields.mapping[key].place_of(index))
    return names


def read_pattern(fields: Fields, key: str) -> str:
    """Reads a regular expression, or "". Raises ManifestError for an invalid one."""
    text = fields.text(key, "")
    try:
        re.compile(text)
    except re.error as wrong:
        raise fields.complain(key, f"is no regular expression: {wrong}.") from None
    return text


def _read_sizes(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("sizes", ())
    for each in found:
        if not COMPARISON.fullmatch(each):
            raise fields.complain("sizes", f"holds {each!r}, which is no comparison. Write one "
                                           f"like 'T > S' or 'scale <= 0', of {', '.join(SIZES)}.")
    return found


def _read_values(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("values", ())
    for each in found:
        if each not in VALUE_KINDS:
            raise ManifestError.unknown("kind of value", each, VALUE_KINDS,
                                        where=fields.place("values"))
    return found


def findings_of(library: str, folders: Iterable[Path | str]) -> tuple[Finding, ...]:
    """Returns the findings of a library; none for an unknown one. Raises ManifestError."""
    return tuple(finding for folder in library_folders(folders) if folder.name == library
                 for finding in read_findings(folder))
