"""Whether effort thorough accuses a correct implementation: every `must` clause on every dense sound formulation, at
every dtype, on 150 cases of up to 8,192 queries and keys.

    python conformance/benchmarks/thorough.py reports/run/thorough.jsonl          # goes on where it was stopped
    python conformance/benchmarks/thorough.py mine.jsonl --dtype float16 --sound naive --clause 'causal.*'
    python conformance/benchmarks/thorough.py reports/power/thorough.jsonl --table

It takes hours. A line is one clause at one dtype on all formulations, so that what the definition says is worked out
once for those that are held to the same. A record of other code, another spec or another seed is not gone on with.
Exit codes: 0 nothing was accused, 1 something was or it was stopped, 2 the record is of other code, spec or seed.
"""

from __future__ import annotations

import os

# before NumPy is imported: one thread, as in the engine's workers
os.environ["OMP_NUM_THREADS"] = "1"

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import click
import numpy as np
from attnspec.core.coverage import joined_spans
from attnspec.core.nouns import DType, Effort, Level
from attnspec.faults.sound import DENSE, EVERY
from attnspec.faults.subject import own_subject
from attnspec.spec.load import load_spec
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check, compile_spec
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Archive, Evaluator, Memory
from attnspec.trials.judging import Tally
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial
from evaluation.false_alarms.jobs import code_digest
from resumed_record import Line, append_lines, open_record, read_lines

SEED = 0
KEPT, KEPT_BYTES = 1024, 2**30
"""Problems, and as many expectations, that the formulations of one clause share, and bytes of each."""


@cache
def checks() -> Mapping[str, Check]:
    """All clauses, compiled: sizes are dealt among all."""
    return compile_spec(load_spec())


@cache
def subject_of(name: str) -> tuple[Subject, Dealer]:
    """A formulation, and what deals it sizes."""
    subject = own_subject(f"sound/{name}")
    return subject, Dealer(subject, checks, Effort.THOROUGH, SEED)


def judge_clause(clause: str, dtype: str, names: Sequence[str]) -> Line:
    """One clause at one dtype on these formulations, which take it: the record's line."""
    began, archives, tallies = time.perf_counter(), dict[str, Archive](), dict[str, Tally]()
    for name in names:
        subject, dealer = subject_of(name)
        plain = Evaluator(subject, DType(dtype))
        archive = archives.setdefault(plain.shared_by, Archive(Memory(KEPT, KEPT_BYTES), Memory(KEPT, KEPT_BYTES)))
        evaluator = Evaluator(subject, DType(dtype), plain.conventions, archive=archive)
        tallies[name] = _hold_check(checks()[clause], evaluator, dealer)
    return {"clause": clause, "dtype": dtype, "seconds": round(time.perf_counter() - began, 1),
            "spans": joined_spans(tally.spans for tally in tallies.values()),
            "put": {name: _format_tally(tally) for name, tally in tallies.items()}}


def _hold_check(check: Check, evaluator: Evaluator, dealer: Dealer) -> Tally:
    return Trial(check, evaluator, Effort.THOROUGH, seed_of(SEED, check.domain), lambda _: None, shrinks=False,
                 shapes=dealer.shapes(check, evaluator.dtype)).hold()


def _format_tally(tally: Tally) -> Line:
    worst = float(tally.worst.margin) if tally.worst else 0.0
    told = {"cases": tally.cases, "no_claims": tally.no_claims, "margin": worst}
    failing = tally.failing_recipe
    return told if tally.failure is None else {
        **told, "accused": str(tally.failure), "case": failing.text if failing else ""}


def header() -> Line:
    """What has to be the same for a record to be gone on with."""
    return {"spec": load_spec().digest, "code": code_digest(), "numpy": np.__version__, "seed": SEED,
            "python": ".".join(map(str, sys.version_info[:2]))}


def jobs(known: Sequence[Line], dtypes: Sequence[str], clauses: Sequence[str], names: Sequence[str]) -> Iterator[
        tuple[str, str, tuple[str, ...]]]:
    """What is still to be judged: of a line that is there, the formulations that it lacks."""
    done = {(line["clause"], line["dtype"], name) for line in known for name in line["put"]}
    for dtype in dtypes:
        for clause, check in checks().items():
            left = tuple(name for name in names if (clause, dtype, name) not in done
                         and DType(dtype) in subject_of(name)[0].declaration.dtypes
                         and not check.why_not_put(subject_of(name)[0]))
            if left and check.clause.level is Level.MUST and any(fnmatch(clause, pattern) for pattern in clauses):
                yield clause, dtype, left


def table(lines: Sequence[Line]) -> Iterator[str]:
    """In Markdown: by formulation, the cases and the largest margin at each dtype, and how often it was accused."""
    put = [(line["dtype"], name, said) for line in lines for name, said in line["put"].items()]
    dtypes = [dtype.value for dtype in DType if any(dtype.value == each[0] for each in put)]
    yield f"| formulation | {' | '.join(dtypes)} |"
    yield f"|---{'|---' * len(dtypes)}|"
    for name in EVERY:
        if not any(name == each[1] for each in put):
            continue
        cells = [_cell([said for at, who, said in put if (at, who) == (dtype, name)]) for dtype in dtypes]
        yield f"| `{name}` | {' | '.join(cells)} |"


def _cell(said: Sequence[Line]) -> str:
    if not said:
        return "–"
    worst, accused = max(float(each["margin"]) for each in said), sum("accused" in each for each in said)
    told = f"{sum(each['cases'] for each in said):,}; {worst:.3g}"
    return f"{told}; accused by {accused} clauses" if accused else told


@click.command(help=(__doc__ or "").partition("\n\n")[0])
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice([each.value for each in DType]))
@click.option("--sound", "patterns", multiple=True, default=tuple(DENSE),
              help="Formulations, by name or pattern. [default: the dense ones]")
@click.option("--clause", "clauses", multiple=True, default=("*",), help="Clauses, by id or pattern.")
@click.option("-n", "workers", default=2, show_default=True)
@click.option("--table", "is_table", is_flag=True, help="Judge nothing; print what the record says.")
def thorough(record: Path, dtypes: tuple[str, ...], patterns: tuple[str, ...], clauses: tuple[str, ...], workers: int,
             *, is_table: bool) -> None:
    """Judge what is missing, and say who was accused."""
    if is_table:
        click.echo("\n".join(table(read_lines(record))))
        return
    known = open_record(record, header())
    names = [name for name in EVERY if any(fnmatch(name, pattern) for pattern in patterns)]
    todo = list(jobs(known, dtypes or tuple(each.value for each in DType), clauses, names))
    lines = list(known)
    for line in append_lines(record, judge_clause, todo, workers):
        lines.append(line)
        click.echo(f"{len(lines) - len(known)} of {len(todo)}: {line['clause']} {line['dtype']} {line['seconds']} s")
    accused = [f"{name} {line['clause']} {line['dtype']}: {said['accused']}\n  {said['case']}"
               for line in lines for name, said in line["put"].items() if "accused" in said]
    click.echo("\n".join(accused) or "nothing was accused")
    sys.exit(bool(accused))


if __name__ == "__main__":
    thorough()
