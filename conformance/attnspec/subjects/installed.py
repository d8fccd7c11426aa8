"""What there is where subjects live (modules, and the device), and what a manifest says that a subject needs.

That is this environment, the one that a run audits, or, on a cluster, those of its workers. A manifest also says how
its range of versions is tested: in an environment for each release that is tried.
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
    """From now on tell what is there. A host is started only if another interpreter is asked what it has."""
    for remembered in (installed_version, is_installed, distribution_of):
        remembered.cache_clear()
    _audited_surroundings[:] = [surroundings]


def kind_of_device() -> str:
    """What sort of device the run places arrays on: `cuda` of `cuda:1`; a CPU where none is named."""
    return kind_of(_audited_surroundings[0].device)


def audited_command() -> tuple[str, ...]:
    """What starts the environment that is audited; empty if it is this one."""
    return _audited_surroundings[0].command


def _find_command(python: str) -> tuple[str, ...]:
    """What starts the environment that is meant: the audited one, or that of this interpreter, if one is named."""
    return audited_command() or ((python,) if python else ())


@functools.cache
def installed_version(distribution: str, python: str = "") -> str:
    """Empty if it is not installed. Asked for every item of a run; looking it up takes as long as a small item.

    python: the interpreter of a manifest, which is asked where no other environment is audited.
    """
    if command := _find_command(python):
        return str(_ask_host(command, distributions=[distribution])["versions"].get(distribution, ""))
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""


@functools.cache
def is_installed(module: str, python: str = "") -> bool:
    """Whether a module can be imported where subjects live. Nothing is imported here to find out. python: as above."""
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
    """The command that installs a module; empty where its distribution may be called otherwise: a stranger's may be
    called like the module.
    """
    return f"pip install {module}" if module in SAME_NAMES else ""


def not_installed(module: str, command: str) -> str:
    """The sentence about a module that is not there. command: what installs it; empty where nobody knows."""
    way_out = f"Install it: {command}" if command else "Install the distribution that holds this module."
    return f"{module} is not installed. {way_out}"


@functools.cache
def distribution_of(package: str) -> str:
    """The distribution that installed this package; empty if none did, or if an old interpreter cannot tell."""
    if command := audited_command():
        return str(_ask_host(command, packages=[package])["packages"][package])
    return next(iter(importlib.metadata.packages_distributions().get(package, ())), "")


def audited_environment(distributions: Sequence[str]) -> Mapping[str, str]:
    """Interpreter, machine and the versions of these distributions where subjects live; empty if that is here.

    Raises TargetError where no host can be started.
    """
    if not audited_command():
        return {}
    client = _start_client(_audited_surroundings[0].command,
                           is_here=_audited_surroundings[0].is_here)
    versions = {name: installed_version(name) for name in distributions}
    about = {name: str(client.about[name]) for name in ("python", "numpy", "machine") if name in client.about}
    return {**about, **{name: version for name, version in versions.items() if version}}


@functools.cache
def no_start(python: str) -> str:
    """Why no process can be started with this interpreter; empty if one can."""
    try:
        _start_client((python,), is_here=True).request({"do": "find", "modules": [], "distributions": []})
    except TargetError as cause:
        return str(cause)
    return ""


def _ask_host(command: tuple[str, ...], **names: list[str]) -> Mapping[str, Any]:
    """What a host there says of modules, distributions and packages; that there is nothing, where the interpreter of a
    manifest starts none. Raises TargetError where the audited environment starts none.
    """
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
    """Whether a registered subject can be judged, the workers of a cluster have told: by its id, why none of them can;
    empty if one can.
    """
    _told_by_workers.append(missing)
    try:
        yield
    finally:
        _told_by_workers.pop()


def told_by_workers(subject: str) -> str | None:
    """Why no worker can judge it, empty if one can; None where no workers were asked."""
    return _told_by_workers[-1].get(subject, "no worker knows it.") if _told_by_workers else None


_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_modules(fields: Fields) -> str:
    """Reads the field `requires`: names of modules, separated by spaces."""
    names = fields.text("requires", "")
    for name in names.split():
        if not all(part.isidentifier() for part in name.split(".")):
            raise fields.complain("requires", "should name modules, as in 'onnxruntime mlx.core', not "
                                              f"{quote_value(name)}.")
    return names


def read_device(fields: Fields) -> str:
    """The kind of device that a library or a subject runs on alone; empty for any. Raises the error of the fields."""
    return fields.one_of("device", DEVICES, "", kind="kind of device")


def read_made(fields: Fields) -> tuple[str, ...]:
    """The variants that attnspec makes itself where it audits a subject. Raises the error of the fields."""
    names = fields.texts("made", ())
    for at, name in enumerate(names):
        if name not in VARIANTS:
            raise fields.error.unknown("variant that attnspec makes", name, VARIANTS,
                                       where=fields.mapping["made"].place_of(at))
    return names


def read_variables(fields: Fields) -> Mapping[str, str]:
    """Environment variables with their values. Raises the error of the fields."""
    for name in fields.mapping:
        if not _VARIABLE_NAME.fullmatch(name):
            raise fields.error(f"{quote_value(name)} is not a name for an environment variable: letters, digits and _ "
                               "only.", where=fields.place(name))
    return read_texts(fields)


def read_texts(fields: Fields) -> Mapping[str, str]:
    """Texts by their names. Raises the error of the fields."""
    return {name: fields.text(name) for name in fields.mapping}


def read_faster(subject: Fields, library: Fields, python: str = "") -> Mapping[str, str]:
    """What the subject says or else the library; nothing where the requirement `where` is not met. python: the
    interpreter in which they live, if the manifest names one.

    Raises the error of the fields.
    """
    fields = subject if "faster_with" in subject.mapping else library
    inner = fields.inner("faster_with", "what it is faster with", optional=True)
    inner.refuse_other_keys(("variables", "where"))
    variables = read_variables(inner.inner("variables", "the variables", optional=True))
    return variables if variables and _is_met(inner, python) else {}


def _is_met(fields: Fields, python: str) -> bool:
    """Whether `where`, as in `jaxlib>=0.6`, is installed."""
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
    """Which release of a range: either end, which are always named, or one of two between them."""

    OLDEST = "oldest"
    EARLIER = "earlier"
    LATER = "later"
    NEWEST = "newest"


ENDS = (RangePlace.OLDEST, RangePlace.NEWEST)


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """An end of a library's range or a release between, and how it is installed.

    install: what pip is told, `--no-deps timm==0.9.0`.  upon: the same for what is installed before it, which several
    libraries may have in common.  python: a version such as `3.9`; empty for that of attnspec.  not_tested: why nobody
    installs it; then the others are empty.
    """

    which: RangePlace
    install: str = ""
    upon: str = ""
    python: str = ""
    not_tested: str = ""


def read_ends(fields: Fields, distribution: str, versions: str,
              of_library: Sequence[RangeEnd] = ()) -> tuple[RangeEnd, ...]:
    """The field `tested` of a manifest, or of a subject in it, which may leave a release as it is `of_library`; empty
    if neither gives it. Raises the error of the fields.
    """
    inner = fields.inner("tested", "the environments of a range", optional=True)
    inner.refuse_other_keys([which.value for which in RangePlace])
    if inner.mapping and not versions:
        raise fields.complain("tested", "names releases to test, but the manifest declares no range. Give it "
                                        "'versions'.")
    ends = {end.which: end for end in of_library if end.not_tested or _is_within(end, distribution, versions)}
    for which in RangePlace if inner.mapping or of_library else ():
        if which.value in inner.mapping or (which in ENDS and which not in ends):
            ends[which] = _read_end(which, inner.inner(which.value, f"the {which.value} release"),
                                    distribution,
                                    versions)
    return tuple(ends[which] for which in RangePlace if which in ends)


def read_versions(fields: Fields) -> str:
    """The field `versions`, a version specifier; empty if it is not given. Raises the error of the fields."""
    return _read_specifier(fields, "versions") if "versions" in fields.mapping else ""


def _read_specifier(fields: Fields, key: str) -> str:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415  (weight: where a range is read alone)

    versions = fields.text(key)
    try:
        SpecifierSet(versions).contains("1.0")  # numbers are read when they are compared
    except ValueError:
        message = f"should be a version specifier, as in '>=0.10,<0.14', not {quote_value(versions)}."
        raise fields.complain(key, message) from None
    return versions


def read_since(fields: Fields) -> Mapping[str, str]:
    """Reads the field `since`: by keyword, the versions of the library that know it; empty if it is not given."""
    inner = fields.inner("since", "the versions that know a keyword", optional=True)
    inner.refuse_other_keys(tuple(EVERY_KEYWORD))
    return {name: _read_specifier(inner, name) for name in inner.mapping}


def is_known_to(version: str, versions: str) -> bool:
    """Whether a release is among these versions; a release that nobody knows is taken to be."""
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
                                         f"'{distribution or 'mine'}==1.2.0', not {quote_value(end.install)}.")
    if not _is_within(end, distribution, versions):
        raise fields.complain("install", f"pins {distribution} {release}, which is outside of the declared range "
                                         f"{versions}.")
    return end


def _is_within(end: RangeEnd, distribution: str, versions: str) -> bool:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415  (weight: where a range is read alone)

    return SpecifierSet(versions).contains(_pinned_release(end.install, distribution),
                                           prereleases=True)


def _pinned_release(install: str, distribution: str) -> str:
    """The release of the distribution that is installed; empty where none is pinned."""
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
