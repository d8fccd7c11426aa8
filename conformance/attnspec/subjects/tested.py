"""Reads what a manifest says of how its range of versions is tested: an environment for either end of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import Enum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from attnspec.core.errors import quoted
from attnspec.spec.fields import Fields

_KEYS = ("install", "upon", "python", "not_tested")


class Which(Enum):
    """Which end of a range."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class End:
    """An end of a library's range, and how it is installed.

    install: what pip is told, `--no-deps timm==0.9.0`.  upon: the same for what is installed before it, which several
    libraries may have in common.  python: a version such as `3.9`; empty for that of attnspec.  not_tested: why nobody
    installs it; then the others are empty.
    """

    which: Which
    install: str = ""
    upon: str = ""
    python: str = ""
    not_tested: str = ""


def read_ends(fields: Fields, distribution: str, versions: str) -> tuple[End, ...]:
    """The field `tested` of a manifest; empty if it is not given. Raises the error of the fields."""
    inner = fields.inner("tested", "the environments of a range", optional=True)
    inner.only([which.value for which in Which])
    if inner.mapping and not versions:
        raise fields.complain("tested", "names releases to test, but the manifest declares no range. Give it "
                                        "'versions'.")
    return tuple(_end(which, inner.inner(which.value, f"the {which.value} release"), distribution, versions)
                 for which in Which if inner.mapping)


def _end(which: Which, fields: Fields, distribution: str, versions: str) -> End:
    fields.only(_KEYS)
    if "not_tested" in fields.mapping:
        fields.only(("not_tested",))
        return End(which, not_tested=fields.text("not_tested"))
    end = End(which, fields.text("install"), fields.text("upon", ""), fields.text("python", ""))
    release = _pinned(end.install, distribution)
    if not release:
        raise fields.complain("install", f"should pin {distribution or 'the distribution'}, as in "
                                         f"'{distribution or 'mine'}==1.2.0', not {quoted(end.install)}.")
    if not SpecifierSet(versions).contains(release, prereleases=True):
        raise fields.complain("install", f"pins {distribution} {release}, which is outside of the declared range "
                                         f"{versions}.")
    return end


def _pinned(install: str, distribution: str) -> str:
    """The release of the distribution that is installed; empty where none is pinned."""
    for word in shlex.split(install):
        try:
            asked = Requirement(word)
        except InvalidRequirement:  # an option of pip
            continue
        if canonicalize_name(asked.name) == canonicalize_name(distribution):
            return next((each.version for each in asked.specifier if each.operator == "=="), "")
    return ""
