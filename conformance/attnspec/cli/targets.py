"""Targets of the command line, looked up before any worker starts."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attnspec.ground.errors import TargetError, UsageError
from attnspec.ground.plan import FAULT, SOUND, Plan
from attnspec.subjects.outline import no_such_function, no_such_subject
from attnspec.subjects.registry import registered

OWN = (FAULT, SOUND)  # attnspec's own wrong and right implementations, judged as any other


def known_targets(plan: Plan) -> None:
    """Raise TargetError for what names no subject, and for a registered one whose framework is not installed."""
    _known_own([target for target in plan.targets if target.startswith(OWN)])
    _known_files(plan.targets)
    for target in plan.targets:
        if ":" in target.strip(":") and (unknown := no_such_function(target)):
            raise unknown
    ids = [target for target in plan.targets if ":" not in target.strip(":") and not target.startswith(OWN)]
    known = registered(plan.implementations) if ids else {}
    for target in ids:
        if target not in known:
            raise no_such_subject(target, known)
        if known[target].missing:
            raise TargetError(f"{target} cannot be judged here: {known[target].missing}")


def expanded(targets: Iterable[str], implementations: Iterable[str]) -> Iterator[str]:
    """The targets, with `torch/*`, `fault/*` and the like spelled out. Raises TargetError for one that matches none."""
    for target in targets:
        if ":" in target or "*" not in target:
            yield target
            continue
        matches = fnmatch.filter(_all_ids(target, implementations), target)
        if not matches:
            raise TargetError(f"{target!r} matches no subject.")
        yield from matches


def _all_ids(target: str, implementations: Iterable[str]) -> tuple[str, ...]:
    if not target.startswith(OWN):
        return judgeable(implementations)
    from attnspec.faults.subject import own_ids  # noqa: PLC0415  (weight: NumPy)

    return own_ids()


def _known_own(targets: Iterable[str]) -> None:
    """Raise TargetError, with the nearest name, for a fault or sound formulation that does not exist."""
    for target in targets:
        from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)

        own_subject(target)


def _known_files(targets: Iterable[str]) -> None:
    """Raise TargetError for path/to/file.py:function where there is no such file."""
    for target in targets:
        file, _, function = target.rpartition(":")
        if file.endswith(".py") and function and not Path(file).is_file():
            raise no_such_subject(file, ())


def judgeable(implementations: Iterable[str], libraries: Sequence[str] = ()) -> tuple[str, ...]:
    """Every registered subject whose framework is installed, or those of these libraries.

    Raises TargetError if there is none, and UsageError for a library that does not exist.
    """
    known = registered(implementations)
    folders = sorted({name.partition("/")[0] for name in known})
    for name in libraries:
        if name not in folders:
            raise UsageError.unknown("library", name, folders)
    known = {name: subject for name, subject in known.items() if name.partition("/")[0] in (libraries or folders)}
    targets = tuple(name for name, subject in known.items() if not subject.missing)
    if not targets:
        reasons = dict.fromkeys(subject.missing for subject in known.values())
        raise TargetError(f"nothing registered can be judged here. {' '.join(reasons)}")
    return targets


def remaining(targets: Sequence[str], without: Iterable[str]) -> tuple[str, ...]:
    """The targets that match none of these patterns. Raises TargetError for one that leaves nobody out."""
    for pattern in without:
        if not fnmatch.filter(targets, pattern):
            raise TargetError(f"{pattern!r} leaves out no subject that would be judged here.")
    return tuple(target for target in targets
                 if not any(fnmatch.fnmatchcase(target, pattern) for pattern in without))
