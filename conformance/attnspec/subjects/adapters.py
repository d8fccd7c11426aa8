"""Whose failure an exception is: the library's, or that of an adapter which does not know the installed release."""

from __future__ import annotations

import re

from attnspec.core.errors import ReleaseError
from attnspec.host.loading import PACKAGE
from attnspec.subjects.call import SubjectRaised
from attnspec.subjects.manifest import Library

_UNKNOWN = re.compile(r"unexpected keyword argument|invalid keyword argument")
"""What a TypeError says of a keyword that is not known. Too many arguments are another thing: a function may be
documented to take no mask.
"""


def not_with_this_release(subject: str, library: Library, words: str) -> ReleaseError:
    """The error. words: what went wrong, and where."""
    release = f"{library.name} {library.version}"
    return ReleaseError(f"{subject} cannot be judged with this release ({release}): {words}")


def failure_of_adapter(raised: SubjectRaised, subject: str, library: Library) -> ReleaseError | None:
    """The error for an adapter's own failure; None where the library raised, or no release of one is in play.

    It is the adapter's own if the adapter's file raised it, and asks for what is not there: an attribute, a keyword, a
    name to import.
    """
    if not (raised.module.startswith(f"{PACKAGE}.") and _asks_in_vain(raised) and library.version):
        return None
    place = f" ({raised.place})" if raised.place else ""
    return not_with_this_release(subject, library, f"its adapter fails, {raised.summary}{place}")


def _asks_in_vain(raised: SubjectRaised) -> bool:
    if raised.classes & {"AttributeError", "ImportError"}:
        return True
    return "TypeError" in raised.classes and bool(_UNKNOWN.search(raised.summary))
