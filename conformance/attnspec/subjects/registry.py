"""What the folders of libraries hold: registered subjects, and findings (`findings.yaml`), each with a script.

`registered_subjects` reads manifests and imports no framework and no NumPy; `load` imports one. Where the function
behind a target is defined is found without importing anything. A finding is what judging the library brought to light;
it explains outcomes and excuses none: what is known and tolerated is a deviation, in the manifest.
"""

from __future__ import annotations

import ast
import fnmatch
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from attnspec.core import paths
from attnspec.core.declaration import Harm
from attnspec.core.errors import FileLocation, ManifestError, TargetError, UsageError, quoted
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, is_bare
from attnspec.core.paths import in_repository
from attnspec.core.plan import HANDED
from attnspec.core.surroundings import Surroundings, kind_of
from attnspec.record.outcome import COMPARISON, SIZES, VALUE_KINDS, KnownFinding, Outcome, Seen, does_explain, is_named
from attnspec.spec.yaml_lines import Fields, load_yaml, shown_path
from attnspec.subjects.installed import audited_command, read_device, read_versions
from attnspec.subjects.manifest import MANIFEST_FILE, Library, Registered, read_manifest, read_script
from attnspec.subjects.outline import file_of_module, no_such_subject, parse_file

if TYPE_CHECKING:
    from attnspec.subjects.subject import Subject


FINDINGS_FILE = "findings.yaml"
_RECIPE_PARTS = ("SUBJECT", "CLAUSE", "DTYPE", "RECIPE")
_LANGUAGES = {".js": "javascript", ".mjs": "javascript"}
_FINDING_FIELDS = ("id", "says", "subjects", "clauses", "dtypes", "versions", "script", "documented", "issue", "cases",
                   "seen", "harm", "device", "processor", "replays")


@dataclass(frozen=True, slots=True)
class Cases:
    """On which cases a finding shows: those that are given all of these keywords, and no scale above `largest_scale`.

    raises: a regular expression; if there is one, only those cases in which the exception has these words.
    A campaign counts them apart: the definition is known to be departed from there, whatever clause is put.
    """

    keywords: frozenset[str]
    largest_scale: float = math.inf
    raises: str = ""

    def hold(self, keywords: frozenset[str], scale: float, raised: str) -> bool:
        """Whether a case with these keywords, this scale if it is one of them, and this exception, is among them."""
        return (self.keywords <= keywords and ("scale" not in keywords or scale <= self.largest_scale)
                and (not self.raises or re.search(self.raises, raised) is not None))


@dataclass(frozen=True, slots=True)
class ReplayedCase:
    """A case on which a finding shows: a line that `attnspec replay` takes, read into its parts."""

    subject: str
    clause: str
    dtype: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a library does, of which one or more clauses complain.

    subjects, clauses: ids, with * for any text; no clauses mean all.  dtypes: empty means all.  versions: of the
    library, those that do it (`<0.10.1`); empty means all.  script: a file in the library's folder that shows it in a
    few lines without attnspec, and exits with 1 where it is so, with 0 where it is not.
    documented: where and how the library says that it does so, or "no".  issue: the public thread, if there is one.
    cases: those on which it shows under any clause; None where that depends on the clause.
    seen: what a failure has to show, in one of these ways; empty: its clause and dtype are enough.
    harm: what it does to whoever uses the library; None if nobody has said.
    device: the kind of device that it shows on alone; empty for any.
    processor: what a processor has to have for it to show ("AVX512_BF16"); empty for any. No record says what one has.
    replays: cases on which it shows, as a report prints them: they are put before all others, at any effort.
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
        """Whether a finding can show on this kind of device."""
        return self.device in ("", device)

    def is_of(self, version: str) -> bool:
        """Whether a finding is about this version of the library."""
        return not (version and self.versions) or SpecifierSet(self.versions).contains(version, prereleases=True)

    def concerns(self, subject: str) -> bool:
        """Whether the subject is among those that do it."""
        return any(fnmatch.fnmatchcase(subject, pattern) for pattern in self.subjects)

    def speaks_of(self, subject: str, clause: str, dtype: str) -> bool:
        """Whether this finding can be what a failure of the subject under the clause is about."""
        return (self.concerns(subject) and dtype in (self.dtypes or (dtype,))
                and is_named(self.clauses, clause))

    def explains(self, outcome: Outcome) -> bool:
        """Whether a finding is what a failure is about, by what was seen."""
        return self.concerns(outcome.subject) and does_explain(self.as_known_finding(), outcome)

    def as_known_finding(self, script: str = "") -> KnownFinding:
        """What a report says of it, with the text of its script."""
        return KnownFinding(self.id, self.says, self.clauses, self.dtypes, script, self.documented, self.issue,
                            self.seen, self.harm, _LANGUAGES.get(self.script.suffix, "python"))


def known_findings(folder: Path, subject: str, version: str, device: str) -> tuple[KnownFinding, ...]:
    """What a report says of the subject's findings in a version of its library on a kind of device, with the scripts'
    texts.

    Raises ManifestError as below.
    """
    return tuple(
        each.as_known_finding(each.script.read_text(encoding="utf-8"))
        for each in read_findings(folder) if each.concerns(subject) and each.is_of(version) and each.is_on(device))


def known_replays(folder: Path, subject: str, version: str, device: str) -> Mapping[tuple[str, str], str]:
    """The recipes on which findings about a subject show, by clause and dtype. Raises ManifestError as below."""
    return {(case.clause, case.dtype): case.recipe for each in read_findings(folder)
            if each.is_of(version) and each.is_on(device) for case in each.replays if case.subject == subject}


def read_findings(folder: Path) -> Iterator[Finding]:
    """The findings of the library whose folder this is, if it has any. Raises ManifestError with file and line."""
    if (folder / FINDINGS_FILE).is_file():
        fields = Fields(load_yaml(folder / FINDINGS_FILE, error=ManifestError), "a list of findings", ManifestError)
        fields.refuse_other_keys(("findings",))
        known: dict[str, FileLocation] = {}
        for finding in (_read_finding(each, folder) for each in fields.read_each("findings", "a finding")):
            if finding.id in known:
                raise ManifestError(f"there are two findings {finding.id!r}; the first is at {known[finding.id]}. "
                                    "Rename this one.", where=finding.where)
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
                              f"should have lines of four parts, '{' '.join(_RECIPE_PARTS)}', as a report prints "
                                         f"them behind `attnspec replay`, not {quoted(line)}.")
    return ReplayedCase(*words)


def _read_clauses(fields: Fields) -> tuple[str, ...]:
    """They may go unsaid only where what was seen is said."""
    return _read_some_texts(fields, "clauses") if "clauses" in fields.mapping or "seen" not in fields.mapping else ()


def _read_some_texts(fields: Fields, key: str) -> tuple[str, ...]:
    texts = fields.texts(key)
    if not texts:
        raise fields.complain(key, "is empty, so the finding explains nothing. Name at least one; * stands for any "
                              "text.")
    return texts


def _read_cases(fields: Fields) -> Cases:
    fields.refuse_other_keys(("keywords", "largest_scale", "raises"))
    if "raises" not in fields.mapping:
        fields.absent("keywords")
    return Cases(frozenset(read_keywords(fields, "keywords")), fields.number("largest_scale", math.inf),
                 read_pattern(fields, "raises"))


# `seen` of a finding


def read_seen(fields: Fields) -> Seen:
    """One way in which a failure shows it. Raises ManifestError with file and line for what no case can have."""
    fields.refuse_other_keys(each.name for each in fields_of(Seen))
    if not fields.mapping:
        raise ManifestError(f"{fields.description} is empty, so every failure shows it. Say at least one sign.",
                            where=fields.place())
    return Seen(
        clauses=fields.texts("clauses", ()),
        needs=read_keywords(fields, "needs"), needs_any=read_keywords(fields, "needs_any"),
        without=read_keywords(fields, "without"), sizes=_read_sizes(fields),
        exception=read_pattern(fields, "exception"), values=_read_values(fields),
        relative_error=fields.number("relative_error", math.inf),
        absolute_error=fields.number("absolute_error", math.inf), margin=fields.number("margin", math.inf))


def read_keywords(fields: Fields, key: str) -> tuple[str, ...]:
    """A list of keywords of a subject, empty if not given. Raises ManifestError for one that there is not."""
    names = fields.texts(key, ())
    for index, name in enumerate(names):
        if name not in KEYWORDS:
            raise ManifestError.unknown("keyword of a subject", name, KEYWORDS,
                                        where=fields.mapping[key].place_of(index))
    return names


def read_pattern(fields: Fields, key: str) -> str:
    """A regular expression, empty if not given. Raises ManifestError for what is none."""
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
            raise fields.complain("sizes", f"holds {each!r}, which is no comparison. Write one like 'T > S' or "
                                  f"'scale <= 0', of {', '.join(SIZES)}.")
    return found


def _read_values(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("values", ())
    for each in found:
        if each not in VALUE_KINDS:
            raise ManifestError.unknown("kind of value", each, VALUE_KINDS, where=fields.place("values"))
    return found


def registered_subjects(folders: Iterable[Path | str] = (), *, library: str = "") -> Mapping[str, Registered]:
    """Every registered subject by id, from `implementations/` and further folders; or those of one library.

    Raises ManifestError, UsageError.
    """
    subjects: dict[str, Registered] = {}
    for folder in library_folders(folders):
        if library and folder.name != library:
            continue
        for subject in read_manifest(folder):
            if subject.id in subjects:
                raise ManifestError(f"the subject {subject.id!r} is registered twice, first at "
                                    f"{subjects[subject.id].where}.", where=subject.where)
            subjects[subject.id] = subject
    return subjects


def load_target(target: str, surroundings: Surroundings | None = None, *, lift: str = "",
                 folders: Sequence[Path | str] = ()) -> Subject:
    """The subject that `target` names: a registered id, `package.module:function` or `path/to/file.py:function`.

    It lives in a process of its own with these surroundings; without any, in this one.

    Raises TargetError (not found, not importable, not an attention function), ManifestError, UsageError.
    """
    from attnspec.subjects.target import load_bare, load_registered  # noqa: PLC0415  (weight: NumPy)

    if is_bare(target):
        return load_bare(target, surroundings, lift=lift)
    # mistakes in other libraries do not matter here
    known = registered_subjects(folders, library=target.partition("/")[0])
    if target not in known:
        known = registered_subjects(folders)
    if target not in known:
        raise no_such_subject(target, known)
    if surroundings is None:
        _refuse_other_process(known[target])
    subject = load_registered(known[target], surroundings, lift=lift, folders=tuple(map(Path, folders)))
    device = kind_of(surroundings.device if surroundings else "")
    folder, version = _find_folder(subject.library, folders), subject.library.version
    return replace(subject, findings=findings_about(target, subject.library, folders, device),
                   replays=known_replays(folder, target, version, device))


def findings_about(subject: str, library: Library, folders: Sequence[Path | str],
                   device: str) -> tuple[KnownFinding, ...]:
    """What is known of a subject of the library in its installed version, on this kind of device."""
    return known_findings(_find_folder(library, folders), subject, library.version, device)


def findings_of(library: str, folders: Iterable[Path | str]) -> tuple[Finding, ...]:
    """The findings of a library; none where there is no such library. Raises ManifestError."""
    return tuple(finding for folder in library_folders(folders) if folder.name == library
                 for finding in read_findings(folder))


def _find_folder(library: Library, folders: Sequence[Path | str]) -> Path:
    return next(path for path in library_folders(folders) if path.name == library.folder)


def process_of(target: str, folders: tuple[str, ...] = ()) -> Mapping[str, str]:
    """The environment variables that must stand, or had better, before a process begins that judges this target."""
    if is_bare(target):  # a module's or a file's function: no manifest speaks of it
        return {}
    return _list_processes(folders, audited_command()).get(target, {})


@cache
def _list_processes(folders: tuple[str, ...], _audited: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """By subject: a run asks for each of its thousands of items. What makes one faster is asked where it lives."""
    return {name: {**subject.faster_with, **subject.process} for name, subject in registered_subjects(folders).items()}


def _refuse_other_process(subject: Registered) -> None:
    """Raise TargetError where this process was not born as the subject's manifest asks: it is too late to mend it."""
    for name, value in subject.process.items():
        if not set(value.split()) <= set(os.environ.get(name, "").split()):  # further flags may stand beside them
            found = f"it is {os.environ[name]!r}" if name in os.environ else "it is not set"
            raise TargetError(f"{subject.id} is judged in a process that begins with {name}={value}; here {found}. "
                              "`attnspec check` sees to it; elsewhere set it before Python starts.")


def library_folders(folders: Iterable[Path | str]) -> Iterator[Path]:
    """The libraries' folders. Two of one name would hide each other's adapters, so that is an error."""
    seen: dict[str, Path] = {}
    for parent in (paths.folder("implementations"), *map(Path, folders)):
        for library in _manifest_folders(parent):
            if library.name in seen and not library.samefile(seen[library.name]):
                raise ManifestError(f"there is already a folder of this name, {shown_path(seen[library.name])}; "
                                    "rename this one.", where=FileLocation(shown_path(library)))
            if library.name not in seen:
                seen[library.name] = library
                yield library


def _manifest_folders(parent: Path) -> Iterator[Path]:
    if not parent.is_dir():
        raise UsageError("there is no such folder of implementations.", where=FileLocation(shown_path(parent)))
    if (parent / MANIFEST_FILE).is_file():
        holder = shown_path(parent.absolute().parent)
        raise UsageError(f"this is one library's folder; name the folder that holds it, {holder}.",
                         where=FileLocation(shown_path(parent)))
    for path in sorted(parent.iterdir()):
        if (path / MANIFEST_FILE).is_file():
            yield path
        elif path.is_dir() and any(path.glob("*.py")):
            raise ManifestError(f"holds adapters but no {MANIFEST_FILE}.", where=FileLocation(shown_path(path)))


def defined_at(target: str, folders: Iterable[str | Path] = ()) -> FileLocation | None:
    """The line of the `def` that a target names: of a registered one, in its adapter. folders: further implementations.

    None where no file of this machine binds the name at its top level, as of what lives elsewhere.
    """
    written, _, name = target.rpartition(":")
    if written == HANDED:
        return _locate_code(getattr(sys.modules.get(HANDED), name, None))
    if not written:
        file, name = _find_adapter(target, folders)
    else:
        file = Path(written) if written.endswith(".py") else file_of_module(written) or _file_of_loaded(written)
    return _locate_in_file(file, name.partition(".")[0]) if file else None


def annotated_at(target: str, folders: Iterable[str | Path] = ()) -> FileLocation | None:
    """The place where a target is defined, with the file as GitHub's annotations name it.

    Of an adapter that wraps a function of the repository, it is the line of that function: that one is to be mended.
    """
    place = defined_at(target, folders)
    if place is None:
        return None
    wraps = not is_bare(target)  # an id, behind which an adapter stands
    return next(filter(None, map(in_repository, (*(_wrapped_places(place) if wraps else ()), place))), None)


def _wrapped_places(place: FileLocation) -> Iterator[FileLocation]:
    """Where the functions and classes are defined that the adapter at a place imports and uses."""
    tree = ast.parse(Path(place.file).read_bytes())
    adapter = next(node for node in tree.body if node.lineno == place.line)
    used = {node.id for node in ast.walk(adapter) if isinstance(node, ast.Name)}
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
            continue
        names = [each.name for each in node.names if (each.asname or each.name) in used]
        file = file_of_module(node.module) if names else None
        yield from filter(None, (_locate_in_file(file, name) for name in names if file))


def _find_adapter(target: str, folders: Iterable[str | Path]) -> tuple[Path | None, str]:
    """The file of a registered subject's adapter, and the function's name in it."""
    library = target.partition("/")[0]
    known = registered_subjects(folders, library=library).get(target)
    module, _, name = known.function.partition(":") if known else ("", "", "")
    homes = [Path(folder) / library for folder in (*folders, paths.folder("implementations"))]
    file = next((each for home in homes if (each := home / f"{module}.py").is_file()), None) if module else None
    return file, name


def _locate_code(function: object) -> FileLocation | None:
    """Where a function object was written."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    return FileLocation(str(Path(code.co_filename).resolve()), code.co_firstlineno)


def _file_of_loaded(module: str) -> Path | None:
    """The file of a module of this process: pytest imports test files that no path leads to."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file) if file else None


def _locate_in_file(file: Path, name: str) -> FileLocation | None:
    tree = parse_file(file)  # the trial says what is wrong with one that cannot be read
    line = next((node.lineno for node in tree.body if name in _list_defined(node)), 0)
    return FileLocation(str(file.resolve()), line) if line else None


def _list_defined(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()
