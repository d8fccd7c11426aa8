"""What there is where subjects live: modules, and the device.

That is this environment, the one that a run audits, or, on a cluster, those of its workers.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from attnspec.core.errors import TargetError
from attnspec.core.surroundings import Surroundings, kind_of
from attnspec.record.events import OF_SUBJECTS

if TYPE_CHECKING:
    from attnspec.hosting.client import Client

NAMED_ALIKE = frozenset({*OF_SUBJECTS, "einops", "pytest", "scipy", "tensorflow", "triton"})
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


def _command(python: str) -> tuple[str, ...]:
    """What starts the environment that is meant: the audited one, or that of this interpreter, if one is named."""
    return audited_command() or ((python,) if python else ())


@functools.cache
def installed_version(distribution: str, python: str = "") -> str:
    """Empty if it is not installed. Asked for every item of a run; looking it up takes as long as a small item.

    python: the interpreter of a manifest, which is asked where no other environment is audited.
    """
    if command := _command(python):
        return str(_found_there(command, distributions=[distribution])["versions"].get(distribution, ""))
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""


@functools.cache
def is_installed(module: str, python: str = "") -> bool:
    """Whether a module can be imported where subjects live. Nothing is imported here to find out. python: as above."""
    if command := _command(python):
        return bool(_found_there(command, modules=[module])["modules"][module])
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
    return f"pip install {module}" if module in NAMED_ALIKE else ""


def not_installed(module: str, command: str) -> str:
    """The sentence about a module that is not there. command: what installs it; empty where nobody knows."""
    way_out = f"Install it: {command}" if command else "Install the distribution that holds this module."
    return f"{module} is not installed. {way_out}"


@functools.cache
def distribution_of(package: str) -> str:
    """The distribution that installed this package; empty if none did, or if an old interpreter cannot tell."""
    if command := audited_command():
        return str(_found_there(command, packages=[package])["packages"][package])
    return next(iter(importlib.metadata.packages_distributions().get(package, ())), "")


def audited_environment(distributions: Sequence[str]) -> Mapping[str, str]:
    """Interpreter, machine and the versions of these distributions where subjects live; empty if that is here.

    Raises TargetError where no host can be started.
    """
    if not audited_command():
        return {}
    client = _client(_audited_surroundings[0].command, is_here=_audited_surroundings[0].is_here)
    versions = {name: installed_version(name) for name in distributions}
    about = {name: str(client.about[name]) for name in ("python", "numpy", "machine") if name in client.about}
    return {**about, **{name: version for name, version in versions.items() if version}}


@functools.cache
def no_start(python: str) -> str:
    """Why no process can be started with this interpreter; empty if one can."""
    try:
        _client((python,), is_here=True).request({"do": "find", "modules": [], "distributions": []})
    except TargetError as cause:
        return str(cause)
    return ""


def _found_there(command: tuple[str, ...], **names: list[str]) -> Mapping[str, Any]:
    """What a host there says of modules, distributions and packages; that there is nothing, where the interpreter of a
    manifest starts none. Raises TargetError where the audited environment starts none.
    """
    asked = {"modules": [], "distributions": [], "packages": [], **names}
    is_audited = command == audited_command()
    if not is_audited and no_start(command[0]):
        return {"modules": dict.fromkeys(asked["modules"], False), "versions": {}}
    client = _client(command, is_here=_audited_surroundings[0].is_here or not is_audited)
    return client.request({"do": "find", **asked})[0]


@functools.cache
def _client(command: tuple[str, ...], *, is_here: bool) -> Client:
    from attnspec.hosting.client import Client  # noqa: PLC0415  (weight: NumPy)

    option = _audited_surroundings[0].option if command == audited_command() else ""
    return Client(Surroundings(command, is_here=is_here, option=option))


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
