"""A measurement of power held against an earlier one: has any fault come to escape?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.errors import FileLocation, UsageError
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import FAULT
from attnspec.faults.size_family import SEEDED
from attnspec.record.events import SUITE, Conviction, SubjectPut
from attnspec.record.read import RunRecord, read_record

from evaluation import PROGRAM

Key = tuple[str, DType, int]  # fault, dtype, seed


@dataclass(frozen=True, slots=True)
class Fallen:
    """A fault that was convicted (by `clause`, then) and is so no longer; `because` says what became of it."""

    name: str
    dtype: DType
    seed: int
    clause: str
    because: str


@dataclass(frozen=True, slots=True)
class Fall:
    """The share of runs in which the suite convicts at a dtype, then and now: it is smaller now."""

    dtype: DType
    before: float
    now: float


@dataclass(frozen=True, slots=True)
class PowerComparison:
    """The suite's power compared with an earlier record. Faults, dtypes and seeds not measured now are left out.

    falls: shares of all faults measured now, new ones included, against those of them that were measured before.
    new: faults that were not measured before, and whether the suite convicts them throughout.  gone: faults that were,
    and that the catalogue no longer has.
    """

    fallen: tuple[Fallen, ...]
    falls: tuple[Fall, ...]
    new: Mapping[str, bool]
    gone: tuple[str, ...]

    @property
    def fell(self) -> bool:
        """Whether power fell."""
        return bool(self.fallen or self.falls)


def read_before(path: Path, *, effort: Effort, sample: int = 0) -> RunRecord:
    """The earlier measurement. Raises RecordError, and UsageError for one that cannot be compared.

    sample: how many cases stood for all, 0 if none did.
    """
    record = read_record(path)
    if not record.puts:
        raise UsageError(f"this record holds no measurement of power. `{PROGRAM} power --record` writes one.",
                         where=FileLocation(str(path)))
    if record.header.effort != effort.value:
        raise UsageError(f"this was measured at effort {record.header.effort}, and effort {effort.value} is asked "
                         f"for. Measure at the same: --effort {record.header.effort}.", where=FileLocation(str(path)))
    if record.header.sample != sample:
        way = "with" if record.header.sample else "without"
        raise UsageError(f"this was measured {way} --further-dtypes. Measure {way} it again.",
                         where=FileLocation(str(path)))
    return record


def compare_power(now: Iterable[SubjectPut], before: Iterable[SubjectPut], *,
                  catalogue: Collection[str]) -> PowerComparison:
    """Hold a measurement against an earlier one. catalogue: the names of the faults that exist."""
    here, there = _faults(now), _faults(before)
    names = {name for name, _, _ in there}
    fallen = (_describe_fallen(put, here[key]) for key, put in there.items()
              if key in here and _is_convicted(put) and not _is_convicted(here[key]))
    new = sorted({name for name, _, _ in here} - names)
    return PowerComparison(
        tuple(fallen), tuple(_falls(here, there)),
        {fault: all(_is_convicted(put) for put in _tellable(here.values()) if _name(put) == fault) for fault in new},
        tuple(sorted(name for name in names if name not in catalogue)))


def _faults(puts: Iterable[SubjectPut]) -> dict[Key, SubjectPut]:
    return {(_name(put), put.dtype, put.seed): put for put in puts if put.is_fault}


def _name(put: SubjectPut) -> str:
    """The fault's name; of a family of sizes without the seed that drew it, which is the measurement's."""
    return put.subject.removeprefix(FAULT).partition(SEEDED)[0]


def _tellable(puts: Iterable[SubjectPut]) -> list[SubjectPut]:
    return [put for put in puts if not put.equivalent]


def _conviction_by_suite(put: SubjectPut) -> Conviction | None:
    return next((each for each in put.convictions if each.rule == SUITE), None)


def _is_convicted(put: SubjectPut) -> bool:
    said = _conviction_by_suite(put)
    return said is not None and said.convicted


def _describe_fallen(before: SubjectPut, now: SubjectPut) -> Fallen:
    said = _conviction_by_suite(before)
    return Fallen(_name(now), now.dtype, now.seed, said.clause if said else "", _because(now))


def _because(now: SubjectPut) -> str:
    """What stands in the way of a conviction."""
    said = _conviction_by_suite(now)
    if now.equivalent:
        return f"it is listed as a fault that gives no wrong answer: {now.equivalent}"
    if now.lost or said is None:
        return now.lost or "the suite was not asked"
    return f"no clause detects it within {said.cases} cases"


def _falls(here: Mapping[Key, SubjectPut], there: Mapping[Key, SubjectPut]) -> Iterator[Fall]:
    names = {name for name, _, _ in here}
    for dtype in dict.fromkeys(dtype for _, dtype, _ in here):
        seeds = {seed for _, each, seed in here if each is dtype} & {seed for _, each, seed in there if each is dtype}
        then, now = (_share([put for (name, each, seed), put in puts.items()
                             if each is dtype and seed in seeds and name in names]) for puts in (there, here))
        if now < then:
            yield Fall(dtype, then, now)


def _share(puts: Sequence[SubjectPut]) -> float:
    counted = _tellable(puts)
    return sum(map(_is_convicted, counted)) / len(counted) if counted else 0.0
