"""Finds modules, versions and devices where subjects live, and reads what a manifest requires of
them.

Subjects live in this environment, in the one that a run audits, or in those of a cluster's
workers. A manifest also says how its range of versions is tested: in an environment for each
release that is tried.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from attnspec.core.errors import TargetError, quote_value
from attnspec.core.forms import EVERY_KEYWORD, VARIANTS
from attnspec.core.surroundings import DEVICES, SUBJECT_LIBRARIES, Surroundings, kind_of
from attnspec.spec.yaml_lines import Fields

if TYPE_CHECKING:
    from attnspec.hosting.client import Client


SAME_NAMES = frozenset({*SUBJECT_LIBRARIES, "einops", "pytest", "scipy", "tensorflow", "triton"})
"""The modules whose distributions are known to have the same name."""

_audited_surroundings = [Surroundings()]


def look_in(surroundings: Surroundings) -> None:
    """Sets the environment that is asked from now on; only another interpreter needs a host."""
    for remembered in (installed_version, is_installed, distribution_of):
        remembered.cache_clear()
    _audited_surroundings[:] = [surroundings]


def kind_of_device() -> str:
    """Returns the kind of device of the run's arrays: `cuda` for `cuda:1`, by default `cpu`."""
    return kind_of(_audited_surroundings[0].device)


def audited_command() -> tuple[str, ...]:
    """Returns what starts the audited environment; empty if it is this one."""
    return _audited_surroundings[0].command


def _find_command(python: str) -> tuple[str, ...]:
    """Returns what starts the audited environment, or that of this interpreter."""
    return audited_command() or ((python,) if python else ())


@functools.cache
def installed_version(distribution: str, python: str = "") -> str:
    """Returns the installed version of a distribution, or "". It is cached: every item asks, and a
    look-up takes as long as a small item.  python: the interpreter of a manifest, which is asked
    where no other environment is audited.
    """
    if command := _find_command(python):
        versions = _ask_host(command, distributions=[distribution])["versions"]
        return str(versions.get(distribution, ""))
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""


@functools.cache
def is_installed(module: str, python: str = "") -> bool:
    """Says whether a module can be imported where subjects live.  python: as above."""
    if command := _find_command(python):
        return bool(_ask_host(command, modules=[module])["modules"][module])
    top, *inner = module.split(".")
    try:
        specification = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):  # one without a specification (__main__)
        return False
    for depth, _ in enumerate(inner):
        if specification is None or specification.submodule_search_locations is None:
            return False
        specification = PathFinder.find_spec(".".join([top, *inner[: depth + 1]]),
                                             list(specification.submodule_search_locations))
    return specification is not None


def how_to_install(module: str) -> str:
    """Returns the command that installs a module; "" where its distribution's name may differ."""
    return f"pip install {module}" if module in SAME_NAMES else ""


def not_installed(module: str, command: str) -> str:
    """Says that a module is not there.  command: what installs it; empty where unknown."""
    if command:
        return f"{module} is not installed. Install it: {command}"
    return f"{module} is not installed. Install the distribution that holds this module."


@functools.cache
def distribution_of(package: str) -> str:
    """Returns the distribution that installed this package, or "" if that is not known."""
    if command := audited_command():
        return str(_ask_host(command, packages=[package])["packages"][package])
    return next(iter(importlib.metadata.packages_distributions().get(package, ())), "")


def audited_environment(distributions: Sequence[str]) -> Mapping[str, str]:
    """Returns interpreter, machine and versions of these distributions where subjects live; empty
    if here. Raises TargetError where no host can be started.
    """
    if not audited_command():
        return {}
    [there] = _audited_surroundings
    host = _start_client(there.command, is_here=there.is_here).about
    versions = {name: installed_version(name) for name in distributions}
    about = {name: str(host[name]) for name in ("python", "numpy", "machine") if name in host}
    return {**about, **{name: version for name, version in versions.items() if version}}


@functools.cache
def no_start(python: str) -> str:
    """Says why no process can be started with this interpreter; empty if one can."""
    try:
        client = _start_client((python,), is_here=True)
        client.request({"do": "find", "modules": [], "distributions": []})
    except TargetError as cause:
        return str(cause)
    return ""


def _ask_host(command: tuple[str, ...], **names: list[str]) -> Mapping[str, Any]:
    """Asks a host, if any, for modules, distributions and packages. Raises TargetError."""
    asked = {"modules": [], "distributions": [], "packages": [], **names}
    is_audited = command == audited_command()
    if not is_audited and no_start(command[0]):
        return {"modules": dict.fromkeys(asked["modules"], False), "versions": {}}
    client = _start_client(command, is_here=_audited_surroundings[0].is_here or not is_audited)
    return client.request({"do": "find", **asked})[0]


@functools.cache
def _start_client(command: tuple[str, ...], *, is_here: bool) -> Client:
    from attnspec.hosting.client import Client  # noqa: PLC0415  (weight: NumPy)

    option = _audited_surroundings[0].option if command == audited_command() else ""
    return Client(Surroundings(command, is_here=is_here, option=option))


_told_by_workers: list[Mapping[str, str]] = []


@contextmanager
def note_workers(missing: Mapping[str, str]) -> Iterator[None]:
    """Sets, in the context, why no worker can judge a subject, by its id; "" if one can."""
    _told_by_workers.append(missing)
    try:
        yield
    finally:
        _told_by_workers.pop()


def told_by_workers(subject: str) -> str | None:
    """Says why no worker can judge it, "" if one can; None where no workers were asked."""
    return _told_by_workers[-1].get(subject, "no worker knows it.") if _told_by_workers else None


_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_modules(fields: Fields) -> str:
    """Reads the field `requires`: names of modules, separated by spaces."""
    names = fields.text("requires", "")
    for name in names.split():
        if not all(part.isidentifier() for part in name.split(".")):
            raise fields.complain("requires", "should name modules, as in 'onnxruntime mlx.core', "
                                              f"not {quote_value(name)}.")
    return names


def read_device(fields: Fields) -> str:
    """Reads the only kind of device that is run on; empty for any. Raises the fields' error."""
    return fields.one_of("device", DEVICES, "", kind="kind of device")


def read_made(fields: Fields) -> tuple[str, ...]:
    """Reads the variants that attnspec makes in an audit. Raises the fields' error."""
    names = fields.texts("made", ())
    for at, name in enumerate(names):
        if name not in VARIANTS:
            raise fields.error.unknown("variant that attnspec makes", name, VARIANTS,
                                       where=fields.mapping["made"].place_of(at))
    return names


def read_variables(fields: Fields) -> Mapping[str, str]:
    """Reads environment variables with their values. Raises the fields' error."""
    for name in fields.mapping:
        if not _VARIABLE_NAME.fullmatch(name):
            raise fields.error(f"{quote_value(name)} is not a name for an environment variable: "
                               "letters, digits and _ only.", where=fields.place(name))
    return read_texts(fields)


def read_texts(fields: Fields) -> Mapping[str, str]:
    """Reads texts by their names. Raises the fields' error."""
    return {name: fields.text(name) for name in fields.mapping}


def read_faster(subject: Fields, library: Fields, python: str = "") -> Mapping[str, str]:
    """Reads the variables that the subject, or else the library, is faster with. There are none
    where the requirement `where` is not met.  python: the manifest's interpreter, if it names one.
    Raises the fields' error.
    """
    fields = subject if "faster_with" in subject.mapping else library
    inner = fields.inner("faster_with", "what it is faster with", optional=True)
    inner.refuse_other_keys(("variables", "where"))
    variables = read_variables(inner.inner("variables", "the variables", optional=True))
    return variables if variables and _is_met(inner, python) else {}


def _is_met(fields: Fields, python: str) -> bool:
    """Says whether `where`, as in `jaxlib>=0.6`, is installed."""
    from packaging.requirements import Requirement  # noqa: PLC0415  (weight: where a range is read alone)

    where = fields.text("where")
    try:
        needed = Requirement(where)
        version = installed_version(needed.name, python)
        return bool(version) and needed.specifier.contains(version, prereleases=True)
    except ValueError:  # that of the requirement, and Python's own at numbers of thousands of digits
        message = f"should be a requirement, as in 'jaxlib>=0.6', not {quote_value(where)}."
        raise fields.complain("where", message) from None


_RANGE_FIELDS = ("install", "upon", "python", "not_tested")


class RangePlace(Enum):
    """Which release of a range: an end, always named, or one of two between."""

    OLDEST = "oldest"
    EARLIER = "earlier"
    LATER = "later"
    NEWEST = "newest"


ENDS = (RangePlace.OLDEST, RangePlace.NEWEST)


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """A release of a library's range, and how it is installed.

    install: what pip is told, `--no-deps timm==0.9.0`.  upon: what pip is told before that, which
    libraries may share.  python: a version such as `3.9`; empty for that of attnspec. not_tested:
    why nobody installs it; then the others are empty.
    """

    which: RangePlace
    install: str = ""
    upon: str = ""
    python: str = ""
    not_tested: str = ""


def read_ends(fields: Fields, distribution: str, versions: str,
              of_library: Sequence[RangeEnd] = ()) -> tuple[RangeEnd, ...]:
    """Reads the field `tested` of a manifest, or of a subject, which may inherit releases
    `of_library`. Returns nothing if neither gives it. Raises the fields' error.
    """
    inner = fields.inner("tested", "the environments of a range", optional=True)
    inner.refuse_other_keys([which.value for which in RangePlace])
    if inner.mapping and not versions:
        raise fields.complain("tested", "names releases to test, but the manifest declares no "
                                        "range. Give it 'versions'.")
    ends = {end.which: end for end in of_library
            if end.not_tested or _is_within(end, distribution, versions)}
    for which in RangePlace if inner.mapping or of_library else ():
        if which.value in inner.mapping or (which in ENDS and which not in ends):
            ends[which] = _read_end(which, inner.inner(which.value, f"the {which.value} release"),
                                    distribution, versions)
    return tuple(ends[which] for which in RangePlace if which in ends)


def read_versions(fields: Fields) -> str:
    """Reads the field `versions`, a version specifier, or "". Raises the fields' error."""
    return _read_specifier(fields, "versions") if "versions" in fields.mapping else ""


def _read_specifier(fields: Fields, key: str) -> str:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415  (weight: where a range is read alone)

    versions = fields.text(key)
    try:
        SpecifierSet(versions).contains("1.0")  # numbers are read when they are compared
    except ValueError:
        raise fields.complain(key, "should be a version specifier, as in '>=0.10,<0.14', not "
                                   f"{quote_value(versions)}.") from None
    return versions


def read_since(fields: Fields) -> Mapping[str, str]:
    """Reads the field `since`: by keyword, the versions of the library that know it."""
    inner = fields.inner("since", "the versions that know a keyword", optional=True)
    inner.refuse_other_keys(tuple(EVERY_KEYWORD))
    return {name: _read_specifier(inner, name) for name in inner.mapping}


def is_known_to(version: str, versions: str) -> bool:
    """Says whether a release is among these versions; an unknown release is taken to be."""
    if not version or not versions:
        return True
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415  (weight: where a range is read alone)

    return SpecifierSet(versions).contains(version, prereleases=True)


def _read_end(which: RangePlace, fields: Fields, distribution: str, versions: str) -> RangeEnd:
    fields.refuse_other_keys(_RANGE_FIELDS)
    if "not_tested" in fields.mapping:
        fields.refuse_other_keys(("not_tested",))
        return RangeEnd(which, not_tested=fields.text("not_tested"))
    end = RangeEnd(which, fields.text("install"), fields.text("upon", ""),
                   fields.text("python", ""))
    release = _pinned_release(end.install, distribution)
    if not release:
        raise fields.complain("install", f"should pin {distribution or 'the distribution'}, as in "
                                         f"'{distribution or 'mine'}==1.2.0', not "
                                         f"{quote_value(end.install)}.")
    if not _is_within(end, distribution, versions):
        raise fields.complain("install", f"pins {distribution} {release}, which is outside of the "
                                         f"declared range {versions}.")
    return end


def _is_within(end: RangeEnd, distribution: str, versions: str) -> bool:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415  (weight: where a range is read alone)

    return SpecifierSet(versions).contains(_pinned_release(end.install, distribution),
                                           prereleases=True)


def _pinned_release(install: str, distribution: str) -> str:
    """Returns the release of the distribution that is pinned, or ""."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415  (weight: where a range is read alone)
    from packaging.utils import canonicalize_name  # noqa: PLC0415  (weight: where a range is read alone)

    for word in shlex.split(install):
        try:
            asked = Requirement(word)
        except InvalidRequirement:  # an option of pip
            continue
        if canonicalize_name(asked.name) == canonicalize_name(distribution):
            return next((each.version for each in asked.specifier if each.operator == "=="), "")
    return ""
