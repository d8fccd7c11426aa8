"""Reads what a manifest says that a subject needs: modules, a process, a device.

It also says how its range of versions is tested: in an environment for each release that is tried.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from attnspec.core.errors import quoted
from attnspec.core.made_variants import VARIANTS
from attnspec.core.rotary import EVERY_KEYWORD
from attnspec.core.surroundings import DEVICES
from attnspec.spec.fields import Fields
from attnspec.subjects.installed import installed_version

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_modules(fields: Fields) -> str:
    """Reads the field `requires`: names of modules, separated by spaces."""
    names = fields.text("requires", "")
    for name in names.split():
        if not all(part.isidentifier() for part in name.split(".")):
            raise fields.complain("requires", f"should name modules, as in 'onnxruntime mlx.core', not {quoted(name)}.")
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
        if not _VARIABLE.fullmatch(name):
            raise fields.error(f"{quoted(name)} is not a name for an environment variable: letters, digits and _ only.",
                               where=fields.place(name))
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
    where = fields.text("where")
    try:
        needed = Requirement(where)
        version = installed_version(needed.name, python)
        return bool(version) and needed.specifier.contains(version, prereleases=True)
    except ValueError:  # that of the requirement, and Python's own at numbers of thousands of digits
        message = f"should be a requirement, as in 'jaxlib>=0.6', not {quoted(where)}."
        raise fields.complain("where", message) from None


_KEYS = ("install", "upon", "python", "not_tested")


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


def read_ends(fields: Fields, distribution: str, versions: str, of_library: Sequence[RangeEnd] = ()) -> tuple[RangeEnd,
                                                                                                              ...]:
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
            ends[which] = _end(which, inner.inner(which.value, f"the {which.value} release"), distribution, versions)
    return tuple(ends[which] for which in RangePlace if which in ends)


def read_versions(fields: Fields) -> str:
    """The field `versions`, a version specifier; empty if it is not given. Raises the error of the fields."""
    return _specifier(fields, "versions") if "versions" in fields.mapping else ""


def _specifier(fields: Fields, key: str) -> str:
    versions = fields.text(key)
    try:
        SpecifierSet(versions).contains("1.0")  # numbers are read when they are compared
    except ValueError:
        message = f"should be a version specifier, as in '>=0.10,<0.14', not {quoted(versions)}."
        raise fields.complain(key, message) from None
    return versions


def read_since(fields: Fields) -> Mapping[str, str]:
    """Reads the field `since`: by keyword, the versions of the library that know it; empty if it is not given."""
    inner = fields.inner("since", "the versions that know a keyword", optional=True)
    inner.refuse_other_keys(tuple(EVERY_KEYWORD))
    return {name: _specifier(inner, name) for name in inner.mapping}


def is_known_to(version: str, versions: str) -> bool:
    """Whether a release is among these versions; a release that nobody knows is taken to be."""
    return not version or SpecifierSet(versions).contains(version, prereleases=True)


def _end(which: RangePlace, fields: Fields, distribution: str, versions: str) -> RangeEnd:
    fields.refuse_other_keys(_KEYS)
    if "not_tested" in fields.mapping:
        fields.refuse_other_keys(("not_tested",))
        return RangeEnd(which, not_tested=fields.text("not_tested"))
    end = RangeEnd(which, fields.text("install"), fields.text("upon", ""), fields.text("python", ""))
    release = _pinned_release(end.install, distribution)
    if not release:
        raise fields.complain("install", f"should pin {distribution or 'the distribution'}, as in "
                                         f"'{distribution or 'mine'}==1.2.0', not {quoted(end.install)}.")
    if not _is_within(end, distribution, versions):
        raise fields.complain("install", f"pins {distribution} {release}, which is outside of the declared range "
                                         f"{versions}.")
    return end


def _is_within(end: RangeEnd, distribution: str, versions: str) -> bool:
    return SpecifierSet(versions).contains(_pinned_release(end.install, distribution), prereleases=True)


def _pinned_release(install: str, distribution: str) -> str:
    """The release of the distribution that is installed; empty where none is pinned."""
    for word in shlex.split(install):
        try:
            asked = Requirement(word)
        except InvalidRequirement:  # an option of pip
            continue
        if canonicalize_name(asked.name) == canonicalize_name(distribution):
            return next((each.version for each in asked.specifier if each.operator == "=="), "")
    return ""
