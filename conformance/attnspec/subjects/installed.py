"""What there is where subjects live, in this environment or in the one that a run audits: modules, and the device."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from attnspec.core.surroundings import Surroundings, kind_of

if TYPE_CHECKING:
    from attnspec.hosting.client import Client

_audited = [Surroundings()]


def look_in(surroundings: Surroundings) -> None:
    """From now on tell what is there. A host is started only if another interpreter is asked what it has."""
    installed_version.cache_clear()
    is_installed.cache_clear()
    _audited[:] = [surroundings]


def kind_of_device() -> str:
    """What sort of device the run places arrays on: `cuda` of `cuda:1`; a CPU where none is named."""
    return kind_of(_audited[0].device)


@functools.cache
def installed_version(distribution: str) -> str:
    """Empty if it is not installed. Asked for every item of a run; looking it up takes as long as a small item."""
    if _audited[0].command:
        return str(_found_there(distributions=[distribution])["versions"].get(distribution, ""))
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""


@functools.cache
def is_installed(module: str) -> bool:
    """Whether it can be imported there. Nothing is imported here to find out."""
    if _audited[0].command:
        return bool(_found_there(modules=[module])["modules"][module])
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


def _found_there(*, modules: list[str] | None = None, distributions: list[str] | None = None) -> Mapping[str, Any]:
    """What a host of the audited environment says. Raises TargetError where none can be started."""
    request = {"do": "find", "modules": modules or [], "distributions": distributions or []}
    return _client(_audited[0].command, is_here=_audited[0].is_here).request(request)[0]


@functools.cache
def _client(command: tuple[str, ...], *, is_here: bool) -> Client:
    from attnspec.hosting.client import Client  # noqa: PLC0415  (weight: NumPy)

    return Client(Surroundings(command, is_here=is_here))
