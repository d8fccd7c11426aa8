"""What a failing check costs beside a conforming one, and how soon its first failure is on the screen.

    python conformance/benchmarks/failing.py --count 40 --seed 1 --record failing.jsonl    # goes on from the record
    python conformance/benchmarks/failing.py --count 40 --seed 1 --record failing.jsonl --told   # measures no more
    python conformance/benchmarks/failing.py --count 40 --seed 1 --stride 5   # eight of them, spread evenly

A seed draws faults of dense attention, as `bugs.py` does (every fourth shows at drawn sizes alone, and the plain
mistakes of `mistakes.py` come last). Each is written as a user's file that takes no more keywords than the fault needs,
and judged by `attnspec check`; so is a right function of the same signature, once for each signature. What counts are
CPU seconds of all processes, without those in which the written file imports the fault: wall seconds are a remark.
Exit codes: 0 what is claimed is borne out, 1 it is not, 2 not all were measured yet.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from attnspec.core.forms import InputForm
from attnspec.core.keywords import BESIDE, OFF
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.core.plan import FAULT, is_own
from attnspec.diagnosis.candidate import Matrix
from attnspec.faults.catalogue import fault_named
from attnspec.faults.fault import Fault
from bugs import CHECKS, MISTAKES, REFUTATIONS, drawn_targets

DEARER, SHARE = 1.3, 1 / 3
"""The claim: what a failing check costs in conforming ones at most, and within which part of one it tells the first."""

POOL = 4
"""Out of so many times as many faults are those taken that a user's file can pose."""

FIRST, CAUSE = "First failure:", "Likely"
"""How the line begins that tells of the first failure, and its part about the cause."""

_ATTRIBUTES = ("conventions", "mask_axes")
_POSED = '''"""A function that `conformance/benchmarks/failing.py` poses."""
import time

began = time.process_time()
{imported}

with open({told!r}, "a") as told:  # what the import takes is no part of judging
    told.write(f"{{time.process_time() - began}}\\n")


def attend({signature}):
    return posed({arguments})


attend.dtypes = {dtypes!r}
{attributes}
'''


@dataclass(frozen=True, slots=True, order=True)
class Signature:
    """What a posed function takes and declares."""

    keywords: tuple[str, ...]
    attributes: tuple[tuple[str, object], ...]
    dtypes: tuple[str, ...]

    def file_text(self, imported: str, told: Path) -> str:
        """The user's file: `imported` binds `posed`, and how long that takes is written to `told`."""
        taken = [f"{name}={OFF[name]!r}" for name in self.keywords]
        given = [f"{name}={name}" for name in self.keywords]
        return _POSED.format(
            imported=imported, told=str(told), dtypes=list(self.dtypes),
            signature=", ".join(["query", "key", "value", *(["*"] if taken else []), *taken]),
            arguments=", ".join(["query", "key", "value", *given]),
            attributes="\n".join(f"attend.{name} = {value!r}" for name, value in self.attributes))


@dataclass(frozen=True, slots=True)
class Costs:
    """One check: CPU and wall seconds, and those after which the first failure was told, 0 if none was.

    has_cause: whether its likely cause was told beside it.  last: the last line.
    """

    cpu: float
    wall: float
    first: float
    first_wall: float
    has_cause: bool
    last: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A fault's check, and that of the right function with the same signature."""

    target: str
    failing: Costs
    conforming: Costs

    @property
    def ratio(self) -> float:
        """How many conforming checks it costs."""
        return self.failing.cpu / self.conforming.cpu

    @property
    def share(self) -> float:
        """After which part of a conforming check's time the first failure was told."""
        return self.failing.first / self.conforming.cpu

    @property
    def line(self) -> str:
        """`3.9 s : 4.1 s = 0.95; first after 0.31 (with its cause): fault/…`."""
        cause = "with" if self.failing.has_cause else "without"
        return (f"{self.failing.cpu:5.1f} s : {self.conforming.cpu:4.1f} s = {self.ratio:.2f}; first after "
                f"{self.share:.2f} ({cause} its cause): {self.target.rpartition('/')[2]}")


def posable_targets(count: int, seed: int) -> list[str]:
    """So many of the faults that the seed draws that a function of few keywords can have, the mistakes among them."""
    drawn = [each for each in drawn_targets(POOL * count, seed) if not is_own(each) or _is_posable(_fault(each))]
    own = [each for each in drawn if is_own(each)]
    others = [each for each in drawn if not is_own(each)][: count // 5]
    return [*own[: count - len(others)], *others]


def _fault(target: str) -> Fault:
    return fault_named(target.removeprefix(FAULT))


def _is_posable(fault: Fault) -> bool:
    """Whether a function of dense attention has it, whatever else is done with the function."""
    is_dense = fault.kind is Kind.ATTENTION and fault.form is InputForm.DENSE
    return is_dense and not (fault.other_path or fault.backward or fault.made)


def signature_of(target: str, dtypes: Sequence[DType]) -> Signature:
    """The keywords that the bug needs to show, and what its function declares."""
    named = tuple(each.value for each in dtypes)
    if is_own(target):
        fault = _fault(target)
        needed = Matrix(lambda: CHECKS, lambda: REFUTATIONS).needed_keywords(fault) | {fault.stage}
        given = needed | {BESIDE[name] for name in needed & BESIDE.keys()}
        return Signature(tuple(sorted(given & OFF.keys())), (), named)
    sys.path.insert(0, str(MISTAKES.parent))
    function = getattr(__import__(MISTAKES.stem), target.rpartition(":")[2])
    declared = tuple((name, getattr(function, name)) for name in _ATTRIBUTES if hasattr(function, name))
    return Signature(tuple(inspect.signature(function).parameters)[3:], declared, named)


def import_lines(target: str) -> str:
    """The lines that bind `posed` to what is wrong about a target; "" is the right function."""
    if not target:
        return "from attnspec.faults.staged import staged\nposed = staged()()"
    if is_own(target):
        name = target.removeprefix(FAULT)
        return f"from attnspec.faults.catalogue import fault_named\nposed = fault_named({name!r}).function"
    name = target.rpartition(":")[2]
    return f"import sys\nsys.path.insert(0, {str(MISTAKES.parent)!r})\nfrom {MISTAKES.stem} import {name} as posed"


def surroundings(compiled: Path) -> dict[str, str]:
    """The variables of a check: one thread, and modules are compiled once, into this folder, as for any user."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONPYCACHEPREFIX": str(compiled)}


def check(text: str, folder: Path, effort: Effort, compiled: Path) -> Costs:
    """What `attnspec check` costs on a user's file with this text."""
    path = folder / "posed.py"
    path.write_text(text, encoding="utf-8")
    imports = folder / "imports"
    imports.unlink(missing_ok=True)
    command = [sys.executable, "-m", "attnspec", "check", f"{path.name}:attend", "--effort", effort.value, "-n", "1",
               "--no-record"]
    began, first, first_wall, has_cause, last = time.monotonic(), 0.0, 0.0, False, ""
    running = subprocess.Popen(command, cwd=folder, env=surroundings(compiled), text=True, encoding="utf-8",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert running.stdout is not None
    for line in running.stdout:
        last = line.strip() or last
        if line.startswith(FIRST) and not first:
            first = _cpu_so_far(running.pid) - _seconds_in(imports)
            first_wall, has_cause = time.monotonic() - began, CAUSE in line
    _, _, used = os.wait4(running.pid, 0)
    return Costs(used.ru_utime + used.ru_stime - _seconds_in(imports), time.monotonic() - began, first, first_wall,
                 has_cause, last)


def warm_up(compiled: Path) -> None:
    """Have modules compiled that any check imports, and those that only a failing one does."""
    with tempfile.TemporaryDirectory() as folder:
        text = Signature((), (), (DType.FLOAT32.value,)).file_text(import_lines(f"{FAULT}key_first_dropped"),
                                                                   Path(folder) / "imports")
        check(text, Path(folder), Effort.GLANCE, compiled)


def _seconds_in(imports: Path) -> float:
    return sum(map(float, imports.read_text(encoding="utf-8").split())) if imports.exists() else 0.0


def _cpu_so_far(pid: int) -> float:
    """CPU seconds of a process, of those that it has waited for, and of all that descend from it. Needs /proc."""
    seconds, children = dict[int, float](), dict[int, list[int]]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        process = int(stat.parent.name)
        seconds[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(fields[1]), []).append(process)
    total, left = 0.0, [pid]
    while left:
        process = left.pop()
        total += seconds.get(process, 0.0)
        left += children.get(process, [])
    return total


def read_record(record: Path | None) -> dict[str, Costs]:
    """What a record holds, by target, and of right functions by what they take."""
    lines = record.read_text(encoding="utf-8").splitlines() if record and record.exists() else []
    told = map(json.loads, lines)
    return {each.pop("of"): Costs(**each) for each in told}


def table(pairs: Sequence[Pair]) -> Iterator[str]:
    """The figures of the claim."""
    ratio, share = _medians(pairs)
    walls = statistics.median(each.failing.wall / each.conforming.wall for each in pairs)
    yield f"{len(pairs)} pairs; the faulty function costs (median) {ratio:.2f} of the right one (claimed: {DEARER})"
    yield f"  {sum(each.ratio <= DEARER for each in pairs)} cost at most {DEARER}; wall-clock, as a remark: {walls:.2f}"
    yield f"  the first failure is told after (median) {share:.2f} of a conforming check (claimed: {SHARE:.2f})"
    yield f"  {sum(each.failing.has_cause for each in pairs)} with a likely cause beside it"


def _medians(pairs: Sequence[Pair]) -> tuple[float, float]:
    return statistics.median(each.ratio for each in pairs), statistics.median(each.share for each in pairs)


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--count", default=40, show_default=True, help="Faults that are drawn.")
@click.option("--seed", default=1, show_default=True)
@click.option("--stride", default=1, show_default=True, help="Measure but every so many-th of them.")
@click.option("--effort", default="default", type=click.Choice([each.value for each in Effort]), show_default=True)
@click.option("--dtype", "dtypes", multiple=True, default=["float32"], show_default=True,
              type=click.Choice([each.value for each in DType]), help="What the functions take.")
@click.option("--record", type=click.Path(path_type=Path), help="A file to which each check is added; a run goes on.")
@click.option("--told", "is_told", is_flag=True, help="Measure nothing: say what the record holds.")
def main(*, count: int, seed: int, stride: int, effort: str, dtypes: Sequence[str], record: Path | None,
         is_told: bool) -> None:
    """Measure, and say what was measured."""
    targets, known, pairs = posable_targets(count, seed)[stride - 1::stride], read_record(record), list[Pair]()
    compiled = Path(tempfile.mkdtemp(prefix="compiled"))
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    if not is_told:
        warm_up(compiled)
    for target in targets:
        signature = signature_of(target, tuple(map(DType, dtypes)))
        names = {str(signature): "", target: target}
        for name in (each for each in names if each not in known and not is_told):
            with tempfile.TemporaryDirectory() as folder:
                text = signature.file_text(import_lines(names[name]), Path(folder) / "imports")
                known[name] = check(text, Path(folder), Effort(effort), compiled)
            if record:
                with record.open("a", encoding="utf-8") as lines:
                    lines.write(f"{json.dumps({'of': name, **asdict(known[name])})}\n")
        if not names.keys() <= known.keys():
            continue
        pair = Pair(target, known[target], known[str(signature)])
        if not pair.conforming.last.startswith("Conforms"):
            raise click.ClickException(f"the right function with {signature} is told: {pair.conforming.last}")
        if pair.failing.first:
            pairs.append(pair)
        click.echo(pair.line if pair.failing.first else f"  -- is not found: {target}. {pair.failing.last}")
    if not pairs:
        raise click.ClickException("no faulty function that was measured was found out: draw more of them")
    for line in table(pairs):
        click.echo(line)
    ratio, share = _medians(pairs)
    is_whole = all(each in known for each in targets)
    raise SystemExit(2 if not is_whole else not (ratio <= DEARER and share <= SHARE))


if __name__ == "__main__":
    main()
