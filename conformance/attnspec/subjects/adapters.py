"""Says that an adapter itself fails with the installed release of its library, which is no failure of the library."""

from __future__ import annotations

import re

from attnspec.core.errors import ReleaseError
from attnspec.host.loading import PACKAGE
from attnspec.host.raised import COMPUTED, SPOKE, UNREAL
from attnspec.subjects.call import SubjectRaised
from attnspec.subjects.manifest import Library

_UNKNOWN = re.compile(r"(unexpected|invalid|unrecogni[sz]ed|unknown) keyword|"
                      r"required (positional|keyword-only) argument", re.IGNORECASE)
"""What is said of a keyword that is not known, or of an argument that is needed and was not given. Too many arguments
are another thing: a function may be documented to take no mask.
"""

_STUMBLES = frozenset({"NameError", "KeyError", "IndexError", "ZeroDivisionError", "StopIteration"})
"""What Python raises itself for code that is wrong about what it has in its hands."""


def not_with_this_release(subject: str, library: Library, words: str) -> ReleaseError:
    """The error. words: what went wrong, and where."""
    release = f"{library.name} {library.version}"
    return ReleaseError(f"{subject} cannot be judged with this release ({release}): {words}")


def failure_of_adapter(raised: SubjectRaised, subject: str, library: Library) -> ReleaseError | None:
    """The error for an adapter's own failure; None where the library raised, or no release of one is in play."""
    if not (library.version and is_fault_of_adapter(raised)):
        return None
    place = f" ({raised.place})" if raised.place else ""
    return not_with_this_release(subject, library, f"its adapter fails, {raised.summary}{place}")


def is_fault_of_adapter(raised: SubjectRaised) -> bool:
    """Whether an adapter raised it in its own file, and not what the adapter calls.

    It asks for what is not there (an attribute, a keyword, a name to import), leaves out what is needed, asks for a
    number that is not there yet, or stumbles over what it got. What it raises on purpose is said for its subject.
    """
    if raised.module.partition(".")[0] != PACKAGE or raised.act == SPOKE:
        return False
    if raised.classes & {"AttributeError", "ImportError"}:
        return True
    if raised.classes & {"TypeError", "ValueError"} and _UNKNOWN.search(raised.summary):
        return True
    if any(word in name for word in UNREAL for name in raised.classes):
        return True
    return raised.act == COMPUTED and bool(raised.classes & _STUMBLES or _is_unpacking(raised))


def _is_unpacking(raised: SubjectRaised) -> bool:
    """Whether an answer had more or fewer parts than the adapter takes it to have."""
    return "values to unpack" in raised.summary or "cannot unpack" in raised.summary
