"""Says that an adapter itself fails with the installed release of its library, which is no failure of the library."""

from __future__ import annotations

from attnspec.core.errors import ReleaseError
from attnspec.subjects.blame import is_fault_of_adapter
from attnspec.subjects.call import SubjectRaised
from attnspec.subjects.manifest import Library


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
