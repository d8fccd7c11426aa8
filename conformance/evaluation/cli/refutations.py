"""`refutations`: which clause convicts which fault at which dtype, found out anew and kept in a generated file."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from attnspec.cli.digest import format_opening
from attnspec.cli.group import exit_code_of
from attnspec.cli.options import DEADLINE, SPEC, WORKERS, Given, available_cpus, checked_plan, typed_command
from attnspec.cli.outputs import VisibleHandler
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, FileLocation, UsageError
from attnspec.core.nouns import DType
from attnspec.core.paths import write_whole
from attnspec.core.plan import FAULT, Plan
from attnspec.core.texts import count_noun
from attnspec.engine.expectations import match_ids
from attnspec.faults.size_family import SEEDED
from attnspec.faults.sizes.families import FAMILIES
from attnspec.record.events import Event, Handler, RunFinished, RunStarted, SubjectPut
from attnspec.record.read import RunRecord, read_record
from attnspec.record.write import RecordWriter, WriteMode, reopen_record
from attnspec.runner.session import Session
from attnspec.spec.clause import (
    COMMAND,
    EFFORT,
    FILE,
    SEED,
    Refutations,
    Spec,
    read_refutations,
)
from attnspec.spec.load import load_spec
from attnspec.spec.yaml_lines import shown_path

from evaluation import PROGRAM
from evaluation.cli.running_line import RunningLine
from evaluation.false_alarms.jobs import code_digest
from evaluation.power.matrix import MATRIX, MatrixChange, changes, join_matrix, skip_done
from evaluation.power.refutations_file import refutations_text

RUNS = Path("reports") / "run"
LISTED = 20  # changes that are told one by one


@click.command()
@click.option("--fault", "faults", multiple=True, metavar="PATTERN",
              help="Only this fault, or those of a pattern like 'mask_*'. [default: all]")
@click.option("--clause", "clauses", multiple=True, metavar="ID",
              help="Only this clause; 'causal.*' is all of a theme. [default: all]")
@click.option("--write", is_flag=True, help="Write what was found into the generated file.")
@click.option("-n", "--workers", default=available_cpus, type=WORKERS, metavar="N",
              help="Processes that judge. [default: one a CPU]")
@DEADLINE
@SPEC
def refutations(faults: Sequence[str], workers: int, *, write: bool, **options: Given) -> int:
    """Try every clause on every fault, and compare the result with spec/refutations.json; or write that file again.

    A fault is a deliberately wrong attention. Faults and clauses that are not asked for stay in the file as they are.
    An interrupted run continues where it stopped. Exit codes: 0 the file agrees or was written, 1 it differs, 2 not
    everything could be tried.
    """
    law = load_spec(options["spec"])
    plan = _plan(faults, law, **options)
    before = _read_earlier(plan, law)
    puts = _Measurement(plan, law, workers).run()
    if puts is None:
        return CANNOT_RUN
    now = join_matrix(before, puts, law, plan)
    return _report_changes(list(changes(before, now)), now, law.folder / FILE, write=write)


def _plan(faults: Sequence[str], law: Spec, clauses: Sequence[str], **options: Given) -> Plan:
    targets = [FAULT + name.removeprefix(FAULT) for name in faults or ("*",)]
    fixed = {"dtypes": tuple(DType), "implementations": (), "effort": EFFORT, "seed": SEED}
    plan = checked_plan(targets, options | fixed)
    plan = replace(plan, targets=_of_matrix(plan.targets))
    ids = [clause.id for clause in law.clauses]
    asked = match_ids(clauses, ids) if clauses else ids
    return replace(plan, clauses=tuple(name for name in ids if name in asked))


def _of_matrix(targets: Sequence[str]) -> tuple[str, ...]:
    """The targets less the families of sizes. Raises UsageError where no other is asked for."""
    kept = tuple(target for target in targets if target.removeprefix(FAULT).partition(SEEDED)[0] not in FAMILIES)
    if not kept:
        raise UsageError("the sizes at which these faults show are drawn from a seed, so the matrix does not list "
                         "them. "
                         f"Test them with: {PROGRAM} power --fault NAME.")
    return kept


def _read_earlier(plan: Plan, law: Spec) -> Refutations:
    """What the file says. Raises UsageError where only a part of what was found on other cases would be made anew."""
    from attnspec.faults.catalogue import FIXED  # noqa: PLC0415  (weight: NumPy)

    found = read_refutations(law)
    is_whole = len(plan.targets) == len(FIXED) and len(plan.clauses) == len(law.clauses)
    if not (found.is_current or is_whole):
        raise UsageError(f"this file was made with {found.cases} cases at effort {found.effort} and seed "
                         f"{found.seed}, and "
                         f"a part of it cannot be made again with other ones. Make all of it: {COMMAND}.",
                         where=FileLocation(shown_path(law.folder / FILE)))
    return found


@dataclass(frozen=True, slots=True)
class _Measurement:
    """What is put to whom. The record is named by all that a verdict rests on: an interrupted one can go on in it."""

    plan: Plan
    law: Spec
    workers: int

    def run(self) -> Sequence[SubjectPut] | None:
        """Every fault that was asked for; None where some came to nothing."""
        begun = self._reopen_begun()
        plan = skip_done(self.plan, begun.puts if begun else ())
        session = Session(plan, workers=self.workers, command=typed_command(PROGRAM), source=MATRIX)
        record = RecordWriter(self._path, WriteMode.GO_ON if begun else WriteMode.REPLACE)
        result = session.run([VisibleHandler(_Counting(RunningLine(sys.stdout))), record])
        if exit_code_of(result) != CONFORMS:
            click.echo(f"Not everything was tested. Run the same command again to continue; results so far: "
                       f"{self._path}")
            return None
        return read_record(self._path).puts

    def _reopen_begun(self) -> RunRecord | None:
        """The run that did not come to its end, if there is one."""
        if not self._path.is_file():
            return None
        record = read_record(self._path)
        return reopen_record(self._path) if record.is_interrupted or any(put.lost for put in record.puts) else None

    @property
    def _path(self) -> Path:
        rests_on = (code_digest(), self.law.digest, *self.plan.targets, *self.plan.clauses)
        return RUNS / f"refutations-{zlib.crc32(' '.join(rests_on).encode()):08x}.jsonl"


@dataclass(slots=True)
class _Counting(Handler):
    """A handler that tells how many faults have been put."""

    line: RunningLine
    done: int = 0
    of: int = 0

    def handle(self, event: Event) -> None:
        """Count."""
        match event:
            case RunStarted():
                self.of = event.items
                self.line.say(format_opening(event))
            case SubjectPut():
                self._count(event)
            case RunFinished():
                self.line.wipe()

    def shutdown(self) -> None:
        """Leave the line clean, also after an interruption."""
        self.line.wipe()

    def _count(self, put: SubjectPut) -> None:
        self.done += 1
        if put.lost:
            self.line.say(click.style(f"lost: {put.subject} {put.dtype.value}: {put.lost}", fg="red"))
        if self.line.is_due:
            self.line.tell(f"{self.done} of {self.of} tested")


def _report_changes(found: Sequence[MatrixChange], now: Refutations, path: Path, *, write: bool) -> int:
    """Say what changed, and write it if asked to. The exit code."""
    for line in _lines(found):
        click.echo(line)
    if write:
        write_whole(path, refutations_text(now), "file")
        click.echo(f"wrote {shown_path(path)}: {_count_pairs(now)}")
    elif found:
        click.echo(f"{shown_path(path)} differs. To update it, run the same command with --write.")
    else:
        click.echo(f"{shown_path(path)} says the same.")
    return CONFORMS if write or not found else VIOLATED


def _lines(found: Sequence[MatrixChange]) -> Iterator[str]:
    for each in found[:LISTED]:
        yield f"{each.clause} detects {each.fault} at {_words(each.now)}; it was {_words(each.before)}"
    if len(found) > LISTED:
        yield f"and {count_noun(len(found) - LISTED, 'change')} more"


def _words(dtypes: Iterable[DType]) -> str:
    return " ".join(dtype.value for dtype in dtypes) or "no dtype"


def _count_pairs(now: Refutations) -> str:
    pairs = sum(map(len, now.convictions.values()))
    return f"{count_noun(pairs, 'pair')} of clause and fault, {count_noun(len(now.faults), 'fault')} detected"
