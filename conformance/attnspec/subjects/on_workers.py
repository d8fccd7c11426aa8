"""What can be judged on a cluster: then it is its workers that are asked, and not this environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_told_by_workers: list[Mapping[str, str]] = []


@contextmanager
def asked_workers(missing: Mapping[str, str]) -> Iterator[None]:
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
