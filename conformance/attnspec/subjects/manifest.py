"""`implementations/<library>/manifest.yaml`: what a library's subjects are and what is declared of them.

Reading one imports neither the library nor NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from attnspec.core.declaration import Declaration, Deviation, Variant
from attnspec.core.errors import ManifestError, Place
from attnspec.core.nouns import FAILURES, DType
from attnspec.core.surroundings import DEVICES
from attnspec.spec.fields import Fields
from attnspec.spec.yaml_lines import load_yaml, shown
from attnspec.subjects.declared import (
    DECLARED,
    WEIGHTS,
    read_conventions,
    read_declaration,
    read_precision,
    read_precision_on,
)
from attnspec.subjects.installed import installed_version, is_installed, kind_of_device

FILE = "manifest.yaml"
_LIBRARY = ("library", "distribution", "also_distributed_as", "versions", "homepage", "issues", "install", "requires",
            "faster_with", "device", "subjects")
_SUBJECT = ("id", "title", "function", "document", "note", "variants", "deviations", "process", "requires",
            "faster_with", "cannot_run", "device", "precision_on", *DECLARED)
_VARIANT = ("function", "conventions", "precision", "precision_on", "weights", "compiles", "note")
_DEVIATION = ("clause", "verdict", "reason", "issue", "script", "until", "dtypes")
_VERSION = re.compile(r"\d+(\.\d+)*([a-z]+\d*)?")


@dataclass(frozen=True, slots=True)
class Library:
    """A library: its name, the folder of its adapters, and where it comes from.

    versions: those that the adapters are written for, as a version specifier (`>=0.10,<0.14`); empty: any.
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

    @property
    def version(self) -> str:
        """The installed version of the distribution; empty if there is none."""
        names = filter(None, (self.distribution, *self.also_distributed_as))
        return next(filter(None, map(installed_version, names)), "")

    @property
    def missing(self) -> str:
        """Why it cannot be judged here; empty if it can."""
        if absent := absent_module(self.requires):
            return f"{absent} is not installed. Install it: {self.install or f'pip install {absent}'}"
        if self.version and not SpecifierSet(self.versions).contains(self.version, prereleases=True):
            return f"{self.name} {self.version} is installed; its adapters are written for {self.versions}"
        return ""


def absent_module(requires: str) -> str:
    """The first of these modules (separated by spaces) that is not installed; empty if all are."""
    return next((name for name in requires.split() if not is_installed(name)), "")


@dataclass(frozen=True, slots=True)
class Registered:
    """A subject as its manifest describes it. The declaration knows no keywords: those are the function's signature.

    process: environment variables that must stand in the process before its library is imported.  faster_with: such as
    make it faster and change nothing else, set where the process is ours.
    requires: modules it needs beside its library.  cannot_run: why it can be judged on no machine like this one.
    device: the kind of device that it needs, such as `cuda`; empty if it runs on any.
    """

    id: str
    title: str
    function: str  # "adapter:name", in the library's folder
    declaration: Declaration
    library: Library
    document: str
    note: str
    where: Place
    process: Mapping[str, str] = field(default_factory=dict)
    faster_with: Mapping[str, str] = field(default_factory=dict)
    requires: str = ""
    cannot_run: str = ""
    device: str = ""

    @property
    def missing(self) -> str:
        """Why it cannot be judged here; empty if it can."""
        absent = absent_module(self.requires)
        return self.cannot_run or self.library.missing or (
            f"{absent} is not installed. Install it: pip install {absent}" if absent else "") or self._elsewhere

    @property
    def _elsewhere(self) -> str:
        """Why it cannot be judged on the device of this run; empty if it can. NumPy's arrays are on the CPU."""
        needed = self.device or ("" if self.declaration.lift else "cpu")
        if needed in ("", kind_of_device()):
            return ""
        return f"it runs on {needed} alone; name a device: attnspec check --device {needed} {self.id}"


def read_manifest(folder: Path) -> Iterator[Registered]:
    """The subjects of the library whose folder this is. Raises ManifestError with file and line."""
    fields = Fields(load_yaml(folder / FILE, error=ManifestError), "a manifest", ManifestError)
    fields.only(_LIBRARY)
    if not folder.name.isidentifier():
        better = re.sub(r"[^0-9A-Za-z]", "_", folder.name)
        raise ManifestError(f"the folder {folder.name!r} is no identifier, so its adapters cannot be imported. "
                            f"Rename it, as in {better!r}.", where=Place(shown(folder)))
    library = _library(fields, folder.name)
    for subject in fields.each("subjects", "a subject"):
        yield replace(_subject(subject, library, folder), faster_with=_faster(subject, fields),
                      device=_device(subject) or _device(fields))


def _library(fields: Fields, folder: str) -> Library:
    return Library(
        name=fields.text("library"),
        folder=folder,
        distribution=fields.text("distribution", ""),
        also_distributed_as=fields.texts("also_distributed_as", ()),
        versions=read_versions(fields),
        homepage=fields.url("homepage", ""),
        issues=fields.url("issues", ""),
        install=fields.text("install", ""),
        requires=fields.text("requires", ""),
    )


def _subject(fields: Fields, library: Library, folder: Path) -> Registered:
    fields.only(_SUBJECT)
    cannot_run = fields.text("cannot_run", "")
    function = "" if cannot_run and "function" not in fields.mapping else _function(fields, folder)
    declaration = replace(read_declaration(fields), variants=_variants(fields, folder),
                          precision_on=read_precision_on(fields),
                          deviations=tuple(map(_deviation, fields.each("deviations", "a deviation", optional=True))))
    return Registered(
        id=f"{library.folder}/{fields.text('id')}",
        title=fields.text("title"),
        function=function,
        declaration=declaration,
        library=library,
        document=fields.text("document", ""),
        note=fields.text("note", ""),
        where=fields.place("id"),
        process=_process(fields),
        requires=fields.text("requires", ""),
        cannot_run=cannot_run,
    )


def _device(fields: Fields) -> str:
    return fields.one_of("device", DEVICES, "", kind="kind of device")


def _process(fields: Fields) -> Mapping[str, str]:
    variables = fields.inner("process", "the process", optional=True)
    return {name: variables.text(name) for name in variables.mapping}


def _faster(subject: Fields, library: Fields) -> Mapping[str, str]:
    """What the subject says or else the library; nothing where the requirement `where` is not met."""
    fields = subject if "faster_with" in subject.mapping else library
    inner = fields.inner("faster_with", "what it is faster with", optional=True)
    inner.only(("variables", "where"))
    variables = inner.inner("variables", "the variables", optional=True)
    return {name: variables.text(name) for name in variables.mapping if _is_met(inner)}


def _is_met(fields: Fields) -> bool:
    """Whether `where`, as in `jaxlib>=0.6`, is installed."""
    where = fields.text("where")
    try:
        needed = Requirement(where)
    except InvalidRequirement:
        message = f"should be a requirement, as in 'jaxlib>=0.6', not {where!r}."
        raise fields.complain("where", message) from None
    version = installed_version(needed.name)
    return bool(version) and needed.specifier.contains(version, prereleases=True)


def read_versions(fields: Fields) -> str:
    """The field `versions`, a version specifier; empty if it is not given. Raises the error of the fields."""
    versions = fields.text("versions", "")
    try:
        SpecifierSet(versions)
    except InvalidSpecifier:
        message = f"should be a version specifier, as in '>=0.10,<0.14', not {versions!r}."
        raise fields.complain("versions", message) from None
    return versions


def _function(fields: Fields, folder: Path) -> str:
    """`adapter:name`, of a file that is there."""
    function = fields.text("function")
    adapter, colon, name = function.partition(":")
    if not (colon and adapter.isidentifier() and name.isidentifier()):
        raise fields.complain("function", f"should be `adapter:name`, as in 'attention:attend', not {function!r}.")
    if not (folder / f"{adapter}.py").is_file():
        adapters = [path.stem for path in folder.glob("*.py")]
        raise ManifestError.unknown(f"adapter in {shown(folder)}", adapter, adapters, where=fields.place("function"))
    return function


def _variants(fields: Fields, folder: Path) -> Mapping[str, Variant]:
    variants = fields.inner("variants", "the variants", optional=True)
    return {name: _variant(name, inner, folder) for name, inner in variants.named("the variant")}


def _variant(name: str, fields: Fields, folder: Path) -> Variant:
    fields.only(_VARIANT)
    return Variant(
        name=name,
        function=_function(fields, folder),
        conventions=read_conventions(fields),
        precision=read_precision(fields),
        weights=fields.one_of("weights", WEIGHTS, "", kind="way to return weights"),
        compiles=fields.flag("compiles", default=False),
        precision_on=read_precision_on(fields),
    )


def _deviation(fields: Fields) -> Deviation:
    """All but `dtypes` must be given, a link or a script among them: without reason, proof and end it is an excuse."""
    fields.only(_DEVIATION)
    if "script" not in fields.mapping:
        fields.absent("issue")
    until = fields.text("until")
    if not _VERSION.fullmatch(until):
        raise fields.complain("until", f"should be a version, as in '2.14', not {until!r}.")
    return Deviation(
        clause=fields.text("clause"),
        verdict=fields.one_of("verdict", sorted(verdict.value for verdict in FAILURES), kind="verdict of a failure"),
        reason=fields.text("reason"),
        issue=fields.url("issue", ""),
        script=fields.text("script", ""),
        until=until,
        dtypes=fields.choices("dtypes", DType, (), kind="dtype"),
        where=fields.place("clause"),
    )
