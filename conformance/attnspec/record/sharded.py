"""Records that are parts of one run: by what they are known, and whether all parts are there and no part of another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnspec.core.errors import FileLocation, RecordError
from attnspec.core.plan import Plan
from attnspec.core.shard import Shard, read_shard
from attnspec.record.codec import encode
from attnspec.record.events import RunStarted

Group = tuple[str, str]
"""A subject and a dtype: what stays together, since its clauses share a process and remembered answers."""

_OF_THE_MACHINE: Mapping[str, Any] = {"implementations": (), "spec": "", "spec_add": (), "baseline": "", "python": "",
                                      "host": ""}
"""What of a plan are places, which differ between machines; the digest of the spec covers the clauses."""

DIGITS = 16
"""Of the digest of a plan."""

Part = tuple[Path, Shard]


class ShardsError(RecordError):
    """A part of a run is missing, is there twice, or belongs to another run."""


def plan_digest(plan: Plan, spec_digest: str, shares: Sequence[Sequence[Group]]) -> str:
    """What two shards of one run have in common, on whatever machine: the plan, the spec, and who does what."""
    said = encode(replace(plan, **_OF_THE_MACHINE))
    text = json.dumps([said, spec_digest, [[list(group) for group in share] for share in shares]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def check_whole(headers: Sequence[tuple[Path, RunStarted]]) -> None:
    """Raise ShardsError where not every run that was divided is there with all its parts, each once."""
    runs: dict[str, list[Part]] = {}
    for path, header in headers:
        if header.shard:
            runs.setdefault(header.plan_digest, []).append((path, read_shard(header.shard)))
    for parts in runs.values():
        _check_once(parts)
    broken = [digest for digest, parts in runs.items() if len(parts) < parts[0][1].count]
    if broken and len(runs) > 1:
        raise _foreign(runs, broken)
    for digest in broken:
        raise _missing_parts_error(runs[digest])


def _check_once(parts: Sequence[Part]) -> None:
    places: dict[Shard, Path] = {}
    for path, shard in parts:
        if shard in places:
            raise ShardsError(f"this is shard {shard} of a run, and so is {places[shard]}. Leave one of them out.",
                              where=FileLocation(str(path)))
        places[shard] = path


def _missing_parts_error(parts: Sequence[Part]) -> ShardsError:
    """What to say where no other run explains it."""
    path, first = parts[0]
    there = {shard.index for _, shard in parts}
    left = [f"{index}/{first.count}" for index in range(1, first.count + 1) if index not in there]
    are = "is" if len(left) == 1 else "are"
    return ShardsError(f"this is shard {first} of a run, of which {_join_names(left)} {are} missing. Join the records "
                       "of all shards.", where=FileLocation(str(path)))


def _foreign(runs: Mapping[str, Sequence[Part]], broken: Sequence[str]) -> ShardsError:
    """The part that stands most alone, beside one of the others."""
    stray = min(broken, key=lambda digest: len(runs[digest]))
    other = next(digest for digest in runs if digest != stray)
    [(path, shard), *_], [(beside, fellow), *_] = runs[stray], runs[other]
    return ShardsError(f"this is shard {shard} of the run {stray}, but {beside} is shard {fellow} of the run {other}: "
                       "their options, timings, subjects or clauses differ. Judge all shards by one command.",
                       where=FileLocation(str(path)))


def _join_names(names: Sequence[str], most: int = 5) -> str:
    shown = list(names[:most])
    more = [f"{len(names) - most} more"] if len(names) > most else []
    *first, last = [*shown, *more]
    return f"{', '.join(first)} and {last}" if first else last
