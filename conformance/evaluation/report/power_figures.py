"""What a measurement of power comes to: how much each rule convicts, how soon, and whom it accuses without cause.

The unit that is counted is a fault at a dtype at which it can be told from rounding. Seeds are pooled: such a fault
counts as convicted where every seed convicted it. What is called a run is one fault at one dtype and one seed. A run
that was lost convicted nobody, for any rule.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from attnspec.core.nouns import DType
from attnspec.core.plan import FAULT, SOUND
from attnspec.record.events import SUITE, Conviction, SubjectPut


def percent(part: float) -> str:
    """A share in percent. Only all is called 100 % and only nothing 0 %."""
    if part in (0.0, 1.0):
        return f"{100 * part:.0f} %"
    digits = 1 if 0.1 <= part <= 0.999 else 2
    return f"{min(max(100 * part, 0.01), 99.99):.{digits}f} %"


@dataclass(frozen=True, slots=True)
class RuleShare:
    """How one rule fared at one dtype. Without a conviction the three quantiles of its cases are 0.

    convicted of tried: faults.  convicted_runs of tried_runs: fault × seed.  median, p95, worst: cases that half,
    95 % and all of the runs that convicted took.
    """

    rule: str
    dtype: DType
    convicted: int
    tried: int
    median: int
    p95: int
    worst: int
    convicted_runs: int = 0
    tried_runs: int = 0

    @property
    def part(self) -> float:
        """Convicted of tried, 0 … 1."""
        return part(self.convicted, self.tried)


@dataclass(frozen=True, slots=True)
class FaultGroup:
    """Faults that have something in common (a stage), at any dtype: how many of them a rule convicted."""

    name: str
    convicted: int
    tried: int

    @property
    def part(self) -> float:
        """Convicted of tried, 0 … 1."""
        return part(self.convicted, self.tried)


@dataclass(frozen=True, slots=True)
class Alarm:
    """How many sound implementations a rule accused at one dtype, at any seed, and which."""

    rule: str
    dtype: DType
    accused: tuple[str, ...]
    tried: int


@dataclass(frozen=True, slots=True)
class Escapee:
    """A fault that a rule did not convict at every seed. `missed`: at which dtypes, by how many of how many seeds."""

    name: str
    stage: str
    missed: tuple[tuple[DType, int, int], ...]
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Misnamed:
    """A fault that the diagnosis took for another one, or for none (then `named` is ""), at some dtypes."""

    name: str
    named: str
    dtypes: tuple[DType, ...]
    runs: int


@dataclass(frozen=True, slots=True)
class Naming:
    """How often the diagnosis named the right fault first, of the runs that the suite convicted.

    exact: that very fault.  alike: another, that explains the counterexample no better than the right one does.
    """

    exact: int
    alike: int
    tried: int
    wrong: tuple[Misnamed, ...]

    @property
    def part(self) -> float:
        """The share that is named rightly, 0 … 1."""
        return part(self.exact + self.alike, self.tried)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One subject at one dtype and one seed before one rule. `cases`: to the conviction, else 0."""

    put: SubjectPut
    convicted: bool
    cases: int


def part(some: int, of: int) -> float:
    """A share; nothing of nothing is 0."""
    return some / of if of else 0.0


def quantile(counts: Iterable[int], share: float) -> int:
    """The smallest of the counts that at least this share of them do not exceed; 0 without any."""
    ordered = sorted(counts)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0


def name_of(put: SubjectPut) -> str:
    """The name of the fault or the sound formulation; a third party's keeps its library."""
    return put.subject.removeprefix(FAULT).removeprefix(SOUND)


def _kind_of(put: SubjectPut) -> str:
    """As the diagnosis names it: without the seed that drew the fault's sizes."""
    return name_of(put).partition("@")[0]


def tellable(puts: Iterable[SubjectPut]) -> tuple[SubjectPut, ...]:
    """The runs of faults that can be told from rounding."""
    return tuple(put for put in puts if put.is_fault and not put.equivalent)


def rules(puts: Iterable[SubjectPut]) -> tuple[str, ...]:
    """Every rule, the suite first, the others as they come."""
    found = dict.fromkeys(each.rule for put in puts for each in put.convictions)
    return tuple(sorted(found, key=lambda rule: rule != SUITE))


def dtypes(puts: Iterable[SubjectPut]) -> tuple[DType, ...]:
    """Every dtype, widest first."""
    found = {put.dtype for put in puts}
    return tuple(dtype for dtype in DType if dtype in found)


def conviction(put: SubjectPut, rule: str) -> Conviction | None:
    """What a rule said of a subject; None where it was not asked."""
    for each in put.convictions:  # the loop that all else waits for
        if each.rule == rule:
            return each
    return None


def shares(puts: Sequence[SubjectPut]) -> tuple[RuleShare, ...]:
    """How every rule fared at every dtype that it speaks about, the suite first."""
    faults = tellable(puts)
    found = ((rule, runs_of(faults, rule)) for rule in rules(puts))
    return tuple(
        _share(rule, dtype, here) for rule, runs in found for dtype in dtypes(faults)
        if (here := [run for run in runs if run.put.dtype is dtype]))


def runs_of(puts: Sequence[SubjectPut], rule: str) -> list[MeasuredRun]:
    """The runs that a rule was asked about, and the lost ones if it was asked about any of their dtype."""
    said = [(put, conviction(put, rule)) for put in puts]
    asked = {put.dtype for put, told in said if told}
    return [run_of(put, told) for put, told in said if told or (put.lost and put.dtype in asked)]


def run_of(put: SubjectPut, said: Conviction | None) -> MeasuredRun:
    """What a rule said, as a run."""
    is_convicted = said is not None and said.convicted
    return MeasuredRun(put, is_convicted, said.cases if said and is_convicted else 0)


def _share(rule: str, dtype: DType, runs: Sequence[MeasuredRun]) -> RuleShare:
    took = [run.cases for run in runs if run.convicted]
    pooled = _pool_seeds(runs)
    return RuleShare(
        rule, dtype, sum(pooled.values()), len(pooled), quantile(took, 0.5), quantile(took, 0.95), quantile(took, 1.0),
        len(took), len(runs))


def _pool_seeds(runs: Iterable[MeasuredRun]) -> dict[tuple[str, DType], bool]:
    """Whether every seed convicted, by subject and dtype."""
    found: dict[tuple[str, DType], bool] = {}
    for run in runs:
        key = (run.put.subject, run.put.dtype)
        found[key] = found.get(key, True) and run.convicted
    return found


def total(puts: Sequence[SubjectPut], rule: str) -> FaultGroup:
    """The faults of all dtypes together."""
    pooled = _pool_seeds(runs_of(tellable(puts), rule))
    return FaultGroup(rule, sum(pooled.values()), len(pooled))


def total_runs(puts: Sequence[SubjectPut], rule: str) -> FaultGroup:
    """The runs of all dtypes and seeds together."""
    runs = runs_of(tellable(puts), rule)
    return FaultGroup(rule, sum(run.convicted for run in runs), len(runs))


def total_at_sizes(puts: Sequence[SubjectPut], rule: str) -> FaultGroup:
    """Of all dtypes together, the faults that show only at certain sizes."""
    return total([put for put in puts if put.shows_at], rule)


def curve(puts: Sequence[SubjectPut], rule: str) -> tuple[tuple[int, float], ...]:
    """Which share of its runs a rule had convicted after so many cases, at every number at which the share rises."""
    runs = runs_of(tellable(puts), rule)
    took = Counter(run.cases for run in runs if run.convicted)
    risen = accumulate(took[cases] for cases in sorted(took))
    return tuple((cases, part(count, len(runs))) for cases, count in zip(sorted(took), risen, strict=True))


def best_peer(puts: Sequence[SubjectPut]) -> str:
    """The other rule that convicts the largest share of what it was asked about; "" without any."""
    peers = [rule for rule in rules(puts) if rule != SUITE]
    return max(peers, key=lambda rule: total(puts, rule).part, default="")


def stages(puts: Sequence[SubjectPut], rule: str) -> tuple[FaultGroup, ...]:
    """The share that a rule convicts by stage of fault, stages as they come."""
    runs = runs_of(tellable(puts), rule)
    groups: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(run.put.stage, []).append(run)
    pooled = {stage: _pool_seeds(group).values() for stage, group in groups.items()}
    return tuple(FaultGroup(stage, sum(said), len(said)) for stage, said in pooled.items())


def escapees(puts: Sequence[SubjectPut], rule: str = SUITE) -> tuple[Escapee, ...]:
    """The faults that a rule did not convict at every seed of every dtype at which they can be told from rounding."""
    groups = _by_subject(runs_of(tellable(puts), rule))
    return tuple(_escapee(runs) for runs in groups if not all(run.convicted for run in runs))


def _by_subject(runs: Iterable[MeasuredRun]) -> Iterator[list[MeasuredRun]]:
    ordered = sorted(runs, key=lambda run: run.put.subject)
    return (list(group) for _, group in groupby(ordered, key=lambda run: run.put.subject))


def _escapee(runs: Sequence[MeasuredRun]) -> Escapee:
    tried = Counter(run.put.dtype for run in runs)
    missed = Counter(run.put.dtype for run in runs if not run.convicted)
    lost = next((run.put.lost for run in runs if run.put.lost), "")
    first = runs[0].put
    return Escapee(name_of(first), first.stage,
                   tuple((dtype, missed[dtype], tried[dtype]) for dtype in DType if missed[dtype]), lost)


def false_alarms(puts: Sequence[SubjectPut]) -> tuple[Alarm, ...]:
    """Whom each rule accused though sound, at every dtype, of those that it put a case to."""
    sound = [put for put in puts if not put.is_fault]
    return tuple(
        _alarm(rule, dtype, runs) for rule in rules(puts) for dtype in dtypes(sound)
        if (runs := [run_of(put, said) for put in sound if put.dtype is dtype and (said := conviction(put, rule))
                     and said.cases]))


def _alarm(rule: str, dtype: DType, runs: Sequence[MeasuredRun]) -> Alarm:
    accused = dict.fromkeys(name_of(run.put) for run in runs if run.convicted)
    return Alarm(rule, dtype, tuple(accused), len({run.put.subject for run in runs}))


def count_accused(alarms: Iterable[Alarm], rule: str) -> FaultGroup:
    """Of the sound implementations at every dtype, how many a rule accused."""
    own = [alarm for alarm in alarms if alarm.rule == rule]
    return FaultGroup(rule, sum(len(alarm.accused) for alarm in own), sum(alarm.tried for alarm in own))


def naming(puts: Sequence[SubjectPut]) -> Naming:
    """How often the diagnosis was right where it was asked for, and where it was not."""
    asked = [put for put in tellable(puts) if not put.undiagnosed]
    convicted = [put for put in asked if run_of(put, conviction(put, SUITE)).convicted]
    exact = sum(put.named == _kind_of(put) for put in convicted)
    alike = sum(put.named != _kind_of(put) and _kind_of(put) in put.like for put in convicted)
    return Naming(exact, alike, len(convicted), _group_misnamed(convicted))


def _group_misnamed(convicted: Iterable[SubjectPut]) -> tuple[Misnamed, ...]:
    groups: dict[tuple[str, str], list[SubjectPut]] = {}
    for put in convicted:
        if _kind_of(put) not in (put.named, *put.like):
            groups.setdefault((name_of(put), put.named), []).append(put)
    return tuple(Misnamed(*key, dtypes(group), len(group)) for key, group in sorted(groups.items()))
