"""Reads `implementations/<library>/manifest.yaml`: a library's subjects and what they declare.

Reading one imports neither the library nor NumPy.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from attnspec.core import paths
from attnspec.core.declaration import Declaration, Deviation, Variant
from attnspec.core.errors import FileLocation, ManifestError, UsageError, quote_value
from attnspec.core.nouns import FAILURES, DType
from attnspec.core.paths import is_file, portable_argument
from attnspec.core.surroundings import HostLanguage, Surroundings
from attnspec.spec.yaml_lines import NAME, NAME_SAYS, Fields, load_yaml, shown_path
from attnspec.subjects.declared import (
    DECLARED,
    WEIGHTS,
    read_conventions,
    read_declaration,
    read_precision,
    read_precision_on,
)
from attnspec.subjects.installed import (
    RangeEnd,
    audited_command,
    how_to_install,
    installed_version,
    is_installed,
    is_known_to,
    kind_of_device,
    no_start,
    not_installed,
    read_device,
    read_ends,
    read_faster,
    read_made,
    read_modules,
    read_since,
    read_texts,
    read_variables,
    read_versions,
    told_by_workers,
)

MANIFEST_FILE = "manifest.yaml"
_LIBRARY_FIELDS = ("library", "distribution", "also_distributed_as", "versions", "since", "tested",
                   "homepage", "issues", "install", "requires", "faster_with", "host", "python",
                   "device", "subjects")
SUBJECT_KEYS = ("id", "title", "function", "document", "note", "variants", "deviations", "process",
                "made", "requires", "faster_with", "cannot_run", "device", "versions", "since",
                "tested", "precision_on", "backward", "defaults", *DECLARED)
VARIANT_KEYS = ("function", "conventions", "precision", "precision_on", "weights", "compiles",
                "versions", "note")
DEVIATION_KEYS = ("clause", "verdict", "reason", "issue", "script", "until", "dtypes")
_VERSION_PATTERN = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,9}([a-z]{1,9}[0-9]{0,9})?")


@dataclass(frozen=True, slots=True)
class Library:
    """A library: its name, the folder of its adapters, and where it comes from.

    versions: those that the adapters are written for, as a version specifier (`>=0.10,<0.14`), or
    "" for any.  program: the host of a library that is no Python.  interpreter: the one that its
    manifest names.  told_version: the version that the subjects' process tells.  tested: how some
    of `versions` are installed.  since: by keyword, the versions that know it, where not all do.
    """

    name: str
    folder: str = ""
    distribution: str = ""
    also_distributed_as: tuple[str, ...] = ()
    versions: str = ""
    homepage: str = ""
    issues: str = ""
    install: str = ""
    requires: str = ""
    program: Program | None = None
    interpreter: Interpreter | None = None
    told_version: str = ""
    tested: tuple[RangeEnd, ...] = ()
    since: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Returns the installed version, or "". A program tells it once it runs."""
        if self.program:
            return self.told_version
        names = filter(None, (self.distribution, *self.also_distributed_as))
        return next(filter(None, (installed_version(name, self.python) for name in names)), "")

    @property
    def python(self) -> str:
        """Returns the interpreter that its manifest names, or ""."""
        return self.interpreter.path if self.interpreter else ""

    @property
    def why_missing(self) -> str:
        """Says why a library cannot be judged here; empty if it can."""
        if self.program:
            return self.program.why_missing
        if self.interpreter and (reason := self.interpreter.why_missing):
            return reason
        if absent := absent_module(self.requires, self.python):
            if self.install:
                return not_installed(absent, self.install)
            is_own = bool(self.distribution) and absent == self.requires.split()[0]
            command = f"pip install {self.distribution}" if is_own else how_to_install(absent)
            return not_installed(absent, command)
        return self.why_unfit

    @property
    def unknown(self) -> frozenset[str]:
        """Returns the keywords that the installed version does not know yet."""
        return frozenset(name for name, versions in self.since.items()
                         if not is_known_to(self.version, versions))

    @property
    def why_unfit(self) -> str:
        """Says what is wrong with the version; empty if nothing is, or if it is not known yet."""
        if not is_known_to(self.version, self.versions):
            return (f"{self.name} {self.version} is installed; its adapters are written for "
                    f"{self.versions}. Install a release in that range.")
        return ""


def absent_module(requires: str, python: str = "") -> str:
    """Returns the first of these modules that is not installed, else ""; python: where."""
    return next((name for name in requires.split() if not is_installed(name, python)), "")


@dataclass(frozen=True, slots=True)
class Registered:
    """A subject as its manifest describes it. Only the function's signature knows its keywords.

    process: environment variables that must stand in the process before its library is imported.
    faster_with: those that make it faster and change nothing else, set where the process is ours.
    requires: modules that it needs beside its library.  cannot_run: why no machine like this one
    can judge it.  device: the kind of device that it needs, such as `cuda`; empty for any.
    backward: the name of its backward pass in the same adapter, where that is not the function's
    with `_backward`.
    """

    id: str
    title: str
    function: str  # "adapter:name", in the library's folder
    declaration: Declaration
    library: Library
    document: str
    note: str
    where: FileLocation
    process: Mapping[str, str] = field(default_factory=dict)
    faster_with: Mapping[str, str] = field(default_factory=dict)
    requires: str = ""
    cannot_run: str = ""
    device: str = ""
    backward: str = ""

    @property
    def why_missing(self) -> str:
        """Says why a subject cannot be judged here; empty if it can."""
        told = told_by_workers(self.id)
        return (self.not_here or self.library.why_missing or self._lacking) if told is None else told

    @property
    def as_installed(self) -> Registered:
        """Returns the subject without variants that the installed release does not have."""
        variants = {name: variant for name, variant in self.declaration.variants.items()
                    if not variant.versions or is_known_to(self.library.version, variant.versions)}
        return replace(self, declaration=replace(self.declaration, variants=variants))

    @property
    def _lacking(self) -> str:
        """Says which module it lacks beside its library, and what to do; else ""."""
        absent = absent_module(self.requires, self.library.python)
        return not_installed(absent, how_to_install(absent)) if absent else ""

    @property
    def not_here(self) -> str:
        """Says why it cannot be judged on this machine or device; else "". NumPy needs a CPU."""
        needed = self.device or ("" if self.declaration.lift else "cpu")
        if self.cannot_run or needed in ("", kind_of_device()):
            return self.cannot_run
        return f"it runs on {needed} alone; name a device: attnspec check --device {needed} {self.id}"


def read_manifest(folder: Path) -> Iterator[Registered]:
    """Yields the subjects of a library's folder. Raises ManifestError with file and line."""
    fields = Fields(load_yaml(folder / MANIFEST_FILE, error=ManifestError), "a manifest",
                    ManifestError)
    fields.refuse_other_keys(_LIBRARY_FIELDS)
    if not folder.name.isidentifier():
        better = re.sub(r"[^0-9A-Za-z]", "_", folder.name)
        raise ManifestError(f"the folder {folder.name!r} is not an identifier, so its adapters "
                            f"cannot be imported. Rename it, as in {better!r}.",
                            where=FileLocation(shown_path(folder)))
    library = _read_library(fields, folder)
    for subject in fields.read_each("subjects", "a subject"):
        yield replace(_read_subject(subject, _narrow_library(library, subject), folder),
                      faster_with=read_faster(subject, fields, library.python),
                      device=read_device(subject) or read_device(fields))


def _read_library(fields: Fields, folder: Path) -> Library:
    program = read_program(fields, folder)
    distribution, versions = fields.text("distribution", ""), read_versions(fields)
    return Library(
        name=fields.text("library"), folder=folder.name, distribution=distribution,
        also_distributed_as=fields.texts("also_distributed_as", ()), versions=versions,
        homepage=fields.url("homepage", ""), issues=fields.url("issues", ""),
        install=fields.text("install", ""), requires="" if program else read_modules(fields),
        program=program, interpreter=read_interpreter(fields, folder),
        tested=read_ends(fields, distribution, versions), since=read_since(fields))


def _narrow_library(library: Library, subject: Fields) -> Library:
    """Narrows the library to the range of a subject that needs other releases."""
    # so most of three hundred: their releases were compared with the range when it was read
    if subject.mapping.keys().isdisjoint(("versions", "tested", "since")):
        return library
    versions = read_versions(subject) or library.versions
    ends = read_ends(subject, library.distribution, versions, library.tested)
    since = {**library.since, **read_since(subject)}
    return replace(library, versions=versions, tested=ends, since=since)


def _read_subject(fields: Fields, library: Library, folder: Path) -> Registered:
    fields.refuse_other_keys(SUBJECT_KEYS)
    cannot_run = fields.text("cannot_run", "")
    adapters = None if library.program else folder
    function = ""
    if not cannot_run or "function" in fields.mapping:
        function = _read_function_name(fields, adapters)
    declaration = replace(
        read_declaration(fields), variants={
            name: _read_variant(name, inner, adapters) for name, inner in fields.inner(
                "variants", "the variants", optional=True).read_named("the variant")},
        precision_on=read_precision_on(fields), made=read_made(fields),
        defaults=read_texts(fields.inner("defaults", "the defaults", optional=True)),
        deviations=tuple(_read_deviation(inner, folder) for inner in fields.read_each(
            "deviations", "a deviation", optional=True)))
    return Registered(
        id=f"{library.folder}/{fields.name('id')}", title=fields.text("title"), function=function,
        declaration=declaration, library=library, document=fields.text("document", ""),
        note=fields.text("note", ""), where=fields.place("id"),
        process=read_variables(fields.inner("process", "the process", optional=True)),
        requires=read_modules(fields), cannot_run=cannot_run, backward=fields.text("backward", ""))


def _read_function_name(fields: Fields, folder: Path | None) -> str:
    """Reads `adapter:name`, of a file that is there; without a folder, a program's name."""
    function = fields.text("function")
    if folder is None:
        return function
    adapter, colon, name = function.partition(":")
    if not (colon and adapter.isidentifier() and name.isidentifier()):
        raise fields.complain("function", "should be `adapter:name`, as in 'attention:attend', "
                                          f"not {quote_value(function)}.")
    if not is_file(folder / f"{adapter}.py"):
        adapters = [path.stem for path in folder.glob("*.py")]
        raise ManifestError.unknown(f"adapter in {shown_path(folder)}", adapter, adapters,
                                    where=fields.place("function"))
    return function


def _read_variant(name: str, fields: Fields, folder: Path | None) -> Variant:
    fields.refuse_other_keys(VARIANT_KEYS)
    if not NAME.fullmatch(name):
        raise fields.error(f"{quote_value(name)} is not a name for a variant: {NAME_SAYS}.",
                           where=fields.place())
    return Variant(
        name=name, function=_read_function_name(fields, folder),
        conventions=read_conventions(fields), precision=read_precision(fields),
        weights=fields.one_of("weights", WEIGHTS, "", kind="way to return weights"),
        compiles=fields.flag("compiles", default=False), precision_on=read_precision_on(fields),
        versions=read_versions(fields))


def read_script(fields: Fields, folder: Path) -> Path:
    """Reads the field `script`: a text file in the library's folder. Raises the fields' error."""
    script = folder / fields.text("script")
    if not is_file(script):
        name = quote_value(shown_path(script))[1:-1]
        raise fields.complain("script", f"names no file: there is no {name}.")
    if not script.resolve().is_relative_to(folder.resolve()):
        raise fields.complain("script",
                              f"should lie in the library's folder, {shown_path(folder)}.")
    try:
        script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        reason = getattr(cause, "strerror", "") or "it is no UTF-8 text"
        raise fields.complain("script", f"cannot be read: {reason}.") from None
    return script


def _read_deviation(fields: Fields, folder: Path) -> Deviation:
    """Reads a deviation; without a reason, a proof (link or script) and an end it is an excuse."""
    fields.refuse_other_keys(DEVIATION_KEYS)
    if "script" not in fields.mapping:
        fields.absent("issue")
    until = fields.text("until")
    if not _VERSION_PATTERN.fullmatch(until):
        raise fields.complain("until",
                              f"should be a version, as in '2.14', not {quote_value(until)}.")
    verdicts = sorted(verdict.value for verdict in FAILURES)
    return Deviation(
        clause=fields.text("clause"),
        verdict=fields.one_of("verdict", verdicts, kind="verdict of a failure"),
        reason=fields.text("reason"), issue=fields.url("issue", ""),
        script=(read_script(fields, folder).relative_to(folder).as_posix()
                if "script" in fields.mapping else ""),
        until=until, dtypes=fields.choices("dtypes", DType, (), kind="dtype"),
        where=fields.place("clause"))


# The interpreter that `python` of a manifest names


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A command that starts Python. command_text: as written. where: its place in the manifest."""

    path: str
    command_text: str
    where: FileLocation

    @property
    def why_missing(self) -> str:
        """Says why nothing can live in it, and what to do; "" if it can or need not."""
        if audited_command():
            return ""
        reason = no_start(self.path) if shutil.which(self.path) else "there is no such program"
        told = reason.rstrip(".")
        return reason and (f"its manifest names the interpreter {quote_value(self.command_text)} "
                           f"({self.where}): {told}. Correct `python:` there, or name another "
                           "one: --python PATH")

    def surroundings(self, asked: Surroundings | None) -> Surroundings:
        """Returns the surroundings with this interpreter, unless another command is asked for."""
        there = asked or Surroundings()
        return there if there.command else replace(there, command=(self.path,))


def read_interpreter(fields: Fields, folder: Path) -> Interpreter | None:
    """Reads the interpreter of a manifest in this folder, or None. Raises the fields' error."""
    if "python" not in fields.mapping:
        return None
    written = fields.text("python")
    if not written.strip():
        raise fields.complain("python", "should be the path of an interpreter, as in "
                                        "'../env/bin/python'.")
    if "host" in fields.mapping:
        raise fields.complain("python", "says where the subjects run, and so does `host`. Leave "
                                        "one of them out.")
    path = Path(os.path.expanduser(written))
    return Interpreter(str(folder.absolute() / path), written, fields.place("python"))


# A host that is no Python


@dataclass(frozen=True, slots=True)
class Program:
    """A command, run in the folder of its manifest.  needs: files and folders there without which
    it cannot run.  install: how they get there.
    """

    command: tuple[str, ...]
    folder: Path
    needs: tuple[str, ...] = ()
    install: str = ""

    @property
    def why_missing(self) -> str:
        """Says why a program cannot be started here, and what to do; empty if it can."""
        if elsewhere := " ".join(map(portable_argument, audited_command())):
            own = " ".join(map(portable_argument, self.command))
            return (f"it lives in a program of its own, {own!r}, not in {elsewhere!r}. "
                    "Leave --python and --host out")
        if not shutil.which(self.command[0]) and not (self.folder / self.command[0]).is_file():
            return f"{self.command[0]} is not on the PATH{self._way_out}"
        absent = next((name for name in self.needs if not (self.folder / name).exists()), "")
        return f"there is no {absent} in {shown_path(self.folder)}{self._way_out}" if absent else ""

    @property
    def _way_out(self) -> str:
        return f". Install it: {self.install}" if self.install else ""

    def surroundings(self, asked: Surroundings | None) -> Surroundings:
        """Returns its subject's surroundings, with the deadline, device and variables asked."""
        return replace(asked or Surroundings(), command=self.command, speaks=HostLanguage.PROTOCOL,
                       is_here=True, folder=str(self.folder.absolute()))


def read_program(fields: Fields, folder: Path) -> Program | None:
    """Reads the host that a manifest names; None for Python. What it requires are files and
    folders beside the manifest. Raises the fields' error.
    """
    if "host" not in fields.mapping:
        return None
    try:
        command = tuple(shlex.split(fields.text("host")))
    except ValueError as cause:
        raise fields.complain("host", f"is no command: {cause}.") from None
    if not command or not command[0]:
        raise fields.complain("host", "should be a command, as in 'node host.mjs'.")
    return Program(command, folder, tuple(fields.text("requires", "").split()),
                   fields.text("install", ""))


def library_folders(folders: Iterable[Path | str]) -> Iterator[Path]:
    """Yields the libraries' folders. Raises ManifestError for two of one name."""
    seen: dict[str, Path] = {}
    for parent in (paths.folder("implementations"), *map(Path, folders)):
        for library in _manifest_folders(parent):
            if library.name in seen and not library.samefile(seen[library.name]):
                first = shown_path(seen[library.name])
                raise ManifestError(f"there is already a folder of this name, {first}; rename "
                                    "this one.", where=FileLocation(shown_path(library)))
            if library.name not in seen:
                seen[library.name] = library
                yield library


def _manifest_folders(parent: Path) -> Iterator[Path]:
    if not parent.is_dir():
        raise UsageError("there is no such folder of implementations.",
                         where=FileLocation(shown_path(parent)))
    if (parent / MANIFEST_FILE).is_file():
        holder = shown_path(parent.absolute().parent)
        raise UsageError(f"this is one library's folder; name the folder that holds it, {holder}.",
                         where=FileLocation(shown_path(parent)))
    for path in sorted(parent.iterdir()):
        if (path / MANIFEST_FILE).is_file():
            yield path
        elif path.is_dir() and any(path.glob("*.py")):
            raise ManifestError(f"holds adapters but no {MANIFEST_FILE}.",
                                where=FileLocation(shown_path(path)))
