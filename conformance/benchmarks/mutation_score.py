"""The mutation score: of right kernels with one change each, how many the suite convicts at a glance.

    python conformance/benchmarks/mutation_score.py --seed 0 --record mutants.jsonl      # goes on where it was stopped
    python conformance/benchmarks/mutation_score.py --count 60 --kernel dense --kernel paged
    python conformance/benchmarks/mutation_score.py --seed 0 --record mutants.jsonl --again 'paged/*'  # some anew

Mutants whose answers stay within rounding of their kernel's, on a battery of its own (`mutation/battery.py`), are
equivalent and dropped. Of the others those with wrong values count, and those that only raise where their kernel
answers. `mutation/survivors.yaml` says of mutants that conform why they do. Exit codes: 0 every survivor has a reason,
1 one has none or a reason is out of date, 2 the record is of other code or another spec.
"""

from __future__ import annotations

import os

# before NumPy is imported: one thread, as in the engine's workers
os.environ["OMP_NUM_THREADS"] = "1"

import hashlib
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import click
import yaml
from attnspec.core.nouns import Effort
from attnspec.core.plan import Plan
from attnspec.ranking.jobs import as_ranking, find_kernels
from attnspec.ranking.kernels import KernelWorker
from attnspec.record.events import KernelRanked, KernelStanding
from attnspec.runner.session import prepared_environment
from attnspec.spec.load import load_spec
from evaluation.false_alarms.jobs import code_digest
from mutation.battery import Answers, Compared
from mutation.kernel_mutants import KernelMutant, chosen_mutants, kernel_files

BATTERY = Path(__file__).parent / "mutation" / "battery.py"
SURVIVORS = Path(__file__).parent / "mutation" / "survivors.yaml"
LOST = "lost"
"""The standing of a mutant over which attnspec itself stumbled."""

DEADLINE = 30.0
"""Seconds that one clause may take at one dtype, as in `attnspec rank`."""


@dataclass(frozen=True, slots=True)
class MutantJudged:
    """One mutant. standing: "" of an equivalent one, which is not ranked. failing: the first clause that failed."""

    id: str
    digest: str
    before: str
    after: str
    answers: Answers
    calls: int
    wrong: int
    raised: int
    example: str
    standing: str = ""
    failing: str = ""
    refused: tuple[str, ...] = ()
    reason: str = ""
    seconds: float = 0.0

    @property
    def is_convicted(self) -> bool:
        """Whether a clause failed: a mutant that could not be judged is not convicted."""
        return self.standing == KernelStanding.VIOLATED.value

    @property
    def survives(self) -> bool:
        """Whether it is no equivalent and not convicted."""
        return self.standing not in {"", KernelStanding.VIOLATED.value}

    def as_json(self) -> str:
        """The record's line."""
        return json.dumps({**asdict(self), "answers": self.answers.value})


def read_line(line: str) -> MutantJudged:
    """A mutant from the record's line."""
    told = json.loads(line)
    return MutantJudged(**{**told, "answers": Answers(told["answers"]), "refused": tuple(told["refused"])})


@cache
def _worker() -> KernelWorker:
    """What ranks, in this process: it keeps what is known of problems for the next mutant. A mutant is dropped at its
    first failure, and nobody asks for its cause.
    """
    return KernelWorker(replace(as_ranking(Plan((), effort=Effort.GLANCE, deadline=DEADLINE), 1), diagnosed=0), 1,
                        lambda _: None)


def judge_mutant(mutant: KernelMutant) -> MutantJudged:
    """A mutant compared with its kernel, and ranked if its answers differ."""
    with tempfile.TemporaryDirectory() as folder, prepared_environment():
        file = Path(folder) / f"{mutant.kernel}.py"
        file.write_text(mutant.text, encoding="utf-8")
        compared = beside_its_kernel(mutant.kernel, file)
        known = MutantJudged(mutant.id, mutant.digest, mutant.before, mutant.after, **_fields(compared))
        if compared.answers is Answers.EQUAL:
            return known
        [target] = find_kernels([str(file)])
        try:
            ranked = _worker().rank(target)
        except Exception as defect:  # attnspec's own; the others are judged all the same
            return replace(known, standing=LOST, reason=f"attnspec itself: {defect!r}")
        return _with_rank(known, ranked, folder)


def _fields(compared: Compared) -> Mapping[str, Any]:
    return {**asdict(compared), "answers": compared.answers}


def _with_rank(mutant: MutantJudged, ranked: KernelRanked, folder: str) -> MutantJudged:
    first = ranked.first
    failing = f"{first.clause} {first.dtype}: {first.seen}" if first else ""
    failing, reason = (text.replace(f"{folder}/", "").partition("\n")[0]
                       for text in (failing, ranked.reason or ranked.death or ranked.stopped))
    return replace(mutant, standing=ranked.verdict.value, failing=failing, refused=ranked.refused, reason=reason,
                   seconds=round(ranked.seconds, 1))


def beside_its_kernel(kernel: str, file: Path) -> Compared:
    """What the battery says, in a process of its own, which may end in any way."""
    command = [sys.executable, str(BATTERY), str(kernel_files()[kernel]), str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return Compared(Answers.NEVER_END, example=f"exit code {ended.returncode} {ended.stderr[-200:]}")
    told = json.loads(ended.stdout)
    return Compared(**{**told, "answers": Answers(told["answers"])})


def header() -> Mapping[str, str]:
    """What a record is bound to: the code that judges, the spec, and the battery."""
    battery = hashlib.sha256(BATTERY.read_bytes()).hexdigest()[:16]
    return {"code": code_digest(), "spec": load_spec().digest, "battery": battery}


def read(record: Path | None) -> Mapping[str, MutantJudged]:
    """What the record knows, by id; an empty one is begun."""
    if record is None:
        return {}
    if not record.exists() or not record.stat().st_size:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(header()) + "\n", encoding="utf-8")
        return {}
    first, *lines = record.read_text("utf-8").splitlines()
    if json.loads(first) != header():
        click.echo(f"{record} is of other code or another spec. Name another file, or delete it.", err=True)
        sys.exit(2)
    return {each.id: each for each in map(read_line, lines)}


def carry_out(todo: Sequence[KernelMutant], record: Path | None, workers: int) -> Iterator[MutantJudged]:
    """The mutants as they are judged; each is written at once."""
    spawn = multiprocessing.get_context("spawn")
    with prepared_environment(), ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        for ended in as_completed([pool.submit(judge_mutant, mutant) for mutant in todo]):
            mutant = ended.result()
            if record:
                with record.open("a", encoding="utf-8") as file:
                    file.write(mutant.as_json() + "\n")
            yield mutant


def reasons() -> Mapping[str, Mapping[str, str]]:
    """Why a mutant conforms, by id, with the line that the reason is about."""
    return yaml.safe_load(SURVIVORS.read_text("utf-8")) or {}


def table(mutants: Sequence[MutantJudged]) -> Iterator[str]:
    """What is convicted, in Markdown."""
    yield "| kernel | mutants | equivalent | wrong | convicted | only raise | convicted | never end | convicted |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in (*sorted({_kernel(each) for each in mutants}), ""):
        of = [each for each in mutants if not name or _kernel(each) == name]
        cells = [str(len(of)), str(sum(each.answers is Answers.EQUAL for each in of))]
        for answers in (Answers.WRONG, Answers.RAISES, Answers.NEVER_END):
            meant = [each for each in of if each.answers is answers]
            convicted = sum(each.is_convicted for each in meant)
            cells += [str(len(meant)), f"{convicted} ({convicted / len(meant):.1%})" if meant else "–"]
        yield f"| {name or 'all'} | {' | '.join(cells)} |"


def _kernel(mutant: MutantJudged) -> str:
    return mutant.id.partition("/")[0]


def survivors(mutants: Sequence[MutantJudged]) -> Iterator[tuple[MutantJudged, str]]:
    """The mutants that are not convicted though their answers differ, the wrong ones first, each with the reason, if
    one is known and is about the line that the mutant changes.
    """
    known, order = reasons(), list(Answers)
    for mutant in sorted(mutants, key=lambda each: (order.index(each.answers), each.id)):
        if mutant.survives:
            told = known.get(mutant.id, {})
            yield mutant, told.get("reason", "") if told.get("now") == mutant.after else ""


def told_survivor(mutant: MutantJudged, reason: str) -> str:
    """The mutant with its change, where it differs, and why it conforms."""
    refused = f"\n    refuses {', '.join(mutant.refused)}" if mutant.refused else ""
    why_not = f"\n    {mutant.reason}" if mutant.reason else ""
    return (f"{mutant.answers.value}, {mutant.standing}: {mutant.id}\n  - {mutant.before}\n  + {mutant.after}\n"
            f"    {mutant.wrong} wrong, {mutant.raised} raise of {mutant.calls}; {mutant.example}{refused}{why_not}\n"
            f"    why: {reason or '?'}")


@click.command(help=(__doc__ or "").partition("\n\n")[0])
@click.option("--seed", default=0, show_default=True, help="Which mutants are chosen.")
@click.option("--count", default=300, show_default=True, help="How many.")
@click.option("--kernel", "names", multiple=True, type=click.Choice(list(kernel_files())), help="Only of this kernel.")
@click.option("--record", type=click.Path(path_type=Path), help="A line for each mutant; the run goes on in it.")
@click.option("--again", multiple=True, help="Judge mutants anew whose id is, or is like, this one.")
@click.option("-n", "workers", default=1, show_default=True)
def mutation_score(seed: int, count: int, names: tuple[str, ...], record: Path | None, *, again: tuple[str, ...],
                   workers: int) -> None:
    """Judge what is missing, and tell what survives."""
    chosen, known = chosen_mutants(count, seed, names), dict(read(record))
    known = {name: each for name, each in known.items() if not any(fnmatchcase(name, like) for like in again)}
    todo = [each for each in chosen if each.id not in known or known[each.id].digest != each.digest]
    for number, mutant in enumerate(carry_out(todo, record, workers), start=1):
        known[mutant.id] = mutant
        standing = f"{mutant.answers.value:<9}  {mutant.standing or 'equivalent':<10}"
        click.echo(f"{number}/{len(todo)}  {standing}  {mutant.id}  {mutant.failing[:90]}")
    found = [known[each.id] for each in chosen]
    left = list(survivors(found))
    click.echo("\n".join(["", *table(found), "", *(told_survivor(*each) for each in left)]))
    click.echo(f"{sum(each.seconds for each in found):.0f} s of ranking")
    sys.exit(any(not reason for _, reason in left))


if __name__ == "__main__":
    mutation_score()
